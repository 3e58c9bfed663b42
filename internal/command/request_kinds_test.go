package command_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/approval"
	"croft.dev/croft/internal/asset"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

func wallWish(k id.Job, time int64) approval.Wish {
	return approval.Wish{Wall: &approval.Wall{Job: k, Time: time}}
}

func imageWish(account, ref string) approval.Wish {
	return approval.Wish{Asset: &approval.Asset{Account: account, Image: ref}}
}

func folderWish(account, name, owner string) approval.Wish {
	return approval.Wish{Asset: &approval.Asset{Account: account, Folder: name, Owner: owner}}
}

// bookWish is for a window of one device in ten hours.
func (s *sim) bookWish(account string) approval.Wish {
	return approval.Wish{Reservation: &approval.Reservation{Name: "visit", Accounts: []string{account}, Count: 1, CPU: 4000, Mem: 8 << 30, GPU: 1000, From: s.now + 10*hour, Length: 2 * hour}}
}

func (s *sim) image(owner, ref string) {
	u, _ := s.w.Tenancy.User(owner)
	s.w.Fold([]world.Change{asset.ImageSet{Row: asset.Image{Ref: ref, User: u.ID, State: asset.Ready, Made: s.now}}})
}

// A longer time limit sets aside what it costs, counts towards limits on hours, and moves the end.
func TestExtend(t *testing.T) {
	s := newSim(t)
	root := s.user("root")
	s.must(t, root, command.LimitPut{Account: "nlp", Resource: "gpu-hours", Per: limits.Per{Unit: limits.Month}, Max: 1000 * 3600 * 10})
	spec := example()
	spec.Signal = workload.Signal{Name: "USR1", Before: hour}
	k := s.run(t, spec, true)
	before := s.job(t, k)
	s.now += hour
	s.must(t, system, command.JobDue{Job: k})
	if !s.job(t, k).Attempt.Signaled {
		t.Fatal("not signaled")
	}
	s.must(t, root, command.JobExtend{Job: k, Time: 6 * hour})
	j := s.job(t, k)
	if j.Spec.Time != 6*hour || j.Attempt.Until != j.Attempt.Started+6*hour || j.Attempt.Reserved != 6*3600 || j.Deposit != 3*before.Deposit || j.Attempt.Signaled || j.Due() != j.Attempt.Started+5*hour {
		t.Errorf("%+v", j)
	}
	for _, l := range s.w.Limits.Limits.All() {
		if used := s.w.Limits.BoundOf(l, s.now).Used; l.Resource == "gpu-hours" && used != 1000*3600*6 {
			t.Errorf("counts %d", used)
		}
	}
	if b := s.w.Placement.HoldsOn("gpu1")[0]; b.Until != j.Attempt.Until {
		t.Errorf("holds its place until %d", b.Until)
	}
	if before.Spec.Time != 2*hour {
		t.Error("the row before has changed")
	}
	s.now = j.Attempt.Until
	s.must(t, system, command.JobDue{Job: k})
	s.exited(t, k, 1)
	for _, l := range s.w.Limits.Limits.All() {
		if used := s.w.Limits.BoundOf(l, s.now).Used; l.Resource == "gpu-hours" && used != 1000*3600*6 {
			t.Errorf("counts %d in the end", used)
		}
	}
}

