package cri

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"croft.dev/croft/internal/engine"
)

// Signal implements engine.Engine. CRI has no call for it, so the signal goes
// from here to the container's first process, croft-init, which passes it on. A
// pidfd and the attempt's control group make sure that it is that process.
func (e *Engine) Signal(ctx context.Context, id engine.StepID, sig string) error {
	number := unix.SignalNum("SIG" + strings.TrimPrefix(sig, "SIG"))
	if number == 0 {
		return fmt.Errorf("cri: unknown signal %q", sig)
	}
	have, err := e.find(ctx, id.Attempt)
	if err != nil {
		return err
	}
	if _, ok := have.hosts[id]; ok {
		return e.signalHost(ctx, id, number)
	}
	c := have.step(id.N)
	if c == nil || c.GetState() != runtimeapi.ContainerState_CONTAINER_RUNNING {
		return nil
	}
	pid, err := e.rt.pid(ctx, c.GetId())
	if isNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if pid == 0 {
		return e.signalInside(ctx, c.GetId(), sig)
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cri: signal %s: %w", id, err)
	}
	defer unix.Close(fd)
	// Looked at after the process was pinned: its number can't be reused now.
	if e.facts.JobCgroups && !e.cg.Contains(e.cgroupOf(id.Attempt), pid) {
		return nil
	}
	if err := unix.PidfdSendSignal(fd, number, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("cri: signal %s: %w", id, err)
	}
	return nil
}

// signalInside sends the signal from within, for runtimes that don't tell the
// process.
func (e *Engine) signalInside(ctx context.Context, container, sig string) error {
	_, err := ask(ctx, e.rt, func(ctx context.Context) (*runtimeapi.ExecSyncResponse, error) {
		return e.rt.runtime.ExecSync(ctx, &runtimeapi.ExecSyncRequest{
			ContainerId: container, Timeout: 5,
			Cmd: []string{"kill", "-s", strings.TrimPrefix(sig, "SIG"), "1"},
		})
	})
	return err
}

// Stop implements engine.Engine. The sandbox stays until Remove, and with it the
// containers' status.
func (e *Engine) Stop(ctx context.Context, id engine.AttemptID) error {
	return e.stop(ctx, id, func() (func(), error) { return e.locks.lock(ctx, id) }, func(have objects) []engine.StepID {
		out := []engine.StepID{id.Primary()}
		for _, c := range have.containers {
			if n := stepOf(c.GetLabels()); n != engine.PrimaryStep {
				out = append(out, engine.StepID{Attempt: id, N: n})
			}
		}
		for step := range have.hosts {
			if step.N != engine.PrimaryStep {
				out = append(out, step)
			}
		}
		return out
	})
}

// StopStep implements engine.Engine.
func (e *Engine) StopStep(ctx context.Context, id engine.StepID) error {
	return e.stop(ctx, id.Attempt, func() (func(), error) { return e.locks.lockStep(ctx, id) }, func(objects) []engine.StepID { return []engine.StepID{id} })
}

// stop ends the steps that which picks of what there is, several at a time.
func (e *Engine) stop(ctx context.Context, id engine.AttemptID, lock func() (func(), error), which func(objects) []engine.StepID) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	unlock, err := lock()
	if err != nil {
		return err
	}
	defer unlock()
	have, err := e.find(ctx, id)
	if err != nil || have.none() {
		return err
	}
	const atOnce = 8
	var g errgroup.Group
	g.SetLimit(atOnce)
	for _, step := range which(have) {
		g.Go(func() error {
			if _, ok := have.hosts[step]; ok {
				return e.stopHost(ctx, step)
			}
			return e.stopContainer(ctx, step, have.step(step.N))
		})
	}
	return g.Wait()
}

func (e *Engine) stopContainer(ctx context.Context, id engine.StepID, c *runtimeapi.Container) error {
	if c == nil || c.GetState() == runtimeapi.ContainerState_CONTAINER_CREATED {
		return e.markStopped(id)
	}
	if c.GetState() == runtimeapi.ContainerState_CONTAINER_EXITED {
		r, err := e.rt.containerStatus(ctx, c.GetId(), false)
		if err == nil && wasCut(e.remember(r.GetStatus())) {
			return e.markStopped(id) // it didn't begin, and won't
		}
		return err
	}
	_, err := call(ctx, e.cfg.StartTimeout, func(ctx context.Context) (*runtimeapi.StopContainerResponse, error) {
		return e.rt.runtime.StopContainer(ctx, &runtimeapi.StopContainerRequest{ContainerId: c.GetId()})
	})
	if isNotFound(err) {
		return nil
	}
	return err
}

// Remove implements engine.Engine.
func (e *Engine) Remove(ctx context.Context, id engine.AttemptID) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	unlock, err := e.locks.lock(ctx, id)
	if err != nil {
		return err
	}
	defer unlock()
	have, err := e.find(ctx, id)
	if err != nil {
		return err
	}
	for _, c := range have.containers {
		switch c.GetState() {
		case runtimeapi.ContainerState_CONTAINER_RUNNING, runtimeapi.ContainerState_CONTAINER_UNKNOWN:
			return fmt.Errorf("cri: step %s.%d still runs", id, stepOf(c.GetLabels()))
		}
	}
	for step, h := range have.hosts {
		if busy, err := e.hostBusy(step, h); err != nil {
			return err
		} else if busy {
			return fmt.Errorf("cri: step %s still runs", step)
		}
	}
	e.networks.drop(id)
	for _, s := range have.sandboxes {
		if err := e.removeSandbox(ctx, s.GetId()); err != nil {
			return err
		}
	}
	if have.none() && !e.owns(id) {
		return nil
	}
	return e.release(id)
}

// owns reports whether the attempt's scratch can be this instance's: another's
// containers aren't seen, and its files must not be touched.
func (e *Engine) owns(id engine.AttemptID) bool {
	return strings.HasPrefix(string(id), shorten(e.cfg.Instance, 8)+"-")
}

// removeSandbox stops and deletes a sandbox with its containers.
func (e *Engine) removeSandbox(ctx context.Context, id string) error {
	_, err := call(ctx, e.cfg.StartTimeout, func(ctx context.Context) (*runtimeapi.StopPodSandboxResponse, error) {
		return e.rt.runtime.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: id})
	})
	if err != nil && !isNotFound(err) {
		return err
	}
	remove := func() error {
		_, err := call(ctx, e.cfg.StartTimeout, func(ctx context.Context) (*runtimeapi.RemovePodSandboxResponse, error) {
			return e.rt.runtime.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: id})
		})
		if isNotFound(err) {
			return nil
		}
		return err
	}
	if err = remove(); !hasTask(err) {
		return err
	}
	if err := e.rt.removeContainersOf(ctx, id, e.cfg.StartTimeout); err != nil {
		return err
	}
	return remove()
}
