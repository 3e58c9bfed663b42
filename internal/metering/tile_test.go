package metering_test

import (
	"cmp"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/metering"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/placement"
	"croft.dev/croft/internal/workload"
)

// yard is one node with one device, whose timeline is kept.
type yard struct {
	metering.Scene
	tiles []ledger.Tile
	seq   int64
}

func newYard() *yard {
	jobs := workload.NewState()
	y := &yard{Scene: metering.Scene{Places: &placement.State{}, Jobs: &jobs, Catalog: &catalog.State{}, Ledger: &ledger.State{}}}
	y.Catalog.Fold(catalog.PartitionSet{Row: catalog.Partition{Name: "main", Default: true}})
	y.Catalog.Fold(catalog.PriceSet{Row: catalog.Price{ID: 1, Devices: []catalog.ModelRate{{Model: "*", Rate: money.Rate(money.Credit)}}}})
	y.Places.Fold(placement.NodeSet{Row: placement.Node{Name: "n", CPU: 1000, Memory: 1 << 30, Ready: true}})
	y.Places.Fold(placement.DeviceSet{Row: placement.Device{UUID: "d", Node: "n", Name: "gpu0", Model: "a100", Healthy: true}})
	return y
}

func (y *yard) retile(t fataler, b metering.Boundary) {
	y.seq++
	d, _ := y.Places.Devices.Get("d")
	changes, err := y.Retile(y.Ledger.NewPosting(y.seq, y.Now), []placement.Device{d}, b)
	if err != nil {
		t.Fatalf("retile: %v", err)
	}
	for _, c := range changes {
		y.Ledger.Fold(c)
		if set, ok := c.(ledger.TileSet); ok {
			i := slices.IndexFunc(y.tiles, func(t ledger.Tile) bool { return t.From == set.Row.From && t.Job == set.Row.Job })
			if i < 0 {
				y.tiles = append(y.tiles, set.Row)
			} else {
				y.tiles[i] = set.Row // rows are keyed by device, begin and job
			}
		}
	}
}

// hold gives the device to job 1, run says since when its primary runs.
func (y *yard) hold(started int64) { y.holdPart(1, 0, started) }

// holdPart gives a job a part of the device.
func (y *yard) holdPart(jid id.Job, part, started int64) {
	j := &workload.Job{ID: jid, User: 5, Account: 3, State: workload.Starting, Spec: workload.Spec{Time: hour, Grace: hour / 2}}
	j.Attempt = workload.Attempt{N: 1, Node: "n", Devices: []string{"d"}, Started: started, Until: started + hour}
	if started != 0 {
		j.State = workload.Running
	}
	y.Jobs.Fold(workload.JobSet{Row: j})
	y.Places.Hold(placement.Hold{Job: jid, Node: "n", Devices: []string{"d"}, Part: part, From: y.Now, Until: y.Now + 2*hour})
}

func (y *yard) release() { y.releaseJob(1) }

func (y *yard) releaseJob(jid id.Job) {
	y.Places.Release(jid)
	if j, ok := y.Jobs.Jobs.Get(jid); ok {
		over := *j
		over.State = workload.Ended
		y.Jobs.Fold(workload.JobSet{Row: &over})
	}
}

// causes is the timeline as text: cause and hours.
func (y *yard) causes() map[ledger.Cause]int64 {
	out := map[ledger.Cause]int64{}
	for _, t := range y.tiles {
		if t.To != 0 && t.To > t.From {
			out[t.Cause] += (t.To - t.From) / 1000 * t.Milli
		}
	}
	return out
}

// Whatever happens to a device, and whenever it is said to have happened: its
// tiles come to all of it at every time since it was first seen, and what the platform
// bears is posted to the cause.
func TestRetileTiles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		y := newYard()
		y.Now = hour
		y.retile(t, metering.Boundary{})
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			y.Now += rapid.Int64Range(0, 2*hour).Draw(t, "passes")
			b := y.step(t)
			if rapid.Bool().Draw(t, "known better") {
				b.At = rapid.Int64Range(y.Now-3*hour, y.Now+hour).Draw(t, "at")
			}
			y.retile(t, b)
			y.check(t)
		}
	})
}