// It is longer than partition and QoS allow, and no longer than money, hours, and what others have booked.
func TestExtendWithinBounds(t *testing.T) {
	for name, tt := range map[string]struct {
		prepare func(s *sim, k id.Job)
		time    int64
		code    codes.Code
		says    string
	}{
		"beyond the partition":   {func(*sim, id.Job) {}, 49 * hour, "", ""},
		"no longer":              {func(*sim, id.Job) {}, 2 * hour, codes.Invalid, "time"},
		"shorter":                {func(*sim, id.Job) {}, math.MinInt64, codes.Invalid, "time"},
		"for ever":               {func(*sim, id.Job) {}, math.MaxInt64, codes.Invalid, "time"},
		"longer than any may be": {func(*sim, id.Job) {}, workload.MaxTime + 1, codes.Invalid, "time"},
		"dearer than there is":   {func(*sim, id.Job) {}, 4000 * hour, codes.Conflict, "are missing"},
		"more than can be paid":  {func(*sim, id.Job) {}, workload.MaxTime, codes.Conflict, "missing"},
		"beyond its user's cap": {func(s *sim, _ id.Job) {
			s.must(nil, s.user("root"), command.LimitPut{Account: "nlp", User: "ada", Resource: limits.Credits, Per: limits.Per{Unit: limits.Month}, Max: int64(5 * money.Credit)})
		}, 8 * hour, codes.Conflict, "the deposit"},
		"beyond its hours": {func(s *sim, _ id.Job) {
			s.must(nil, s.user("root"), command.LimitPut{Account: "nlp", Resource: "gpu-hours", Per: limits.Per{Unit: limits.Month}, Max: 1000 * 3600 * 5})
		}, 6 * hour, codes.Conflict, "hours"},
		"within its hours": {func(s *sim, _ id.Job) {
			s.must(nil, s.user("root"), command.LimitPut{Account: "nlp", Resource: "gpu-hours", Per: limits.Per{Unit: limits.Month}, Max: 1000 * 3600 * 5})
		}, 5 * hour, "", ""},
		"into what is reserved": {func(s *sim, _ id.Job) {
			all := s.class()
			all.Count, all.From, all.To = 4, s.now+5*hour, s.now+6*hour
			s.must(nil, s.user("root"), all)
		}, 5*hour + 1e9, codes.Conflict, "reserved"},
		"up to what is reserved": {func(s *sim, _ id.Job) {
			all := s.class()
			all.Count, all.From, all.To = 4, s.now+5*hour, s.now+6*hour
			s.must(nil, s.user("root"), all)
		}, 5 * hour, "", ""},
		"into maintenance": {func(s *sim, _ id.Job) {
			s.must(nil, s.user("root"), command.MaintenancePut{Node: "gpu1", From: s.now + 5*hour, To: s.now + 6*hour})
		}, 6 * hour, codes.Conflict, "maintenance"},
		"one that is being stopped": {func(s *sim, k id.Job) { s.must(nil, s.user("ada"), command.JobStop{Job: k}) }, 6 * hour, codes.Conflict, "being stopped"},
		"one that has ended": {func(s *sim, k id.Job) {
			s.must(nil, system, command.JobObserved{Job: k, N: 1, Exited: true, Finished: s.now})
		}, 6 * hour, codes.NotFound, "no such job"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSim(t)
			k := s.run(t, example(), true)
			tt.prepare(s, k)
			was := s.w
			_, err := s.do(s.user("root"), command.JobExtend{Job: k, Time: tt.time})
			if answered(err, tt.code, tt.says) != nil {
				t.Errorf("%v", err)
			}
			if err != nil && s.w != was {
				t.Error("something has changed")
			}
		})
	}
	s := newSim(t)
	s.must(t, s.user("ada"), command.Submit{Spec: example()})
	if _, err := s.do(s.user("root"), command.JobExtend{Job: 1, Time: 6 * hour}); fault.Of(err) != codes.Conflict || !strings.Contains(err.Error(), "runs") {
		t.Errorf("one that waits: %v", err)
	}
}

// The longer time is for the run: one that is queued again asks for its own, which it may have.
func TestExtendedAndQueuedAgain(t *testing.T) {
	s := newSim(t)
	k := s.run(t, example(), true)
	s.must(t, s.user("root"), command.JobExtend{Job: k, Time: 50 * hour})
	s.must(t, s.user("root"), command.JobExtend{Job: k, Time: 60 * hour})
	s.must(t, s.user("ada"), command.JobRequeue{Job: k})
	s.now += hour
	s.exited(t, k, 1)
	if j := s.job(t, k); j.State != workload.Queued || j.Spec.Time != 2*hour || j.Spec.Own != 0 {
		t.Fatalf("%+v", j)
	}
	s.started(t, k)
	if a := s.job(t, k).Attempt; a.Until != a.Started+2*hour {
		t.Errorf("%+v", a)
	}
}

// A workspace likewise.
func TestExtendedWorkspace(t *testing.T) {
	s := newSim(t)
	spec := example()
	spec.Kind, spec.Name = workload.KindWorkspace, "lab"
	k := s.run(t, spec, true)
	s.must(t, s.user("root"), command.JobExtend{Job: k, Time: 50 * hour})
	s.must(t, s.user("ada"), command.JobStop{Job: k})
	s.exited(t, k, 0)
	s.must(t, s.user("ada"), command.WorkspaceStart{Job: k})
	if j := s.job(t, k); j.Spec.Time != 2*hour || j.Spec.Own != 0 {
		t.Errorf("%+v", j)
	}
}

