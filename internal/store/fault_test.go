package store_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"croft.dev/croft/internal/store"
	"croft.dev/croft/internal/store/chain"
	"croft.dev/croft/internal/tenancy"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

func TestDiskFull(t *testing.T) {
	f := &fixture{t: t, cfg: backends["sqlite"](t), world: world.New()}
	f.open()
	restore := store.BoundPages(t, f.store, 0)
	big := func(n int) world.Change {
		return workload.RefusalSet{Row: &workload.Refusal{ID: 1, Verdict: []byte(strings.Repeat("v", n))}}
	}
	b := f.batch(f.head, big(1<<20))
	if err := f.store.Commit(t.Context(), []store.Batch{b}); !errors.Is(err, store.ErrUnavailable) {
		t.Fatalf("on a full disk: %v", err)
	}
	f.checkLoad()
	if head, err := f.store.Head(t.Context()); head != f.head || err != nil {
		t.Fatalf("head = %+v, %v", head, err)
	}
	restore()
	f.commit(big(1 << 20))
	f.checkLoad()
}

func TestLockedBySomebody(t *testing.T) {
	f := &fixture{t: t, cfg: backends["sqlite"](t), world: world.New()}
	f.open()
	store.ImpatientFor(t, f.store)
	other := f.raw()
	other.SetMaxOpenConns(1)
	if _, err := other.Exec("BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	err := f.store.Commit(t.Context(), []store.Batch{f.batch(f.head)})
	if !errors.Is(err, store.ErrUnavailable) {
		t.Fatalf("while another writes: %v", err)
	}
	if _, err := other.Exec("ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	f.commit()
	f.checkLoad()
}

// The server's connections are cut, as when the database is restarted. It isn't
// parallel: it cuts everybody's.
func TestConnectionLost(t *testing.T) {
	f := &fixture{t: t, cfg: store.Config{DSN: postgres.DSN(t)}, world: world.New()}
	f.open()
	account := func(name string) world.Change { return tenancy.AccountSet{Row: tenancy.Account{ID: 1, Name: name}} }
	f.commit(account("a"))
	postgres.Disconnect(t)
	for try := range 10 {
		b := f.batch(f.head, account(fmt.Sprintf("b%d", try)))
		err := f.store.Commit(t.Context(), []store.Batch{b})
		if err == nil {
			f.fold(b)
			f.checkLoad()
			return
		}
		if !errors.Is(err, store.ErrUnavailable) {
			t.Fatalf("after the connection was lost: %v", err)
		}
		if head, err := f.store.Head(t.Context()); err == nil && head != f.head {
			t.Fatalf("head = %+v", head)
		}
	}
	t.Fatal("the store doesn't find its way back")
}

// A leader that vanishes keeps its lease; who follows waits for its end, and what
// the old one still writes is refused.
func TestTakeover(t *testing.T) {
	f := &fixture{t: t, cfg: backends["postgres"](t), world: world.New()}
	f.open()
	store.LoseSession(t, f.store)
	old := f.store
	started := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	next, err := store.Open(ctx, f.cfg)
	for errors.Is(err, store.ErrLocked) && ctx.Err() == nil {
		// the database notices the lost session a moment later
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
		next, err = store.Open(ctx, f.cfg)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = next.Close() })
	if waited := time.Since(started); waited < time.Second {
		t.Errorf("took over after %v, while the lease was running", waited)
	}
	if err := old.Commit(ctx, []store.Batch{f.batch(f.head)}); !errors.Is(err, store.ErrDeposed) {
		t.Errorf("the old leader: %v", err)
	}
	select {
	case <-next.Deposed():
		t.Error("the new leader is deposed")
	default:
	}
	select {
	case <-old.Deposed():
	case <-ctx.Done():
		t.Error("the old leader isn't told")
	}
}

func TestVerifyChainFindsWhatWasChanged(t *testing.T) {
	tests := map[string]struct {
		query string
		seq   int64
	}{
		"time":          {"UPDATE log SET at = at + 1 WHERE seq = 2", 2},
		"principal":     {"UPDATE log SET principal = 'eve' WHERE seq = 2", 2},
		"user":          {"UPDATE log SET person = 9 WHERE seq = 2", 2},
		"kind":          {"UPDATE log SET kind = 'x' WHERE seq = 2", 2},
		"command":       {"UPDATE log SET command = '{}' WHERE seq = 2", 2},
		"touched":       {"UPDATE log SET touched = 'job:1' WHERE seq = 2", 2},
		"job":           {"UPDATE log SET job = 9 WHERE seq = 2", 2},
		"refusal":       {"UPDATE log SET refusal = 9 WHERE seq = 2", 2},
		"account":       {"UPDATE log SET account = 9 WHERE seq = 2", 2},
		"state":         {"UPDATE log SET state = 'x' WHERE seq = 2", 2},
		"message":       {"UPDATE log SET message = 'x' WHERE seq = 2", 2},
		"reasons":       {`UPDATE log SET reasons = '[{"Code":"X"}]' WHERE seq = 2`, 2},
		"key":           {"UPDATE log SET key_name = 'k', key_digest = 'd' WHERE seq = 2", 2},
		"hash":          {"UPDATE log SET hash = 'f00d' WHERE seq = 2", 2},
		"place":         {"UPDATE log SET prev = 'f00d' WHERE seq = 2", 2},
		"row removed":   {"DELETE FROM log WHERE seq = 2", 2},
		"first removed": {"DELETE FROM log WHERE seq = 1", 1},
	}
	onEach(t, func(t *testing.T, f *fixture) {
		for range 3 {
			f.commit()
		}
		db := f.raw()
		for name, tt := range tests {
			t.Run(name, func(t *testing.T) {
				if _, err := db.Exec("CREATE TABLE kept AS SELECT * FROM log"); err != nil {
					t.Fatal(err)
				}
				defer db.Exec("DELETE FROM log; INSERT INTO log SELECT * FROM kept; DROP TABLE kept") // the next one sees
				if _, err := db.Exec(tt.query); err != nil {
					t.Fatal(err)
				}
				rows, err := f.store.VerifyChain(t.Context())
				var broken *chain.Break
				if !errors.As(err, &broken) || broken.Seq != tt.seq || rows != tt.seq-1 {
					t.Errorf("VerifyChain = %d, %v; want a break at %d", rows, err, tt.seq)
				}
			})
		}
		if rows, err := f.store.VerifyChain(t.Context()); rows != 3 || err != nil {
			t.Errorf("restored: VerifyChain = %d, %v", rows, err)
		}
	})
}
