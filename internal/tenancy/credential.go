package tenancy

import (
	"strconv"

	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/table"
)

// Credential is how a user is known to a registry of images. The password is sealed;
// empty: there is none any more.
type Credential struct {
	User     id.User
	Registry string // as workload.RegistryHost has it
	Username string
	Sealed   string
	Changed  int64 // ns
}

// MaxCredentials bounds the registries that a user is logged in to.
const MaxCredentials = 64

// Thing is what the password is sealed for: it opens for no other user and no other
// registry.
func (c Credential) Thing() string {
	return "registry " + strconv.FormatInt(int64(c.User), 10) + " " + c.Registry
}

// Credential is a user's for a registry.
func (s *State) Credential(u id.User, registry string) (Credential, bool) {
	return s.Credentials.Get(credentialKey(u, registry))
}

// CredentialsOf lists a user's by registry.
func (s *State) CredentialsOf(u id.User) []Credential { return prefixed(&s.Credentials, int64(u)) }

func credentialKey(u id.User, registry string) string {
	return table.Pair(int64(u), 0) + registry
}

func (s *State) putCredential(c Credential) {
	key := credentialKey(c.User, c.Registry)
	if c.Sealed == "" {
		s.Credentials.Delete(key)
		return
	}
	s.Credentials.Set(key, c)
}
