package command_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/admission"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/placement"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

// class is a reservation for vision of two devices, from an hour on for two hours.
func (s *sim) class() command.ReservationPut {
	return command.ReservationPut{Name: "class", Accounts: []string{"vision"}, Count: 2, CPU: 4000, Mem: 8 << 30, GPU: 1000, From: s.now + hour, To: s.now + 3*hour}
}

// inside is a job of ben's in the class.
func inside() workload.Spec {
	return workload.Spec{Name: "lab", Kind: workload.KindContainer, Image: "train:1", Reservation: "class", GPU: 1000, CPU: 1000, Mem: 1 << 30, Time: hour / 2, Pull: "missing"}
}

func TestReservationRefusals(t *testing.T) {
	tests := map[string]struct {
		edit func(s *sim, c *command.ReservationPut)
		code codes.Code
		want []string
	}{
		"in the past":           {func(s *sim, c *command.ReservationPut) { c.From = s.now - 1 }, codes.Invalid, []string{"from: is in the past"}},
		"ends before it begins": {func(s *sim, c *command.ReservationPut) { c.To = c.From }, codes.Invalid, []string{"to: must be after from"}},
		"of longer than a year": {func(s *sim, c *command.ReservationPut) { c.To = c.From + 9000*hour }, codes.Invalid, []string{"a year at most"}},
		"for nobody":            {func(s *sim, c *command.ReservationPut) { c.Accounts = nil }, codes.Invalid, []string{"accounts: say whom"}},
		"for an account that there isn't": {
			func(s *sim, c *command.ReservationPut) { c.Accounts = []string{"vission"} }, codes.Invalid, []string{"no such account: vission"},
		},
		"for a user that there isn't": {func(s *sim, c *command.ReservationPut) { c.Users = []string{"eve"} }, codes.Invalid, []string{"no such user: eve"}},
		"with no payer":               {func(s *sim, c *command.ReservationPut) { c.Accounts, c.Users = nil, []string{"ben"} }, codes.Invalid, []string{"payer: say which account"}},
		"at the cost of others": {
			func(s *sim, c *command.ReservationPut) {
				c.Accounts, c.Users, c.Payer = []string{"nlp"}, nil, "vision"
			}, codes.Invalid, []string{"only an admin may have another pay"},
		},
		"on no partition":      {func(s *sim, c *command.ReservationPut) { c.Partition = "fast" }, codes.Invalid, []string{"no such partition: fast"}},
		"of a broken name":     {func(s *sim, c *command.ReservationPut) { c.Name = "My Class" }, codes.Invalid, []string{"name"}},
		"of nodes and places":  {func(s *sim, c *command.ReservationPut) { c.Nodes = []string{"gpu1"} }, codes.Invalid, []string{"are reserved whole"}},
		"of a foreign node":    {func(s *sim, c *command.ReservationPut) { *c = whole(*c, "gpu2") }, codes.Invalid, []string{"has no node gpu2"}},
		"until before it":      {func(s *sim, c *command.ReservationPut) { c.Repeat, c.Until = placement.EveryDay, s.now }, codes.Invalid, []string{"until"}},
		"until, once":          {func(s *sim, c *command.ReservationPut) { c.Until = s.now + 99*hour }, codes.Invalid, []string{"until"}},
		"longer than its turn": {func(s *sim, c *command.ReservationPut) { c.Repeat, c.To = placement.EveryDay, c.From+25*hour }, codes.Invalid, []string{"end before the next begins"}},
		"with a broken constraint": {
			func(s *sim, c *command.ReservationPut) { c.Where = "a&" }, codes.Invalid, []string{"constraint"},
		},
		"of more than there is": {func(s *sim, c *command.ReservationPut) { c.Count = 5 }, codes.Conflict, []string{"room for 4 such places at most, asked for 5"}},
		"while a job runs": {
			func(s *sim, c *command.ReservationPut) { c.Count, c.From, c.To = 4, s.now+hour, s.now+4*hour }, codes.Conflict,
			[]string{"not free from 2026-11-01 10:00:00 UTC until 2026-11-01 13:00:00 UTC: job 1 until 2026-11-01 11:00:", "; free from 2026-11-01 11:00:"},
		},
		"while another is": {
			func(s *sim, c *command.ReservationPut) { c.Count, c.From, c.To = 4, s.now+21*hour, s.now+22*hour }, codes.Conflict, []string{"another reservation; free from 2026-11-02 07:00:00 UTC"},
		},
		"during maintenance": {
			func(s *sim, c *command.ReservationPut) { c.From, c.To = s.now+29*hour, s.now+31*hour }, codes.Conflict, []string{"maintenance until 2026-11-02 16:00:00 UTC; free from 2026-11-02 16:00:00 UTC"},
		},
		"when a later window isn't free": {
			func(s *sim, c *command.ReservationPut) {
				c.Count, c.Repeat, c.From, c.To = 1, placement.EveryDay, s.now+6*hour, s.now+7*hour
			}, codes.Conflict, []string{"not free from 2026-11-02 15:00:00 UTC", "maintenance"},
		},
		"a node whole that isn't free": {func(s *sim, c *command.ReservationPut) { *c = whole(*c, "gpu1") }, codes.Conflict, []string{"job 1 until"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := newSim(t)
			s.must(t, s.user("root"), command.UserPut{Create: true, Name: "op", Role: text("operator")})
			s.run(t, example(), true)
			s.must(t, s.user("root"), command.MaintenancePut{Node: "*", From: s.now + 30*hour, To: s.now + 31*hour})
			other := s.class()
			other.Name, other.Count, other.From, other.To = "other", 4, s.now+20*hour, s.now+22*hour
			s.must(t, s.user("op"), other)
			cmd := s.class()
			tt.edit(s, &cmd)
			_, err := s.do(s.user("op"), cmd)
			if fault.Of(err) != tt.code {
				t.Fatalf("%v (%s)", err, fault.Of(err))
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q doesn't say %q", err, want)
				}
			}
		})
	}
}

