package command_test

import (
	"fmt"
	"slices"
	"testing"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/admission"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/placement"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

// meets sets places of a core and a GiB aside for the course until two hours from now.
func (s *sim) meets(t fataler, seats int64) {
	s.must(t, s.user("root"), command.ReservationPut{
		Name: "ml24", Accounts: []string{"course"}, Count: seats, CPU: 1000, Mem: 1 << 30, Length: 2 * hour, Join: true, Each: 1, Images: []string{"train:1"},
	})
}

// course is n people in an account of their own.
func (s *sim) course(t fataler, n int) {
	root := s.user("root")
	s.must(t, root, command.AccountPut{Create: true, Name: "course", Billing: text("off")})
	for i := range n {
		s.must(t, root, command.UserPut{Create: true, Name: fmt.Sprintf("s%02d", i)})
		s.must(t, root, command.MemberPut{Account: "course", User: fmt.Sprintf("s%02d", i), Role: "member"})
	}
}

func (s *sim) accepted(t *testing.T, user string, spec workload.Spec) *workload.Job {
	t.Helper()
	got := s.must(t, s.user(user), command.Submit{Spec: spec})
	return s.job(t, got.(admission.Accepted).Job.ID)
}

// small is a job that fits a place of the class and says no time.
func small() workload.Spec {
	return workload.Spec{Name: "sum", Kind: workload.KindContainer, Image: "train:1", CPU: 1000, Mem: 1 << 30, Pull: "missing"}
}

// plan starts what the planner would start now.
func (s *sim) plan(t *testing.T) []id.Job {
	t.Helper()
	v := s.w.View(s.now)
	in := placement.PlanInput{State: &s.w.Placement, Now: s.now, Depth: 50, Margin: admission.StartMargin, Eligible: v.Eligible, Models: v.Models}
	p, _ := s.w.Catalog.Partitions.Get("main")
	for _, r := range append([]placement.Reservation{{}}, reserved(s.w)...) {
		in.Lanes = append(in.Lanes, placement.Lane{Partition: p, Queue: s.w.Workload.Queue(v.Order(), workload.QueueOf("main", r.ID)), In: r.ID})
	}
	var out []id.Job
	for _, st := range placement.Plan(in).Starts {
		s.must(t, system, command.JobStart{Job: st.Job.ID, Image: "sha256:1", Node: st.Spot.Node, Devices: st.Spot.UUIDs()})
		if workload.RulesOf(s.job(t, st.Job.ID).State).Running {
			out = append(out, st.Job.ID)
		}
	}
	return out
}

func reserved(w *world.World) []placement.Reservation {
	var out []placement.Reservation
	for _, r := range w.Placement.Reservations.All() {
		out = append(out, r)
	}
	return out
}

// TestClass: forty people of a course start at once, beside a full machine, without a
// flag; nobody else gets a place, and whatever doesn't fit waits outside.
func TestClass(t *testing.T) {
	s := newSim(t)
	s.course(t, 41)
	s.meets(t, 40)
	all := example()
	all.CPU, all.GPU, all.Time = 24000, 0, 10*hour
	other := s.accepted(t, "ada", all)
	if other.In != 0 {
		t.Fatalf("a job of another account is in reservation %d", other.In)
	}
	var jobs []id.Job
	for i := range 40 {
		j := s.accepted(t, fmt.Sprintf("s%02d", i), small())
		if j.In == 0 || j.Spec.Time != 2*hour-5*minute-admission.StartMargin {
			t.Fatalf("job %d: in %d for %d s", j.ID, j.In, j.Spec.Time/1e9)
		}
		jobs = append(jobs, j.ID)
	}
	s.now += 4 * minute // forty starts take their time
	if got := s.plan(t); !slices.Equal(sortedIDs(got), append([]id.Job{other.ID}, jobs...)) {
		t.Fatalf("started %v, want all of %d and %v", got, other.ID, jobs)
	}

	for name, tc := range map[string]struct {
		user string
		edit func(*workload.Spec)
	}{
		"a second job of a user": {"s00", func(*workload.Spec) {}},
		"no place is left":       {"s40", func(*workload.Spec) {}},
		"another account":        {"ada", func(*workload.Spec) {}},
		"too big":                {"s40", func(sp *workload.Spec) { sp.CPU = 2000 }},
		"too long":               {"s40", func(sp *workload.Spec) { sp.Time = 2 * hour }},
		"says none":              {"s40", func(sp *workload.Spec) { sp.Reservation = admission.NoReservation }},
		"not to begin yet":       {"s40", func(sp *workload.Spec) { sp.Begin = s.now + hour }},
	} {
		t.Run(name, func(t *testing.T) {
			spec := small()
			tc.edit(&spec)
			if j := s.accepted(t, tc.user, spec); j.In != 0 || j.Spec.Reservation != "" {
				t.Errorf("is in reservation %d %q", j.In, j.Spec.Reservation)
			}
		})
	}
}

// TestClassSeat: a place that was left is given to the next, and not twice to one.
func TestClassSeat(t *testing.T) {
	s := newSim(t)
	s.course(t, 3)
	s.meets(t, 2)
	named := small()
	named.Reservation, named.Time = "ml24", hour
	first, second := s.accepted(t, "s00", named), s.accepted(t, "s00", named)
	if got := s.plan(t); !slices.Equal(got, []id.Job{first.ID}) {
		t.Fatalf("started %v", got)
	}
	why, _, err := admission.Why(s.w.View(s.now), s.job(t, second.ID))
	if err != nil || len(why.Reasons) != 1 || why.Reasons[0].Code != codes.ReservationEach {
		t.Fatalf("%+v %v", why.Reasons, err)
	}
	if w := why.Window; w.Start != s.now+hour+admission.StartMargin {
		t.Errorf("the second is to start in %d s, want when the first has ended", (w.Start-s.now)/1e9)
	}
	if j := s.accepted(t, "s01", small()); j.In == 0 {
		t.Error("a place is free, whatever else waits of a user who has one, and wasn't given")
	}
	if j := s.accepted(t, "s02", small()); j.In != 0 {
		t.Error("both places are spoken for, and a third user is in line")
	}
	s.now += 2*hour - minute
	if j := s.accepted(t, "s01", small()); j.In != 0 {
		t.Error("less than a minute is left")
	}
}

// TestClassGivesWholeDevices: a job that wants a part of a device, or one that no device of
// the class has the memory for, runs outside of it.
func TestClassGivesWholeDevices(t *testing.T) {
	s := newSim(t)
	s.course(t, 1)
	shared := true
	s.must(t, s.user("root"), command.PartitionPut{Name: "main", ShareDevices: &shared})
	s.must(t, s.user("root"), command.ReservationPut{
		Name: "ml24", Accounts: []string{"course"}, Count: 2, CPU: 1000, Mem: 1 << 30, GPU: 1000, Length: 2 * hour, Join: true,
	})
	for name, tt := range map[string]struct {
		gpu, mem int64
		joins    bool
	}{
		"whole":          {1000, 0, true},
		"with as much":   {1000, 40 << 30, true},
		"half a device":  {500, 0, false},
		"some memory":    {workload.LeastPart, 10 << 30, false},
		"all its memory": {workload.LeastPart, 40 << 30, false},
	} {
		spec := small()
		spec.GPU, spec.GPUMem = tt.gpu, tt.mem
		if j := s.accepted(t, "s00", spec); (j.In != 0) != tt.joins {
			t.Errorf("%s: in reservation %d", name, j.In)
		}
	}
}

// TestClassPlaces: nobody has more of a class than a place for each of his jobs, neither
// by a large job nor by many.
func TestClassPlaces(t *testing.T) {
	s := newSim(t)
	s.course(t, 3)
	s.meets(t, 3)
	large := small()
	large.CPU = 3000
	if j := s.accepted(t, "s00", large); j.In != 0 {
		t.Error("a job as large as three places was put into the class")
	}
	large.Reservation, large.Time = "ml24", hour
	_, err := s.do(s.user("s00"), command.Submit{Spec: large})
	if f := refusal(t, err); f.Reasons[0].Message != "asked for 3 cpu, a place of reservation ml24 has 1" || f.Remedy == nil || f.Remedy.Flags != "--cpu 1" {
		t.Errorf("%+v %+v", f.Reasons, f.Remedy)
	}
	many := small()
	many.Reservation, many.Time, many.Array = "ml24", hour, workload.ArraySpec{Elements: workload.Elements{{First: 0, Last: 999, Step: 1}}}
	s.accepted(t, "s00", many)
	for _, u := range []string{"s01", "s02"} {
		if j := s.accepted(t, u, small()); j.In == 0 {
			t.Errorf("%s has no place: another's array has them all", u)
		}
	}
}

// TestClassWithinBounds: without a flag a job gets no more time than it may have, and
// isn't put where it would be refused.
func TestClassWithinBounds(t *testing.T) {
	s := newSim(t)
	s.course(t, 2)
	s.meets(t, 2)
	root := s.user("root")
	s.must(t, root, command.LimitPut{Account: "course", Resource: limits.Time, Max: hour})
	if j := s.accepted(t, "s00", small()); j.In == 0 || j.Spec.Time != hour {
		t.Errorf("in %d for %d s, want the hour that the limit allows", j.In, j.Spec.Time/1e9)
	}
	s.must(t, root, command.QoSPut{Create: true, Name: "brief", MaxWall: ptr(hour / 2)})
	brief := small()
	brief.QoS = "brief"
	if j := s.accepted(t, "s01", brief); j.In == 0 || j.Spec.Time != hour/2 {
		t.Errorf("in %d for %d s, want the half hour that the QoS allows", j.In, j.Spec.Time/1e9)
	}
}

// TestClassMayUse: nobody is put into a class in a partition, or by a QoS, that his account
// may not use, nor for longer than the partition allows.
func TestClassMayUse(t *testing.T) {
	for name, tc := range map[string]struct {
		edit command.PartitionPut
		qos  command.QoSPut
		in   bool
		time int64
	}{
		"a shorter longest time":       {edit: command.PartitionPut{MaxWall: ptr(hour / 2), DefWall: ptr(hour / 2)}, in: true, time: hour / 2},
		"denied":                       {edit: command.PartitionPut{Deny: &[]string{"course"}}},
		"for others only":              {edit: command.PartitionPut{Accounts: &[]string{"nlp"}}},
		"for another QoS only":         {edit: command.PartitionPut{QoS: &[]string{"normal"}}},
		"a QoS for another partition":  {qos: command.QoSPut{Partitions: &[]string{"main"}}},
		"all may, and the QoS is here": {qos: command.QoSPut{Partitions: &[]string{"room"}}, in: true, time: 2*hour - 6*minute},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSim(t)
			s.course(t, 1)
			root := s.user("root")
			s.must(t, root, command.PartitionPut{Create: true, Name: "room"})
			s.must(t, root, command.QoSPut{Create: true, Name: "lesson"})
			s.must(t, root, command.ReservationPut{
				Name: "ml24", Partition: "room", Accounts: []string{"course"}, Count: 2, CPU: 1000, Mem: 1 << 30, Length: 2 * hour, Join: true, Each: 1,
			})
			tc.edit.Name, tc.qos.Name = "room", "lesson"
			s.must(t, root, tc.edit)
			s.must(t, root, tc.qos)
			spec := small()
			spec.QoS = "lesson"
			j := s.accepted(t, "s00", spec)
			switch {
			case !tc.in && (j.In != 0 || j.Spec.Partition != "main" || j.Spec.Time != hour):
				t.Errorf("in reservation %d of %s for %d s, want none", j.In, j.Spec.Partition, j.Spec.Time/1e9)
			case tc.in && (j.In == 0 || j.Spec.Partition != "room" || j.Spec.Time != tc.time):
				t.Errorf("in reservation %d of %s for %d s, want the class for %d s", j.In, j.Spec.Partition, j.Spec.Time/1e9, tc.time/1e9)
			}
		})
	}
}

