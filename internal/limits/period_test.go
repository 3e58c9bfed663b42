package limits

import (
	"math"
	"slices"
	"testing"
	"time"

	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/id"
	"pgregory.net/rapid"
)

const hour = int64(time.Hour)

// attempt is what a period counts.
type attempt struct {
	who          Who
	ask          Ask
	began, ended int64 // ns
	came         int64 // s
	reserved     bool
}

func (a *attempt) amount(l Limit) int64 {
	seconds := a.came
	if a.reserved {
		seconds = a.ask.Seconds()
	}
	n := map[Resource]int64{CPUHours: a.ask.CPU, MemHours: (a.ask.Mem + 1<<20 - 1) >> 20, GPUHours: a.ask.GPU}[l.Resource]
	for _, m := range a.ask.Models {
		if l.Resource == Resource("gpu-hours:"+m.Model) {
			n = m.Count
		}
	}
	return n * seconds
}

// past is a history of attempts, from which use follows by the definition.
type past struct {
	s        State
	loc      *time.Location
	now      int64
	attempts []*attempt
}

func (h *past) fold(changes []Change) {
	for _, c := range changes {
		h.s.Fold(c)
	}
}

// starts lists when the periods of a limit began, from the first that counts to the
// one after now, by the standard library's calendar.
func (h *past) starts(l Limit, since int64) []int64 {
	first := time.Unix(0, since).In(h.loc)
	y, m, d := first.Date()
	var out []int64
	for i := 0; ; i++ {
		var at time.Time
		switch l.Per.Unit {
		case Day:
			at = time.Date(y, m, d+i, 0, 0, 0, 0, h.loc)
		case Week:
			at = time.Date(y, m, d-(int(first.Weekday())+6)%7+7*i, 0, 0, 0, 0, h.loc)
		case Month:
			at = time.Date(y, m+time.Month(i), 1, 0, 0, 0, 0, h.loc)
		default:
			at = time.Date(y+i, 1, 1, 0, 0, 0, 0, h.loc)
		}
		out = append(out, at.UnixNano())
		if at.UnixNano() > h.now {
			return out
		}
	}
}

// used is what the limit's attempts came to that began between two moments, or may.
func (h *past) used(l Limit, from, to int64) int64 {
	var sum int64
	for _, a := range h.attempts {
		if a.began >= from && a.began < to && a.who.Within(l.Scope) {
			sum += a.amount(l)
		}
	}
	return sum
}

// want is a limit's bound and use by the definition.
func (h *past) want(l Limit, since int64) (most, used int64) {
	starts := h.starts(l, since)
	carried := int64(0)
	for i := 0; i+1 < len(starts); i++ {
		most, used = l.Max+carried, h.used(l, starts[i], starts[i+1])
		left := max(min(most-used, l.Max), 0)
		if carried = min(left, l.Carry.Amount); l.Carry.Milli > 0 {
			carried = left * l.Carry.Milli / 1000
		}
	}
	return most, used
}

func drawAsk(t *rapid.T) Ask {
	a := Ask{Wall: rapid.Int64Range(1, 40*hour).Draw(t, "wall"), Grace: rapid.Int64Range(0, 60e9).Draw(t, "grace")}
	a.CPU, a.Mem = rapid.Int64Range(1, 8).Draw(t, "cpu")*500, rapid.Int64Range(1, 8<<30).Draw(t, "mem")
	if n := rapid.Int64Range(0, 3).Draw(t, "gpu"); n > 0 {
		a.GPU, a.Models = n, []catalog.ModelCount{{Model: rapid.SampledFrom([]string{"a100", "h100"}).Draw(t, "model"), Count: n}}
	}
	return a
}

func drawWho(t *rapid.T) Who {
	return Who{
		Path: rapid.SampledFrom([][]id.Account{{1}, {2, 1}, {3, 2, 1}}).Draw(t, "path"), User: id.User(rapid.IntRange(1, 2).Draw(t, "user")),
		Partition: "a", QoS: rapid.SampledFrom([]string{"low", "high"}).Draw(t, "qos"),
	}
}

