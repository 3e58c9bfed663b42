package cli

import (
	"strings"
	"time"
)

// Where a date given as a point in time lies.
const (
	startOfDay = false
	endOfDay   = true
)

// parseWhen reads a point in time: "now", "+2h", "16:40" (the next one),
// "2027-03-31", "2027-03-31 16:40" or RFC 3339. A date alone is its first moment
// or, at the end of a period, the first moment after it.
func (a *app) parseWhen(s string, end bool) (time.Time, error) {
	now := a.env.Now().In(a.env.Zone)
	if s == "now" {
		return now, nil
	}
	if after, ok := strings.CutPrefix(s, "+"); ok {
		d, err := parseSpan(after)
		if err != nil {
			return time.Time{}, err
		}
		return now.Add(d), nil
	}
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return t, nil
	}
	for _, layout := range []string{"2006-01-02 15:04", "2006-01-02T15:04", "2006-01-02 15:04:05"} {
		if t, err := time.ParseInLocation(layout, s, a.env.Zone); err == nil {
			return t, nil
		}
	}
	if t, err := time.ParseInLocation(time.DateOnly, s, a.env.Zone); err == nil {
		if end {
			t = t.AddDate(0, 0, 1)
		}
		return t, nil
	}
	if t, err := time.ParseInLocation("15:04", s, a.env.Zone); err == nil {
		t = time.Date(now.Year(), now.Month(), now.Day(), t.Hour(), t.Minute(), 0, 0, a.env.Zone)
		if !t.After(now) {
			t = t.AddDate(0, 0, 1)
		}
		return t, nil
	}
	return time.Time{}, usage("%q: want a time as 16:40, 2027-03-31, \"2027-03-31 16:40\", +2h or RFC 3339", s)
}

// parseSpan reads a length of time; it takes days too.
func parseSpan(s string) (time.Duration, error) {
	bad := usage("%q: want a length of time, such as 30m, 2h or 90d", s)
	var days time.Duration
	if n, rest, ok := strings.Cut(s, "d"); ok {
		for _, r := range n {
			if r < '0' || r > '9' || days > 100_000 {
				return 0, bad
			}
			days = days*10 + time.Duration(r-'0')
		}
		if n == "" || days > 100_000 {
			return 0, bad
		}
		if s = rest; s == "" {
			return days * 24 * time.Hour, nil
		}
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 || d > 1_000_000*time.Hour {
		return 0, bad
	}
	return days*24*time.Hour + d, nil
}

// whenFlag is parseWhen of a flag that may be absent. What begins now does so when the
// server has heard of it: what it was here would be past there.
func (a *app) whenFlag(s string, end bool) (*time.Time, error) {
	if s == "" || s == "now" && !end {
		return nil, nil
	}
	t, err := a.parseWhen(s, end)
	if err != nil {
		return nil, err
	}
	return &t, nil
}

// parseSince reads a point in the past: "10m" is that long ago, "16:40" the last
// one.
func (a *app) parseSince(s string) (time.Time, error) {
	if d, err := parseSpan(s); err == nil {
		return a.env.Now().Add(-d), nil
	}
	t, err := a.parseWhen(s, startOfDay)
	if err == nil && len(s) == len("15:04") && t.After(a.env.Now()) {
		t = t.AddDate(0, 0, -1)
	}
	return t, err
}
