// Package cri runs attempts on one machine through a container runtime that
// speaks the Container Runtime Interface v1: Croft's own (see runtimed) or
// another one that the configuration names.
//
// An attempt is a pod sandbox, whose uid is the attempt's id, and a container for
// each step, the primary's first, with croft-init as its first process. A host step is a
// program on the machine instead, see package shim. Everything that is known of them is read
// back from the runtime by labels, or from the shims' files: the engine keeps no state that
// matters, so a server may be killed between any two calls and call Start again.
//
// What Croft itself makes for an attempt lies in three places, all named after
// the attempt: a control group, a directory below Config.StateDir (identity
// files and two tmpfs) and a directory below Config.LogDir.
package cri

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/engine/cri/cgroup"
)

// DeviceSource says which accelerators the machine has.
type DeviceSource interface {
	// Devices returns the devices offered now, healthy or not, in the order of
	// their index. The Node field is filled in by the engine.
	Devices(ctx context.Context) ([]engine.Device, error)
	// Nodes returns the device nodes that come with the devices given, which are some of
	// its own. One that is gone is an *engine.StartError.
	Nodes(given []engine.Device) ([]cgroup.Device, error)
	// Usage returns how busy the devices are of which that can be known.
	Usage(ctx context.Context) ([]engine.DeviceUsage, error)
}

// Config describes one machine. Endpoint, Instance, NodeName, StateDir, LogDir
// and InitPath are needed, the rest has defaults.
type Config struct {
	Endpoint string // "unix:///path" of the runtime's socket
	Own      bool   // the runtime is a containerd that nobody else uses: images can be saved
	Instance string // UUID of the Croft instance
	NodeName string
	StateDir string // directory for attempts' scratch; must be seen by the runtime
	LogDir   string // directory for attempts' logs

	VolumeDir string // directory for users' volumes, default volumes in StateDir
	InitPath  string // the static croft-init binary

	CgroupParent  string // control group above all attempts', default "croft"
	ReserveCPU    int64  // milli-cores kept from jobs
	ReserveMemory int64  // bytes kept from jobs
	PidsMax       int64  // processes and threads of one attempt, default 16384
	Devices       DeviceSource
	// HostDevices are patterns of the device nodes that programs on the machine itself may
	// open besides those of the devices given to them.
	HostDevices []string

	// DNSServers replace those of the machine's resolver in containers.
	DNSServers []string
	// PublishAddress is the machine's IPv4 address at which ports lead into attempts;
	// default 127.0.0.1.
	PublishAddress string

	ParallelPulls int           // default 3
	CallTimeout   time.Duration // for a question, default 10 s
	StartTimeout  time.Duration // for making or stopping a sandbox, default 60 s

	Logs   LogPolicy
	Images ImagePolicy

	Cut    func() // called when the runtime's events are cut off, as by its end; nil: nobody cares
	Logger *slog.Logger
}

// LogPolicy bounds what logs take.
type LogPolicy struct {
	MaxSize   int64         // bytes at which a file is rotated, default 50 MiB
	Keep      int           // rotated files kept for an attempt, default 4
	Retention time.Duration // after the last line of a removed attempt, default 30 days
}

// ImagePolicy bounds what images take of their file system, in percent used.
type ImagePolicy struct {
	High int // collection begins, default 85
	Low  int // collection ends, default 75
}

// Engine implements engine.Engine.
type Engine struct {
	cfg   Config
	log   *slog.Logger
	rt    *client
	cg    *cgroup.Tree
	facts Facts
	locks attemptLocks
	hub   *hub
	pulls chan struct{}

	networks networks

	volumes sync.Mutex  // held while one is given to an attempt or taken away
	noIDMap atomic.Bool // the runtime has said that images can't be shown with other ids

	keepers attemptLocks // of terminals, by step: one is started at a time

	mu     sync.Mutex
	known  map[string]times       // by container id: what never changes once seen
	images map[string]imageConfig // by image id

	hostLabels map[engine.StepID]map[string]string // of host steps, likewise
}

var _ engine.Engine = (*Engine)(nil)

// Facts are what the engine found out about the machine.
type Facts struct {
	Runtime        string // "containerd"
	RuntimeVersion string
	CgroupVersion  int    // 1 or 2
	CgroupDriver   string // "cgroupfs" or "systemd"
	// JobCgroups: Croft makes each attempt's control group itself, with the job's
	// memory limit. Not with the systemd driver, where only containers are limited.
	JobCgroups bool
	// NoUserns says why containers can't have user namespaces; empty if they can.
	NoUserns string
	// UsernsOnHost: they can also on the machine's network.
	UsernsOnHost bool
	// PullProgress: bytes are reported while an image is pulled.
	PullProgress bool
}

