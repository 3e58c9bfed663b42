package placement

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/id"
)

const minute = 60 * second

// drawReservations books windows of up to three reservations wherever there is room, up
// to three windows each.
func drawReservations(t *rapid.T, s *State, now int64) {
	for i := range rapid.IntRange(0, 3).Draw(t, "reservations") {
		r := Reservation{
			ID: id.Reservation(i + 1), Partition: "all", Count: rapid.Int64Range(1, 3).Draw(t, "places"),
			CPU: rapid.Int64Range(1, 4).Draw(t, "cpu") * core, Mem: rapid.Int64Range(1, 4).Draw(t, "mem") * gib,
			GPU: rapid.Int64Range(0, 2).Draw(t, "gpu") * 1000, Model: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "model"),
		}
		if rapid.IntRange(0, 4).Draw(t, "whole") == 0 {
			r.Count, r.Nodes = 0, []string{"n0"}
		}
		s.Fold(ReservationSet{r})
		from := now + rapid.Int64Range(0, 40).Draw(t, "begins")*minute
		for range rapid.IntRange(1, 3).Draw(t, "windows") {
			to := from + rapid.Int64Range(5, 40).Draw(t, "lasts")*minute
			if parts, conflict := s.Book(r, everywhere, from, to, now); conflict == nil {
				s.Fold(BookingSet{Booking{ID: s.NextBooking(), Reservation: r.ID, From: from, To: to, Parts: parts}})
			}
			from = to + rapid.Int64Range(0, 20).Draw(t, "pause")*minute
		}
	}
}

// drawShapeIn is a shape that may be in a reservation, as placeable has it.
func drawShapeIn(t *rapid.T, s *State) (asked, sh Shape) {
	sh = drawShape(t)
	if sh.In = id.Reservation(rapid.IntRange(0, 3).Draw(t, "in")); sh.In != 0 && sh.part() {
		sh.GPU = 1000
	}
	return placeable(s, sh)
}

// inside is what a job takes, as the oracle sees it, perhaps in a reservation.
type inside struct {
	taken
	in id.Reservation
}

// checkReserved fails if at any time the jobs outside and what is booked are more than a
// node has, or jobs inside have more than is booked for them. It looks at every moment at
// which something begins, and shares no code with the tracks.
func checkReserved(t *rapid.T, s *State, uses []inside) {
	var moments []int64
	for _, u := range uses {
		moments = append(moments, u.from)
	}
	for _, b := range s.Bookings.All() {
		moments = append(moments, b.From, b.To)
	}
	for _, at := range moments {
		for _, n := range s.Nodes.All() {
			free := taken{cpu: n.CPU, mem: n.Memory}
			for _, d := range s.Devices.All() {
				if d.Node == n.Name && d.Usable() {
					free.models = append(free.models, catalog.ModelCount{Model: d.Model, Count: 1000})
				}
			}
			booked, parts := map[id.Reservation]taken{}, map[string]bool{}
			for _, b := range s.Bookings.All() {
				p := slices.IndexFunc(b.Parts, func(p Part) bool { return p.Node == n.Name })
				if p >= 0 && b.From <= at && at < b.To {
					part := taken{cpu: b.Parts[p].CPU, mem: b.Parts[p].Mem, models: b.Parts[p].Models}
					booked[b.Reservation] = part
					// whole nodes are booked with devices that have failed
					free = minus(t, "all that is booked", n.Name, at, free, part, !n.Usable() || len(b.Parts[p].Models) > 0)
				}
			}
			for _, u := range uses {
				if u.node != n.Name || u.from > at || u.to <= at {
					continue
				}
				if u.shared != "" && len(u.models) > 0 {
					u.models = []catalog.ModelCount{{Model: u.models[0].Model, Count: 1000}}
					if parts[u.shared] {
						u.models = nil // the others have it already
					}
					parts[u.shared] = true
				}
				if u.in == 0 {
					free = minus(t, "jobs outside", n.Name, at, free, u.taken, false)
				} else {
					booked[u.in] = minus(t, "jobs inside", n.Name, at, booked[u.in], u.taken, false)
				}
			}
		}
	}
}

