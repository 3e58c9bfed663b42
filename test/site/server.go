package site

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is a server that this test started.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	err  error         // how; after done
}

// Start starts the server and waits until it answers and has its node.
func (s *Site) Start(ctx context.Context) error {
	if err := s.Launch(ctx); err != nil {
		return err
	}
	return s.Ready(ctx)
}

// Launch starts the server and doesn't wait for it.
func (s *Site) Launch(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server != nil {
		return errors.New("the server runs already")
	}
	log, err := os.OpenFile(s.Log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	p := &process{cmd: s.Daemon(context.Background(), "server"), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	s.server = p
	return os.WriteFile(s.in("server.pid"), []byte(strconv.Itoa(p.cmd.Process.Pid)), 0o600)
}

// Ready waits until the server answers, with a runtime and a node.
func (s *Site) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		st, err := s.client.Status(ctx)
		if err == nil && st.Runtime == "ok" && st.Nodes > 0 {
			return nil
		}
		if err == nil {
			err = fmt.Errorf("runtime %s, %d nodes", st.Runtime, st.Nodes)
		}
		if werr := s.tick(ctx); werr != nil {
			return fmt.Errorf("the server isn't ready: %w: %w\n%s", werr, err, s.Tail())
		}
	}
}

// tick waits a moment, or says why there is no more to wait for.
func (s *Site) tick(ctx context.Context) error {
	s.mu.Lock()
	p := s.server
	s.mu.Unlock()
	if p == nil {
		return errors.New("no server runs")
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-p.done:
		return fmt.Errorf("it ended: %w", p.err)
	case <-time.After(50 * time.Millisecond):
		return nil
	}
}

// Tail is the end of the server's log.
func (s *Site) Tail() string {
	text, err := os.ReadFile(s.Log())
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-8000):])
}

// Stop ends the server with SIGTERM. An error when it doesn't end well.
func (s *Site) Stop() error { return s.end(syscall.SIGTERM) }

// Kill ends the server with SIGKILL. It is no error if it doesn't run.
func (s *Site) Kill() error {
	err := s.end(syscall.SIGKILL)
	if errors.Is(err, errNotRunning) {
		return nil
	}
	return err
}

var errNotRunning = errors.New("the server doesn't run")

func (s *Site) end(sig syscall.Signal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.server
	if p == nil {
		return errNotRunning
	}
	s.server = nil
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-p.done:
	case <-time.After(30 * time.Second):
		_ = p.cmd.Process.Kill() // it was asked for long enough
		<-p.done
		return errors.New("the server didn't stop within 30 s of SIGTERM")
	}
	if sig == syscall.SIGTERM {
		return p.err
	}
	return nil
}

// adopt ends the server of a test that is gone.
func (s *Site) adopt() {
	text, err := os.ReadFile(s.in("server.pid"))
	if err != nil {
		return
	}
	pid, err := strconv.Atoi(string(text))
	if exe, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); err == nil && strings.HasPrefix(exe, s.Dir+"/") {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended just now
	}
}

// KillRuntime ends the container runtime's process with SIGKILL.
func (s *Site) KillRuntime() error {
	text, err := os.ReadFile(filepath.Join(s.Data, "runtime", "process.json"))
	if err != nil {
		return err
	}
	var state struct{ PID int }
	if err := json.Unmarshal(text, &state); err != nil {
		return err
	}
	cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", state.PID))
	if err != nil || !strings.Contains(string(cmdline), s.Data) {
		return fmt.Errorf("process %d isn't this site's runtime", state.PID)
	}
	return syscall.Kill(state.PID, syscall.SIGKILL)
}

// RuntimeSocket is the socket of the site's container runtime, for crictl.
func (s *Site) RuntimeSocket() (string, error) {
	text, err := os.ReadFile(filepath.Join(s.Data, "runtime", "config.toml"))
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		_, v, _ := strings.Cut(line, "=")
		if v = strings.Trim(strings.TrimSpace(v), `"'`); strings.HasSuffix(v, "/containerd.sock") {
			return v, nil
		}
	}
	return "", errors.New("the runtime's configuration names no socket")
}

// Crictl is the path of crictl.
func (s *Site) Crictl() string { return filepath.Join(s.source.runtime, "bin", "crictl") }
