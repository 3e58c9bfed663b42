package limits

import (
	"slices"
	"sort"
	"time"
)

// Zone is a site's time zone: what its clocks show, by when it changes. An empty one
// is UTC. It is data, taken from the time zone database when the server starts, so
// that a decision doesn't depend on what that database says.
type Zone []Offset

// Offset is by how much clocks are ahead of UTC, from a moment on.
type Offset struct {
	From    int64 // ns; the first of a Zone also counts before
	Seconds int64
}

// ZoneOf is what a location's clocks show between two moments, in ns. It looks four
// times a day: time.Time.ZoneBounds isn't reliable in years that no table is for.
func ZoneOf(loc *time.Location, from, to int64) Zone {
	offset := func(ns int64) int64 {
		_, seconds := time.Unix(0, ns).In(loc).Zone()
		return int64(seconds)
	}
	const step = 6 * 3600 * second
	z := Zone{{from, offset(from)}}
	for at := from; at < to; at += step {
		last := z[len(z)-1].Seconds
		if next := min(at+step, to); offset(next) != last {
			n := sort.Search(int((next-at)/second), func(i int) bool { return offset(at+int64(i)*second) != last })
			z = append(z, Offset{at + int64(n)*second, offset(at + int64(n)*second)})
		}
	}
	return z
}

// at is the index of the offset that counts at a moment.
func (z Zone) at(ns int64) int {
	i, found := slices.BinarySearchFunc(z, ns, func(o Offset, ns int64) int {
		switch {
		case o.From < ns:
			return -1
		case o.From > ns:
			return 1
		}
		return 0
	})
	if !found {
		i--
	}
	return max(i, 0)
}

// local is what the clocks show at a moment, as if it were UTC.
func (z Zone) local(ns int64) time.Time {
	if len(z) > 0 {
		ns += z[z.at(ns)].Seconds * 1e9
	}
	return time.Unix(0, ns).UTC()
}

// first is the first moment at which the clocks show local, or later if they never
// show it.
func (z Zone) first(local time.Time) int64 {
	ns := local.UnixNano()
	if len(z) == 0 {
		return ns
	}
	const most = 26 * 3600e9 // no clock is further from UTC
	for i := z.at(ns - most); ; i++ {
		t := ns - z[i].Seconds*1e9
		if i > 0 {
			t = max(t, z[i].From)
		}
		if i == len(z)-1 || t < z[i+1].From {
			return t
		}
	}
}

// Days is the moment so many days after another at which the clocks show the same, or
// later if they never show it on that day.
func (z Zone) Days(ns int64, days int) int64 {
	return z.first(z.local(ns).AddDate(0, 0, days))
}

// Clock is what the clocks show, as "14:00".
func (z Zone) Clock(ns int64) string { return z.local(ns).Format("15:04") }

// Weekday is the day of the week on which a moment is.
func (z Zone) Weekday(ns int64) time.Weekday { return z.local(ns).Weekday() }

// Unit is what a period is.
type Unit string

// The units. A week begins on Monday.
const (
	Day     Unit = "day"
	Week    Unit = "week"
	Month   Unit = "month"
	Quarter Unit = "quarter" // of allowances alone
	Year    Unit = "year"
	Rolling Unit = "rolling" // what lies less than a span of time back
)

// begin is the first day of the unit that a day is in.
func (u Unit) begin(day time.Time) time.Time {
	y, m, d := day.Date()
	switch u {
	case Year:
		m, d = time.January, 1
	case Quarter:
		m, d = (m-1)/3*3+1, 1
	case Month:
		d = 1
	case Week:
		d -= (int(day.Weekday()) + 6) % 7
	}
	return time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
}

// next is the first day of the unit after that which begins on a day.
func (u Unit) next(begin time.Time) time.Time {
	switch u {
	case Year:
		return begin.AddDate(1, 0, 0)
	case Quarter:
		return begin.AddDate(0, 3, 0)
	case Month:
		return begin.AddDate(0, 1, 0)
	case Week:
		return begin.AddDate(0, 0, 7)
	}
	return begin.AddDate(0, 0, 1)
}

// period is the calendar's period of a unit that a moment is in: from its first
// moment to that of the next. Where clocks are set back over midnight the day begins
// once, the first time.
func (z Zone) period(u Unit, ns int64) (from, to int64) {
	begin := u.begin(z.local(ns))
	from = z.first(begin)
	for {
		begin = u.next(begin)
		if to = z.first(begin); ns < to {
			return from, to
		}
		from = to
	}
}
