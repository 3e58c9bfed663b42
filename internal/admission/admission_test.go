package admission_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/admission"
	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/placement"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

// Without money enforce refuses and says what would do, showback runs up a debt
// and off moves nothing at all.
func TestBillingModes(t *testing.T) {
	tests := map[string]struct {
		refused           codes.Reason
		deposit, unfunded string
	}{
		"enforce":  {refused: codes.Funds, deposit: "0.000", unfunded: "0.000"},
		"showback": {deposit: "2.288", unfunded: "-1.288"},
		"off":      {deposit: "0.000", unfunded: "0.000"},
	}
	for billing, tt := range tests {
		t.Run(billing, func(t *testing.T) {
			l := newLab(t, billing, money.Credit)
			out := l.submit(t, example())
			if tt.refused != "" {
				if out.Fault == nil || out.Fault.Reasons[0].Code != tt.refused || !out.Fault.Reasons[0].Never {
					t.Fatalf("got %+v", out.Fault)
				}
				// 52 minutes cost 0.9915, 53 would cost 1.0105
				if diff := cmp.Diff(map[string]string{"time": "52m"}, out.Fault.Remedy.Set); diff != "" {
					t.Errorf("remedy (-want +got)\n%s", diff)
				}
			} else if j := out.Result.(admission.Accepted).Job; j.Deposit.String() != tt.deposit {
				t.Errorf("deposit %s", j.Deposit)
			}
			if b := l.w.Ledger.Balance(ledger.Unfunded(1)); b.String() != tt.unfunded {
				t.Errorf("unfunded %s", b)
			}
			if n := l.w.Ledger.NextTransfer(); billing == "off" && n != 2 { // the grant itself
				t.Errorf("%d transfers", n-1)
			}
		})
	}
}

// The remedy where it isn't the obvious one.
func TestRemedies(t *testing.T) {
	tests := map[string]struct {
		billing string
		funds   money.Micros
		setup   func(*testing.T, *lab)
		edit    func(*workload.Spec)
		code    codes.Reason
		want    map[string]string
	}{
		"a price that rises in an hour": {
			"enforce", 2 * money.Credit,
			func(t *testing.T, l *lab) {
				l.must(t, command.PricePut{From: l.now + hour, CPU: 20_000, Mem: 2_000, Devices: []catalog.ModelRate{{Model: "a100", Rate: 2_000_000}}})
			},
			func(s *workload.Spec) {}, codes.Funds, map[string]string{"time": "1h22m"}, // 1.144 + 0.856 at 2.288 an hour
		},
		"the QoS makes it dearer": {
			"enforce", 2 * money.Credit, nil, func(s *workload.Spec) { s.QoS = "fast" }, codes.Funds, map[string]string{"time": "52m"},
		},
		"grace is paid too": {
			"enforce", money.Credit, nil, func(s *workload.Spec) { s.Grace = 10 * minute }, codes.Funds, map[string]string{"time": "42m"},
		},
		"one device fewer": {
			"enforce", money.Credit / 30, nil, func(s *workload.Spec) { s.GPU, s.CPU, s.Mem = 2000, 1000, gib }, codes.Funds, map[string]string{"gpu": "1", "time": "1m"},
		},
		"no money at all": {"enforce", 0, nil, func(s *workload.Spec) {}, codes.Funds, nil},
		"a limit below what runs at all": {
			"off", 0, func(t *testing.T, l *lab) {
				l.must(t, command.LimitPut{Account: "nlp", Resource: limits.Mem, Max: 1 << 20})
			},
			func(s *workload.Spec) {}, codes.LimitMemory, nil,
		},
		"a limit on the only model": {
			"off", 0, func(t *testing.T, l *lab) {
				l.must(t, command.LimitPut{Account: "nlp", Resource: "gpu:a100", Max: 2000})
			},
			func(s *workload.Spec) { s.GPU = 3000 }, codes.LimitDevices, map[string]string{"gpu": "2"},
		},
		"a part where devices are given whole": {
			"off", 0, nil, func(s *workload.Spec) { s.GPU = 500 }, codes.DevicesNotShared, map[string]string{"gpu": "1"},
		},
		"a limit that leaves a part": {
			"off", 0, func(t *testing.T, l *lab) {
				shared := true
				l.must(t, command.PartitionPut{Name: "main", ShareDevices: &shared})
				l.must(t, command.LimitPut{User: "ada", Resource: limits.GPU, Max: 250})
			},
			func(s *workload.Spec) { s.GPU = 500 }, codes.LimitDevices, map[string]string{"gpu": "0.25"},
		},
		"several fields": {
			"off", 0, func(t *testing.T, l *lab) {
				l.must(t, command.LimitPut{User: "ada", Resource: limits.Time, Max: 90 * minute})
			},
			func(s *workload.Spec) { s.GPU, s.CPU = 9000, 70_000 }, codes.DevicesNeverFit, map[string]string{"gpu": "4", "cpu": "64", "time": "1h30m"},
		},
		"nothing in the spec helps": {
			"off", 0, func(t *testing.T, l *lab) { l.must(t, command.LimitPut{Resource: limits.Running, Max: 0}) },
			func(s *workload.Spec) {}, codes.LimitRunning, nil,
		},
		"a constraint that no node meets": {
			"off", 0, nil, func(s *workload.Spec) { s.Where, s.GPU = "nvlink", 9000 }, codes.ConstraintNever, map[string]string{"constraint": "", "gpu": "4"},
		},
		"no model of those that are named": {
			"off", 0, nil, func(s *workload.Spec) { s.Model = "h100|t4" }, codes.ModelUnknown, map[string]string{"model": ""},
		},
		"no price": {
			"enforce", money.Credit, func(t *testing.T, l *lab) {
				l.must(t, command.PricePut{CPU: 1, Devices: []catalog.ModelRate{{Model: "h100", Rate: 1}}})
			},
			func(s *workload.Spec) {}, codes.PriceMissing, nil,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, tt.billing, tt.funds)
			if tt.setup != nil {
				tt.setup(t, l)
			}
			spec := example()
			tt.edit(&spec)
			f := l.submit(t, spec).Fault
			if f == nil || f.Reasons[0].Code != tt.code || !f.Reasons[0].Never {
				t.Fatalf("got %+v", f)
			}
			var got map[string]string
			if f.Remedy != nil {
				got = f.Remedy.Set
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("remedy (-want +got)\n%s", diff)
			}
		})
	}
}

