package query

import (
	"fmt"
	"strings"
	"sync"
	"time"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/internal/admission"
	"croft.dev/croft/internal/fairshare"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/quantity"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

// standings keeps the newest standings. Ranking thousands of users takes
// milliseconds, and every submission asks.
type standings struct {
	mu      sync.Mutex
	edition *fairshare.Edition
	at      int64
	is      *fairshare.Standings
}

// of is the standings in w at time now, or up to a second before.
func (s *standings) of(w *world.World, now int64) *fairshare.Standings {
	s.mu.Lock()
	defer s.mu.Unlock()
	if age := now - s.at; s.is == nil || s.edition != w.Shares.Edition() || age < 0 || age >= int64(time.Second) {
		s.edition, s.at, s.is = w.Shares.Edition(), now, w.View(now).Standings()
	}
	return s.is
}

// priority is what a priority is made of, with what is behind each factor.
func (v view) priority(from admission.View, factors []admission.Factor, lane workload.Lane, wait int64) []v1.Factor {
	out := make([]v1.Factor, len(factors))
	for i, f := range factors {
		out[i] = v1.Factor{Name: string(f.Kind), Value: f.Points}
		switch f.Kind {
		case admission.FactorQoS, admission.FactorPartition:
			out[i].Name += " " + f.Of
		case admission.FactorQueue:
			out[i].Name += " " + f.Of
			out[i].Meaning = v.turnMeaning(from, lane)
		case admission.FactorShare:
			if from.Weights.Share != 0 {
				out[i].Meaning = v.shareMeaning(from, lane.Account, lane.User)
			}
		case admission.FactorAge:
			if f.Points != 0 {
				out[i].Meaning = fmt.Sprintf("has waited for %s, which counts up to %s", quantity.FormatDuration(wait), quantity.FormatDuration(from.Weights.AgeCap))
			}
		case admission.FactorPinned:
			out[i].Meaning = "an operator has fixed it"
		}
	}
	return out
}

// turnMeaning is "nlp uses 2 of the 3 gpu that it is guaranteed", or "nlp has borrowed 1
// gpu, number 2 of 3 to have more".
func (v view) turnMeaning(from admission.View, l workload.Lane) string {
	t, _ := from.TurnOf(l)
	amount := func(n int64) string { return limits.Format(t.Resource, n) }
	who := "whoever has no share"
	if t.Account != 0 {
		who = v.account(t.Account)
	}
	if t.Below {
		return fmt.Sprintf("%s uses %s of the %s %s that it is guaranteed", who, amount(t.Taken), amount(t.Guaranteed), t.Resource)
	}
	place := fmt.Sprintf("number %d of %d to have more", t.Before+1, t.Places)
	if n := t.Borrowed(); n > 0 && t.Account != 0 {
		return fmt.Sprintf("%s has borrowed %s %s: %s", who, amount(n), t.Resource, place)
	}
	return who + " is guaranteed nothing more: " + place
}

// shareMeaning is "7th of 23: faculty has used 1.30× its share, nlp 0.40×, ada 3.20×".
// It leaves out who has a share with nobody.
func (v view) shareMeaning(from admission.View, a id.Account, u id.User) string {
	s := from.Standings()
	line := "number " + decimal(s.Before(from.Tenancy, a, u)+1) + " of " + decimal(max(s.Places(), 1))
	var parts []string
	path := s.Path(a, u)
	for i := len(path) - 1; i >= 0; i-- {
		n := path[i]
		if n.Weight == n.Siblings || n.Level == 0 {
			continue
		}
		verb := " "
		if len(parts) == 0 {
			verb = " has used "
		}
		parts = append(parts, v.nodeName(n)+verb+times(n))
		if len(parts) == 1 {
			parts[0] += " its share"
		}
	}
	if len(parts) == 0 {
		return line
	}
	return line + ": " + strings.Join(parts, ", ")
}

func (v view) nodeName(n fairshare.Node) string {
	if n.User != 0 {
		return v.user(n.User)
	}
	return v.account(n.Account)
}

// times is how often a node has used its share: "1.30×".
func times(n fairshare.Node) string { return quantity.FormatDecimal(n.Times(), 2, 2) + "×" }

func (v view) jobPriority(from admission.View, j *workload.Job) []v1.Factor {
	return v.priority(from, from.Factors(j), j.LaneOf(), v.now-j.Since())
}
