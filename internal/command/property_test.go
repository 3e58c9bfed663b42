package command_test

import (
	"fmt"
	"math/big"
	"reflect"
	"slices"
	"testing"

	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/admission"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/idle"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/metering"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/placement"
	"croft.dev/croft/internal/tenancy"
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
	windows   []placement.Booking            // every one that was ever booked
	rows      map[id.Job]*workload.Job       // every job's last row, ended ones too
	states    map[[2]int64]workload.JobState // likewise of further steps
	ran       map[id.Attempt]*workload.Job   // each attempt's job as it was when that began
	used      map[limitUser]int64            // after the command before
	checked   int                            // transfers that were there then
	tokens    map[id.Token]tenancy.Token     // every one that there ever was
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
		h.goes(t, cmd, c)
		h.note(c)
	}
}

// goes checks that a job or a step goes from its state to one that may follow.
func (h *history) goes(t *rapid.T, cmd world.Command, c world.Change) {
	switch c := c.(type) {
	case workload.JobSet:
		if old := h.rows[c.Row.ID]; old != nil && old.State != c.Row.State && !workload.May(old.State, c.Row.State) {
			t.Fatalf("%s: job %d goes from %s to %s", cmd.Kind(), c.Row.ID, old.State, c.Row.State)
		}
	case workload.StepSet:
		k := [2]int64{int64(c.Row.Job), int64(c.Row.N)}
		if old := h.states[k]; old != "" && old != c.Row.State && !workload.MayStep(old, c.Row.State) {
			t.Fatalf("%s: step %d.%d goes from %s to %s", cmd.Kind(), c.Row.Job, c.Row.N, old, c.Row.State)
		}
		h.states[k] = c.Row.State
	}
}

func (h *history) note(c world.Change) {
	switch c := c.(type) {
	case ledger.Posted:
		h.transfers = append(h.transfers, c.Row)
	case ledger.TileSet:
		ts := h.tiles[c.Row.Device]
		if i := slices.IndexFunc(ts, func(t ledger.Tile) bool { return t.From == c.Row.From && t.Job == c.Row.Job }); i >= 0 {
			ts[i] = c.Row
		} else {
			ts = append(ts, c.Row)
		}
		h.tiles[c.Row.Device] = ts
	case workload.JobSet:
		h.rows[c.Row.ID] = c.Row
		if k := (id.Attempt{Job: c.Row.ID, N: c.Row.Attempt.N}); h.ran[k] == nil {
			h.ran[k] = c.Row
		}
	case placement.BookingSet:
		h.windows = append(h.windows, c.Row)
	}
}

func newHistory(t *rapid.T) *history {
	h := &history{sim: newSim(t), tiles: map[string][]ledger.Tile{}, rows: map[id.Job]*workload.Job{}, states: map[[2]int64]workload.JobState{}, ran: map[id.Attempt]*workload.Job{}, used: map[limitUser]int64{}, tokens: map[id.Token]tenancy.Token{}}
	shared := true
	h.must(t, h.user("root"), command.PartitionPut{Name: "main", ShareDevices: &shared})
	for _, d := range h.w.Ledger.Tiles.All() {
		h.tiles[d.Device] = []ledger.Tile{d}
	}
	return h
}

