package httpapi

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestSlowdown(t *testing.T) {
	s := newSlowdown(3, time.Second)
	now := int64(1e18)
	wait := func(key string, at int64) int64 { _, wait := s.take(key, at); return wait }
	first, _ := s.take("a", now)
	for range 2 {
		if got := wait("a", now); got != 0 {
			t.Fatalf("wait %d", got)
		}
	}
	if got := wait("a", now); got != 1e9 {
		t.Errorf("the fourth waits for %d", got)
	}
	if got := wait("b", now); got != 0 {
		t.Errorf("another waits for %d", got)
	}
	first()
	if a, b := wait("a", now), wait("a", now); a != 0 || b == 0 {
		t.Errorf("after one was given back: %d, %d", a, b)
	}
	if a, b := wait("a", now+1e9), wait("a", now+1e9); a != 0 || b == 0 {
		t.Errorf("a second later: %d, %d", a, b)
	}
	if got := wait("a", now-1e18); got > 3e9 {
		t.Errorf("with the clock set back: %d", got)
	}
}

// A flood of keys fills no memory, and keeps few others waiting.
func TestSlowdownUnderAFlood(t *testing.T) {
	s := newSlowdown(5, 10*time.Second)
	now := int64(1e18)
	for i := range 20_000 {
		s.take(fmt.Sprint("attacker ", i), now+int64(i)*1e8) // ten a second
	}
	now += 2e12
	waiting := 0
	for i := range 1000 {
		if _, wait := s.take(fmt.Sprint("user ", i), now); wait > 0 {
			waiting++
		}
	}
	if waiting > 0 {
		t.Errorf("%d of 1000 wait", waiting)
	}
}

// However often others fail or succeed, of one's failures no more go through than a
// burst and one in a while.
func TestSlowdownHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		burst, every := rapid.Int64Range(1, 10).Draw(t, "burst"), rapid.Int64Range(1, 60).Draw(t, "every")*1e9
		s := newSlowdown(burst, time.Duration(every))
		start := int64(1e18)
		now, through := start, int64(0)
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			now += rapid.Int64Range(0, every).Draw(t, "passes")
			other := fmt.Sprint("other ", rapid.IntRange(0, 5000).Draw(t, "other"))
			if rapid.Bool().Draw(t, "target") {
				other = "target"
			}
			give, wait := s.take(other, now)
			switch {
			case wait > 0:
			case other == "target":
				through++
			case rapid.Bool().Draw(t, "succeeds"):
				give()
			}
			if most := burst + (now-start)/every; through > most {
				t.Fatalf("%d failures went through, at most %d may", through, most)
			}
		}
	})
}
