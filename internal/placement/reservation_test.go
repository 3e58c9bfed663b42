package placement

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"croft.dev/croft/internal/limits"
)

// windows lists the first windows of a reservation as a site's clocks show them.
func windows(t *testing.T, loc *time.Location, from string, length time.Duration, repeat string, most int) []string {
	t.Helper()
	const form = "2006-01-02 15:04"
	begin, err := time.ParseInLocation(form, from, loc)
	if err != nil {
		t.Fatal(err)
	}
	every, ok := ParseRepeat(repeat)
	if !ok {
		t.Fatalf("repeat %q", repeat)
	}
	zone := limits.ZoneOf(loc, begin.Add(-48*time.Hour).UnixNano(), begin.AddDate(0, 2, 0).UnixNano())
	r := Reservation{From: begin.UnixNano(), Length: int64(length), Repeat: every}
	r.First(zone)
	var out []string
	for r.Next != 0 && len(out) < most {
		a, b := r.Window(zone)
		out = append(out, time.Unix(0, a).In(loc).Format(form)+" "+time.Duration(b-a).String())
		r.Advance(zone)
	}
	return out
}

func TestWindowsByTheClock(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		from, repeat string
		length       time.Duration
		want         []string
	}{
		"once":                           {"2026-11-02 09:00", "", 2 * time.Hour, []string{"2026-11-02 09:00 2h0m0s"}},
		"clocks go forward":              {"2026-03-28 09:00", "day", 2 * time.Hour, []string{"2026-03-28 09:00 2h0m0s", "2026-03-29 09:00 2h0m0s", "2026-03-30 09:00 2h0m0s"}},
		"clocks go back":                 {"2026-10-24 09:00", "day", 2 * time.Hour, []string{"2026-10-24 09:00 2h0m0s", "2026-10-25 09:00 2h0m0s", "2026-10-26 09:00 2h0m0s"}},
		"at an hour that there isn't":    {"2026-03-28 02:30", "day", time.Hour, []string{"2026-03-28 02:30 1h0m0s", "2026-03-29 03:00 1h0m0s", "2026-03-30 02:30 1h0m0s"}},
		"at an hour that there is twice": {"2026-10-24 02:30", "day", time.Hour, []string{"2026-10-24 02:30 1h0m0s", "2026-10-25 02:30 1h0m0s", "2026-10-26 02:30 1h0m0s"}},
		"a day of 23 hours":              {"2026-03-28 09:00", "day", 24 * time.Hour, []string{"2026-03-28 09:00 23h0m0s", "2026-03-29 09:00 24h0m0s", "2026-03-30 09:00 24h0m0s"}},
		"a leap day":                     {"2028-02-28 09:00", "day", time.Hour, []string{"2028-02-28 09:00 1h0m0s", "2028-02-29 09:00 1h0m0s", "2028-03-01 09:00 1h0m0s"}},
		"no leap day":                    {"2027-02-28 09:00", "day", time.Hour, []string{"2027-02-28 09:00 1h0m0s", "2027-03-01 09:00 1h0m0s", "2027-03-02 09:00 1h0m0s"}},
		"weekdays from a Saturday":       {"2026-11-07 09:00", "weekdays", time.Hour, []string{"2026-11-09 09:00 1h0m0s", "2026-11-10 09:00 1h0m0s", "2026-11-11 09:00 1h0m0s"}},
		"two days of the week":           {"2026-11-02 09:00", "mon,wed", time.Hour, []string{"2026-11-02 09:00 1h0m0s", "2026-11-04 09:00 1h0m0s", "2026-11-09 09:00 1h0m0s"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, windows(t, berlin, tc.from, tc.length, tc.repeat, 3)); diff != "" {
				t.Fatal(diff)
			}
		})
	}
}

func TestRepeat(t *testing.T) {
	for text, gap := range map[string]int{"": 0, "day": 1, "weekdays": 1, "mon": 7, "mon,wed": 2, "tue,sat": 3, "sun": 7, "fri,sun": 2} {
		r, ok := ParseRepeat(text)
		if !ok || r.Gap() != gap || r.String() != text {
			t.Errorf("%q: %v, gap %d, %q", text, ok, r.Gap(), r)
		}
	}
	for _, text := range []string{"monday", "mon,", ",", "mon wed", "days", "MON"} {
		if _, ok := ParseRepeat(text); ok {
			t.Errorf("%q is read", text)
		}
	}
}

// TestWindowsRecur: windows begin on the right days, in order, without overlap, and at
// the same time of the day where the clocks don't change.
func TestWindowsRecur(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		begin := rapid.Int64Range(1, 365*24*60).Draw(t, "from") * int64(time.Minute)
		repeat := Repeat(rapid.IntRange(1, 127).Draw(t, "days"))
		length := rapid.Int64Range(1, int64(repeat.Gap())*24*60).Draw(t, "length") * int64(time.Minute)
		until := begin + rapid.Int64Range(0, 30*24*60).Draw(t, "until")*int64(time.Minute)
		r := Reservation{From: begin, Length: length, Repeat: repeat, Until: until}
		r.First(nil)
		last, n := int64(-1), 0
		for ; r.Next != 0; n++ {
			from, to := r.Window(nil)
			day := time.Unix(0, from).UTC()
			if from < last || from < begin || from > until || to-from != length || !repeat.on(day.Weekday()) || (from-begin)%int64(24*time.Hour) != 0 {
				t.Fatalf("window %d from %v, %d long, after %d", n, day, to-from, last)
			}
			last = to
			r.Advance(nil)
		}
		want := 0
		for at := begin; at <= until; at += int64(24 * time.Hour) {
			if repeat.on(time.Unix(0, at).UTC().Weekday()) {
				want++
			}
		}
		if n != want {
			t.Fatalf("%d windows, want %d", n, want)
		}
	})
}
