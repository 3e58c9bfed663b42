package cri

import (
	"maps"
	"sync"

	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/engine/cri/netns"
)

// networks are the network namespaces of steps that were dialed. An open one isn't
// another's, whatever numbers and names are given out again.
type networks struct {
	mu sync.Mutex
	of map[engine.StepID]*netns.Namespace
}

func (n *networks) get(id engine.StepID) *netns.Namespace {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.of[id]
}

// put keeps ns, in place of the one that was kept.
func (n *networks) put(id engine.StepID, ns *netns.Namespace) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.of == nil {
		n.of = make(map[engine.StepID]*netns.Namespace)
	}
	if old := n.of[id]; old != nil {
		_ = old.Close() // of a descriptor that was only read
	}
	n.of[id] = ns
}

// drop lets go of an attempt's namespace, so that it can end.
func (n *networks) drop(id engine.AttemptID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for step, old := range n.of {
		if step.Attempt == id {
			_ = old.Close()
			delete(n.of, step)
		}
	}
}

func (n *networks) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for old := range maps.Values(n.of) {
		_ = old.Close()
	}
	n.of = nil
}