func (y *yard) step(t *rapid.T) metering.Boundary {
	n, _ := y.Places.Nodes.Get("n")
	d, _ := y.Places.Devices.Get("d")
	jid := id.Job(rapid.IntRange(1, 3).Draw(t, "job"))
	held := slices.ContainsFunc(y.Places.Shares("d"), func(s placement.Share) bool { return s.Job == jid })
	switch rapid.IntRange(0, 6).Draw(t, "what") {
	case 0, 1:
		started := y.Now * int64(rapid.IntRange(0, 1).Draw(t, "runs"))
		part := rapid.SampledFrom([]int64{0, 100, 300, 500, 700}).Draw(t, "part")
		if h, ok := y.Places.Holds.Get(jid); ok {
			part = h.Part // it starts to run
		} else if y.Places.InUse("d") > 1000-cmp.Or(part, 1000) {
			break
		}
		y.holdPart(jid, part, started)
		return metering.Boundary{Job: jid}
	case 2:
		y.releaseJob(jid)
		if held && rapid.Bool().Draw(t, "limit known") {
			return metering.Boundary{Job: jid, Limit: rapid.Int64Range(1, y.Now+hour).Draw(t, "limit"), Began: rapid.Int64Range(0, y.Now).Draw(t, "began"), Payer: ledger.Payer{Account: 3, User: 5}}
		}
	case 3:
		y.releaseJob(jid)
		return metering.Boundary{Job: jid, As: ledger.CauseDown}
	case 4:
		n.Drained = !n.Drained
		y.Places.Fold(placement.NodeSet{Row: n})
	case 5:
		d.Healthy = !d.Healthy
		y.Places.Fold(placement.DeviceSet{Row: d})
	case 6:
		if d.Foreign = nil; rapid.Bool().Draw(t, "foreign") {
			d.Foreign = []placement.Process{{PID: 1}}
		}
		y.Places.Fold(placement.DeviceSet{Row: d})
	}
	return metering.Boundary{}
}

func (y *yard) check(t *rapid.T) {
	posted := map[ledger.Cause]money.Micros{}
	for _, edge := range y.tiles {
		var sum int64
		for _, tile := range y.tiles {
			if tile.From <= edge.From && (tile.To == 0 || tile.To > edge.From) {
				sum += tile.Milli
			}
		}
		if sum != 1000 {
			t.Fatalf("%d of the device at %d in %+v", sum, edge.From, y.tiles)
		}
	}
	for _, tile := range y.tiles {
		if tile.To != 0 && tile.To < tile.From || tile.Milli <= 0 || (tile.To == 0) != slices.Contains(y.Ledger.OpenTiles("d"), tile) {
			t.Fatalf("%+v in %+v", tile, y.tiles)
		}
		if tile.Account != 0 && tile.Cause != ledger.CauseUsed || tile.Account != 0 && tile.Posted != 0 {
			t.Fatalf("somebody pays for %+v", tile)
		}
		posted[tile.Cause] += tile.Posted
	}
	for a, b := range y.Ledger.Balances {
		if a == ledger.Platform {
			continue
		}
		cause := ledger.Cause(a[len(ledger.Waste("")):])
		if posted[cause] != b {
			t.Fatalf("%s has %d, the tiles say %d", a, b, posted[cause])
		}
	}
}

