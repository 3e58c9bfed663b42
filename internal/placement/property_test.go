package placement

import (
	"cmp"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/workload"
)

// drawFleet is up to three nodes with up to four devices of two models each, some
// of them unusable, and perhaps a maintenance window.
func drawFleet(t *rapid.T, now int64) *State {
	s := &State{}
	for i := range rapid.IntRange(1, 3).Draw(t, "nodes") {
		models := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b"}), 0, 4).Draw(t, "models")
		machine(s, fmt.Sprintf("n%d", i), models...)
		changeNode(s, fmt.Sprintf("n%d", i), func(n *Node) {
			n.CPU, n.Memory = 8*core, 8*gib
			if i%2 == 0 {
				n.Added = map[string]string{"even": ""}
			}
			n.Drained = rapid.IntRange(0, 9).Draw(t, "drained") == 0
		})
		for k := range models {
			change(s, fmt.Sprintf("n%d-%d", i, k), func(d *Device) {
				d.Memory = rapid.SampledFrom([]int64{10, 10, 10, 12, 7}).Draw(t, "memory") * gib
				if d.Model == "b" {
					d.Memory = rapid.SampledFrom([]int64{4, 4, 4, 4, 0}).Draw(t, "memory") * gib
				}
			})
			if rapid.IntRange(0, 9).Draw(t, "unhealthy") == 0 {
				change(s, fmt.Sprintf("n%d-%d", i, k), func(d *Device) { d.Healthy = false })
			}
		}
	}
	if rapid.Bool().Draw(t, "maintenance") {
		from := now + rapid.Int64Range(-5, 40).Draw(t, "from")*60*second
		s.Fold(MaintenanceSet{Maintenance{
			ID: 1, Node: rapid.SampledFrom([]string{"*", "n0"}).Draw(t, "where"), From: from, To: from + 20*60*second,
		}})
	}
	return s
}

func drawShape(t *rapid.T) Shape {
	sh := Shape{
		CPU:    rapid.Int64Range(1, 8).Draw(t, "cpu") * core,
		Mem:    rapid.Int64Range(1, 8).Draw(t, "mem") * gib,
		GPU:    rapid.SampledFrom([]int64{0, 1000, 2000, 3000, 4000, 200, 300, 500, 500, 700, 999, 1}).Draw(t, "gpu"),
		Model:  rapid.SampledFrom([]string{"", "a", "b", "a|b", "b|c"}).Draw(t, "model"),
		Memory: rapid.SampledFrom([]int64{0, 0, 0, 1, 2, 3, 5, 10}).Draw(t, "memory of each") * gib,
		Mixed:  rapid.Bool().Draw(t, "mixed"),
		Where:  rapid.SampledFrom([]string{"", "", "even", "!even"}).Draw(t, "where"),
		Ports:  rapid.SampledFrom([]Ports{"", "", "", PortsOf([]workload.Port{{Host: 80}}), PortsOf([]workload.Port{{Host: 81}}), PortsOf([]workload.Port{{Host: 80}, {Host: 81}})}).Draw(t, "ports"),
		Wall:   rapid.Int64Range(1, 30).Draw(t, "wall") * 60 * second,
		Grace:  rapid.Int64Range(0, 1).Draw(t, "grace") * 60 * second,
	}
	if sh.GPU == 0 {
		sh.Memory = 0
	}
	return sh
}

// placeable is a shape that no device lacks the memory for, as it is asked for and as it
// is placed.
func placeable(s *State, asked Shape) (Shape, Shape) {
	sh, ok := s.Sized(asked)
	if !ok {
		asked.Memory = 0
		sh = asked
	}
	return asked, sh
}