func drawPeriodic(t *rapid.T, h *past, units ...Unit) Limit {
	l := Limit{
		ID: h.s.Next(), Scope: Scope{Account: id.Account(rapid.IntRange(0, 3).Draw(t, "of account")), User: id.User(rapid.IntRange(0, 2).Draw(t, "of user"))},
		Resource: rapid.SampledFrom([]Resource{CPUHours, MemHours, GPUHours, "gpu-hours:a100"}).Draw(t, "resource"),
		Per:      Per{Unit: rapid.SampledFrom(units).Draw(t, "unit")},
	}
	if l.Per.Unit == Rolling {
		l.Per.Span = rapid.Int64Range(3600, 30*24*3600).Draw(t, "span") * second
	}
	l.Max = rapid.Int64Range(0, 200).Draw(t, "max") * l.Resource.hour()
	if l.Per.Unit != Rolling && rapid.Bool().Draw(t, "by share") {
		l.Carry.Milli = rapid.Int64Range(0, 1000).Draw(t, "share")
	} else if l.Per.Unit != Rolling {
		l.Carry.Amount = rapid.Int64Range(0, l.Max+5).Draw(t, "amount")
	}
	return l
}

// step lets time pass, and something happen: a start, an end, an opening. It reports
// an attempt that began although a limit forbids it, or the other way round.
func (h *past) step(t *rapid.T, limits []Limit, bound func(Limit) (most, used int64)) {
	h.now += rapid.Int64Range(0, 30*hour).Draw(t, "passes")
	if rapid.IntRange(0, 9).Draw(t, "long") == 0 {
		h.now += rapid.Int64Range(0, 70).Draw(t, "days") * 24 * hour
	}
	switch rapid.IntRange(0, 4).Draw(t, "what") {
	case 0, 1, 2:
		a := &attempt{who: drawWho(t), ask: drawAsk(t), began: h.now, reserved: true}
		a.ask.Now = h.now
		forbidden := h.s.Check(a.who, a.ask)
		for _, l := range limits {
			most, used := bound(l)
			n := a.amount(l)
			passes := n > 0 && a.who.Within(l.Scope) && used+n > most
			named := slices.ContainsFunc(forbidden, func(v Violation) bool { return v.Limit.ID == l.ID })
			if passes != named {
				t.Fatalf("%+v: %d asked, %d of %d used; named %v", l, n, used, most, named)
			}
		}
		if len(forbidden) == 0 {
			h.fold(h.s.Reserve(a.who, a.ask))
			h.attempts = append(h.attempts, a)
		}
	case 3:
		for _, a := range h.attempts {
			if a.reserved && rapid.Bool().Draw(t, "ends") {
				a.end(t, h)
			}
		}
	case 4:
		h.fold(h.s.Open(h.now))
		if again := h.s.Open(h.now); len(again) > 0 {
			t.Fatalf("opened twice: %+v", again)
		}
	}
}

func (a *attempt) end(t *rapid.T, h *past) {
	seconds := a.ask.Seconds()
	came := min(rapid.Int64Range(0, seconds).Draw(t, "came"), (h.now-a.began)/second)
	h.fold(h.s.Settle(a.who, a.ask.Demand, a.began, seconds, came))
	a.came, a.reserved, a.ended = came, false, h.now
}

// What is used in a calendar's period is what the attempts that began in it came to,
// or still may, and what is carried over follows from the periods before: whenever
// periods are opened, if ever.
func TestCalendarAgainstOracle(t *testing.T) {
	berlin := location(t, "Europe/Berlin")
	z := zone(berlin)
	rapid.Check(t, func(t *rapid.T) {
		h := &past{loc: berlin, now: time.Date(2028, 1, 20, 0, 0, 0, 0, time.UTC).UnixNano() + rapid.Int64Range(0, 300*24*3600).Draw(t, "first")*second}
		h.s.Zone = z
		since := h.now
		var limits []Limit
		for range rapid.IntRange(1, 3).Draw(t, "limits") {
			l := drawPeriodic(t, h, Day, Week, Month, Year)
			if _, twice := h.s.Find(l.Scope, l.Resource, l.Per); twice {
				continue
			}
			h.fold(append([]Change{LimitSet{l}}, h.s.Begin(l, h.now, nil)...))
			limits = append(limits, l)
		}
		bound := func(l Limit) (int64, int64) {
			b := h.s.BoundOf(l, h.now)
			most, used := h.want(l, since)
			starts := h.starts(l, since)
			from, to := starts[len(starts)-2], starts[len(starts)-1]
			if b.Used != used || b.From != from || b.To != to {
				t.Fatalf("%+v: %+v, want %d used from %d to %d", l, b, used, from, to)
			}
			if late := h.late(starts); b.Max > most || b.Max != most && !late {
				t.Fatalf("%+v: at most %d, want %d (late %v)", l, b.Max, most, late)
			}
			return b.Max, b.Used
		}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			h.step(t, limits, bound)
			for _, l := range limits {
				bound(l)
			}
		}
	})
}

