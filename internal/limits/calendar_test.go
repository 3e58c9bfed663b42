package limits

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func location(t interface{ Fatal(...any) }, name string) *time.Location {
	loc, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return loc
}

func zone(loc *time.Location) Zone {
	return ZoneOf(loc, time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano(), time.Date(2070, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano())
}

// Days have 23 or 25 hours when clocks change, months the days that they have, and a
// day begins when it does although midnight doesn't exist, or does twice.
func TestPeriodsOfTheCalendar(t *testing.T) {
	const in = "2006-01-02 15:04"
	tests := map[string]struct {
		zone     string
		unit     Unit
		at       string // UTC, as are the bounds
		from, to string
	}{
		"UTC":                         {"UTC", Day, "2026-12-01 06:00", "2026-12-01 00:00", "2026-12-02 00:00"},
		"a day of 23 hours":           {"Europe/Berlin", Day, "2026-03-29 12:00", "2026-03-28 23:00", "2026-03-29 22:00"},
		"a day of 25 hours":           {"Europe/Berlin", Day, "2026-10-25 12:00", "2026-10-24 22:00", "2026-10-25 23:00"},
		"the last hour of a day":      {"Europe/Berlin", Day, "2026-10-25 22:59", "2026-10-24 22:00", "2026-10-25 23:00"},
		"a leap year's February":      {"Europe/Berlin", Month, "2028-02-29 12:00", "2028-01-31 23:00", "2028-02-29 23:00"},
		"another February":            {"Europe/Berlin", Month, "2027-02-28 12:00", "2027-01-31 23:00", "2027-02-28 23:00"},
		"a month with a change":       {"Europe/Berlin", Month, "2026-10-01 12:00", "2026-09-30 22:00", "2026-10-31 23:00"},
		"a leap year":                 {"UTC", Year, "2028-12-31 23:59", "2028-01-01 00:00", "2029-01-01 00:00"},
		"a week":                      {"UTC", Week, "2026-12-06 23:59", "2026-11-30 00:00", "2026-12-07 00:00"},
		"a week's first moment":       {"UTC", Week, "2026-11-30 00:00", "2026-11-30 00:00", "2026-12-07 00:00"},
		"a week over the new year":    {"Europe/Berlin", Week, "2027-01-01 12:00", "2026-12-27 23:00", "2027-01-03 23:00"},
		"no midnight":                 {"Africa/Cairo", Day, "2026-04-24 12:00", "2026-04-23 22:00", "2026-04-24 21:00"},
		"midnight twice, the first":   {"America/Havana", Day, "2026-11-01 04:30", "2026-11-01 04:00", "2026-11-02 05:00"},
		"midnight twice, the second":  {"America/Havana", Day, "2026-11-01 05:30", "2026-11-01 04:00", "2026-11-02 05:00"},
		"before a day with two of it": {"America/Havana", Day, "2026-11-01 03:59", "2026-10-31 04:00", "2026-11-01 04:00"},
		"half an hour":                {"Asia/Kolkata", Day, "2026-12-01 18:30", "2026-12-01 18:30", "2026-12-02 18:30"},
		"far ahead of UTC":            {"Pacific/Kiritimati", Year, "2026-12-31 10:00", "2026-12-31 10:00", "2027-12-31 10:00"},
		"far behind UTC":              {"Pacific/Pago_Pago", Month, "2026-12-01 10:59", "2026-11-01 11:00", "2026-12-01 11:00"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			at, err := time.Parse(in, tt.at)
			if err != nil {
				t.Fatal(err)
			}
			from, to := zone(location(t, tt.zone)).period(tt.unit, at.UnixNano())
			if f, u := time.Unix(0, from).UTC().Format(in), time.Unix(0, to).UTC().Format(in); f != tt.from || u != tt.to {
				t.Errorf("%s to %s, want %s to %s", f, u, tt.from, tt.to)
			}
		})
	}
}

// Periods lie side by side, and each begins when clocks first show its first day.
func TestPeriodsTile(t *testing.T) {
	locations := map[string]*time.Location{}
	zones := map[string]Zone{}
	for _, name := range []string{"UTC", "Europe/Berlin", "Africa/Cairo", "America/Havana", "Asia/Beirut", "Australia/Lord_Howe", "America/St_Johns", "Pacific/Chatham", "Africa/Casablanca"} {
		locations[name] = location(t, name)
		zones[name] = zone(locations[name])
	}
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom([]string{"UTC", "Europe/Berlin", "Africa/Cairo", "America/Havana", "Asia/Beirut", "Australia/Lord_Howe", "America/St_Johns", "Pacific/Chatham", "Africa/Casablanca"}).Draw(t, "zone")
		z, loc := zones[name], locations[name]
		at := time.Date(2020, 1, 2, 0, 0, 0, 0, time.UTC).UnixNano() + rapid.Int64Range(0, 50*365*24*3600-400*24*3600).Draw(t, "second")*1e9
		u := rapid.SampledFrom([]Unit{Day, Week, Month, Year}).Draw(t, "unit")
		if shown := time.Unix(0, at).In(loc).Format(time.DateTime); z.local(at).Format(time.DateTime) != shown {
			t.Fatalf("the clock shows %s, want %s", z.local(at), shown)
		}
		from, to := z.period(u, at)
		if at < from || at >= to {
			t.Fatalf("%d isn't in %d to %d", at, from, to)
		}
		if f, tt := z.period(u, from); f != from || tt != to {
			t.Fatalf("%d to %d begins otherwise: %d to %d", from, to, f, tt)
		}
		if f, _ := z.period(u, to); f != to {
			t.Fatalf("after %d the next begins at %d", to, f)
		}
		day := u.begin(z.local(to)).Format(time.DateOnly)
		before, first := time.Unix(0, to-1).In(loc).Format(time.DateOnly), time.Unix(0, to).In(loc).Format(time.DateOnly)
		if before >= day || first < day {
			t.Fatalf("%s begins between %s and %s", day, before, first)
		}
	})
}
