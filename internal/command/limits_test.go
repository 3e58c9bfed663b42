package command_test

import (
	"slices"
	"testing"
	"time"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/admission"
	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/metering"
	"croft.dev/croft/internal/placement"
	"croft.dev/croft/internal/workload"
	"pgregory.net/rapid"
)

// limit sets a limit of some scope, maybe below what is used.
func (h *history) limit(t *rapid.T) {
	pick := func(what string, of ...string) string { return rapid.SampledFrom(of).Draw(t, what) }
	c := command.LimitPut{
		Account: pick("of account", "", "nlp", "vision"), User: pick("of user", "", "*", "ada", "ben"), Partition: pick("of partition", "", "main"),
		QoS: pick("of QoS", "", "normal", "urgent"), Resource: limits.Resource(pick("resource", "gpu", "gpu:a100", "cpu", "running", "submitted", "job.gpu", "job.cpu", "time")),
	}
	c.Max = rapid.Int64Range(0, 4).Draw(t, "max")
	switch c.Resource.Of() {
	case limits.CPU:
		c.Max *= 8000
	case limits.GPU, limits.Devices("a100"):
		c.Max *= 500
	case limits.Time:
		c.Max *= hour / 2
	}
	h.do(t, h.user("root"), c)
}

// limitUser is a limit and, of one for each user, whom it binds.
type limitUser struct {
	limit id.Limit
	user  id.User
}

// limits checks that no command adds to what is used of a limit beyond the limit: by
// the jobs themselves, not by what was counted.
func (h *history) limits(t *rapid.T) {
	for _, l := range h.w.Limits.Limits.All() {
		switch {
		case l.Resource == limits.Credits:
			h.credits(t, l)
		case l.Resource.Hours():
			h.hours(t, l)
		case l.Scope.User == limits.Each:
			for u := range h.w.Tenancy.Users.All() {
				h.held(t, l, u)
			}
		default:
			h.held(t, l, 0)
		}
	}
}

// held checks one limit, as it binds a user if it is one for each.
func (h *history) held(t *rapid.T, l limits.Limit, u id.User) {
	sc := l.Scope
	if u != 0 {
		sc.User = u
	}
	var used int64
	for _, j := range h.w.Workload.Jobs.All() {
		if within(j, sc) {
			used += takes(j, l.Resource)
		}
	}
	b, binds := h.w.Limits.BoundFor(l, u, h.now)
	if binds && b.Used != used && !l.Resource.PerJob() {
		t.Fatalf("%+v: %d are counted, %d used", sc, b.Used, used)
	}
	k := limitUser{l.ID, u}
	if before, known := h.used[k]; binds && known && used > l.Max && used > before && !l.Resource.PerJob() {
		t.Fatalf("%+v: %d of %d are used, before %d", sc, used, l.Max, before)
	}
	h.used[k] = used
}

func within(j *workload.Job, sc limits.Scope) bool {
	return (sc.Account == 0 || slices.Contains(j.Path, sc.Account)) && (sc.User == 0 || sc.User == j.User) &&
		(sc.Partition == "" || sc.Partition == j.Spec.Partition) && (sc.QoS == "" || sc.QoS == j.Spec.QoS)
}

// limitHours sets a limit per period, before any job.
func (h *history) limitHours(t *rapid.T) {
	pick := func(what string, of ...string) string { return rapid.SampledFrom(of).Draw(t, what) }
	c := command.LimitPut{
		Account: pick("of account", "", "nlp", "vision"), User: pick("of user", "", "ada", "ben"),
		Resource: limits.Resource(pick("resource", "gpu-hours", "gpu-hours:a100", "cpu-hours")), Per: limits.Per{Unit: limits.Unit(pick("per", "day", "month", "rolling"))},
		Max: rapid.Int64Range(0, 20).Draw(t, "hours") * 3600 * 1000,
	}
	if c.Resource == limits.CPUHours {
		c.Max *= 8
	}
	if c.Per.Unit == limits.Rolling {
		c.Per.Span = rapid.Int64Range(1, 30).Draw(t, "span") * hour
	} else {
		c.Carry.Milli = rapid.Int64Range(0, 1000).Draw(t, "share")
	}
	h.do(t, h.user("root"), c)
}

