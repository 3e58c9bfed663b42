package command_test

import (
	"strings"
	"testing"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/admission"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/quantity"
	"croft.dev/croft/internal/share"
	"croft.dev/croft/internal/workload"
)

// withShares is the machine of newSim, of whose four devices nlp is guaranteed three,
// vision in it one, and bio beside it one.
func withShares(t fataler) *sim {
	s := newSim(t)
	root := s.user("root")
	s.must(t, root, command.UserPut{Create: true, Name: "cara"})
	s.must(t, root, command.AccountPut{Create: true, Name: "bio"})
	s.must(t, root, command.MemberPut{Account: "bio", User: "cara", Role: "member"})
	s.share(t, "nlp", 3)
	s.share(t, "vision", 1)
	s.share(t, "bio", 1)
	return s
}

func (s *sim) share(t fataler, account string, n int64, edit ...func(*command.SharePut)) {
	c := command.SharePut{Account: account, Partition: "main", Resource: "gpu", Guaranteed: n * quantity.Device}
	for _, e := range edit {
		e(&c)
	}
	s.must(t, s.user("root"), c)
}

func limited(n int64) func(*command.SharePut) {
	return func(c *command.SharePut) { c.Limit = num(n * quantity.Device) }
}
func borrows(n int64) func(*command.SharePut) {
	return func(c *command.SharePut) { c.Borrow = num(n * quantity.Device) }
}
func lends(n int64) func(*command.SharePut) {
	return func(c *command.SharePut) { c.Lend = num(n * quantity.Device) }
}

// runs submits a job of somebody's and starts it, running since a minute.
func (s *sim) runs(t fataler, who string, gpu int64, edit ...func(*workload.Spec)) id.Job {
	k := s.queue(t, who, gpu, edit...)
	if s.must(t, system, command.JobStart{Job: k, Image: "sha256:1"}); s.state(k) != workload.Starting {
		t.Fatalf("job %d of %s hasn't started", k, who)
	}
	s.must(t, system, command.JobObserved{Job: k, N: 1, Running: true, Started: s.now})
	s.now += minute
	return k
}

func (s *sim) queue(t fataler, who string, gpu int64, edit ...func(*workload.Spec)) id.Job {
	spec := example()
	spec.GPU, spec.CPU, spec.Mem, spec.Grace = gpu*quantity.Device, 1000, 1<<30, 10e9
	for _, e := range edit {
		e(&spec)
	}
	return s.must(t, s.user(who), command.Submit{Spec: spec}).(admission.Accepted).Job.ID
}

func (s *sim) state(k id.Job) workload.JobState {
	j, ok := s.w.Workload.Jobs.Get(k)
	if !ok {
		return workload.Ended
	}
	return j.State
}

