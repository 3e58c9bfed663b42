package query

import (
	"strings"
	"time"

	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/store"
)

// parsePeriod reads a month, "2026-11", a day, "2026-11-05", or from one of these to
// another, "2026-11-01..2026-11-15", the last included; empty is the month of now. Days
// begin at midnight UTC.
func parsePeriod(s string, now time.Time) (store.Period, error) {
	if s == "" {
		s = now.UTC().Format("2006-01")
	}
	first, last, ranged := strings.Cut(s, "..")
	if !ranged {
		last = first
	}
	from, _, ok := parseDays(first)
	_, to, ok2 := parseDays(last)
	if !ok || !ok2 || !from.Before(to) {
		return store.Period{}, fault.Invalid("period", "must be a month, 2026-11, a day, 2026-11-05, or from one to another, 2026-11-01..2026-11-15")
	}
	return store.Period{From: from.UnixNano(), To: to.UnixNano()}, nil
}

// parseDays reads a month or a day; end is the first moment after it.
func parseDays(s string) (begin, end time.Time, ok bool) {
	begin, err := time.Parse("2006-01", s)
	if end = begin.AddDate(0, 1, 0); err != nil {
		begin, err = time.Parse(time.DateOnly, s)
		end = begin.AddDate(0, 0, 1)
	}
	// within what nanoseconds in an int64 can say
	return begin, end, err == nil && begin.Year() >= 1970 && begin.Year() < 2200
}
