package command_test

import (
	"testing"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/admission"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
	"github.com/google/go-cmp/cmp"
)

// The main job: deposit, devices, charge to the microcredit, the rest returned.
func TestTheMainJob(t *testing.T) {
	s := newSim(t)
	got := s.must(t, s.user("ada"), command.Submit{Spec: example()}).(admission.Accepted)
	if got.Job.Deposit.String() != "2.288" {
		t.Errorf("deposit %s, want 2.288", got.Job.Deposit)
	}
	if b := s.w.Ledger.Balance(ledger.OfGrant(1)); b != 500*money.Credit-got.Job.Deposit {
		t.Errorf("grant has %s", b)
	}
	s.must(t, system, command.JobStart{Job: got.Job.ID, Image: "sha256:1"})
	j := s.job(t, got.Job.ID)
	if j.State != workload.Starting || len(j.Attempt.Devices) != 1 {
		t.Fatalf("state %s devices %v", j.State, j.Attempt.Devices)
	}
	s.now += 5e9
	s.must(t, system, command.JobObserved{Job: j.ID, N: 1, Running: true, Started: s.now})
	start := s.now
	s.now += 72 * 60e9
	s.must(t, system, command.JobObserved{Job: j.ID, N: 1, Exited: true, Finished: s.now})
	if _, ok := s.w.Workload.Jobs.Get(j.ID); ok {
		t.Error("an ended job is still live")
	}
	// 1h12m: gpu 1.2 + cpu 0.096 + mem 0.0768
	if spent := s.w.Ledger.Balance(ledger.Spent(1)); spent.String() != "1.3728" {
		t.Errorf("spent %s, want 1.3728", spent)
	}
	if b := s.w.Ledger.Balance(ledger.OfGrant(1)); b.String() != "498.6272" {
		t.Errorf("grant has %s", b)
	}
	if starting := s.w.Ledger.Balance(ledger.Waste(ledger.CauseStarting)); starting <= 0 {
		t.Error("the five seconds before the start aren't the platform's")
	}
	tile := s.w.Ledger.OpenTiles(j.Attempt.Devices[0])[0]
	if tile.Cause != ledger.CauseIdle || tile.From != s.now || start == 0 {
		t.Errorf("open tile %+v", tile)
	}
}

// A refusal names the bound and a remedy that the same decision admits.
func TestRefusals(t *testing.T) {
	tests := map[string]struct {
		change func(*workload.Spec)
		setup  func(*testing.T, *sim)
		code   codes.Reason
		set    map[string]string
	}{
		"more devices than any node": {
			change: func(j *workload.Spec) { j.GPU = 8000 }, code: codes.DevicesNeverFit, set: map[string]string{"gpu": "4"},
		},
		"more cores than any node": {
			change: func(j *workload.Spec) { j.CPU = 128_000 }, code: codes.CPUNeverFit, set: map[string]string{"cpu": "64"},
		},
		"an unknown model": {
			change: func(j *workload.Spec) { j.Model = "h100" }, code: codes.ModelUnknown, set: map[string]string{"model": ""},
		},
		"longer than the partition allows": {
			change: func(j *workload.Spec) { j.Time = 100 * hour }, code: codes.WallOverPartition, set: map[string]string{"time": "2d"},
		},
		"more money than there is": {
			setup: func(t *testing.T, s *sim) {
				s.must(t, s.user("root"), command.AccountPut{Create: true, Name: "poor", Billing: text("enforce")})
				s.must(t, s.user("root"), command.MemberPut{Account: "poor", User: "ada", Role: "member"})
				s.must(t, s.user("root"), command.GrantGive{Account: "poor", Amount: money.Credit, Source: "x"})
			},
			change: func(j *workload.Spec) { j.Account = "poor" }, code: codes.Funds, set: map[string]string{"time": "52m"},
		},
		"a limit on devices": {
			setup: func(t *testing.T, s *sim) {
				s.must(t, s.user("root"), command.LimitPut{Account: "nlp", Resource: limits.GPU, Max: 2000})
			},
			change: func(j *workload.Spec) { j.GPU = 3000 }, code: codes.LimitDevices, set: map[string]string{"gpu": "2"},
		},
		"a folder outside the allowed ones": {
			change: func(j *workload.Spec) { j.Mounts = []workload.Mount{{Source: "/etc", Target: "/x"}} }, code: codes.MountNotAllowed,
		},
		"a program on the machine": {
			change: func(j *workload.Spec) { j.Kind = workload.KindBatch }, code: codes.HostDenied,
		},
		"a folder that only begins like an allowed one": {
			change: func(j *workload.Spec) { j.Mounts = []workload.Mount{{Source: "/database", Target: "/x"}} }, code: codes.MountNotAllowed,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := newSim(t)
			if tt.setup != nil {
				tt.setup(t, s)
			}
			spec := example()
			spec.Account = "nlp"
			tt.change(&spec)
			before := s.w.Ledger.Balance(ledger.OfGrant(1))
			_, err := s.do(s.user("ada"), command.Submit{Spec: spec})
			f := refusal(t, err)
			if f.Reasons[0].Code != tt.code || f.Reasons[0].Message == "" {
				t.Errorf("reason %+v, want %s", f.Reasons[0], tt.code)
			}
			var set map[string]string
			if f.Remedy != nil {
				set = f.Remedy.Set
			}
			if diff := cmp.Diff(tt.set, set); diff != "" {
				t.Errorf("remedy (-want +got)\n%s", diff)
			}
			if f.ID != "R-1" || s.w.Workload.NextRefusal() != 2 {
				t.Errorf("id %q", f.ID)
			}
			if after := s.w.Ledger.Balance(ledger.OfGrant(1)); after != before {
				t.Errorf("a refusal moved %s", before-after)
			}
		})
	}
}

