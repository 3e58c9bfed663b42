package allowance_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/loop/allowance"
	"croft.dev/croft/internal/loop/looptest"
	"croft.dev/croft/internal/money"
)

// A period's grant is there when it begins, not while the clock has jumped, and of periods
// that were missed the current one's alone; one that can't be recorded is tried again.
func TestGivesWhenPeriodsBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // from midnight of 2000-01-01 UTC, a Saturday
		p := looptest.New(t, looptest.NewFleet(t))
		p.Do(t, command.AllowancePut{Account: "nlp", Amount: money.Credit, Per: limits.Week, Carry: limits.Carry{Amount: int64(money.Credit)}})
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		wg.Go(func() { allowance.Loop{Port: p, Log: looptest.Log()}.Run(ctx) })
		check := func(after time.Duration, grants int, last string, carried money.Micros) {
			t.Helper()
			<-time.After(after)
			synctest.Wait()
			w := p.World()
			k, g, _ := w.Ledger.Grants.Last()
			if w.Ledger.Grants.Len() != grants || g.Source != "allowance week "+last || w.Ledger.Balance(ledger.OfGrant(k)) != money.Credit+carried {
				t.Errorf("%d grants, the last is %+v with %s", w.Ledger.Grants.Len(), g, w.Ledger.Balance(ledger.OfGrant(k)))
			}
		}
		const week = 7 * 24 * time.Hour
		check(2*24*time.Hour-time.Millisecond, 1, "1999-W52", 0)
		check(time.Millisecond, 2, "2000-W01", money.Credit)
		p.Jump(true)
		check(3*week, 2, "2000-W01", money.Credit)
		p.Jump(false)
		check(5*time.Second, 3, "2000-W04", money.Credit)
		p.Fail("allowance.due", errors.New("disk full"))
		check(week, 3, "2000-W04", money.Credit)
		p.Fail("allowance.due", nil)
		check(time.Second, 4, "2000-W05", money.Credit)
		if p.World().Ledger.Balance(ledger.OfGrant(1)) != 0 {
			t.Error("what was carried over is still there")
		}
		cancel()
		wg.Wait()
	})
}
