package command_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/admission"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

// running is a job of ada's with two devices that runs.
func (s *sim) running(t *testing.T) id.Job {
	t.Helper()
	spec := example()
	spec.GPU, spec.Grace = 2000, 30e9
	k := s.must(t, s.user("ada"), command.Submit{Spec: spec}).(admission.Accepted).Job.ID
	s.must(t, system, command.JobStart{Job: k, Image: "sha256:1"})
	s.must(t, system, command.JobObserved{Job: k, N: 1, Running: true, Started: s.now})
	return k
}

func (s *sim) add(t *testing.T, k id.Job, spec workload.StepSpec) int32 {
	t.Helper()
	return s.must(t, s.user("ada"), command.StepAdd{Job: k, Spec: spec}).(*workload.Step).N
}

// runStep lets job 1 run, with a step that waits.
func (s *sim) runStep() {
	j, _ := s.w.Workload.Jobs.Get(1)
	next := *j
	next.State, next.Attempt, next.Steps = workload.Running, workload.Attempt{N: 1, Node: "gpu1", Started: s.now, Until: s.now + hour}, 2
	s.w.Fold([]world.Change{workload.JobSet{Row: &next}, workload.StepSet{Row: &workload.Step{Job: 1, N: 2, Attempt: 1, State: workload.Queued}}})
}

// step is where a step stands, in brief.
func (s *sim) step(k id.Job, n int32) string {
	step, ok := s.w.Workload.Step(k, n)
	if !ok {
		return "gone"
	}
	return strings.TrimSpace(string(step.State) + " " + strings.Join(step.Devices, " "))
}

func (s *sim) beginStep(t *testing.T, k id.Job, n int32) {
	t.Helper()
	s.must(t, system, command.StepStart{Job: k, N: n, Image: "sha256:2"})
	s.must(t, system, command.StepObserved{Job: k, N: n, Attempt: 1, Running: true, Started: s.now})
}

// A step's life: it waits for what it asked for, not for its turn, and ends by itself,
// by its own time, by a stop, or with its job.
func TestLifeOfAStep(t *testing.T) {
	s := newSim(t)
	k := s.running(t)
	one, two := s.add(t, k, workload.StepSpec{GPU: 1000}), s.add(t, k, workload.StepSpec{GPU: 2000, CPU: 1000})
	three, four := s.add(t, k, workload.StepSpec{GPU: 1000, Time: 60e9}), s.add(t, k, workload.StepSpec{})
	for _, n := range []int32{one, two, three, four} {
		s.beginStep(t, k, n)
	}
	want := func(at string, states ...string) {
		t.Helper()
		var got []string
		for n := range int32(len(states)) {
			got = append(got, s.step(k, one+n))
		}
		if diff := cmp.Diff(states, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", at, diff)
		}
	}
	want("at first", "running SIM-0", "queued", "running SIM-1", "running SIM-0 SIM-1")

	s.must(t, system, command.StepObserved{Job: k, N: one, Attempt: 1, Exited: true, Finished: s.now, ExitCode: 3})
	s.now += 60e9
	s.must(t, system, command.StepDue{Job: k, N: three})
	want("its time is up", "gone", "queued", "stopping SIM-1", "running SIM-0 SIM-1")
	s.now += 30e9
	s.must(t, system, command.StepDue{Job: k, N: three})
	if step, _ := s.w.Workload.Step(k, three); !step.Kill || step.Cause != codes.TimedOut {
		t.Errorf("after its grace: %+v", step)
	}
	ended := s.must(t, system, command.StepObserved{Job: k, N: three, Attempt: 1, Exited: true, Finished: s.now, ExitCode: 137})
	if got := ended.(*workload.Step); got.Outcome != codes.TimedOut || got.ExitCode != 137 {
		t.Errorf("out of time: %+v", got)
	}
	s.beginStep(t, k, two)
	want("both devices are free", "gone", "running SIM-0 SIM-1", "gone", "running SIM-0 SIM-1")

	s.must(t, s.user("ada"), command.StepStop{Job: k, N: four, Grace: 5e9})
	if step, _ := s.w.Workload.Step(k, four); step.Due() != s.now+5e9 || step.Cause != codes.Cancelled {
		t.Errorf("stopped: %+v", step)
	}
	five := s.add(t, k, workload.StepSpec{GPU: 1000})
	if got := s.must(t, s.user("ada"), command.StepStop{Job: k, N: five, Grace: -1}).(*workload.Step); got.State != workload.Ended || got.Outcome != codes.Cancelled {
		t.Errorf("a waiting one, stopped: %+v", got)
	}
	s.must(t, system, command.JobObserved{Job: k, N: 1, Exited: true, Finished: s.now})
	if n := s.w.Workload.Steps.Len(); n != 0 {
		t.Errorf("%d steps outlive their job", n)
	}
	if row := s.stepEnded(k, two); row.Outcome != codes.Cancelled || row.Message != "the job has ended" {
		t.Errorf("ended with its job: %+v", row)
	}
}