// A job that is merely too early waits, and says for what; it starts by itself.
func TestWaitingIsNotRefusal(t *testing.T) {
	s := newSim(t)
	spec := example()
	spec.GPU = 4000
	first := s.must(t, s.user("ada"), command.Submit{Spec: spec}).(admission.Accepted).Job
	s.must(t, system, command.JobStart{Job: first.ID})
	second := s.must(t, s.user("ada"), command.Submit{Spec: example()}).(admission.Accepted).Job
	s.must(t, system, command.JobStart{Job: second.ID})
	if got := s.job(t, second.ID).State; got != workload.Queued {
		t.Fatalf("state %s", got)
	}
	s.must(t, system, command.JobStart{Job: second.ID})
	s.must(t, system, command.JobObserved{Job: first.ID, N: 1, Running: true, Started: s.now})
	s.now += hour
	s.must(t, system, command.JobObserved{Job: first.ID, N: 1, Exited: true, Finished: s.now})
	s.must(t, system, command.JobStart{Job: second.ID})
	if got := s.job(t, second.ID).State; got != workload.Starting {
		t.Errorf("state %s", got)
	}
}

// A job that outlives its limit: SIGTERM, then SIGKILL; the user pays at most to
// the limit and grace, the rest is the platform's.
func TestTheClockOfAJob(t *testing.T) {
	s := newSim(t)
	spec := example()
	spec.Time, spec.Grace, spec.Signal = hour, 60e9, workload.Signal{Name: "USR1", Before: 120e9}
	j := s.must(t, s.user("ada"), command.Submit{Spec: spec}).(admission.Accepted).Job
	s.must(t, system, command.JobStart{Job: j.ID})
	s.must(t, system, command.JobObserved{Job: j.ID, N: 1, Running: true, Started: s.now})
	start := s.now
	for _, step := range []struct {
		after int64
		check func(*workload.Job) bool
	}{
		{hour - 121e9, func(j *workload.Job) bool { return !j.Attempt.Signaled && j.State == workload.Running }},
		{hour - 120e9, func(j *workload.Job) bool { return j.Attempt.Signaled && j.State == workload.Running }},
		{hour, func(j *workload.Job) bool { return j.State == workload.Stopping && !j.Attempt.Kill }},
		{hour + 60e9, func(j *workload.Job) bool { return j.Attempt.Kill }},
	} {
		s.now = start + step.after
		s.must(t, system, command.JobDue{Job: j.ID})
		if got := s.job(t, j.ID); !step.check(got) {
			t.Errorf("after %d s: %s %+v", step.after/1e9, got.State, got.Attempt)
		}
	}
	s.now = start + 2*hour
	s.must(t, system, command.TilesDue{})
	s.must(t, system, command.JobObserved{Job: j.ID, N: 1, Exited: true, Finished: s.now, ExitCode: 137})
	// 61 minutes of 1, 0.08 and 0.064 credits an hour, each rounded down
	if spent := s.w.Ledger.Balance(ledger.Spent(1)); spent != 1_163_065 {
		t.Errorf("spent %d", spent)
	}
	if ending := s.w.Ledger.Balance(ledger.Waste(ledger.CauseEnding)); ending != 983_333 {
		t.Errorf("waste:ending %d", ending)
	}
}

