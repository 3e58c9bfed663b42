package sim

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"

	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/terminal"
)

// terminals are those of a step: a keeper, and who is connected with it.
type terminals struct {
	keeper *terminal.Keeper

	mu    sync.Mutex
	conns map[io.Closer]bool
	ended bool
}

// Terminals implements engine.Engine. A shell there echoes what is typed and knows the
// commands echo, seq, stty size and exit.
func (c *conn) Terminals(ctx context.Context, id engine.StepID, start bool) (io.ReadWriteCloser, error) {
	if err := c.enter(ctx); err != nil {
		return nil, err
	}
	t, err := c.terminalsOf(id, start)
	if err != nil {
		return nil, err
	}
	ours, theirs := net.Pipe()
	if !t.add(theirs) {
		return nil, &engine.NotFoundError{Attempt: id.Attempt}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer t.drop(theirs)
		t.keeper.Serve(theirs)
	}()
	go func() {
		select {
		case <-c.closed:
			ours.Close()
		case <-done:
		}
	}()
	if _, err := io.ReadFull(ours, make([]byte, len(terminal.Greeting))); err != nil {
		return nil, &engine.NotFoundError{Attempt: id.Attempt}
	}
	return ours, nil
}

func (c *conn) terminalsOf(id engine.StepID, start bool) (*terminals, error) {
	f := c.fleet
	f.mu.Lock()
	defer f.mu.Unlock()
	a := c.step(id)
	if a == nil || a.removed {
		return nil, &engine.NotFoundError{Attempt: id.Attempt}
	}
	f.settle(a)
	switch err := f.contact(a); {
	case err != nil:
		return nil, err
	case a.phase != engine.PhaseRunning:
		return nil, &engine.NotFoundError{Attempt: id.Attempt}
	case a.Host:
		return nil, &engine.AttachError{Message: "a program on the machine itself has no terminals beside it"}
	case a.terminals == nil && !start:
		return nil, &engine.NoTerminalsError{Step: id}
	case a.terminals == nil:
		a.terminals = &terminals{keeper: terminal.NewKeeper(StartShell), conns: map[io.Closer]bool{}}
	}
	return a.terminals, nil
}

func (t *terminals) add(c io.Closer) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.ended {
		t.conns[c] = true
	}
	return !t.ended
}

func (t *terminals) drop(c io.Closer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.conns, c)
}

// end cuts everybody off, as the end of a container does. A step without terminals has none
// to be cut off from.
func (t *terminals) end() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
	for c := range t.conns {
		c.Close()
	}
	t.keeper.HangUp()
}

// shell is a program on a virtual terminal.
type shell struct {
	mu      sync.Mutex
	changed sync.Cond
	out     bytes.Buffer // what it has written and nobody has read
	line    []byte       // what was typed of a line
	size    terminal.Size
	ended   bool
	code    int
}

func StartShell(_, _ string, size terminal.Size) (terminal.Program, error) {
	s := &shell{size: size}
	s.changed.L = &s.mu
	s.out.WriteString(prompt)
	return s, nil
}

const prompt = "$ "

// Read implements terminal.Program.
func (s *shell) Read(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.out.Len() == 0 && !s.ended {
		s.changed.Wait()
	}
	if s.out.Len() == 0 {
		return 0, io.EOF
	}
	return s.out.Read(b)
}

// Write implements terminal.Program.
func (s *shell) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range b {
		switch {
		case s.ended:
		case c == '\r' || c == '\n':
			s.out.WriteString("\r\n")
			s.run(string(s.line))
			s.line = s.line[:0]
		case c == endOfTransmission && len(s.line) == 0:
			s.ended = true
		case len(s.line) < 4096:
			s.line = append(s.line, c)
			s.out.WriteByte(c)
		}
	}
	s.changed.Broadcast()
	return len(b), nil
}

func (s *shell) run(line string) {
	line = strings.ReplaceAll(line, "''", "") // by which a test tells what is typed from what is written
	name, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	n, err := strconv.Atoi(rest)
	switch {
	case name == "":
	case name == "echo":
		s.out.WriteString(rest + "\r\n")
	case name == "seq" && err == nil:
		for i := range n {
			fmt.Fprintf(&s.out, "%d\r\n", i+1)
		}
	case name == "stty" && rest == "size":
		fmt.Fprintf(&s.out, "%d %d\r\n", s.size.Rows, s.size.Cols)
	case name == "exit":
		s.ended, s.code = true, n&0xff
		return
	default:
		fmt.Fprintf(&s.out, "%s: not found\r\n", name)
	}
	s.out.WriteString(prompt)
}

// Resize implements terminal.Program.
func (s *shell) Resize(size terminal.Size) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.size = size
}

// Redraw implements terminal.Program.
func (s *shell) Redraw() {}

// HangUp implements terminal.Program.
func (s *shell) HangUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.ended, s.code = true, 128+sighup
	}
	s.changed.Broadcast()
}

const sighup = 1

// Wait implements terminal.Program.
func (s *shell) Wait() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.code
}
