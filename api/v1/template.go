package v1

import (
	"context"
	"iter"
)

// Template is a kind of workspace, which the site offers. Its spec is submitted as it is, or
// with changes.
type Template struct {
	Name  string  `json:"name"`
	About string  `json:"about,omitempty"`
	Spec  JobSpec `json:"spec"`
}

// Templates goes through the templates of workspaces.
func (c *Client) Templates(ctx context.Context) iter.Seq2[Template, error] {
	return pages[Template](ctx, c, "/v1/templates", nil)
}