// late reports whether some attempt ended later than in the period after the one in
// which it began: what it gives back then isn't carried over any more.
func (h *past) late(starts []int64) bool {
	in := func(at int64) int {
		i, found := slices.BinarySearch(starts, at)
		if !found {
			i--
		}
		return i
	}
	return slices.ContainsFunc(h.attempts, func(a *attempt) bool { return !a.reserved && in(a.ended) > in(a.began)+1 })
}

// In any span of time, the attempts that begin in it use at most the limit; one
// counts no longer than a hundredth more than the span.
func TestRollingAgainstOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := &past{now: time.Date(2026, 11, 1, 9, 0, 0, 0, time.UTC).UnixNano()}
		l := drawPeriodic(t, h, Rolling)
		h.fold(append([]Change{LimitSet{l}}, h.s.Begin(l, h.now, nil)...))
		step := (l.Per.Span + 100*second - 1) / (100 * second) * second
		bound := func(l Limit) (int64, int64) {
			b := h.s.BoundOf(l, h.now)
			least, most := h.used(l, h.now-l.Per.Span+1, h.now+1), h.used(l, h.now-l.Per.Span-step, h.now+1)
			if b.Used < least || b.Used > most || b.Max != l.Max {
				t.Fatalf("%+v: %+v, want from %d to %d", l, b, least, most)
			}
			return b.Max, b.Used
		}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			h.step(t, []Limit{l}, bound)
			bound(l)
			if n := len(h.s.periodsOf(l.ID)); n > 103+40 {
				t.Fatalf("%d rows", n)
			}
		}
		for _, a := range h.attempts {
			if n := h.used(l, a.began, a.began+l.Per.Span); n > l.Max {
				t.Fatalf("%d used from %d on, of %d", n, a.began, l.Max)
			}
		}
	})
}

// A limit that is set while attempts run counts those that began in its period, and
// gives back what they don't use.
func TestALimitOnWhatRuns(t *testing.T) {
	day := time.Date(2026, 11, 2, 12, 0, 0, 0, time.UTC).UnixNano()
	who := Who{Path: []id.Account{2, 1}, User: 1, Partition: "a", QoS: "low"}
	d := Demand{GPU: 2000}
	live := []Live{
		{Who: who, Demand: d, Began: day - 6*hour, Seconds: 5 * 3600},
		{Who: who, Demand: d, Began: day - 13*hour, Seconds: 20 * 3600}, // yesterday
		{Who: Who{Path: []id.Account{1}, User: 1}, Demand: d, Began: day, Seconds: 3600},
	}
	var s State
	l := Limit{ID: 1, Scope: Scope{Account: 2}, Resource: GPUHours, Per: Per{Unit: Day}, Max: 4 * 3600 * 1000, Carry: Carry{Milli: 500}}
	s.Fold(LimitSet{l})
	for _, c := range s.Begin(l, day, live) {
		s.Fold(c)
	}
	if b := s.BoundOf(l, day); b.Used != 10*3600*1000 || b.Left() != 0 {
		t.Errorf("%+v", b)
	}
	for _, c := range append(s.Settle(who, d, day-6*hour, 5*3600, 3600), s.Settle(who, d, day-13*hour, 20*3600, 7200)...) {
		s.Fold(c)
	}
	if b := s.BoundOf(l, day); b.Used != 2*3600*1000 {
		t.Errorf("%+v", b)
	}
	if b := s.BoundOf(l, day+24*hour); b.Used != 0 || b.Max != 5*3600*1000 {
		t.Errorf("the next day: %+v", b)
	}
	if b := s.BoundOf(l, day+1000*24*hour); b.Max != 6*3600*1000 {
		t.Errorf("after a long time, with nothing opened: %+v", b)
	}
}