// What would run into a maintenance window waits, says so, and is told the time
// that fits; what fits starts.
func TestMaintenance(t *testing.T) {
	l := newLab(t, "off", 0)
	l.must(t, command.MaintenancePut{Node: "gpu1", From: l.now + 90*minute, To: l.now + 3*hour, Reason: "new fans"})
	j := l.submit(t, example()).Result.(admission.Accepted).Job // two hours
	v := l.w.View(l.now)
	why, req, err := admission.Why(v, j)
	if err != nil || len(why.Reasons) != 1 || why.Reasons[0].Code != codes.Maintenance || why.Reasons[0].Never {
		t.Fatalf("%+v %v", why.Reasons, err)
	}
	r := admission.Remedy(v, req, why)
	if r == nil || r.Set["time"] != "1h29m30s" || r.Flags != "--time 1h29m30s" {
		t.Fatalf("remedy %+v", r)
	}
	if why.Window.Start < l.now+3*hour {
		t.Errorf("starts %d minutes from now, the window ends in 180", (why.Window.Start-l.now)/minute)
	}
	short := example()
	short.Time = 89 * minute
	k := l.submit(t, short).Result.(admission.Accepted).Job
	l.must(t, command.JobStart{Job: k.ID})
	if got, _ := l.w.Workload.Jobs.Get(k.ID); got.State != workload.Starting {
		t.Errorf("what fits is %s", got.State)
	}
}

