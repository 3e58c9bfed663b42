package period_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/loop/looptest"
	"croft.dev/croft/internal/loop/period"
)

// Periods are opened when they begin, not while the clock has jumped, and those that
// were missed are made up for.
func TestPeriodsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := looptest.New(t, looptest.NewFleet(t))
		p.Do(t, command.LimitPut{Resource: "gpu-hours", Per: limits.Per{Unit: limits.Day}, Max: 3600, Carry: limits.Carry{Milli: 1000}})
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		wg.Go(func() { period.Loop{Port: p, Every: time.Minute, Log: looptest.Log()}.Run(ctx) })
		due := func() bool {
			now, _ := p.Now()
			return len(p.World().Limits.Open(now)) > 0
		}
		pass := func(d time.Duration) {
			<-time.After(d)
			synctest.Wait()
		}
		pass(25 * time.Hour)
		if due() {
			t.Error("a day was not opened")
		}
		p.Jump(true)
		pass(72 * time.Hour)
		if !due() {
			t.Error("a day was opened by a clock that nobody trusts")
		}
		p.Jump(false)
		pass(2 * time.Minute)
		if due() {
			t.Error("no day was opened after the clock was right again")
		}
		l, _ := p.World().Limits.Limits.Get(1)
		if now, _ := p.Now(); p.World().Limits.BoundOf(l, now).Max != 7200 {
			t.Error("what was left isn't carried over")
		}
		cancel()
		wg.Wait()
	})
}
