package cli

import (
	"testing"
	"time"
)

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second:                         "0.0s",
		0:                                    "0.0s",
		250 * time.Millisecond:               "0.2s",
		9*time.Second + 999*time.Millisecond: "9.9s",
		45 * time.Second:                     "45s",
		3*time.Minute + 12*time.Second:       "3m12s",
		5 * time.Minute:                      "5m",
		72*time.Minute + 59*time.Second:      "1h12m",
		47*time.Hour + 30*time.Minute:        "47h30m",
		51 * time.Hour:                       "2d3h",
	} {
		if got := span(d); got != want {
			t.Errorf("%d: got %s, want %s", d, got, want)
		}
	}
}

func TestClock(t *testing.T) {
	a := &app{env: Env{Now: func() time.Time { return now }, Zone: zone}}
	for name, test := range map[string]struct {
		t    time.Time
		want string
	}{
		"today":            {*at(23, 59), "23:59"},
		"in another zone":  {time.Date(2026, 12, 1, 22, 30, 0, 0, time.UTC), "23:30"},
		"tomorrow":         {*day(2026, 12, 2), "Wed 00:00"},
		"yesterday":        {*day(2026, 11, 30), "Mon 00:00"},
		"six days":         {day(2026, 12, 7).Add(time.Hour), "Mon 01:00"},
		"seven days":       {*day(2026, 12, 8), "2026-12-08"},
		"a year":           {*day(2027, 12, 1), "2027-12-01"},
		"seven days since": {*day(2026, 11, 24), "2026-11-24"},
	} {
		if got := a.clock(test.t); got != test.want {
			t.Errorf("%s: got %s, want %s", name, got, test.want)
		}
	}
}

func TestWords(t *testing.T) {
	for n, want := range map[int64]string{1: "1st", 2: "2nd", 3: "3rd", 4: "4th", 11: "11th", 12: "12th", 13: "13th", 21: "21st", 112: "112th", 1003: "1003rd"} {
		if got := ordinal(n); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", -1234567: "-1,234,567", -123: "-123"} {
		if got := grouped(n); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestParseWhen(t *testing.T) {
	a := &app{env: Env{Now: func() time.Time { return now }, Zone: zone}}
	tests := map[string]struct {
		in   string
		end  bool
		want time.Time
		bad  bool
	}{
		"now":           {in: "now", want: now},
		"in two hours":  {in: "+2h", want: now.Add(2 * time.Hour)},
		"in 90 days":    {in: "+90d", want: now.AddDate(0, 0, 90)},
		"later today":   {in: "16:40", want: *at(16, 40)},
		"tomorrow":      {in: "09:00", want: at(9, 0).AddDate(0, 0, 1)},
		"date":          {in: "2027-03-31", want: *day(2027, 3, 31)},
		"last date":     {in: "2027-03-31", end: true, want: *day(2027, 4, 1)},
		"date and time": {in: "2027-03-31 08:30", end: true, want: day(2027, 3, 31).Add(8*time.Hour + 30*time.Minute)},
		"RFC 3339":      {in: "2027-03-31T08:30:00Z", want: time.Date(2027, 3, 31, 8, 30, 0, 0, time.UTC)},
		"empty":         {in: "", bad: true},
		"no day":        {in: "2027-02-30", bad: true},
		"German":        {in: "31.3.2027", bad: true},
		"negative":      {in: "+-2h", bad: true},
		"far":           {in: "+99999999999d", bad: true},
		"word":          {in: "tomorrow", bad: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := a.parseWhen(test.in, test.end)
			if (err != nil) != test.bad || (!test.bad && !got.Equal(test.want)) {
				t.Errorf("got %v, %v, want %v", got, err, test.want)
			}
		})
	}
}

// FuzzParseWhen: no text makes it panic or gives a time without an error that
// isn't one.
func FuzzParseWhen(f *testing.F) {
	for _, s := range []string{"now", "+2h", "16:40", "2027-03-31", "+1d2h", "+9223372036854775807ns"} {
		f.Add(s)
	}
	a := &app{env: Env{Now: func() time.Time { return now }, Zone: zone}}
	f.Fuzz(func(t *testing.T, s string) {
		for _, end := range []bool{startOfDay, endOfDay} {
			if got, err := a.parseWhen(s, end); err == nil && got.IsZero() && s != "0001-01-01" {
				t.Errorf("%q is no time", s)
			}
		}
		if d, err := parseSpan(s); err == nil && d < 0 {
			t.Errorf("%q is %v", s, d)
		}
	})
}
