package command

import (
	"errors"
	"fmt"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/approval"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/world"
)

// RequestApprove does what a request asks for, in the same step.
type RequestApprove struct {
	Request id.Request
	Words   string `json:",omitempty"`
	Source  string `json:",omitempty"` // of credits: where they come from; "": as the request says
}

// Kind is request.approve.
func (RequestApprove) Kind() string { return "request.approve" }

// Decide decides the command that does it, on behalf of whoever approves. If that is refused,
// so is this: the request stays open, and says why.
func (c RequestApprove) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	r, err := deciding(w, at, c.Request, c.Words)
	if err != nil {
		return world.Outcome{}, err
	}
	u, _ := w.Tenancy.Users.Get(r.User)
	if why := u.Barred(at.Now); why != "" {
		return world.Outcome{}, fault.New(codes.Conflict, "user %s is %s: request %d can only be rejected", u.Name, why, r.ID)
	}
	if c.Source != "" && r.Kind != approval.KindCredits {
		return world.Outcome{}, fault.Invalid("source", "is for requests of credits")
	}
	out, err := carryOut(w, at, r, terms{Source: c.Source})
	if err != nil {
		return failed(r, err)
	}
	r = r.Close(approval.Approved, id.User(at.Principal.User), c.Words, at.Now)
	out.Changes = append(out.Changes[:len(out.Changes):len(out.Changes)], approval.RequestSet{Row: r})
	ev := decided(r, fmt.Sprintf("request %d is approved: %s", r.ID, w.Asks(r)))
	ev.Job = out.Event.Job
	return world.Outcome{Changes: out.Changes, Result: r, Event: ev}, nil
}

// carryOut decides what a request asks for. What is so already needs no change.
func carryOut(w *world.World, at world.Context, r approval.Request, t terms) (world.Outcome, error) {
	cmd, err := effect(w, at.Now, r, t)
	if err != nil {
		return world.Outcome{}, err
	}
	at.Key, at.Digest = "", ""
	out, err := cmd.Decide(w, at)
	if err == nil && out.Fault != nil {
		err = out.Fault
	}
	if out.Event.Skip {
		out.Changes = nil
	}
	return out, err
}

// failed keeps with a request why approving it failed. What whoever approves left out concerns
// nobody else; that a name is taken, and how things are with an asset, whoever asked needn't know.
func failed(r approval.Request, err error) (world.Outcome, error) {
	var f *fault.Error
	if !errors.As(err, &f) || f.Code == codes.Internal || f.Code == codes.Invalid || f.Code == codes.Exists || r.Kind == approval.KindAsset {
		return world.Outcome{}, err
	}
	if r.Failed == f.Message {
		return world.Outcome{}, f
	}
	r.Failed = f.Message
	ev := decided(r, fmt.Sprintf("request %d could not be approved: %s", r.ID, f.Message))
	return world.Outcome{Changes: []world.Change{approval.RequestSet{Row: r}}, Result: r, Fault: f, Event: ev}, nil
}

func decided(r approval.Request, message string) world.Event {
	return world.Event{Account: r.Account, State: string(r.State), Message: message}
}

// deciding is an open request that the caller may decide.
func deciding(w *world.World, at world.Context, k id.Request, words string) (approval.Request, error) {
	r, err := sighted(w, at, k)
	switch {
	case err != nil:
		return r, err
	case r.Kind == approval.KindJob && !w.MayDecide(at.Principal, r):
		return r, fault.New(codes.Denied, "request %d is for whose token it is to decide, himself or by a token without bounds", k)
	case r.Kind != approval.KindJob && id.User(at.Principal.User) == r.User && !at.Principal.System:
		return r, fault.New(codes.Denied, "request %d is your own: somebody else decides it, whatever you may do yourself", k)
	case !w.MayDecide(at.Principal, r):
		return r, fault.New(codes.Denied, "request %d isn't yours to decide: only who may do himself what it asks for may", k)
	}
	if err := pending(r, at.Now); err != nil {
		return r, err
	}
	if words != "" && !oneLine(words, maxWords) {
		return r, fault.Invalid("words", "must be one line of at most %d bytes", maxWords)
	}
	return r, nil
}

