package cri

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"syscall"
	"time"

	tasksapi "github.com/containerd/containerd/api/services/tasks/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
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
	err = e.rt.removeContainer(ctx, container, e.cfg.StartTimeout)
	return err == nil, err
}

// removeContainer removes a container that doesn't run. A start that was cut short at the
// wrong moment leaves containerd a task that the CRI doesn't know of: it would never end, and
// the container couldn't be removed.
func (c *client) removeContainer(ctx context.Context, id string, d time.Duration) error {
	remove := func() error {
		_, err := call(ctx, d, func(ctx context.Context) (*runtimeapi.RemoveContainerResponse, error) {
			return c.runtime.RemoveContainer(ctx, &runtimeapi.RemoveContainerRequest{ContainerId: id})
		})
		if isNotFound(err) {
			return nil
		}
		return err
	}
	err := remove()
	if !hasTask(err) {
		return err
	}
	if err := c.endTask(ctx, id, d); err != nil {
		return err
	}
	return remove()
}

// removeContainersOf does so with all of a sandbox that is stopped.
func (c *client) removeContainersOf(ctx context.Context, sandbox string, d time.Duration) error {
	all, err := ask(ctx, c, func(ctx context.Context) (*runtimeapi.ListContainersResponse, error) {
		return c.runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{PodSandboxId: sandbox}})
	})
	for _, one := range all.GetContainers() {
		if err := c.removeContainer(ctx, one.GetId(), d); err != nil {
			return err
		}
	}
	return err
}

// hasTask reports that an object can't be removed for a task of containerd's.
func hasTask(err error) bool { return status.Code(err) == codes.FailedPrecondition }

// endTask kills and deletes a container's task in containerd. A program at the gate hasn't
// begun, so that nothing is lost with it.
func (c *client) endTask(ctx context.Context, id string, d time.Duration) error {
	_, err := call(ofCRI(ctx), d, func(ctx context.Context) (*tasksapi.DeleteResponse, error) {
		if _, err := c.tasks.Kill(ctx, &tasksapi.KillRequest{ContainerID: id, Signal: uint32(syscall.SIGKILL), All: true}); err != nil && !isNotFound(err) {
			return nil, err
		}
		if _, err := c.tasks.Wait(ctx, &tasksapi.WaitRequest{ContainerID: id}); err != nil && !isNotFound(err) {
			return nil, err
		}
		return c.tasks.Delete(ctx, &tasksapi.DeleteTaskRequest{ContainerID: id})
	})
	if isNotFound(err) {
		return nil
	}
	return err
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
