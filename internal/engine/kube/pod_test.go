package kube

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"croft.dev/croft/internal/engine"
)

// A job's own name servers are asked before any other, and so alone.
func TestDNS(t *testing.T) {
	e := stubbed(t, nil)
	a := job(e, 1, "true")
	p, err := e.pod(t.Context(), a)
	must(t, err)
	if p.Spec.DNSPolicy != "" || p.Spec.DNSConfig != nil {
		t.Errorf("without: %s %v", p.Spec.DNSPolicy, p.Spec.DNSConfig)
	}
	a.Pod.DNS = []string{"192.0.2.53", "2001:db8::53"}
	p, err = e.pod(t.Context(), a)
	must(t, err)
	if d := cmp.Diff(&corev1.PodDNSConfig{Nameservers: a.Pod.DNS}, p.Spec.DNSConfig); d != "" || p.Spec.DNSPolicy != corev1.DNSNone {
		t.Errorf("%s: %s", p.Spec.DNSPolicy, d)
	}
	a.Gang = &engine.Gang{Name: "g", Size: 2}
	var refused *engine.StartError
	if err := check(a, a.Primary()); !errors.As(err, &refused) {
		t.Errorf("of several machines: %v", err)
	}
}

// Who the user is reaches the container as it is, by files of a step that can have them.
func TestIdentity(t *testing.T) {
	e := stubbed(t, nil)
	a := job(e, 1, "true")
	a.User = engine.User{Name: "al$(id):ce", UID: 5001, GID: 6001, Home: "/home/al"}
	p, err := e.pod(t.Context(), a)
	must(t, err)
	const want = "al$$(id)_ce:x:5001:6001::/tmp:/bin/sh\n" // as Kubernetes reads it
	if env := p.Spec.InitContainers[0].Env[0]; env.Name != "CROFT_PASSWD" || !strings.HasSuffix(env.Value, want) {
		t.Errorf("%+v", env)
	}
	parts := func(c []corev1.VolumeMount) (at []string) {
		for _, m := range c {
			if m.SubPath != "" {
				at = append(at, m.MountPath)
			}
		}
		return at
	}
	if d := cmp.Diff([]string{"/etc/passwd", "/etc/group"}, parts(p.Spec.Containers[0].VolumeMounts)); d != "" {
		t.Error(d)
	}
	step := engine.Step{N: 2, Container: a.Container, CPU: 10, Memory: 16 << 20}
	m, err := e.mountsOf(t.Context(), a.User, step, nil)
	must(t, err)
	if got := parts(m.within); got != nil {
		t.Errorf("of a further step: %v", got)
	}
}
