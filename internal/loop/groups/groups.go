// Package groups keeps the members of accounts that follow a Unix group, and
// notices when a user's uid has come to mean somebody else.
package groups

import (
	"context"
	"log/slog"
	"time"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/loop"
	"croft.dev/croft/internal/tenancy"
	"croft.dev/croft/internal/world"
)

// Directory is the machine's own view of people.
type Directory interface {
	// Members lists the names in a Unix group.
	Members(ctx context.Context, group string) ([]string, error)
	// UID is the uid of a name; ok is false when there is no such name.
	UID(ctx context.Context, name string) (uid int64, ok bool, err error)
	// Warning says why a binding of a name to a uid no longer holds, "" if it does.
	Warning(ctx context.Context, name string, uid int64) (string, error)
}

// Loop is the loop.
type Loop struct {
	Port   loop.Port
	People Directory
	Period time.Duration
	Log    *slog.Logger
}

// Run follows the groups until ctx ends.
func (l Loop) Run(ctx context.Context) { loop.Every(ctx, l.Log, "groups", l.Period, l.Once) }

// Once compares every followed group and every binding with the machine. A
// directory that doesn't answer changes nothing.
func (l Loop) Once(ctx context.Context) error {
	w := l.Port.World()
	for _, a := range w.Tenancy.Accounts.All() {
		if a.Group == "" || a.Closed || a.Retired != 0 {
			continue
		}
		if err := l.follow(ctx, w, a); err != nil {
			return err
		}
	}
	for _, u := range w.Tenancy.Users.All() {
		if u.UID < 0 || u.Retired != 0 {
			continue
		}
		warning, err := l.People.Warning(ctx, u.Name, u.UID)
		if err != nil {
			return err
		}
		if warning == u.Warning {
			continue
		}
		l.Log.Warn("uid binding changed", "user", u.Name, "uid", u.UID, "warning", warning)
		if _, err := l.Port.Command(ctx, command.UserPut{Name: u.Name, Warning: &warning}); err != nil {
			return err
		}
	}
	return nil
}

// follow makes an account's group members those of the Unix group. Members that
// were added by hand stay.
func (l Loop) follow(ctx context.Context, w *world.World, a tenancy.Account) error {
	names, err := l.People.Members(ctx, a.Group)
	if err != nil {
		return err
	}
	in := map[string]bool{}
	for _, name := range names {
		in[name] = true
		if err := l.join(ctx, w, a, name); err != nil {
			return err
		}
	}
	for _, m := range w.Tenancy.Members(a.ID) {
		u, ok := w.Tenancy.Users.Get(m.User)
		if !ok || !m.FromGroup || in[u.Name] {
			continue
		}
		if _, err := l.Port.Command(ctx, command.MemberPut{Account: a.Name, User: u.Name}); err != nil {
			return err
		}
	}
	return nil
}

func (l Loop) join(ctx context.Context, w *world.World, a tenancy.Account, name string) error {
	u, ok := w.Tenancy.User(name)
	if ok {
		if _, is := w.Tenancy.Member(a.ID, u.ID); is {
			return nil
		}
	} else if err := l.create(ctx, name); err != nil {
		return err
	}
	_, err := l.Port.Command(ctx, command.MemberPut{Account: a.Name, User: name, Role: access.Member.String(), Group: true})
	if fault.Of(err) == codes.NotFound {
		return nil // not creatable, reported when it was tried
	}
	return err
}

// create makes a Croft user of a Unix user. One that can't be is left out.
func (l Loop) create(ctx context.Context, name string) error {
	uid, ok, err := l.People.UID(ctx, name)
	if err != nil || !ok || l.Port.World().Tenancy.Left(name, uid) {
		return err
	}
	if _, err = l.Port.Command(ctx, command.UserPut{Create: true, Name: name, UID: &uid}); err != nil {
		l.Log.Warn("a member of a followed group can't become a user", "user", name, "error", err)
	}
	return nil
}
