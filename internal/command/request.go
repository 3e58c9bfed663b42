package command

import (
	"fmt"
	"reflect"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/approval"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/tenancy"
	"croft.dev/croft/internal/world"
)

// RequestMake asks for something that others have to approve.
type RequestMake struct {
	Wish    approval.Wish
	Message string `json:",omitempty"`
	Expires int64  `json:",omitempty"` // ns, up to which it can be decided; 0: in two weeks
}

// Kind is request.create.
func (RequestMake) Kind() string { return "request.create" }

// maxWords is how long what people say to each other about a request may be, in bytes.
const maxWords = 500

// Decide puts the request, if it could be approved now as far as whoever asks may know.
func (c RequestMake) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	token, _ := w.Tenancy.Tokens.Get(id.Token(at.Principal.Narrow.Token))
	r := approval.Request{
		ID: w.Approvals.Next(), User: id.User(at.Principal.User), Token: tenancy.ByToken{ID: token.By().ID, Name: token.By().Name}, Wish: c.Wish, Message: c.Message,
		State: approval.Open, Created: at.Now, Expires: at.Now + approval.DefaultLife,
	}
	var ok bool
	if r.Kind, ok = c.Wish.KindOf(); !ok || r.Kind == approval.KindJob {
		return world.Outcome{}, fault.Invalid("kind", "a request asks for one thing: join, credits, transfer, limit, wall, reservation or asset")
	}
	if c.Expires != 0 {
		r.Expires = c.Expires
	}
	switch {
	case r.Expires <= at.Now || r.Expires > at.Now+approval.MaxLife:
		return world.Outcome{}, fault.Invalid("expires", "must be in the future, and within a year")
	case c.Message != "" && !oneLine(c.Message, maxWords):
		return world.Outcome{}, fault.Invalid("message", "must be one line of at most %d bytes", maxWords)
	}
	seen, err := aim(w, at, &r)
	if err != nil {
		return world.Outcome{}, err
	}
	if r.User == 0 || !w.Can(at.Principal, access.RequestMake, r.User, r.Account) {
		return world.Outcome{}, fault.New(codes.Denied, "you may not ask for that")
	}
	if err := possible(w, at, r, seen); err != nil {
		return world.Outcome{}, err
	}
	if err := another(w, at, r); err != nil {
		return world.Outcome{}, err
	}
	ev := world.Event{State: string(r.State), Message: fmt.Sprintf("request %d: %s", r.ID, w.Asks(r))}
	if seen {
		ev.Account = r.Account
	}
	return world.Outcome{Changes: []world.Change{approval.RequestSet{Row: r}}, Result: r, Event: ev}, nil
}

// possible refuses what could never be approved: it is tried by the server itself, which may
// everything. What whoever asks can't see he isn't told about.
func possible(w *world.World, at world.Context, r approval.Request, seen bool) error {
	if !seen {
		return nil
	}
	cmd, err := effect(w, at.Now, r, terms{Source: "request"})
	if err != nil {
		return err
	}
	if c, ok := cmd.(ReservationPut); ok {
		c.tried = true
		cmd = c
	}
	out, err := cmd.Decide(w, world.Context{Seq: at.Seq, Now: at.Now, Principal: access.Principal{Now: at.Now, System: true}})
	if err != nil {
		return err
	}
	if out.Event.Skip {
		return fault.New(codes.Conflict, "that is so already: there is nothing to ask for")
	}
	return nil
}

// another refuses a request that is open already, and more than one may have or make. Those of
// tokens for jobs count by themselves: whoever has a token doesn't keep its user from asking.
func another(w *world.World, at world.Context, r approval.Request) error {
	n := 0
	for old := range w.Approvals.Opened() {
		if old.User != r.User || !old.Pending(at.Now) || (old.Kind == approval.KindJob) != (r.Kind == approval.KindJob) {
			continue
		}
		if n++; old.Kind == r.Kind && old.Account == r.Account && old.Other == r.Other && reflect.DeepEqual(said(old.Wish), said(r.Wish)) {
			return fault.New(codes.Conflict, "request %d asks for that already: croft request remind %d", old.ID, old.ID)
		}
	}
	made := 0
	for _, old := range w.Approvals.Requests.Back(r.ID) {
		if old.Created <= at.Now-day {
			break
		}
		if old.User == r.User && (old.Kind == approval.KindJob) == (r.Kind == approval.KindJob) {
			made++
		}
	}
	if made >= approval.MaxDaily {
		return fault.New(codes.Conflict, "you have made %d requests in a day, as many as one may: ask again tomorrow", made)
	}
	if n >= approval.MaxOpen {
		return fault.New(codes.Conflict, "you have %d open requests, as many as one may have: withdraw some (croft request withdraw)", n)
	}
	return nil
}

