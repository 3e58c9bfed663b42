// Package looptest has what tests of the loops share: a small world behind a
// loop.Port, without a sequencer and without a store. Inside a testing/synctest
// bubble its clock is the bubble's.
package looptest

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/admission"
	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/clock"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/engine/sim"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/loop"
	"croft.dev/croft/internal/loop/inventory"
	"croft.dev/croft/internal/quantity"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

// Instance is the installation of the world and its fleet.
const Instance = "3f2a9c1e-0000-4000-8000-000000000001"

// Port carries out commands one by one on a world of its own.
type Port struct {
	mu      sync.Mutex
	world   *world.World
	changed chan struct{}
	done    []world.Command // those that changed something
	fail    map[string]error
	jumped  bool
	ended   map[id.Job]*workload.Job
	steps   map[[2]int64]*workload.Step // that have ended
}

var _ loop.Port = (*Port)(nil)

// New returns a world with the nodes and devices of fleet, the user ada in the
// account nlp and no billing.
func New(t testing.TB, fleet *sim.Fleet) *Port {
	t.Helper()
	p := &Port{world: world.New(), changed: make(chan struct{}), fail: map[string]error{}, ended: map[id.Job]*workload.Job{}, steps: map[[2]int64]*workload.Step{}}
	billing := "off"
	p.Do(t, command.SitePut{
		Site:       world.Site{Instance: Instance, PlanDepth: 10, MountRoots: []string{"/data", "~"}, Network: admission.Network{Host: true, FirstPort: 1024, LastPort: 65535}, HostPrograms: true, DefCPU: 1000, DefMem: 1 << 30, DefWall: int64(time.Hour), UserImages: 100 << 20},
		Partitions: []catalog.Partition{{Name: "main", Default: true, DefWall: int64(time.Hour)}},
		QoS:        []catalog.QoS{{Name: "normal", Default: true, Factor: 1000}},
	})
	p.Do(t, command.UserPut{Create: true, Name: "ada"})
	p.Do(t, command.AccountPut{Create: true, Name: "nlp", Billing: &billing})
	p.Do(t, command.MemberPut{Account: "nlp", User: "ada", Role: "member"})
	inv, err := fleet.Connect().Inventory(context.Background())
	if err != nil {
		t.Fatalf("inventory: %v", err)
	}
	p.Do(t, inventory.Observed(inv, nil))
	return p
}

// NewFleet returns one node of four devices that has the images train:1 and, to
// be pulled in ten seconds, far:1.
func NewFleet(t testing.TB) *sim.Fleet { return NewCluster(t, 1) }

// NewCluster is NewFleet with more such nodes, gpu1 and so on, whose devices are numbered
// through.
func NewCluster(t testing.TB, nodes int) *sim.Fleet {
	t.Helper()
	const each = 4
	cfg := sim.Config{
		Clock: clock.System{}, Instance: Instance,
		Images: []sim.Image{{Ref: "train:1", Size: 1 << 20, Present: true}, {Ref: "far:1", Size: 1000, PullTime: 10 * time.Second}},
	}
	for n := range nodes {
		node := fmt.Sprintf("gpu%d", n+1)
		cfg.Nodes = append(cfg.Nodes, engine.Node{Name: node, CPU: 64_000, Memory: 512 << 30, Ready: true})
		for i := range each {
			cfg.Devices = append(cfg.Devices, engine.Device{UUID: fmt.Sprintf("SIM-%d", n*each+i), Node: node, Index: i, Name: fmt.Sprintf("gpu%d", i), Model: "a100", Memory: 80 << 30, Healthy: true})
		}
	}
	f, err := sim.NewFleet(cfg)
	if err != nil {
		t.Fatalf("fleet: %v", err)
	}
	return f
}

// World implements loop.Port.
func (p *Port) World() *world.World {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.world
}

// Changed implements loop.Port.
func (p *Port) Changed() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.changed
}

// Now implements loop.Port.
func (p *Port) Now() (int64, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(time.Now().UnixNano(), p.world.Now), !p.jumped
}

