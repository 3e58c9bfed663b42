package command

import (
	"cmp"
	"fmt"
	"slices"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/tenancy"
	"croft.dev/croft/internal/world"
)

// PasswordPut sets a user's password, or takes it away (an empty Hash), and ends
// the user's sessions; the one that asks for it goes on. The log doesn't keep the
// hash: it could be guessed at.
type PasswordPut struct {
	User string
	Hash string `json:"-"`
	// Was is the hash that the old password was checked against. Whoever sets his
	// own must have given it.
	Was string `json:"-"`
}

// Kind is password.set.
func (PasswordPut) Kind() string { return "password.set" }

// Decide sets the password. Its result is how many sessions ended.
func (c PasswordPut) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	user, ok := w.Tenancy.User(c.User)
	if !ok || !w.Can(at.Principal, access.TokenRun, user.ID, 0) {
		return world.Outcome{}, fault.NotFound("user", c.User)
	}
	own := at.Principal.User == int64(user.ID)
	old, had := w.Tenancy.Passwords.Get(user.ID)
	switch {
	case own && old.Hash != c.Was:
		return world.Outcome{}, fault.New(codes.Conflict, "the password was changed meanwhile: try again with the new one")
	case c.Hash == "" && !had:
		return world.Outcome{}, fault.New(codes.NotFound, "user %s has no password", c.User)
	}
	keep := id.Token(0)
	if own {
		keep = id.Token(at.Principal.Narrow.Token)
	}
	ended := sessionsEnd(w, user.ID, func(t tenancy.Token) bool { return t.ID != keep })
	what := "password of " + c.User + " set"
	if c.Hash == "" {
		what = "password of " + c.User + " removed"
	}
	changes := append([]world.Change{tenancy.PasswordSet{Row: tenancy.Password{User: user.ID, Hash: c.Hash, Changed: at.Now}}}, ended...)
	return world.Outcome{Changes: changes, Result: len(ended), Event: world.Event{Message: what}}, nil
}

// sessionsEnd ends those of a user's sessions that which says.
func sessionsEnd(w *world.World, u id.User, which func(tenancy.Token) bool) []world.Change {
	var out []world.Change
	for _, t := range w.Tenancy.TokensOf(u) {
		if t.Session() && which(t) {
			t.Revoked = true
			out = append(out, tenancy.TokenSet{Row: t})
		}
	}
	return out
}

// SessionOpen opens a session for a user whose password was just checked.
type SessionOpen struct {
	User     string
	Name     string // what from, e.g. a host's name
	Hash     string // of the session's secret
	Expires  int64  // ns
	Idle     int64  // ns
	Verified string `json:"-"` // the hash that the password was checked against
	Renewed  string `json:"-"` // one that costs more, of the same password; empty: none
}

// Kind is session.open.
func (SessionOpen) Kind() string { return "session.open" }

// maxSessions bounds a user's sessions: beyond it the one that was used the longest
// time ago gives way.
const maxSessions = 64

// Decide opens the session. It drops those that are over on the way.
func (c SessionOpen) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	user, ok := w.Tenancy.User(c.User)
	if !ok || !w.Can(at.Principal, access.TokenRun, user.ID, 0) {
		return world.Outcome{}, fault.NotFound("user", c.User)
	}
	kept, has := w.Tenancy.Passwords.Get(user.ID)
	if !has || kept.Hash != c.Verified || c.Verified == "" {
		return world.Outcome{}, fault.New(codes.Unauthenticated, "the user or the password is wrong")
	}
	changes := sessionsEnd(w, user.ID, func(t tenancy.Token) bool { return !t.Usable(at.Now) })
	changes = append(changes, giveWay(w, user.ID, at.Now)...)
	if c.Renewed != "" {
		kept.Hash = c.Renewed
		changes = append(changes, tenancy.PasswordSet{Row: kept})
	}
	row := tenancy.Token{
		ID: w.Tenancy.NextToken(), User: user.ID, Name: c.Name, Hash: c.Hash, Created: at.Now,
		Expires: c.Expires, Idle: c.Idle, Used: at.Now,
	}
	return world.Outcome{Changes: append(changes, tenancy.TokenSet{Row: row}), Result: row, Event: world.Event{Message: fmt.Sprintf("session %d of %s opened", row.ID, c.User)}}, nil
}