// Whatever happens: money is conserved, no limit is passed, deposits equal what
// open jobs have set aside, every device-second has one payer, what was charged is
// what was metered, and the same command decides the same twice.
func TestWhateverHappens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := newHistory(t)
		for r, most := range map[limits.Resource]int64{limits.GPU: 3000, limits.CPU: 24_000, limits.Running: 3, limits.Submitted: 6} {
			h.must(t, h.user("root"), command.LimitPut{Account: "nlp", Resource: r, Max: most})
		}
		h.must(t, h.user("root"), command.QoSPut{Create: true, Name: "urgent", Priority: num(1000), Preempts: &[]string{"normal"}})
		if rapid.Bool().Draw(t, "poor") {
			h.overdraws(t)
		}
		for range rapid.IntRange(0, 4).Draw(t, "limits") {
			h.limit(t)
		}
		site := h.w.Site
		site.UserWorkspaces = 2
		site.Weights = admission.Weights{Share: 1000, HalfLife: rapid.SampledFrom([]int64{0, hour, 168 * hour}).Draw(t, "half-life")}
		h.w.Fold([]world.Change{world.SiteSet{Row: site}})
		for range rapid.IntRange(0, 3).Draw(t, "limits on hours") {
			h.limitHours(t)
		}
		for range rapid.IntRange(0, 2).Draw(t, "caps") {
			h.limitCredits(t)
		}
		for range rapid.IntRange(0, 3).Draw(t, "tokens") {
			h.makeToken(t)
		}
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
	who = h.by(t, who)
	switch rapid.IntRange(0, 23).Draw(t, "kind") {
	case 23:
		for _, row := range h.w.Tenancy.TokensOf(id.User(who.User)) {
			h.do(t, h.user("root"), command.TokenRevoke{User: who.Name, Token: row.ID})
		}
		h.makeToken(t)
	case 0, 1, 2:
		h.do(t, who, command.Submit{Spec: h.randomSpec(t), Past: h.past()})
	case 3, 4:
		h.do(t, system, command.JobStart{Job: job(), Element: rapid.Int64Range(0, 3).Draw(t, "element")})
	case 5, 6:
		h.observe(t, job())
	case 7:
		cmd := command.JobStop{Job: job(), Now: rapid.Bool().Draw(t, "now"), Grace: rapid.SampledFrom([]int64{0, 0, 1e9, 3600e9}).Draw(t, "grace"), Delete: rapid.IntRange(0, 3).Draw(t, "delete") == 0}
		if rapid.Bool().Draw(t, "a part") {
			cmd.Elements = workload.Elements{{First: 1, Last: 2, Step: 1}}
		}
		h.do(t, who, cmd)
	case 8:
		h.do(t, system, command.JobDue{Job: job()})
		h.idle(t, who, job())
	case 9:
		h.do(t, system, command.Meter{Jobs: h.ids})
		h.do(t, system, command.TilesDue{})
		h.topUp(t)
	case 10:
		h.environment(t)
	case 13:
		h.do(t, who, command.JobHold{Job: job()})
	case 14:
		h.do(t, who, command.JobRelease{Job: job()})
	case 15:
		h.do(t, who, command.JobRequeue{Job: job(), Hold: rapid.Bool().Draw(t, "hold")})
	case 12:
		h.preempt(t)
	case 16:
		h.tenancy(t)
	case 17, 18:
		h.reserve(t)
	case 19, 20:
		h.steps(t, who)
	case 21:
		h.startWorkspace(t, who)
	case 22:
		h.do(t, system, command.AppsReady{Job: job(), N: rapid.Int32Range(0, 2).Draw(t, "ready")})
	case 11:
		h.do(t, system, command.JobFail{Job: job(), N: rapid.Int32Range(0, 2).Draw(t, "n"), Message: "no such image"})
	}
}

// startWorkspace starts a workspace, as it was or otherwise, if there is one.
func (h *history) startWorkspace(t *rapid.T, who access.Principal) {
	var all []*workload.Job
	for _, j := range h.w.Workload.Jobs.All() {
		if j.Spec.Workspace() {
			all = append(all, j)
		}
	}
	if len(all) == 0 {
		return
	}
	j := rapid.SampledFrom(all).Draw(t, "workspace")
	if rapid.IntRange(0, 3).Draw(t, "whose workspace") > 0 {
		who = h.w.Principal(j.User, 0, h.now)
	}
	cmd := command.WorkspaceStart{Job: j.ID}
	if rapid.Bool().Draw(t, "otherwise") {
		spec := h.randomSpec(t)
		spec.Kind, spec.Name, spec.Account = j.Spec.Kind, j.Spec.Name, j.Spec.Account
		spec.Array, spec.After, spec.Deadline = workload.ArraySpec{}, workload.Dependencies{}, 0
		cmd.Spec = &spec
	}
	h.do(t, who, cmd)
}