// sighted is a request that the caller may see.
func sighted(w *world.World, at world.Context, k id.Request) (approval.Request, error) {
	r, ok := w.Approvals.Requests.Get(k)
	if !ok || !w.SeesRequest(at.Principal, r) {
		return r, fault.New(codes.NotFound, "no such request: %d", k)
	}
	return r, nil
}

// pending refuses to decide a request twice, or too late.
func pending(r approval.Request, now int64) error {
	switch {
	case r.State != approval.Open:
		return fault.New(codes.Conflict, "request %d is %s already", r.ID, r.State)
	case !r.Pending(now):
		return fault.New(codes.Conflict, "request %d expired on %s", r.ID, moment(r.Expires))
	}
	return nil
}

// RequestReject refuses what a request asks for.
type RequestReject struct {
	Request id.Request
	Words   string `json:",omitempty"`
}

// Kind is request.reject.
func (RequestReject) Kind() string { return "request.reject" }

// Decide closes the request. It is for those who may approve it.
func (c RequestReject) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	r, err := deciding(w, at, c.Request, c.Words)
	if err != nil {
		return world.Outcome{}, err
	}
	r = r.Close(approval.Rejected, id.User(at.Principal.User), c.Words, at.Now)
	return refused(w, at, r, requestPut(r, fmt.Sprintf("request %d is rejected: %s", r.ID, w.Asks(r))))
}

func requestPut(r approval.Request, message string) world.Outcome {
	return world.Outcome{Changes: []world.Change{approval.RequestSet{Row: r}}, Result: r, Event: decided(r, message)}
}

// RequestWithdraw takes one's own request back.
type RequestWithdraw struct{ Request id.Request }

// Kind is request.withdraw.
func (RequestWithdraw) Kind() string { return "request.withdraw" }

// Decide closes the request.
func (c RequestWithdraw) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	r, err := own(w, at, c.Request)
	if err != nil {
		return world.Outcome{}, err
	}
	r = r.Close(approval.Withdrawn, r.User, "", at.Now)
	out := requestPut(r, fmt.Sprintf("request %d is withdrawn: %s", r.ID, w.Asks(r)))
	out.Event.Account = seenBy(w, at, r)
	return refused(w, at, r, out)
}

// RequestRemind reminds those who decide one's own request that it waits.
type RequestRemind struct{ Request id.Request }

// Kind is request.remind.
func (RequestRemind) Kind() string { return "request.remind" }

// Decide notes it, once a day.
func (c RequestRemind) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	r, err := own(w, at, c.Request)
	if err != nil {
		return world.Outcome{}, err
	}
	if next := r.Remindable(); at.Now < next {
		return world.Outcome{}, fault.New(codes.Conflict, "who decides request %d can be reminded once a day: from %s on", r.ID, moment(next))
	}
	r.Reminded = at.Now
	out := requestPut(r, fmt.Sprintf("request %d waits since %s: %s", r.ID, moment(r.Created), w.Asks(r)))
	out.Event.Account = seenBy(w, at, r)
	return out, nil
}

// own is an open request of the caller's.
func own(w *world.World, at world.Context, k id.Request) (approval.Request, error) {
	r, err := sighted(w, at, k)
	switch {
	case err != nil:
		return r, err
	case r.User != id.User(at.Principal.User) || !w.Can(at.Principal, access.RequestMake, r.User, r.Account):
		return r, fault.New(codes.Denied, "request %d isn't yours: who asked may do that", k)
	}
	return r, pending(r, at.Now)
}

// seenBy is the account of a request where the caller sees it; else 0, as if there were none.
func seenBy(w *world.World, at world.Context, r approval.Request) id.Account {
	if w.Can(at.Principal, access.AccountSee, 0, r.Account) {
		return r.Account
	}
	return 0
}

// RequestExpire closes a request that nobody has decided in time.
type RequestExpire struct{ Request id.Request }

// Kind is request.expire.
func (RequestExpire) Kind() string { return "request.expire" }

// Decide closes it, if it is due.
func (c RequestExpire) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	if !w.Can(at.Principal, access.System, 0, 0) {
		return world.Outcome{}, onlyServer
	}
	r, ok := w.Approvals.Requests.Get(c.Request)
	if !ok || r.State != approval.Open || r.Pending(at.Now) {
		return skip, nil
	}
	r = r.Close(approval.Expired, 0, "", at.Now)
	return refused(w, at, r, requestPut(r, fmt.Sprintf("request %d has expired: %s", r.ID, w.Asks(r))))
}
