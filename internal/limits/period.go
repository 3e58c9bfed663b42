package limits

import (
	"strings"

	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/quantity"
	"croft.dev/croft/internal/table"
)

// Per is the periods that a limit on hours is for: a unit of the calendar, or the
// time that lies less than Span back.
type Per struct {
	Unit Unit  `json:"unit,omitempty"`
	Span int64 `json:"span,omitempty"` // ns, of Rolling
}

// Bounds of a rolling span, in ns.
const (
	minSpan = 3600 * second
	maxSpan = 3660 * 24 * 3600 * second
)

// ParsePer reads day, week, month, year or "rolling 7d".
func ParsePer(text string) (Per, bool) {
	switch u := Unit(text); u {
	case Day, Week, Month, Year:
		return Per{Unit: u}, true
	}
	span, ok := strings.CutPrefix(text, string(Rolling)+" ")
	ns, err := quantity.ParseDuration(span)
	if p := (Per{Rolling, ns}); ok && err == nil && p.Valid() {
		return p, true
	}
	return Per{}, false
}

// Valid reports whether p is a period that can be.
func (p Per) Valid() bool {
	switch p.Unit {
	case Day, Week, Month, Year:
		return p.Span == 0
	case Rolling:
		return p.Span >= minSpan && p.Span <= maxSpan && p.Span%second == 0
	}
	return false
}

func (p Per) String() string {
	if p.Unit == Rolling {
		return string(Rolling) + " " + quantity.FormatDuration(p.Span)
	}
	return string(p.Unit)
}

// Carry is how much of what a period leaves unused may be used in the next one: a
// share of it, in thousandths, or up to an amount.
type Carry struct {
	Milli  int64 `json:"milli,omitempty"`
	Amount int64 `json:"amount,omitempty"`
}

// ParseCarry reads a share such as 50%, or an amount of a resource; nothing is none.
func ParseCarry(r Resource, text string) (Carry, error) {
	if text == "" {
		return Carry{}, nil
	}
	if share, ok := strings.CutSuffix(text, "%"); ok {
		milli, err := quantity.ParseDecimal(share, 1)
		return Carry{Milli: milli}, err
	}
	n, err := Parse(r, text)
	return Carry{Amount: n}, err
}

// Text writes what is carried over as ParseCarry reads it.
func (c Carry) Text(r Resource) string {
	switch {
	case c.Milli > 0:
		return quantity.FormatDecimal(c.Milli, 1, 0) + "%"
	case c.Amount > 0:
		return Format(r, c.Amount)
	}
	return ""
}

// Of is what is carried over of what was left, rounded down.
func (c Carry) Of(left int64) int64 {
	if c.Milli > 0 {
		return left/1000*c.Milli + left%1000*c.Milli/1000
	}
	return min(left, c.Amount)
}

// Valid reports whether c is a share of at most all, or an amount.
func (c Carry) Valid() bool {
	return c.Milli >= 0 && c.Milli <= 1000 && c.Amount >= 0 && (c.Milli == 0 || c.Amount == 0)
}

// Most is the greatest that the bound is now or can come to.
func (b Bound) Most() int64 { return max(b.Max, plus(b.Limit.Max, b.Limit.Carry.Of(b.Limit.Max))) }

// Period is what is used of a limit in one period. An attempt counts whole, in the
// period in which it began; while it runs, with what it may still come to.
type Period struct {
	Limit    id.Limit
	From, To int64 // ns
	Max      int64 // the limit's, as long as no later period was opened
	Carried  int64 // from the period before
	Used     int64
	Over     bool // nothing depends on it any more
}

// left is what the period leaves unused. What was carried over is used first and
// lapses: only the period's own is left.
func (p Period) left() int64 { return max(min(plus(p.Max, p.Carried)-p.Used, p.Max), 0) }

func (p Period) key() string { return table.Pair(int64(p.Limit), p.From) }

func (s *State) putPeriod(p Period) {
	if p.Over {
		s.periods.Delete(p.key())
		return
	}
	s.periods.Set(p.key(), p)
}

// periodsOf lists the rows of a limit, in time.
func (s *State) periodsOf(l id.Limit) []Period {
	var out []Period
	for _, p := range s.periods.From(table.Pair(int64(l), 0)) {
		if p.Limit != l {
			break
		}
		out = append(out, p)
	}
	return out
}

// steps is how many parts a rolling span is counted in.
const steps = 100

// window is the period in which what begins now counts.
func (s *State) window(l Limit, now int64) (from, to int64) {
	if l.Per.Unit == Rolling {
		step := up(l.Per.Span, steps*second) * second
		from = now - now%step
		return from, from + step
	}
	return s.Zone.period(l.Per.Unit, now)
}

// counts reports whether what began in a period still counts.
func (l Limit) counts(p Period, now int64) bool {
	if l.Per.Unit == Rolling {
		return now < plus(p.To, l.Per.Span)
	}
	return now < p.To
}