// A rolling deposit goes on being renewed up to the new limit.
func TestExtendRolling(t *testing.T) {
	s := newSim(t)
	spec := example()
	spec.Deposit = workload.DepositRolling
	k := s.run(t, spec, true)
	aside := s.job(t, k).Deposit
	s.must(t, s.user("root"), command.JobExtend{Job: k, Time: 6 * hour})
	if j := s.job(t, k); j.Deposit != aside || !j.Attempt.Rolls() || j.Attempt.Until != j.Attempt.Started+6*hour {
		t.Errorf("%+v", j)
	}
}

// What the kinds about jobs, windows and assets ask for is so once it is approved.
func TestApprovingTheOthers(t *testing.T) {
	const ref = "croft.local/stranger/env:v1"
	for name, tt := range map[string]struct {
		asks, decides string
		not           []string // who may not
		wish          func(s *sim) approval.Wish
		done          func(s *sim) bool
	}{
		"wall": {"ada", "operator", []string{"manager", "owner", "ada"}, func(*sim) approval.Wish { return wallWish(1, 50*hour) }, func(s *sim) bool {
			j, _ := s.w.Workload.Jobs.Get(1)
			return j.Spec.Time == 50*hour && j.Deposit > 25*money.Credit
		}},
		"reservation": {"ada", "operator", []string{"manager", "owner"}, func(s *sim) approval.Wish { return s.bookWish("nlp") }, func(s *sim) bool {
			_, ok := s.w.Placement.Reservation("visit")
			return ok
		}},
		"image": {"ada", "stranger", []string{"manager", "operator"}, func(*sim) approval.Wish { return imageWish("nlp", ref) }, func(s *sim) bool {
			i, _ := s.w.Assets.Images.Get(ref)
			return s.w.SeesImage(s.user("manager"), i)
		}},
		"folder": {"ada", "operator", []string{"manager", "stranger"}, func(*sim) approval.Wish { return folderWish("nlp", "data", "empty") }, func(s *sim) bool {
			nlp, _ := s.w.Tenancy.Account("nlp")
			f, ok := s.w.Assets.Folder(nlp.ID, "data")
			return ok && f.Path == "/srv/empty" && f.ReadOnly && f.Target == "/shared/nlp/data"
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := crowd(t)
			s.started(t, 1)
			s.image("stranger", ref)
			s.must(t, s.user("root"), command.FolderPut{Account: "empty", Name: "data", Path: "/srv/empty"})
			k := s.ask(t, tt.asks, tt.wish(s))
			for _, who := range append(tt.not, tt.asks) {
				if _, err := s.do(s.user(who), command.RequestApprove{Request: k}); err == nil {
					t.Fatalf("%s approves it", who)
				}
			}
			if tt.done(s) {
				t.Fatal("it is so already")
			}
			s.must(t, s.user(tt.decides), command.RequestApprove{Request: k})
			if !tt.done(s) || s.request(k).State != approval.Approved {
				t.Errorf("%+v", s.request(k))
			}
			if _, err := s.do(s.user(tt.decides), command.RequestApprove{Request: k}); fault.Of(err) != codes.Conflict {
				t.Errorf("twice: %v", err)
			}
		})
	}
}

