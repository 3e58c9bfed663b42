package kube

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// A Pod can't fill its node's disk: neither by its containers nor by what they share, and
// nothing of the disk is kept for it.
func TestScratch(t *testing.T) {
	const much = 10 << 30
	for name, scratch := range map[string]int64{"bounded": much, "any amount": 0} {
		t.Run(name, func(t *testing.T) {
			e := &Engine{cfg: Config{Instance: "0123456789", Namespace: "ns", Image: "i", Scratch: scratch}}
			p, err := e.pod(t.Context(), job(e, 1, "true"))
			must(t, err)
			for _, c := range append(p.Spec.InitContainers, p.Spec.Containers...) {
				limit, kept := c.Resources.Limits[corev1.ResourceEphemeralStorage], c.Resources.Requests[corev1.ResourceEphemeralStorage]
				if _, said := c.Resources.Requests[corev1.ResourceEphemeralStorage]; limit.Value() != scratch || kept.Value() != 0 || said != (scratch > 0) {
					t.Errorf("%s: limit %s, request %s", c.Name, &limit, &kept)
				}
			}
			for _, v := range p.Spec.Volumes {
				if v.EmptyDir == nil || v.EmptyDir.SizeLimit == nil {
					t.Errorf("%s has no bound", v.Name)
				}
			}
		})
	}
}

// A Pod is led to its node by the node's name, whatever labels it has.
func TestChosen(t *testing.T) {
	e := &Engine{cfg: Config{Instance: "0123456789", Namespace: "ns", Image: "i"}}
	for name, node := range map[string]string{"a node": "node1", "any": ""} {
		t.Run(name, func(t *testing.T) {
			a := job(e, 1, "true")
			a.Node = node
			p, err := e.pod(t.Context(), a)
			must(t, err)
			if got := chosen(p); got != node || len(p.Spec.NodeSelector) > 0 {
				t.Errorf("led to %q, want %q, by labels %v", got, node, p.Spec.NodeSelector)
			}
		})
	}
}
