package kube

import (
	"context"
	"errors"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"

	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/engine/keep"
	"croft.dev/croft/internal/engine/record"
)

// Terminals implements engine.Engine. Each connection is a command in the container that joins
// the keeper there.
func (e *Engine) Terminals(ctx context.Context, id engine.StepID, start bool) (io.ReadWriteCloser, error) {
	p, err := e.running(ctx, id)
	if err != nil {
		return nil, err
	}
	conn, err := e.joinKeeper(ctx, p, id)
	var none *engine.NoTerminalsError
	if !errors.As(err, &none) || !start {
		return conn, err
	}
	said := &keep.Brief{}
	code, err := e.execIn(ctx, p, id, engine.ExecRequest{Command: []string{record.InitPath, keep.AsLauncher, stepDir(id.N)}, Stderr: said})
	switch {
	case err != nil:
		return nil, err
	case code != 0:
		return nil, &engine.AttachError{Message: fmt.Sprintf("no terminal can be opened in it: %s (exit code %d)", said, code)}
	}
	return e.joinKeeper(ctx, p, id)
}

// joinKeeper connects with the keeper of a step's terminals.
func (e *Engine) joinKeeper(ctx context.Context, p *corev1.Pod, id engine.StepID) (io.ReadWriteCloser, error) {
	in, input := io.Pipe()
	output, out := io.Pipe()
	said := &keep.Brief{}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	type end struct {
		code int
		err  error
	}
	ended := make(chan end, 1)
	go func() {
		code, err := e.execIn(running, p, id, engine.ExecRequest{
			Command: []string{record.InitPath, keep.AsJoiner, stepDir(id.N)}, Stdin: in, Stdout: out, Stderr: said,
		})
		ended <- end{code, err}
		_ = out.Close()
		_ = in.Close()
	}()
	abandoned := context.AfterFunc(ctx, stop)
	greeting := make([]byte, len(keep.Joined))
	if _, err := io.ReadFull(output, greeting); err == nil && string(greeting) == keep.Joined {
		abandoned() // from now on it is whoever has it who ends it
		return &joined{Reader: output, Writer: input, close: func() { stop(); _ = output.Close(); _ = input.Close() }}, nil
	}
	stop()
	switch x := <-ended; {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case x.err != nil:
		return nil, x.err
	case x.code == keep.ExitNone:
		return nil, &engine.NoTerminalsError{Step: id}
	default:
		return nil, &engine.AttachError{Message: fmt.Sprintf("what keeps its terminals doesn't answer as it should: %s", said)}
	}
}

// joined is a connection with a keeper.
type joined struct {
	io.Reader
	io.Writer
	close func()
}

// Close implements io.Closer.
func (j *joined) Close() error {
	j.close()
	return nil
}
