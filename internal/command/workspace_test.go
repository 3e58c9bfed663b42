package command_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/admission"
	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

// notebook is a workspace's spec.
func notebook() workload.Spec {
	s := example()
	s.Kind, s.Name, s.Image, s.Grace = workload.KindWorkspace, "nb", "jupyter:1", 30e9
	s.Apps = []workload.App{{Name: "web", Port: 8888, Path: "/"}}
	return s
}

// workspace makes job 1 a workspace that is stopped.
func (s *sim) workspace() {
	old, _ := s.w.Workload.Jobs.Get(1)
	j := *old
	j.Spec.Kind, j.Spec.Name = workload.KindWorkspace, "nb"
	ended := *old
	ended.State = workload.Ended
	s.w.Fold([]world.Change{workload.JobSet{Row: &ended}})
	j.Rests(s.now, codes.Stopped, 0, "by ada")
	s.w.Fold([]world.Change{workload.JobSet{Row: &j}})
}

// opened is a notebook of ada's that runs.
func (s *sim) opened(t *testing.T) id.Job {
	t.Helper()
	k := s.must(t, s.user("ada"), command.Submit{Spec: notebook()}).(admission.Accepted).Job.ID
	s.begun(t, k)
	return k
}

// begun lets a waiting job run.
func (s *sim) begun(t *testing.T, k id.Job) {
	t.Helper()
	s.must(t, system, command.JobStart{Job: k, Image: "sha256:1"})
	s.must(t, system, command.JobObserved{Job: k, N: s.job(t, k).Attempt.N, Running: true, Started: s.now})
}

// over lets the program of a job end.
func (s *sim) over(t *testing.T, k id.Job, exit int32) {
	t.Helper()
	s.must(t, system, command.JobObserved{Job: k, N: s.job(t, k).Attempt.N, Exited: true, Finished: s.now, ExitCode: exit})
}

// A workspace's life: it is stopped, and holds and costs nothing; it starts again at the
// price of that day, runs out of time, and is there until it is deleted.
func TestLifeOfAWorkspace(t *testing.T) {
	s := newSim(t)
	ada := s.user("ada")
	k := s.opened(t)
	s.must(t, system, command.AppsReady{Job: k, N: 1})
	if j := s.job(t, k); j.Attempt.Ready != s.now {
		t.Errorf("ready at %d", j.Attempt.Ready)
	}
	s.now += hour
	s.must(t, ada, command.JobStop{Job: k})
	if _, err := s.do(ada, command.WorkspaceStart{Job: k}); fault.Of(err) != codes.Conflict {
		t.Errorf("started while it is being stopped: %v", err)
	}
	s.over(t, k, 143)
	first := money.Micros(1144 * money.Credit / 1000) // an hour's
	j := s.job(t, k)
	if j.State != workload.Stopped || j.Outcome != codes.Stopped || j.ExitCode != 143 || j.Message != "by ada" || j.Charged != first || j.Deposit != j.Charged+j.Returned {
		t.Errorf("stopped: %+v", j)
	}
	if got := s.w.Ledger.Balance(ledger.OfGrant(1)); got != 500*money.Credit-first {
		t.Errorf("the grant has %s", got)
	}
	if tile := s.w.Ledger.OpenTiles(j.Attempt.Devices[0])[0]; tile.Cause != ledger.CauseIdle {
		t.Errorf("the device is %+v", tile)
	}

	// Twice as dear, and with a core more.
	s.now += 24 * hour
	s.must(t, s.user("root"), command.PricePut{CPU: 20_000, Mem: 2_000, Devices: []catalog.ModelRate{{Model: "a100", Rate: money.Rate(2 * money.Credit)}}})
	spec := j.Spec
	spec.CPU = 9000
	got := s.must(t, ada, command.WorkspaceStart{Job: k, Spec: &spec}).(admission.Accepted)
	if got.Job.State != workload.Queued || got.Job.Since() != s.now || got.Job.Outcome != "" || got.Job.Deposit <= j.Deposit {
		t.Errorf("started: %+v", got.Job)
	}
	s.begun(t, k)
	s.now += 2 * hour
	s.must(t, system, command.JobDue{Job: k})
	s.over(t, k, 143)
	second := money.Micros(2 * (2*money.Credit + 9*20_000 + 64*2_000))
	j = s.job(t, k)
	if j.State != workload.Stopped || j.Outcome != codes.TimedOut || j.Message != "" || j.Charged != first+second || len(j.Past) != 1 {
		t.Errorf("out of time: charged %s, want %s: %+v", j.Charged, first+second, j)
	}
	if got := j.TermsOf(j.Past[0]); got.CPU != 8000 {
		t.Errorf("the first run had %+v", got)
	}
	s.must(t, ada, command.JobStop{Job: k}) // it is
	s.must(t, ada, command.JobStop{Job: k, Delete: true})
	if _, live := s.w.Workload.Jobs.Get(k); live {
		t.Error("it is there after its deletion")
	}
	if row := s.ended(k); row.Outcome != codes.Cancelled || row.Message != "deleted by ada" || row.Charged != first+second {
		t.Errorf("ended: %+v", row)
	}
	s.must(t, ada, command.Submit{Spec: notebook()}) // its name is free
}

