package query

import (
	"testing"
	"time"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/fault"
)

// A cursor is good for its own question and is refused by every other.
func FuzzCursor(f *testing.F) {
	filter := filterHash("jobs", "1")
	f.Add(cursor{Filter: filter, ID: 7}.encode())
	f.Add(cursor{Filter: filterHash("jobs", "2"), ID: 7}.encode())
	f.Add("AAAA")
	f.Add("eyJ2IjoyfQ")
	f.Fuzz(func(t *testing.T, s string) {
		c, err := parseCursor(s, filter)
		if err != nil {
			if fault.Of(err) != codes.Invalid {
				t.Errorf("%q: %v", s, err)
			}
			return
		}
		if s == "" {
			return
		}
		again, err := parseCursor(c.encode(), filter)
		if err != nil || again != c {
			t.Errorf("%q: %v came back as %v, %v", s, c, again, err)
		}
		if _, err := parseCursor(s, filterHash("transfers")); err == nil {
			t.Errorf("%q is good for another question too", s)
		}
	})
}

func TestParsePeriod(t *testing.T) {
	now := time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)
	day := func(m time.Month, d int) int64 { return time.Date(2026, m, d, 0, 0, 0, 0, time.UTC).UnixNano() }
	tests := map[string]struct{ from, to int64 }{
		"":                       {day(11, 1), day(12, 1)},
		"2026-10":                {day(10, 1), day(11, 1)},
		"2026-11-01..2026-11-15": {day(11, 1), day(11, 16)},
		"2026-11-15..2026-11-15": {day(11, 15), day(11, 16)},
	}
	for in, want := range tests {
		got, err := parsePeriod(in, now)
		if err != nil || got.From != want.from || got.To != want.to {
			t.Errorf("%q: %v, %v", in, got, err)
		}
	}
	for _, in := range []string{"2026", "2026-13", "2026-11-15..2026-11-01", "2026-11-01..", "9999-01", "0001-01", "x"} {
		if _, err := parsePeriod(in, now); fault.Of(err) != codes.Invalid {
			t.Errorf("%q was read", in)
		}
	}
}

// A period is a span of time or an error; nothing panics or overflows.
func FuzzPeriod(f *testing.F) {
	f.Add("2026-11")
	f.Add("2026-11-01..2026-11-15")
	f.Fuzz(func(t *testing.T, s string) {
		if p, err := parsePeriod(s, time.Unix(0, 0)); err == nil && p.From >= p.To {
			t.Errorf("%q: %v", s, p)
		}
	})
}
