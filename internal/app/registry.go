package app

import (
	"fmt"
	"path/filepath"

	"croft.dev/croft/internal/config"
	"croft.dev/croft/internal/registry"
	"croft.dev/croft/internal/seal"
	"croft.dev/croft/internal/tenancy"
)

// registries checks logins to registries of images, and seals and opens what is kept of
// them.
type registries struct {
	*registry.Client
	key seal.Key
}

// sealFile is the file of the key, in the data directory and not in the database: a copy
// of the database alone gives no password away.
const sealFile = "seal.key"

func newRegistries(c config.Config) (*registries, error) {
	e := c.Engine
	client, err := registry.New(registry.Config{CAFile: string(e.CAFile), HTTPProxy: e.Proxy.HTTP, HTTPSProxy: e.Proxy.HTTPS, NoProxy: e.Proxy.NoProxy})
	if err != nil {
		return nil, err
	}
	key, err := seal.Load(filepath.Join(string(c.Data), sealFile))
	if err != nil {
		return nil, fmt.Errorf("the key that passwords for registries are sealed with: %w", err)
	}
	return &registries{client, key}, nil
}

// Seal implements httpapi.Registries.
func (r *registries) Seal(password, thing string) string { return r.key.Seal(password, thing) }

// open is for images: the password that a credential holds.
func (r *registries) open(c tenancy.Credential) (string, error) {
	return r.key.Open(c.Sealed, c.Thing())
}
