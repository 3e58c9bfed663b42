package query

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/admission"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/placement"
	"croft.dev/croft/internal/quantity"
	"croft.dev/croft/internal/store"
	"croft.dev/croft/internal/tenancy"
	"croft.dev/croft/internal/workload"
)

// Accuracy compares what was said of jobs as they were submitted with what became of them,
// of those that the caller may read. The period is one as statements have them.
func (r *Reader) Accuracy(ctx context.Context, p access.Principal, period string) (v1.Accuracy, error) {
	v := r.view(p)
	span, err := parsePeriod(period, time.Unix(0, v.now))
	if err != nil {
		return v1.Accuracy{}, err
	}
	s := scores{now: v.now, starts: map[saidOf]*startScore{}, costs: map[string]*costScore{}}
	seen := map[id.Job]bool{}
	add := func(j *workload.Job) error {
		if seen[j.ID] = true; v.may(access.JobRead, j.User, j.Account) {
			s.add(j)
		}
		return nil
	}
	var accounts []id.Account
	for k := range v.w.Tenancy.Accounts.All() {
		if v.may(access.AccountSee, 0, k) {
			accounts = append(accounts, k)
		}
	}
	if err := r.History.Books(ctx, func(b *store.Books) error { return b.Over(accounts, span, add) }); err != nil {
		return v1.Accuracy{}, readErr(err, "", "")
	}
	if span.From <= v.now && v.now < span.To {
		for k, j := range v.w.Workload.Jobs.All() {
			if !seen[k] && j.Ended == 0 {
				_ = add(j)
			}
		}
	}
	out := s.wire()
	out.Period, out.From, out.To = cmp.Or(period, time.Unix(0, v.now).UTC().Format("2006-01")), at(span.From), at(span.To)
	return out, nil
}

// saidOf are jobs of a partition of which the same kind of start was said.
type saidOf struct {
	partition string
	kind      placement.WindowKind
}

// startScore is how far the starts of jobs were from what was said.
type startScore struct {
	jobs, started, early, onTime, late int64
	off                                []int64 // ns, whichever way
	latest                             int64   // ns
}

// costScore is how far the costs of jobs were from what was said, in thousandths of that.
type costScore struct {
	off   []int64
	above int64
}

type scores struct {
	now    int64 // ns
	starts map[saidOf]*startScore
	costs  map[string]*costScore
}

// add compares a job. One of which nothing was said isn't counted.
func (s scores) add(j *workload.Job) {
	said := j.Quoted
	if said.Kind == "" {
		return
	}
	key := saidOf{j.Spec.Partition, placement.WindowKind(said.Kind)}
	if s.starts[key] == nil {
		s.starts[key] = &startScore{}
	}
	began := j.FirstStart()
	s.starts[key].add(said.Start, began, cmp.Or(j.Ended, s.now))
	if began == 0 || j.Ended == 0 || said.Cost <= 0 || j.Spec.Workspace() || j.Billing == string(tenancy.BillingOff) {
		return
	}
	c := s.costs[j.Spec.Partition]
	if c == nil {
		c = &costScore{}
		s.costs[j.Spec.Partition] = c
	}
	off := int64(said.Cost - j.Charged)
	if off < 0 {
		off = -off
		c.above++
	}
	if part, ok := muldiv(off, 1000, int64(said.Cost)); ok {
		c.off = append(c.off, part)
	}
}

// add counts a start that was said for a time (0: unknown). Whoever had not begun (0) when
// last looked at is late, once that is so long after what was said.
func (s *startScore) add(said, began, last int64) {
	s.jobs++
	if began != 0 {
		s.started++
		last = began
	}
	off := last - said
	switch {
	case said == 0 || began == 0 && off <= admission.StartMargin:
		return
	case off > admission.StartMargin:
		s.late++
	case off < -admission.StartMargin:
		s.early++
	default:
		s.onTime++
	}
	s.latest = max(s.latest, off)
	s.off = append(s.off, max(off, -off))
}

func (s scores) wire() v1.Accuracy {
	out := v1.Accuracy{Starts: []v1.StartAccuracy{}, Costs: []v1.CostAccuracy{}}
	for _, k := range slices.SortedFunc(maps.Keys(s.starts), func(a, b saidOf) int {
		return cmp.Or(cmp.Compare(a.partition, b.partition), cmp.Compare(sureness(a.kind), sureness(b.kind)))
	}) {
		n := s.starts[k]
		row := v1.StartAccuracy{Partition: k.partition, Said: string(k.kind), Jobs: n.jobs, Started: n.started, Early: n.early, OnTime: n.onTime, Late: n.late}
		if len(n.off) > 0 {
			row.P50, row.P90, row.Latest = seconds(percentile(n.off, 50)), seconds(percentile(n.off, 90)), seconds(n.latest)
		}
		out.Starts = append(out.Starts, row)
	}
	for _, p := range slices.Sorted(maps.Keys(s.costs)) {
		c := s.costs[p]
		if len(c.off) == 0 {
			continue
		}
		out.Costs = append(out.Costs, v1.CostAccuracy{
			Partition: p, Jobs: int64(len(c.off)), Above: c.above,
			P50: quantity.FormatDecimal(percentile(c.off, 50), 1, 1), P90: quantity.FormatDecimal(percentile(c.off, 90), 1, 1),
		})
	}
	return out
}

// sureness orders what was said, the surest first.
func sureness(k placement.WindowKind) int {
	return slices.Index([]placement.WindowKind{placement.StartNow, placement.StartPromised, placement.StartEstimated, placement.StartUnknown}, k)
}

// percentile is the least of values, of which there are some, that p of a hundred of them
// don't exceed (the nearest rank). It sorts them.
func percentile(values []int64, p int) int64 {
	slices.Sort(values)
	return values[(len(values)*p+99)/100-1]
}

// seconds is a span to the second.
func seconds(ns int64) v1.Quantity {
	if ns < int64(time.Second) {
		return "0s"
	}
	return v1.Quantity(quantity.FormatDuration(ns))
}

// quotedWire is what was said of a job, nil for nothing.
func quotedWire(q workload.Quoted) *v1.Quoted {
	if q.Kind == "" {
		return nil
	}
	out := &v1.Quoted{Kind: q.Kind, Start: moment(q.Start)}
	if q.Cost > 0 {
		out.Cost = q.Cost.String()
	}
	return out
}
