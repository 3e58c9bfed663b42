package clock_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"croft.dev/croft/internal/clock"
)

var start = time.Date(2026, 10, 8, 12, 0, 0, 0, time.UTC)

func TestVirtualFiresInOrder(t *testing.T) {
	v := clock.NewVirtual(start)
	var got []string
	note := func(name string) func() {
		return func() { got = append(got, fmt.Sprintf("%s at %v", name, v.Now().Sub(start))) }
	}
	v.AfterFunc(3*time.Second, note("c"))
	v.AfterFunc(time.Second, note("a"))
	v.AfterFunc(2*time.Second, note("b1"))
	v.AfterFunc(2*time.Second, note("b2"))
	v.AfterFunc(time.Second, func() {
		note("nest")()
		v.AfterFunc(500*time.Millisecond, note("nested"))
	})
	v.AfterFunc(10*time.Second, note("later"))
	stopped := v.AfterFunc(time.Second, note("stopped"))
	if !stopped.Stop() || stopped.Stop() {
		t.Error("Stop must report true once")
	}

	v.Advance(5 * time.Second)
	want := []string{"a at 1s", "nest at 1s", "nested at 1.5s", "b1 at 2s", "b2 at 2s", "c at 3s"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	if next, ok := v.Next(); !ok || !next.Equal(start.Add(10*time.Second)) {
		t.Errorf("Next = %v, %v", next, ok)
	}
	if now := v.Now(); !now.Equal(start.Add(5 * time.Second)) {
		t.Errorf("Now = %v", now)
	}
}

func TestVirtualTimer(t *testing.T) {
	v := clock.NewVirtual(start)
	due := v.NewTimer(0)
	if at := <-due.C; !at.Equal(start) {
		t.Errorf("a timer of 0 sent %v", at)
	}
	timer := v.NewTimer(time.Minute)
	v.Advance(time.Minute - 1)
	select {
	case at := <-timer.C:
		t.Fatalf("fired early, at %v", at)
	default:
	}
	v.Advance(time.Hour)
	if at := <-timer.C; !at.Equal(start.Add(time.Minute)) {
		t.Errorf("sent %v", at)
	}
	if timer.Stop() {
		t.Error("Stop of a fired timer reports true")
	}
	if _, ok := v.Next(); ok {
		t.Error("Next shows a timer that has fired")
	}
}

func TestVirtualAfterFuncOfZeroWaitsForAdvance(t *testing.T) {
	v := clock.NewVirtual(start)
	fired := false
	v.AfterFunc(-time.Second, func() { fired = true })
	if fired {
		t.Fatal("fired inside AfterFunc")
	}
	v.Advance(0)
	if !fired {
		t.Error("not fired by Advance(0)")
	}
}

// However time is cut, the same timers fire at the same times.
func TestVirtualCutsOfTimeChangeNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		waits := rapid.SliceOfN(rapid.IntRange(1, 1000), 1, 30).Draw(t, "waits")
		cuts := rapid.SliceOf(rapid.IntRange(0, 400)).Draw(t, "cuts")
		run := func(cuts []int) []string {
			v := clock.NewVirtual(start)
			var fired []string
			for i, w := range waits {
				v.AfterFunc(time.Duration(w), func() {
					fired = append(fired, fmt.Sprint(i, v.Now().Sub(start)))
				})
			}
			for _, c := range cuts {
				v.Advance(time.Duration(c))
			}
			v.Advance(1000)
			return fired
		}
		whole := run(nil)
		if len(whole) != len(waits) {
			t.Fatalf("%d timers, %d fired", len(waits), len(whole))
		}
		if diff := cmp.Diff(whole, run(cuts)); diff != "" {
			t.Fatalf("(-whole +cut):\n%s", diff)
		}
	})
}