// minus takes b off a.
func minus(t *rapid.T, what, node string, at int64, a, b taken, lenient bool) taken {
	left := map[string]int64{}
	for _, m := range a.models {
		left[m.Model] += m.Count
	}
	for _, m := range b.models {
		if left[m.Model] -= m.Count; left[m.Model] < 0 && !lenient {
			t.Fatalf("%s at %d: %d devices of %s too many for %s", node, at, -left[m.Model], m.Model, what)
		}
	}
	out := taken{cpu: a.cpu - b.cpu, mem: a.mem - b.mem}
	for m, n := range left {
		out.models = append(out.models, catalog.ModelCount{Model: m, Count: n})
	}
	if out.cpu < 0 || out.mem < 0 {
		t.Fatalf("%s at %d: cpu %d, mem %d too little for %s", node, at, out.cpu, out.mem, what)
	}
	return out
}

// startSome starts jobs inside and outside wherever they fit, and notes what they take.
func startSome(t *rapid.T, s *State, now int64) []inside {
	var out []inside
	for i := range rapid.IntRange(0, 10).Draw(t, "jobs") {
		asked, sh := drawShapeIn(t, s)
		spot, misfits := s.FitNow(sh, everywhere, now)
		start, _, fits := s.Timeline(now, everywhere).Earliest(sh, everywhere, now)
		if fits = fits && start == now; fits != (misfits == nil) {
			t.Fatalf("%+v: fits now %v, by the timeline %v (%d): %+v", sh, misfits == nil, fits, start, misfits)
		}
		if misfits != nil {
			continue
		}
		if bad := s.Check(sh, spot, now); bad != nil {
			t.Fatalf("%+v fits at %v, and then: %+v", sh, spot, bad)
		}
		checkDevices(t, s, asked, spot.Node, spot.Models())
		s.Hold(Hold{Job: id.Job(1000 + i), Node: spot.Node, CPU: sh.CPU, Mem: sh.Mem, Devices: spot.UUIDs(), Part: spot.Part, Ports: sh.Ports, From: now, Until: now + sh.Length(), In: sh.In})
		u := taken{spot.Node, now, now + sh.Length(), sh.CPU, sh.Mem, spot.Models(), "", sh.Memory, sh.Ports}
		if spot.Part > 0 {
			u.shared = spot.Devices[0].UUID
		}
		out = append(out, inside{u, sh.In})
	}
	return out
}

// TestReservationsAreKept: whatever is booked, started and planned, nobody outside takes
// what is booked, and nobody inside takes more, or longer, than is.
func TestReservationsAreKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const now = 1000 * hour
		s := drawFleet(t, now)
		drawReservations(t, s, now)
		uses := startSome(t, s, now)
		checkReserved(t, s, uses)
		tl := s.Timeline(now, everywhere)
		for range rapid.IntRange(0, 8).Draw(t, "slots") {
			_, sh := drawShapeIn(t, s)
			start, node, ok := tl.Earliest(sh, everywhere, now)
			if !ok {
				continue
			}
			for _, tr := range tl.of(sh.In, tl.tracks) {
				for _, at := range slices.Clone(tr.at) {
					if slot, ok := tl.Reserve(sh, tr.node, at); ok {
						if at < start {
							t.Fatalf("earliest %+v is %d on %s, but %d on %s works", sh, start, node, at, tr.node)
						}
						tl.Cancel(slot)
					}
				}
			}
			slot, ok := tl.Reserve(sh, node, start)
			if !ok {
				t.Fatalf("can't reserve %+v on %s at %d", sh, node, start)
			}
			uses = append(uses, inside{slotTaken(sh, slot), sh.In})
			checkReserved(t, s, uses)
		}
	})
}