// What has changed since it was asked for isn't done.
func TestTheOthersAreGone(t *testing.T) {
	const ref = "croft.local/stranger/env:v1"
	for name, tt := range map[string]struct {
		decides string
		wish    func(s *sim) approval.Wish
		change  func(t *testing.T, s *sim)
		says    string
	}{
		"a job that has ended": {"operator", func(*sim) approval.Wish { return wallWish(1, 50*hour) }, func(t *testing.T, s *sim) { s.exited(t, 1, 0) }, "job 1 has ended"},
		"a job that is queued again": {"operator", func(*sim) approval.Wish { return wallWish(1, 50*hour) }, func(t *testing.T, s *sim) {
			s.must(t, s.user("ada"), command.JobRequeue{Job: 1})
			s.exited(t, 1, 0)
		}, "only the time limit of one that runs"},
		"a job whose account has no money": {"operator", func(*sim) approval.Wish { return wallWish(1, 50*hour) }, func(t *testing.T, s *sim) {
			s.must(t, s.user("root"), command.GrantTransfer{From: "nlp", To: "empty", Amount: 495 * money.Credit})
		}, "missing"},
		"a window that has begun": {"operator", func(s *sim) approval.Wish { return s.bookWish("nlp") }, func(_ *testing.T, s *sim) { s.now += 11 * hour }, "has begun"},
		"an account that is removed": {"operator", func(s *sim) approval.Wish {
			s.must(nil, s.user("root"), command.MemberPut{Account: "empty", User: "ada", Role: "member"})
			return s.bookWish("empty")
		}, func(t *testing.T, s *sim) {
			s.must(t, s.user("root"), command.AccountRemove{Name: "empty"})
			s.must(t, s.user("root"), command.AccountPut{Create: true, Name: "empty"})
		}, "isn't there any more"},
		"an image that is another": {"root", func(*sim) approval.Wish { return imageWish("nlp", ref) }, func(_ *testing.T, s *sim) { s.now++; s.image("stranger", ref) }, "isn't there"},
		"an image that others have": {"stranger", func(*sim) approval.Wish { return imageWish("nlp", ref) }, func(t *testing.T, s *sim) {
			s.must(t, s.user("root"), command.MemberPut{Account: "empty", User: "stranger", Role: "member"})
			s.must(t, s.user("stranger"), command.ImageShare{Ref: ref, Account: "empty"})
		}, "another account"},
		"a folder that is elsewhere": {"operator", func(*sim) approval.Wish { return folderWish("nlp", "data", "empty") }, func(t *testing.T, s *sim) {
			s.now++
			s.must(t, s.user("root"), command.FolderPut{Account: "empty", Name: "data", Path: "/etc"})
		}, "has changed"},
		"a folder whose name is taken": {"operator", func(*sim) approval.Wish { return folderWish("nlp", "data", "empty") }, func(t *testing.T, s *sim) {
			s.must(t, s.user("root"), command.FolderPut{Account: "nlp", Name: "data", Path: "/srv/nlp"})
		}, "another folder"},
	} {
		t.Run(name, func(t *testing.T) {
			s := crowd(t)
			s.started(t, 1)
			s.image("stranger", ref)
			s.must(t, s.user("root"), command.FolderPut{Account: "empty", Name: "data", Path: "/srv/empty"})
			k := s.ask(t, "ada", tt.wish(s))
			tt.change(t, s)
			if _, err := s.do(s.user(tt.decides), command.RequestApprove{Request: k}); fault.Of(err) != codes.Conflict || !strings.Contains(err.Error(), tt.says) || s.request(k).State != approval.Open {
				t.Errorf("%v, %+v", err, s.request(k))
			}
			s.must(t, s.user("root"), command.RequestReject{Request: k})
		})
	}
}

// answered is nil for an error of that code which says that; for no code it must be none.
func answered(err error, code codes.Code, says string) error {
	if code == "" && err == nil || code != "" && fault.Of(err) == code && strings.Contains(err.Error()+fieldsOf(err), says) {
		return nil
	}
	return fmt.Errorf("%w (%s), want %s: %s", err, fault.Of(err), code, says)
}