// What shares keep a job from, with all that is in the way and whose it is.
func TestBoundsOfShares(t *testing.T) {
	tests := map[string]struct {
		prepare func(s *sim)
		who     string
		gpu     int64
		want    string // code: message; "": it starts
	}{
		"within":       {func(*sim) {}, "cara", 1, ""},
		"borrowed":     {func(*sim) {}, "cara", 4, ""},
		"to its limit": {func(s *sim) { s.share(t, "bio", 1, limited(2)); s.runs(t, "cara", 1) }, "cara", 1, ""},
		"past its limit": {
			func(s *sim) { s.share(t, "bio", 1, limited(2)); s.runs(t, "cara", 1) }, "cara", 2,
			"SHARE_LIMIT: asked for 2 gpu, account bio in partition main has 1 of at most 2",
		},
		"past what it may borrow": {
			func(s *sim) { s.share(t, "bio", 1, borrows(1)); s.runs(t, "cara", 1) }, "cara", 2,
			"SHARE_BORROW: asked for 2 gpu, account bio in partition main has 1 of the 1 that are guaranteed and 1 that may be borrowed",
		},
		"an account below one that is at its limit": {
			func(s *sim) { s.share(t, "nlp", 3, limited(3)); s.runs(t, "ada", 3) }, "ben", 1,
			"SHARE_LIMIT: asked for 1 gpu, account nlp in partition main has 3 of at most 3",
		},
		"what others keep": {
			func(s *sim) { s.share(t, "nlp", 3, lends(1)); s.runs(t, "cara", 1) }, "cara", 2,
			"SHARE_KEPT: asked for 2 gpu, 1 of the 4 in partition main aren't in use or kept for others",
		},
		"what others keep, used by themselves": {func(s *sim) { s.share(t, "nlp", 3, lends(1)); s.runs(t, "ada", 2) }, "cara", 2, ""},
		"kept within the account above": {
			func(s *sim) { s.share(t, "vision", 1, lends(0)); s.share(t, "nlp", 3, limited(3)); s.runs(t, "ada", 1) }, "ada", 2,
			"SHARE_LIMIT: asked for 2 gpu, account nlp in partition main has 2 of at most 3",
		},
		"what was kept for it": {func(s *sim) {
			s.share(t, "vision", 1, lends(0))
			s.share(t, "nlp", 3, limited(3))
			s.runs(t, "ada", 2)
		}, "ben", 1, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := withShares(t)
			tt.prepare(s)
			k := s.queue(t, tt.who, tt.gpu)
			j := s.job(t, k)
			verdict, _, err := admission.Why(s.w.View(s.now), j)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, r := range verdict.Reasons {
				if strings.HasPrefix(string(r.Code), "SHARE") {
					got = append(got, string(r.Code)+": "+r.Message)
				}
			}
			if all := strings.Join(got, "; "); all != tt.want {
				t.Errorf("%q, want %q", all, tt.want)
			}
			s.must(t, system, command.JobStart{Job: k, Image: "sha256:1"})
			if started := s.state(k) == workload.Starting; started != (tt.want == "") {
				t.Errorf("started: %v", started)
			}
		})
	}
}

// What shares never allow is refused at once, with what they would.
func TestSharesRefuseWhatNeverFits(t *testing.T) {
	tests := map[string]struct {
		share func(*command.SharePut)
		code  codes.Reason
	}{
		"limit":  {limited(2), codes.ShareLimit},
		"borrow": {borrows(1), codes.ShareBorrow},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := withShares(t)
			s.share(t, "bio", 1, tt.share)
			s.runs(t, "cara", 1) // what is in use doesn't matter
			spec := example()
			spec.GPU = 3 * quantity.Device
			_, err := s.do(s.user("cara"), command.Submit{Spec: spec})
			if f := refusal(t, err); f.Reasons[0].Code != tt.code || f.Reasons[0].Bound != "2" || f.Remedy == nil || f.Remedy.Flags != "--gpu 2" {
				t.Errorf("%+v, remedy %+v", f.Reasons, f.Remedy)
			}
		})
	}
	s := withShares(t)
	s.share(t, "nlp", 3, lends(0))
	spec := example()
	spec.GPU = 3 * quantity.Device
	_, err := s.do(s.user("cara"), command.Submit{Spec: spec})
	if f := refusal(t, err); f.Reasons[0].Code != codes.ShareKept || f.Remedy == nil || f.Remedy.Flags != "--gpu 1" {
		t.Errorf("%+v, remedy %+v", f.Reasons, f.Remedy)
	}
}

