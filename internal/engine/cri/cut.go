package cri

import (
	"context"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/engine/cri/record"
)

// A container whose start was asked for by a server that was killed meanwhile is
// given up by the runtime, since the caller is gone: it is listed as exited and was
// never running. That says nothing about the job. If its program hasn't begun, the
// attempt counts as not started, and Start makes the container anew.

// cutMessage is shown when the runtime killed a program that had just begun.
const cutMessage = "the server was stopped while the program was starting, and that ended it"

// wasCut reports that the runtime gave a start up because the caller went away or
// had waited for long enough.
func wasCut(t times) bool {
	return t.started.IsZero() && (strings.Contains(t.message, "context canceled") || strings.Contains(t.message, "context deadline exceeded"))
}

// discardCut removes a container whose start was cut short before its program
// began, and reports whether it was such a one.
func (e *Engine) discardCut(ctx context.Context, id engine.AttemptID, container string) (bool, error) {
	r, err := e.rt.containerStatus(ctx, container, false)
	if isNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	if !wasCut(e.remember(r.GetStatus())) || record.Begun(e.scratch(id).record()) {
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

// applyCut describes an attempt whose start was cut short.
func (e *Engine) applyCut(st *engine.Status, t times) {
	if record.Begun(e.scratch(st.Attempt).record()) {
		st.Phase, st.Finished, st.ExitCode, st.Failure = engine.PhaseExited, t.finished, t.code, cutMessage
		return
	}
	e.created(st, t.finished)
}
