// Package storetest is what tests of the store and of what stands on it share: a
// PostgreSQL server of their own, and a dump of a world to compare.
package storetest

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver named pgx
)

// Server is a PostgreSQL server on a socket in a directory of its own. The zero
// value starts when the first database is asked for; Stop it in TestMain.
type Server struct {
	// Durable makes it sync to disk, for benchmarks; tests need not survive.
	Durable bool

	once  sync.Once
	err   error
	dir   string
	cmd   *exec.Cmd
	ended chan struct{}
	count atomic.Int64
}

// missing is the whole answer to a machine without PostgreSQL: a failure.
const missing = "PostgreSQL's server programs aren't installed: run make setup, or apt-get install postgresql"

// DSN makes an empty database and returns how to reach it.
func (s *Server) DSN(tb testing.TB) string {
	tb.Helper()
	s.once.Do(func() { s.err = s.start() })
	if s.err != nil {
		tb.Fatal(s.err)
	}
	name := fmt.Sprintf("t%d", s.count.Add(1))
	if err := s.exec("CREATE DATABASE " + name); err != nil {
		tb.Fatal(err)
	}
	return s.dsn(name)
}

// Disconnect ends every connection to the databases, as a crash of the server
// would.
func (s *Server) Disconnect(tb testing.TB) {
	tb.Helper()
	err := s.exec(`SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
		WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'`)
	if err != nil {
		tb.Fatal(err)
	}
}

func (s *Server) dsn(database string) string {
	return "postgres://postgres@/" + database + "?host=" + url.QueryEscape(s.dir)
}

func (s *Server) exec(query string) error {
	db, err := sql.Open("pgx", s.dsn("postgres"))
	if err != nil {
		return err
	}
	defer db.Close()
	_, err = db.Exec(query)
	return err
}

// Stop ends the server, if it was started, and removes its directory.
func (s *Server) Stop() {
	if s.cmd != nil {
		_ = s.cmd.Process.Signal(syscall.SIGQUIT) // "immediate shutdown"
		<-s.ended
	}
	if s.dir != "" {
		_ = os.RemoveAll(s.dir)
	}
}

func (s *Server) start() error {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(found) == 0 {
		return errors.New(missing)
	}
	slices.Sort(found)
	bin := filepath.Dir(found[len(found)-1])
	if s.dir, err = os.MkdirTemp("", "croft-pg"); err != nil {
		return err
	}
	as, err := s.account()
	if err != nil {
		return err
	}
	data := filepath.Join(s.dir, "data")
	initdb := exec.Command(filepath.Join(bin, "initdb"),
		"-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	initdb.SysProcAttr, initdb.Dir = &syscall.SysProcAttr{Credential: as}, s.dir
	if out, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out)
	}
	return s.run(bin, data, as)
}

// account is whom the server runs as: it refuses to be root.
func (s *Server) account() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, errors.New(missing)
	}
	uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
	if err := errors.Join(err1, err2, os.Chown(s.dir, int(uid), int(gid))); err != nil {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}

func (s *Server) run(bin, data string, as *syscall.Credential) error {
	sync := "off"
	if s.Durable {
		sync = "on"
	}
	s.cmd = exec.Command(filepath.Join(bin, "postgres"), "-D", data, "-k", s.dir, "-c", "listen_addresses=",
		"-c", "fsync="+sync, "-c", "synchronous_commit="+sync, "-c", "full_page_writes="+sync, "-c", "max_connections=200")
	s.cmd.Dir = s.dir
	// The server must not outlive a test that is killed. The kernel ties that to the
	// thread that starts it, so that thread is kept.
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as, Pdeathsig: syscall.SIGQUIT}
	var said bytes.Buffer
	s.cmd.Stdout, s.cmd.Stderr = &said, &said
	s.ended = make(chan struct{})
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer close(s.ended)
		err := s.cmd.Start()
		started <- err
		if err == nil {
			_ = s.cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		s.cmd = nil
		return err
	}
	return s.await(&said)
}

// await polls until the server answers; there is nothing to be told by.
func (s *Server) await(said *bytes.Buffer) error {
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	limit := time.After(time.Minute)
	for {
		select {
		case <-poll.C:
			if s.exec("SELECT 1") == nil {
				return nil
			}
		case <-s.ended:
			return fmt.Errorf("PostgreSQL ended: %s", said)
		case <-limit:
			return errors.New("PostgreSQL doesn't answer after a minute")
		}
	}
}
