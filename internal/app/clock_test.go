package app

import (
	"context"
	"strings"
	"testing"
	"time"

	"croft.dev/croft/internal/clock"
)

// The world's clock pauses conclusions after a jump, says so in words, and goes on
// once it is confirmed.
func TestWorldClock(t *testing.T) {
	noon := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC).UnixNano()
	c := newWorldClock(noon)
	r := clock.Reading{Wall: noon}
	c.read = func() clock.Reading { return r }
	tests := []struct {
		name       string
		wall, mono time.Duration // that pass
		confirm    bool
		now        time.Duration // since noon
		ok         bool
	}{
		{"the first look", 0, 0, false, 0, true},
		{"a second", time.Second, time.Second, false, time.Second, true},
		{"a jump of a day", 24 * time.Hour, time.Second, false, 2 * time.Second, false},
		{"confirmed", time.Second, time.Second, true, 24*time.Hour + 2*time.Second, true},
		{"back by a minute", -time.Minute, 0, false, 24*time.Hour + 2*time.Second, true},
	}
	for _, tt := range tests {
		r.Wall, r.Mono = r.Wall+int64(tt.wall), r.Mono+int64(tt.mono)
		if tt.confirm {
			c.Confirm()
		}
		now, ok := c.Now()
		if now != noon+int64(tt.now) || ok != tt.ok || c.Nanos() != now {
			t.Errorf("%s: %v since noon, %v; want %v, %v", tt.name, time.Duration(now-noon), ok, tt.now, tt.ok)
		}
		if words := c.Words(); (words == "ok") != tt.ok || !tt.ok && !strings.Contains(words, "jumped ahead by 23h59m59s") {
			t.Errorf("%s: says %q", tt.name, words)
		}
	}
}

// However many ask whether the server is ready, the database is asked once a second.
func TestOnceASecond(t *testing.T) {
	now, asked := int64(1), 0
	f := onceASecond(func() int64 { return now }, func(context.Context) error { asked++; return nil })
	for _, step := range []struct{ after, want int64 }{{0, 1}, {5e8, 1}, {5e8 - 1, 1}, {1, 2}, {0, 2}} {
		now += step.after
		if err := f(t.Context()); err != nil || int64(asked) != step.want {
			t.Errorf("after %d ns: asked %d times (%v), want %d", now, asked, err, step.want)
		}
	}
}
