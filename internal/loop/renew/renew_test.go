package renew_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"croft.dev/croft/internal/admission"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/loop/expire"
	"croft.dev/croft/internal/loop/looptest"
	"croft.dev/croft/internal/loop/renew"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/workload"
)

// A deposit is renewed ahead of its end, not while the clock has jumped, and again where that
// can't be recorded. Without money the user is told once, in the job, and it is stopped when
// what there was is used up.
func TestRenewsAndTells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := looptest.New(t, looptest.NewFleet(t))
		enforce := "enforce"
		p.Do(t, command.AccountPut{Name: "nlp", Billing: &enforce})
		p.Do(t, command.PricePut{CPU: 1_000_000})
		p.Do(t, command.GrantGive{Account: "nlp", Amount: 3 * money.Credit, Source: "s"})
		ada, _ := p.World().Tenancy.User("ada")
		spec := workload.Spec{Name: "x", Account: "nlp", Kind: workload.KindContainer, Image: "train:1", CPU: 1000, Mem: 1 << 30, Time: int64(24 * time.Hour), Deposit: workload.DepositRolling}
		got, err := p.As(p.World().Principal(ada.ID, 0, p.World().Now), command.Submit{Spec: spec})
		if err != nil {
			t.Fatal(err)
		}
		k := got.(admission.Accepted).Job.ID
		p.Do(t, command.JobStart{Job: k})
		p.Do(t, command.JobObserved{Job: k, N: 1, Running: true, Started: p.World().Now})
		begin := time.Now()
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		var told []string
		wg.Go(func() {
			renew.Loop{Port: p, Tell: func(_ id.Job, line string) { told = append(told, line) }, Log: looptest.Log()}.Run(ctx)
		})
		wg.Go(func() { expire.Loop{Port: p, Log: looptest.Log()}.Run(ctx) })
		check := func(at, paid time.Duration, state workload.JobState) {
			t.Helper()
			<-time.After(at - time.Since(begin))
			synctest.Wait()
			j, _ := p.World().Workload.Jobs.Get(k)
			if got := time.Duration(j.Attempt.Paid - begin.UnixNano()).Round(time.Minute); got != paid || j.State != state {
				t.Errorf("after %s: %s, paid for %s, want %s", at, j.State, got, paid)
			}
		}
		check(44*time.Minute, time.Hour, workload.Running)
		p.Jump(true)
		check(50*time.Minute, time.Hour, workload.Running)
		p.Jump(false)
		check(51*time.Minute, 110*time.Minute, workload.Running)
		p.Fail("job.top_up", errors.New("disk full"))
		check(97*time.Minute, 110*time.Minute, workload.Running)
		p.Fail("job.top_up", nil)
		check(98*time.Minute, 157*time.Minute, workload.Running)
		check(170*time.Minute, 180*time.Minute, workload.Running)
		check(180*time.Minute+time.Second, 180*time.Minute, workload.Stopping)
		if len(told) != 1 || !strings.HasPrefix(told[0], "croft: job 1: its money ends: it is stopped in ") {
			t.Errorf("%q", told)
		}
		cancel()
		wg.Wait()
	})
}
