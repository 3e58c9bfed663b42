package httpapi

import (
	"context"
	"strings"
	"unicode"
	"unicode/utf8"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/sequencer"
	"croft.dev/croft/internal/tenancy"
	"croft.dev/croft/internal/workload"
)

// Registries says whether a login to a registry of images is good, and seals what is kept
// of it.
type Registries interface {
	// Check asks the registry. The error is a *fault.Error.
	Check(ctx context.Context, registry, username, password string) error
	// Seal makes a password unreadable but for the server; thing says what for.
	Seal(password, thing string) string
}

// The bounds of what is kept of a login to a registry, in bytes; a password may be a
// key file.
const (
	maxUsername = 256
	maxSecret   = 16 << 10
)

func registryOperations() []operation {
	return []operation{
		ask("listRegistries", "GET /v1/users/{name}/registries", "Registries of images that a user is logged in to, without passwords", access.TokenRun, (*call).registries),
		tell("loginRegistry", "PUT /v1/users/{name}/registries/{registry}", "Keep a user's name and password at a registry of images, once that takes them", access.TokenRun, ok, (*call).loginRegistry),
		drop("logoutRegistry", "DELETE /v1/users/{name}/registries/{registry}", "Forget a user's password at a registry of images", access.TokenRun, (*call).logoutRegistry),
	}
}

func (c *call) registries() (v1.Page[v1.Registry], error) {
	return page(c.Reader.Registries(c.p, c.path("name")))
}

// loginRegistry asks the registry before anything is kept, and no registry for who may
// keep nothing.
func (c *call) loginRegistry(in v1.RegistryLogin) (v1.Registry, error) {
	name := c.path("name")
	if _, err := c.Reader.Registries(c.p, name); err != nil {
		return v1.Registry{}, err
	}
	registry, err := c.registryName()
	if err != nil {
		return v1.Registry{}, err
	}
	if in.Username == "" || len(in.Username) > maxUsername || !utf8.ValidString(in.Username) || strings.ContainsFunc(in.Username, unicode.IsControl) || strings.Contains(in.Username, ":") {
		return v1.Registry{}, fault.Invalid("username", "must be at most %d bytes of text on one line, without a colon", maxUsername)
	}
	if in.Password == "" || len(in.Password) > maxSecret || !utf8.ValidString(in.Password) {
		return v1.Registry{}, fault.Invalid("password", "must be at most %d bytes of text", maxSecret)
	}
	if c.Registries == nil {
		return v1.Registry{}, fault.New(codes.Unavailable, "this server pulls no images, so that there is nothing to log in for")
	}
	user, _ := c.Sequencer.World().Tenancy.User(name)
	if err := c.Registries.Check(c.r.Context(), registry, in.Username, in.Password); err != nil {
		return v1.Registry{}, err
	}
	row := tenancy.Credential{User: user.ID, Registry: registry}
	cmd := command.RegistryLogin{User: name, Registry: registry, Username: in.Username, Sealed: c.Registries.Seal(in.Password, row.Thing())}
	// Without an idempotency key, with which the log would keep a digest of the body.
	got, err := c.Sequencer.Do(c.r.Context(), sequencer.Actor{User: id.User(c.p.User), Token: c.token()}, cmd, sequencer.Key{})
	if err != nil {
		return v1.Registry{}, err
	}
	row, isRow := got.Result.(tenancy.Credential)
	if !isRow {
		return v1.Registry{}, unexpected(got)
	}
	return c.Reader.RegistryOf(row), nil
}

func (c *call) logoutRegistry() error {
	registry, err := c.registryName()
	if err != nil {
		return err
	}
	_, err = c.do(command.RegistryLogout{User: c.path("name"), Registry: registry})
	return err
}

func (c *call) registryName() (string, error) {
	registry, ok := workload.ParseRegistry(c.path("registry"))
	if !ok {
		return "", fault.Invalid("registry", "isn't a registry: give its host, such as ghcr.io or hub.lab:5000")
	}
	return registry, nil
}
