package query

import (
	"strings"
	"time"

	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/store"
)

// parsePeriod reads a month, "2026-11", or two days, "2026-11-01..2026-11-15", the
// second one included; empty is the month of now. Days begin at midnight UTC.
func parsePeriod(s string, now time.Time) (store.Period, error) {
	now = now.UTC()
	bad := fault.Invalid("period", "must be a month, 2026-11, or days, 2026-11-01..2026-11-15")
	if s == "" {
		s = now.Format("2006-01")
	}
	if first, last, days := strings.Cut(s, ".."); days {
		from, err := time.Parse(time.DateOnly, first)
		to, err2 := time.Parse(time.DateOnly, last)
		if err != nil || err2 != nil || to.Before(from) || !sane(from) || !sane(to) {
			return store.Period{}, bad
		}
		return store.Period{From: from.UnixNano(), To: to.AddDate(0, 0, 1).UnixNano()}, nil
	}
	month, err := time.Parse("2006-01", s)
	if err != nil || !sane(month) {
		return store.Period{}, bad
	}
	return store.Period{From: month.UnixNano(), To: month.AddDate(0, 1, 0).UnixNano()}, nil
}

// sane keeps a time within what nanoseconds in an int64 can say.
func sane(t time.Time) bool { return t.Year() >= 1970 && t.Year() < 2200 }