// ended is the last row of a job, as the last command put it.
func (s *sim) ended(k id.Job) workload.Job {
	for _, c := range s.last {
		if set, ok := c.(workload.JobSet); ok && set.Row.ID == k {
			return *set.Row
		}
	}
	return workload.Job{}
}

// Whatever ends a run of a workspace leaves it stopped, and says why; what is queued again
// goes on by itself.
func TestWorkspacesStay(t *testing.T) {
	stop := func(now, remove bool) func(*testing.T, *sim, id.Job) {
		return func(t *testing.T, s *sim, k id.Job) {
			s.must(t, s.user("ada"), command.JobStop{Job: k, Now: now, Delete: remove})
		}
	}
	exit := func(cmd command.JobObserved) func(*testing.T, *sim, id.Job) {
		return func(t *testing.T, s *sim, k id.Job) {
			cmd.Job, cmd.N = k, s.job(t, k).Attempt.N
			s.must(t, system, cmd)
		}
	}
	type acts []func(*testing.T, *sim, id.Job)
	for name, tt := range map[string]struct {
		change func(*workload.Spec)
		do     acts
		want   string // state, outcome, exit code, message
	}{
		"its program ends":    {nil, acts{exit(command.JobObserved{Exited: true})}, "stopped completed 0 "},
		"its program fails":   {nil, acts{exit(command.JobObserved{Exited: true, ExitCode: 3})}, "stopped failed 3 "},
		"no memory":           {nil, acts{exit(command.JobObserved{Exited: true, ExitCode: 137, OOM: true})}, "stopped out_of_memory 137 "},
		"its node fails":      {nil, acts{exit(command.JobObserved{Lost: true})}, "stopped node_failed 0 the machine or its runtime went down under it"},
		"a requeue by wish":   {func(s *workload.Spec) { s.Requeue = []string{"node"} }, acts{exit(command.JobObserved{Lost: true})}, "queued  0 attempt 1 node failed: queued again"},
		"stopped, node fails": {func(s *workload.Spec) { s.Requeue = []string{"node"} }, acts{stop(false, false), exit(command.JobObserved{Lost: true})}, "stopped node_failed 0 the machine or its runtime went down under it"},
		"killed":              {nil, acts{stop(true, false), exit(command.JobObserved{Exited: true, ExitCode: 137})}, "stopped stopped 137 by ada"},
		"deleted":             {nil, acts{stop(false, true), exit(command.JobObserved{Exited: true, ExitCode: 143})}, "ended cancelled 143 "},
		"stopped, deleted":    {nil, acts{stop(false, false), stop(false, true), exit(command.JobObserved{Exited: true, ExitCode: 143})}, "ended cancelled 143 "},
		"deleted, stopped":    {nil, acts{stop(false, true), stop(false, false), exit(command.JobObserved{Lost: true})}, "ended node_failed 0 the machine or its runtime went down under it"},
		"requeued, stopped": {nil, acts{func(t *testing.T, s *sim, k id.Job) { s.must(t, s.user("ada"), command.JobRequeue{Job: k}) },
			stop(false, false), exit(command.JobObserved{Exited: true, ExitCode: 143})}, "stopped stopped 143 by ada"},
		"can't start": {nil, acts{exit(command.JobObserved{Exited: true}), func(t *testing.T, s *sim, k id.Job) {
			s.must(t, s.user("ada"), command.WorkspaceStart{Job: k})
			s.must(t, system, command.JobFail{Job: k, Message: "no such image"})
		}}, "stopped failed 125 no such image"},
		"stopped in the queue": {nil, acts{exit(command.JobObserved{Exited: true}), func(t *testing.T, s *sim, k id.Job) {
			s.must(t, s.user("ada"), command.WorkspaceStart{Job: k})
		}, stop(false, false)}, "stopped stopped 125 by ada"},
		"deleted in the queue": {nil, acts{exit(command.JobObserved{Exited: true}), func(t *testing.T, s *sim, k id.Job) {
			s.must(t, s.user("ada"), command.WorkspaceStart{Job: k})
		}, stop(false, true)}, "ended cancelled 130 deleted by ada"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSim(t)
			spec := notebook()
			if tt.change != nil {
				tt.change(&spec)
			}
			k := s.must(t, s.user("ada"), command.Submit{Spec: spec}).(admission.Accepted).Job.ID
			s.begun(t, k)
			s.now += 60e9
			for _, act := range tt.do {
				act(t, s, k)
			}
			j, live := s.w.Workload.Jobs.Get(k)
			if !live {
				row := s.ended(k)
				j = &row
			}
			if diff := cmp.Diff(tt.want, fmt.Sprint(j.State, " ", j.Outcome, " ", j.ExitCode, " ", j.Message)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if _, held := s.w.Placement.Holds.Get(k); held {
				t.Error("it holds its device")
			}
		})
	}
}

