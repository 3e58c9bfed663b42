package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// process is a program of the cluster. Its output is in DIR/NAME.log.
type process struct {
	name string
	log  string
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	err  error         // how; after done
}

// start starts a program.
func (c *Cluster) start(name, program string, args ...string) (*process, error) {
	p := &process{name: name, log: filepath.Join(c.dir, name+".log"), done: make(chan struct{})}
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	p.cmd = exec.Command(program, args...)
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.Dir = out, out, c.dir
	p.cmd.Env = append(os.Environ(), "PATH="+c.cfg.Runtime+"/bin:"+os.Getenv("PATH")+":/usr/sbin:/sbin")
	// It ends with the test whatever becomes of it.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// stop ends a program, by force if it takes long.
func (p *process) stop(sig syscall.Signal) error {
	if p == nil {
		return nil
	}
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-p.done:
	case <-time.After(20 * time.Second):
		_ = p.cmd.Process.Kill() // it was asked for long enough
		<-p.done
	}
	return nil
}

// await asks until there is no error any more.
func (p *process) await(ctx context.Context, what string, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for {
		err := ask(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("%s ended (%v): %s", p.name, p.err, p.tail())
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w: %s", what, err, p.tail())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (p *process) tail() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(text[max(0, len(text)-3000):]))
}
