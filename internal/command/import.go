package command

import (
	"fmt"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/tenancy"
	"croft.dev/croft/internal/world"
)

// MembersImport makes the members of an account those of a list: all of it or, with
// an error for each wrong line, nothing. The same list again changes nothing.
type MembersImport struct {
	Account string
	Entries []tenancy.Entry
	Role    string // of who is new and whose line says none; empty: member
	Ends    *int64 `json:",omitempty"` // ns, 0: never; where the line says none. nil: stays, or with the account
	Prune   bool   // members and viewers that aren't in the list are removed
	Dry     bool   `json:",omitempty"` // only say what would change
}

// Imported is what an import did, or would do.
type Imported struct {
	Steps  []Step
	Kept   int      // members that are as the list says already
	Warned []string // what was done and may surprise
}

// Step is one change.
type Step struct {
	Line    int // 0: not in the list
	User    string
	Created bool // the user was made
	From    access.Role
	To      access.Role // NoRole: removed
}

// Kind is member.import.
func (MembersImport) Kind() string { return "member.import" }

// Decide compares the account's members with the list.
func (c MembersImport) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	acc, ok := w.Tenancy.Account(c.Account)
	if !ok || !w.Can(at.Principal, access.AccountSee, 0, acc.ID) {
		return world.Outcome{}, fault.NotFound("account", c.Account)
	}
	if !w.Can(at.Principal, access.AccountRun, 0, acc.ID) {
		return world.Outcome{}, fault.New(codes.Denied, "you aren't a manager of %s", c.Account)
	}
	i := importing{MembersImport: c, w: w, at: at, acc: acc, own: w.OwnRole(at.Principal, acc.ID), role: access.Member, next: w.Tenancy.NextUser(), named: map[id.User]bool{}, names: map[string]int{}, uids: map[int64]int{}}
	if c.Role != "" {
		if i.role, ok = access.ParseRole(c.Role); !ok {
			return world.Outcome{}, fault.Invalid("role", "must be viewer, member, manager or owner")
		}
	}
	if c.Ends != nil {
		if err := future("ends", *c.Ends, at.Now); err != nil {
			return world.Outcome{}, err
		}
	}
	for _, e := range c.Entries {
		if err := i.entry(e); err != nil {
			i.bad.Add(fmt.Sprintf("line %d", e.Line), "%v", err)
		}
	}
	if err := i.bad.Err(); err != nil {
		return world.Outcome{}, err
	}
	if c.Prune {
		i.prune()
	}
	n := len(i.out.Steps)
	return world.Outcome{
		Changes: i.changes, Result: i.out,
		Event: world.Event{Account: acc.ID, Skip: c.Dry || n == 0, Message: fmt.Sprintf("a list changed %d of the members of %s", n, acc.Name)},
	}, nil
}

// importing is an import under way.
type importing struct {
	MembersImport
	w       *world.World
	at      world.Context
	acc     tenancy.Account
	own     access.Role // of who imports
	role    access.Role
	next    id.User
	named   map[id.User]bool
	names   map[string]int // line by name
	uids    map[int64]int  // line by uid that the list gives
	changes []world.Change
	out     Imported
	bad     fault.Fields
}

// entry compares one line. An error is for that line.
func (i *importing) entry(e tenancy.Entry) error {
	user, created, err := i.user(e)
	if err != nil {
		return err
	}
	old, was := i.w.Tenancy.Member(i.acc.ID, user.ID)
	row := tenancy.Member{Account: i.acc.ID, User: user.ID, Role: e.Role, FromGroup: old.FromGroup, Ends: old.Ends, Weight: old.Weight}
	switch {
	case row.Role != access.NoRole:
	case was:
		row.Role = old.Role
	default:
		row.Role = i.role
	}
	for _, end := range []*int64{i.Ends, e.Ends} {
		if end != nil {
			row.Ends = *end
		}
	}
	if row.Ends != old.Ends {
		if err := future("ends", row.Ends, i.at.Now); err != nil {
			return fmt.Errorf("ends: is in the past")
		}
	}
	i.named[user.ID] = true
	if was && row == old {
		i.out.Kept++
		return nil
	}
	if row.Role > i.own || old.Role > i.own {
		return fmt.Errorf("role: you can't give or take a role above your own (%s)", i.own)
	}
	row.FromGroup = false
	i.changes = append(i.changes, tenancy.MemberSet{Row: row})
	i.out.Steps = append(i.out.Steps, Step{Line: e.Line, User: e.User, Created: created, From: old.Role, To: row.Role})
	return nil
}

// user finds or makes the user of a line.
func (i *importing) user(e tenancy.Entry) (tenancy.User, bool, error) {
	if first, twice := i.names[e.User]; twice {
		return tenancy.User{}, false, fmt.Errorf("name: %s is in line %d already", e.User, first)
	}
	if first, twice := i.uids[e.UID]; twice && e.UID >= 0 {
		return tenancy.User{}, false, fmt.Errorf("uid: %d is in line %d already", e.UID, first)
	}
	i.names[e.User], i.uids[e.UID] = e.Line, e.Line
	by, taken := i.w.Tenancy.UserOfUID(e.UID)
	user, ok := i.w.Tenancy.User(e.User)
	switch {
	case taken && by.ID != user.ID:
		return user, false, fmt.Errorf("uid: %d is bound to another user", e.UID)
	case ok && e.UID >= 0 && user.UID != e.UID:
		return user, false, fmt.Errorf("uid: %s is bound to another uid: an admin may run croft user set %s --rebind", e.User, e.User)
	case ok:
		if why := user.Barred(i.at.Now); why != "" {
			i.out.Warned = append(i.out.Warned, fmt.Sprintf("line %d: user %s is %s", e.Line, e.User, why))
		}
		return user, false, nil
	case !i.w.Can(i.at.Principal, access.UserRun, 0, 0):
		return user, false, fmt.Errorf("no such user: %s; an admin who imports the list makes those that are missing", e.User)
	}
	if err := tenancy.CheckName(e.User); err != nil {
		return user, false, fmt.Errorf("name: %w", err)
	}
	user = tenancy.User{ID: i.next, Name: e.User, Platform: access.PlatformUser, UID: e.UID, Created: i.at.Now}
	if user.UID >= 0 {
		user.UIDSince = i.at.Now
	} else {
		i.out.Warned = append(i.out.Warned, fmt.Sprintf("line %d: user %s has no uid on this machine", e.Line, e.User))
	}
	i.next++
	i.changes = append(i.changes, tenancy.UserSet{Row: user})
	return user, true, nil
}

// prune removes who isn't in the list: members and viewers, not who manages, who
// follows a Unix group, or who imports.
func (i *importing) prune() {
	for _, m := range i.w.Tenancy.Members(i.acc.ID) {
		if i.named[m.User] || m.Role > access.Member || m.FromGroup || int64(m.User) == i.at.Principal.User {
			continue
		}
		user, _ := i.w.Tenancy.Users.Get(m.User)
		step := Step{User: user.Name, From: m.Role}
		m.Role = access.NoRole
		i.changes = append(i.changes, tenancy.MemberSet{Row: m})
		i.out.Steps = append(i.out.Steps, step)
	}
}
