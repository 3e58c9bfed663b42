package command

import (
	"cmp"
	"fmt"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/metering"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

// started takes element e, which has its allocation, out of its array: with its share
// of the deposit. array is the row before; nil for a job that is none's.
func started(at world.Context, p *ledger.Posting, array, e *workload.Job) []world.Change {
	if array == nil {
		return nil
	}
	rest := edit(array, at)
	money := metering.Hand(p, rest, e)
	rest.Starts(e.Index)
	rest.Promise, rest.Claim, rest.Message = 0, 0, ""
	rest.LineUp(at.Now, at.Now)
	return append([]world.Change{workload.JobSet{Row: rest}}, wrap(money)...)
}

// over is what else changes when j has ended: of an element its array, which ends with
// its last, and those that wait for either.
func over(w *world.World, at world.Context, p *ledger.Posting, j *workload.Job) []world.Change {
	words := told(w, j)
	old, ok := w.Workload.Jobs.Get(j.Of)
	if !ok {
		return settle(w, at, words)
	}
	array := edit(old, at)
	array.Ends(j)
	array.LineUp(at.Now, at.Now)
	changes, more := closed(w, at, p, array)
	return append(changes, settle(w, at, append(words, more...))...)
}

// closed is the row of an array, which ends if nothing of it is left, and what those are
// told then that wait for it.
func closed(w *world.World, at world.Context, p *ledger.Posting, array *workload.Job) ([]world.Change, []word) {
	outcome, done := array.Array.Over()
	if !done {
		return []world.Change{workload.JobSet{Row: array}}, nil
	}
	withdrawn := unasked(w, at, array)
	array.State, array.Outcome, array.Ended = workload.Ended, outcome, at.Now
	switch outcome {
	case codes.Failed:
		array.ExitCode = 1
	case codes.Cancelled:
		array.ExitCode = 130
	}
	array.Message = cmp.Or(array.Message, tallies(array.Array))
	changes := append([]world.Change{workload.JobSet{Row: array}}, wrap(metering.Close(p, &w.Ledger, array))...)
	return append(changes, withdrawn...), told(w, array)
}

// tallies says how many elements ended how, of those that didn't complete.
func tallies(a *workload.Array) string {
	out := ""
	for _, t := range a.Ended {
		if t.Outcome != codes.Completed {
			out += fmt.Sprintf(", %d %s", t.Count, words(t.Outcome))
		}
	}
	return out[min(len(out), 2):]
}

// drop ends elements of an array that wait; nil: all of them. Those that run go on.
func drop(w *world.World, at world.Context, array *workload.Job, which workload.Elements, outcome codes.Outcome, message string) (world.Outcome, error) {
	p := w.Ledger.NewPosting(at.Seq, at.Now)
	ends := array.Array.Pending
	if which != nil {
		ends = ends.And(which)
	}
	n, words := ends.Len(), dropped(w, at, array.ID, ends, outcome)
	money := metering.GiveBack(p, &w.Ledger, array, array.Share(n))
	array.Drops(which, outcome)
	if array.Fragmented() {
		return world.Outcome{}, fault.Invalid("elements", "what is left would be too many ranges: stop larger ones")
	}
	array.Message = message
	array.LineUp(at.Now, at.Now)
	changes, more := closed(w, at, p, array)
	changes = append(append(wrap(money), changes...), settle(w, at, append(words, more...))...)
	return world.Outcome{Changes: changes, Result: array, Event: world.Event{
		Job: array.ID, Account: array.Account, State: string(array.State), Message: fmt.Sprintf("%d elements %s", n, endMessage(outcome, message)),
	}}, nil
}

// stopArray stops elements of an array: those that wait end at once, those that run are
// told to. No elements: all of them.
func (c JobStop) stopArray(w *world.World, at world.Context, old *workload.Job, by string) (world.Outcome, error) {
	array := edit(old, at)
	out := world.Outcome{Result: old, Event: world.Event{Job: old.ID, Account: old.Account, State: string(old.State), Message: by}}
	if n := old.Array.Pending.Common(c.Elements); n > 0 || c.Elements == nil && old.Waits() > 0 {
		var err error
		if out, err = drop(w, at, array, c.Elements, codes.Cancelled, by); err != nil {
			return out, err
		}
	}
	for e := range w.Workload.ElementsOf(old.ID) {
		if c.Elements != nil && !c.Elements.Has(e.Index) {
			continue
		}
		if !workload.RulesOf(e.State).Running {
			continue // it waits again: it is stopped by its name
		}
		one := edit(e, at)
		if c.tell(one, at, codes.Cancelled, by) {
			out.Changes = append(out.Changes, workload.JobSet{Row: one})
		}
	}
	out.Event.Skip = len(out.Changes) == 0
	return out, nil
}