// TestWindowsAreBookedWhereFree: a window that is refused doesn't fit beside what there
// is, and fits when it is said to.
func TestWindowsAreBookedWhereFree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const now = 1000 * hour
		s := drawFleet(t, now)
		drawReservations(t, s, now)
		uses := startSome(t, s, now)
		r := Reservation{ID: 9, Partition: "all", Count: rapid.Int64Range(1, 4).Draw(t, "count"), CPU: core, Mem: gib, GPU: rapid.Int64Range(0, 2).Draw(t, "gpu") * 1000}
		from := now + rapid.Int64Range(0, 60).Draw(t, "from")*minute
		length := rapid.Int64Range(1, 60).Draw(t, "length") * minute
		parts, c := s.Book(r, everywhere, from, from+length, now)
		if c == nil {
			s.Fold(BookingSet{Booking{ID: s.NextBooking(), Reservation: 9, From: from, To: from + length, Parts: parts}})
			checkReserved(t, s, uses)
			return
		}
		if c.Never() != (c.Room < r.Count) || c.Never() && c.Free != 0 {
			t.Fatalf("room for %d of %d: %+v", c.Room, r.Count, c)
		}
		if !c.Never() && len(c.Jobs)+len(c.Bookings)+len(c.Maintenance) == 0 {
			t.Fatalf("nothing is in the way of %+v", c)
		}
		if c.Free != 0 {
			if _, again := s.Book(r, everywhere, c.Free, c.Free+length, now); again != nil || c.Free <= from {
				t.Fatalf("free from %d (asked for %d): %+v", c.Free, from, again)
			}
		}
		if c.Free == 0 && !c.Never() && s.Maintenance.Len() == 0 {
			if _, again := s.Book(r, everywhere, now+1000*hour, now+1000*hour+length, now); again == nil {
				t.Fatalf("no time is found for %d places, and in the end they are free", r.Count)
			}
		}
	})
}

// TestReservedDevicesHaveAPayer: of the devices that nobody has, as many are kept free as
// are booked and not used, and those that were stay so.
func TestReservedDevicesHaveAPayer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const now = 1000 * hour
		s := drawFleet(t, now)
		drawReservations(t, s, now)
		startSome(t, s, now)
		for _, n := range s.Nodes.All() {
			none := func(Device) bool { return false }
			idle := s.Idle(n.Name, now, none)
			again := s.Idle(n.Name, now, func(d Device) bool { return idle[d.UUID].ID != 0 })
			for d := range idle {
				if again[d].ID != idle[d].ID {
					t.Fatalf("%s moved from %d to %d", d, idle[d].ID, again[d].ID)
				}
			}
			want, free := map[string]int64{}, map[string]int64{}
			for _, d := range s.freeDevices(n.Name, "") {
				free[d.Model]++
			}
			for _, b := range s.Bookings.All() {
				p, ok := b.On(n.Name)
				if !ok || !b.Active(now) {
					continue
				}
				for _, m := range p.Models {
					want[m.Model] += m.Count / 1000
				}
				for _, h := range s.HoldsOn(n.Name) {
					for _, u := range h.Devices {
						if d, _ := s.Devices.Get(u); h.In == b.Reservation {
							want[d.Model]--
						}
					}
				}
			}
			got := map[string]int64{}
			for d := range idle {
				row, _ := s.Devices.Get(d)
				got[row.Model]++
			}
			for _, m := range []string{"a", "b"} {
				if got[m] != min(want[m], free[m]) {
					t.Fatalf("%s: %d of %s are kept free, want %d (%d free)", n.Name, got[m], m, want[m], free[m])
				}
			}
		}
	})
}