// What isn't for somebody to ask for is refused, and of what he can't see he is told nothing.
func TestWhatElseCantBeAskedFor(t *testing.T) {
	const ref = "croft.local/stranger/env:v1"
	s := crowd(t)
	root := s.user("root")
	s.started(t, 1)
	s.image("stranger", ref)
	s.image("ada", "croft.local/ada/own:v1")
	s.must(t, s.user("ada"), command.ImageShare{Ref: "croft.local/ada/own:v1", Account: "nlp"})
	s.must(t, root, command.AccountPut{Create: true, Name: "hidden"})
	s.must(t, root, command.FolderPut{Account: "hidden", Name: "data", Path: "/srv/hidden"})
	s.must(t, root, command.FolderPut{Name: "all", Path: "/srv/all"})
	edit := func(f func(*approval.Reservation)) approval.Wish {
		x := s.bookWish("nlp")
		f(x.Reservation)
		return x
	}
	for name, tt := range map[string]struct {
		who  string
		wish approval.Wish
		want codes.Code
		says string
	}{
		"another's job":             {"stranger", wallWish(1, 50*hour), codes.NotFound, "no such job"},
		"a viewer's":                {"viewer", wallWish(1, 50*hour), codes.NotFound, "no such job"},
		"as an auditor":             {"auditor", wallWish(1, 50*hour), codes.Denied, "yours"},
		"no job":                    {"ada", wallWish(99, 50*hour), codes.NotFound, "no such job"},
		"what it has":               {"ada", wallWish(1, 2*hour), codes.Invalid, "time"},
		"for ever":                  {"ada", wallWish(1, math.MaxInt64), codes.Invalid, "time"},
		"more than it can pay":      {"ada", wallWish(1, 4000*hour), codes.Conflict, "can't have so long"},
		"as who manages":            {"manager", wallWish(1, 51*hour), "", ""},
		"another account's window":  {"stranger", s.bookWish("nlp"), codes.NotFound, "nlp"},
		"a viewer's window":         {"viewer", s.bookWish("nlp"), codes.Denied, "members"},
		"of a hidden account":       {"ada", s.bookWish("hidden"), codes.NotFound, "hidden"},
		"paid by others":            {"ada", edit(func(x *approval.Reservation) { x.Payer = "hidden" }), codes.NotFound, "hidden"},
		"paid by nobody":            {"ada", edit(func(x *approval.Reservation) { x.Accounts, x.Users = nil, []string{"ada"} }), codes.Invalid, "payer"},
		"for strangers":             {"ada", edit(func(x *approval.Reservation) { x.Users = []string{"stranger"} }), codes.Invalid, "no member"},
		"for nobody known":          {"ada", edit(func(x *approval.Reservation) { x.Users = []string{"absent"} }), codes.Invalid, "no member"},
		"for nobody":                {"ada", edit(func(x *approval.Reservation) { x.Accounts, x.Payer = nil, "nlp" }), codes.Invalid, "accounts"},
		"in the past":               {"ada", edit(func(x *approval.Reservation) { x.From = s.now - 1 }), codes.Conflict, "begun"},
		"as much as there isn't":    {"ada", edit(func(x *approval.Reservation) { x.Count = 1000 }), codes.Conflict, "room"},
		"absurdly much":             {"ada", edit(func(x *approval.Reservation) { x.Count = math.MaxInt64 }), codes.Invalid, "count"},
		"of less than nothing":      {"ada", edit(func(x *approval.Reservation) { x.GPU = math.MinInt64 }), codes.Invalid, "gpu"},
		"for ever long":             {"ada", edit(func(x *approval.Reservation) { x.Length = math.MaxInt64 }), codes.Invalid, "to"},
		"a name that is taken":      {"ada", edit(func(x *approval.Reservation) { x.Name = "lab" }), "", ""}, // which he may not know of
		"no name":                   {"ada", edit(func(x *approval.Reservation) { x.Name = "" }), codes.Invalid, "name"},
		"too many names":            {"ada", edit(func(x *approval.Reservation) { x.Nodes = make([]string, 101) }), codes.Invalid, "at most"},
		"himself":                   {"ada", edit(func(x *approval.Reservation) { x.Accounts, x.Users, x.Payer = nil, []string{"ada"}, "nlp" }), "", ""},
		"a public image":            {"ada", imageWish("nlp", "train:1"), codes.Invalid, "image"},
		"no image":                  {"ada", imageWish("nlp", ""), codes.Invalid, "image"},
		"for others":                {"stranger", imageWish("nlp", "croft.local/ada/own:v1"), codes.NotFound, "nlp"},
		"what nlp has":              {"manager", imageWish("nlp", "croft.local/ada/own:v1"), codes.Conflict, "shared with nlp already"},
		"an image":                  {"ada", imageWish("nlp", ref), "", ""},
		"no such image":             {"ada", imageWish("nlp", "croft.local/stranger/absent:v1"), "", ""},
		"a folder of a hidden one":  {"ada", folderWish("nlp", "data", "hidden"), "", ""},
		"a folder of none":          {"ada", folderWish("nlp", "data", "absent"), "", ""},
		"no folder of a hidden one": {"ada", folderWish("nlp", "other", "hidden"), "", ""},
		"a folder that all have":    {"ada", folderWish("nlp", "all", ""), codes.Conflict, "already"},
		"a folder that can't be":    {"ada", folderWish("nlp", "../x", "hidden"), codes.Invalid, "folder"},
	} {
		if _, err := s.do(s.user(tt.who), command.RequestMake{Wish: tt.wish}); answered(err, tt.want, tt.says) != nil {
			t.Errorf("%s: %v (%s), want %s", name, err, fault.Of(err), tt.want)
		}
	}
}

// Asking again doesn't tell that the image that one can't see is another one now.
func TestAskingAgainTellsNothing(t *testing.T) {
	const ref = "croft.local/stranger/env:v1"
	s := crowd(t)
	s.image("stranger", ref)
	s.ask(t, "ada", imageWish("nlp", ref))
	s.now++
	s.image("stranger", ref)
	if _, err := s.do(s.user("ada"), command.RequestMake{Wish: imageWish("nlp", ref)}); fault.Of(err) != codes.Conflict {
		t.Errorf("%v", err)
	}
}
