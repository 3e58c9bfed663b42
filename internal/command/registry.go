package command

import (
	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/tenancy"
	"croft.dev/croft/internal/world"
)

// RegistryLogin keeps how a user is known to a registry of images, which was asked
// whether it is so. The log keeps neither the name there nor the sealed password.
type RegistryLogin struct {
	User     string
	Registry string
	Username string `json:"-"`
	Sealed   string `json:"-"`
}

// Kind is registry.login.
func (RegistryLogin) Kind() string { return "registry.login" }

// Decide keeps it, in place of what was known before.
func (c RegistryLogin) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	user, err := ownCredentials(w, at, c.User)
	if err != nil {
		return world.Outcome{}, err
	}
	if c.Sealed == "" {
		return world.Outcome{}, fault.Invalid("password", "is missing")
	}
	row := tenancy.Credential{User: user.ID, Registry: c.Registry, Username: c.Username, Sealed: c.Sealed, Changed: at.Now}
	if _, had := w.Tenancy.Credential(user.ID, c.Registry); !had && len(w.Tenancy.CredentialsOf(user.ID)) >= tenancy.MaxCredentials {
		return world.Outcome{}, fault.New(codes.Conflict, "you are logged in to %d registries, as many as one may be: log out of some", tenancy.MaxCredentials)
	}
	return world.Outcome{
		Changes: []world.Change{tenancy.CredentialSet{Row: row}}, Result: row,
		Event: world.Event{Message: c.User + " logged in to registry " + c.Registry},
	}, nil
}

// RegistryLogout forgets how a user is known to a registry.
type RegistryLogout struct{ User, Registry string }

// Kind is registry.logout.
func (RegistryLogout) Kind() string { return "registry.logout" }

// Decide forgets it.
func (c RegistryLogout) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	user, err := ownCredentials(w, at, c.User)
	if err != nil {
		return world.Outcome{}, err
	}
	if _, has := w.Tenancy.Credential(user.ID, c.Registry); !has {
		return world.Outcome{}, fault.NotFound("login to a registry", c.Registry)
	}
	return world.Outcome{
		Changes: []world.Change{tenancy.CredentialSet{Row: tenancy.Credential{User: user.ID, Registry: c.Registry, Changed: at.Now}}},
		Event:   world.Event{Message: c.User + " logged out of registry " + c.Registry},
	}, nil
}

// ownCredentials is a user whose credentials the caller may change.
func ownCredentials(w *world.World, at world.Context, name string) (tenancy.User, error) {
	user, ok := w.Tenancy.User(name)
	if !ok || !w.Can(at.Principal, access.TokenRun, user.ID, 0) {
		return user, fault.NotFound("user", name)
	}
	return user, nil
}

// RepositoryPrivate notes, before it is so, that images of a repository are pulled with
// somebody's credentials.
type RepositoryPrivate struct{ Name string }

// Kind is repository.private.
func (RepositoryPrivate) Kind() string { return "repository.private" }

// Decide notes it once.
func (c RepositoryPrivate) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	if !w.Can(at.Principal, access.System, 0, 0) {
		return world.Outcome{}, onlyServer
	}
	if w.Catalog.Private(c.Name) {
		return skip, nil
	}
	return world.Outcome{
		Changes: []world.Change{catalog.RepositorySet{Row: catalog.Repository{Name: c.Name, Since: at.Now}}},
		Event:   world.Event{Message: "images of " + c.Name + " are for those alone whom its registry lets have them"},
	}, nil
}
