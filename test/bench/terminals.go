package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	v1 "croft.dev/croft/api/v1"
)

// The sizes of what terminals measures.
const (
	terminalJobs  = 10
	terminalNames = 25 // in each job
	terminalJoins = 8  // in each terminal
	keystrokes    = 300
)

// terminals measures keys that are typed in some terminals of real containers until they are
// shown there, with no other connection and with thousands, and what those take of memory.
func terminals(ctx context.Context, s settings) error {
	address, err := freeAddress()
	if err != nil {
		return err
	}
	v, err := serve(ctx, s, "engine: {runtime_dir: "+s.runtime+", node_name: gpu1, bridge: croftbench0}\nlisten: {http: \""+address+"\"}\nlog: {level: warn}\n")
	if err != nil {
		return err
	}
	defer v.stop(true)
	if err := v.people(ctx); err != nil {
		return err
	}
	if err := v.daemon(ctx, "load", filepath.Join(s.images, "tiny.tar")).Run(); err != nil {
		return err
	}
	clients, err := v.typists(ctx, address)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var first []*typist
	for i := range terminalJobs {
		c := clients[i%len(clients)]
		job, err := c.Submit(ctx, v1.JobSpec{Image: "tiny:1", Account: "bench", CPU: "0.2", Mem: "256M", Time: "1h", Command: []string{"sleep", "3600"}})
		if err != nil {
			return err
		}
		if _, err := c.Wait(ctx, job.ID, v1.Running, v1.WaitOptions{}); err != nil {
			return err
		}
		t, err := join(ctx, c, job.ID, 0)
		if err != nil {
			return err
		}
		first = append(first, t)
	}
	before, err := v.memory()
	if err != nil {
		return err
	}
	few, err := typeAll(ctx, first)
	if err != nil {
		return err
	}
	begun := time.Now()
	more := terminalJobs*terminalNames*terminalJoins - len(first)
	if err := crowd(ctx, first); err != nil {
		return err
	}
	took := time.Since(begun)
	after, err := v.memory()
	if err != nil {
		return err
	}
	many, err := typeAll(ctx, first)
	if err != nil {
		return err
	}
	what := fmt.Sprintf("a key until it is shown, %d at a time, p50 / p99", len(first))
	row(what+": with these connections alone", ms(quantile(few, 500))+" / "+ms(quantile(few, 990)), "")
	row(fmt.Sprintf("%s: with %d more open, in %d terminals", what, more, terminalJobs*terminalNames), ms(quantile(many, 500))+" / "+ms(quantile(many, 990)), "")
	row("ratio of the p99", fmt.Sprintf("%.2f×", float64(quantile(many, 990))/float64(quantile(few, 990))), "")
	row("memory of the server for each open terminal", fmt.Sprintf("%.0f KiB", float64(after-before)/float64(more)/1024), "")
	keepers, n, err := residents("croft-terminals")
	if err != nil {
		return err
	}
	row(fmt.Sprintf("memory of the keepers of %d jobs, each", n), fmt.Sprintf("%.1f MiB", float64(keepers)/float64(max(n, 1))/(1<<20)), "")
	row("joining them, 16 at a time", fmt.Sprintf("%.0f/s", float64(more)/took.Seconds()), "")
	return nil
}

// typists are clients of two users: one alone may not have so many connections.
func (v *server) typists(ctx context.Context, address string) ([]*v1.Client, error) {
	const other = "daemon" // whom every machine has
	if _, err := v.client.AddUser(ctx, v1.User{Name: other}); err != nil {
		return nil, err
	}
	if _, err := v.client.SetMember(ctx, "bench", other, v1.MemberRequest{Role: "member"}); err != nil {
		return nil, err
	}
	token, err := v.client.AddToken(ctx, other, v1.TokenRequest{Name: "bench"})
	if err != nil {
		return nil, err
	}
	c, err := v1.New(v1.Config{Server: "http://" + address, Token: token.Secret})
	return []*v1.Client{v.client, c}, err
}

// freeAddress is one that nothing listens on.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// typist is one who has joined a terminal, where a program takes what is typed and the
// kernel shows it.
type typist struct {
	c    *v1.Client
	job  string
	keys *io.PipeWriter
	seen chan struct{} // gets one for each x that is shown
	up   chan struct{} // closed when the terminal was joined
	once sync.Once
	err  chan error
}