func TestWhyNotInAReservation(t *testing.T) {
	const now = 1000 * hour
	in := func(n int64, wall int64, r id.Reservation) Shape {
		return Shape{CPU: core, Mem: gib, GPU: n * 1000, Wall: wall, In: r}
	}
	for name, tc := range map[string]struct {
		sh    Shape
		never bool
		kind  MisfitKind
		wall  int64
		until int64
	}{
		"before its window":        {sh: in(1, hour, 2), kind: NoWindow, until: now + 3*hour},
		"fits":                     {sh: in(1, hour, 1)},
		"longer than what is left": {sh: in(1, 90*minute, 1), never: true, kind: NoWindow, wall: hour},
		"more than a part":         {sh: in(3, hour, 1), never: true, kind: NeverFit},
		"outside, what is left":    {sh: in(2, hour, 0)},
		"outside, too many":        {sh: in(3, hour, 0), kind: Reserved, until: now + hour},
		"outside, until a window":  {sh: in(2, 4*hour, 0), kind: Reserved, wall: 3 * hour},
	} {
		t.Run(name, func(t *testing.T) {
			s := machine(&State{}, "n", "a", "a", "a", "a")
			for i, w := range [][2]int64{{now, now + hour}, {now + 3*hour, now + 5*hour}} {
				r := Reservation{ID: id.Reservation(i + 1), Name: "r", Count: int64(1 + 2*i), CPU: core, Mem: gib, GPU: int64(2-i) * 1000}
				parts, c := s.Book(r, everywhere, w[0], w[1], now)
				if c != nil {
					t.Fatal(c)
				}
				s.Fold(ReservationSet{r})
				s.Fold(BookingSet{Booking{ID: id.Booking(i + 1), Reservation: r.ID, From: w[0], To: w[1], Parts: parts}})
			}
			var got []Misfit
			if tc.sh.In != 0 {
				got = s.NeverInside(tc.sh, now)
			}
			if (got != nil) != tc.never {
				t.Fatalf("never: %+v", got)
			}
			if got == nil {
				_, got = s.FitNow(tc.sh, everywhere, now)
			}
			if tc.kind == "" && got == nil {
				return
			}
			if len(got) != 1 || got[0].Kind != tc.kind || got[0].Wall != tc.wall || tc.until != 0 && got[0].Until != tc.until {
				t.Fatalf("%+v", got)
			}
		})
	}
}

// TestReservedForALate holds a device beyond its job's time when the window begins.
func TestReservedForALate(t *testing.T) {
	const now = 1000 * hour
	s := machine(&State{}, "n", "a", "a")
	s.Hold(Hold{Job: 7, Node: "n", CPU: core, Mem: gib, Devices: uuids("n", 0), From: now - 2*hour, Until: now - hour})
	s.Fold(ReservationSet{Reservation{ID: 1}})
	s.Fold(BookingSet{Booking{ID: 1, Reservation: 1, From: now, To: now + hour, Parts: []Part{{"n", 2 * core, 2 * gib, []catalog.ModelCount{{Model: "a", Count: 2000}}}}}})
	sh := Shape{CPU: core, Mem: gib, GPU: 2000, Wall: minute, In: 1}
	_, got := s.FitNow(sh, everywhere, now)
	if len(got) != 1 || got[0].Kind != Busy || !slices.Equal(got[0].Holders, []id.Job{7}) {
		t.Fatalf("%+v", got)
	}
	sh.GPU = 1000
	if spot, bad := s.FitNow(sh, everywhere, now); bad != nil || spot.Devices[0].Index != 1 {
		t.Fatalf("%v %+v", spot, bad)
	}
	if w := Estimate(EstimateInput{State: s, Partition: everywhere, Now: now, Shape: sh, Depth: 5}); w.Start != now {
		t.Fatalf("%+v", w)
	}
	if sh.Wall = 2 * hour; Estimate(EstimateInput{State: s, Partition: everywhere, Now: now, Shape: sh, Depth: 5}).Kind != StartUnknown {
		t.Fatal("a start that there is none")
	}
}

// TestEstimateGoesAroundWindows: far down the queue a start is no sooner than what is
// booked until then leaves room for.
func TestEstimateGoesAroundWindows(t *testing.T) {
	const now = 1000 * hour
	s := machine(&State{}, "n", "a", "a")
	all := []Part{{"n", core, gib, []catalog.ModelCount{{Model: "a", Count: 2000}}}}
	for i, from := range []int64{now, now + hour, now + 3*hour} {
		s.Fold(BookingSet{Booking{ID: id.Booking(i + 1), Reservation: 1, From: from, To: from + hour, Parts: all}})
	}
	for model, want := range map[string]int64{"": now + 2*hour, "a": now + 2*hour} {
		w := Estimate(EstimateInput{State: s, Partition: everywhere, Now: now, Shape: small(1, model), Position: 10, Depth: 5})
		if w.Kind != StartEstimated || w.Start != want {
			t.Errorf("%q: %+v, want %d", model, w, want)
		}
	}
}
