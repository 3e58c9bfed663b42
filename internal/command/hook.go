package command

import (
	"slices"
	"time"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/notice"
	"croft.dev/croft/internal/world"
)

// formerSecret is for how long a hook's secret before is signed with besides, in ns: until
// then whoever listens there has to know the new one.
const formerSecret = int64(24 * time.Hour)

// HookPut makes a hook of a user's or changes it; nil fields stay. The log keeps neither the
// URL, which often is a secret itself, nor the sealed secret.
type HookPut struct {
	User    string
	Name    string
	Create  bool    `json:",omitempty"`
	URL     *string `json:"-"`
	Wants   *string `json:",omitempty"` // words; "": all
	Account string  `json:",omitempty"` // of a new one: that it is told of; "": of what is the user's
	Sealed  string  `json:"-"`          // of a new one its secret, of another a new one
	On      *bool   `json:",omitempty"` // whether anything is posted to it
}

// Kind is webhook.set.
func (HookPut) Kind() string { return "webhook.set" }

// Decide makes or changes it. Of an account only those may be told who manage it.
func (c HookPut) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	user, err := ownCredentials(w, at, c.User)
	if err != nil {
		return world.Outcome{}, err
	}
	old, had := w.Notices.Hook(user.ID, c.Name)
	row := old
	switch {
	case !w.Site.Hooks.On():
		return world.Outcome{}, fault.New(codes.Conflict, "this site posts nothing anywhere: its administrator sets notify.webhook.hosts")
	case c.Create && had:
		return world.Outcome{}, fault.New(codes.Exists, "%s has a webhook %s already: take it away (croft notice hook rm %s), or change it (croft notice hook set %s)", c.User, c.Name, c.Name, c.Name)
	case !c.Create && !had:
		return world.Outcome{}, fault.NotFound("webhook", c.Name)
	case c.Create:
		if row, err = c.fresh(w, at, user.ID); err != nil {
			return world.Outcome{}, err
		}
	case c.Sealed != "":
		row.Former, row.Until, row.Sealed = old.Sealed, at.Now+formerSecret, c.Sealed
	}
	if row, err = c.change(w, row); err != nil {
		return world.Outcome{}, err
	}
	if row == old {
		return world.Outcome{Result: row, Event: world.Event{Skip: true}}, nil
	}
	row.Changed = at.Now
	return world.Outcome{
		Changes: []world.Change{notice.HookSet{Row: row}}, Result: row,
		Event: world.Event{Account: row.Account, Message: "webhook " + c.Name + " of " + c.User},
	}, nil
}

// fresh is a new hook, but for what may be changed.
func (c HookPut) fresh(w *world.World, at world.Context, user id.User) (notice.Hook, error) {
	row := notice.Hook{User: user, Name: c.Name, Sealed: c.Sealed}
	switch {
	case c.Sealed == "":
		return row, fault.Invalid("secret", "is missing")
	case c.URL == nil:
		return row, fault.Invalid("url", "is missing")
	case len(w.Notices.HooksOf(user)) >= notice.MaxHooks:
		return row, fault.New(codes.Conflict, "%s has %d webhooks, as many as one may: remove some (croft notice hook rm)", c.User, notice.MaxHooks)
	}
	if err := notice.CheckHookName(c.Name); err != nil {
		return row, fault.Invalid("name", "%v", err)
	}
	if c.Account == "" {
		return row, nil
	}
	acc, ok := w.Tenancy.Account(c.Account)
	if !ok || !w.Can(at.Principal, access.AccountSee, 0, acc.ID) {
		return row, fault.NotFound("account", c.Account)
	}
	if row.Account = acc.ID; !HookHears(w, row, acc.ID, at.Now) {
		return row, fault.New(codes.Denied, "only managers of %s have webhooks that are told what happens in it", acc.Name)
	}
	return row, nil
}

// change is the hook with what may be changed of it.
func (c HookPut) change(w *world.World, row notice.Hook) (notice.Hook, error) {
	var bad fault.Fields
	if c.URL != nil {
		row.URL = *c.URL
		if err := w.Site.Hooks.Check(row.URL); err != nil {
			bad.Add("url", "%v", err)
		}
	}
	if c.Wants != nil {
		wants, err := notice.ParseWants(*c.Wants, row.Words())
		if row.Wants = wants; err != nil {
			bad.Add("words", "%v", err)
		}
	}
	if c.On != nil {
		if row.Off = ""; !*c.On {
			row.Off = "it is switched off"
		}
	}
	return row, bad.Err()
}

// HookHears reports whether a hook may be told what happens in an account, to jobs of
// whomever: one that is of an account is a manager's of that one or one above it.
func HookHears(w *world.World, h notice.Hook, a id.Account, now int64) bool {
	return h.Account != 0 && slices.Contains(w.Tenancy.Path(a), h.Account) && w.Tenancy.Role(h.User, h.Account, now) >= access.Manager
}

// HookRemove takes a hook away.
type HookRemove struct{ User, Name string }

// Kind is webhook.remove.
func (HookRemove) Kind() string { return "webhook.remove" }

// Decide takes it away; what waits to be posted to it isn't any more.
func (c HookRemove) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	user, err := ownCredentials(w, at, c.User)
	if err != nil {
		return world.Outcome{}, err
	}
	if _, has := w.Notices.Hook(user.ID, c.Name); !has {
		return world.Outcome{}, fault.NotFound("webhook", c.Name)
	}
	return world.Outcome{
		Changes: []world.Change{notice.HookSet{Row: notice.Hook{User: user.ID, Name: c.Name, Changed: at.Now}}},
		Event:   world.Event{Message: "webhook " + c.Name + " of " + c.User + " removed"},
	}, nil
}

// HookOff has nothing posted any more to a hook that says so itself. The server proposes it.
type HookOff struct {
	User id.User
	Name string
	URL  string `json:"-"` // that has said so
	Why  string
}

// Kind is webhook.off.
func (HookOff) Kind() string { return "webhook.off" }

// Decide switches it off, unless it goes elsewhere by now.
func (c HookOff) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	if !w.Can(at.Principal, access.System, 0, 0) {
		return world.Outcome{}, onlyServer
	}
	row, has := w.Notices.Hook(c.User, c.Name)
	if !has || row.Off != "" || row.URL != c.URL {
		return skip, nil
	}
	user, _ := w.Tenancy.Users.Get(c.User)
	row.Off, row.Changed = c.Why, at.Now
	return world.Outcome{
		Changes: []world.Change{notice.HookSet{Row: row}},
		Event:   world.Event{Message: "webhook " + c.Name + " of " + user.Name + " is off: " + c.Why},
	}, nil
}