// said is a wish as whoever asks has said it: what it was bound to of what he can't see he
// doesn't learn by asking again.
func said(x approval.Wish) approval.Wish {
	if x.Asset != nil {
		words := *x.Asset
		words.Of, words.Made = 0, 0
		x.Asset = &words
	}
	return x
}

// aim finds whom a request concerns, and refuses what isn't for its user to ask for. seen is
// false where he can't see an account that it names: it may be none at all, and he learns
// nothing of it here.
func aim(w *world.World, at world.Context, r *approval.Request) (seen bool, err error) {
	switch r.Kind {
	case approval.KindJoin:
		return aimJoin(w, at, r)
	case approval.KindCredits:
		return true, ofMember(w, at, r, r.Wish.Credits.Account)
	case approval.KindTransfer:
		return aimTransfer(w, at, r)
	case approval.KindWall:
		return true, aimWall(w, at, r)
	case approval.KindReservation:
		return true, aimReservation(w, at, r)
	case approval.KindAsset:
		return aimAsset(w, at, r)
	default:
		return true, aimLimit(w, at, r)
	}
}

// standing is an account that may be unknown or hidden, with whether whoever asks sees it, and
// is a member of it.
func standing(w *world.World, at world.Context, name string) (a tenancy.Account, seen, member bool) {
	a, ok := w.Tenancy.Account(name)
	return a, ok && w.Can(at.Principal, access.AccountSee, 0, a.ID), ok && w.Tenancy.Role(id.User(at.Principal.User), a.ID, at.Now) >= access.Member
}

// ofMember is for what only members of an account ask for.
func ofMember(w *world.World, at world.Context, r *approval.Request, name string) error {
	a, seen, member := standing(w, at, name)
	switch {
	case !seen:
		return fault.NotFound("account", name)
	case !member:
		return fault.New(codes.Denied, "only members of %s may ask for that", name)
	}
	r.Account = a.ID
	return nil
}

func aimJoin(w *world.World, at world.Context, r *approval.Request) (seen bool, err error) {
	j := r.Wish.Join
	a, seen, _ := standing(w, at, j.Account)
	r.Account = a.ID
	var bad fault.Fields
	if err := tenancy.CheckName(j.Account); err != nil {
		bad.Add("account", "%v", err)
	}
	if j.AsRole() == access.NoRole {
		bad.Add("role", "must be viewer, member, manager or owner")
	}
	if j.Ends < 0 || j.Ends != 0 && j.Ends <= at.Now {
		bad.Add("ends", "is in the past")
	}
	return seen, bad.Err()
}

func aimTransfer(w *world.World, at world.Context, r *approval.Request) (seen bool, err error) {
	t := r.Wish.Transfer
	from, seesFrom, ofFrom := standing(w, at, t.From)
	to, seesTo, ofTo := standing(w, at, t.To)
	r.Account, r.Other = from.ID, to.ID
	switch {
	case ofFrom || ofTo:
	case !seesFrom:
		return false, fault.NotFound("account", t.From)
	case !seesTo:
		return false, fault.NotFound("account", t.To)
	default:
		return false, fault.New(codes.Denied, "only members of %s or of %s may ask for that", t.From, t.To)
	}
	var bad fault.Fields
	for _, name := range []struct{ field, name string }{{"from", t.From}, {"to", t.To}} {
		if err := tenancy.CheckName(name.name); err != nil {
			bad.Add(name.field, "%v", err)
		}
	}
	if t.From == t.To {
		bad.Add("to", "%s has these credits already", t.To)
	}
	if t.Amount <= 0 || t.Amount > maxGrant {
		bad.Add("amount", "must be more than 0 and at most %s credits", maxGrant)
	}
	if t.Grant != 0 && !seesFrom {
		bad.Add("grant", "is for whoever sees the grants of %s to name", t.From)
	}
	return seesFrom && seesTo, bad.Err()
}

func aimLimit(w *world.World, at world.Context, r *approval.Request) error {
	l := r.Wish.Limit
	self := l.User == at.Principal.Name
	if l.Of != 0 {
		return fault.Invalid("user", "is given by name")
	}
	if l.Account == "" && !self {
		return fault.Invalid("account", "say of which account, or for yourself alone: user %s", at.Principal.Name)
	}
	if l.Account != "" {
		if err := ofMember(w, at, r, l.Account); err != nil {
			return err
		}
	}
	if l.User != "" && !self && !w.Can(at.Principal, access.AccountRun, 0, r.Account) {
		return fault.New(codes.Denied, "only a manager of %s may ask for other users' limits", l.Account)
	}
	own := *l
	u, _ := w.Tenancy.User(l.User)
	own.Of = u.ID
	r.Wish.Limit = &own
	return nil
}
