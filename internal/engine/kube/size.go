package kube

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"croft.dev/croft/internal/engine"
)

// maxPod is how large a Pod may be that is handed to the cluster. It stores 1.5 MiB at most,
// of which what it adds itself needs a part, and else refuses it over and over, in words that
// don't tell that from a cluster that is ill.
const maxPod = 1 << 20

// fits refuses a Pod that is too large, by what is so large of the container that is new in it.
func fits(p *corev1.Pod, c corev1.Container) error {
	size := p.Size()
	if size <= maxPod {
		return nil
	}
	environment, command := 0, 0
	for _, v := range c.Env {
		environment += len(v.Name) + len(v.Value)
	}
	for _, a := range append(c.Command, c.Args...) {
		command += len(a)
	}
	what := fmt.Sprintf("its environment has %d KiB", environment>>10)
	switch {
	case environment+command < maxPod/4:
		what = "what its steps were started with makes it too large"
	case command > environment:
		what = fmt.Sprintf("its command has %d KiB", command>>10)
	}
	return &engine.StartError{Message: fmt.Sprintf("%s: a cluster keeps %d KiB of a job, environment and commands of all steps together", what, maxPod>>10)}
}
