package kube

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/engine/record"
)

// TestEnded reads how programs ended, with croft-init in front of them and without.
func TestEnded(t *testing.T) {
	told := func(r record.Record) string { return r.Format() }
	for name, c := range map[string]struct {
		watched bool
		state   corev1.ContainerStateTerminated
		want    engine.Status
	}{
		"as it says":               {true, corev1.ContainerStateTerminated{ExitCode: 2, Message: told(record.Record{Code: 2})}, engine.Status{ExitCode: 2}},
		"told before it listened":  {true, corev1.ContainerStateTerminated{ExitCode: 2}, engine.Status{ExitCode: 143}},
		"a program of the image's": {false, corev1.ContainerStateTerminated{ExitCode: 2}, engine.Status{ExitCode: 2}},
		"out of memory":            {true, corev1.ContainerStateTerminated{ExitCode: 137, Message: told(record.Record{Code: 137, OOMKills: 1})}, engine.Status{ExitCode: 137, OutOfMemory: true}},
		"no command":               {true, corev1.ContainerStateTerminated{ExitCode: 127, Message: told(record.Record{Code: 127, Failure: record.NotFound})}, engine.Status{ExitCode: 127, Failure: "the command isn't in the image"}},
		"a note that isn't its":    {true, corev1.ContainerStateTerminated{ExitCode: 0, Message: told(record.Record{Code: 127, Failure: record.NotFound})}, engine.Status{}},
		"a note of another end":    {true, corev1.ContainerStateTerminated{ExitCode: 127, Message: told(record.Record{Code: 126, Failure: record.NotExecutable})}, engine.Status{ExitCode: 127}},
		"a note before the kill":   {true, corev1.ContainerStateTerminated{ExitCode: 137, Message: told(record.Record{Code: 127, Failure: record.NotFound})}, engine.Status{ExitCode: 137}},
		"nobody saw it":            {true, corev1.ContainerStateTerminated{ExitCode: 137, Reason: "ContainerStatusUnknown"}, engine.Status{ExitCode: 137, Lost: true}},
	} {
		t.Run(name, func(t *testing.T) {
			got := engine.Status{ExitCode: int(c.state.ExitCode)}
			ended(&got, &c.state, c.watched)
			if got != c.want {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
}

// TestInitOptions: what the user's own command says isn't croft-init's.
func TestInitOptions(t *testing.T) {
	s := engine.Step{N: 1}
	s.Command = []string{"mpirun", "--attach", "3s"}
	for _, awaits := range []bool{true, false} {
		s.AwaitAttach = awaits
		p := &corev1.Pod{Spec: corev1.PodSpec{EphemeralContainers: []corev1.EphemeralContainer{
			ephemeral(corev1.Container{Name: containerName(1), Command: append(initCommand(s, nil), s.Command...), Stdin: true}),
		}}}
		c := containerOf(p, 1)
		if got := awaitsAttach(c); got != awaits || !c.Stdin {
			t.Errorf("awaits %v, want %v; %+v", got, awaits, c)
		}
	}
	if c := containerOf(&corev1.Pod{}, 1); initOptions(c) != nil || awaitsAttach(c) {
		t.Errorf("of none: %+v", c)
	}
}
