package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/store"
	"croft.dev/croft/internal/store/archive"
	"croft.dev/croft/internal/store/storetest"
	"croft.dev/croft/internal/tenancy"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

// live commits something of most kinds.
func (f *fixture) live(t *testing.T, from, rows int) {
	t.Helper()
	n := int64(from) * 1000
	for i := from; i < from+rows; i++ {
		job := filled[workload.Job](&n)
		job.ID, job.State, job.Attempt.Until, job.Spec.Grace = id.Job(i+1), workload.Running, 5, 6
		tile := filled[ledger.Tile](&n)
		tile.To, tile.Device = 0, fmt.Sprintf("Gpu-%d_ä", i)
		f.commit(
			tenancy.AccountSet{Row: tenancy.Account{ID: id.Account(i + 1), Name: fmt.Sprintf("a%d", i)}}, workload.JobSet{Row: &job}, ledger.TileSet{Row: tile},
			ledger.Posted{Row: ledger.Transfer{ID: id.Transfer(i + 1), Seq: f.head.Seq + 1, At: f.head.At + 1000, From: "funding:x", To: "grant:1", Amount: 5, Kind: ledger.KindGrant, Account: 1}},
		)
	}
}

func (f *fixture) backup(t *testing.T) (path, sum string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "backup")
	err := archive.Create(path, func(w io.Writer) (err error) {
		_, sum, err = store.Backup(t.Context(), f.cfg, w, nil)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return path, sum
}

// restored opens what was restored and compares it with the world that was backed up.
func (f *fixture) restored(t *testing.T, cfg store.Config) {
	t.Helper()
	g := &fixture{t: t, cfg: cfg, world: f.world.Copy()}
	g.open()
	g.head = f.head
	g.checkLoad()
	if rows, err := g.store.VerifyChain(t.Context()); rows != f.head.Seq || err != nil {
		t.Errorf("VerifyChain = %d, %v", rows, err)
	}
	g.commit()
	g.checkLoad()
	if err := g.store.Close(); err != nil {
		t.Error(err)
	}
}

// A backup of either database makes either, and two of the same state are the same.
func TestRestore(t *testing.T) {
	onEach(t, func(t *testing.T, f *fixture) {
		f.live(t, 0, 150)
		path, sum := f.backup(t)
		for name, config := range backends {
			to := config(t)
			m, kept, err := store.Restore(t.Context(), to, path, nil, nil)
			if err != nil || kept != "" || m.Seq != f.head.Seq {
				t.Fatalf("to %s: %+v, kept %q, %v", name, m, kept, err)
			}
			var again bytes.Buffer
			if _, second, err := store.Backup(t.Context(), to, &again, nil); err != nil || second != sum {
				t.Errorf("%s: a backup of what was restored has %s, not %s: %v", name, second, sum, err)
			}
			f.restored(t, to)
			if _, _, err := store.Restore(t.Context(), to, path, nil, nil); to.DSN != "" && !errors.Is(err, store.ErrNotEmpty) {
				t.Errorf("into a database that has something: %v", err)
			}
		}
		if _, _, err := store.Restore(t.Context(), f.cfg, path, nil, nil); !errors.Is(err, store.ErrLocked) {
			t.Errorf("while the server runs: %v", err)
		}
	})
}

// The database that was there is kept, whole; and stays when the restore comes to nothing.
func TestRestoreKeeps(t *testing.T) {
	f := &fixture{t: t, cfg: backends["sqlite"](t), world: world.New()}
	f.open()
	f.live(t, 0, 3)
	path, _ := f.backup(t)
	before := *f
	before.world = f.world.Copy()
	f.live(t, 3, 3)
	if err := f.store.Close(); err != nil {
		t.Fatal(err)
	}
	no := errors.New("no")
	for range 2 { // what the first leaves is in nobody's way
		_, _, err := store.Restore(t.Context(), f.cfg, path, func(context.Context, *store.Store) error { return no }, nil)
		if !errors.Is(err, no) {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(f.cfg.Path+".restoring", []byte("half of one"), 0o600); err != nil {
		t.Fatal(err)
	}
	f.open()
	f.checkLoad()
	if err := f.store.Close(); err != nil {
		t.Fatal(err)
	}
	_, kept, err := store.Restore(t.Context(), f.cfg, path, nil, nil)
	if err != nil || !strings.HasPrefix(kept, f.cfg.Path+".before-") {
		t.Fatalf("kept %q, %v", kept, err)
	}
	f.restored(t, store.Config{Path: kept})
	before.restored(t, f.cfg)
}

func TestRestoreRefusesNewer(t *testing.T) {
	f := &fixture{t: t, cfg: backends["sqlite"](t), world: world.New()}
	f.open()
	f.exec("INSERT INTO goose_db_version (version_id, is_applied) VALUES (99999, TRUE)")
	if _, _, err := store.Backup(t.Context(), f.cfg, io.Discard, nil); !errors.Is(err, store.ErrNewerSchema) {
		t.Errorf("a newer schema: %v", err)
	}
}

// What a backup has is what there was at one moment, whatever is written meanwhile.
func TestBackupUnderLoad(t *testing.T) {
	onEach(t, func(t *testing.T, f *fixture) {
		worlds := map[int64]*world.World{}
		f.live(t, 0, 1)
		worlds[f.head.Seq] = f.world.Copy()
		type result struct {
			path string
			err  error
		}
		results := make(chan result)
		go func() {
			defer close(results)
			for i := range 5 {
				path := filepath.Join(t.TempDir(), fmt.Sprint(i))
				err := archive.Create(path, func(w io.Writer) error {
					_, _, err := store.Backup(context.Background(), f.cfg, w, nil)
					return err
				})
				results <- result{path, err}
			}
		}()
		var paths []string
		for n := 1; ; n++ {
			f.live(t, n, 1)
			worlds[f.head.Seq] = f.world.Copy()
			select {
			case r, more := <-results:
				if more {
					paths = append(paths, r.path)
					if r.err != nil {
						t.Fatal(r.err)
					}
					continue
				}
			default:
				continue
			}
			break
		}
		for _, path := range paths {
			cfg := backends["sqlite"](t)
			m, _, err := store.Restore(t.Context(), cfg, path, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			s, err := store.Open(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			w, _ := load(t, s)
			want := worlds[m.Seq]
			want.Seq, want.Now = w.Seq, w.Now
			if diff := cmp.Diff(storetest.Dump(want), storetest.Dump(w)); diff != "" {
				t.Errorf("at %d (-then +restored)\n%s", m.Seq, diff)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestCopy(t *testing.T) {
	onEach(t, func(t *testing.T, f *fixture) {
		f.live(t, 0, 5)
		to := backends["postgres"](t)
		if _, _, err := store.Copy(t.Context(), f.cfg, to, nil, nil); !errors.Is(err, store.ErrLocked) {
			t.Errorf("while the server runs: %v", err)
		}
		if err := f.store.Close(); err != nil {
			t.Fatal(err)
		}
		if _, sum, err := store.Copy(t.Context(), f.cfg, to, nil, nil); err != nil || sum == "" {
			t.Fatalf("%s, %v", sum, err)
		}
		f.restored(t, to)
		if _, _, err := store.Copy(t.Context(), f.cfg, to, nil, nil); err == nil {
			t.Error("it copies over a database that is in use")
		}
	})
}