// What the platform loses costs the user nothing, also what was posted before.
func TestPlatformFaultIsRefunded(t *testing.T) {
	s := newSim(t)
	spec := example()
	spec.Requeue = []string{"node"}
	j := s.must(t, s.user("ada"), command.Submit{Spec: spec}).(admission.Accepted).Job
	s.must(t, system, command.JobStart{Job: j.ID})
	s.must(t, system, command.JobObserved{Job: j.ID, N: 1, Running: true, Started: s.now})
	s.now += hour
	s.must(t, system, command.Meter{Jobs: []id.Job{j.ID}})
	if s.w.Ledger.Balance(ledger.Spent(1)) == 0 {
		t.Fatal("nothing was posted")
	}
	s.must(t, system, command.JobObserved{Job: j.ID, N: 1, Gone: true})
	if spent := s.w.Ledger.Balance(ledger.Spent(1)); spent != 0 {
		t.Errorf("spent %s after the platform's fault", spent)
	}
	again := s.job(t, j.ID)
	if again.State != workload.Queued || again.Requeues != 1 {
		t.Errorf("%s, requeued %d times", again.State, again.Requeues)
	}
	s.must(t, system, command.JobStart{Job: j.ID})
	if n := s.job(t, j.ID).Attempt.N; n != 2 {
		t.Errorf("attempt %d", n)
	}
}

// Nobody but the server reports what an engine saw, and nobody stops what isn't
// his; what he may not see isn't there.
func TestOthersJobs(t *testing.T) {
	s := newSim(t)
	j := s.must(t, s.user("ada"), command.Submit{Spec: example()}).(admission.Accepted).Job
	for name, cmd := range map[string]world.Command{
		"start": command.JobStart{Job: j.ID}, "observe": command.JobObserved{Job: j.ID}, "fail": command.JobFail{Job: j.ID},
		"due": command.JobDue{Job: j.ID}, "meter": command.Meter{}, "site": command.SitePut{}, "inventory": command.InventoryObserved{}, "contact": command.Contact{Lost: true},
	} {
		if _, err := s.do(s.user("root"), cmd); fault.Of(err) != codes.Denied {
			t.Errorf("%s by an admin: %v", name, err)
		}
	}
	if _, err := s.do(s.user("ben"), command.JobStop{Job: j.ID}); fault.Of(err) != codes.NotFound {
		t.Errorf("a stranger's stop: %v", err)
	}
	if _, err := s.do(s.user("ben"), command.Submit{Spec: workload.Spec{Account: "nlp", Image: "x", CPU: 1000, Mem: 1 << 30, Time: hour}}); fault.Of(err) != codes.Invalid {
		t.Errorf("submitting to somebody else's account: %v", err)
	}
}

// A machine that went down under a job costs its user nothing, however long it was
// down, and the job is queued again if it asked for that: unless it was cancelled.
func TestTheMachineWentDown(t *testing.T) {
	for name, tt := range map[string]struct {
		down    int64
		cancel  bool
		state   workload.JobState
		outcome codes.Outcome
	}{
		"shortly":                 {down: hour, state: workload.Queued},
		"beyond the job's limit":  {down: 1000 * hour, state: workload.Queued},
		"while it was cancelled":  {down: hour, cancel: true, state: workload.Ended, outcome: codes.NodeFailed},
		"cancelled, and for long": {down: 1000 * hour, cancel: true, state: workload.Ended, outcome: codes.NodeFailed},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSim(t)
			spec := example()
			spec.Requeue = []string{"node", "timeout"}
			j := s.must(t, s.user("ada"), command.Submit{Spec: spec}).(admission.Accepted).Job
			s.must(t, system, command.JobStart{Job: j.ID})
			s.must(t, system, command.JobObserved{Job: j.ID, N: 1, Running: true, Started: s.now})
			if tt.cancel {
				s.must(t, s.user("ada"), command.JobStop{Job: j.ID})
			}
			s.now += tt.down
			s.must(t, system, command.JobDue{Job: j.ID})
			got := s.must(t, system, command.JobObserved{Job: j.ID, N: 1, Lost: true, Started: s.now - tt.down, Finished: s.now, ExitCode: 255}).(*workload.Job)
			if got.State != tt.state || got.Outcome != tt.outcome {
				t.Errorf("%s %s, want %s %s", got.State, got.Outcome, tt.state, tt.outcome)
			}
			if spent := s.w.Ledger.Balance(ledger.Spent(1)); spent != 0 {
				t.Errorf("spent %s", spent)
			}
		})
	}
}

