package app

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/httpapi"
	"croft.dev/croft/internal/people"
)

// machine is the machine's users, as each consumer asks for them.
type machine struct{ dir *people.Directory }

// absent tells "there is no such" from "the directory doesn't answer".
func absent(err error) bool {
	code := fault.Of(err)
	return err != nil && (code == codes.NotFound || code == codes.Invalid)
}

// NameOf is for the socket: whose uid is that?
func (m machine) NameOf(ctx context.Context, uid int64) (string, error) {
	u, err := m.dir.ByUID(ctx, uid)
	if absent(err) {
		return "", nil
	}
	return u.Name, err
}

// Lookup is for the API: where is that user's home?
func (m machine) Lookup(ctx context.Context, name string) (httpapi.Person, bool, error) {
	u, err := m.dir.ByName(ctx, name)
	if absent(err) {
		return httpapi.Person{}, false, nil
	}
	return httpapi.Person{UID: u.UID, Home: u.Home}, err == nil, err
}

// UID is for groups.
func (m machine) UID(ctx context.Context, name string) (int64, bool, error) {
	u, err := m.dir.ByName(ctx, name)
	if absent(err) {
		return 0, false, nil
	}
	return u.UID, err == nil, err
}

// Members is for groups. A group that is gone has no members.
func (m machine) Members(ctx context.Context, group string) ([]string, error) {
	names, err := m.dir.Members(ctx, group)
	if absent(err) {
		return nil, nil
	}
	return names, err
}

// Warning is for groups: does the name still stand for the uid?
func (m machine) Warning(ctx context.Context, name string, uid int64) (string, error) {
	got, err := m.dir.Check(ctx, people.Binding{Name: name, UID: uid})
	if err != nil {
		return "", err
	}
	switch got.Verdict {
	case people.OK:
		return "", nil
	case people.Gone:
		return fmt.Sprintf("the machine has no user %s any more", name), nil
	case people.Renumbered:
		return fmt.Sprintf("%s now has uid %d, not %d", name, got.Holder.UID, uid), nil
	}
	return fmt.Sprintf("uid %d now belongs to %s", uid, got.Holder.Name), nil
}

// Resolve is for runs: whom does the container run as? Somebody whom the machine
// doesn't know, or knows by another uid, can't run anything.
func (m machine) Resolve(ctx context.Context, name string, uid int64) (engine.User, error) {
	u, err := m.dir.ByName(ctx, name)
	switch {
	case absent(err):
		return engine.User{}, &engine.StartError{Message: "user " + name + " has no Unix account on this machine to run as"}
	case err != nil:
		return engine.User{}, &engine.UnavailableError{Cause: err}
	case u.UID != uid:
		return engine.User{}, &engine.StartError{Message: fmt.Sprintf("user %s now has uid %d, not %d: an admin must run croft user set %s --rebind", name, u.UID, uid, name)}
	}
	groups, err := m.dir.Groups(ctx, name)
	if err != nil {
		return engine.User{}, &engine.UnavailableError{Cause: err}
	}
	out := engine.User{Name: u.Name, UID: u.UID, GID: u.GID, Home: u.Home, Shell: u.Shell}
	for _, g := range groups {
		out.Groups = append(out.Groups, engine.Group{Name: g.Name, GID: g.GID})
	}
	return out, nil
}

// userName names a uid for people to read; its number where it has no name.
func (m machine) userName(uid uint32) string {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	if name, err := m.NameOf(ctx, int64(uid)); err == nil && name != "" {
		return name
	}
	return strconv.FormatUint(uint64(uid), 10)
}

// simulated is for a virtual fleet: everybody may run there.
type simulated struct{ machine }

// Resolve makes a user up where the machine knows none.
func (s simulated) Resolve(ctx context.Context, name string, uid int64) (engine.User, error) {
	u, err := s.machine.Resolve(ctx, name, uid)
	var never *engine.StartError
	if errors.As(err, &never) {
		return engine.User{Name: name, UID: 65534, GID: 65534, Home: "/", Shell: "/bin/sh"}, nil
	}
	return u, err
}