// Who may not run anything is told why, before anything else.
// TestStartUnderLimit: a job that waits for its user's own jobs is told when they are
// over, by the quote as by why.
func TestStartUnderLimit(t *testing.T) {
	l := newLab(t, "off", 0)
	l.must(t, command.LimitPut{User: "ada", Resource: limits.GPU, Max: 1000})
	running := l.submit(t, example()).Changes[0].(workload.JobSet).Row
	l.must(t, command.JobStart{Job: running.ID, Image: "sha256:1", Node: "gpu1", Devices: []string{"SIM-0"}})
	want := placement.Window{Kind: placement.StartEstimated, Start: l.now + 2*hour + admission.StartMargin, Position: 1, Queue: 1}
	for n := range int64(3) { // those ahead run one after the other
		v, r := l.request(t, example())
		quoted, err := admission.Quote(v, r)
		if err != nil || quoted.Window != want {
			t.Errorf("quote %d: %+v, want %+v, %v", n, quoted.Window, want, err)
		}
		j := l.submit(t, example()).Changes[0].(workload.JobSet).Row
		got, _, err := admission.Why(l.w.View(l.now), j)
		if err != nil || got.Window != want || got.Admit {
			t.Errorf("why %d: %+v, want %+v, %v", n, got.Window, want, err)
		}
		want.Start, want.Position, want.Queue = want.Start+2*hour, want.Position+1, want.Queue+1
	}
	whole := example()
	whole.GPU = 2000
	v, r := l.request(t, whole)
	if quoted, err := admission.Quote(v, r); err != nil || quoted.Window.Kind != placement.StartUnknown {
		t.Errorf("above the limit: %+v, %v", quoted.Window, err)
	}
}

func TestStanding(t *testing.T) {
	tests := map[string]struct {
		cmd  world.Command
		code codes.Reason
	}{
		"a blocked user":     {command.UserPut{Name: "ada", Blocked: ptr(true)}, codes.UserBlocked},
		"a reused uid":       {command.UserPut{Name: "ada", Warning: ptr("uid 7 now belongs to eve")}, codes.UserBlocked},
		"a closed account":   {command.AccountPut{Name: "nlp", Closed: ptr(true)}, codes.AccountClosed},
		"no longer a member": {command.MemberPut{Account: "nlp", User: "ada"}, codes.AccountUnknown},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, "off", 0)
			j := l.submit(t, example()).Result.(admission.Accepted).Job
			l.must(t, tt.cmd)
			v := l.w.View(l.now)
			why, _, err := admission.Why(v, j)
			if err != nil || why.Admit || len(why.Reasons) != 1 || why.Reasons[0].Code != tt.code || v.Eligible(j) {
				t.Fatalf("%+v %v", why.Reasons, err)
			}
			if out, _ := l.do(system, command.JobStart{Job: j.ID}); !out.Event.Skip {
				t.Error("it was started all the same")
			}
		})
	}
}

func ptr[T any](v T) *T { return &v }

// An account that isn't the caller's is as good as none; names that are missing
// are filled in only where there is one answer.
func TestResolve(t *testing.T) {
	l := newLab(t, "off", 0)
	l.must(t, command.AccountPut{Create: true, Name: "secret"})
	tests := map[string]struct {
		spec  workload.Spec
		field string
	}{
		"defaults":            {workload.Spec{}, ""},
		"somebody's account":  {workload.Spec{Account: "secret"}, "account"},
		"no account":          {workload.Spec{Account: "nobody"}, "account"},
		"no partition":        {workload.Spec{Partition: "gpu"}, "partition"},
		"no QoS":              {workload.Spec{QoS: "best"}, "qos"},
		"raising his own job": {workload.Spec{Priority: 1}, "priority"},
		"lowering it":         {workload.Spec{Priority: -1}, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s, spec, err := l.w.View(l.now).Resolve(l.ada(), tt.spec)
			if tt.field == "" {
				if err != nil || s.Account.Name != "nlp" || spec.Partition != "main" || spec.QoS != "normal" || spec.Time != hour {
					t.Fatalf("%+v %v", spec, err)
				}
				return
			}
			if f, ok := err.(*fault.Error); !ok || f.Code != codes.Invalid || f.Fields[0].Path != tt.field {
				t.Fatalf("got %v", err)
			}
		})
	}
}

// What a job may have of the machine's network, and that a port leads to one job.
func TestNetwork(t *testing.T) {
	for name, tc := range map[string]struct {
		pod            workload.Pod
		code           codes.Reason
		field, message string
	}{
		"a port":         {pod: workload.Pod{Ports: []workload.Port{{Host: 2000, Container: 80}}}},
		"a port below":   {workload.Pod{Ports: []workload.Port{{Host: 1999, Container: 80}}}, codes.PortNotAllowed, "pod.ports", "port 1999 of the machine can't lead into a job here (allowed: 2000-2999)"},
		"a port above":   {workload.Pod{Ports: []workload.Port{{Host: 3000, Container: 80}}}, codes.PortNotAllowed, "pod.ports", "port 3000 of the machine can't lead into a job here (allowed: 2000-2999)"},
		"the machine's":  {workload.Pod{HostNetwork: true}, codes.NetworkNotAllowed, "pod.network", "jobs have a network of their own here, not the machine's: leave network out"},
		"a name and dns": {pod: workload.Pod{Name: "a", DNS: []string{"192.0.2.1"}}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, "off", 0)
			spec := example()
			spec.Pod = tc.pod
			out := l.submit(t, spec)
			switch {
			case tc.code == "" && out.Fault != nil:
				t.Fatal(out.Fault)
			case tc.code == "":
			case out.Fault == nil:
				t.Fatal("was accepted")
			default:
				if r := out.Fault.Reasons[0]; r.Code != tc.code || r.Field != tc.field || r.Message != tc.message || !r.Never {
					t.Errorf("%+v", r)
				}
			}
		})
	}
}

