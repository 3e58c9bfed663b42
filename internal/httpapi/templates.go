package httpapi

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/asset"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/workload"
)

func templateOperations() []operation {
	return []operation{
		ask("listTemplates", "GET /v1/templates", "Templates of workspaces: the site's, and users' own that you may use", access.NodeSee, (*call).templates,
			param{"user", "this user's, or * for everybody's that you may see, without the site's"}),
		tell("setTemplate", "POST /v1/templates", "Keep a template of your own; one of the same name is replaced", access.TokenRun, ok, (*call).setTemplate),
		drop("removeTemplate", "DELETE /v1/templates/{owner}/{name}", "Remove a user's template; workspaces that were made of it stay", access.TokenRun, (*call).removeTemplate),
	}
}

func (c *call) templates() (v1.Page[v1.Template], error) {
	user := c.r.URL.Query().Get("user")
	users := c.Reader.Templates(c.p, user)
	if user == "" {
		users = slices.Concat(c.Templates, users)
	}
	return page(users, nil)
}

func (c *call) setTemplate(in v1.TemplateRequest) (v1.Template, error) {
	spec, err := c.anybodys(in.Spec)
	if err != nil {
		return v1.Template{}, err
	}
	sum := sha256.Sum256(c.body)
	got, err := c.do(command.TemplatePut{Name: in.Name, About: in.About, Account: in.Account, Spec: spec, Digest: hex.EncodeToString(sum[:])})
	if err != nil {
		return v1.Template{}, err
	}
	row, isRow := got.Result.(asset.Template)
	if !isRow {
		return v1.Template{}, unexpected(got)
	}
	return c.Reader.TemplateOf(row), nil
}

// anybodys is a spec with ~ in place of the caller's whole home in what is to be mounted, as
// workspaces have it that run: it is for the home of whoever starts one.
func (c *call) anybodys(in v1.JobSpec) (v1.JobSpec, error) {
	if len(in.Mounts) == 0 {
		return in, nil
	}
	who, known, err := c.person(c.p.Name)
	if err != nil || !known || who.Home == "" {
		return in, err
	}
	in.Mounts = slices.Clone(in.Mounts)
	for i, m := range in.Mounts {
		if m.Source == who.Home && (m.Target == "" || m.Target == who.Home) {
			in.Mounts[i].Source, in.Mounts[i].Target = workload.Home, ""
		}
	}
	return in, nil
}

func (c *call) removeTemplate() error {
	owner, name := c.path("owner"), c.path("name")
	_, err := c.do(command.TemplateRemove{User: owner, Name: name})
	site := slices.ContainsFunc(c.Templates, func(t v1.Template) bool { return t.Name == name })
	if fault.Of(err) == codes.NotFound && owner == c.p.Name && site {
		return fault.New(codes.NotFound, "you have no template %s; the one of that name is the site's, which its configuration has", name)
	}
	return err
}
