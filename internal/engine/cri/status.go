package cri

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strconv"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/engine/record"
)

// exitKilled is the exit code of a process that SIGKILL ended.
const exitKilled = 128 + 9

// What containerd says of a container that ran when it was last up and that it
// doesn't find any more, as after the machine was restarted.
const (
	exitUnseen   = 255
	reasonUnseen = "Unknown"
)

// times are what never changes in a container once it is known.
type times struct {
	started, finished time.Time
	code              int
	reason, message   string
	exited            bool
}

// List implements engine.Engine: two questions, and one more for each container
// that has started or ended since the last time; of host steps their files.
func (e *Engine) List(ctx context.Context) ([]engine.Status, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	// Containers first: a container without a sandbox can't be, while a sandbox
	// that appears between the questions is merely listed as created.
	containers, err := e.rt.containers(ctx, e.mine(""))
	if err != nil {
		return nil, err
	}
	sandboxes, err := e.rt.sandboxes(ctx, e.mine(""))
	if err != nil {
		return nil, err
	}
	out := make([]engine.Status, 0, len(sandboxes))
	seen := make(map[engine.StepID]bool, len(containers))
	hosts, err := e.hostSteps("")
	if err != nil {
		return nil, err
	}
	for id, h := range hosts {
		st, err := e.hostStatus(id, h)
		if err != nil {
			return nil, err
		}
		seen[id] = true
		out = append(out, st)
	}
	for _, c := range containers {
		st := e.fromLabels(c.GetLabels())
		if st.Attempt == "" || seen[st.ID()] {
			continue
		}
		if err := e.describe(ctx, &st, c); isNotFound(err) {
			continue // removed meanwhile
		} else if err != nil {
			return nil, err
		}
		seen[st.ID()] = true
		out = append(out, st)
	}
	for _, s := range sandboxes {
		st := e.fromLabels(s.GetLabels())
		if st.Attempt == "" || seen[st.ID()] {
			continue
		}
		e.created(&st, time.Unix(0, s.GetCreatedAt()))
		seen[st.ID()] = true
		out = append(out, st)
	}
	e.forget(containers)
	return out, nil
}

// fromLabels fills in who it is.
func (e *Engine) fromLabels(labels map[string]string) engine.Status {
	job, _ := strconv.ParseInt(labels[labelJob], 10, 64)
	n, _ := strconv.Atoi(labels[labelN])
	return engine.Status{
		Attempt:    engine.AttemptID(labels[labelAttempt]),
		Step:       stepOf(labels),
		Instance:   labels[labelInstance],
		Job:        job,
		N:          n,
		Account:    labels[labelAccount],
		SpecDigest: labels[labelSpecDigest],
		Node:       e.cfg.NodeName,
	}
}

// created describes a step whose process has not begun.
func (e *Engine) created(st *engine.Status, since time.Time) {
	st.Phase = engine.PhaseCreated
	if at, ok := e.stoppedAt(st.ID()); ok {
		st.Phase = engine.PhaseExited
		st.ExitCode = exitKilled
		st.Finished = at
		if at.Before(since) {
			st.Finished = since
		}
	}
}

// describe fills in how it is, asking for times that aren't known yet.
func (e *Engine) describe(ctx context.Context, st *engine.Status, c *runtimeapi.Container) error {
	switch c.GetState() {
	case runtimeapi.ContainerState_CONTAINER_CREATED:
		e.created(st, time.Unix(0, c.GetCreatedAt()))
		return nil
	case runtimeapi.ContainerState_CONTAINER_RUNNING, runtimeapi.ContainerState_CONTAINER_EXITED:
	default:
		st.Phase = engine.PhaseUnknown
		return nil
	}
	exited := c.GetState() == runtimeapi.ContainerState_CONTAINER_EXITED
	e.mu.Lock()
	t, ok := e.known[c.GetId()]
	e.mu.Unlock()
	if !ok || t.exited != exited {
		r, err := e.rt.containerStatus(ctx, c.GetId(), false)
		if err != nil {
			return err
		}
		t = e.remember(r.GetStatus())
	}
	e.apply(st, t)
	return nil
}

// remember keeps a container's times.
func (e *Engine) remember(s *runtimeapi.ContainerStatus) times {
	t := times{
		started: stamp(s.GetStartedAt()), finished: stamp(s.GetFinishedAt()),
		code: int(s.GetExitCode()), reason: s.GetReason(), message: s.GetMessage(),
		exited: s.GetState() == runtimeapi.ContainerState_CONTAINER_EXITED,
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.known[s.GetId()] = t
	return t
}

// forget drops what is known of containers that are no more.
func (e *Engine) forget(existing []*runtimeapi.Container) {
	ids := make(map[string]bool, len(existing))
	for _, c := range existing {
		ids[c.GetId()] = true
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for id := range e.known {
		if !ids[id] {
			delete(e.known, id)
		}
	}
}

func stamp(ns int64) time.Time {
	if ns <= 0 {
		return time.Time{}
	}
	return time.Unix(0, ns)
}

// apply turns a container's times into the step's status.
func (e *Engine) apply(st *engine.Status, t times) {
	st.Started = t.started
	if t.exited && wasCut(t) {
		e.created(st, t.finished)
		return
	}
	if !t.exited {
		e.openGate(st.ID())
		st.Phase = engine.PhaseRunning
		return
	}
	st.Phase = engine.PhaseExited
	st.Finished, st.ExitCode = t.finished, t.code
	if t.started.IsZero() {
		// The runtime gave up before the process began.
		st.Failure = failureMessage(t.message)
		return
	}
	if t.code == exitUnseen && t.reason == reasonUnseen {
		st.Lost = true
		return
	}
	note, err := record.Read(e.scratch(st.Attempt).step(st.Step).record())
	if err != nil {
		note = record.Record{}
		st.ExitCode = record.Unnoted(t.code)
	}
	switch {
	case t.code == record.ExitNotFound && note.Failure == record.NotFound:
		st.Failure = "the command isn't in the image"
	case t.code == record.ExitNotExecutable && note.Failure == record.NotExecutable:
		st.Failure = "the command can't be executed: permission, or not a program for this machine"
	case t.code == exitKilled:
		// The runtime's own reason isn't asked: it may come late, and it speaks of
		// the container, not of this process.
		st.OutOfMemory = note.OOMKills > 0 || e.onlyStep(st.Attempt) && e.cg.OOMKills(e.cgroupOf(st.Attempt)) > 0
	}
}

// onlyStep reports that an attempt has had no step besides its primary: what is
// counted for the attempt is that one's then.
func (e *Engine) onlyStep(id engine.AttemptID) bool {
	_, err := os.Lstat(e.scratch(id).steps())
	return errors.Is(err, fs.ErrNotExist)
}