// memoryOfRows is the least that a device of a model has, by the rows; 0 if one may be
// given that doesn't say it.
func memoryOfRows(s *State, model string) int64 {
	least := int64(math.MaxInt64)
	for _, d := range s.Devices.All() {
		if n, ok := s.Nodes.Get(d.Node); ok && !n.Gone && d.Model == model && !d.Gone && (d.Healthy || d.Memory > 0) {
			least = min(least, d.Memory)
		}
	}
	if least == math.MaxInt64 {
		return 0
	}
	return least
}

// drawHolds starts jobs wherever they fit.
func drawHolds(t *rapid.T, s *State, now int64) {
	for i := range rapid.IntRange(0, 6).Draw(t, "holds") {
		asked, sh := placeable(s, drawShape(t))
		if spot, misfits := s.FitNow(sh, everywhere, now); misfits == nil {
			checkDevices(t, s, asked, spot.Node, spot.Models())
			until := now + rapid.Int64Range(-1, 30).Draw(t, "until")*60*second
			s.Hold(Hold{Job: id.Job(1000 + i), Node: spot.Node, CPU: sh.CPU, Mem: sh.Mem, Devices: spot.UUIDs(), Part: spot.Part, Ports: sh.Ports, Until: until})
		}
	}
}

// taken is a use of a node, as the oracle sees it.
type taken struct {
	node     string
	from, to int64
	cpu, mem int64
	models   []catalog.ModelCount
	shared   string // the device that it has a part of
	memory   int64  // bytes that it needs of each device's
	ports    Ports
}

// checkNever fails if at any time the uses together pass what a node has, or a
// slot meets a maintenance window. It shares no code with the timeline.
func checkNever(t *rapid.T, s *State, holds, reserved []taken) {
	all := slices.Concat(holds, reserved)
	for _, at := range all {
		row, _ := s.Nodes.Get(at.node)
		cpu, mem := row.CPU, row.Memory
		models := map[string]int64{}
		for _, d := range s.Devices.All() {
			if d.Node == at.node && d.Usable() {
				models[d.Model] += 1000
			}
		}
		parts, memory := map[string]int64{}, map[string]int64{}
		ports := map[uint16]bool{}
		for _, u := range all {
			if u.node != at.node || u.from > at.from || u.to <= at.from {
				continue
			}
			cpu, mem = cpu-u.cpu, mem-u.mem
			for p := range u.ports.All() {
				if ports[p] {
					t.Fatalf("%s at %d: port %d leads to two jobs", at.node, at.from, p)
				}
				ports[p] = true
			}
			if u.shared != "" && len(u.models) > 0 {
				m := u.models[0]
				has := memoryOfRows(s, m.Model)
				if d, ok := s.Devices.Get(u.shared); ok {
					has = d.Memory
				}
				if memory[u.shared] += u.memory; u.memory > 0 && memory[u.shared] > has {
					t.Fatalf("%s at %d: %d of %d of the memory of %s are used", at.node, at.from, memory[u.shared], has, u.shared)
				}
				if u.models = []catalog.ModelCount{{Model: m.Model, Count: 1000}}; parts[u.shared] > 0 {
					u.models = nil // the others have it already
				}
				if parts[u.shared] += m.Count; parts[u.shared] > 1000 {
					t.Fatalf("%s at %d: %d of %s are used", at.node, at.from, parts[u.shared], u.shared)
				}
			}
			for _, m := range u.models {
				if models[m.Model] -= m.Count; models[m.Model] < 0 {
					t.Fatalf("%s at %d: %d too few of %s", at.node, at.from, models[m.Model], m.Model)
				}
			}
		}
		if cpu < 0 || mem < 0 {
			t.Fatalf("%s at %d: cpu %d, mem %d", at.node, at.from, cpu, mem)
		}
	}
	for _, u := range reserved {
		for _, m := range s.Maintenance.All() {
			if (m.Node == "*" || m.Node == u.node) && u.from < m.To && m.From < u.to {
				t.Fatalf("[%d, %d) on %s meets %v", u.from, u.to, u.node, m)
			}
		}
		if row, _ := s.Nodes.Get(u.node); !row.Usable() {
			t.Fatalf("reserved on %s, which isn't usable", u.node)
		}
	}
}