// The grace that somebody gives a job which he stops takes the place of its own; a second
// stop can only cut it, and none goes beyond the end of its time.
func TestStopWithGrace(t *testing.T) {
	const limit, own = 60 * 60 * int64(1e9), 30 * int64(1e9)
	for name, tt := range map[string]struct {
		late  int64 // ns after the start
		stops []command.JobStop
		want  int64 // ns from the first stop to SIGKILL; 0: at once
	}{
		"its own":           {stops: []command.JobStop{{}}, want: own},
		"less":              {stops: []command.JobStop{{Grace: 5e9}}, want: 5e9},
		"more":              {stops: []command.JobStop{{Grace: 90e9}}, want: 90e9},
		"then less":         {stops: []command.JobStop{{Grace: 90e9}, {Grace: 5e9}}, want: 6e9},
		"then more":         {stops: []command.JobStop{{Grace: 5e9}, {Grace: 90e9}}, want: 5e9},
		"then none":         {stops: []command.JobStop{{Grace: 5e9}, {Now: true}}},
		"at once":           {stops: []command.JobStop{{Now: true, Grace: 5e9}}},
		"beyond its time":   {late: limit - 10e9, stops: []command.JobStop{{Grace: 3600e9}}, want: 10e9 + own},
		"by its own again":  {stops: []command.JobStop{{Grace: 5e9}, {}}, want: 5e9},
		"its own, then cut": {stops: []command.JobStop{{}, {Grace: 1e9}}, want: 2e9},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSim(t)
			spec := example()
			spec.Time, spec.Grace = limit, own
			j := s.must(t, s.user("ada"), command.Submit{Spec: spec}).(admission.Accepted).Job
			s.must(t, system, command.JobStart{Job: j.ID})
			s.must(t, system, command.JobObserved{Job: j.ID, N: 1, Running: true, Started: s.now})
			s.now += tt.late
			first := s.now
			for i, stop := range tt.stops {
				stop.Job = j.ID
				if _, err := s.do(s.user("ada"), stop); err != nil {
					t.Fatalf("stop %d: %v", i, err)
				}
				s.now += 1e9
			}
			got, _ := s.w.Workload.Jobs.Get(j.ID)
			if got.Attempt.Kill != (tt.want == 0) || tt.want != 0 && got.KillAt()-first != tt.want {
				t.Errorf("killed: %v, after %d ns; want %d", got.Attempt.Kill, got.KillAt()-first, tt.want)
			}
		})
	}
}

// A job that was stopped before its container existed ended when that was found.
func TestStoppedBeforeItBegan(t *testing.T) {
	s := newSim(t)
	j := s.must(t, s.user("ada"), command.Submit{Spec: example()}).(admission.Accepted).Job
	s.must(t, system, command.JobStart{Job: j.ID})
	s.must(t, s.user("ada"), command.JobStop{Job: j.ID, Now: true})
	s.now += 5e9
	got := s.must(t, system, command.JobObserved{Job: j.ID, N: 1, Exited: true, ExitCode: 137}).(*workload.Job)
	if got.Ended != s.now || got.Attempt.Ended != s.now || got.Outcome != codes.Cancelled || got.Charged != 0 {
		t.Errorf("ended %d, attempt %d, %s, charged %s; want %d, cancelled, nothing", got.Ended, got.Attempt.Ended, got.Outcome, got.Charged, s.now)
	}
}
