package meter_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/loop/looptest"
	"croft.dev/croft/internal/loop/meter"
	"croft.dev/croft/internal/money"
)

// metered runs f beside the loop, in a world with a price of one credit for a
// device hour; before is what happens until the loop begins.
func metered(t *testing.T, before, f func(p *looptest.Port)) {
	synctest.Test(t, func(t *testing.T) {
		p := looptest.New(t, looptest.NewFleet(t))
		billing := "showback"
		p.Do(t, command.AccountPut{Name: "nlp", Billing: &billing})
		p.Do(t, command.PricePut{Devices: []catalog.ModelRate{{Model: "a100", Rate: money.Rate(money.Credit)}}})
		before(p)
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		wg.Go(func() { meter.Loop{Port: p, Post: time.Hour, Log: looptest.Log()}.Run(ctx) })
		f(p)
		cancel()
		wg.Wait()
	})
}

func nothing(*looptest.Port) {}

func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// What a long job has accrued is posted every period, not while the clock has
// jumped, and without a job nothing is.
func TestAccruedChargesArePosted(t *testing.T) {
	metered(t, nothing, func(p *looptest.Port) {
		pass(3 * time.Hour)
		if n := len(p.Done("meter.post")); n != 0 {
			t.Errorf("%d postings without a job", n)
		}
		spec := looptest.Spec()
		spec.Time = int64(10 * time.Hour)
		k := p.Submit(t, spec)
		p.Do(t, command.JobStart{Job: k})
		pass(90 * time.Minute)
		if n := len(p.Done("meter.post")); n != 0 {
			t.Errorf("%d postings before the start", n)
		}
		p.Do(t, command.JobObserved{Job: k, N: 1, Running: true, Started: time.Now().UnixNano()})
		pass(3 * time.Hour)
		spent := p.World().Ledger.Balance(ledger.Spent(1))
		if n := len(p.Done("meter.post")); n != 3 || spent < 2*money.Credit || spent > 3*money.Credit {
			t.Errorf("%d postings, %s", n, spent)
		}
		p.Jump(true)
		pass(2 * time.Hour)
		if now := p.World().Ledger.Balance(ledger.Spent(1)); now != spent {
			t.Errorf("%s, was %s before the clock jumped", now, spent)
		}
	})
}

// A maintenance window moves idle devices' tiles when it begins and when it ends.
func TestTilesMoveByTimeAlone(t *testing.T) {
	metered(t, nothing, func(p *looptest.Port) {
		begins := time.Now().Add(10 * time.Minute)
		p.Do(t, command.MaintenancePut{Node: "*", From: begins.UnixNano(), To: begins.Add(time.Hour).UnixNano()})
		cause := func() ledger.Cause {
			tile := p.World().Ledger.OpenTiles("SIM-0")[0]
			return tile.Cause
		}
		for _, step := range []struct {
			after time.Duration
			want  ledger.Cause
		}{
			{9 * time.Minute, ledger.CauseIdle}, {2 * time.Minute, ledger.CauseMaintenance},
			{58 * time.Minute, ledger.CauseMaintenance}, {2 * time.Minute, ledger.CauseIdle},
		} {
			pass(step.after)
			if got := cause(); got != step.want {
				t.Errorf("after %v more: %s, want %s", step.after, got, step.want)
			}
		}
		if n := len(p.Done("meter.tiles")); n != 2 {
			t.Errorf("%d rows, want one for each end of the window", n)
		}
		if waste := p.World().Ledger.Balance(ledger.Waste(ledger.CauseMaintenance)); waste < 4*money.Credit || waste > 4*money.Credit+money.Credit/100 {
			t.Errorf("four device hours of maintenance cost %s", waste)
		}
	})
}

// A grant expires when its tail for refunds is over.
func TestGrantsExpire(t *testing.T) {
	metered(t, func(p *looptest.Port) {
		p.Do(t, command.GrantGive{Account: "nlp", Amount: money.Credit, Source: "x", End: time.Now().Add(time.Hour).UnixNano()})
		p.Do(t, command.GrantGive{Account: "nlp", Amount: money.Credit, Source: "for ever"})
		pass(time.Hour + time.Duration(ledger.RefundTail) - time.Minute)
	}, func(p *looptest.Port) {
		pass(59 * time.Second)
		if n := len(p.Done("grant.expire")); n != 0 {
			t.Error("expired within its tail")
		}
		pass(2 * time.Second)
		if got := p.World().Ledger.Balance(ledger.Expired); got != money.Credit || len(p.Done("grant.expire")) != 1 {
			t.Errorf("%s expired", got)
		}
	})
}
