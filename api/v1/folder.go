package v1

import (
	"context"
	"iter"
	"net/http"
	"net/url"
)

// Folder is a folder of the machine that jobs of an account find.
type Folder struct {
	Account  string            `json:"account,omitempty" doc:"and those below it; empty: everybody's, or of an account above yours that you may not see"`
	Name     string            `json:"name"`
	Path     string            `json:"path" doc:"on the machine"`
	Target   string            `json:"target,omitempty" doc:"in jobs; by default /shared/ACCOUNT/NAME"`
	ReadOnly bool              `json:"read_only,omitempty"`
	Env      map[string]string `json:"env,omitempty" doc:"variables of jobs that have it"`
	Comment  string            `json:"comment,omitempty" maxLength:"500"`
}

// Folders lists the folders of the accounts that one may see.
func (c *Client) Folders(ctx context.Context) iter.Seq2[Folder, error] {
	return pages[Folder](ctx, c, "/v1/folders", nil)
}

// SetFolder makes a folder, in place of one of the same account and name.
func (c *Client) SetFolder(ctx context.Context, in Folder) (*Folder, error) {
	out := new(Folder)
	return out, c.call(ctx, http.MethodPost, "/v1/folders", nil, in, out)
}

// RemoveFolder removes a folder of an account, or with none everybody's, from what jobs
// find.
func (c *Client) RemoveFolder(ctx context.Context, account, name string) error {
	n, err := segment("folder", name)
	if err != nil {
		return err
	}
	q := url.Values{}
	if account != "" {
		q.Set("account", account)
	}
	return c.call(ctx, http.MethodDelete, "/v1/folders/"+n, q, nil, nil)
}
