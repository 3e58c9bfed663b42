package command_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/metering"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/placement"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
	"pgregory.net/rapid"
)

// history is a random life of a machine, with everything posted and every tile
// kept, so that the sums can be checked from the outside.
type history struct {
	*sim
	ids       []id.Job
	transfers []ledger.Transfer
	tiles     map[string][]ledger.Tile
	rows      map[id.Job]*workload.Job // every job's last row, ended ones too
	max       map[limits.Resource]int64
}

// do decides twice, to see that the same world gives the same outcome.
func (h *history) do(t *rapid.T, p access.Principal, cmd world.Command) {
	at := world.Context{Seq: h.w.Seq + 1, Now: h.now, Principal: p}
	out, err := cmd.Decide(h.w, at)
	again, err2 := cmd.Decide(h.w, at)
	if (err == nil) != (err2 == nil) || !reflect.DeepEqual(out.Changes, again.Changes) {
		t.Fatalf("%s decided differently the second time", cmd.Kind())
	}
	if err != nil || out.Event.Skip {
		return
	}
	next := h.w.Copy()
	next.Fold(out.Changes)
	next.Seq, next.Now = at.Seq, h.now
	h.w = next
	for _, c := range out.Changes {
		h.note(c)
	}
}

func (h *history) note(c world.Change) {
	switch c := c.(type) {
	case ledger.Posted:
		h.transfers = append(h.transfers, c.Row)
	case ledger.TileSet:
		ts := h.tiles[c.Row.Device]
		if n := len(ts); n > 0 && ts[n-1].From == c.Row.From {
			ts[n-1] = c.Row
		} else {
			ts = append(ts, c.Row)
		}
		h.tiles[c.Row.Device] = ts
	case workload.JobSet:
		h.rows[c.Row.ID] = c.Row
	}
}

// Whatever happens: money is conserved, no limit is passed, deposits equal what
// open jobs have set aside, every device-second has one payer, what was charged is
// what was metered, and the same command decides the same twice.
func TestWhateverHappens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := &history{sim: newSim(t), tiles: map[string][]ledger.Tile{}, rows: map[id.Job]*workload.Job{}, max: map[limits.Resource]int64{}}
		for _, d := range h.w.Ledger.Tiles.All() {
			h.tiles[d.Device] = []ledger.Tile{d}
		}
		for r, most := range map[limits.Resource]int64{limits.GPU: 3, limits.CPU: 24_000, limits.Running: 3, limits.Submitted: 6} {
			h.max[r] = most
			h.must(t, h.user("root"), command.LimitPut{Account: "nlp", Resource: r, Max: most})
		}
		h.must(t, h.user("root"), command.QoSPut{Create: true, Name: "urgent", Priority: num(1000), Preempts: &[]string{"normal"}})
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			h.step(t)
			h.check(t)
		}
		h.finish(t)
	})
}

func (h *history) step(t *rapid.T) {
	h.now += rapid.Int64Range(0, hour).Draw(t, "passes")
	job := func() id.Job {
		if len(h.ids) == 0 {
			return 0
		}
		return rapid.SampledFrom(h.ids).Draw(t, "job")
	}
	who := h.user(rapid.SampledFrom([]string{"ada", "ben", "root"}).Draw(t, "who"))
	switch rapid.IntRange(0, 12).Draw(t, "kind") {
	case 0, 1, 2:
		h.do(t, who, command.Submit{Spec: randomSpec(t)})
		h.ids = append(h.ids, h.w.Workload.NextJob()-1)
	case 3, 4:
		h.do(t, system, command.JobStart{Job: job()})
	case 5, 6:
		h.observe(t, job())
	case 7:
		h.do(t, who, command.JobStop{Job: job(), Now: rapid.Bool().Draw(t, "now")})
	case 8:
		h.do(t, system, command.JobDue{Job: job()})
	case 9:
		h.do(t, system, command.Meter{Jobs: h.ids})
		h.do(t, system, command.TilesDue{})
	case 10:
		h.environment(t)
	case 12:
		h.preempt(t)
	case 11:
		h.do(t, system, command.JobFail{Job: job(), N: rapid.Int32Range(0, 2).Draw(t, "n"), Message: "no such image"})
	}
}