// hours checks what is counted of a limit per period against the attempts that began
// in it: those that have ended by what was charged, the others by what they may come
// to.
func (h *history) hours(t *rapid.T, l limits.Limit) {
	b := h.w.Limits.BoundOf(l, h.now)
	if b.Used > b.Max {
		t.Fatalf("%+v: %d used of %d", l, b.Used, b.Max)
	}
	if l.Per.Unit == limits.Rolling {
		return
	}
	var used int64
	for _, j := range h.rows {
		for _, a := range append(slices.Clone(j.Past), j.Attempt) {
			j := h.ran[id.Attempt{Job: j.ID, N: a.N}] // as it was then
			if a.N == 0 || a.Assigned < b.From || a.Assigned >= b.To || !within(j, l.Scope) {
				continue
			}
			each := catalog.Counted(a.Models)
			if l.Resource == limits.CPUHours {
				each = j.Spec.CPU
			}
			from, to := metering.Billable(a, j.Spec.Grace, h.now)
			if seconds := (to - from + 1e9 - 1) / 1e9; a.Ended != 0 {
				used += each * seconds
			} else {
				used += each * ((j.Spec.Time + j.Spec.Grace + 1e9 - 1) / 1e9)
			}
		}
	}
	if used != b.Used {
		t.Fatalf("%+v: %d are counted, %d used", l, b.Used, used)
	}
}

// takes is what a job has of a resource that is counted.
func takes(j *workload.Job, r limits.Resource) int64 {
	runs := int64(0)
	if workload.RulesOf(j.State).Running {
		runs = 1
	}
	switch r {
	case limits.Submitted:
		if !workload.RulesOf(j.State).Submitted {
			return 0
		}
		return j.Waits()
	case limits.Running:
		return runs
	case limits.CPU:
		return runs * j.Spec.CPU
	case limits.GPU, limits.Devices("a100"):
		return runs * catalog.Counted(j.Attempt.Models)
	}
	return 0
}

// Of the limits that a job would pass the tightest is named first, with its whole
// scope.
func TestTheTightestLimitIsNamed(t *testing.T) {
	tests := map[string]struct {
		limits []command.LimitPut
		scope  string
		code   codes.Reason
	}{
		"QoS": {
			[]command.LimitPut{{Account: "nlp", Resource: "gpu", Max: 2000}, {QoS: "normal", Resource: "gpu", Max: 1000}},
			"everybody with QoS normal", codes.LimitDevices,
		},
		"all of it": {
			[]command.LimitPut{{Account: "nlp", User: "ada", Partition: "main", QoS: "normal", Resource: "gpu", Max: 1000}, {User: "ada", Resource: "gpu", Max: 2000}},
			"user ada in account nlp with QoS normal in partition main", codes.LimitDevices,
		},
		"of each job": {
			[]command.LimitPut{{Partition: "main", Resource: "job.gpu", Max: 0}, {Resource: "gpu", Max: 1000}},
			"everybody in partition main", codes.LimitDevices,
		},
		"a model of each job": {[]command.LimitPut{{User: "ada", Resource: "job.gpu:a100", Max: 2000}}, "user ada", codes.LimitDevices},
		"memory of each job":  {[]command.LimitPut{{Account: "nlp", Resource: "job.mem", Max: 1 << 30}}, "account nlp", codes.LimitMemory},
		"cores of each job":   {[]command.LimitPut{{Account: "nlp", Resource: "job.cpu", Max: 500}}, "account nlp", codes.LimitCPU},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := newSim(t)
			for _, c := range tt.limits {
				s.must(t, s.user("root"), c)
			}
			spec := example()
			spec.GPU = 3000
			_, err := s.do(s.user("ada"), command.Submit{Spec: spec})
			if r := refusal(t, err).Reasons[0]; r.Scope != tt.scope || r.Code != tt.code || !r.Never {
				t.Errorf("%+v", r)
			}
		})
	}
}

// One user's jobs are bounded by the site's default, unless a limit of his says
// otherwise.
func TestJobsOfOneUser(t *testing.T) {
	s := newSim(t)
	s.w.Limits.UserJobs = 2
	submit := func(who string) error {
		_, err := s.do(s.user(who), command.Submit{Spec: example()})
		return err
	}
	for range 2 {
		if err := submit("ada"); err != nil {
			t.Fatal(err)
		}
	}
	r := refusal(t, submit("ada")).Reasons[0]
	if want := "user ada has 2 of at most 2 jobs submitted"; r.Message != want || r.Never {
		t.Errorf("%+v, want %s", r, want)
	}
	if err := submit("ben"); err != nil {
		t.Errorf("ada's jobs keep ben's off: %v", err)
	}
	s.must(t, s.user("root"), command.LimitPut{User: "ada", Resource: "submitted", Max: 3})
	if err := submit("ada"); err != nil {
		t.Errorf("ada's own limit doesn't count: %v", err)
	}
	if r := refusal(t, submit("ada")).Reasons[0]; r.Bound != "3" {
		t.Errorf("%+v", r)
	}
}

