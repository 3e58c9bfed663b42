package v1

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"time"
)

// Template is a kind of workspace: the site's, or a user's own. Its spec is submitted as it
// is, or with changes.
type Template struct {
	Name    string     `json:"name"`
	User    string     `json:"user,omitempty" doc:"whose it is; empty: the site's"`
	Account string     `json:"account,omitempty" doc:"whose members may use it too"`
	About   string     `json:"about,omitempty"`
	Changed *time.Time `json:"changed,omitempty"`
	Spec    JobSpec    `json:"spec"`
}

// TemplateRequest keeps a template of one's own, in place of one of the same name.
type TemplateRequest struct {
	Name    string  `json:"name" doc:"none of the site's; workspaces of it are called so where nothing else is said"`
	Account *string `json:"account,omitempty" doc:"whose members may use it too; empty: nobody else. By default as it was"`
	About   string  `json:"about,omitempty" maxLength:"500"`
	Spec    JobSpec `json:"spec" doc:"as a job file says it. What is left out is filled in for whoever starts a workspace; ~ in mounts is his home"`
}

// TemplateQuery says which templates are listed.
type TemplateQuery struct {
	User string // this user's, or * for everybody's that one may see; by default the site's and those that one may use
}

// Templates goes through templates of workspaces, the site's first.
func (c *Client) Templates(ctx context.Context, q TemplateQuery) iter.Seq2[Template, error] {
	v := url.Values{}
	if q.User != "" {
		v.Set("user", q.User)
	}
	return pages[Template](ctx, c, "/v1/templates", v)
}

// SetTemplate keeps a template of one's own.
func (c *Client) SetTemplate(ctx context.Context, in TemplateRequest) (*Template, error) {
	out := new(Template)
	return out, c.call(ctx, http.MethodPost, "/v1/templates", nil, in, out)
}

// RemoveTemplate removes a user's template. Workspaces that were made of it stay.
func (c *Client) RemoveTemplate(ctx context.Context, user, name string) error {
	u, err := segment("template", user)
	if err != nil {
		return err
	}
	n, err := segment("template", name)
	if err != nil {
		return err
	}
	return c.call(ctx, http.MethodDelete, "/v1/templates/"+u+"/"+n, nil, nil, nil)
}