// SessionByLinks gives a user's browsers a session that come in by links of his, where none
// was shown when he asked for them: the machine said who he is. All share it, so that logging
// out of one ends it for all.
type SessionByLinks struct {
	User    string
	Expires int64 // ns; one that there is goes on until then, at least
}

// Kind is session.by_links.
func (SessionByLinks) Kind() string { return "session.by_links" }

// Decide opens it, or lets it go on. Its result is the row.
func (c SessionByLinks) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	user, ok := w.Tenancy.User(c.User)
	if !ok || !w.Can(at.Principal, access.TokenRun, user.ID, 0) {
		return world.Outcome{}, fault.NotFound("user", c.User)
	}
	if c.Expires <= at.Now {
		return world.Outcome{}, fault.Invalid("expires", "is in the past")
	}
	for _, t := range w.Tenancy.TokensOf(user.ID) {
		if t.ByLinks() && t.Usable(at.Now) {
			t.Expires, t.Used, t.Idle = max(t.Expires, c.Expires), at.Now, c.Expires-at.Now
			return world.Outcome{Changes: []world.Change{tenancy.TokenSet{Row: t}}, Result: t, Event: world.Event{Message: fmt.Sprintf("session %d of %s goes on by a link", t.ID, c.User)}}, nil
		}
	}
	changes := sessionsEnd(w, user.ID, func(t tenancy.Token) bool { return !t.Usable(at.Now) })
	changes = append(changes, giveWay(w, user.ID, at.Now)...)
	k := w.Tenancy.NextToken()
	row := tenancy.Token{ID: k, User: user.ID, Name: "browsers, by links", Hash: tenancy.LinksHash(k), Created: at.Now, Expires: c.Expires, Idle: c.Expires - at.Now, Used: at.Now}
	return world.Outcome{Changes: append(changes, tenancy.TokenSet{Row: row}), Result: row, Event: world.Event{Message: fmt.Sprintf("session %d of %s opened by a link", k, c.User)}}, nil
}

// giveWay ends what is too much for one more session.
func giveWay(w *world.World, u id.User, now int64) []world.Change {
	var live []tenancy.Token
	for _, t := range w.Tenancy.TokensOf(u) {
		if t.Session() && t.Usable(now) {
			live = append(live, t)
		}
	}
	slices.SortStableFunc(live, func(a, b tenancy.Token) int { return cmp.Compare(a.Used, b.Used) })
	var out []world.Change
	for _, t := range live[:max(0, len(live)-maxSessions+1)] {
		t.Revoked = true
		out = append(out, tenancy.TokenSet{Row: t})
	}
	return out
}

// SessionUse notes that a session is in use, which puts its idle end off.
type SessionUse struct{ Session id.Token }

// Kind is session.use.
func (SessionUse) Kind() string { return "session.use" }

// Decide notes it, if the last note is old enough.
func (c SessionUse) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	if !w.Can(at.Principal, access.System, 0, 0) {
		return world.Outcome{}, onlyServer
	}
	t, ok := w.Tenancy.Tokens.Get(c.Session)
	if !ok || !t.Usable(at.Now) || !t.NoteUse(at.Now) {
		return world.Outcome{Event: world.Event{Skip: true}}, nil
	}
	t.Used = at.Now
	return world.Outcome{Changes: []world.Change{tenancy.TokenSet{Row: t}}, Event: world.Event{Message: fmt.Sprintf("session %d in use", t.ID)}}, nil
}

// SessionsEnd ends all sessions of a user, but for the one that asks for it.
type SessionsEnd struct{ User string }

// Kind is session.end.
func (SessionsEnd) Kind() string { return "session.end" }

// Decide ends them. Its result is how many there were.
func (c SessionsEnd) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	user, ok := w.Tenancy.User(c.User)
	if !ok || !w.Can(at.Principal, access.TokenRun, user.ID, 0) {
		return world.Outcome{}, fault.NotFound("user", c.User)
	}
	ended := sessionsEnd(w, user.ID, func(t tenancy.Token) bool { return int64(t.ID) != at.Principal.Narrow.Token })
	return world.Outcome{Changes: ended, Result: len(ended), Event: world.Event{Skip: len(ended) == 0, Message: "sessions of " + c.User + " ended"}}, nil
}
