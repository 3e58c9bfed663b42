// Package sim is an engine without machines: a virtual fleet on a clock. Tests,
// simulations and a trial without root use it. What a step does is read from
// its command, see Script. Faults are made by the methods of Fleet.
//
// The Fleet is the machines; an engine got from Connect is one server's connection
// to them. A server that is killed loses its connection; the Fleet, and what runs
// on it, goes on. With a clock.Virtual all that is due has happened when Advance
// returns, and a run is repeatable.
package sim

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"croft.dev/croft/internal/clock"
	"croft.dev/croft/internal/engine"
)

// Config describes a fleet.
type Config struct {
	Clock    clock.Clock
	Instance string // of the engines that Connect returns
	Nodes    []engine.Node
	Devices  []engine.Device // each on one of Nodes
	Images   []Image
	// OtherImages, if set, stands for every reference that isn't in Images: size,
	// time of a pull and user are its own. Without it other references are unknown.
	OtherImages *Image
	// Behaviour says what a step does; nil means Script.
	Behaviour func(engine.Allocation) Program
	// Serve is what a step does on a connection to one of its ports, until it returns;
	// nil means Hello.
	Serve func(c net.Conn, a engine.Allocation, port uint16)
}

// Image is an image that can be had.
type Image struct {
	Ref      string
	Size     int64 // bytes
	Present  bool  // without a pull
	PullTime time.Duration
	User     string
	// Password, if set, is what a pull must bring, else it is denied.
	Password string

	saved bool
}

// Fleet is a set of virtual nodes and what runs on them. All methods may be
// called concurrently.
type Fleet struct {
	clock     clock.Clock
	instance  string
	behaviour func(engine.Allocation) Program
	serve     func(net.Conn, engine.Allocation, uint16)
	other     *Image

	mu      sync.Mutex
	nodes   []*node
	devices []*engine.Device
	byName  map[string]*node
	byUUID  map[string]*engine.Device
	images  map[string]*Image
	steps   map[engine.StepID]*step // of removed attempts too
	// listeners are ports that lead out of attempts, by Listen.
	listeners map[listening]*listener
	started   int64 // steps started so far
	watchers  []*watcher
	faults    faults
}

// node is a machine and its state.
type node struct {
	engine.Node
	lost bool // contact is lost
}

// NewFleet returns a fleet as cfg describes it.
func NewFleet(cfg Config) (*Fleet, error) {
	f := &Fleet{
		clock:     cfg.Clock,
		instance:  cfg.Instance,
		behaviour: cfg.Behaviour,
		serve:     cfg.Serve,
		other:     cfg.OtherImages,
		images:    make(map[string]*Image),
		byName:    make(map[string]*node),
		byUUID:    make(map[string]*engine.Device),
		steps:     make(map[engine.StepID]*step),
	}
	if f.clock == nil {
		return nil, errors.New("sim: no clock")
	}
	if f.behaviour == nil {
		f.behaviour = Script
	}
	if f.serve == nil {
		f.serve = Hello
	}
	for _, n := range cfg.Nodes {
		if f.node(n.Name) != nil {
			return nil, fmt.Errorf("sim: node %q is there twice", n.Name)
		}
		f.byName[n.Name] = &node{Node: n}
		f.nodes = append(f.nodes, f.byName[n.Name])
	}
	for _, d := range cfg.Devices {
		if f.node(d.Node) == nil || f.device(d.UUID) != nil {
			return nil, fmt.Errorf("sim: device %q is on no known node or there twice", d.UUID)
		}
		f.devices, f.byUUID[d.UUID] = append(f.devices, &d), &d
	}
	for _, i := range cfg.Images {
		f.images[i.Ref] = &i
	}
	return f, nil
}

// Connect returns an engine that serves the fleet's own instance.
func (f *Fleet) Connect() engine.Engine { return f.ConnectAs(f.instance) }

// ConnectAs returns an engine that serves another instance.
func (f *Fleet) ConnectAs(instance string) engine.Engine {
	return &conn{fleet: f, instance: instance, closed: make(chan struct{})}
}

// Running returns the allocations whose primary runs now, by the order of their
// starts: what really is in use, whatever a server believes.
func (f *Fleet) Running() []engine.Allocation {
	f.mu.Lock()
	defer f.mu.Unlock()
	var running []engine.Allocation
	for _, a := range f.ordered() {
		f.settle(a)
		if a.n == engine.PrimaryStep && a.phase == engine.PhaseRunning {
			running = append(running, a.Allocation)
		}
	}
	return running
}

// ordered returns all steps by the order of their starts. f.mu is held.
func (f *Fleet) ordered() []*step {
	all := make([]*step, 0, len(f.steps))
	for _, a := range f.steps {
		all = append(all, a)
	}
	slices.SortFunc(all, func(a, b *step) int { return int(a.seq - b.seq) })
	return all
}

// node returns the node of that name or nil.
func (f *Fleet) node(name string) *node {
	return f.byName[name]
}

// device returns the device of that UUID or nil.
func (f *Fleet) device(uuid string) *engine.Device {
	return f.byUUID[uuid]
}

// image returns what is known of ref or nil. f.mu is held.
func (f *Fleet) image(ref string) *Image {
	if i := f.images[ref]; i != nil || f.other == nil {
		return i
	}
	i := *f.other
	i.Ref = ref
	f.images[ref] = &i
	return &i
}

// describe returns an image as an engine does. Its content is its reference.
func (i *Image) describe() engine.Image {
	sum := sha256.Sum256([]byte(i.Ref))
	return engine.Image{Ref: i.Ref, ID: "sha256:" + hex.EncodeToString(sum[:]), Size: i.Size, User: i.User}
}
