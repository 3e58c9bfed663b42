package cri

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	utilexec "k8s.io/client-go/util/exec"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/engine/cri/record"
)

// Exec implements engine.Engine. The runtime runs the command with the
// container's own user, limits and environment; croft-init looks it up there.
func (e *Engine) Exec(ctx context.Context, id engine.StepID, req engine.ExecRequest) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if len(req.Command) == 0 {
		return 0, errors.New("cri: exec without a command")
	}
	have, err := e.find(ctx, id.Attempt)
	if err != nil {
		return 0, err
	}
	if h, ok := have.hosts[id]; ok {
		return e.execHost(ctx, id, h, req)
	}
	c := have.step(id.N)
	if c == nil || c.GetState() != runtimeapi.ContainerState_CONTAINER_RUNNING {
		return 0, &engine.NotFoundError{Attempt: id.Attempt}
	}
	r, err := ask(ctx, e.rt, func(ctx context.Context) (*runtimeapi.ExecResponse, error) {
		return e.rt.runtime.Exec(ctx, &runtimeapi.ExecRequest{
			ContainerId: c.GetId(),
			Cmd:         append([]string{record.InitPath, "--exec", "--"}, req.Command...),
			Tty:         req.TTY, Stdin: req.Stdin != nil, Stdout: true, Stderr: !req.TTY,
		})
	})
	if err != nil {
		return 0, err
	}
	err = stream(ctx, r.GetUrl(), streams{req.TTY, req.Stdin, or(req.Stdout), or(req.Stderr), req.Resize})
	var exit utilexec.CodeExitError
	if errors.As(err, &exit) {
		return exit.Code, nil
	}
	return 0, err
}

// streams are what a stream of the runtime carries; those that are nil aren't asked for.
type streams struct {
	tty            bool
	stdin          io.Reader
	stdout, stderr io.Writer
	resize         <-chan engine.Size
}

// stream carries an exec or an attach over the runtime's streaming server.
func stream(ctx context.Context, address string, s streams) error {
	u, err := url.Parse(address)
	if err != nil {
		return fmt.Errorf("cri: stream: %w", err)
	}
	// Whoever reaches the streaming server with the address has the streams: it must
	// not be on the network.
	if ip := net.ParseIP(u.Hostname()); (ip == nil || !ip.IsLoopback()) && u.Hostname() != "localhost" {
		return fmt.Errorf("cri: stream: the runtime's streaming server listens on %s, not on loopback", u.Hostname())
	}
	executor, err := remotecommand.NewSPDYExecutor(&rest.Config{}, "POST", u)
	if err != nil {
		return fmt.Errorf("cri: stream: %w", err)
	}
	opts := remotecommand.StreamOptions{Stdin: s.stdin, Stdout: s.stdout, Tty: s.tty}
	if !s.tty {
		opts.Stderr = s.stderr
	}
	if s.tty && s.resize != nil {
		opts.TerminalSizeQueue = sizes{ctx: ctx, from: s.resize}
	}
	err = executor.StreamWithContext(ctx, opts)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return fmt.Errorf("cri: stream: %w", err)
}

func or(w io.Writer) io.Writer {
	if w == nil {
		return io.Discard
	}
	return w
}

// sizes hands a terminal's sizes on.
type sizes struct {
	ctx  context.Context
	from <-chan engine.Size
}

// Next implements remotecommand.TerminalSizeQueue.
func (s sizes) Next() *remotecommand.TerminalSize {
	select {
	case size, ok := <-s.from:
		if !ok {
			return nil
		}
		return &remotecommand.TerminalSize{Width: size.Cols, Height: size.Rows}
	case <-s.ctx.Done():
		return nil
	}
}
