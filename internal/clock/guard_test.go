package clock_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"croft.dev/croft/internal/clock"
)

const (
	second = int64(time.Second)
	minute = int64(time.Minute)
	hour   = int64(time.Hour)
	limit  = 5 * time.Minute
)

// noon is where the tables begin; readings and results are relative to it.
var noon = start.UnixNano()

// look is a reading and what is to come of it.
type look struct {
	confirm    bool
	wall, mono int64 // wall since noon
	now        int64 // since noon
	jumped     bool
}

func TestGuard(t *testing.T) {
	tests := map[string]struct {
		newest int64 // since noon
		looks  []look
	}{
		"both clocks go on": {-hour, []look{
			{wall: 0, mono: 7, now: 0},
			{wall: second, mono: 7 + second, now: second},
			{wall: hour, mono: 7 + hour, now: hour},
		}},
		"small step forward is followed": {-hour, []look{
			{wall: 0, mono: 0, now: 0},
			{wall: 4*minute + second, mono: second, now: 4*minute + second},
		}},
		"five minutes are a jump": {-hour, []look{
			{wall: 0, mono: 0, now: 0},
			{wall: 5*minute + second - 1, mono: second, now: 5*minute + second - 1},
			{wall: 5*minute + second, mono: second, now: 5*minute + second - 1, jumped: true},
		}},
		"after a jump the world goes on at the monotonic pace": {-hour, []look{
			{wall: 0, mono: 0, now: 0},
			{wall: 24 * hour, mono: second, now: second, jumped: true},
			{wall: 25 * hour, mono: hour + second, now: hour + second, jumped: true},
		}},
		"small steps add up": {-hour, []look{
			{wall: 0, mono: 0, now: 0},
			{wall: 3*minute + 1*second, mono: 1 * second, now: 3*minute + 1*second},
			{wall: 6*minute + 2*second, mono: 2 * second, now: 3*minute + 2*second, jumped: true},
		}},
		"confirmed": {-hour, []look{
			{wall: 0, mono: 0, now: 0},
			{wall: 24 * hour, mono: second, now: second, jumped: true},
			{confirm: true, wall: 24*hour + second, mono: 2 * second, now: 24*hour + second},
			{wall: 24*hour + 2*second, mono: 3 * second, now: 24*hour + 2*second},
			{wall: 48 * hour, mono: 4 * second, now: 24*hour + 3*second, jumped: true},
		}},
		"the wall clock comes back": {-hour, []look{
			{wall: 0, mono: 0, now: 0},
			{wall: 24 * hour, mono: second, now: second, jumped: true},
			{wall: 10 * second, mono: 10 * second, now: 10 * second},
		}},
		"step back: half pace until the wall clock has caught up": {-hour, []look{
			{wall: 0, mono: 0, now: 0},
			{wall: -10*second + 2*second, mono: 2 * second, now: second},
			{wall: -10*second + 12*second, mono: 12 * second, now: 6 * second},
			{wall: -10*second + 30*second, mono: 30 * second, now: 20 * second},
		}},
		"after a step back a jump forward is noticed": {-hour, []look{
			{wall: 0, mono: 0, now: 0},
			{wall: -hour, mono: 2 * hour, now: hour},
			{wall: hour + 6*minute, mono: 2 * hour, now: hour, jumped: true},
		}},
		"behind the world at the start": {hour, []look{
			{wall: 0, mono: 0, now: hour},
			{wall: 2 * second, mono: 2 * second, now: hour + second},
		}},
		"a dead clock battery, then the time server": {hour, []look{
			{wall: -noon, mono: 0, now: hour},
			{wall: hour + 2*minute, mono: second, now: hour + 2*minute},
		}},
		"a long downtime is no jump": {-1000 * hour, []look{
			{wall: 0, mono: 0, now: 0},
		}},
		"the monotonic clock goes back (cannot happen)": {-hour, []look{
			{wall: 0, mono: hour, now: 0},
			{wall: second, mono: 0, now: second},
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			g := clock.NewGuard(noon+test.newest, limit)
			for i, l := range test.looks {
				r := clock.Reading{Wall: noon + l.wall, Mono: l.mono}
				observe := g.Observe
				if l.confirm {
					observe = g.Confirm
				}
				want := clock.Instant{Now: noon + l.now, Jumped: l.jumped, Ahead: l.wall - l.now}
				if diff := cmp.Diff(want, observe(r)); diff != "" {
					t.Fatalf("look %d (-want +got):\n%s", i, diff)
				}
			}
		})
	}
}

// Whatever the wall clock does: time never goes back, runs at half pace at least,
// and without confirmation outruns the monotonic clock by less than the limit.
func TestGuardProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := clock.NewGuard(noon, limit)
		r := clock.Reading{Wall: noon + rapid.Int64Range(-hour, hour).Draw(t, "wall"), Mono: 0}
		last := g.Observe(r)
		first := last.Now
		for range rapid.IntRange(1, 50).Draw(t, "looks") {
			passed := rapid.Int64Range(0, hour).Draw(t, "passed")
			r.Mono += passed
			r.Wall += passed + rapid.Int64Range(-hour, hour).Draw(t, "step")
			got := g.Observe(r)
			if got.Now < last.Now+passed/2 {
				t.Fatalf("%d passed, the world went from %d to %d", passed, last.Now, got.Now)
			}
			if fast := got.Now - first - r.Mono; fast >= int64(limit) {
				t.Fatalf("the world outran the monotonic clock by %v", time.Duration(fast))
			}
			if got.Ahead >= int64(limit) && !got.Jumped && got.Now != r.Wall {
				t.Fatalf("a jump went unnoticed: %+v", got)
			}
			last = got
		}
		if got := g.Confirm(r); got.Now != max(last.Now, r.Wall) || got.Jumped {
			t.Fatalf("after Confirm of %+v: %+v", r, got)
		}
	})
}
