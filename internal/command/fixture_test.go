package command_test

import (
	"fmt"
	"testing"
	"time"

	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/admission"
	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/placement"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

const hour = int64(time.Hour)

// sim carries out commands one by one, as the sequencer would.
type sim struct {
	w    *world.World
	now  int64
	last []world.Change // of the last command that changed anything
}

var system = access.Principal{System: true, Name: "system"}

// do decides and folds a command; a rejected one changes nothing.
func (s *sim) do(p access.Principal, cmd world.Command) (any, error) {
	at := world.Context{Seq: s.w.Seq + 1, Now: s.now, Principal: p}
	out, err := cmd.Decide(s.w, at)
	if err != nil {
		return nil, err
	}
	if !out.Event.Skip {
		next := s.w.Copy()
		next.Fold(out.Changes)
		next.Seq, next.Now = at.Seq, s.now
		s.w, s.last = next, out.Changes
	}
	if out.Fault != nil {
		return out.Result, out.Fault
	}
	return out.Result, nil
}

// context is that of the next command.
func (s *sim) context(p access.Principal) world.Context {
	return world.Context{Seq: s.w.Seq + 1, Now: s.now, Principal: p}
}

func (s *sim) user(name string) access.Principal {
	u, _ := s.w.Tenancy.User(name)
	return s.w.Principal(u.ID, 0, s.now)
}

type fataler interface{ Fatalf(string, ...any) }

func (s *sim) must(t fataler, p access.Principal, cmd world.Command) any {
	got, err := s.do(p, cmd)
	if err != nil {
		t.Fatalf("%s: %v", cmd.Kind(), err)
	}
	return got
}

func text(s string) *string { return &s }

// newSim is a machine with four devices, 64 cores and 512 GiB, the example's
// prices, an enforcing account nlp with 500 credits and a showback account vision.
// memoryOf is how much memory a device has, in bytes: that of a model are 40 GiB.
func memoryOf(index int) int64 { return []int64{80, 48, 40, 40}[index] << 30 }

func newSim(t fataler) *sim {
	s := &sim{w: world.New(), now: time.Date(2026, 11, 1, 9, 0, 0, 0, time.UTC).UnixNano()}
	s.must(t, system, command.SitePut{
		Site:       world.Site{Instance: "00000000-test", PlanDepth: 50, MountRoots: []string{"~", "/data"}, Network: admission.Network{Host: true, FirstPort: 2000, LastPort: 2999}, MaxGrace: hour, DefCPU: 1000, DefMem: 1 << 30, DefWall: hour, UserImages: 100 << 20},
		Partitions: []catalog.Partition{{Name: "main", Default: true, DefWall: hour, MaxWall: 48 * hour}},
		QoS:        []catalog.QoS{{Name: "normal", Default: true, Factor: 1000, Grace: 0}},
	})
	inv := command.InventoryObserved{Nodes: []placement.Node{{Name: "gpu1", CPU: 64000, Memory: 512 << 30, Ready: true}}}
	for i := range 4 {
		inv.Devices = append(inv.Devices, placement.Device{UUID: fmt.Sprintf("SIM-%d", i), Node: "gpu1", Index: i, Name: fmt.Sprintf("gpu%d", i), Model: "a100", Memory: memoryOf(i), Healthy: true})
	}
	s.must(t, system, inv)
	s.must(t, system, command.UserPut{Create: true, Name: "root", Role: text("admin")})
	root := s.user("root")
	s.must(t, root, command.PricePut{CPU: 10_000, Mem: 1_000, Devices: []catalog.ModelRate{{Model: "a100", Rate: money.Rate(money.Credit)}}})
	for _, u := range []string{"ada", "ben"} {
		s.must(t, root, command.UserPut{Create: true, Name: u})
	}
	s.must(t, root, command.AccountPut{Create: true, Name: "nlp", Billing: text("enforce")})
	s.must(t, root, command.AccountPut{Create: true, Name: "vision", Parent: "nlp"})
	s.must(t, root, command.MemberPut{Account: "nlp", User: "ada", Role: "member"})
	s.must(t, root, command.MemberPut{Account: "vision", User: "ben", Role: "member"})
	s.must(t, root, command.GrantGive{Account: "nlp", Amount: 500 * money.Credit, Source: "DFG-123"})
	return s
}

// example is the job of the README.
func example() workload.Spec {
	return workload.Spec{Name: "train.py", Kind: workload.KindContainer, Image: "train:1", GPU: 1000, CPU: 8000, Mem: 64 << 30, Time: 2 * hour, Pull: "missing"}
}

func (s *sim) job(t *testing.T, k id.Job) *workload.Job {
	t.Helper()
	j, ok := s.w.Workload.Jobs.Get(k)
	if !ok {
		t.Fatalf("job %d isn't live", k)
	}
	return j
}

func refusal(t *testing.T, err error) *fault.Error {
	t.Helper()
	f, ok := err.(*fault.Error)
	if !ok || f.Code != "refused" {
		t.Fatalf("got %v, want a refusal", err)
	}
	return f
}