// Jump says whether the wall clock has jumped.
func (p *Port) Jump(jumped bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.jumped = jumped
}

// Fail makes every command of a kind fail with err; nil ends that.
func (p *Port) Fail(kind string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fail[kind] = err
}

// Command implements loop.Port.
func (p *Port) Command(_ context.Context, cmd world.Command) (any, error) {
	return p.As(access.Principal{System: true, Name: "system"}, cmd)
}

// As carries out a command as somebody.
func (p *Port) As(who access.Principal, cmd world.Command) (any, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.fail[cmd.Kind()]; err != nil {
		return nil, err
	}
	now := max(time.Now().UnixNano(), p.world.Now)
	out, err := cmd.Decide(p.world, world.Context{Seq: p.world.Seq + 1, Now: now, Principal: who})
	if err != nil {
		return nil, err
	}
	if !out.Event.Skip {
		next := p.world.Copy()
		next.Fold(out.Changes)
		next.Seq, next.Now = p.world.Seq+1, now
		p.world = next
		p.done = append(p.done, cmd)
		for _, c := range out.Changes {
			if set, ok := c.(workload.JobSet); ok && set.Row.State == workload.Ended {
				p.ended[set.Row.ID] = set.Row
			}
			if set, ok := c.(workload.StepSet); ok && set.Row.State == workload.Ended {
				p.steps[[2]int64{int64(set.Row.Job), int64(set.Row.N)}] = set.Row
			}
		}
		close(p.changed)
		p.changed = make(chan struct{})
	}
	if out.Fault != nil {
		return out.Result, out.Fault
	}
	return out.Result, nil
}

// Do carries out a command as the server, which must succeed.
func (p *Port) Do(t testing.TB, cmd world.Command) any {
	t.Helper()
	got, err := p.Command(context.Background(), cmd)
	if err != nil {
		t.Fatalf("%s: %v", cmd.Kind(), err)
	}
	return got
}

// Step returns a step that has ended.
func (p *Port) Step(job id.Job, n int32) *workload.Step {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.steps[[2]int64{int64(job), int64(n)}]; s != nil {
		return s
	}
	return &workload.Step{}
}

// Settle changes settings of the site.
func (p *Port) Settle(change func(*world.Site)) {
	site := p.World().Site
	change(&site)
	p.Put(world.SiteSet{Row: site})
}

// Put puts rows as they are, whatever any command would say.
func (p *Port) Put(changes ...world.Change) {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := p.world.Copy()
	next.Fold(changes)
	p.world = next
}

// Done returns the commands of a kind that changed something, in order.
func (p *Port) Done(kind string) []world.Command {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []world.Command
	for _, c := range p.done {
		if c.Kind() == kind {
			out = append(out, c)
		}
	}
	return out
}

// Ada is the user who submits.
func (p *Port) Ada() access.Principal {
	w := p.World()
	u, _ := w.Tenancy.User("ada")
	return w.Principal(u.ID, 0, w.Now)
}

// Spec is a job of one hour on one device, whose program does what words say, see
// sim.Script.
func Spec(words ...string) workload.Spec {
	return workload.Spec{
		Name: "job", Kind: workload.KindContainer, Image: "train:1", Command: append([]string{"sim"}, words...),
		GPU: quantity.Device, CPU: 1000, Mem: 1 << 30, Time: int64(time.Hour), Pull: "missing",
	}
}

// Submit has ada submit a job.
func (p *Port) Submit(t testing.TB, spec workload.Spec) id.Job {
	t.Helper()
	got, err := p.As(p.Ada(), command.Submit{Spec: spec})
	if err != nil {
		t.Fatalf("submit: %v", err)
	}
	return got.(admission.Accepted).Job.ID
}

// Job returns a job's last row, also of one that has ended.
func (p *Port) Job(k id.Job) *workload.Job {
	p.mu.Lock()
	defer p.mu.Unlock()
	if j, ok := p.world.Workload.Jobs.Get(k); ok {
		return j
	}
	return p.ended[k]
}

// Log drops what a loop says.
func Log() *slog.Logger { return slog.New(slog.DiscardHandler) }
