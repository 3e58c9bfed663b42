package plan_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/admission"
	"croft.dev/croft/internal/clock"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/engine/sim"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/loop/looptest"
	"croft.dev/croft/internal/loop/plan"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

const day = 24 * time.Hour

// site is a fleet on which three users always have work waiting.
type site struct {
	*testing.T
	port    *looptest.Port
	planner *plan.Planner
	chance  *rand.Rand
	ends    map[id.Job]time.Time
	used    map[string]time.Duration // device-time by user
}

func newSite(t *testing.T, weights admission.Weights) *site {
	cfg := sim.Config{Clock: clock.System{}, Instance: looptest.Instance}
	for n := range 4 {
		node := fmt.Sprint("gpu", n)
		cfg.Nodes = append(cfg.Nodes, engine.Node{Name: node, CPU: 64_000, Memory: 512 << 30, Ready: true})
		for i := range 4 {
			cfg.Devices = append(cfg.Devices, engine.Device{UUID: fmt.Sprint("SIM-", n, i), Node: node, Index: i, Name: fmt.Sprint("gpu", i), Model: "a100", Healthy: true})
		}
	}
	fleet, err := sim.NewFleet(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s := &site{T: t, port: looptest.New(t, fleet), chance: rand.New(rand.NewPCG(1, 2)), ends: map[id.Job]time.Time{}, used: map[string]time.Duration{}}
	s.planner = plan.New(plan.Config{Port: s.port, Images: &shelf{ready: make(chan struct{})}, Depth: 10, Budget: 100, Log: looptest.Log()})
	s.port.Settle(func(site *world.Site) { site.Weights = weights })
	s.port.Do(t, command.AccountPut{Name: "nlp", Weight: n(2)})
	s.port.Do(t, command.AccountPut{Create: true, Name: "vision", Billing: text("off")})
	for _, u := range []struct {
		name, account string
		weight        int64
	}{{"cem", "nlp", 1}, {"ben", "vision", 1}} {
		s.port.Do(t, command.UserPut{Create: true, Name: u.name})
		s.port.Do(t, command.MemberPut{Account: u.account, User: u.name, Role: "member", Weight: &u.weight})
	}
	s.port.Do(t, command.MemberPut{Account: "nlp", User: "ada", Weight: n(3)})
	return s
}

func n(v int64) *int64 { return &v }

func text(v string) *string { return &v }

func (s *site) user(name string) access.Principal {
	w := s.port.World()
	u, _ := w.Tenancy.User(name)
	return w.Principal(u.ID, 0, w.Now)
}

// top has at least so many jobs of each user waiting, of all sizes.
func (s *site) top(least int) {
	waiting := map[id.User]int{}
	for _, j := range s.port.World().Workload.Jobs.All() {
		if j.State == workload.Queued {
			waiting[j.User]++
		}
	}
	for _, name := range []string{"ada", "ben", "cem"} {
		who := s.user(name)
		for range least - waiting[id.User(who.User)] {
			spec := looptest.Spec()
			spec.GPU, spec.Time = 1000*(1+s.chance.Int64N(4)), int64(30*time.Minute)*(1+s.chance.Int64N(12))
			if _, err := s.port.As(who, command.Submit{Spec: spec}); err != nil {
				s.Fatal(err)
			}
		}
	}
}

// step plans, has what starts run, and goes on to the next end of a job.
func (s *site) step() {
	s.top(10)
	if err := s.planner.Pass(context.Background()); err != nil {
		s.Fatal(err)
	}
	now := time.Now()
	next := now.Add(time.Hour)
	for _, j := range s.port.World().Workload.Active.All() {
		if j.State == workload.Starting {
			s.port.Do(s.T, command.JobObserved{Job: j.ID, N: j.Attempt.N, Running: true, Started: now.UnixNano()})
			s.ends[j.ID] = now.Add(time.Duration(j.Spec.Time) * time.Duration(1+s.chance.IntN(10)) / 10)
		}
		if end := s.ends[j.ID]; end.Before(next) {
			next = end
		}
	}
	<-time.After(time.Until(next))
	w := s.port.World()
	for _, j := range w.Workload.Active.All() {
		if s.ends[j.ID].After(next) {
			continue
		}
		u, _ := w.Tenancy.Users.Get(j.User)
		s.used[u.Name] += time.Duration(j.Spec.GPU/1000) * time.Since(time.Unix(0, j.Attempt.Started))
		s.port.Do(s.T, command.JobObserved{Job: j.ID, N: j.Attempt.N, Exited: true, Finished: next.UnixNano()})
		delete(s.ends, j.ID)
	}
}

// Two accounts of weights 2 and 1 whose users always have work waiting get device-time
// as 2 to 1, and two users in one of them as their weights say, within 1 percent of all
// that was used: by the default weights, where age counts too, on a fleet of 16 devices
// with jobs of one to four and up to six hours, in the days 5 to 30.
func TestDeviceTimeFollowsWeights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, admission.Weights{Age: 1000, AgeCap: int64(14 * day), Share: 1000, HalfLife: int64(7 * day)})
		for begun := time.Now(); time.Since(begun) < 5*day; {
			s.step()
		}
		clear(s.used)
		for begun := time.Now(); time.Since(begun) < 25*day; {
			s.step()
		}
		all := s.used["ada"] + s.used["ben"] + s.used["cem"]
		if all < 16*25*day*8/10 {
			t.Errorf("%s used of %s", all, 16*25*day)
		}
		for user, want := range map[string]float64{"ada": 2. / 3 * 3 / 4, "cem": 2. / 3 / 4, "ben": 1. / 3} {
			got := float64(s.used[user]) / float64(all)
			t.Logf("%s: %.1f%%", user, got*100)
			if got < want-.01 || got > want+.01 {
				t.Errorf("%s had %.1f%% of the device-time, want %.1f%%", user, got*100, want*100)
			}
		}
	})
}
