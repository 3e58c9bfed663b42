package cri

import (
	"context"
	"errors"
	"io/fs"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/engine/record"
)

// A container whose start was asked for by a server that was killed meanwhile is
// given up by the runtime, since the caller is gone: it is listed as exited and was
// never running. That says nothing about the job: its program waits at the gate
// until the runtime lists the container as running, which it doesn't take back. So
// the attempt counts as not started, and Start makes the container anew.

// wasCut reports that the runtime gave a start up because the caller went away or
// had waited for long enough.
func wasCut(t times) bool {
	return t.started.IsZero() && (strings.Contains(t.message, "context canceled") || strings.Contains(t.message, "context deadline exceeded"))
}

// discardCut removes a container whose start was cut short, and reports whether it
// was such a one.
func (e *Engine) discardCut(ctx context.Context, container string) (bool, error) {
	r, err := e.rt.containerStatus(ctx, container, false)
	if isNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	if !wasCut(e.remember(r.GetStatus())) {
		return false, nil
	}
	_, err = call(ctx, e.cfg.StartTimeout, func(ctx context.Context) (*runtimeapi.RemoveContainerResponse, error) {
		return e.rt.runtime.RemoveContainer(ctx, &runtimeapi.RemoveContainerRequest{ContainerId: container})
	})
	if isNotFound(err) {
		err = nil
	}
	return err == nil, err
}

// openGate lets the program of a container that runs begin.
func (e *Engine) openGate(id engine.StepID) {
	if err := record.OpenGate(e.scratch(id.Attempt).step(id.N).record()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		e.log.Warn("a program can't begin, will try again", "step", id.String(), "error", err)
	}
}

// begun does what is left to do once a container runs: it has its mounts, and the
// program may begin.
func (e *Engine) begun(id engine.StepID) {
	if err := e.scratch(id.Attempt).step(id.N).detach(); err != nil {
		e.log.Warn("a step's mounts stay until its job is removed", "step", id.String(), "error", err)
	}
	e.openGate(id)
}