// current is the row in which what begins now counts, as it is or as it would be
// opened. Nothing has to have opened it: what is carried over follows from the rows
// that there are.
func (s *State) current(l Limit, rows []Period, now int64) Period {
	if n := len(rows); n > 0 && now < rows[n-1].To {
		p := rows[n-1]
		p.Max = l.Max
		return p
	}
	p := Period{Limit: l.ID, Max: l.Max}
	p.From, p.To = s.window(l, now)
	if n := len(rows); n > 0 && l.Per.Unit != Rolling {
		before := rows[n-1]
		if _, to := s.window(l, before.To); now < to {
			p.From = before.To // also if the site's calendar has changed meanwhile
		} else {
			before = Period{Max: l.Max} // one in which nothing was used lies between
		}
		p.Carried = l.Carry.Of(before.left())
	}
	return p
}

// hoursOf is a limit on hours with what is used of it now.
func (s *State) hoursOf(l Limit, now int64) Bound {
	rows := s.periodsOf(l.ID)
	p := s.current(l, rows, now)
	b := Bound{Limit: l, Max: plus(l.Max, p.Carried), Used: p.Used, From: p.From, To: p.To}
	if l.Per.Unit != Rolling {
		return b
	}
	for _, r := range rows {
		if r.From != p.From && l.counts(r, now) {
			b.Used = plus(b.Used, r.Used)
		}
	}
	b.From, b.To = max(now-l.Per.Span, 0), 0
	return b
}

// Open is the rows of periods that have begun, and of those that are over.
func (s *State) Open(now int64) []Change {
	var out []Change
	for _, l := range s.Limits.All() {
		if l.Resource.Hours() {
			out = append(out, s.turn(l, now, 0)...)
		}
	}
	return out
}

// turn puts a limit's current row with more added to its use, and ends those that
// nothing depends on any more. A calendar's period before the current one stays:
// what its jobs give back may still be carried over.
func (s *State) turn(l Limit, now, more int64) []Change {
	var out []Change
	rows := s.periodsOf(l.ID)
	p := s.current(l, rows, now)
	p.Used = plus(p.Used, more)
	for i, r := range rows {
		switch {
		case r.From == p.From:
			if r == p {
				p.Limit = 0
			}
		case l.Per.Unit == Rolling && !l.counts(r, now), l.Per.Unit != Rolling && (r.To < p.From || i < len(rows)-2):
			r.Over = true
			out = append(out, PeriodSet{r})
		}
	}
	if p.Limit != 0 && (l.Per.Unit != Rolling || p.Used > 0) {
		out = append(out, PeriodSet{p})
	}
	return out
}

// Reserve counts what an attempt that begins now can come to.
func (s *State) Reserve(w Who, a Ask) []Change {
	var out []Change
	s.bounding(w, func(_ string, sc scoped) {
		for _, l := range sc.limits {
			if n := a.Of(l.Resource); l.Resource.Hours() && n > 0 {
				out = append(out, s.turn(l, a.Now, n)...)
			}
		}
	})
	return out
}

// Settle replaces what an attempt reserved when it began by what it came to: seconds
// each. What began before a limit counts is not in its rows, and changes nothing.
func (s *State) Settle(w Who, d Demand, began, reserved, came int64) []Change {
	var out []Change
	s.bounding(w, func(_ string, sc scoped) {
		for _, l := range sc.limits {
			if l.Resource.Hours() {
				out = append(out, s.settle(l, began, d.hours(l.Resource, came), d.hours(l.Resource, reserved))...)
			}
		}
	})
	return out
}

func (s *State) settle(l Limit, began, came, reserved int64) []Change {
	if came == reserved {
		return nil
	}
	var out []Change
	rows := s.periodsOf(l.ID)
	for i, p := range rows {
		if began < p.From || began >= p.To {
			continue
		}
		p.Used = max(plus(p.Used-min(p.Used, reserved), came), 0)
		out = append(out, PeriodSet{p})
		if i+1 < len(rows) && rows[i+1].From == p.To && l.Per.Unit != Rolling {
			next := rows[i+1]
			next.Carried = l.Carry.Of(p.left())
			out = append(out, PeriodSet{next})
		}
	}
	return out
}

// Close ends the periods of a limit that is removed.
func (s *State) Close(l Limit) []Change {
	var out []Change
	for _, p := range s.periodsOf(l.ID) {
		p.Over = true
		out = append(out, PeriodSet{p})
	}
	return out
}

// Live is an attempt that hasn't ended when a limit is set.
type Live struct {
	Who     Who
	Demand  Demand
	Began   int64 // ns
	Seconds int64 // that it has reserved
}

// Begin is the first rows of a limit on hours that is set now: what runs counts from
// when it began, what has ended before doesn't.
func (s *State) Begin(l Limit, now int64, live []Live) []Change {
	from, to := s.window(l, now)
	rows := []Period{{Limit: l.ID, From: from, To: to, Max: l.Max}}
	for _, r := range live {
		n := r.Demand.hours(l.Resource, r.Seconds)
		if n == 0 || !r.Who.Within(l.Scope) {
			continue
		}
		from, to := s.window(l, r.Began)
		p := Period{Limit: l.ID, From: from, To: to, Max: l.Max}
		if !l.counts(p, now) {
			continue
		}
		i := 0
		for i < len(rows) && rows[i].From != from {
			i++
		}
		if i == len(rows) {
			rows = append(rows, p)
		}
		rows[i].Used = plus(rows[i].Used, n)
	}
	var out []Change
	for _, p := range rows {
		out = append(out, PeriodSet{p})
	}
	return out
}
