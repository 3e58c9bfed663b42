package command_test

import (
	"testing"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/admission"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

// counted is what ada has used in nlp.
func (s *sim) counted() money.Micros {
	nlp, _ := s.w.Tenancy.Account("nlp")
	return s.w.View(s.now).Standings().Path(nlp.ID, id.User(s.user("ada").User))[0].Use
}

// What an attempt counts for fair share is its list price for the time that its
// user pays for, whatever the billing and the QoS, and nothing if that is given back.
func TestWhatCountsForFairShare(t *testing.T) {
	const hourly = money.Micros(1_144_000) // of the example: 1 gpu, 8 cores, 64 GiB
	preempted := func(refund bool) func(*testing.T, *sim, id.Job) {
		return func(t *testing.T, s *sim, j id.Job) {
			keep := !refund
			s.must(t, s.user("root"), command.QoSPut{Create: true, Name: "urgent", Priority: num(1000), Preempts: &[]string{"normal"}})
			s.must(t, s.user("root"), command.QoSPut{Name: "normal", Contract: command.ContractChange{Keep: &keep}})
			s.must(t, system, command.JobPreempt{Job: j, For: s.urgent(t, 4), Node: "gpu1"})
			s.must(t, system, command.JobObserved{Job: j, N: 1, Exited: true, Finished: s.now})
		}
	}
	tests := map[string]struct {
		billing, qos string
		end          func(*testing.T, *sim, id.Job)
		want         money.Micros
	}{
		"runs":                     {"enforce", "", func(*testing.T, *sim, id.Job) {}, hourly},
		"completed":                {"enforce", "", func(t *testing.T, s *sim, j id.Job) { s.exit(t, j, s.now) }, hourly},
		"ended half an hour ago":   {"enforce", "", func(t *testing.T, s *sim, j id.Job) { s.exit(t, j, s.now-hour/2) }, hourly / 2},
		"not billed":               {"off", "", func(t *testing.T, s *sim, j id.Job) { s.exit(t, j, s.now) }, hourly},
		"a dear QoS":               {"enforce", "dear", func(t *testing.T, s *sim, j id.Job) { s.exit(t, j, s.now) }, hourly},
		"lost by the platform":     {"enforce", "", func(t *testing.T, s *sim, j id.Job) { s.must(t, system, command.JobObserved{Job: j, N: 1, Gone: true}) }, 0},
		"preempted and given back": {"enforce", "", preempted(true), 0},
		"preempted and kept":       {"enforce", "", preempted(false), hourly},
		"failed":                   {"enforce", "", func(t *testing.T, s *sim, j id.Job) { s.must(t, system, command.JobFail{Job: j, N: 1}) }, hourly},
		"dearer since it began": {"enforce", "", func(t *testing.T, s *sim, j id.Job) {
			s.must(t, s.user("root"), command.PricePut{CPU: 1e9})
			s.exit(t, j, s.now)
		}, hourly},
		"cancelled while it waited":   {"enforce", "", func(t *testing.T, s *sim, j id.Job) { s.exit(t, j, s.now); s.cancelled(t) }, hourly},
		"has ended, and others begin": {"enforce", "", func(t *testing.T, s *sim, j id.Job) { s.exit(t, j, s.now); s.run(t, example(), true) }, hourly},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := newSim(t)
			s.must(t, s.user("root"), command.AccountPut{Name: "nlp", Billing: &tt.billing})
			s.must(t, s.user("root"), command.QoSPut{Create: true, Name: "dear", Factor: num(3000)})
			spec := example()
			spec.QoS = tt.qos
			j := s.run(t, spec, true)
			s.now += hour
			tt.end(t, s, j)
			if got := s.counted(); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

// Weights are kept by everything else that happens to an account or a membership, and
// are within bounds.
func TestWeights(t *testing.T) {
	s := newSim(t)
	root := s.user("root")
	nlp, _ := s.w.Tenancy.Account("nlp")
	weights := func() [2]int64 {
		a, _ := s.w.Tenancy.Account("nlp")
		m, _ := s.w.Tenancy.Member(nlp.ID, id.User(s.user("ada").User))
		return [2]int64{a.Weight, m.Weight}
	}
	s.must(t, root, command.AccountPut{Name: "nlp", Weight: num(3)})
	s.must(t, root, command.MemberPut{Account: "nlp", User: "ada", Weight: num(5)})
	s.must(t, root, command.AccountPut{Name: "nlp", Closed: yes()})
	s.must(t, root, command.MemberPut{Account: "nlp", User: "ada", Role: "manager"})
	if got := weights(); got != [2]int64{3, 5} {
		t.Errorf("%v", got)
	}
	s.must(t, root, command.MemberPut{Account: "nlp", User: "ada", Weight: num(7)})
	if m, _ := s.w.Tenancy.Member(nlp.ID, id.User(s.user("ada").User)); m.Role != access.Manager || m.Weight != 7 {
		t.Errorf("%+v", m)
	}
	s.must(t, root, command.MemberPut{Account: "nlp", User: "ben", Weight: num(7)})
	if m, _ := s.w.Tenancy.Member(nlp.ID, id.User(s.user("ben").User)); m.Role != access.Member {
		t.Errorf("%+v", m)
	}
	for _, n := range []int64{0, -1, 1_000_001, -1 << 63} {
		for _, cmd := range []world.Command{command.AccountPut{Name: "nlp", Weight: &n}, command.MemberPut{Account: "nlp", User: "ada", Weight: &n}} {
			if _, err := s.do(root, cmd); fault.Of(err) != codes.Invalid {
				t.Errorf("%s with weight %d: %v", cmd.Kind(), n, err)
			}
		}
	}
}

// A fixed priority is all that counts, until it is cleared.
func TestPrioritize(t *testing.T) {
	s := newSim(t)
	root := s.user("root")
	first, second := s.waits(t, 0), s.waits(t, -7)
	order := func() []id.Job {
		var out []id.Job
		for j := range s.w.Workload.Queue(s.w.View(s.now).Order(), "main") {
			out = append(out, j.ID)
		}
		return out
	}
	s.now += hour
	s.must(t, root, command.JobPrioritize{Job: second, Points: num(1)})
	if got := order(); got[0] != second {
		t.Errorf("%v, want %d first", got, second)
	}
	if got := s.w.View(s.now).Factors(s.job(t, second)); len(got) != 1 || got[0].Points != 1 {
		t.Errorf("%+v", got)
	}
	s.must(t, root, command.JobPrioritize{Job: second})
	if got := order(); got[0] != first {
		t.Errorf("%v, want %d first", got, first)
	}
	for _, n := range []int64{1 << 62, -1 << 63} {
		if _, err := s.do(root, command.JobPrioritize{Job: first, Points: &n}); fault.Of(err) != codes.Invalid {
			t.Errorf("%d: %v", n, err)
		}
	}
}

func (s *sim) waits(t fataler, own int64) id.Job {
	spec := example()
	spec.Priority = own
	return s.must(t, s.user("ada"), command.Submit{Spec: spec}).(admission.Accepted).Job.ID
}

func (s *sim) exit(t fataler, j id.Job, at int64) {
	s.must(t, system, command.JobObserved{Job: j, N: 1, Exited: true, Finished: at})
}

func (s *sim) cancelled(t fataler) {
	j := s.must(t, s.user("ada"), command.Submit{Spec: example()}).(admission.Accepted).Job
	s.must(t, s.user("ada"), command.JobStop{Job: j.ID})
	if _, live := s.w.Workload.Jobs.Get(j.ID); live || j.State != workload.Queued {
		t.Fatalf("job %d is %s", j.ID, j.State)
	}
}
