package v1

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"time"
)

// SSHKeyRequest registers a public key.
type SSHKeyRequest struct {
	Key     string     `json:"key" doc:"the line of a .pub file" maxLength:"16384"`
	Name    string     `json:"name,omitempty" doc:"left out, the key's own comment" maxLength:"64"`
	Expires *time.Time `json:"expires,omitempty" doc:"left out, it stays until it is removed"`
}

// SSHKey is a public key by which a user is known over SSH.
type SSHKey struct {
	Fingerprint string     `json:"fingerprint" doc:"SHA256:…, as ssh-keygen -l shows it"`
	Name        string     `json:"name"`
	Type        string     `json:"type"`
	Created     time.Time  `json:"created"`
	Expires     *time.Time `json:"expires,omitempty"`
}

// AddSSHKey registers a public key; one of the user's own gets the new name and end.
func (c *Client) AddSSHKey(ctx context.Context, user string, in SSHKeyRequest, opts ...Option) (*SSHKey, error) {
	return postTo[SSHKey](ctx, c, "user", user, "/v1/users/%s/ssh-keys", in, opts...)
}

// SSHKeys goes through a user's keys.
func (c *Client) SSHKeys(ctx context.Context, user string) iter.Seq2[SSHKey, error] {
	return pages[SSHKey](ctx, c, "/v1/users/"+url.PathEscape(user)+"/ssh-keys", nil)
}

// RemoveSSHKey takes a key away, and ends what is open by it.
func (c *Client) RemoveSSHKey(ctx context.Context, user, fingerprint string) error {
	u, err := segment("user", user)
	if err != nil {
		return err
	}
	k, err := segment("key", fingerprint)
	if err != nil {
		return err
	}
	return c.call(ctx, http.MethodDelete, "/v1/users/"+u+"/ssh-keys/"+k, nil, nil, nil)
}