// preempt stops a running job for a waiting one, if there are such.
func (h *history) preempt(t *rapid.T) {
	var run, wait []id.Job
	for k, j := range h.w.Workload.Jobs.All() {
		switch {
		case j.State == workload.Running && j.Spec.QoS == "normal":
			run = append(run, k)
		case j.State == workload.Queued && j.Spec.QoS == "urgent":
			wait = append(wait, k)
		}
	}
	if len(run) > 0 && len(wait) > 0 {
		victim := rapid.SampledFrom(run).Draw(t, "victim")
		rest := slices.DeleteFunc(run, func(k id.Job) bool { return k == victim })
		h.do(t, system, command.JobPreempt{Job: victim, For: rapid.SampledFrom(wait).Draw(t, "for"), Node: "gpu1", With: rest})
	}
}

// environment changes what is around the jobs.
func (h *history) environment(t *rapid.T) {
	root := h.user("root")
	switch rapid.IntRange(0, 7).Draw(t, "what") {
	case 0:
		h.do(t, root, command.NodeDrain{Node: "gpu1", Reason: "disk", Resume: rapid.Bool().Draw(t, "resume")})
	case 1:
		h.do(t, root, command.MaintenancePut{Node: "*", From: h.now + hour/2, To: h.now + hour})
	case 2:
		h.do(t, root, command.PricePut{From: h.now + hour/3, CPU: 20_000, Mem: 500})
	case 3:
		h.do(t, root, command.GrantGive{Account: "nlp", Amount: 3 * money.Credit, Source: "extra", End: h.now + 2*hour, Subtree: true})
	case 4:
		h.do(t, system, command.Contact{Lost: rapid.Bool().Draw(t, "lost")})
	case 5:
		h.do(t, root, command.AccountPut{Name: "vision", Billing: text(rapid.SampledFrom([]string{"off", "showback", "enforce"}).Draw(t, "billing"))})
	case 7:
		cancel, keep := rapid.Bool().Draw(t, "cancel"), rapid.Bool().Draw(t, "keep")
		h.do(t, root, command.QoSPut{Name: "normal", Contract: command.ContractChange{Cancel: &cancel, Keep: &keep}})
	case 6:
		inv := command.InventoryObserved{Nodes: []placement.Node{{Name: "gpu1", CPU: 64000, Memory: 512 << 30, Ready: rapid.Bool().Draw(t, "ready")}}}
		for i := range 4 {
			d := placement.Device{UUID: fmt.Sprintf("SIM-%d", i), Node: "gpu1", Index: i, Name: fmt.Sprintf("gpu%d", i), Model: "a100", Healthy: true}
			if rapid.IntRange(0, 4).Draw(t, "foreign") == 0 {
				d.Foreign = []placement.Process{{PID: 1, User: "x", Command: "y"}}
			}
			inv.Devices = append(inv.Devices, d)
		}
		h.do(t, system, inv)
	}
}

func (h *history) observe(t *rapid.T, k id.Job) {
	j, ok := h.w.Workload.Jobs.Get(k)
	if !ok {
		return
	}
	cmd := command.JobObserved{Job: k, N: j.Attempt.N, Started: rapid.Int64Range(h.now-hour, h.now+hour).Draw(t, "started")}
	switch rapid.IntRange(0, 4).Draw(t, "seen") {
	case 0, 1:
		cmd.Running = true
	case 2:
		cmd.Exited, cmd.Finished = true, rapid.Int64Range(h.now-hour, h.now+hour).Draw(t, "finished")
		cmd.ExitCode, cmd.OOM = rapid.Int32Range(0, 2).Draw(t, "exit"), rapid.Bool().Draw(t, "oom")
	case 3:
		cmd.Gone = true
	case 4:
		cmd.Lost = true
	}
	h.do(t, system, cmd)
}

func randomSpec(t *rapid.T) workload.Spec {
	s := example()
	s.GPU = rapid.Int64Range(0, 5).Draw(t, "gpu")
	s.CPU = rapid.Int64Range(1, 20).Draw(t, "cpu") * 1000
	s.Time = rapid.Int64Range(1, 30).Draw(t, "time") * hour / 10
	s.Grace = rapid.Int64Range(0, 120).Draw(t, "grace") * 1e9
	if rapid.Bool().Draw(t, "urgent") {
		s.QoS = "urgent"
	}
	if rapid.Bool().Draw(t, "requeue") {
		s.Requeue = []string{"node", "timeout"}
	}
	return s
}

