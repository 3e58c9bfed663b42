package command

import (
	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/tenancy"
	"croft.dev/croft/internal/world"
)

// SSHKeyAdd registers a public key, by which its user is known over SSH from then on.
type SSHKeyAdd struct {
	User        string
	Fingerprint string
	Name        string
	Type        string
	Blob        string
	Expires     int64 `json:",omitempty"` // ns; 0: never
}

// Kind is sshkey.add.
func (SSHKeyAdd) Kind() string { return "sshkey.add" }

// Decide registers it; one of the user's own gets the new name and end. It drops those
// that are over on the way.
func (c SSHKeyAdd) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	user, err := ownCredentials(w, at, c.User)
	if err != nil {
		return world.Outcome{}, err
	}
	if c.Expires != 0 && c.Expires <= at.Now {
		return world.Outcome{}, fault.Invalid("expires", "is in the past")
	}
	old, had := w.Tenancy.SSHKeys.Get(c.Fingerprint)
	if had && old.User != user.ID && old.Usable(at.Now) {
		// Whose it is is nobody's business.
		return world.Outcome{}, fault.New(codes.Conflict, "this key is registered already, and not as yours: make one of your own (ssh-keygen -t ed25519)")
	}
	var changes []world.Change
	live := 0
	for _, k := range w.Tenancy.SSHKeysOf(user.ID) {
		switch {
		case k.Fingerprint == c.Fingerprint:
		case k.Usable(at.Now):
			live++
		default:
			k.Blob = ""
			changes = append(changes, tenancy.SSHKeySet{Row: k})
		}
	}
	if live >= tenancy.MaxSSHKeys {
		return world.Outcome{}, fault.New(codes.Conflict, "%s has %d keys, as many as one may: remove some (croft ssh-key rm)", c.User, tenancy.MaxSSHKeys)
	}
	row := tenancy.SSHKey{Fingerprint: c.Fingerprint, User: user.ID, Name: c.Name, Type: c.Type, Blob: c.Blob, Created: at.Now, Expires: c.Expires}
	return world.Outcome{
		Changes: append(changes, tenancy.SSHKeySet{Row: row}), Result: row,
		Event: world.Event{Message: "SSH key " + c.Fingerprint + " of " + c.User + " registered"},
	}, nil
}

// SSHKeyRemove takes a key away.
type SSHKeyRemove struct{ User, Fingerprint string }

// Kind is sshkey.remove.
func (SSHKeyRemove) Kind() string { return "sshkey.remove" }

// Decide takes it away.
func (c SSHKeyRemove) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	user, err := ownCredentials(w, at, c.User)
	if err != nil {
		return world.Outcome{}, err
	}
	key, has := w.Tenancy.SSHKeys.Get(c.Fingerprint)
	if !has || key.User != user.ID {
		return world.Outcome{}, fault.NotFound("SSH key", c.Fingerprint)
	}
	key.Blob = ""
	return world.Outcome{
		Changes: []world.Change{tenancy.SSHKeySet{Row: key}},
		Event:   world.Event{Message: "SSH key " + c.Fingerprint + " of " + c.User + " removed"},
	}, nil
}
