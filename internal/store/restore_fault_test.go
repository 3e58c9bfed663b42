package store_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"croft.dev/croft/internal/store"
	"croft.dev/croft/internal/store/archive"
	"croft.dev/croft/internal/world"
)

// restoreOrBackUp does what its environment says, in a process of its own: CROFT_TEST_RESTORE is
// "restore FILE DATABASE BYTES" or "backup …". No file may become larger than so many bytes, as on
// a disk that fills up; 0 bounds nothing.
func restoreOrBackUp() int {
	var do, file, database string
	var bytes uint64
	_, err := fmt.Sscan(os.Getenv("CROFT_TEST_RESTORE"), &do, &file, &database, &bytes)
	if err == nil && bytes > 0 {
		err = syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: bytes, Max: bytes})
	}
	switch {
	case err != nil:
	case do == "restore":
		_, _, err = store.Restore(context.Background(), store.Config{Path: database}, file, nil, nil)
	default:
		err = archive.Create(file, func(w io.Writer) error {
			_, _, err := store.Backup(context.Background(), store.Config{Path: database}, w, nil)
			return err
		})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func apart(t *testing.T, do, file, database string, bytes int) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), fmt.Sprintf("CROFT_TEST_RESTORE=%s %s %s %d", do, file, database, bytes))
	return cmd
}

// twoStates is a closed database, what it was at a backup, and the backup.
func twoStates(t *testing.T) (then, now fixture, path string) {
	t.Helper()
	f := &fixture{t: t, cfg: backends["sqlite"](t), world: world.New()}
	f.open()
	f.live(t, 0, 60)
	path, _ = f.backup(t)
	then = *f
	then.world = f.world.Copy()
	f.live(t, 60, 2)
	if err := f.store.Close(); err != nil {
		t.Fatal(err)
	}
	return then, *f, path
}

// whole checks that a database is one of the two states, and says which.
func whole(t *testing.T, then, now fixture) (restored bool) {
	t.Helper()
	s, err := store.Open(t.Context(), now.cfg)
	if err != nil {
		t.Fatal(err)
	}
	head, err := s.Head(t.Context())
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	is := now
	if head.Seq == then.head.Seq {
		is = then
	}
	is.open()
	is.checkLoad()
	if err := is.store.Close(); err != nil {
		t.Fatal(err)
	}
	return is.head.Seq == then.head.Seq
}

// A restore that is killed at any moment leaves the database as it was, or as it was backed
// up; and the next one gets through.
func TestRestoreKilled(t *testing.T) {
	then, now, path := twoStates(t)
	began := time.Now()
	if out, err := apart(t, "restore", path, filepath.Join(t.TempDir(), "croft.db"), 0).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	takes, killed := time.Since(began), 0
	for range 12 {
		cmd := apart(t, "restore", path, now.cfg.Path, 0)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		stop := time.AfterFunc(rand.N(takes), func() { _ = cmd.Process.Kill() })
		if err := cmd.Wait(); err != nil {
			killed++
		}
		stop.Stop()
		if whole(t, then, now) {
			break // there is nothing more to be restored
		}
	}
	t.Logf("killed %d times", killed)
	if out, err := apart(t, "restore", path, now.cfg.Path, 0).CombinedOutput(); err != nil {
		t.Fatalf("after that: %v: %s", err, out)
	}
	if !whole(t, then, now) {
		t.Error("it wasn't restored")
	}
}

// On a disk that fills up, neither a backup nor a restore leaves half of anything.
func TestRestoreDiskFull(t *testing.T) {
	then, now, path := twoStates(t)
	refused := 0
	for _, bytes := range []int{1 << 10, 16 << 10, 64 << 10, 256 << 10} {
		target := filepath.Join(t.TempDir(), "b"+strconv.Itoa(bytes))
		if out, err := apart(t, "backup", target, now.cfg.Path, bytes).CombinedOutput(); err != nil {
			refused++
			if left, _ := filepath.Glob(target + "*"); len(left) > 0 || strings.Contains(string(out), "panic") {
				t.Errorf("a backup in %d bytes leaves %q: %s", bytes, left, out)
			}
		} else if _, _, err := archive.Check(target); err != nil {
			t.Errorf("a backup in %d bytes: %v", bytes, err)
		}
		if out, err := apart(t, "restore", path, now.cfg.Path, bytes).CombinedOutput(); err != nil {
			refused++
			if left, _ := filepath.Glob(now.cfg.Path + ".restoring*"); len(left) > 0 || strings.Contains(string(out), "panic") {
				t.Errorf("a restore in %d bytes leaves %q: %s", bytes, left, out)
			}
			if whole(t, then, now) {
				t.Errorf("a restore in %d bytes failed, and restored: %s", bytes, out)
			}
		} else if !whole(t, then, now) {
			t.Errorf("a restore in %d bytes did nothing: %s", bytes, out)
		}
	}
	if refused < 3 {
		t.Errorf("only %d were refused for want of room", refused)
	}
}

// A backup of an older schema is made into a database of today's.
func TestRestoreOlder(t *testing.T) {
	for name, config := range backends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &fixture{t: t, cfg: backends["sqlite"](t), world: world.New()}
			db, err := sql.Open("sqlite", "file:"+f.cfg.Path)
			if err != nil {
				t.Fatal(err)
			}
			const old = 75 // before the log said what was changed
			store.MigrateTo(t, f.cfg, db, old)
			e := world.Entry{Seq: 1, At: 5, Principal: "root", Kind: "test", Command: []byte("{}"), Touched: "account:3"}
			f.hash(&e)
			for _, q := range []string{
				`INSERT INTO meta (name, value) VALUES ('instance', '0a1b2c3d-0000-4000-8000-000000000000')`,
				`INSERT INTO account (id, name, parent, billing, unix_group, closed, created, ends, weight, retired) VALUES (3, 'nlp', 0, 'off', '', FALSE, 5, 0, 1, 0)`,
				`INSERT INTO log (seq, at, person, principal, kind, command, touched, job, refusal, account, state, message, reasons, key_name, key_digest, key_job, key_refusal, prev, hash)
				VALUES (1, 5, 0, 'root', 'test', '{}', 'account:3', 0, 0, 0, '', '', '', '', '', 0, 0, '', '` + e.Hash + `')`,
			} {
				if _, err := db.Exec(q); err != nil {
					t.Fatal(err)
				}
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			path, _ := f.backup(t)
			to := config(t)
			m, _, err := store.Restore(t.Context(), to, path, nil, nil)
			if err != nil || m.Schema != old || m.Seq != 1 {
				t.Fatalf("%+v, %v", m, err)
			}
			s, err := store.Open(t.Context(), to)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			w, _ := load(t, s)
			if a, ok := w.Tenancy.Account("nlp"); !ok || a.ID != 3 {
				t.Errorf("%+v", a)
			}
			if rows, err := s.VerifyChain(t.Context()); rows != 1 || err != nil {
				t.Errorf("VerifyChain = %d, %v", rows, err)
			}
		})
	}
}