// What is shared can't be given away twice, nor can what a share is about go.
func TestSharesAreChecked(t *testing.T) {
	s := withShares(t)
	root := s.user("root")
	gpu := func(account string, n int64) command.SharePut {
		return command.SharePut{Account: account, Partition: "main", Resource: "gpu", Guaranteed: n * quantity.Device}
	}
	check := func(what string, err error, code codes.Code, want string) {
		t.Helper()
		if fault.Of(err) != code || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s: %s", what, err, code, want)
		}
	}
	_, err := s.do(root, gpu("bio", 2))
	check("more than there is", err, codes.Conflict, "5 gpu would be guaranteed together (nlp 3, bio 2), and partition main has 4")
	_, err = s.do(root, gpu("vision", 4))
	check("more than the account above has", err, codes.Conflict, "account nlp above them is guaranteed 3")
	_, err = s.do(root, gpu("nlp", 0))
	check("less than those below have", err, codes.Conflict, "1 gpu would be guaranteed together (vision 1)")
	_, err = s.do(s.user("ada"), gpu("nlp", 1))
	check("a user", err, codes.Denied, "only an operator")
	_, err = s.do(root, gpu("absent", 1))
	check("no account", err, codes.NotFound, "absent")
	_, err = s.do(root, command.SharePut{Account: "nlp", Partition: "absent", Resource: "gpu"})
	check("no partition", err, codes.Invalid, "partition")
	_, err = s.do(root, command.SharePut{Account: "nlp", Partition: "main", Resource: "running"})
	check("no such resource", err, codes.Invalid, "resource")
	_, err = s.do(root, command.SharePut{Remove: 99})
	check("no share", err, codes.NotFound, "99")
	_, err = s.do(root, command.AccountRemove{Name: "vision", Expire: true})
	check("an account with a share", err, codes.Conflict, "vision has a share of gpu in partition main")
	_, err = s.do(root, command.AccountMove{Name: "vision", Under: "bio"})
	if err != nil {
		t.Errorf("vision has room under bio, which has as much: %v", err)
	}
	s.share(t, "vision", 1)
	s.must(t, root, command.AccountMove{Name: "vision", Under: "nlp"})
	s.share(t, "vision", 2)
	_, err = s.do(root, command.AccountMove{Name: "vision", Under: "bio"})
	check("a move to where there is no room", err, codes.Conflict, "account bio above them is guaranteed 1")
	s.must(t, root, command.PartitionPut{Create: true, Name: "side"})
	s.must(t, root, command.SharePut{Account: "bio", Partition: "side", Resource: "cpu", Guaranteed: 1000})
	_, err = s.do(root, command.PartitionRemove{Name: "side"})
	check("a partition with a share", err, codes.Conflict, "bio has a share of cpu in partition side")
	row, _ := s.w.Queues.Find(3, "side", "cpu")
	s.must(t, root, command.SharePut{Remove: row.ID})
	s.must(t, root, command.PartitionRemove{Name: "side"})
}

// A share that is lowered below what is used stops nothing; what is beyond it is borrowed.
// Once a node has gone, shares may still be lowered, and not raised.
func TestSharesBelowUse(t *testing.T) {
	s := withShares(t)
	k := s.runs(t, "ada", 3)
	s.share(t, "vision", 0)
	s.share(t, "nlp", 1)
	nlp, _ := s.w.Tenancy.Account("nlp")
	is := s.w.View(s.now).QueueTree("main", "gpu").Of(nlp.ID)
	if is.Used != 3000 || is.Borrowed() != 2000 || is.Free != 1000 || s.state(k) != workload.Running {
		t.Errorf("%+v, and the job is %s", is, s.state(k))
	}
	bio, _ := s.w.Tenancy.Account("bio")
	if got := s.w.View(s.now).QueueTree("main", "gpu").Borrowers(bio.ID); len(got) != 1 || got[0] != (share.Borrower{Account: nlp.ID, Borrowed: 2000}) {
		t.Errorf("borrowers %+v", got)
	}
	s.must(t, system, command.InventoryObserved{})
	if _, err := s.do(s.user("root"), command.SharePut{Account: "bio", Partition: "main", Resource: "gpu", Guaranteed: 2000}); fault.Of(err) != codes.Conflict {
		t.Errorf("raised without a node: %v", err)
	}
	s.share(t, "bio", 0)
}
