// Package query answers every question that the API offers, for one caller each
// time: from the newest snapshot of the world where it can, and from the rows and
// the log in the database where history is asked for. It changes nothing and knows
// no transport.
//
// What a caller may not see is answered as not found, and is left out of lists.
package query

import (
	"context"
	"errors"
	"sync"
	"time"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/admission"
	"croft.dev/croft/internal/fairshare"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/idle"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/notice"
	"croft.dev/croft/internal/store"
	"croft.dev/croft/internal/usage"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

// Worlds gives the newest committed snapshot; the sequencer does.
type Worlds interface {
	World() *world.World
}

// History is what is read from the database; *store.Store has it.
type History interface {
	Job(ctx context.Context, job id.Job) (*workload.Job, error)
	Element(ctx context.Context, array id.Job, index int64) (*workload.Job, error)
	Jobs(ctx context.Context, f store.JobFilter, limit int) ([]workload.Job, error)
	Waits(ctx context.Context, job id.Job) ([]workload.Wait, error)
	Steps(ctx context.Context, job id.Job, f store.StepFilter, limit int) ([]workload.Step, error)
	Refusal(ctx context.Context, refusal id.Refusal) (*workload.Refusal, error)
	Refusals(ctx context.Context, f store.JobFilter, limit int) ([]workload.Refusal, error)
	Transfers(ctx context.Context, f store.TransferFilter, limit int) ([]ledger.Transfer, error)
	Tiles(ctx context.Context, f store.TileFilter, limit int) ([]ledger.Tile, error)
	TokenNames(ctx context.Context, ids []id.Token) (map[id.Token]string, error)
	Log(ctx context.Context, f store.LogFilter, limit int) ([]world.Entry, error)
	VerifyChain(ctx context.Context) (rows int64, err error)
	Books(ctx context.Context, read func(*store.Books) error) error
	DailyDiffers(ctx context.Context) (rows int64, first string, err error)
	Notices(ctx context.Context, f store.NoticeFilter, limit int) ([]notice.Notice, error)
}

var _ History = (*store.Store)(nil)

// Server is what the snapshot doesn't know of the running server.
type Server struct {
	Version  string
	Engine   string                        // "cri" or "sim"
	Started  time.Time                     // of this process
	Runtime  func() (ok bool, what string) // contact with the runtime; nil: not known
	Clock    func() string                 // "ok", or why expiry is paused; nil: ok
	Progress func(id.Job) string           // "pulling 40%"; nil: none
	Coming   func(image string) string     // "ready", "pulling 40%"; nil: not known

	// AppURL is where a browser that is logged in gets to a page of an application, the
	// job's first by an empty name; nil: there is no way for browsers.
	AppURL func(job id.Job, app, page string) string

	StepProgress func(*workload.Step) string    // "pulling 40%"; nil: none
	Kept         func(id.Attempt) *fault.Reason // what keeps an attempt from beginning; nil: nothing does

	Usage *usage.Book                                // what running jobs use; nil: not known
	Idle  func(id.Attempt) (v idle.Verdict, ok bool) // whether they show signs of work; nil: nobody looks
}

// Deps is what a Reader is made of.
type Deps struct {
	Worlds  Worlds
	History History
	Now     func() int64 // ns since the epoch
	Server  Server
}

// Reader answers questions. It is safe for concurrent use.
type Reader struct {
	Deps
	standings standings
}

// New returns a Reader.
func New(d Deps) *Reader {
	if d.Server.Runtime == nil {
		d.Server.Runtime = func() (bool, string) { return true, "" }
	}
	if d.Server.Clock == nil {
		d.Server.Clock = func() string { return "ok" }
	}
	if d.Server.Progress == nil {
		d.Server.Progress = func(id.Job) string { return "" }
	}
	if d.Server.Kept == nil {
		d.Server.Kept = func(id.Attempt) *fault.Reason { return nil }
	}
	if d.Server.StepProgress == nil {
		d.Server.StepProgress = func(*workload.Step) string { return "" }
	}
	return &Reader{Deps: d}
}

// view is one snapshot as one caller may see it.
type view struct {
	w     *world.World
	p     access.Principal
	now   int64
	aside func() setAside
	next  map[string]id.Job // the first waiting job of partitions, once somebody asked
	// shares is the standings of w, a second old at most
	shares func() *fairshare.Standings
	keeper func() *admission.Keeper
	names  *names
}

// names is what users and accounts are called, as far as somebody asked.
type names struct {
	users    map[id.User]string
	accounts map[id.Account]string
}

// setAside is what open jobs have set aside, by account and by source.
type setAside struct {
	account map[id.Account]money.Micros
	source  map[string]money.Micros
}

func (r *Reader) view(p access.Principal) view {
	w := r.Worlds.World()
	p.Now = max(r.Now(), w.Now)
	v := view{
		w: w, p: p, now: p.Now, aside: sync.OnceValue(func() setAside { return asideOf(w) }), next: map[string]id.Job{},
		shares: func() *fairshare.Standings { return r.standings.of(w, p.Now) },
		names:  &names{map[id.User]string{}, map[id.Account]string{}},
	}
	v.keeper = sync.OnceValue(func() *admission.Keeper { return v.decides().Keeper() })
	return v
}

// decides is what a decision about the view looks at.
func (v view) decides() admission.View {
	out := v.w.View(v.now)
	out.Standings = v.shares
	return out
}

func asideOf(w *world.World) setAside {
	out := setAside{map[id.Account]money.Micros{}, map[string]money.Micros{}}
	for _, j := range w.Workload.Jobs.All() {
		for _, s := range j.Sources {
			out.account[j.Account] += s.Left
			out.source[s.Source] += s.Left
		}
	}
	return out
}

func (v view) may(a access.Action, owner id.User, account id.Account) bool {
	return v.w.Can(v.p, a, owner, account)
}

// self is the caller's user id; 0 for the server itself.
func (v view) self() id.User { return id.User(v.p.User) }

func (v view) user(u id.User) string {
	return once(v.names.users, u, func() string {
		row, _ := v.w.Tenancy.Users.Get(u)
		_, taken := v.w.Tenancy.User(row.Name)
		return dated(row.Name, row.Retired, taken)
	})
}

func (v view) account(a id.Account) string {
	return once(v.names.accounts, a, func() string {
		row, _ := v.w.Tenancy.Accounts.Get(a)
		_, taken := v.w.Tenancy.Account(row.Name)
		return dated(row.Name, row.Retired, taken)
	})
}

// once is what is known at a key, found out when it is first asked for.
func once[K comparable](known map[K]string, key K, find func() string) string {
	name, ok := known[key]
	if !ok {
		name = find()
		known[key] = name
	}
	return name
}

// dated tells a name of the past from who has it now.
func dated(name string, retired int64, taken bool) string {
	if retired == 0 || !taken {
		return name
	}
	return name + " (until " + at(retired).Format(time.DateOnly) + ")"
}

// readErr turns what the database answered into what a caller may see.
func readErr(err error, kind, name string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, store.ErrNotFound):
		return fault.NotFound(kind, name)
	case errors.Is(err, store.ErrUnavailable):
		return fault.New(codes.Unavailable, "the server can't read its records right now; try again")
	}
	return err
}