// New connects to the runtime and checks that it may be used. An endpoint that a
// kubelet uses is refused: the kubelet removes every container it doesn't know.
func New(ctx context.Context, cfg Config) (*Engine, error) {
	cfg, err := withDefaults(cfg)
	if err != nil {
		return nil, err
	}
	tree, err := cgroup.Detect()
	if err != nil {
		return nil, err
	}
	rt, err := dial(cfg.Endpoint, cfg.CallTimeout)
	if err != nil {
		return nil, err
	}
	e := &Engine{
		cfg: cfg, log: cfg.Logger, rt: rt, cg: tree,
		pulls:  make(chan struct{}, cfg.ParallelPulls),
		known:  make(map[string]times),
		images: make(map[string]imageConfig),

		hostLabels: make(map[engine.StepID]map[string]string),
	}
	e.hub = newHub(e)
	if err := e.open(ctx); err != nil {
		rt.close()
		return nil, err
	}
	return e, nil
}

func (e *Engine) open(ctx context.Context) error {
	facts, err := e.ask(ctx)
	if err != nil {
		return err
	}
	e.facts = facts
	if err := e.refuseKubelet(ctx); err != nil {
		return err
	}
	for _, dir := range []string{e.cfg.StateDir, filepath.Join(e.cfg.StateDir, "attempts"), e.cfg.LogDir, e.cfg.VolumeDir} {
		if err := os.MkdirAll(dir, 0o711); err != nil {
			return fmt.Errorf("cri: %w", err)
		}
	}
	return nil
}

// ask collects the facts.
func (e *Engine) ask(ctx context.Context) (Facts, error) {
	version, err := e.rt.version(ctx)
	if err != nil {
		return Facts{}, err
	}
	f := Facts{
		Runtime: version.RuntimeName, RuntimeVersion: version.RuntimeVersion,
		CgroupVersion: int(e.cg.Version()),
		CgroupDriver:  "cgroupfs", JobCgroups: true,
		PullProgress: version.RuntimeName == "containerd",
	}
	systemd, err := e.rt.systemdCgroups(ctx)
	if err != nil {
		return Facts{}, err
	}
	if systemd {
		f.CgroupDriver, f.JobCgroups = "systemd", false
	}
	status, err := e.rt.status(ctx)
	if err != nil {
		return Facts{}, err
	}
	var features *runtimeapi.RuntimeHandlerFeatures
	for _, h := range status.GetRuntimeHandlers() {
		if h.GetName() == "" { // the default one
			features = h.GetFeatures()
		}
	}
	images, err := e.imageDir(ctx)
	if err != nil {
		return Facts{}, err
	}
	f.NoUserns = noUserns(features, images)
	f.UsernsOnHost = status.GetFeatures().GetUserNamespacesHostNetwork()
	return f, nil
}

// Facts returns what New found out.
func (e *Engine) Facts() Facts { return e.facts }

// Close implements engine.Engine.
func (e *Engine) Close() error {
	e.hub.close()
	e.networks.close()
	return e.rt.close()
}