func whole(c command.ReservationPut, node string) command.ReservationPut {
	c.Count, c.CPU, c.Mem, c.GPU, c.Nodes = 0, 0, 0, 0, []string{node}
	return c
}

// An operator is told whose jobs are in the way.
func TestConflictNamesTheJobs(t *testing.T) {
	s := newSim(t)
	s.run(t, four(), true)
	_, err := s.do(s.user("root"), s.class())
	f, ok := err.(*fault.Error)
	if !ok || len(f.Reasons) != 1 {
		t.Fatal(err)
	}
	if r := f.Reasons[0]; r.Code != codes.ReservationConflict || !strings.HasPrefix(r.Message, "job 1 of ada (nlp) on gpu1 until 2026-11-01 11:00:1") || r.Scope != "job 1" {
		t.Errorf("%+v", r)
	}
}

// start gives ben a job in the class and, if it may, its allocation.
func (s *sim) start(t *testing.T, spec workload.Spec) (*workload.Job, admission.Verdict) {
	t.Helper()
	j := s.must(t, s.user("ben"), command.Submit{Spec: spec}).(admission.Accepted).Job
	got := s.must(t, system, command.JobStart{Job: j.ID, Image: "sha256:1"})
	v, _ := got.(admission.Verdict)
	return s.job(t, j.ID), v
}

func reasonOf(v admission.Verdict) string {
	if len(v.Reasons) == 0 {
		return ""
	}
	return string(v.Reasons[0].Code) + ": " + v.Reasons[0].Message
}