// Amounts too large for an int64 are more than any limit.
func TestHoursNearTheEdge(t *testing.T) {
	var s State
	l := Limit{ID: 1, Resource: MemHours, Per: Per{Unit: Day}, Max: math.MaxInt64, Carry: Carry{Milli: 1000}}
	s.Fold(LimitSet{l})
	who := Who{Path: []id.Account{1}, User: 1}
	ask := Ask{Demand: Demand{Mem: math.MaxInt64}, Wall: math.MaxInt64, Grace: math.MaxInt64, Now: hour}
	if got := s.Check(who, ask); len(got) != 0 {
		t.Errorf("%+v", got)
	}
	for range 3 {
		for _, c := range s.Reserve(who, ask) {
			s.Fold(c)
		}
	}
	if b := s.BoundOf(l, hour); b.Used != math.MaxInt64 || b.Left() != 0 {
		t.Errorf("%+v", b)
	}
	if got := s.Check(who, Ask{Demand: Demand{Mem: 1}, Wall: 1, Now: hour}); len(got) != 1 || got[0].Never {
		t.Errorf("%+v", got)
	}
}

// What is written is read as the same again.
func TestAmounts(t *testing.T) {
	tests := []struct {
		resource Resource
		text     string
		n        int64
	}{
		{GPUHours, "500", 500 * 3600 * 1000}, {GPUHours, "0.5", 1800 * 1000}, {CPUHours, "1", 3600 * 1000}, {MemHours, "1.25", 4608000}, {"gpu-hours:a100", "0.1", 360 * 1000},
		{CPUHours, "0.001", 3600}, {CPU, "1.5", 1500}, {Mem, "64G", 64 << 30}, {Time, "2h", 2 * hour}, {JobGPU, "4", 4000}, {GPU, "0.5", 500}, {"gpu:a100", "2.125", 2125}, {Submitted, "10000", 10000},
		{GPUHours, "2562047788015.125", 2562047788015125 * 3600},
	}
	for _, tt := range tests {
		n, err := Parse(tt.resource, tt.text)
		if err != nil || n != tt.n {
			t.Errorf("%s %s is %d (%v), want %d", tt.resource, tt.text, n, err, tt.n)
		}
		if text := Format(tt.resource, tt.n); text != tt.text {
			t.Errorf("%s %d is %s, want %s", tt.resource, tt.n, text, tt.text)
		}
	}
	if text := Format(GPUHours, 3599999999); text != "1000" {
		t.Error(text)
	}
	for _, bad := range []string{"", "-1", "x", "1e9", "0.0001", "99999999999999999", "1h"} {
		if n, err := Parse(CPUHours, bad); err == nil {
			t.Errorf("%q is %d", bad, n)
		}
	}
}

// Whatever text comes in, reading it doesn't panic, and what was read is written so
// that it is read as the same.
func FuzzTexts(f *testing.F) {
	for _, s := range []string{"gpu-hours", "rolling 7d", "50%", "12.5%", "month", "job.gpu:a100", "rolling 0", "100.1%", "9223372036854775807", "-hours", "gpu-hours:"} {
		f.Add(s, "1.5")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		r := Resource(a)
		_ = r.Valid()
		_, _ = r.Model()
		if p, ok := ParsePer(a); ok {
			if again, ok := ParsePer(p.String()); !ok || again != p {
				t.Fatalf("%q is %+v, then %+v", a, p, again)
			}
		}
		for _, r := range []Resource{r, GPUHours, MemHours, CPUHours} {
			n, err := Parse(r, b)
			if err != nil {
				continue
			}
			if n < 0 {
				t.Fatalf("%s %q is %d", r, b, n)
			}
			if again, err := Parse(r, Format(r, n)); r.Hours() && (err != nil || again-n > r.hour()/1000+1 || n-again > r.hour()/1000+1) {
				t.Fatalf("%s %q is %d, then %d (%v)", r, b, n, again, err)
			}
		}
		if c, err := ParseCarry(GPUHours, b); err == nil && (c.Milli < 0 || c.Amount < 0) {
			t.Fatalf("%+v", c)
		}
	})
}
