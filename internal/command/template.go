package command

import (
	"encoding/json"
	"slices"
	"strings"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/asset"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

// The bounds of users' templates.
const (
	maxTemplates    = 50       // of one user
	maxTemplateSpec = 64 << 10 // bytes of JSON
)

// TemplatePut keeps a template of workspaces for its user, in place of what he has of that
// name. Its environment may hold secrets, so the log keeps only its digest.
type TemplatePut struct {
	Name    string
	About   string     `json:",omitempty"`
	Account *string    `json:",omitempty"` // whose members may use it too, empty: nobody else; nil: as it was
	Spec    v1.JobSpec `json:"-"`
	Digest  string     `json:"spec_digest"`
}

// Kind is template.set.
func (TemplatePut) Kind() string { return "template.set" }

// Decide puts it.
func (c TemplatePut) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	user := id.User(at.Principal.User)
	if user == 0 || !w.Can(at.Principal, access.TokenRun, user, 0) {
		return world.Outcome{}, fault.New(codes.Denied, "a template is a user's own")
	}
	spec, err := c.spec(w, at)
	if err != nil {
		return world.Outcome{}, err
	}
	old, again := w.Assets.Template(user, c.Name)
	row := asset.Template{User: user, Name: c.Name, Account: old.Account, About: c.About, Spec: spec, Changed: at.Now}
	if c.Account != nil {
		if row.Account, err = sharedWith(w, at, *c.Account); err != nil {
			return world.Outcome{}, err
		}
	}
	if n := templatesOf(w, user); !again && n >= maxTemplates {
		return world.Outcome{}, fault.New(codes.Conflict, "you have %d templates, as many as one may have: croft template rm some", n)
	}
	return world.Outcome{
		Changes: []world.Change{asset.TemplateSet{Row: row}}, Result: row,
		Event: world.Event{Account: row.Account, Message: "workspaces can be made of template " + at.Principal.Name + "/" + row.Name},
	}, nil
}

// spec checks that workspaces can be made of the template. What it leaves out stays so: it
// is filled in for whoever starts one.
func (c TemplatePut) spec(w *world.World, at world.Context) (v1.JobSpec, error) {
	var bad fault.Fields
	switch {
	case !workload.WorkspaceName(c.Name):
		bad.Add("name", "%q can't be a template's: at most 63 small letters, digits and dashes within, not digits alone", c.Name)
	case slices.Contains(w.Site.Templates, c.Name):
		bad.Add("name", "%s is a template of the site's: take another name", c.Name)
	}
	if len(c.About) > maxComment || strings.ContainsAny(c.About, "\r\n") {
		bad.Add("about", "must be one line of at most %d bytes", maxComment)
	}
	if k := c.Spec.Kind; k != "" && k != v1.KindWorkspace {
		bad.Add("kind", "%q isn't what a template makes: leave it out, or say workspace", k)
	}
	if c.Spec.Begin != "" {
		bad.Add("begin", "is of one job: leave it out, and say it at the start")
	}
	text, err := json.Marshal(c.Spec)
	if err != nil {
		return v1.JobSpec{}, err
	}
	if len(text) > maxTemplateSpec {
		bad.Add("spec", "has more than %d bytes", maxTemplateSpec)
	}
	if err := bad.Err(); err != nil {
		return v1.JobSpec{}, err
	}
	var spec v1.JobSpec // as it is read again: what is empty isn't there
	if err := json.Unmarshal(text, &spec); err != nil {
		return spec, err
	}
	spec.Kind, spec.Name = v1.KindWorkspace, c.Name
	_, err = workload.Parse(atHome(spec), workload.Defaults{CPU: workload.MinCPU, Mem: workload.MinMemory, Time: 1e9, MaxGrace: w.Site.MaxGrace, Now: at.Now})
	return spec, err
}

// atHome is a spec whose mounts are below some user's home in place of ~.
func atHome(spec v1.JobSpec) v1.JobSpec {
	spec.Mounts = slices.Clone(spec.Mounts)
	for i, m := range spec.Mounts {
		if rest, ok := strings.CutPrefix(m.Source, workload.Home); ok && (rest == "" || rest[0] == '/') {
			spec.Mounts[i].Source = "/home/user" + rest
		}
	}
	return spec
}

func templatesOf(w *world.World, user id.User) (n int) {
	for _, t := range w.Assets.Templates() {
		if t.User == user {
			n++
		}
	}
	return n
}

// TemplateRemove removes a template. Workspaces that were made of it stay.
type TemplateRemove struct{ User, Name string }

// Kind is template.remove.
func (TemplateRemove) Kind() string { return "template.remove" }

// Decide removes it. One that the caller may not see isn't there.
func (c TemplateRemove) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	user, _ := w.Tenancy.User(c.User)
	row, ok := w.Assets.Template(user.ID, c.Name)
	if !ok || !w.SeesTemplate(at.Principal, row) {
		return world.Outcome{}, fault.NotFound("template", c.User+"/"+c.Name)
	}
	if !w.Can(at.Principal, access.TokenRun, row.User, 0) {
		return world.Outcome{}, fault.New(codes.Denied, "template %s/%s isn't yours to remove", c.User, c.Name)
	}
	row.Removed, row.Changed = true, at.Now
	return world.Outcome{
		Changes: []world.Change{asset.TemplateSet{Row: row}}, Result: row,
		Event: world.Event{Account: row.Account, Message: "template " + c.User + "/" + c.Name + " is removed"},
	}, nil
}
