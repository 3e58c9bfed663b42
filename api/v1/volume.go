package v1

import (
	"context"
	"iter"
	"net/http"
	"net/url"
)

// Volume is a folder of a user's that jobs mount by its name and that outlives them.
type Volume struct {
	Name  string   `json:"name"`
	Size  Quantity `json:"size" doc:"what it takes of the disk"`
	InUse bool     `json:"in_use,omitempty" doc:"a job has it that hasn't been cleared away"`
}

// Volumes lists a user's volumes.
func (c *Client) Volumes(ctx context.Context, user string) iter.Seq2[Volume, error] {
	return pages[Volume](ctx, c, "/v1/users/"+url.PathEscape(user)+"/volumes", nil)
}

// RemoveVolume deletes a volume with all that is in it. The error has the code conflict
// while a job has it.
func (c *Client) RemoveVolume(ctx context.Context, user, name string) error {
	u, err := segment("user", user)
	if err != nil {
		return err
	}
	v, err := segment("volume", name)
	if err != nil {
		return err
	}
	return c.call(ctx, http.MethodDelete, "/v1/users/"+u+"/volumes/"+v, nil, nil, nil)
}