// A limit per period reserves what a job may come to, gives back what it didn't take,
// nothing for what the platform lost, and is a new one in the next period, whether
// that was opened or not.
func TestHoursPerPeriod(t *testing.T) {
	s := newSim(t)
	root := s.user("root")
	s.must(t, root, command.LimitPut{Account: "nlp", Resource: "gpu-hours", Per: limits.Per{Unit: limits.Day}, Max: 5 * 3600 * 1000, Carry: limits.Carry{Milli: 500}})
	l, _ := s.w.Limits.Limits.Get(1)
	start := func() *workload.Job {
		t.Helper()
		j := s.must(t, s.user("ada"), command.Submit{Spec: example()}).(admission.Accepted).Job // two hours
		s.must(t, system, command.JobStart{Job: j.ID})
		return s.job(t, j.ID)
	}
	used := func(want int64) {
		t.Helper()
		if b := s.w.Limits.BoundOf(l, s.now); b.Used != want*1000 {
			t.Errorf("%d s are used, want %d", b.Used, want)
		}
	}
	first, second, third := start(), start(), start()
	if used(4 * 3600); third.State != workload.Queued {
		t.Fatalf("the third is %s", third.State)
	}
	why, _, err := admission.Why(s.w.View(s.now), third)
	if err != nil {
		t.Fatal(err)
	}
	if want := "would use 2 gpu-hours, account nlp has 1 left of 5 today, until 2026-11-02 00:00 UTC"; why.Reasons[0].Message != want || why.Reasons[0].Never {
		t.Errorf("%+v", why.Reasons)
	}
	midnight := time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC).UnixNano()
	if w := why.Window; w.Kind != placement.StartEstimated || w.Start != midnight || w.Position != 1 {
		t.Errorf("%+v, want the start of the next period", w)
	}
	rolls := &sim{w: s.w.Copy(), now: s.now}
	rolls.must(t, root, command.LimitPut{Account: "nlp", Resource: "cpu-hours", Per: limits.Per{Unit: limits.Rolling, Span: 24 * hour}, Max: 17 * 3600 * 1000})
	if why, _, err := admission.Why(rolls.w.View(rolls.now), third); err != nil || why.Window.Kind != placement.StartUnknown {
		t.Errorf("%+v %v, with a period that rolls on", why.Window, err)
	}
	s.must(t, system, command.JobObserved{Job: first.ID, N: 1, Running: true, Started: s.now})
	s.now += hour / 2
	s.must(t, system, command.JobObserved{Job: first.ID, N: 1, Exited: true, Finished: s.now})
	used(2*3600 + 1800)
	s.must(t, system, command.JobStart{Job: third.ID})
	used(4*3600 + 1800)
	s.must(t, system, command.JobObserved{Job: second.ID, N: 1, Lost: true})
	used(2*3600 + 1800)

	s.now += 24 * hour
	used(0)
	if b := s.w.Limits.BoundOf(l, s.now); b.Max != (5*3600+4500)*1000 {
		t.Errorf("%+v", b)
	}
	s.must(t, system, command.PeriodsDue{})
	s.must(t, system, command.JobObserved{Job: third.ID, N: 1, Exited: true, Finished: s.now, Started: s.now - 24*hour})
	used(0)
	if b := s.w.Limits.BoundOf(l, s.now); b.Max != (5*3600+4500)*1000 {
		t.Errorf("%+v", b)
	}

	s.must(t, root, command.LimitPut{Account: "nlp", Resource: "gpu-hours", Per: limits.Per{Unit: limits.Day}, Max: 600 * 1000}) // and what was carried over
	_, err = s.do(s.user("ada"), command.Submit{Spec: example()})
	if f := refusal(t, err); f.Reasons[0].Code != codes.LimitHours || !f.Reasons[0].Never || f.Remedy == nil || f.Remedy.Flags != "--time 1h25m" {
		t.Errorf("%+v %+v", f.Reasons, f.Remedy)
	}
}