// workspaces checks that a stopped workspace holds nothing, and that nobody has two of a
// name or more than he may.
func (h *history) workspaces(t *rapid.T) {
	named, of := map[string]bool{}, map[id.User]int64{}
	for k, j := range h.w.Workload.Jobs.All() {
		if !j.Spec.Workspace() {
			if j.State == workload.Stopped {
				t.Fatalf("job %d, no workspace, is stopped", k)
			}
			continue
		}
		name := fmt.Sprint(j.User, " ", j.Spec.Name)
		if of[j.User]++; named[name] || of[j.User] > h.w.Site.UserWorkspaces {
			t.Fatalf("workspace %d: user %d has %d, another of the name %s: %v", k, j.User, of[j.User], j.Spec.Name, named[name])
		}
		named[name] = true
		if found, ok := h.w.Workload.Workspace(j.User, j.Spec.Name); !ok || found.ID != k {
			t.Fatalf("workspace %d isn't found by its name", k)
		}
		if j.State != workload.Stopped {
			continue
		}
		_, held := h.w.Placement.Holds.Get(k)
		if held || metering.Left(j) != 0 || j.In != 0 || j.Promise != 0 || j.Claim != 0 || j.Outcome == "" || j.Rested == 0 || j.Due() != 0 || j.Attempt.N > 0 && j.Attempt.Outcome == "" {
			t.Fatalf("workspace %d is stopped: holds %v, %+v", k, held, j)
		}
	}
}

// idle has a job kept, told or stopped for being idle.
func (h *history) idle(t *rapid.T, who access.Principal, k id.Job) {
	site := h.w.Site
	site.Idle = []idle.Policy{{Mode: idle.Stop, After: hour}}
	h.w.Fold([]world.Change{world.SiteSet{Row: site}})
	switch rapid.IntRange(0, 3).Draw(t, "idle") {
	case 0:
		h.do(t, who, command.JobKeep{Job: k, For: hour})
	case 1:
		h.do(t, system, command.JobNotice{Job: k, N: 1, Idle: hour})
		h.do(t, system, command.JobIdleStop{Job: k, N: 1, Idle: hour, Text: "idle"})
	case 2:
		h.do(t, system, command.JobIdle{Job: k, N: 1, Idle: hour})
	}
}

// steps adds steps to a job that runs, if there is one, and does things to those that it
// has, as its user or as somebody else.
func (h *history) steps(t *rapid.T, who access.Principal) {
	var running []id.Job
	for k := range h.w.Workload.Active.All() {
		running = append(running, k)
	}
	if len(running) == 0 {
		return
	}
	k := rapid.SampledFrom(running).Draw(t, "running job")
	if j, _ := h.w.Workload.Jobs.Get(k); rapid.IntRange(0, 3).Draw(t, "whose") > 0 {
		who = h.w.Principal(j.User, 0, h.now)
	}
	for range rapid.IntRange(1, 6).Draw(t, "times") {
		h.do(t, who, command.StepAdd{Job: k, Spec: workload.StepSpec{
			GPU: rapid.Int64Range(0, 2).Draw(t, "step's gpu") * 1000, CPU: rapid.Int64Range(0, 10).Draw(t, "step's cpu") * 1000,
			Time: rapid.Int64Range(0, 1).Draw(t, "step's time") * hour / 2,
		}})
		for s := range h.w.Workload.StepsOf(k) {
			h.oneStep(t, who, s)
		}
	}
}