// stepEnded is the last row of a step, as the sim's last command put it.
func (s *sim) stepEnded(k id.Job, n int32) workload.Step {
	for _, c := range s.last {
		if set, ok := c.(workload.StepSet); ok && set.Row.Job == k && set.Row.N == n {
			return *set.Row
		}
	}
	return workload.Step{}
}

// What is seen of a step that the world doesn't know, or of an attempt that is over,
// changes nothing; a job that is queued again has none of its steps any more.
func TestStepsOfAnAttempt(t *testing.T) {
	s := newSim(t)
	k := s.running(t)
	n := s.add(t, k, workload.StepSpec{})
	s.beginStep(t, k, n)
	before := s.w.Seq
	for _, cmd := range []world.Command{
		command.StepObserved{Job: k, N: n, Attempt: 2, Exited: true}, command.StepObserved{Job: k, N: 9, Attempt: 1, Exited: true},
		command.StepObserved{Job: 99, N: n, Attempt: 1, Exited: true}, command.StepStart{Job: k, N: n}, command.StepDue{Job: k, N: n},
		command.StepFail{Job: k, N: n, Message: "no such image"},
	} {
		s.must(t, system, cmd)
	}
	if s.w.Seq != before || s.step(k, n) != "running SIM-0 SIM-1" {
		t.Errorf("the step is %s", s.step(k, n))
	}
	s.must(t, s.user("ada"), command.JobRequeue{Job: k})
	s.must(t, system, command.JobObserved{Job: k, N: 1, Exited: true, Finished: s.now, ExitCode: 143})
	if got := s.job(t, k).State; got != workload.Queued || s.step(k, n) != "gone" {
		t.Errorf("the job is %s, its step %s", got, s.step(k, n))
	}
	if _, err := s.do(s.user("ada"), command.StepAdd{Job: k}); fault.Of(err) != codes.Conflict {
		t.Errorf("a step of a job that waits: %v", err)
	}
	s.must(t, system, command.JobStart{Job: k})
	s.must(t, system, command.JobObserved{Job: k, N: 2, Running: true, Started: s.now})
	if next := s.add(t, k, workload.StepSpec{}); next != n+1 {
		t.Errorf("the next step is %d", next)
	}
}

// Nobody but the job's user adds a step; what can never be is refused with what there is.
func TestStepsRefused(t *testing.T) {
	s := newSim(t)
	k := s.running(t)
	for name, tt := range map[string]struct {
		who  access.Principal
		cmd  world.Command
		code codes.Code
		says string
	}{
		"somebody else's":   {s.user("ben"), command.StepAdd{Job: k}, codes.NotFound, "no such job"},
		"an admin's":        {s.user("root"), command.StepAdd{Job: k}, codes.Denied, "isn't yours"},
		"no job's":          {s.user("ada"), command.StepAdd{Job: 99}, codes.NotFound, "no such job: 99"},
		"too many devices":  {s.user("ada"), command.StepAdd{Job: k, Spec: workload.StepSpec{GPU: 3000}}, codes.Refused, "asked for gpu 3, job 1 has 2"},
		"too many cores":    {s.user("ada"), command.StepAdd{Job: k, Spec: workload.StepSpec{CPU: 8001}}, codes.Refused, "asked for cpu 8.001, job 1 has 8"},
		"too much memory":   {s.user("ada"), command.StepAdd{Job: k, Spec: workload.StepSpec{Mem: 65 << 30}}, codes.Refused, "asked for mem 65G, job 1 has 64G"},
		"on the host":       {s.user("ada"), command.StepAdd{Job: k, Spec: workload.StepSpec{Host: true, Command: []string{"hostname"}}}, codes.Refused, "aren't allowed here"},
		"a forbidden mount": {s.user("ada"), command.StepAdd{Job: k, Spec: workload.StepSpec{Mounts: []workload.Mount{{Source: "/etc"}}}}, codes.Refused, "mounting /etc isn't allowed"},
		"stop somebody's":   {s.user("ben"), command.StepStop{Job: k, N: 2}, codes.NotFound, "no such job"},
		"stop none":         {s.user("ada"), command.StepStop{Job: k, N: 2}, codes.NotFound, "no such step: 1.2"},
		"stop the primary":  {s.user("ada"), command.StepStop{Job: k, N: 1}, codes.NotFound, "no such step: 1.1"},
		"start by a user":   {s.user("ada"), command.StepStart{Job: k, N: 2}, codes.Denied, "only the server"},
		"observe by a user": {s.user("root"), command.StepObserved{Job: k, N: 2}, codes.Denied, "only the server"},
		"fail by a user":    {s.user("root"), command.StepFail{Job: k, N: 2}, codes.Denied, "only the server"},
		"be due for a user": {s.user("root"), command.StepDue{Job: k, N: 2}, codes.Denied, "only the server"},
	} {
		_, err := s.do(tt.who, tt.cmd)
		var f *fault.Error
		if !errors.As(err, &f) || f.Code != tt.code || !strings.Contains(f.Message, tt.says) {
			t.Errorf("%s: %v, want %s with %q", name, err, tt.code, tt.says)
		}
		if tt.code == codes.Refused && (len(f.Reasons) != 1 || !f.Reasons[0].Never) {
			t.Errorf("%s: reasons %+v", name, f.Reasons)
		}
	}
	for range workload.MaxSteps {
		s.add(t, k, workload.StepSpec{})
	}
	if _, err := s.do(s.user("ada"), command.StepAdd{Job: k}); fault.Of(err) != codes.Conflict {
		t.Errorf("one step more than there may be: %v", err)
	}
}