// Whether containers have fake root is settled when a job is accepted; without it they
// run as nobody else than the user.
func TestIdentityOfContainers(t *testing.T) {
	for name, tc := range map[string]struct {
		site workload.Userns
		pod  workload.Pod
		want workload.Pod
		bad  string
	}{
		"not said":                  {workload.UsernsOff, workload.Pod{}, workload.Pod{}, ""},
		"as the site has it":        {workload.UsernsAuto, workload.Pod{}, workload.Pod{Userns: workload.UsernsAuto}, ""},
		"otherwise than the site":   {workload.UsernsOn, workload.Pod{Userns: workload.UsernsOff}, workload.Pod{Userns: workload.UsernsOff}, ""},
		"root by the site's choice": {workload.UsernsAuto, workload.Pod{User: "0"}, workload.Pod{Userns: workload.UsernsAuto, User: "0"}, ""},
		"root":                      {workload.UsernsOff, workload.Pod{Userns: workload.UsernsOn, User: "0:0"}, workload.Pod{Userns: workload.UsernsOn, User: "0:0"}, ""},
		"root without fake root":    {workload.UsernsOff, workload.Pod{User: "0:0"}, workload.Pod{}, "without fake root containers run as you, uid 5001"},
		"root without, said":        {workload.UsernsOn, workload.Pod{Userns: workload.UsernsOff, User: "0"}, workload.Pod{}, "pod.user"},
		"oneself":                   {workload.UsernsOff, workload.Pod{User: "5001:7"}, workload.Pod{User: "5001:7"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, "off", 0)
			uid := int64(5001)
			l.must(t, command.UserPut{Name: "ada", UID: &uid})
			v := l.w.View(l.now)
			v.Userns = tc.site
			spec := example()
			spec.Pod = tc.pod
			_, got, err := v.Resolve(l.ada(), spec)
			if tc.bad != "" {
				if err == nil || !strings.Contains(err.Error(), tc.bad) {
					t.Errorf("%v, want %q", err, tc.bad)
				}
				return
			}
			if diff := cmp.Diff(tc.want, got.Pod); err != nil || diff != "" {
				t.Errorf("%v (-want +got)\n%s", err, diff)
			}
		})
	}
}

func TestPortLeadsToOneJob(t *testing.T) {
	l := newLab(t, "off", 0)
	spec := example()
	spec.GPU, spec.Pod.Ports = 0, []workload.Port{{Host: 2000, Container: 80}}
	first := l.submit(t, spec).Result.(admission.Accepted).Job
	l.must(t, command.JobStart{Job: first.ID, Image: "sha256:1", Node: "gpu1"})
	second := l.submit(t, spec).Result.(admission.Accepted).Job
	v := l.w.View(l.now)
	verdict, _, err := admission.Why(v, second)
	if err != nil {
		t.Fatal(err)
	}
	if len(verdict.Reasons) != 1 || verdict.Reasons[0].Code != codes.PortBusy || verdict.Reasons[0].Observed != "2000" || verdict.Reasons[0].Never {
		t.Errorf("reasons %+v", verdict.Reasons)
	}
	h, _ := v.Placement.Holds.Get(first.ID)
	if w := verdict.Window; w.Kind != placement.StartPromised || w.Start != h.Until {
		t.Errorf("window %+v, the port is held until %d", w, h.Until)
	}
	spec.Pod.Ports[0].Host = 2001
	other := l.submit(t, spec).Result.(admission.Accepted).Job
	if verdict, _, err := admission.Why(l.w.View(l.now), other); err != nil || !verdict.Admit {
		t.Errorf("another port: %+v, %v", verdict.Reasons, err)
	}
}
