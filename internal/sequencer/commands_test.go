package sequencer

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/store"
	"croft.dev/croft/internal/tenancy"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

// test is a command of these tests: Do says what it decides, Name marks its effect.
type test struct {
	Do   string
	Name string
}

func (c test) Kind() string { return "test." + c.Do }

var errInside = errors.New("secret detail")

func (c test) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	switch c.Do {
	case "submit":
		return c.submit(w, at), nil
	case "end":
		return c.end(w), nil
	case "account":
		n, _, _ := w.Tenancy.Accounts.Last()
		return outcome(tenancy.AccountSet{Row: tenancy.Account{ID: n + 1, Name: c.Name}}), nil
	case "limit":
		next := w.Limits.Next()
		return outcome(limits.LimitSet{Row: limits.Limit{ID: next, Scope: limits.Scope{User: id.User(next)}, Resource: limits.CPU, Max: 5}},
			limits.LimitSet{Row: limits.Limit{ID: next, Removed: next%2 == 0, Scope: limits.Scope{User: id.User(next)}}}), nil
	case "refuse":
		row := &workload.Refusal{ID: w.Workload.NextRefusal(), Spec: workload.Spec{Name: c.Name}, Verdict: []byte("{}")}
		out := outcome(workload.RefusalSet{Row: row})
		out.Event.Refusal = row.ID
		out.Fault = &fault.Error{Code: codes.Refused, ID: row.ID.String()}
		return out, nil
	case "reject":
		return world.Outcome{}, fault.New(codes.Denied, "no")
	case "skip":
		return world.Outcome{Event: world.Event{Skip: true}, Result: "nothing"}, nil
	case "fail":
		return world.Outcome{}, errInside
	case "panic":
		panic(errInside)
	case "poison": // the store can't take it
		return outcome(ledger.Posted{Row: ledger.Transfer{ID: 1 << 40, From: "funding:x", To: "grant:1", Amount: -1}}), nil
	case "who":
		return world.Outcome{Result: at.Principal, Event: world.Event{Message: "a\x00b\xff"}}, nil
	}
	return world.Outcome{}, fmt.Errorf("no such test: %s", c.Do)
}

func outcome(changes ...world.Change) world.Outcome { return world.Outcome{Changes: changes} }

// submit puts a job, its deposit and a device's next tile: three tables.
func (c test) submit(w *world.World, at world.Context) world.Outcome {
	job := &workload.Job{
		ID: w.Workload.NextJob(), User: 1, Account: 1, Path: []id.Account{1}, State: workload.Queued, Submitted: at.Now,
		Spec: workload.Spec{Name: c.Name, Partition: "p", CPU: 1000, Mem: 1 << 30}, Deposit: 7, Seq: at.Seq, Key: at.Key,
	}
	out := outcome(workload.JobSet{Row: job}, ledger.Posted{Row: ledger.Transfer{
		ID: w.Ledger.NextTransfer(), Seq: at.Seq, At: at.Now, From: ledger.Platform, To: ledger.Deposit(job.ID, ledger.OfGrant(1)),
		Amount: 7, Kind: ledger.KindDeposit, Job: job.ID, Account: 1, User: 1,
	}})
	if open := w.Ledger.OpenTiles("d"); len(open) == 0 {
		out.Changes = append(out.Changes, ledger.TileSet{Row: ledger.Tile{Device: "d", From: at.Now}})
	} else if last := open[0]; last.From < at.Now {
		last.To = at.Now
		out.Changes = append(out.Changes, ledger.TileSet{Row: last}, ledger.TileSet{Row: ledger.Tile{Device: "d", From: at.Now}})
	}
	out.Result, out.Event.Job = job.ID, job.ID
	return out
}

// end ends the oldest few jobs, and returns their deposits.
func (c test) end(w *world.World) world.Outcome {
	var out world.Outcome
	next := w.Ledger.NextTransfer()
	for _, job := range w.Workload.Jobs.All() {
		if len(out.Changes) == 6 {
			break
		}
		ended := *job
		ended.State = workload.Ended
		out.Changes = append(out.Changes, workload.JobSet{Row: &ended}, ledger.Posted{Row: ledger.Transfer{
			ID: next, From: ledger.Deposit(job.ID, ledger.OfGrant(1)), To: ledger.Platform, Amount: 7, Kind: ledger.KindReturn,
		}})
		next++
	}
	out.Event.Skip = len(out.Changes) == 0
	return out
}

// memory is a store that only counts, and fails as told.
type memory struct {
	mu    sync.Mutex
	head  store.Head
	rows  []store.Batch
	sizes []int
	// before and after are called around a commit; an error of after leaves the
	// batch committed.
	before, after func([]store.Batch) error
	unreadable    error // of Head
}

func (m *memory) Commit(_ context.Context, all []store.Batch) error {
	if m.before != nil {
		if err := m.before(all); err != nil {
			return err
		}
	}
	m.mu.Lock()
	m.rows = append(m.rows, all...)
	m.sizes = append(m.sizes, len(all))
	last := all[len(all)-1].Entry
	m.head = store.Head{Seq: last.Seq, At: last.At, Hash: last.Hash}
	m.mu.Unlock()
	if m.after != nil {
		return m.after(all)
	}
	return nil
}

func (m *memory) Head(context.Context) (store.Head, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.head, m.unreadable
}
