package command

import (
	"cmp"
	"slices"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

// word is what a step says to a job that waits for others. Several may go to one job.
type word struct {
	to   id.Job
	tell func(*workload.Job) (changed bool)
}

// settle tells waiting jobs what has become of others, in the same step: those that
// waited for nothing else join the queue. What can't start any more ends in a step of its
// own, which is due at once.
func settle(w *world.World, at world.Context, words []word) []world.Change {
	slices.SortStableFunc(words, func(a, b word) int { return cmp.Compare(a.to, b.to) })
	var out []world.Change
	for len(words) > 0 {
		n := 1
		for n < len(words) && words[n].to == words[0].to {
			n++
		}
		if old, ok := w.Workload.Jobs.Get(words[0].to); ok {
			waiting, changed := edit(old, at), false
			for _, word := range words[:n] {
				changed = word.tell(waiting) || changed
			}
			if changed {
				waiting.LineUp(at.Now, waiting.Submitted)
				out = append(out, workload.JobSet{Row: waiting})
			}
		}
		words = words[n:]
	}
	return out
}

// told is what those that wait for a job are told once it has started or ended: by its
// number, and of an element by its name.
func told(w *world.World, j *workload.Job) []word {
	fate := j.Fate()
	out := fates(w, fate)
	if j.Of != 0 {
		fate.Job = id.Element(j.Of, j.Index)
		out = append(out, fates(w, fate)...)
	}
	switch {
	case j.State != workload.Ended:
	case j.Of != 0:
		one := workload.Elements{{First: j.Index, Last: j.Index, Step: 1}}
		out = append(out, followers(w, j.Of, one, j.Outcome)...)
	default:
		out = append(out, successor(w, j)...)
	}
	return out
}

func fates(w *world.World, f workload.Fate) []word {
	var out []word
	for waiting := range w.Workload.Awaiting(f.Job) {
		out = append(out, word{waiting.ID, func(j *workload.Job) bool { return j.Settle(f) }})
	}
	return out
}

// followers tells the arrays that wait for another element by element.
func followers(w *world.World, array id.Job, ended workload.Elements, as codes.Outcome) []word {
	var out []word
	for waiting := range w.Workload.Followers(array) {
		out = append(out, word{waiting.ID, func(j *workload.Job) bool { return j.Follow(ended, as) }})
	}
	return out
}

// successor tells the first of the jobs that have the user and name of one that has
// ended: if it was to wait for those before it, none is left.
func successor(w *world.World, ended *workload.Job) []word {
	for k := range w.Workload.Namesakes(ended.User, ended.Spec.Name) {
		if k != ended.ID {
			return []word{{k, func(j *workload.Job) bool { return j.SettleSingle(ended.Ended) }}}
		}
	}
	return nil
}

// dropped is what those are told that wait for elements of an array which end without
// having started.
func dropped(w *world.World, at world.Context, array id.Job, which workload.Elements, as codes.Outcome) []word {
	out := followers(w, array, which, as)
	for element, waiting := range w.Workload.AwaitingElements(array) {
		if _, index, _ := element.Array(); which.Has(index) {
			f := workload.Fate{Job: element, Ended: at.Now, Outcome: as}
			out = append(out, word{waiting.ID, func(j *workload.Job) bool { return j.Settle(f) }})
		}
	}
	return out
}