// A batch job's steps that are containers need an image of their own, unless it names one for
// them; those on the host need none.
func TestStepsOfABatchJob(t *testing.T) {
	s := newSim(t)
	site := s.w.Site
	site.HostPrograms = true
	s.w.Fold([]world.Change{world.SiteSet{Row: site}})
	spec := example()
	spec.Kind, spec.Image = workload.KindBatch, ""
	k := s.must(t, s.user("ada"), command.Submit{Spec: spec}).(admission.Accepted).Job.ID
	s.must(t, system, command.JobStart{Job: k})
	s.must(t, system, command.JobObserved{Job: k, N: 1, Running: true, Started: s.now})
	s.add(t, k, workload.StepSpec{Host: true, Command: []string{"hostname"}})
	s.add(t, k, workload.StepSpec{Image: "train:1"})
	_, err := s.do(s.user("ada"), command.StepAdd{Job: k})
	if f := new(fault.Error); !errors.As(err, &f) || f.Code != codes.Invalid || !strings.Contains(f.Error(), "job 1 has none") {
		t.Errorf("a container without an image: %v", err)
	}
	if host, ok := s.w.Workload.Step(k, 2); !ok || host.Spec.Image != "" || !host.Spec.Host {
		t.Errorf("the host step is %+v", host)
	}
}

// However the steps of a job that runs come, start, end and are stopped, they have no more
// than it has, go from state to state as they may, and don't outlive its attempt.
func TestStepsFitWhateverHappens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := &history{sim: newSim(t), tiles: map[string][]ledger.Tile{}, rows: map[id.Job]*workload.Job{}, states: map[[2]int64]workload.JobState{}, ran: map[id.Attempt]*workload.Job{}}
		spec := example()
		spec.GPU, spec.Time, spec.Grace = 2000, 40*hour, 30e9
		h.do(t, h.user("ada"), command.Submit{Spec: spec})
		for range rapid.IntRange(1, 3).Draw(t, "attempts") {
			h.do(t, system, command.JobStart{Job: 1, Image: "sha256:1"})
			j, _ := h.w.Workload.Jobs.Get(1)
			h.do(t, system, command.JobObserved{Job: 1, N: j.Attempt.N, Running: true, Started: h.now})
			for range rapid.IntRange(1, 8).Draw(t, "rounds") {
				h.now += rapid.Int64Range(0, hour/2).Draw(t, "passes")
				h.steps(t, h.user("ben"))
				h.stepsFit(t)
			}
			h.do(t, h.user("ada"), command.JobRequeue{Job: 1})
			h.do(t, system, command.JobObserved{Job: 1, N: j.Attempt.N, Exited: true, Finished: h.now, ExitCode: 143})
			if n := h.w.Workload.Steps.Len(); n != 0 {
				t.Fatalf("%d steps outlive their attempt", n)
			}
		}
	})
}