func withDefaults(cfg Config) (Config, error) {
	var missing []string
	for name, value := range map[string]string{
		"Endpoint": cfg.Endpoint, "Instance": cfg.Instance, "NodeName": cfg.NodeName,
		"StateDir": cfg.StateDir, "LogDir": cfg.LogDir, "InitPath": cfg.InitPath,
	} {
		if value == "" {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return cfg, fmt.Errorf("cri: Config lacks %s", strings.Join(missing, ", "))
	}
	for _, p := range []*string{&cfg.StateDir, &cfg.LogDir, &cfg.InitPath} {
		abs, err := filepath.Abs(*p)
		if err != nil {
			return cfg, fmt.Errorf("cri: %w", err)
		}
		*p = abs
	}
	if _, err := os.Stat(cfg.InitPath); err != nil {
		return cfg, fmt.Errorf("cri: croft-init: %w", err)
	}
	fill(&cfg.VolumeDir, filepath.Join(cfg.StateDir, "volumes"))
	fill(&cfg.CgroupParent, "croft")
	fill(&cfg.PidsMax, 16384)
	fill(&cfg.ParallelPulls, 3)
	fill(&cfg.CallTimeout, 10*time.Second)
	fill(&cfg.StartTimeout, time.Minute)
	fill(&cfg.Logs.MaxSize, 50<<20)
	fill(&cfg.Logs.Keep, 4)
	fill(&cfg.Logs.Retention, 30*24*time.Hour)
	fill(&cfg.Images.High, 85)
	fill(&cfg.Images.Low, 75)
	if cfg.Images.Low > cfg.Images.High {
		return cfg, errors.New("cri: the low mark for images is above the high one")
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return cfg, nil
}

// fill gives *p a default.
func fill[T comparable](p *T, value T) {
	var zero T
	if *p == zero {
		*p = value
	}
}

// cgroupOf returns the group of an attempt. The attempt's id holds the instance,
// so that several on one machine never meet.
func (e *Engine) cgroupOf(id engine.AttemptID) string {
	return groupOf(e.cfg.CgroupParent, id)
}

func groupOf(parent string, id engine.AttemptID) string {
	return path.Join("/", parent, "job-"+string(id))
}

// Labels on every sandbox and container.
const (
	labelInstance   = "croft.instance"
	labelJob        = "croft.job"
	labelAttempt    = "croft.attempt"
	labelN          = "croft.n"
	labelAccount    = "croft.account"
	labelSpecDigest = "croft.spec-digest"
	labelStep       = "croft.step"     // containers only; the primary's may lack it
	labelInput      = "croft.input"    // containers only: it has one
	labelTerminal   = "croft.terminal" // containers only: its streams are one
	labelAwaits     = "croft.awaits"   // containers only: its program awaits who attaches
)

func (e *Engine) labelsOf(a engine.Allocation) map[string]string {
	return map[string]string{
		labelInstance:   e.cfg.Instance,
		labelJob:        fmt.Sprint(a.Job),
		labelAttempt:    string(a.Attempt),
		labelN:          fmt.Sprint(a.N),
		labelAccount:    a.Account,
		labelSpecDigest: a.SpecDigest,
	}
}

// labelsOfStep are those of a step's container.
func (e *Engine) labelsOfStep(a engine.Allocation, s engine.Step) map[string]string {
	labels := e.labelsOf(a)
	labels[labelStep] = strconv.Itoa(s.N)
	if s.Stdin {
		labels[labelInput] = "true"
	}
	if s.TTY {
		labels[labelTerminal] = "true"
	}
	if s.AwaitAttach {
		labels[labelAwaits] = "true"
	}
	return labels
}

// stepOf reads a container's number back.
func stepOf(labels map[string]string) int {
	if n, err := strconv.Atoi(labels[labelStep]); err == nil {
		return n
	}
	return engine.PrimaryStep
}

// mine selects everything of this instance, or of one attempt of it.
func (e *Engine) mine(id engine.AttemptID) map[string]string {
	sel := map[string]string{labelInstance: e.cfg.Instance}
	if id != "" {
		sel[labelAttempt] = string(id)
	}
	return sel
}

// objects are what there is of one attempt.
type objects struct {
	sandboxes  []*runtimeapi.PodSandbox
	containers []*runtimeapi.Container
	hosts      map[engine.StepID]hostStep
}

func (e *Engine) find(ctx context.Context, id engine.AttemptID) (objects, error) {
	hosts, err := e.hostSteps(id)
	if err != nil {
		return objects{}, err
	}
	sandboxes, err := e.rt.sandboxes(ctx, e.mine(id))
	if err != nil || len(sandboxes) == 0 {
		return objects{hosts: hosts}, err
	}
	containers, err := e.rt.containers(ctx, e.mine(id))
	return objects{sandboxes: sandboxes, containers: containers, hosts: hosts}, err
}

// none reports that there is nothing at all.
func (o objects) none() bool { return len(o.sandboxes) == 0 && len(o.hosts) == 0 }

// step returns the container of a step, or nil.
func (o objects) step(n int) *runtimeapi.Container {
	for _, c := range o.containers {
		if stepOf(c.GetLabels()) == n {
			return c
		}
	}
	return nil
}

// ready returns the id of the sandbox that can be used, or "".
func (o objects) ready() string { return o.readySandbox().GetId() }

func (o objects) readySandbox() *runtimeapi.PodSandbox {
	for _, s := range o.sandboxes {
		if s.GetState() == runtimeapi.PodSandboxState_SANDBOX_READY {
			return s
		}
	}
	return nil
}
