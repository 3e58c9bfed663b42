package query_test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/admission"
	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/placement"
	"croft.dev/croft/internal/query"
	"croft.dev/croft/internal/sequencer"
	"croft.dev/croft/internal/store"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

const hour = int64(time.Hour)

// bench is a sequencer on a SQLite database, with a clock that is set by hand.
type bench struct {
	t   testing.TB
	seq *sequencer.Sequencer
	db  *store.Store
	now atomic.Int64

	halt func() // ends the sequencer
}

// newBench is a machine with four devices and the account nlp, in which ada is.
func newBench(t testing.TB) *bench {
	t.Helper()
	return newBenchOn(t, store.Config{Path: filepath.Join(t.TempDir(), "croft.db")})
}

func newBenchOn(t testing.TB, config store.Config) *bench {
	t.Helper()
	b := &bench{t: t}
	b.now.Store(time.Date(2026, 11, 1, 9, 0, 0, 0, time.UTC).UnixNano())
	var err error
	if b.db, err = store.Open(context.Background(), config); err != nil {
		t.Fatal(err)
	}
	b.begin()
	t.Cleanup(func() {
		b.halt()
		if err := b.db.Close(); err != nil {
			t.Error(err)
		}
	})
	b.furnish()
	return b
}

// begin has a sequencer go on with what the database has.
func (b *bench) begin() {
	b.t.Helper()
	w := world.New()
	head, err := b.db.Load(context.Background(), func(c world.Change) { w.Fold([]world.Change{c}) })
	if err != nil {
		b.t.Fatal(err)
	}
	b.seq = sequencer.New(sequencer.Config{World: w, Head: head, Store: b.db, Clock: b.now.Load})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- b.seq.Run(ctx) }()
	b.halt = func() {
		cancel()
		if err := <-done; err != nil {
			b.t.Error(err)
		}
	}
}

func (b *bench) furnish() {
	b.do(0, command.SitePut{
		Site:       world.Site{Instance: "0a1b2c3d-test", PlanDepth: 50, MaxGrace: hour, DefCPU: 1000, DefMem: 1 << 30, DefWall: hour},
		Partitions: []catalog.Partition{{Name: "main", Default: true, DefWall: hour}},
		QoS:        []catalog.QoS{{Name: "normal", Default: true, Factor: 1000}},
	})
	b.do(0, b.inventory(4))
	role, enforce := "admin", "enforce"
	b.do(0, command.UserPut{Create: true, Name: "root", Role: &role})
	b.do(0, command.UserPut{Create: true, Name: "ada"})
	b.do(1, command.PricePut{CPU: 10_000, Mem: 1_000, Devices: []catalog.ModelRate{{Model: "a100", Rate: money.Rate(money.Credit)}}})
	b.do(1, command.AccountPut{Create: true, Name: "nlp", Billing: &enforce})
	b.do(1, command.MemberPut{Account: "nlp", User: "ada", Role: "member"})
	b.do(1, command.GrantGive{Account: "nlp", Amount: 500 * money.Credit, Source: "DFG-123"})
}

func (b *bench) inventory(devices int) command.InventoryObserved {
	inv := command.InventoryObserved{Nodes: []placement.Node{{Name: "gpu1", CPU: 64000, Memory: 512 << 30, Ready: true}}}
	for i := range devices {
		inv.Devices = append(inv.Devices, placement.Device{
			UUID: fmt.Sprintf("SIM-%d", i), Node: "gpu1", Index: i, Name: fmt.Sprintf("gpu%d", i), Model: "a100", Healthy: true,
		})
	}
	return inv
}

// do has a command decided for a user; 0 is the server itself.
func (b *bench) do(user id.User, cmd world.Command) sequencer.Answer {
	b.t.Helper()
	got, err := b.seq.Do(context.Background(), sequencer.Actor{User: user, System: user == 0}, cmd, sequencer.Key{})
	if err != nil {
		b.t.Fatalf("%s: %v", cmd.Kind(), err)
	}
	return got
}

func (b *bench) pass(d time.Duration) { b.now.Add(int64(d)) }

// run submits a job of ada's, lets it run for a while and exit.
func (b *bench) run(d time.Duration, requeue ...string) id.Job {
	b.t.Helper()
	spec := workload.Spec{Name: "x", Kind: workload.KindContainer, Image: "a:1", GPU: 1000, CPU: 8000, Mem: 64 << 30, Time: 2 * hour, Requeue: requeue}
	k := b.do(2, command.Submit{Spec: spec}).Result.(admission.Accepted).Job.ID
	b.do(0, command.JobStart{Job: k})
	b.pass(3 * time.Second)
	b.do(0, command.JobObserved{Job: k, N: 1, Running: true, Started: b.now.Load() - 1e9})
	b.pass(d)
	b.do(0, command.Meter{Jobs: []id.Job{k}})
	return k
}

func (b *bench) exit(k id.Job) {
	b.pass(time.Second)
	b.do(0, command.JobObserved{Job: k, N: 1, Exited: true, Finished: b.now.Load() - 5e8})
}

func (b *bench) reader(h query.History) *query.Reader {
	return query.New(query.Deps{Worlds: b.seq, History: h, Now: b.now.Load})
}

var root = access.Principal{User: 1, Name: "root", Platform: access.Admin}