// check looks at what must hold after every command.
func (h *history) check(t *rapid.T) {
	var sum money.Micros
	deposits := map[ledger.Account]money.Micros{}
	h.w.Ledger.Balances(func(a ledger.Account, b money.Micros) bool {
		sum += b
		if b < 0 && !a.Open() {
			t.Fatalf("%s is %s", a, b)
		}
		if len(a) > 8 && a[:8] == "deposit:" {
			deposits[a] = b
		}
		return true
	})
	if sum != 0 {
		t.Fatalf("money was made: %s", sum)
	}
	for _, j := range h.w.Workload.Jobs.All() {
		for _, p := range j.Sources {
			a := ledger.Deposit(j.ID, ledger.Account(p.Source))
			if deposits[a] != p.Left {
				t.Fatalf("job %d has %s of %s, the ledger %s", j.ID, p.Left, p.Source, deposits[a])
			}
			delete(deposits, a)
		}
	}
	if len(deposits) != 0 {
		t.Fatalf("deposits of no open job: %v", deposits)
	}
	nlp, _ := h.w.Tenancy.Account("nlp")
	for r, most := range h.max {
		if used := h.w.Limits.Used(limits.Scope{Account: nlp.ID}, r); used > most {
			t.Fatalf("%s of nlp: %d of at most %d", r, used, most)
		}
	}
	h.devices(t)
}

// devices checks that no device has two jobs and that tiles neither overlap nor
// leave a gap.
func (h *history) devices(t *rapid.T) {
	held := map[string]id.Job{}
	for _, j := range h.w.Workload.Active.All() {
		for _, d := range j.Attempt.Devices {
			if other, twice := held[d]; twice {
				t.Fatalf("%s was given to jobs %d and %d", d, other, j.ID)
			}
			held[d] = j.ID
		}
	}
	for d, ts := range h.tiles {
		for i, tile := range ts {
			if last := i == len(ts)-1; (tile.To == 0) != last {
				t.Fatalf("%s: tile %d of %d ends at %d", d, i+1, len(ts), tile.To)
			}
			if i > 0 && ts[i-1].To != tile.From {
				t.Fatalf("%s: gap or overlap between %+v and %+v", d, ts[i-1], tile)
			}
		}
	}
}

// finish ends all jobs and checks charges against what the tiles say.
func (h *history) finish(t *rapid.T) {
	for _, k := range h.ids {
		h.do(t, h.user("root"), command.JobStop{Job: k, Now: true})
		if j, ok := h.w.Workload.Jobs.Get(k); ok {
			h.do(t, system, command.JobObserved{Job: k, N: j.Attempt.N, Exited: true, Finished: h.now})
		}
	}
	h.check(t)
	if n := h.w.Workload.Jobs.Len(); n != 0 {
		t.Fatalf("%d jobs are left", n)
	}
	// What a deposit lacks, because prices rose between an attempt's assignment and
	// its start, is the platform's loss.
	lost := map[id.Job]money.Micros{}
	for _, tr := range h.transfers {
		if tr.To == ledger.Waste(ledger.CauseEnding) && tr.Account != 0 {
			lost[tr.Job] += tr.Amount
		}
	}
	for _, j := range h.rows {
		want, err := metering.Receipt(&h.w.Catalog, j, h.now)
		if err != nil || want.Total != j.Charged+lost[j.ID] || j.Deposit != j.Charged+j.Returned+j.Refunded {
			t.Fatalf("job %d: charged %s, metered %s (%v); deposit %s returned %s refunded %s", j.ID, j.Charged, want.Total, err, j.Deposit, j.Returned, j.Refunded)
		}
		h.metered(t, j)
	}
}

// metered compares each attempt's billable span with the tiles that it paid for.
func (h *history) metered(t *rapid.T, j *workload.Job) {
	for _, a := range append(append([]workload.Attempt{}, j.Past...), j.Attempt) {
		from, to := metering.Billable(a, j.Spec.Grace, h.now)
		for _, d := range a.Devices {
			var paid int64
			for _, tile := range h.tiles[d] {
				if tile.Job == j.ID && tile.Attempt == a.N && tile.Account != 0 {
					paid += tile.To - tile.From
				}
			}
			if paid != to-from {
				t.Fatalf("job %d.%d: %s was used for %d ns, charged for %d: %+v tiles %+v", j.ID, a.N, d, paid, to-from, a, h.tiles[d])
			}
		}
	}
}
