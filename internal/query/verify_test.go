package query_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/admission"
	"croft.dev/croft/internal/allowance"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/query"
	"croft.dev/croft/internal/store"
	"croft.dev/croft/internal/store/chain"
	"croft.dev/croft/internal/workload"
)

// history is a day on the machine: jobs that ended well, one whose node failed,
// one that was cancelled while it waited, one that never began, one that runs, and
// a device that was away for an hour.
func (b *bench) history() {
	b.exit(b.run(30 * time.Minute))
	k := b.run(10*time.Minute, "node")
	b.do(0, command.JobObserved{Job: k, N: 1, Gone: true})
	b.do(2, command.JobStop{Job: k})
	b.do(0, b.inventory(3))
	b.pass(time.Hour)
	b.do(0, b.inventory(4))
	b.pass(time.Hour)
	b.do(1, command.NodeDrain{Node: "gpu1", Reason: "fan"})
	b.pass(time.Hour)
	b.do(1, command.NodeDrain{Node: "gpu1", Resume: true})
	b.run(20 * time.Minute)
}

func TestVerifyFindsNothing(t *testing.T) {
	b := newBench(t)
	b.history()
	b.now.Store(firstDay.To + hour)
	b.do(0, command.Meter{Jobs: []id.Job{3}})
	b.do(1, firstDay)
	got, err := b.reader(b.db).Verify(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range got.Checks {
		if !c.OK || c.Checked == 0 {
			t.Errorf("%s: %d looked at, %s", c.Name, c.Checked, c.First)
		}
	}
	if got.OK && got.Seq != b.seq.World().Seq {
		t.Errorf("verified up to row %d of %d", got.Seq, b.seq.World().Seq)
	}
	if _, err := b.reader(b.db).Verify(t.Context(), access.Principal{User: 2}); fault.Of(err) != codes.Denied {
		t.Errorf("a user may not verify: %v", err)
	}
}

// A job may be metered after its program has ended and before that is known: what
// is too much must not stay charged.
func TestVerifyAfterLateNews(t *testing.T) {
	b := newBench(t)
	k := b.run(30 * time.Minute)
	b.do(0, command.JobObserved{Job: k, N: 1, Exited: true, Finished: b.now.Load() - 60e9})
	fast := b.do(2, command.Submit{Spec: workload.Spec{Name: "true", Kind: workload.KindContainer, Image: "a:1", GPU: 1000, CPU: 8000, Mem: 64 << 30, Time: hour}}).Result.(admission.Accepted).Job.ID
	b.do(0, command.JobStart{Job: fast})
	b.pass(time.Minute)
	b.do(0, command.JobObserved{Job: fast, N: 1, Exited: true, Started: b.now.Load() - 50e9, Finished: b.now.Load() - 20e9})
	got, err := b.reader(b.db).Verify(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range got.Checks {
		if !c.OK {
			t.Errorf("%s: %s", c.Name, c.First)
		}
	}
}

// tampered is a database in which rows aren't what they were.
type tampered struct {
	query.History
	transfer func(*ledger.Transfer)
	tile     func(*ledger.Tile)
	job      func(*workload.Job)
	chain    error
}

func (h tampered) Transfers(ctx context.Context, f store.TransferFilter, n int) ([]ledger.Transfer, error) {
	rows, err := h.History.Transfers(ctx, f, n)
	for i := range rows {
		if h.transfer != nil {
			h.transfer(&rows[i])
		}
	}
	return rows, err
}

func (h tampered) Tiles(ctx context.Context, f store.TileFilter, n int) ([]ledger.Tile, error) {
	rows, err := h.History.Tiles(ctx, f, n)
	for i := range rows {
		if h.tile != nil {
			h.tile(&rows[i])
		}
	}
	return rows, err
}

func (h tampered) Jobs(ctx context.Context, f store.JobFilter, n int) ([]workload.Job, error) {
	rows, err := h.History.Jobs(ctx, f, n)
	for i := range rows {
		if h.job != nil {
			h.job(&rows[i])
		}
	}
	return rows, err
}

func (h tampered) VerifyChain(ctx context.Context) (int64, error) {
	if h.chain != nil {
		return 7, h.chain
	}
	return h.History.VerifyChain(ctx)
}

// when is 1 if cond, else 0.
func when[T ~int64](cond bool) T {
	if cond {
		return 1
	}
	return 0
}

// Every check can fail, and says where.
func TestVerifyFindsWhatIsWrong(t *testing.T) {
	b := newBench(t)
	b.history()
	weekly := command.AllowancePut{Account: "nlp", Amount: 3 * money.Credit, Per: limits.Week, Carry: limits.Carry{Milli: 500}, From: b.now.Load() - 1}
	k := b.do(1, weekly).Result.(allowance.Allowance).ID
	b.pass(7 * 24 * time.Hour)
	b.do(0, command.AllowanceDue{Allowance: k})
	tests := map[string]struct {
		db    tampered
		check string
		says  string
	}{
		"an amount":         {tampered{transfer: func(r *ledger.Transfer) { r.Amount += when[money.Micros](r.ID == 2) }}, "balances are", "grant:1"},
		"a missing posting": {tampered{transfer: func(r *ledger.Transfer) { r.ID += when[id.Transfer](r.ID >= 3) }}, "transfers are dense", "transfer 4 follows transfer 2"},
		"an empty posting":  {tampered{transfer: func(r *ledger.Transfer) { r.Amount *= when[money.Micros](r.ID != 2) }}, "transfers are dense", "0.000 from grant:1"},
		"a charge":          {tampered{transfer: func(r *ledger.Transfer) { r.Amount += when[money.Micros](r.Job == 1 && r.Kind == ledger.KindCharge) }}, "charges are", "attempt 1.1"},
		"a grant":           {tampered{transfer: func(r *ledger.Transfer) { r.Amount += when[money.Micros](r.ID == 1) }}, "grants are", "grant 1 is of 500.000"},
		"what was carried":  {tampered{transfer: func(r *ledger.Transfer) { r.Amount += when[money.Micros](r.Kind == ledger.KindCarry) }}, "grants are", "grant 2 is of 3.000"},
		"a spender":         {tampered{transfer: func(r *ledger.Transfer) { r.User += when[id.User](r.Job == 1 && r.Kind == ledger.KindCharge) }}, "what users spent", "user 2 in account 1"},
		"a job's sum":       {tampered{job: func(j *workload.Job) { j.Charged++ }}, "jobs' sums", "job 2 says"},
		"a deposit":         {tampered{transfer: func(r *ledger.Transfer) { r.Amount += when[money.Micros](r.Job == 3 && r.Kind == ledger.KindDeposit) }}, "deposits are", "job 3 has"},
		"a gap":             {tampered{tile: func(r *ledger.Tile) { r.To -= when[int64](r.Cause == ledger.CauseDrained && r.Device == "SIM-1") }}, "device time has", "SIM-1: 0 of it"},
		"another's time":    {tampered{tile: func(r *ledger.Tile) { r.Account += when[id.Account](r.Cause == ledger.CauseUsed) }}, "charged time", "1.1"},
		"shorter time":      {tampered{tile: func(r *ledger.Tile) { r.From += when[int64](r.Cause == ledger.CauseUsed && r.Job == 1) }}, "charged time", "1.1 pays for SIM-0"},
		"lost waste":        {tampered{tile: func(r *ledger.Tile) { r.Posted += when[money.Micros](r.Cause == ledger.CauseDrained) }}, "waste is", "drained"},
		"the log":           {tampered{chain: &chain.Break{Seq: 7, What: "isn't what was written"}}, "the log's", "log row 7"},
		"a counter":         {tampered{job: func(j *workload.Job) { j.ID += 100 * when[id.Job](j.ID == 2) }}, "counters", "job 102 exists"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			tt.db.History = b.db
			got, err := b.reader(tt.db).Verify(t.Context(), root)
			if err != nil {
				t.Fatal(err)
			}
			if got.OK {
				t.Fatal("nothing was found")
			}
			for _, c := range got.Checks {
				if strings.HasPrefix(c.Name, tt.check) && (c.OK || !strings.Contains(c.First, tt.says)) {
					t.Errorf("%s: %q, want %q", c.Name, c.First, tt.says)
				}
			}
		})
	}
}

// Verifying while others write finds nothing: it is about one row of the log.
func TestVerifyWhileJobsRun(t *testing.T) {
	b := newBench(t)
	r := b.reader(b.db)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				b.exit(b.run(time.Minute))
			}
		}
	}()
	for range 30 {
		got, err := r.Verify(t.Context(), root)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range got.Checks {
			if !c.OK {
				t.Errorf("at row %d: %s: %s", got.Seq, c.Name, c.First)
			}
		}
	}
	close(stop)
	<-stopped
}
