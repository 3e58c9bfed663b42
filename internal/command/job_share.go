package command

import (
	"fmt"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

// JobShare lets others into the applications and terminals of a job: a user, the members of an account,
// or whoever comes.
type JobShare struct {
	Job     id.Job
	User    string `json:",omitempty"`
	Account string `json:",omitempty"`
	Public  bool   `json:",omitempty"`
	Level   access.Share
	Until   int64 `json:",omitempty"` // ns; 0: with the job
}

// Kind is job.share.
func (JobShare) Kind() string { return "job.share" }

// Decide shares it, for its owner. Shared once more with the same it is as said last.
func (c JobShare) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	old, err := sharing(w, at, c.Job)
	if err != nil {
		return world.Outcome{}, err
	}
	with, name, err := appSharedWith(w, at, c.User, c.Account, c.Public)
	switch {
	case err != nil:
		return world.Outcome{}, err
	case len(old.Spec.Apps) == 0 && c.Public:
		return world.Outcome{}, fault.New(codes.Conflict, "job %s has no applications, and terminals aren't for everybody: share it with a user or an account", old.Name())
	case c.Level != access.ShareView && c.Level != access.ShareFull:
		return world.Outcome{}, fault.Invalid("level", "must be view or full")
	case with.User == old.User:
		return world.Outcome{}, fault.Invalid("user", "%s is whose the job is", c.User)
	}
	if err := siteShares(w, c.Public); err != nil {
		return world.Outcome{}, err
	}
	if err := future("until", c.Until, at.Now); err != nil {
		return world.Outcome{}, err
	}
	with.Level, with.Until, with.Since = c.Level, c.Until, at.Now
	if was, ok := old.SharedWith(with, at.Now); ok && was.Level == with.Level && was.Until == with.Until {
		return world.Outcome{Result: old, Event: world.Event{Skip: true}}, nil
	}
	j := edit(old, at)
	if j.Shared = old.ShareWith(with, at.Now); len(j.Shared) > workload.MaxShared {
		return world.Outcome{}, fault.New(codes.Conflict, "job %s is shared with %d already: share it with an account, or end some", old.Name(), workload.MaxShared)
	}
	return put(w, j, fmt.Sprintf("shared with %s (%s)", name, c.Level)), nil
}

// siteShares says why the site lets nobody else in.
func siteShares(w *world.World, public bool) error {
	if !w.Site.Apps.Shared {
		return fault.New(codes.Denied, "applications here share one origin, in which one could act for the visitors of another: an admin can give them names (apps.domain), or allow it all the same (apps.share_by_path)")
	}
	if public && !w.Site.Apps.Public {
		return fault.New(codes.Denied, "this site lets nobody in who has no login (apps.public)")
	}
	return nil
}

// JobUnshare takes back what JobShare gave.
type JobUnshare struct {
	Job     id.Job
	User    string `json:",omitempty"`
	Account string `json:",omitempty"`
	Public  bool   `json:",omitempty"`
}

// Kind is job.unshare.
func (JobUnshare) Kind() string { return "job.unshare" }

// Decide takes it back. Who controls the job may: it only takes.
func (c JobUnshare) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	old, err := controlled(w, at, c.Job, "do that with")
	if err != nil {
		return world.Outcome{}, err
	}
	with, name, err := appSharedWith(w, at, c.User, c.Account, c.Public)
	if err != nil {
		return world.Outcome{}, err
	}
	if _, ok := old.SharedWith(with, at.Now); !ok {
		return world.Outcome{}, fault.New(codes.Conflict, "job %s isn't shared with %s", old.Name(), name)
	}
	j := edit(old, at)
	j.Shared = old.UnshareWith(with, at.Now)
	return put(w, j, "no longer shared with "+name), nil
}

// sharing is a job that the caller may share.
func sharing(w *world.World, at world.Context, k id.Job) (*workload.Job, error) {
	j, ok := w.Workload.Jobs.Get(k)
	if !ok || !w.Can(at.Principal, access.JobRead, j.User, j.Account) {
		return nil, fault.New(codes.NotFound, "no such job: %s", k.Name())
	}
	if !w.CanJob(at.Principal, access.JobShare, j) {
		return nil, fault.New(codes.Denied, "only whose job it is may share %s%s", k.Name(), world.OnlyItsOwn(at.Principal, j))
	}
	return j, nil
}

// appSharedWith is whom something is shared with, and their name. Accounts are those that the
// caller sees.
func appSharedWith(w *world.World, at world.Context, user, account string, public bool) (with workload.Shared, name string, err error) {
	given := 0
	for _, is := range []bool{user != "", account != "", public} {
		if is {
			given++
		}
	}
	if given != 1 {
		return with, "", fault.Invalid("user", "give a user, an account, or public: one of them")
	}
	switch {
	case user != "":
		u, ok := w.Tenancy.User(user)
		if !ok {
			return with, "", fault.NotFound("user", user)
		}
		return workload.Shared{User: u.ID}, user, nil
	case account != "":
		a, ok := w.Tenancy.Account(account)
		if !ok || !w.Can(at.Principal, access.AccountSee, 0, a.ID) {
			return with, "", fault.NotFound("account", account)
		}
		return workload.Shared{Account: a.ID}, "account " + account, nil
	}
	return with, "everybody", nil
}

// AppEnter notes that somebody comes to an application of a job.
type AppEnter struct {
	Job id.Job
	App string
	// Visitor is where somebody comes from who has not logged in: only the system says so.
	Visitor string
}

// Kind is app.enter.
func (AppEnter) Kind() string { return "app.enter" }

// Decide lets the caller in, or not. It changes nothing but the log.
func (c AppEnter) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	who, by := at.Principal, ""
	if c.Visitor != "" {
		if !who.System {
			return world.Outcome{}, fault.New(codes.Denied, "who comes without a login is noted by the server")
		}
		who, by = access.Principal{Now: at.Now}, " by a visitor from "+c.Visitor
	}
	j, ok := w.Workload.Jobs.Get(c.Job)
	if !ok || !w.CanApp(who, access.AppView, j) {
		return world.Outcome{}, fault.New(codes.NotFound, "no such job: %s", c.Job.Name())
	}
	app, ok := j.Spec.App(c.App)
	if !ok {
		return world.Outcome{}, fault.New(codes.NotFound, "job %s has no application %s", j.Name(), c.App)
	}
	return world.Outcome{Result: j, Event: world.Event{Job: j.ID, Account: j.Account, State: string(j.State), Message: "application " + app.Name + " opened" + by}}, nil
}