// Write implements io.Writer: what is shown.
func (t *typist) Write(b []byte) (int, error) {
	for range bytes.Count(b, []byte("x")) {
		select {
		case t.seen <- struct{}{}:
		default: // of another's keys
		}
	}
	return len(b), nil
}

func join(ctx context.Context, c *v1.Client, job string, n int) (*typist, error) {
	in, keys := io.Pipe()
	t := &typist{c: c, job: job, keys: keys, seen: make(chan struct{}, 64), up: make(chan struct{}), err: make(chan error, 1)}
	go func() {
		_, err := c.Terminal(ctx, job, v1.TerminalOptions{
			Name: "t" + strconv.Itoa(n), Size: v1.TerminalSize{Cols: 80, Rows: 24}, Stdin: in, Stdout: t,
			Joined: func(v1.TerminalJoined) { t.once.Do(func() { close(t.up) }) },
		})
		t.err <- err
	}()
	select {
	case <-t.up:
		return t, nil
	case err := <-t.err:
		return nil, fmt.Errorf("joining a terminal: %w", err)
	}
}

// crowd joins all the other connections.
func crowd(ctx context.Context, first []*typist) error {
	type place struct {
		of   *typist
		name int
	}
	places := make(chan place)
	errs := make(chan error, 16)
	for range cap(errs) {
		go func() {
			var err error
			for p := range places {
				if err == nil {
					_, err = join(ctx, p.of.c, p.of.job, p.name)
				}
			}
			errs <- err
		}()
	}
	for i := range terminalJoins {
		for name := range terminalNames {
			for _, t := range first {
				if i > 0 || name > 0 {
					places <- place{t, name}
				}
			}
		}
	}
	close(places)
	var err error
	for range cap(errs) {
		err = errors.Join(err, <-errs)
	}
	return err
}

// typeAll types in all of them at once, a key at a time each, and returns how long each key
// took to be shown.
func typeAll(ctx context.Context, all []*typist) ([]time.Duration, error) {
	var mu sync.Mutex
	var took []time.Duration
	errs := make(chan error, len(all))
	for _, t := range all {
		go func() {
			own, err := t.type_(ctx)
			mu.Lock()
			defer mu.Unlock()
			took = append(took, own...)
			errs <- err
		}()
	}
	var err error
	for range all {
		err = errors.Join(err, <-errs)
	}
	return took, err
}

func (t *typist) type_(ctx context.Context) (took []time.Duration, err error) {
	// 170 is an x, which tells that the shell doesn't read any more.
	next := "\x03\rstty sane; printf '\\170\\n'; cat > /dev/null\r"
	for i := range keystrokes + 10 {
		begun := time.Now()
		if _, err := io.WriteString(t.keys, next); err != nil {
			return nil, err
		}
		next = "x"
		select {
		case <-t.seen:
		case err := <-t.err:
			return nil, fmt.Errorf("a terminal has ended: %w", err)
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(30 * time.Second):
			return nil, errors.New("a key isn't shown")
		}
		if i >= 10 {
			took = append(took, time.Since(begun))
		}
		if i%50 == 49 {
			if _, err := io.WriteString(t.keys, "\n"); err != nil {
				return nil, err
			}
		}
	}
	return took, nil
}

// residents is the memory of all processes of a name together, in bytes, and how many there
// are.
func residents(name string) (sum int64, n int, err error) {
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return 0, 0, err
	}
	for _, path := range all {
		line, err := os.ReadFile(path)
		if err != nil || !strings.HasPrefix(string(line), name+"\x00") {
			continue // it has ended
		}
		text, err := os.ReadFile(filepath.Join(filepath.Dir(path), "statm"))
		fields := strings.Fields(string(text))
		if err != nil || len(fields) < 2 {
			continue
		}
		pages, err := strconv.ParseInt(fields[1], 10, 64)
		if err != nil {
			return 0, 0, err
		}
		sum, n = sum+pages*int64(os.Getpagesize()), n+1
	}
	return sum, n, nil
}
