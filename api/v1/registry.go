package v1

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"time"
)

// RegistryLogin is how a user is known to a registry of images. The password is sent and
// never told.
type RegistryLogin struct {
	Username string `json:"username" maxLength:"256"`
	Password string `json:"password" doc:"or a token in its place"`
}

// Registry is one that a user is logged in to.
type Registry struct {
	Registry string    `json:"registry" doc:"its host, such as ghcr.io or hub.lab:5000"`
	Username string    `json:"username"`
	Changed  time.Time `json:"changed"`
}

// LoginRegistry keeps a user's name and password at a registry, once that says that they
// are good.
func (c *Client) LoginRegistry(ctx context.Context, user, registry string, in RegistryLogin) (*Registry, error) {
	out := new(Registry)
	path, err := registryPath(user, registry)
	if err != nil {
		return nil, err
	}
	if err := c.call(ctx, http.MethodPut, path, nil, in, out); err != nil {
		return nil, err
	}
	return out, nil
}

// LogoutRegistry forgets a user's password at a registry.
func (c *Client) LogoutRegistry(ctx context.Context, user, registry string) error {
	path, err := registryPath(user, registry)
	if err != nil {
		return err
	}
	return c.call(ctx, http.MethodDelete, path, nil, nil, nil)
}

// Registries lists where a user is logged in.
func (c *Client) Registries(ctx context.Context, user string) iter.Seq2[Registry, error] {
	return pages[Registry](ctx, c, "/v1/users/"+url.PathEscape(user)+"/registries", nil)
}

func registryPath(user, registry string) (string, error) {
	u, err := segment("user", user)
	if err != nil {
		return "", err
	}
	r, err := segment("registry", registry)
	return "/v1/users/" + u + "/registries/" + r, err
}
