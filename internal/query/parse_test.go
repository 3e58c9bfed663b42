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
		"2026-11-15":             {day(11, 15), day(11, 16)},
		"2026-09..2026-10":       {day(9, 1), day(11, 1)},
		"2026-09-30..2026-10":    {day(9, 30), day(11, 1)},
		"2026-02":                {day(2, 1), day(3, 1)},
		"2026-12":                {day(12, 1), day(13, 1)},
		"2026-12-31":             {day(12, 31), day(13, 1)},
		"2026-02-28..2026-03":    {day(2, 28), day(4, 1)},
		"2028-02":                {day(26, 1), day(26, 30)}, // a leap year's 29 days
		"2028-02-29":             {day(26, 29), day(26, 30)},
		"2028-02-29..2028-02-29": {day(26, 29), day(26, 30)},
	}
	for in, want := range tests {
		got, err := parsePeriod(in, now)
		if err != nil || got.From != want.from || got.To != want.to {
			t.Errorf("%q: %v, %v", in, got, err)
		}
	}
	for _, in := range []string{"2026", "2026-13", "2026-11-15..2026-11-01", "2026-11-01..", "..", "..2026-11", "2026-11..2026-10", "2026-02-29", "2100-02-29", "2026-11-31", "2026-11-00", "2026-1", " 2026-11", "2026-11-01T00:00", "2026-11-01..2026-11-02..2026-11-03", "2200-01", "1969-12..1970-01", "2199-12..2200-01", "9999-01", "0001-01", "x"} {
		if _, err := parsePeriod(in, now); fault.Of(err) != codes.Invalid {
			t.Errorf("%q was read", in)
		}
	}
}

// The current month is that of UTC, wherever the server's clock is.
func TestCurrentMonth(t *testing.T) {
	tests := map[string]struct {
		now  time.Time
		want string
	}{
		"in the far east it is December already":  {time.Date(2026, 12, 1, 13, 59, 59, 0, time.FixedZone("", 14*3600)), "2026-11"},
		"in the far west it is November still":    {time.Date(2026, 11, 30, 12, 0, 0, 0, time.FixedZone("", -12*3600)), "2026-12"},
		"a moment before midnight":                {time.Date(2026, 11, 30, 23, 59, 59, 999999999, time.UTC), "2026-11"},
		"midnight is the next month's":            {time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC), "2026-12"},
		"the last moment of a leap year's second": {time.Date(2028, 2, 29, 23, 59, 59, 0, time.UTC), "2028-02"},
	}
	for name, tt := range tests {
		got, err := parsePeriod("", tt.now)
		want, _ := parsePeriod(tt.want, time.Time{})
		if err != nil || got != want {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

// A period is a span of time or an error; nothing panics or overflows.
func FuzzPeriod(f *testing.F) {
	f.Add("2026-11")
	f.Add("2026-11-01..2026-11-15")
	f.Add("2026-11-05")
	f.Add("1970-01..2199-12")
	f.Fuzz(func(t *testing.T, s string) {
		p, err := parsePeriod(s, time.Unix(0, 0))
		if err != nil {
			if fault.Of(err) != codes.Invalid {
				t.Errorf("%q: %v", s, err)
			}
			return
		}
		first, end := p.Days()
		if p.From < 0 || p.From >= p.To || first*Day != p.From || end*Day != p.To {
			t.Errorf("%q: %v isn't of whole days", s, p)
		}
		if again, err := parsePeriod(at(p.From).Format(time.DateOnly)+".."+at(p.To-1).Format(time.DateOnly), time.Unix(0, 0)); err != nil || again != p {
			t.Errorf("%q is %v, its days are %v, %v", s, p, again, err)
		}
	})
}
