package reserve_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/loop/looptest"
	"croft.dev/croft/internal/loop/reserve"
	"croft.dev/croft/internal/placement"
)

// Windows begin, end and are booked as time goes on, not while the clock has jumped; one
// that couldn't be booked is tried again.
func TestWindowsFollowTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := looptest.New(t, looptest.NewFleet(t))
		now, _ := p.Now()
		p.Do(t, command.ReservationPut{
			Name: "class", Accounts: []string{"nlp"}, GPU: 1000, From: now + int64(time.Hour), Length: int64(time.Hour), Repeat: placement.EveryDay,
		})
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		wg.Go(func() { (&reserve.Loop{Port: p, Retry: time.Minute, Log: looptest.Log()}).Run(ctx) })
		pass := func(d time.Duration) {
			<-time.After(d)
			synctest.Wait()
		}
		windows := func() (begun, failed, all int) {
			for _, b := range p.World().Placement.Bookings.All() {
				all++
				if b.Begun {
					begun++
				}
				if b.Failed != "" {
					failed++
				}
			}
			return begun, failed, all
		}
		check := func(when string, wantBegun, wantFailed, wantAll int) {
			t.Helper()
			if begun, failed, all := windows(); begun != wantBegun || failed != wantFailed || all != wantAll {
				t.Errorf("%s: %d begun, %d failed, %d in all", when, begun, failed, all)
			}
		}
		check("at first", 0, 0, 14)
		pass(61 * time.Minute)
		check("in the window", 1, 0, 15)
		pass(time.Hour)
		check("after it", 0, 0, 14)
		p.Do(t, command.NodeDrain{Node: "gpu1", Reason: "fans"})
		pass(24 * time.Hour)
		check("with the node drained", 0, 1, 14)
		p.Do(t, command.NodeDrain{Node: "gpu1", Resume: true})
		pass(2 * time.Minute)
		check("with the node back", 0, 0, 14)
		p.Jump(true)
		pass(24 * time.Hour)
		check("by a clock that nobody trusts", 0, 0, 14)
		p.Jump(false)
		pass(2 * time.Second)
		check("by one that is right again", 0, 0, 14)
		cancel()
		wg.Wait()
	})
}
