package admission_test

import (
	"fmt"
	"time"

	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/admission"
	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/placement"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

const (
	hour   = int64(time.Hour)
	minute = int64(time.Minute)
	gib    = int64(1) << 30
)

var system = access.Principal{System: true, Name: "system"}

type fataler interface {
	Helper()
	Fatalf(string, ...any)
}

// lab is a world with one node of four a100, 64 cores and 512 GiB, the user ada in
// account nlp, and one price.
type lab struct {
	w   *world.World
	now int64
}

func newLab(t fataler, billing string, funds money.Micros) *lab {
	l := &lab{w: world.New(), now: time.Date(2026, 11, 1, 9, 0, 0, 0, time.UTC).UnixNano()}
	l.must(t, command.SitePut{
		Site:       world.Site{Instance: "test", PlanDepth: 20, MountRoots: []string{"/data"}, Network: admission.Network{FirstPort: 2000, LastPort: 2999}, MaxGrace: hour, DefCPU: 1000, DefMem: gib, DefWall: hour},
		Partitions: []catalog.Partition{{Name: "main", Default: true, DefWall: hour, MaxWall: 48 * hour}},
		QoS:        []catalog.QoS{{Name: "normal", Default: true, Factor: 1000}, {Name: "fast", Factor: 2000, Priority: 10, MaxWall: 10 * hour}},
	})
	inv := command.InventoryObserved{Nodes: []placement.Node{{Name: "gpu1", CPU: 64000, Memory: 512 * gib, Ready: true}}}
	for i := range 4 {
		inv.Devices = append(inv.Devices, placement.Device{UUID: fmt.Sprintf("SIM-%d", i), Node: "gpu1", Index: i, Name: fmt.Sprintf("gpu%d", i), Model: "a100", Memory: 40 * gib, Healthy: true})
	}
	l.must(t, inv)
	l.must(t, command.PricePut{CPU: 10_000, Mem: 1_000, Devices: []catalog.ModelRate{{Model: "a100", Rate: money.Rate(money.Credit)}}})
	l.must(t, command.UserPut{Create: true, Name: "ada"})
	l.must(t, command.AccountPut{Create: true, Name: "nlp", Billing: &billing})
	l.must(t, command.MemberPut{Account: "nlp", User: "ada", Role: "member"})
	if funds > 0 {
		l.must(t, command.GrantGive{Account: "nlp", Amount: funds, Source: "DFG"})
	}
	return l
}

// do carries out a command as p.
func (l *lab) do(p access.Principal, cmd world.Command) (world.Outcome, error) {
	out, err := cmd.Decide(l.w, world.Context{Seq: l.w.Seq + 1, Now: l.now, Principal: p})
	if err != nil || out.Event.Skip {
		return out, err
	}
	next := l.w.Copy()
	next.Fold(out.Changes)
	next.Seq, next.Now = l.w.Seq+1, l.now
	l.w = next
	return out, nil
}

func (l *lab) must(t fataler, cmd world.Command) any {
	t.Helper()
	out, err := l.do(system, cmd)
	if err == nil && out.Fault != nil {
		err = out.Fault
	}
	if err != nil {
		t.Fatalf("%s: %v", cmd.Kind(), err)
	}
	return out.Result
}

func (l *lab) ada() access.Principal {
	u, _ := l.w.Tenancy.User("ada")
	return l.w.Principal(u.ID, 0, l.now)
}

// submit is what the world comes to for ada's spec.
func (l *lab) submit(t fataler, spec workload.Spec) world.Outcome {
	t.Helper()
	out, err := l.do(l.ada(), command.Submit{Spec: spec})
	if err != nil {
		t.Fatalf("submit: %v", err)
	}
	return out
}

// request is ada's spec with all names looked up.
func (l *lab) request(t fataler, spec workload.Spec) (admission.View, admission.Request) {
	t.Helper()
	v := l.w.View(l.now)
	subject, spec, err := v.Resolve(l.ada(), spec)
	if err != nil {
		t.Fatalf("resolve: %v", err)
	}
	return v, admission.Request{Subject: subject, Spec: spec, Gate: admission.Accept}
}

// example costs 1.144 an hour.
func example() workload.Spec {
	return workload.Spec{Name: "train", Kind: workload.KindContainer, Image: "train:1", GPU: 1000, CPU: 8000, Mem: 64 * gib, Time: 2 * hour, Pull: "missing"}
}
