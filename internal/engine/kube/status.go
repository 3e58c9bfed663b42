package kube

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/engine/record"
)

// exitKilled is the exit code of a process that SIGKILL ended.
const exitKilled = 128 + 9

// around is what of the cluster a Pod's own state doesn't say.
type around interface {
	lost(node string) bool // nothing is heard of it
	node(name string) (*corev1.Node, bool)
	given(p *corev1.Pod) string
}

// statuses are those of all steps of a Pod; none of a Pod that isn't an attempt's.
func statuses(p *corev1.Pod, in around) []engine.Status {
	base, ok := statusOf(p)
	if !ok {
		return nil
	}
	base.Given = in.given(p)
	known := make(map[string]corev1.ContainerStatus)
	for _, c := range p.Status.ContainerStatuses {
		known[c.Name] = c
	}
	for _, c := range p.Status.EphemeralContainerStatuses {
		known[c.Name] = c
	}
	var out []engine.Status
	for _, c := range steps(p) {
		n, ok := stepOf(c.Name)
		if !ok {
			continue
		}
		s := base
		s.Step = n
		s = step(s, p, known[c.Name])
		if t := known[c.Name].State.Terminated; t != nil {
			ended(&s, t, initOptions(c) != nil)
		}
		s = settle(s, p, in.lost)
		if s.Phase == engine.PhaseCreated && n == engine.PrimaryStep {
			s.Waits = waitOf(p, in)
		}
		out = append(out, takenAway(s, p))
	}
	return out
}

// steps are the containers of a Pod's steps, its primary's first.
func steps(p *corev1.Pod) []corev1.Container {
	out := slices.Clone(p.Spec.Containers)
	for _, c := range p.Spec.EphemeralContainers {
		out = append(out, corev1.Container(c.EphemeralContainerCommon))
	}
	return out
}

// containerOf is a step's container, an empty one if there is none.
func containerOf(p *corev1.Pod, n int) corev1.Container {
	for _, c := range steps(p) {
		if c.Name == containerName(n) {
			return c
		}
	}
	return corev1.Container{}
}

// initOptions is what croft-init was told beside the command that it runs; nil of a container
// that it doesn't watch over.
func initOptions(c corev1.Container) []string {
	if len(c.Command) == 0 || c.Command[0] != record.InitPath {
		return nil
	}
	if end := slices.Index(c.Command, "--"); end > 0 {
		return c.Command[:end]
	}
	return c.Command
}

// awaitsAttach reports whether a container's program begins only once somebody is attached.
func awaitsAttach(c corev1.Container) bool { return slices.Contains(initOptions(c), "--attach") }

// step is what a container's state says.
func step(s engine.Status, p *corev1.Pod, c corev1.ContainerStatus) engine.Status {
	s.Phase = engine.PhaseCreated
	switch state := c.State; {
	case state.Running != nil:
		s.Phase, s.Started = engine.PhaseRunning, state.Running.StartedAt.Time
	case state.Terminated != nil:
		t := state.Terminated
		s.Phase, s.Started, s.Finished, s.ExitCode = engine.PhaseExited, t.StartedAt.Time, t.FinishedAt.Time, int(t.ExitCode)
	case state.Waiting != nil:
		if why := hopeless(state.Waiting); why != "" {
			s.Phase, s.Failure, s.Finished = engine.PhaseExited, why, p.CreationTimestamp.Time
		}
	}
	return s
}

// ended reads how a program has ended: what croft-init has left, as far as it is to be
// believed, and else what the kubelet says. watched says whether croft-init was there at all.
func ended(s *engine.Status, t *corev1.ContainerStateTerminated, watched bool) {
	r, err := record.Parse(t.Message)
	switch {
	case t.Reason == "ContainerStatusUnknown":
		s.Lost = true
	case t.Reason == "ContainerCannotRun" || t.Reason == "StartError":
		s.Failure = "the container runtime could not start the container"
		if strings.Contains(t.Message, "no such file or directory") || strings.Contains(t.Message, "not found in $PATH") {
			s.ExitCode, s.Failure = record.ExitNotFound, "the command isn't in the image"
		}
	case err != nil:
		if watched {
			s.ExitCode = record.Unnoted(s.ExitCode)
		}
		s.OutOfMemory = t.Reason == "OOMKilled" && t.ExitCode == exitKilled
	case r.Failure != record.None && int(t.ExitCode) != r.Failure.Code():
		// A program wrote that itself.
	case r.Failure == record.NotFound:
		s.Failure = "the command isn't in the image"
	case r.Failure == record.NotExecutable:
		s.Failure = "the command can't be executed"
	default:
		s.OutOfMemory = r.OOMKills > 0 && r.Code == exitKilled && t.ExitCode == exitKilled
	}
	if s.Started.IsZero() {
		s.Started = s.Finished
	}
}

// settle is what the Pod as a whole says of a step that its container says nothing final of.
func settle(s engine.Status, p *corev1.Pod, lost func(string) bool) engine.Status {
	if s.Phase == engine.PhaseExited {
		return s
	}
	switch over := p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded; {
	case over || p.DeletionTimestamp != nil && p.Spec.NodeName == "":
		// It was ended before it began, or nobody saw its end.
		s.Lost = s.Phase == engine.PhaseRunning
		if !s.Lost {
			s.ExitCode = exitKilled
		}
		s.Phase, s.Finished = engine.PhaseExited, endOf(p)
		if s.Started.IsZero() {
			s.Started = s.Finished
		}
	case p.Spec.NodeName != "" && lost(p.Spec.NodeName):
		s.Phase = engine.PhaseUnknown
	}
	return s
}

// endOf is when a Pod was seen to have ended.
func endOf(p *corev1.Pod) time.Time {
	end := p.CreationTimestamp.Time
	for _, c := range p.Status.Conditions {
		if c.LastTransitionTime.After(end) {
			end = c.LastTransitionTime.Time
		}
	}
	return end
}

// hopeless is why a container that waits will never run; empty while it may.
func hopeless(w *corev1.ContainerStateWaiting) string {
	switch w.Reason {
	case "InvalidImageName":
		return "this is no image reference"
	case "ErrImageNeverPull":
		return "the image isn't on the node"
	case "ErrImagePull", "ImagePullBackOff":
		return refusedPull(w.Message)
	case "CreateContainerConfigError":
		if strings.Contains(w.Message, "subPath") { // its files may be back, or made, before long
			return ""
		}
		return "the container can't be made as it is asked for"
	}
	return ""
}