// checkDevices fails unless what a job is given is what it asked for, where it asked
// for it.
func checkDevices(t *rapid.T, s *State, sh Shape, node string, models []catalog.ModelCount) {
	var n int64
	for _, m := range models {
		n += m.Count
		if sh.Model != "" && !slices.Contains(strings.Split(sh.Model, "|"), m.Model) {
			t.Fatalf("%s for %v", m.Model, sh)
		}
	}
	want := sh.GPU
	for _, m := range models {
		has := memoryOfRows(s, m.Model)
		if sh.Memory > has {
			t.Fatalf("%v with %d of memory each for %v", models, has, sh)
		}
		if sh.Memory > 0 && want < 1000 { // as many thousandths as have the memory, no fewer
			for want < 1000 && big.NewInt(0).Mul(big.NewInt(want), big.NewInt(has)).Cmp(big.NewInt(0).Mul(big.NewInt(sh.Memory), big.NewInt(1000))) < 0 {
				want++
			}
		}
	}
	if n != want || len(models) > 1 && !sh.Mixed {
		t.Fatalf("devices %v for %v, want %d", models, sh, want)
	}
	row, _ := s.Nodes.Get(node)
	_, even := row.Features()["even"]
	if sh.Where == "even" && !even || sh.Where == "!even" && even {
		t.Fatalf("%s for %v", node, sh)
	}
}

func heldOf(s *State, now int64) []taken {
	var out []taken
	for _, h := range s.Holds.All() {
		to := h.Until
		if to <= now {
			to = now + Overdue
		}
		use := taken{h.Node, now, to, h.CPU, h.Mem, s.usableModels(h), "", 0, h.Ports}
		if h.Part > 0 {
			use.shared = h.Devices[0]
		}
		out = append(out, use)
	}
	return out
}

// TestWhyNotLooksAtAll compares the node that a wait is explained by with the one that
// a look at all of them finds.
func TestWhyNotLooksAtAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const now = 1000 * hour
		s := drawFleet(t, now)
		drawHolds(t, s, now)
		_, sh := placeable(s, drawShape(t))
		_, got := s.FitNow(sh, everywhere, now)
		if got == nil {
			return
		}
		var want []Misfit
		for node, sum := range s.nodesOf(everywhere, sh.Where) {
			if !sum.full.fits(sh) {
				continue
			}
			if out := s.misfitsOn(sh, node, now); want == nil || lacksLess(out, want) {
				want = out
			}
		}
		if want == nil {
			want = s.NeverFits(sh, everywhere)
		}
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Fatalf("%v (-all +got):\n%s", sh, diff)
		}
	})
}

func TestTimelineNeverOverAllocates(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const now = 1000 * hour
		s := drawFleet(t, now)
		drawHolds(t, s, now)
		tl := s.Timeline(now, everywhere)
		holds := heldOf(s, now)
		var reserved []taken
		var made []*Slot
		for range rapid.IntRange(1, 12).Draw(t, "slots") {
			if len(made) > 0 && rapid.IntRange(0, 4).Draw(t, "cancel") == 0 {
				i := rapid.IntRange(0, len(made)-1).Draw(t, "which")
				tl.Cancel(made[i])
				made, reserved = slices.Delete(made, i, i+1), slices.Delete(reserved, i, i+1)
			}
			asked, sh := placeable(s, drawShape(t))
			start, node, ok := tl.Earliest(sh, everywhere, now)
			if !ok {
				continue
			}
			// Free amounts only change where a use or a window begins or ends, so an
			// earlier start would show at one of these times.
			for _, tr := range tl.tracks {
				for _, at := range slices.Clone(tr.at) {
					if r, ok := tl.Reserve(sh, tr.node, at); ok {
						if at < start {
							t.Fatalf("earliest %v is %d on %s, but %d on %s works", sh, start, node, at, tr.node)
						}
						tl.Cancel(r)
					}
				}
			}
			r, ok := tl.Reserve(sh, node, start)
			if !ok {
				t.Fatalf("can't reserve %v on %s at %d", sh, node, start)
			}
			checkDevices(t, s, asked, node, r.Models)
			made = append(made, r)
			reserved = append(reserved, slotTaken(sh, r))
			checkNever(t, s, holds, reserved)
		}
		for _, r := range made {
			tl.Cancel(r)
		}
		if diff := gocmp.Diff(s.Timeline(now, everywhere).tracks, narrowed(tl).tracks, gocmp.AllowUnexported(track{}, offer{}, shared{}, portBook{}, takenPort{}), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("cancelling everything doesn't restore the timeline:\n%s", diff)
		}
	})
}

