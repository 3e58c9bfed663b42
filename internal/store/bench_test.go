package store_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/store"
	"croft.dev/croft/internal/store/chain"
	"croft.dev/croft/internal/store/storetest"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

// BenchmarkCommit writes three rows a command (job, deposit, log), so many commands
// in a transaction, durably. The rate is in commands.
func BenchmarkCommit(b *testing.B) {
	var durable storetest.Server
	durable.Durable = true
	defer durable.Stop()
	for _, name := range []string{"sqlite", "postgres"} {
		for _, size := range []int{1, 8, 64} {
			b.Run(fmt.Sprintf("%s/batch=%d", name, size), func(b *testing.B) {
				cfg := store.Config{Path: filepath.Join(b.TempDir(), "croft.db")}
				if name == "postgres" {
					cfg = store.Config{DSN: durable.DSN(b)}
				}
				s, err := store.Open(b.Context(), cfg)
				if err != nil {
					b.Fatal(err)
				}
				defer s.Close()
				benchCommit(b, s, size)
			})
		}
	}
}

func benchCommit(b *testing.B, s *store.Store, size int) {
	head, n := "", int64(0)
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		batches := make([]store.Batch, size)
		for i := range batches {
			n++
			batches[i] = admission(b, n, head)
			head = batches[i].Entry.Hash
		}
		if err := s.Commit(b.Context(), batches); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*size)/b.Elapsed().Seconds(), "commands/s")
}

// admission is what the submission of a job writes.
func admission(tb testing.TB, n int64, prev string) store.Batch {
	spec := workload.Spec{
		Name: "train", Kind: workload.KindContainer, Account: "nlp", Partition: "gpu", QoS: "normal", Image: "train:1",
		Command: []string{"python", "train.py", "--epochs", "10"}, GPU: 1000, CPU: 8000, Mem: 64 << 30, Time: 2 * 3600 * second,
	}
	job := &workload.Job{
		ID: id.Job(n), User: 3, Account: 2, Path: []id.Account{2, 1}, Spec: spec, State: workload.Queued, Submitted: n, Seq: n,
		Billing: "enforce", Deposit: 2_288_000, Sources: []workload.Part{{Source: "grant:1", Left: 2_288_000}},
	}
	b := store.Batch{Changes: []world.Change{workload.JobSet{Row: job}, ledger.Posted{Row: ledger.Transfer{
		ID: id.Transfer(n), Seq: n, At: n, From: ledger.OfGrant(1), To: ledger.Deposit(job.ID, ledger.OfGrant(1)), Amount: job.Deposit,
		Kind: ledger.KindDeposit, Job: job.ID, Account: 2, User: 3,
	}}}}
	b.Entry = world.Entry{
		Seq: n, At: n, User: 3, Principal: "ada", Kind: "job.submit", Command: []byte(`{"spec":{"image":"train:1","gpu":1}}`),
		Touched: store.Touched(b.Changes), Event: world.Event{Job: job.ID, Account: 2, State: "queued"}, Prev: prev,
	}
	var err error
	if b.Entry.Hash, err = chain.Hash(b.Entry); err != nil {
		tb.Fatal(err)
	}
	return b
}

// BenchmarkLoad reads a world of 100,000 waiting jobs.
func BenchmarkLoad(b *testing.B) {
	s, err := store.Open(b.Context(), store.Config{Path: filepath.Join(b.TempDir(), "croft.db")})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	head, n := "", int64(0)
	for n < 100_000 {
		var batches []store.Batch
		for range 500 {
			n++
			batches = append(batches, admission(b, n, head))
			head = batches[len(batches)-1].Entry.Hash
		}
		if err := s.Commit(b.Context(), batches); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		load(b, s)
	}
}