func (h *history) oneStep(t *rapid.T, who access.Principal, s *workload.Step) {
	at := func(name string) int64 { return rapid.Int64Range(h.now-hour, h.now+hour).Draw(t, name) }
	switch rapid.IntRange(0, 7).Draw(t, "what of a step") {
	case 0, 1:
		h.do(t, system, command.StepStart{Job: s.Job, N: s.N})
	case 2, 3:
		h.do(t, system, command.StepObserved{Job: s.Job, N: s.N, Attempt: s.Attempt, Running: true, Started: at("step's start")})
	case 4:
		h.do(t, system, command.StepObserved{Job: s.Job, N: s.N, Attempt: s.Attempt, Exited: true, Finished: at("step's end")})
	case 5:
		h.do(t, who, command.StepStop{Job: s.Job, N: s.N, Grace: rapid.Int64Range(-1, 10e9).Draw(t, "step's grace"), Now: rapid.Bool().Draw(t, "step's now")})
	case 6:
		h.do(t, system, command.StepDue{Job: s.Job, N: s.N})
	case 7:
		h.do(t, system, command.StepFail{Job: s.Job, N: s.N, Attempt: s.Attempt, Message: "no such program"})
	}
}

// stepsFit checks that what live steps have for themselves is no more than their job has,
// that they are of its attempt, and that no step outlives it.
func (h *history) stepsFit(t *rapid.T) {
	cpu, own := map[id.Job]int64{}, map[string]int32{}
	for _, s := range h.w.Workload.Steps.All() {
		j, ok := h.w.Workload.Active.Get(s.Job)
		if !ok || j.Attempt.N != s.Attempt || s.N > j.Steps {
			t.Fatalf("step %d.%d lives, of attempt %d; its job: %+v", s.Job, s.N, s.Attempt, j)
		}
		if s.State == workload.Queued {
			continue
		}
		if cpu[s.Job] += s.Spec.CPU; cpu[s.Job] > j.Spec.CPU {
			t.Fatalf("steps of job %d have %d of %d milli-cores", s.Job, cpu[s.Job], j.Spec.CPU)
		}
		for _, d := range s.Devices {
			if !slices.Contains(j.Attempt.Devices, d) || s.Spec.GPU > 0 && own[d] != 0 {
				t.Fatalf("step %d.%d has device %s, and so has step %d", s.Job, s.N, d, own[d])
			}
			if s.Spec.GPU > 0 {
				own[d] = s.N
			}
		}
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
	switch rapid.IntRange(0, 8).Draw(t, "what") {
	case 8:
		h.limit(t)
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
		put := command.AccountPut{Name: rapid.SampledFrom([]string{"nlp", "vision"}).Draw(t, "account"), OutOfCredit: text(rapid.SampledFrom([]string{"stop", "drain", "overdraft"}).Draw(t, "out of credit"))}
		if *put.OutOfCredit == "overdraft" {
			bound := money.Micros(rapid.Int64Range(1, 20).Draw(t, "overdraft")) * money.Credit
			put.Overdraft = &bound
		}
		h.do(t, root, put)
	case 7:
		cancel, keep := rapid.Bool().Draw(t, "cancel"), rapid.Bool().Draw(t, "keep")
		h.do(t, root, command.QoSPut{Name: "normal", Contract: command.ContractChange{Cancel: &cancel, Keep: &keep}})
	case 6:
		inv := command.InventoryObserved{Nodes: []placement.Node{{Name: "gpu1", CPU: 64000, Memory: 512 << 30, Ready: rapid.Bool().Draw(t, "ready")}}}
		for i := range 4 {
			d := placement.Device{UUID: fmt.Sprintf("SIM-%d", i), Node: "gpu1", Index: i, Name: fmt.Sprintf("gpu%d", i), Model: "a100", Memory: memoryOf(i), Healthy: true}
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

// past is what has become of the jobs that have ended.
func (h *history) past() []admission.Past {
	var out []admission.Past
	for _, k := range h.ids {
		if j := h.rows[k]; j != nil && j.State == workload.Ended {
			out = append(out, admission.Past{Fate: j.Fate(), User: j.User, Account: j.Account})
		}
	}
	return out
}

func (h *history) randomSpec(t *rapid.T) workload.Spec {
	s := example()
	s.GPU = rapid.SampledFrom([]int64{0, 1000, 2000, 3000, 4000, 5000, 250, 400, 500, 999}).Draw(t, "gpu")
	if s.GPU > 0 && rapid.Bool().Draw(t, "memory") {
		s.GPUMem = rapid.SampledFrom([]int64{1, 9, 10, 20, 39, 40, 41}).Draw(t, "of each") << 30
	}
	s.CPU = rapid.Int64Range(1, 20).Draw(t, "cpu") * 1000
	s.Time = rapid.Int64Range(1, 30).Draw(t, "time") * hour / 10
	s.Grace = rapid.Int64Range(0, 120).Draw(t, "grace") * 1e9
	if rapid.Bool().Draw(t, "urgent") {
		s.QoS = "urgent"
	}
	if rapid.IntRange(0, 3).Draw(t, "reserved") == 0 {
		s.Reservation = rapid.SampledFrom([]string{"r1", "r2"}).Draw(t, "reservation")
	}
	if rapid.Bool().Draw(t, "rolling") {
		s.Deposit = workload.DepositRolling
	}
	if rapid.Bool().Draw(t, "requeue") {
		s.Requeue = []string{"node", "timeout"}
	}
	if rapid.IntRange(0, 3).Draw(t, "array") == 0 {
		s.Array = workload.ArraySpec{Elements: workload.Elements{{First: 0, Last: 3, Step: 1}}, Most: rapid.Int64Range(0, 2).Draw(t, "at once")}
		s.GPU = min(s.GPU, 1000)
	}
	if rapid.IntRange(0, 2).Draw(t, "port") == 0 {
		s.Pod.Ports = []workload.Port{{Host: rapid.SampledFrom([]uint16{2000, 2001}).Draw(t, "which"), Container: 80}}
	}
	waits := rapid.IntRange(0, 8).Draw(t, "waits")
	if rapid.IntRange(0, 3).Draw(t, "a workspace") == 0 {
		s.Kind, s.Name = workload.KindWorkspace, rapid.SampledFrom([]string{"nb", "code", "sh"}).Draw(t, "name")
		s.Array, waits = workload.ArraySpec{}, min(waits, 1)
	}
	switch waits {
	case 0:
		s.Hold = true
	case 1:
		s.Begin = h.now + rapid.Int64Range(-hour, 3*hour).Draw(t, "begin")
	case 2:
		s.Deadline = h.now + rapid.Int64Range(0, 8*hour).Draw(t, "deadline")
	case 3, 4:
		s.After.Any = rapid.Bool().Draw(t, "any")
		for range rapid.IntRange(1, 3).Draw(t, "jobs") {
			s.After.Of = append(s.After.Of, workload.Dependency{
				Event: rapid.SampledFrom([]workload.Event{workload.AfterStart, workload.AfterOK, workload.AfterNotOK, workload.AfterAny}).Draw(t, "event"),
				Job:   id.Job(rapid.Int64Range(1, int64(h.w.Workload.NextJob())).Draw(t, "other")),
				Delay: rapid.Int64Range(0, 2).Draw(t, "delay") * hour,
			})
		}
	}
	return s
}

// check looks at what must hold after every command.
func (h *history) check(t *rapid.T) {
	for next := h.w.Workload.NextJob(); id.Job(len(h.ids))+1 < next; {
		h.ids = append(h.ids, id.Job(len(h.ids))+1)
	}
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
	h.overdrafts(t)
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
	h.limits(t)
	h.rolling(t)
	h.tokensHold(t)
	h.checked = len(h.transfers)
	h.memory(t)
	h.devices(t)
	h.ports(t)
	h.reserved(t)
	h.shares(t)
	h.waiting(t)
	h.stepsFit(t)
	h.workspaces(t)
}

// ports checks that each port of a node leads to one job.
func (h *history) ports(t *rapid.T) {
	to := map[string]id.Job{}
	for _, j := range h.w.Workload.Active.All() {
		for _, p := range j.Spec.Pod.Ports {
			at := fmt.Sprint(j.Attempt.Node, " ", p.Host)
			if other, taken := to[at]; taken {
				t.Fatalf("port %s leads to jobs %d and %d", at, other, j.ID)
			}
			to[at] = j.ID
		}
	}
}

// memory checks that no device's memory is given twice, and that each job has as much.
func (h *history) memory(t *rapid.T) {
	given := map[string]int64{}
	for _, j := range h.w.Workload.Active.All() {
		for _, uuid := range j.Attempt.Devices {
			d, _ := h.w.Placement.Devices.Get(uuid)
			if given[uuid] += j.Spec.GPUMem; given[uuid] > memoryOf(d.Index) {
				t.Fatalf("%d of the %d bytes of %s are given", given[uuid], memoryOf(d.Index), uuid)
			}
		}
		if part := j.Attempt.Part(); part > 0 && (part < j.Spec.GPU || part*(40<<30)/1000 < j.Spec.GPUMem) {
			t.Fatalf("job %d has %d thousandths for %d bytes and %d", j.ID, part, j.Spec.GPUMem, j.Spec.GPU)
		}
	}
}

// shares checks what everybody has used against the attempts there have been: those
// that the user pays for, at the rate that each began with. Nothing has faded where
// there is no half-life, and else there is no more of it.
func (h *history) shares(t *rapid.T) {
	view, want := h.w.View(h.now), map[[2]int64]money.Micros{}
	half := h.w.Site.Weights.HalfLife
	for _, j := range h.rows {
		for _, a := range append(slices.Clone(j.Past), j.Attempt) {
			from, to := metering.Billable(a, j.TermsOf(a).Grace, h.now)
			ns := new(big.Int).Mul(big.NewInt(int64(a.Rate)), big.NewInt(to-from))
			ns.Add(ns, big.NewInt(hour-1)).Div(ns, big.NewInt(hour))
			want[[2]int64{int64(j.Account), int64(j.User)}] += money.Micros(ns.Int64())
			want[[2]int64{int64(j.Account), 0}] += money.Micros(ns.Int64())
		}
	}
	// of the two accounts one may be below the other, removed ones too
	for _, a := range h.w.Tenancy.Accounts.All() {
		if a.Parent != 0 {
			want[[2]int64{int64(a.Parent), 0}] += want[[2]int64{int64(a.ID), 0}]
		}
	}
	for n := range view.Standings().Below {
		k := [2]int64{int64(n.Account), int64(n.User)}
		if n.Use < 0 || n.Use > want[k] || half == 0 && n.Use != want[k] {
			t.Fatalf("account %d, user %d: used %s, want %s (half-life %d)", n.Account, n.User, n.Use, want[k], half)
		}
		delete(want, k)
	}
	for k, use := range want {
		if use != 0 && half == 0 { // else it may have faded to nothing
			t.Fatalf("%v has used %s and isn't in the tree", k, use)
		}
	}
}

// waiting checks each job that waits for others against what became of those, and
// that none is in the queue that shouldn't be.
func (h *history) waiting(t *rapid.T) {
	for _, j := range h.w.Workload.Jobs.All() {
		if workload.RulesOf(j.State).Running {
			continue
		}
		for i, d := range j.Spec.After.Of {
			other := h.rows[d.Job]
			if d.Job >= j.ID || other == nil {
				t.Fatalf("job %d waits for %d, which came no sooner", j.ID, d.Job)
			}
			if !j.Met[i].Settled() && other.State == workload.Ended && j.State == workload.Held && !(j.Spec.After.Any && j.Aged > 0) {
				t.Fatalf("job %d waits for job %d, which has ended: %+v", j.ID, d.Job, j.Met)
			}
		}
		if a := j.Array; a != nil {
			n := a.Pending.Len() + a.Active
			for _, tally := range a.Ended {
				n += tally.Count
			}
			var live int64
			for range h.w.Workload.ElementsOf(j.ID) {
				live++
			}
			if n != 4 || live != a.Active || j.Spec.Array.Most > 0 && live > j.Spec.Array.Most || n == live && live == 0 {
				t.Fatalf("array %d has %d elements, %d live: %+v", j.ID, n, live, a)
			}
		}
		at, known, _ := j.Opens()
		if j.State == workload.Queued && (j.Hold != workload.NoHold || !known || at > h.now || j.Since() < at) {
			t.Fatalf("job %d is in the queue since %d: hold %q, opens at %d %v, now %d", j.ID, j.Since(), j.Hold, at, known, h.now)
		}
		if j.State == workload.Held && (j.Promise != 0 || j.Claim != 0) {
			t.Fatalf("job %d is held and has a promise", j.ID)
		}
	}
}

// devices checks that nothing of a device is given twice, and that its tiles come to
// all of it at every time.
func (h *history) devices(t *rapid.T) {
	held := map[string]int64{}
	for _, j := range h.w.Workload.Active.All() {
		for _, d := range j.Attempt.Devices {
			each := j.Spec.GPU
			if each > 1000 {
				each = 1000
			}
			if held[d] += each; held[d] > 1000 {
				t.Fatalf("job %d: %d of %s are given", j.ID, held[d], d)
			}
		}
	}
	for d, ts := range h.tiles {
		for _, at := range ts {
			var sum int64
			for _, tile := range ts {
				if tile.From <= at.From && (tile.To == 0 || tile.To > at.From) {
					sum += tile.Milli
				}
			}
			if sum != 1000 {
				t.Fatalf("%s: %d of it at %d: %+v", d, sum, at.From, ts)
			}
		}
	}
}

// finish ends all jobs and checks charges against what the tiles say.
func (h *history) finish(t *rapid.T) {
	for _, k := range h.ids {
		h.do(t, h.user("root"), command.JobStop{Job: k, Now: true, Delete: true})
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
		var moved money.Micros
		if j.Array != nil {
			moved = j.Array.Moved
		}
		if err != nil || want.Total != j.Charged+lost[j.ID] || j.Deposit != j.Charged+j.Returned+j.Refunded+moved {
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

// topUp renews every deposit that is due.
func (h *history) topUp(t *rapid.T) {
	for k, j := range h.w.Workload.Active.All() {
		h.do(t, system, command.JobTopUp{Job: k, N: j.Attempt.N})
	}
}

// rolling checks that what was set aside for each running job with a rolling deposit pays
// for it up to when it is said to, and the grace after that, made again from prices and
// time.
func (h *history) rolling(t *rapid.T) {
	for _, j := range h.w.Workload.Active.All() {
		a := j.Attempt
		if a.Paid == 0 || a.Started == 0 {
			continue
		}
		if !j.Spec.Rolling() || a.Paid > a.Until {
			t.Fatalf("job %d, paid up to %d of %d: %+v", j.ID, a.Paid, a.Until, j)
		}
		cost, err := h.w.Catalog.Book(j.Spec.Partition, a.Book).Cost(metering.UseOf(j, a), j.Factor, a.Started, a.Paid+j.Spec.Grace)
		// what was stopped at its start may have no grace that is paid for
		if has := a.Posted + metering.Left(j); err != nil || cost.Total > has && a.Paid > a.Started {
			t.Fatalf("job %d costs %s up to when it is paid, %s were set aside (%v)", j.ID, cost.Total, has, err)
		}
	}
}