// slotTaken is what a slot takes.
func slotTaken(sh Shape, r *Slot) taken {
	u := taken{r.Node, r.From, r.To, sh.CPU, sh.Mem, r.Models, "", sh.Memory, sh.Ports}
	if r.use.part > 0 {
		u.shared = cmp.Or(r.track.shared[r.use.shared].uuid, fmt.Sprint("column ", r.use.shared))
	}
	return u
}

// narrowed is a timeline without the columns of devices that nobody shares any more.
func narrowed(tl *Timeline) *Timeline {
	for _, t := range tl.tracks {
		for i := len(t.shared) - 1; i >= 0 && !t.used(i); i-- {
			var free []int64
			for r := range t.at {
				free = append(free, t.row(r)[:t.column(i)]...)
			}
			t.shared, t.free = t.shared[:i], free
		}
	}
	return tl
}

// TestFleetFollowsRows compares the sums that are kept with those over the rows.
func TestFleetFollowsRows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s State
		names := []string{"n0", "n1", "n2"}
		for range rapid.IntRange(1, 40).Draw(t, "changes") {
			before := s.Copy()
			was := sums(&s)
			node := rapid.SampledFrom(names).Draw(t, "node")
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				s.Fold(NodeSet{Node{
					Name: node, CPU: rapid.Int64Range(1, 3).Draw(t, "cpu"), Memory: rapid.Int64Range(1, 3).Draw(t, "mem"),
					Ready: rapid.Bool().Draw(t, "ready"), Gone: rapid.Bool().Draw(t, "gone"), Drained: rapid.Bool().Draw(t, "drained"),
				}})
			case 1:
				d := device(node, rapid.IntRange(0, 2).Draw(t, "index"), rapid.SampledFrom([]string{"a", "b"}).Draw(t, "model"))
				d.UUID = fmt.Sprint("u", rapid.IntRange(0, 4).Draw(t, "uuid"))
				d.Healthy, d.Gone = rapid.Bool().Draw(t, "healthy"), rapid.Bool().Draw(t, "gone")
				s.Fold(DeviceSet{d})
			case 2:
				s.Hold(Hold{Job: id.Job(rapid.IntRange(1, 4).Draw(t, "job")), Node: node, CPU: 1, Mem: 2, Devices: []string{"u1"}, Until: 3})
			case 3:
				s.Release(id.Job(rapid.IntRange(1, 4).Draw(t, "job")))
			}
			if diff := gocmp.Diff(was, sums(&before), gocmp.AllowUnexported(area{})); diff != "" {
				t.Fatalf("a copy changed:\n%s", diff)
			}
			if diff := gocmp.Diff(sumsOf(&s, everywhere), sumsOf(&s, catalog.Partition{Nodes: names}), gocmp.AllowUnexported(area{})); diff != "" {
				t.Fatalf("(-all nodes +each node named):\n%s", diff)
			}
			if diff := gocmp.Diff(rowSums(&s), sums(&s), gocmp.AllowUnexported(area{})); diff != "" {
				t.Fatalf("(-rows +kept):\n%s", diff)
			}
		}
	})
}