// A start is decided as a submission is; one that is refused says why, with what would do,
// and leaves the workspace stopped.
func TestWorkspaceStartRefused(t *testing.T) {
	s := newSim(t)
	ada := s.user("ada")
	k := s.opened(t)
	s.over(t, k, 0)
	s.must(t, s.user("root"), command.NodeDrain{Node: "gpu1", Reason: "disk"})
	spec := s.job(t, k).Spec
	spec.GPU = 8000
	_, err := s.do(ada, command.WorkspaceStart{Job: k, Spec: &spec})
	f := refusal(t, err)
	if f.Reasons[0].Code != codes.DevicesNeverFit || f.Remedy == nil || f.Remedy.Set["gpu"] != "4" || f.ID != "1" {
		t.Errorf("refused: %+v, remedy %+v", f, f.Remedy)
	}
	if j := s.job(t, k); j.State != workload.Stopped || j.Spec.GPU != 1000 || !strings.HasPrefix(j.Message, "not started: asked for 8 gpu") || j.Deposit != j.Charged+j.Returned {
		t.Errorf("after a refusal: %+v", j)
	}
	for name, cmd := range map[string]world.Command{
		"hold":    command.JobHold{Job: k},
		"requeue": command.JobRequeue{Job: k},
	} {
		if _, err := s.do(ada, cmd); fault.Of(err) != codes.Conflict || !strings.Contains(err.Error(), "croft workspace start nb") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for field, change := range map[string]func(*workload.Spec){
		"kind": func(s *workload.Spec) { s.Kind = workload.KindContainer }, "name": func(s *workload.Spec) { s.Name = "other" }, "account": func(s *workload.Spec) { s.Account = "vision" },
	} {
		spec := s.job(t, k).Spec
		change(&spec)
		var f *fault.Error
		if _, err := s.do(ada, command.WorkspaceStart{Job: k, Spec: &spec}); !errors.As(err, &f) || len(f.Fields) != 1 || f.Fields[0].Path != field {
			t.Errorf("another %s: %v", field, err)
		}
	}
	s.must(t, s.user("root"), command.MemberPut{Account: "nlp", User: "ada", Role: ""})
	if _, err := s.do(s.user("root"), command.WorkspaceStart{Job: k}); fault.Of(err) != codes.Invalid {
		t.Errorf("of one who left the account: %v", err)
	}
	other := s.must(t, s.user("ben"), command.Submit{Spec: example()}).(admission.Accepted).Job.ID
	if _, err := s.do(s.user("ben"), command.WorkspaceStart{Job: other}); fault.Of(err) != codes.Conflict {
		t.Errorf("of a job that is none: %v", err)
	}
}

// A user has one workspace of a name, and so many; the same names are others' to have.
func TestWorkspacesOfAUser(t *testing.T) {
	s := newSim(t)
	site := s.w.Site
	site.UserWorkspaces = 2
	s.w.Fold([]world.Change{world.SiteSet{Row: site}})
	submit := func(p access.Principal, name string) codes.Reason {
		spec := notebook()
		spec.Name = name
		_, err := s.do(p, command.Submit{Spec: spec})
		if err == nil {
			return ""
		}
		return refusal(t, err).Reasons[0].Code
	}
	ada, ben := s.user("ada"), s.user("ben")
	for i, tt := range []struct {
		who  access.Principal
		name string
		want codes.Reason
	}{
		{ada, "nb", ""}, {ada, "nb", codes.WorkspaceExists}, {ben, "nb", ""}, {ada, "code", ""}, {ada, "more", codes.WorkspaceLimit}, {ben, "more", ""},
	} {
		if got := submit(tt.who, tt.name); got != tt.want {
			t.Errorf("%d: %s's %s: %q, want %q", i, tt.who.Name, tt.name, got, tt.want)
		}
	}
	job := example()
	job.Name = "nb"
	s.must(t, ada, command.Submit{Spec: job}) // a job may be called like one
	s.must(t, ada, command.JobStop{Job: 1, Delete: true})
	if got := submit(ada, "more"); got != "" {
		t.Errorf("after a deletion: %s", got)
	}
}

// What preempts a workspace pays nothing back: what was done in it is there still. It is
// queued again or, if the QoS has it so, stopped.
func TestWorkspacePreempted(t *testing.T) {
	for cancel, want := range map[bool]string{false: "queued", true: "stopped preempted by job 2 of QoS urgent"} {
		s := newSim(t)
		keep := false
		s.must(t, s.user("root"), command.QoSPut{Name: "normal", Contract: command.ContractChange{Cancel: &cancel, Keep: &keep}})
		s.must(t, s.user("root"), command.QoSPut{Create: true, Name: "urgent", Priority: num(1000), Preempts: &[]string{"normal"}})
		spec := notebook()
		spec.GPU = 4000
		k := s.must(t, s.user("ada"), command.Submit{Spec: spec}).(admission.Accepted).Job.ID
		s.begun(t, k)
		s.now += hour
		urgent := example()
		urgent.QoS = "urgent"
		by := s.must(t, s.user("ada"), command.Submit{Spec: urgent}).(admission.Accepted).Job.ID
		s.must(t, system, command.JobPreempt{Job: k, For: by, Node: "gpu1"})
		s.over(t, k, 143)
		j := s.job(t, k)
		got := string(j.State)
		if j.State == workload.Stopped {
			got += " " + string(j.Outcome) + " " + j.Message
		}
		if got != want || j.Charged == 0 || j.Refunded != 0 {
			t.Errorf("%s, charged %s, given back %s; want %s", got, j.Charged, j.Refunded, want)
		}
	}
}
