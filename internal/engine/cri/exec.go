package cri

import (
	"context"
	"errors"

	utilexec "k8s.io/client-go/util/exec"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/engine/record"
)

// execCommand is the command line of a request in a container.
func execCommand(req engine.ExecRequest) []string {
	if req.SFTP {
		return []string{record.InitPath, record.SFTP}
	}
	return record.Beside(req.Command, req.Shell, req.Stdin != nil && !req.TTY)
}

// Exec implements engine.Engine. The runtime runs the command with the
// container's own user, limits and environment; croft-init looks it up there.
func (e *Engine) Exec(ctx context.Context, id engine.StepID, req engine.ExecRequest) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if len(req.Command) == 0 && !req.SFTP {
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
	req.Command = execCommand(req)
	return e.execIn(ctx, c.GetId(), req)
}

// execIn runs what it is told in a container.
func (e *Engine) execIn(ctx context.Context, container string, req engine.ExecRequest) (int, error) {
	r, err := ask(ctx, e.rt, func(ctx context.Context) (*runtimeapi.ExecResponse, error) {
		return e.rt.runtime.Exec(ctx, &runtimeapi.ExecRequest{
			ContainerId: container, Cmd: req.Command,
			Tty: req.TTY, Stdin: req.Stdin != nil, Stdout: true, Stderr: !req.TTY,
		})
	})
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if req.TTY && req.Stdin != nil {
		req.Stdin = engine.Typed(ctx, req.Stdin)
	}
	err = stream(ctx, r.GetUrl(), streams{req.TTY, req.Stdin, or(req.Stdout), or(req.Stderr), req.Resize})
	var exit utilexec.CodeExitError
	if errors.As(err, &exit) {
		return exit.Code, nil
	}
	return 0, err
}
