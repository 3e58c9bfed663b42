package tenancy

import (
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/table"
)

// SSHKey is a public key by which a user is known over SSH. One key is one user's.
type SSHKey struct {
	Fingerprint string // SHA256:…
	User        id.User
	Name        string // the user's word for it
	Type        string // ssh-ed25519
	Blob        string // the key, base64; empty: there is none any more
	Created     int64  // ns
	Expires     int64  // ns; 0: never
}

// MaxSSHKeys bounds the keys of a user.
const MaxSSHKeys = 64

// Usable reports whether the key still stands for its user at time now.
func (k SSHKey) Usable(now int64) bool { return k.Blob != "" && !over(k.Expires, now) }

// SSHKeysOf lists a user's by fingerprint.
func (s *State) SSHKeysOf(u id.User) []SSHKey { return prefixed(&s.sshKeysOf, int64(u)) }

func (s *State) putSSHKey(k SSHKey) {
	if old, ok := s.SSHKeys.Get(k.Fingerprint); ok {
		s.sshKeysOf.Delete(sshKeyOf(old))
	}
	if k.Blob == "" {
		s.SSHKeys.Delete(k.Fingerprint)
		return
	}
	s.SSHKeys.Set(k.Fingerprint, k)
	s.sshKeysOf.Set(sshKeyOf(k), k)
}

func sshKeyOf(k SSHKey) string { return table.Pair(int64(k.User), 0) + k.Fingerprint }