// A class from its planning to its end: who runs when, and who pays for what.
func TestALifeOfAReservation(t *testing.T) {
	s := newSim(t)
	root := s.user("root")
	s.must(t, root, command.AccountPut{Name: "vision", Billing: text("showback")})
	got := s.must(t, root, s.class()).(command.Reserved)
	if want := 4 * money.Credit; got.Cost != want || len(got.Bookings) != 1 {
		t.Fatalf("%+v, want a cost of %s", got, want)
	}
	// Ada can't have what is booked: two devices for two hours would reach into it.
	three := example()
	three.GPU = 3000
	s.must(t, s.user("ada"), command.Submit{Spec: three})
	v := s.must(t, system, command.JobStart{Job: 1}).(admission.Verdict)
	if got := reasonOf(v); got != "RESERVED: part of gpu1 is reserved from 2026-11-01 10:00 UTC until 2026-11-01 12:00 UTC; as things stand it would fit from 2026-11-01 12:00 UTC" || v.Reasons[0].Bound != "59m30s" {
		t.Errorf("%s (%s)", got, v.Reasons[0].Bound)
	}
	early, v := s.start(t, inside())
	if got := reasonOf(v); early.State != workload.Queued || got != "RESERVATION_WINDOW: waits for the window of reservation class, which begins at 2026-11-01 10:00 UTC" {
		t.Errorf("before the window it is %s: %s", early.State, got)
	}
	s.now += hour
	s.must(t, system, command.ReservationsDue{})
	s.must(t, system, command.JobStart{Job: early.ID, Image: "sha256:1"})
	s.must(t, system, command.JobObserved{Job: early.ID, N: 1, Running: true, Started: s.now})
	long := inside()
	long.Time = 2 * hour
	if f := refusal(t, second(s.do(s.user("ben"), command.Submit{Spec: long}))); f.Reasons[0].Code != codes.ReservationShort || f.Remedy == nil || f.Remedy.Set["time"] != "1h59m30s" {
		t.Errorf("%v %+v", f, f.Remedy)
	}
	two := inside()
	two.GPU = 3000
	if f := refusal(t, second(s.do(s.user("ben"), command.Submit{Spec: two}))); f.Message != "refused R-2: asked for 3 gpu, reservation class has 2 on one node" || f.Remedy.Set["gpu"] != "2" {
		t.Errorf("%v %+v", f, f.Remedy)
	}
	next, _ := s.start(t, inside())
	third, v := s.start(t, inside())
	if got := reasonOf(v); next.State != workload.Starting || third.State != workload.Queued || got != "DEVICES_BUSY: needs 1 gpu; 0 of the 2 that reservation class has of gpu1 are free" {
		t.Errorf("%s, %s: %s", next.State, third.State, got)
	}
	// Half an hour later both are through, and the devices are the class's again.
	s.now += hour / 2
	for _, j := range []*workload.Job{early, next} {
		s.must(t, system, command.JobObserved{Job: j.ID, N: 1, Exited: true, Started: s.now - hour/2, Finished: s.now})
	}
	s.must(t, s.user("ben"), command.JobStop{Job: third.ID})
	_, v = s.start(t, inside())
	if len(v.Reasons) > 0 {
		t.Errorf("%v", v.Reasons)
	}
	fourth := s.job(t, 5)
	s.must(t, system, command.JobObserved{Job: fourth.ID, N: 1, Running: true, Started: s.now})
	rest := inside()
	rest.GPU = 2000 // waits until the window is over
	waiting, _ := s.start(t, rest)
	s.now += hour / 2
	s.must(t, system, command.JobObserved{Job: fourth.ID, N: 1, Exited: true, Finished: s.now})
	// The server sleeps over the window's end.
	s.now += 10 * hour
	s.must(t, system, command.ReservationsDue{})
	if _, live := s.w.Workload.Jobs.Get(waiting.ID); live || s.w.Placement.Reservations.Len() != 0 || s.w.Placement.Bookings.Len() != 0 {
		t.Error("the class isn't over")
	}
	// Unused: half an hour of one device, then an hour of two.
	charged := s.w.Ledger.Balance(ledger.Spent(2))
	jobs := 3*(money.Credit/2+5_000+500) + 0
	if want := jobs + 2*money.Credit + money.Credit/2; charged != want {
		t.Errorf("vision paid %s, want %s", charged, want)
	}
	for _, tile := range s.w.Ledger.Tiles.All() {
		if tile.Cause != ledger.CauseIdle {
			t.Errorf("%+v", tile)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestWhoMayRunInAReservation(t *testing.T) {
	s := newSim(t)
	s.must(t, s.user("root"), command.MemberPut{Account: "vision", User: "ada", Role: "member"})
	cmd := s.class()
	cmd.Users = []string{"root"}
	cmd.Payer = "vision"
	s.must(t, s.user("root"), cmd)
	for name, tt := range map[string]struct {
		user, account, reservation, partition string
		field, says                           string
	}{
		"a member":                      {"ben", "vision", "class", "", "", ""},
		"by another account of his":     {"ada", "nlp", "class", "", "reservation", "class isn't for account nlp"},
		"one that there isn't":          {"ben", "vision", "glass", "", "reservation", "no such reservation: glass"},
		"in the partition that it's in": {"ben", "vision", "class", "main", "", ""},
		"in another":                    {"ben", "vision", "class", "other", "partition", "reservation class is in partition main"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &sim{w: s.w.Copy(), now: s.now}
			s.must(t, s.user("root"), command.PartitionPut{Create: true, Name: "other"})
			spec := inside()
			spec.Account, spec.Reservation, spec.Partition = tt.account, tt.reservation, tt.partition
			_, err := s.do(s.user(tt.user), command.Submit{Spec: spec})
			if tt.field == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			f, ok := err.(*fault.Error)
			if !ok || len(f.Fields) != 1 || f.Fields[0].Path != tt.field || f.Fields[0].Message != tt.says {
				t.Fatalf("%v", err)
			}
		})
	}
	// Who may not see it can't tell it from one that there isn't.
	s.must(t, s.user("root"), command.UserPut{Create: true, Name: "eve"})
	s.must(t, s.user("root"), command.AccountPut{Create: true, Name: "bio"})
	s.must(t, s.user("root"), command.MemberPut{Account: "bio", User: "eve", Role: "owner"})
	spec := inside()
	_, hidden := s.do(s.user("eve"), command.Submit{Spec: spec})
	spec.Reservation = "glass"
	_, missing := s.do(s.user("eve"), command.Submit{Spec: spec})
	if hidden == nil || strings.ReplaceAll(hidden.Error(), "class", "glass") != missing.Error() {
		t.Errorf("%v, and %v", hidden, missing)
	}
	s.must(t, s.user("root"), command.PartitionPut{Create: true, Name: "x"})
}

func TestCancelEndsWhatWaits(t *testing.T) {
	s := newSim(t)
	cmd := s.class()
	cmd.From = 0
	s.must(t, s.user("root"), cmd)
	s.must(t, system, command.ReservationsDue{})
	running, _ := s.start(t, inside())
	spec := inside()
	spec.Hold = true
	held := s.must(t, s.user("ben"), command.Submit{Spec: spec}).(admission.Accepted).Job
	spec.Hold, spec.Array = false, workload.ArraySpec{Elements: workload.Elements{{First: 0, Last: 3, Step: 1}}}
	array := s.must(t, s.user("ben"), command.Submit{Spec: spec}).(admission.Accepted).Job
	for kind, cmd := range map[string]world.Command{
		"account": command.AccountRemove{Name: "vision"}, "partition": command.PartitionRemove{Name: "main"},
		"maintenance": command.MaintenancePut{Node: "gpu1", From: s.now + hour, To: s.now + 5*hour},
	} {
		if _, err := s.do(s.user("root"), cmd); fault.Of(err) != codes.Conflict || !strings.Contains(err.Error(), "reservation class") && kind != "partition" {
			t.Errorf("%s: %v", kind, err)
		}
	}
	got := s.must(t, s.user("root"), command.ReservationCancel{Name: "class"}).(command.Reserved)
	if got.Ended != 2 {
		t.Errorf("%d jobs ended", got.Ended)
	}
	for _, k := range []id.Job{held.ID, array.ID} {
		if _, live := s.w.Workload.Jobs.Get(k); live {
			t.Errorf("job %d waits for ever", k)
		}
	}
	if s.job(t, running.ID).State != workload.Starting {
		t.Error("what runs doesn't go on")
	}
	if _, err := s.do(s.user("root"), command.ReservationCancel{Name: "class"}); fault.Of(err) != codes.NotFound {
		t.Errorf("twice: %v", err)
	}
	// What was to be queued again ends, though another has the name now.
	s.must(t, s.user("root"), cmd)
	s.must(t, s.user("ben"), command.JobRequeue{Job: running.ID})
	s.must(t, system, command.JobObserved{Job: running.ID, N: 1, Exited: true, Finished: s.now})
	s.must(t, system, command.ReservationsDue{})
	if _, live := s.w.Workload.Jobs.Get(running.ID); live {
		t.Error("it waits in a reservation that is over")
	}
	if s.w.Ledger.Balance("waste:reserved") != 0 {
		t.Error("something is lost")
	}
}

func TestWindowsComeAndGo(t *testing.T) {
	s := newSim(t)
	root := s.user("root")
	cmd := s.class()
	cmd.Repeat = placement.EveryDay
	got := s.must(t, root, cmd).(command.Reserved)
	if len(got.Bookings) != 14 {
		t.Fatalf("%d windows", len(got.Bookings))
	}
	// A node that can't be used: the next window can't be booked, and it says so.
	s.must(t, root, command.NodeDrain{Node: "gpu1", Reason: "fans"})
	s.now += 24 * hour
	s.must(t, system, command.ReservationsDue{})
	last := s.w.Placement.BookingsOf(got.Row.ID)
	if b := last[len(last)-1]; b.Failed == "" || len(b.Parts) != 0 {
		t.Fatalf("%+v", b)
	}
	if out, err := (command.ReservationsDue{}).Decide(s.w, s.context(system)); err != nil || !out.Event.Skip {
		t.Fatalf("%+v %v", out, err)
	}
	s.must(t, root, command.NodeDrain{Node: "gpu1", Resume: true})
	s.must(t, system, command.ReservationsDue{})
	last = s.w.Placement.BookingsOf(got.Row.ID)
	if b := last[len(last)-1]; b.Failed != "" || len(b.Parts) != 1 {
		t.Fatalf("%+v", b)
	}
	first := last[0].ID
	s.must(t, root, command.ReservationCancel{Name: "class", Window: first})
	s.now += 30 * 24 * hour // the server sleeps
	s.must(t, system, command.ReservationsDue{})
	for _, b := range s.w.Placement.BookingsOf(got.Row.ID) {
		if b.ID == first || b.To <= s.now || b.Failed != "" {
			t.Errorf("%+v", b)
		}
	}
	if n := len(s.w.Placement.BookingsOf(got.Row.ID)); n != 14 {
		t.Errorf("%d windows are booked", n)
	}
}

func TestReservationNeedsFunds(t *testing.T) {
	s := newSim(t)
	root := s.user("root")
	cmd := s.class()
	cmd.Name, cmd.Accounts, cmd.Count, cmd.To = "long", []string{"nlp"}, 4, cmd.From+200*hour
	if _, err := s.do(root, cmd); fault.Of(err) != codes.Conflict || !strings.Contains(err.Error(), "cost 800.000 if nobody uses them, account nlp has 500.000") {
		t.Errorf("%v", err)
	}
	cmd.To = cmd.From + 100*hour
	s.must(t, root, cmd)
	// The price doubles: what the account lacks is the platform's loss.
	s.must(t, root, command.PricePut{From: cmd.From, CPU: 1, Mem: 1, Devices: nil})
	s.now = cmd.To
	s.must(t, system, command.ReservationsDue{})
	if s.w.Ledger.Balance(ledger.Spent(1)) < 0 || s.w.Ledger.Balance("grant:1") < 0 {
		t.Error("more was spent than there is")
	}
}

// Whoever is inside of a reservation isn't preempted, and preempts nobody.
func TestNobodyInsideIsPreempted(t *testing.T) {
	s := withUrgent(t, command.ContractChange{})
	cmd := s.class()
	cmd.From = 0
	s.must(t, s.user("root"), cmd)
	victim, _ := s.start(t, inside())
	s.must(t, system, command.JobObserved{Job: victim.ID, N: 1, Running: true, Started: s.now})
	urgent := s.urgent(t, 4)
	s.must(t, system, command.JobPreempt{Job: victim.ID, For: urgent, Node: "gpu1"})
	if got := s.job(t, victim.ID).State; got != workload.Running {
		t.Errorf("it is %s", got)
	}
}

// reserve books and cancels reservations, at random.
func (h *history) reserve(t *rapid.T) {
	root := h.user("root")
	switch rapid.IntRange(0, 4).Draw(t, "reserve") {
	case 0, 1:
		from := h.now + rapid.Int64Range(0, 2*hour).Draw(t, "from")
		h.do(t, root, command.ReservationPut{
			Name: fmt.Sprintf("r%d", rapid.IntRange(1, 2).Draw(t, "name")), Accounts: []string{rapid.SampledFrom([]string{"nlp", "vision"}).Draw(t, "for")},
			Count: rapid.Int64Range(1, 3).Draw(t, "places"), GPU: 1000, From: from, To: from + rapid.Int64Range(1, 3*hour).Draw(t, "lasts"),
			Repeat: rapid.SampledFrom([]placement.Repeat{placement.Never, placement.Never, placement.EveryDay}).Draw(t, "again"),
		})
	case 2:
		h.do(t, root, command.ReservationCancel{Name: fmt.Sprintf("r%d", rapid.IntRange(1, 2).Draw(t, "name"))})
	default:
		h.do(t, system, command.ReservationsDue{})
	}
}

// within checks that a reserved tile begins and ends in windows.
func (h *history) within(t *rapid.T, tile ledger.Tile) {
	in := func(at int64) bool {
		return at == 0 || slices.ContainsFunc(h.windows, func(b placement.Booking) bool { return b.From <= at && at <= b.To })
	}
	if !in(tile.From) || !in(tile.To) {
		t.Fatalf("%s is reserved from %d to %d, in no window", tile.Device, tile.From, tile.To)
	}
}

// reserved checks that jobs outside and what is booked are never more than there is, and
// that what a reservation's payer paid is what its tiles say.
func (h *history) reserved(t *rapid.T) {
	var booked int64
	inside, outside := map[id.Reservation]bool{}, map[string]bool{} // devices, which several may have parts of
	for _, b := range h.w.Placement.Bookings.All() {
		if p, ok := b.On("gpu1"); ok && b.Active(h.now) {
			for _, m := range p.Models {
				booked += m.Count / 1000
			}
			inside[b.Reservation] = true
		}
	}
	for _, hold := range h.w.Placement.Holds.All() {
		for _, d := range hold.Devices {
			if !inside[hold.In] && (hold.Until > h.now || hold.In != 0) {
				outside[d] = true
			}
		}
	}
	if n := int64(len(outside)); booked > 0 && n+booked > 4 {
		t.Fatalf("%d devices are booked, and jobs outside have %d", booked, n)
	}
	var posted, charged money.Micros
	for _, ts := range h.tiles {
		for _, tile := range ts {
			if tile.Cause == ledger.CauseReserved && tile.Account == 0 {
				t.Fatalf("nobody pays for %+v", tile)
			}
			if tile.Cause == ledger.CauseReserved {
				posted += tile.Posted
				h.within(t, tile)
			}
		}
	}
	for _, tr := range h.transfers {
		if tr.Kind == ledger.KindCharge && tr.Job == 0 {
			charged += tr.Amount
		}
	}
	if posted != charged {
		t.Fatalf("tiles say %s was charged for reservations, transfers %s", posted, charged)
	}
	if slices.ContainsFunc(h.transfers, func(tr ledger.Transfer) bool { return tr.Amount <= 0 }) {
		t.Fatalf("a transfer of nothing")
	}
}