// One device's day: who pays for which hours.
func TestWhoPays(t *testing.T) {
	tests := map[string]struct {
		live func(*testing.T, *yard)
		want map[ledger.Cause]int64 // tenths of an hour
	}{
		"idle, then drained, then in maintenance": {
			func(t *testing.T, y *yard) {
				y.at(t, 2, func() { y.Places.Fold(placement.NodeSet{Row: placement.Node{Name: "n", Ready: true, Drained: true}}) })
				y.at(t, 5, func() { y.Places.Fold(placement.NodeSet{Row: placement.Node{Name: "n", Ready: true}}) })
				y.at(t, 6, func() {
					y.Places.Fold(placement.MaintenanceSet{Row: placement.Maintenance{ID: 1, Node: "*", From: 6 * hour, To: 9 * hour}})
				})
				y.at(t, 9, func() {})
			},
			map[ledger.Cause]int64{ledger.CauseIdle: 30, ledger.CauseDrained: 30, ledger.CauseMaintenance: 30},
		},
		"a pull isn't the user's": {
			func(t *testing.T, y *yard) {
				y.at(t, 2, func() { y.hold(0) })
				y.at(t, 3, func() { y.hold(3 * hour) })
				y.at(t, 4, y.release)
			},
			map[ledger.Cause]int64{ledger.CauseIdle: 20, ledger.CauseStarting: 10, ledger.CauseUsed: 10},
		},
		"the end comes late": {
			func(t *testing.T, y *yard) {
				y.at(t, 2, func() { y.hold(2 * hour) })
				y.at(t, 6, func() { y.release() }, metering.Boundary{Limit: 3 * hour})
			},
			map[ledger.Cause]int64{ledger.CauseIdle: 20, ledger.CauseUsed: 10, ledger.CauseEnding: 30},
		},
		"the start is learned with the end": {
			func(t *testing.T, y *yard) {
				y.at(t, 2, func() { y.hold(0) })
				y.at(t, 6, y.release, metering.Boundary{Began: 3 * hour, Payer: ledger.Payer{Account: 3, User: 5}, Limit: 5 * hour})
			},
			map[ledger.Cause]int64{ledger.CauseIdle: 20, ledger.CauseStarting: 10, ledger.CauseUsed: 20, ledger.CauseEnding: 10},
		},
		"the platform lost it": {
			func(t *testing.T, y *yard) {
				y.at(t, 2, func() { y.hold(2 * hour) })
				y.at(t, 6, y.release, metering.Boundary{As: ledger.CauseDown})
			},
			map[ledger.Cause]int64{ledger.CauseIdle: 20, ledger.CauseDown: 40},
		},
		"half of it, beside another's third": {
			func(t *testing.T, y *yard) {
				y.at(t, 2, func() { y.holdPart(1, 500, 2*hour) })
				y.at(t, 3, func() { y.holdPart(2, 300, 3*hour) })
				y.at(t, 6, func() { y.releaseJob(1) }, metering.Boundary{Job: 1, At: 4 * hour})
				y.at(t, 7, func() { y.releaseJob(2) })
				y.at(t, 8, func() { y.hold(8 * hour) })
			},
			map[ledger.Cause]int64{ledger.CauseIdle: 48, ledger.CauseUsed: 22, ledger.CauseEnding: 10},
		},
		"somebody else's process": {
			func(t *testing.T, y *yard) {
				d, _ := y.Places.Devices.Get("d")
				d.Foreign = []placement.Process{{PID: 1}}
				y.at(t, 2, func() { y.Places.Fold(placement.DeviceSet{Row: d}) })
				d.Gone = true
				y.at(t, 7, func() { y.Places.Fold(placement.DeviceSet{Row: d}) })
			},
			map[ledger.Cause]int64{ledger.CauseIdle: 20, ledger.CauseForeign: 50},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			y := newYard()
			y.at(t, 0, func() {})
			tt.live(t, y)
			got := y.causes()
			for cause, tenths := range tt.want {
				if got[cause] != tenths*hour/10 {
					t.Errorf("%s: %d ns, want %d tenths of an hour", cause, got[cause], tenths)
				}
				delete(got, cause)
			}
			if len(got) != 0 {
				t.Errorf("and %v", got)
			}
		})
	}
}

// at lets something happen at an hour.
func (y *yard) at(t *testing.T, hours int64, happens func(), b ...metering.Boundary) {
	y.Now = hours * hour
	happens()
	y.retile(t, append(b, metering.Boundary{})[0])
}
