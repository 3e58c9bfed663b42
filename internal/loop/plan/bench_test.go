package plan_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/admission"
	"croft.dev/croft/internal/fairshare"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/loop/looptest"
	"croft.dev/croft/internal/loop/plan"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/placement"
	"croft.dev/croft/internal/quantity"
	"croft.dev/croft/internal/share"
	"croft.dev/croft/internal/tenancy"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

// crowded is a cluster of so many nodes with eight devices each, all of them in use,
// where so many jobs of a thousand users in a hundred accounts wait.
func crowded(b *testing.B, nodes, pending int) *looptest.Port {
	port := looptest.New(b, looptest.NewFleet(b))
	var changes []world.Change
	for a := range id.Account(100) {
		changes = append(changes, tenancy.AccountSet{Row: tenancy.Account{ID: a + 10, Name: fmt.Sprint("a", a), Billing: "off", Weight: int64(a%3) + 1}})
	}
	for u := range id.User(1000) {
		changes = append(changes,
			tenancy.UserSet{Row: tenancy.User{ID: u + 10, Name: fmt.Sprint("u", u), UID: -1}},
			tenancy.MemberSet{Row: tenancy.Member{Account: id.Account(u%100) + 10, User: u + 10, Role: access.Member}},
			fairshare.UseSet{Row: fairshare.Use{Account: id.Account(u%100) + 10, User: u + 10, Left: money.Micros(u*7919%1000) * money.Credit, At: time.Now().UnixNano()}})
	}
	now := time.Now().UnixNano()
	job := func(k id.Job, u id.User) *workload.Job {
		account := id.Account(u%100) + 10
		return &workload.Job{
			ID: k, User: u + 10, Account: account, Path: []id.Account{account}, State: workload.Queued, Submitted: now - int64(k)*1e9, Billing: "off", Factor: 1000,
			Spec: workload.Spec{Partition: "main", QoS: "normal", CPU: 1000, Mem: 1 << 30, GPU: (1 + int64(k%8)) * 1000, Time: int64(time.Hour) * (1 + int64(k%20))},
		}
	}
	next := id.Job(1)
	for n := range nodes {
		name := fmt.Sprintf("n%04d", n)
		changes = append(changes, placement.NodeSet{Row: placement.Node{Name: name, CPU: 64_000, Memory: 512 << 30, Ready: true}})
		for d := range 8 {
			uuid := fmt.Sprint(name, "-", d)
			changes = append(changes, placement.DeviceSet{Row: placement.Device{UUID: uuid, Node: name, Index: d, Model: "a100", Healthy: true}})
			j := job(next, id.User(next%1000))
			j.Spec.GPU, j.State = 1000, workload.Running
			j.Attempt = workload.Attempt{N: 1, Node: name, Devices: []string{uuid}, Rate: 1e6, Started: now - 1e12, Until: now + int64(time.Hour)*int64(1+d)}
			changes = append(changes, workload.JobSet{Row: j})
			next++
		}
	}
	for range pending {
		changes = append(changes, workload.JobSet{Row: job(next, id.User(next%1000))})
		next++
	}
	port.Put(changes...)
	port.Settle(func(s *world.Site) {
		s.PlanDepth, s.Weights = 100, admission.Weights{Age: 1000, AgeCap: int64(14 * day), Share: 1000, HalfLife: int64(7 * day)}
	})
	return port
}

// A pass over everything, with the ranking of all users.
func BenchmarkPass(b *testing.B) {
	for _, nodes := range []int{1, 750} {
		b.Run(fmt.Sprintf("nodes=%d/pending=100000/users=1000", nodes), func(b *testing.B) {
			passes(b, crowded(b, nodes, 100_000))
		})
	}
}

// passes measures passes over what waits.
func passes(b *testing.B, port *looptest.Port) {
	p := plan.New(plan.Config{Port: port, Images: &shelf{ready: make(chan struct{})}, Depth: 100, Budget: 1000, Log: looptest.Log()})
	b.ReportAllocs()
	for b.Loop() {
		if err := p.Pass(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
}

// A pass where the accounts have shares of the devices: so many of the hundred, each
// guaranteed a hundredth of them. What is in use is all theirs, so that nobody's job is
// stopped for another's.
func BenchmarkPassWithShares(b *testing.B) {
	for _, shares := range []int{0, 10, 100} {
		for _, pending := range []int{5000, 20_000} {
			b.Run(fmt.Sprintf("shares=%d/nodes=750/pending=%d", shares, pending), func(b *testing.B) {
				port := crowded(b, 750, pending)
				var changes []world.Change
				for a := range id.Account(shares) {
					changes = append(changes, share.Set{Row: share.Share{
						ID: id.Share(a) + 1, Account: a + 10, Partition: "main", Resource: limits.GPU, Guaranteed: 60 * quantity.Device, Limit: share.Any, Borrow: share.Any, Lend: share.Any,
					}})
				}
				port.Put(changes...)
				passes(b, port)
			})
		}
	}
}