func ptr[T any](v T) *T { return &v }

// TestClassIsRefused: what can't be a class says why.
func TestClassIsRefused(t *testing.T) {
	s := newSim(t)
	s.course(t, 1)
	s.must(t, s.user("root"), command.LimitPut{Account: "course", Resource: limits.Running, Max: 30})
	good := command.ReservationPut{Name: "ml24", Accounts: []string{"course"}, Count: 30, CPU: 1000, Mem: 1 << 30, Length: hour, Join: true, Each: 1}
	for name, tc := range map[string]struct {
		edit func(*command.ReservationPut)
		want string
	}{
		"above a limit":      {func(c *command.ReservationPut) { c.Count = 31 }, "all 31 places at once come to 31 running, and account course may have 30: raise that limit first, or reserve less"},
		"none as a name":     {func(c *command.ReservationPut) { c.Name = "none" }, `name: "none" is what a job says that is to run in none`},
		"whole nodes":        {func(c *command.ReservationPut) { c.Count, c.CPU, c.Mem, c.Nodes = 0, 0, 0, []string{"gpu1"} }, "join: is for places: give count rather than nodes"},
		"a negative each":    {func(c *command.ReservationPut) { c.Each = -1 }, "each: must be from 0 to 1000"},
		"no image reference": {func(c *command.ReservationPut) { c.Images = []string{"../x"} }, `images: "../x" isn't an image reference`},
		"too many images":    {func(c *command.ReservationPut) { c.Images = slices.Repeat([]string{"a"}, 21) }, "images: must be 20 at most"},
	} {
		t.Run(name, func(t *testing.T) {
			c := good
			tc.edit(&c)
			_, err := s.do(s.user("root"), c)
			f, ok := err.(*fault.Error)
			if !ok || wrong(f) != tc.want {
				t.Errorf("got %v, want %s", err, tc.want)
			}
		})
	}
	s.must(t, s.user("root"), good)
	if _, err := s.do(s.user("s00"), good); err == nil {
		t.Error("a member made a class")
	}
}

// wrong is a fault's first field with what is wrong with it, or its message.
func wrong(f *fault.Error) string {
	for _, p := range f.Fields {
		return p.Path + ": " + p.Message
	}
	return f.Message
}

func sortedIDs(ids []id.Job) []id.Job { return slices.Sorted(slices.Values(ids)) }