// summed is what fleet keeps, read through its users.
type summed struct {
	Capacity Capacity
	Models   []catalog.ModelCount
	Usable   [2]int64
	UsableBy []catalog.ModelCount
	Held     [3]int64
	Ends     [3]area
	Used     [2]int64 // on n1
}

func sums(s *State) summed { return sumsOf(s, everywhere) }

func sumsOf(s *State, p catalog.Partition) summed {
	usable, held := s.totals(p)
	cpu, mem := s.Used("n1")
	return summed{
		s.Capacity(p, small(1, "a")), s.Models(p), [2]int64{usable.cpu, usable.mem}, usable.models,
		[3]int64{held.cpu, held.mem, held.gpu}, [3]area{held.cpuEnd, held.memEnd, held.gpuEnd}, [2]int64{cpu, mem},
	}
}

func rowSums(s *State) summed {
	var out summed
	for _, n := range s.Nodes.All() {
		var gpu int64
		for _, d := range s.Devices.All() {
			if d.Node != n.Name || d.Gone || n.Gone {
				continue
			}
			out.Models = count(out.Models, d.Model, 1000)
			if d.Model == "a" {
				gpu += 1000
			}
			if n.Usable() && d.Usable() {
				out.UsableBy = count(out.UsableBy, d.Model, 1000)
			}
		}
		if !n.Gone {
			c := &out.Capacity
			grow(&c.CPU, &c.CPUNode, n.CPU, n.Name)
			grow(&c.Mem, &c.MemNode, n.Memory, n.Name)
			grow(&c.GPU, &c.GPUNode, gpu, n.Name)
		}
		if n.Usable() {
			out.Usable[0] += n.CPU
			out.Usable[1] += n.Memory
		}
	}
	for _, h := range s.Holds.All() {
		if h.Node == "n1" {
			out.Used[0] += h.CPU
			out.Used[1] += h.Mem
		}
		if n, ok := s.Nodes.Get(h.Node); ok && n.Usable() {
			for i, v := range []int64{h.CPU, h.Mem, int64(len(h.Devices)) * 1000} {
				out.Held[i] += v
				out.Ends[i] = out.Ends[i].plus(areaOf(v, h.Until))
			}
		}
	}
	return out
}

func TestAreaIsExact(t *testing.T) {
	toBig := func(a area) *big.Int {
		n := new(big.Int).Lsh(new(big.Int).SetUint64(a.hi), 64)
		return n.Add(n, new(big.Int).SetUint64(a.lo))
	}
	rapid.Check(t, func(t *rapid.T) {
		large := rapid.Int64Range(0, 1<<62)
		a := areaOf(large.Draw(t, "a"), large.Draw(t, "a ns"))
		b := areaOf(large.Draw(t, "b"), large.Draw(t, "b ns"))
		sum := a.plus(b)
		if want := new(big.Int).Add(toBig(a), toBig(b)); toBig(sum).Cmp(want) != 0 {
			t.Fatalf("sum %v, want %v", toBig(sum), want)
		}
		if sum.minus(b) != a {
			t.Fatalf("%v + %v - %v isn't the first", a, b, b)
		}
		whole := rapid.Int64Range(1, 1<<62).Draw(t, "whole")
		part := rapid.Int64Range(0, whole).Draw(t, "part")
		want := new(big.Int).Mul(toBig(sum), big.NewInt(part))
		if want.Div(want, big.NewInt(whole)); toBig(sum.share(part, whole)).Cmp(want) != 0 {
			t.Fatalf("share %v, want %v", toBig(sum.share(part, whole)), want)
		}
		want.Add(toBig(sum), big.NewInt(whole-1)).Div(want, big.NewInt(whole))
		if !want.IsInt64() {
			want.SetInt64(1<<63 - 1)
		}
		if got := sum.over(whole); got != want.Int64() {
			t.Fatalf("over %d, want %v", got, want)
		}
	})
}
