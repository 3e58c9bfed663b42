package query_test

import (
	"context"
	"fmt"
	"math/big"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/internal/admission"
	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/placement"
	"croft.dev/croft/internal/query"
	"croft.dev/croft/internal/sequencer"
	"croft.dev/croft/internal/store"
	"croft.dev/croft/internal/store/storetest"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

var postgres storetest.Server

func TestMain(m *testing.M) {
	code := m.Run()
	postgres.Stop()
	os.Exit(code)
}

// life is a random one of a machine, and of the accounts on it.
type life struct {
	*bench
	*rand.Rand
	jobs    []id.Job
	there   []bool       // which devices the inventory has
	spans   [][][2]int64 // since when and until when it had each
	foreign map[int]bool // devices that others use
	began   int64
}

func newLife(t *testing.T, config store.Config, seed uint64) *life {
	l := &life{bench: newBenchOn(t, config), Rand: rand.New(rand.NewPCG(seed, 7)), there: []bool{true, true, true, true}, spans: make([][][2]int64, 4), foreign: map[int]bool{}}
	l.began = l.now.Load()
	for i := range l.spans {
		l.spans[i] = [][2]int64{{l.began, 0}}
	}
	showback := "showback"
	l.do(1, command.AccountPut{Create: true, Name: "seminar", Parent: "nlp"})
	l.do(1, command.AccountPut{Create: true, Name: "guests", Billing: &showback})
	l.do(0, command.UserPut{Create: true, Name: "ben"})
	l.do(1, command.MemberPut{Account: "seminar", User: "ben", Role: "member"})
	l.do(1, command.MemberPut{Account: "guests", User: "ben", Role: "member"})
	l.do(1, command.GrantGive{Account: "nlp", Amount: 300 * money.Credit, Source: "budget", Subtree: true, End: l.now.Load() + 20*24*hour})
	l.do(1, command.QoSPut{Create: true, Name: "urgent", Priority: ptr(int64(1000)), Preempts: &[]string{"normal"}})
	shared := true
	l.do(1, command.PartitionPut{Name: "main", ShareDevices: &shared})
	return l
}

func ptr[T any](v T) *T { return &v }

// try has a command decided that may be refused.
func (l *life) try(user id.User, cmd world.Command) (sequencer.Answer, bool) {
	got, err := l.seq.Do(context.Background(), sequencer.Actor{User: user, System: user == 0}, cmd, sequencer.Key{})
	return got, err == nil
}

func (l *life) observe() {
	inv := command.InventoryObserved{Nodes: []placement.Node{{Name: "gpu1", CPU: 64000, Memory: 512 << 30, Ready: true}, {Name: "gpu2", CPU: 64000, Memory: 512 << 30, Ready: l.IntN(8) > 0}}}
	for i, there := range l.there {
		if !there {
			continue
		}
		d := placement.Device{UUID: fmt.Sprint("SIM-", i), Node: "gpu1", Index: i, Name: fmt.Sprint("gpu", i), Model: "a100", Healthy: l.IntN(8) > 0}
		if l.foreign[i] {
			d.Foreign = []placement.Process{{PID: 7}}
		}
		inv.Devices = append(inv.Devices, d)
	}
	if _, ok := l.try(0, inv); !ok {
		l.t.Fatal("the inventory was refused")
	}
}

// toggle takes an unused device out of the inventory, or puts one back.
func (l *life) toggle() {
	i := l.IntN(len(l.there))
	if l.there[i] && l.seq.World().Placement.InUse(fmt.Sprint("SIM-", i)) > 0 {
		return
	}
	if l.there[i] = !l.there[i]; l.there[i] {
		l.spans[i] = append(l.spans[i], [2]int64{l.now.Load(), 0})
	} else {
		l.spans[i][len(l.spans[i])-1][1] = l.now.Load()
	}
	l.observe()
}

func (l *life) step() {
	l.now.Add(1e9 + l.Int64N([]int64{60e9, hour, 5 * hour}[l.IntN(3)]))
	now := l.now.Load()
	switch l.IntN(20) {
	case 0, 1, 2, 3, 4:
		l.submit()
	case 5, 6, 7:
		l.start()
	case 8, 9:
		l.try(0, command.Meter{Jobs: l.running()})
	case 10, 11, 12:
		l.end()
	case 13:
		l.try(1, command.PricePut{CPU: money.Rate(l.IntN(50_000)), Mem: money.Rate(l.IntN(3_000)), Devices: []catalog.ModelRate{{Model: "a100", Rate: money.Rate(l.Int64N(3_000_001))}}})
	case 14:
		l.toggle()
	case 15:
		l.foreign[l.IntN(4)] = l.IntN(2) == 0
		l.observe()
	case 16:
		l.try(1, command.NodeDrain{Node: "gpu1", Reason: "fan", Resume: l.IntN(3) > 0})
	case 17:
		l.try(1, command.MaintenancePut{Node: "gpu1", From: now + l.Int64N(hour), To: now + 2*hour})
		l.try(1, command.ReservationPut{Name: fmt.Sprint("r", now), Accounts: []string{"nlp"}, Count: 1, GPU: 1000, From: now + l.Int64N(hour), Length: 2 * hour})
	case 18:
		l.try(1, command.GrantGive{Account: []string{"nlp", "seminar"}[l.IntN(2)], Amount: money.Micros(l.Int64N(20_000_000) + 1), Source: "gift", End: now + l.Int64N(10*24*hour) + 1})
		l.try(1, command.AllowancePut{
			Account: []string{"nlp", "seminar"}[l.IntN(2)], Amount: money.Micros(l.Int64N(9_000_000) + 1), Per: limits.Week, Subtree: l.IntN(2) == 0,
			Carry: []limits.Carry{{}, {Milli: l.Int64N(1000) + 1}, {Amount: l.Int64N(6_000_000)}}[l.IntN(3)],
		})
	case 19:
		l.preempt()
	}
	for k := range l.seq.World().Allowances.Rules.All() {
		l.try(0, command.AllowanceDue{Allowance: k})
	}
	l.try(0, command.ReservationsDue{})
	l.try(0, command.TilesDue{})
	for k := range l.seq.World().Ledger.Grants.All() {
		l.try(0, command.GrantExpire{Grant: k})
	}
}

func (l *life) submit() {
	user, account := id.User(2), "nlp"
	if l.IntN(2) == 0 {
		user, account = 3, []string{"seminar", "guests"}[l.IntN(2)]
	}
	spec := workload.Spec{
		Name: "x", Kind: workload.KindContainer, Account: account, Image: "a:1", CPU: 1000 * (1 + l.Int64N(8)), Mem: (1 + l.Int64N(8)) << 30, Time: hour * (1 + l.Int64N(40)),
		GPU: []int64{0, 500, 1000, 1000, 2000}[l.IntN(5)], QoS: []string{"normal", "urgent"}[l.IntN(2)],
	}
	if l.IntN(2) == 0 {
		spec.Requeue = []string{"node", "preempt"}
	}
	if l.IntN(6) == 0 {
		spec.Array = workload.ArraySpec{Elements: workload.Elements{{First: 0, Last: 2, Step: 1}}}
	}
	if got, ok := l.try(user, command.Submit{Spec: spec}); ok {
		if a, ok := got.Result.(admission.Accepted); ok {
			l.jobs = append(l.jobs, a.Job.ID)
		}
	}
}

func (l *life) running() (out []id.Job) {
	for k := range l.seq.World().Workload.Active.All() {
		out = append(out, k)
	}
	return out
}

// start begins what may, and tells when some of it began.
func (l *life) start() {
	for _, k := range l.jobs {
		l.try(0, command.JobStart{Job: k, Element: l.Int64N(3)})
	}
	for _, j := range l.seq.World().Workload.Active.All() {
		if j.Attempt.Started == 0 && l.IntN(3) > 0 {
			at := j.Attempt.Assigned + l.Int64N(l.now.Load()-j.Attempt.Assigned+1)
			l.try(0, command.JobObserved{Job: j.ID, N: j.Attempt.N, Running: true, Started: at})
		}
	}
	if run := l.running(); len(run) > 0 {
		j, _ := l.seq.World().Workload.Active.Get(run[l.IntN(len(run))])
		l.try(j.User, command.StepAdd{Job: j.ID, Spec: workload.StepSpec{GPU: 1000 * l.Int64N(2)}})
		for s := range l.seq.World().Workload.StepsOf(j.ID) {
			l.try(0, command.StepStart{Job: s.Job, N: s.N})
			l.try(0, command.StepObserved{Job: s.Job, N: s.N, Attempt: s.Attempt, Running: true, Started: l.now.Load()})
		}
	}
}

// end has a job end well, late or unseen, or be told to.
func (l *life) end() {
	run := l.running()
	if len(run) == 0 {
		return
	}
	j, _ := l.seq.World().Workload.Active.Get(run[l.IntN(len(run))])
	seen := command.JobObserved{Job: j.ID, N: j.Attempt.N}
	from := max(j.Attempt.Started, j.Attempt.Assigned)
	switch l.IntN(5) {
	case 0:
		seen.Gone = true
	case 1:
		seen.Lost = true
	case 2:
		l.try(j.User, command.JobStop{Job: j.ID, Now: true})
		l.now.Add(1e9)
		fallthrough
	default:
		if j.Attempt.Started == 0 {
			seen.Started = from
		}
		seen.Exited, seen.Finished = true, from+l.Int64N(l.now.Load()-from+1)
	}
	l.try(0, seen)
}

// preempt has a job give way to a waiting one, if there are such.
func (l *life) preempt() {
	for _, v := range l.seq.World().Workload.Active.All() {
		for k, j := range l.seq.World().Workload.Jobs.All() {
			if j.State == workload.Queued && j.Spec.QoS == "urgent" && v.Spec.QoS == "normal" {
				if _, ok := l.try(0, command.JobPreempt{Job: v.ID, For: k}); ok {
					return
				}
			}
		}
	}
}

// Whatever happens, statements of any period add up to what was posted to the
// micro-credit, at every depth, and the machine's balance covers every device-second of
// the inventory once.
func TestStatementsWhateverHappens(t *testing.T) {
	seeds := 6
	if testing.Short() {
		seeds = 2
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("sqlite ", seed), func(t *testing.T) {
			t.Parallel()
			newLife(t, store.Config{Path: filepath.Join(t.TempDir(), "croft.db")}, uint64(seed)).live(t)
		})
	}
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		newLife(t, store.Config{DSN: postgres.DSN(t)}, 100).live(t)
	})
}

func (l *life) live(t *testing.T) {
	for n := range 150 {
		if l.step(); n%25 == 24 {
			l.compare(t)
		}
		if t.Failed() {
			t.Fatalf("after step %d", n)
		}
	}
	got, err := l.reader(l.db).Verify(t.Context(), root)
	for _, c := range got.Checks {
		if !c.OK {
			t.Errorf("%s: %s", c.Name, c.First)
		}
	}
	if err != nil {
		t.Error(err)
	}
	l.audited(t)
}

// compare looks at every whole month so far, and at some days.
func (l *life) compare(t *testing.T) {
	t.Helper()
	transfers, err := l.db.Transfers(t.Context(), store.TransferFilter{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	tiles, err := l.db.Tiles(t.Context(), store.TileFilter{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	day := func() time.Time { return time.Unix(0, l.began+l.Int64N(l.now.Load()-l.began)).UTC() }
	a, b := day(), day()
	if b.Before(a) {
		a, b = b, a
	}
	for _, period := range []string{"2026-11", "2026-11-01..2027-03", a.Format(time.DateOnly) + ".." + b.Format(time.DateOnly), a.Format(time.DateOnly)} {
		o := oracle{life: l, t: t, period: period, transfers: transfers, tiles: tiles}
		for _, account := range []string{"nlp", "seminar", "guests"} {
			for _, by := range []string{"member", "token", "job", "step", "device", "day"} {
				o.account(account, by)
			}
		}
		o.machine()
	}
}

// oracle adds up what was posted and recorded the long way.
type oracle struct {
	*life
	t         *testing.T
	period    string
	from, to  int64
	transfers []ledger.Transfer
	tiles     []ledger.Tile
}

func rat(s string) *big.Rat {
	r, ok := new(big.Rat).SetString(s)
	if !ok {
		panic("no number: " + s)
	}
	return r
}

func micros(s string) int64 {
	r := rat(s)
	return r.Mul(r, big.NewRat(1_000_000, 1)).Num().Int64()
}

func (o *oracle) account(name, by string) {
	o.t.Helper()
	s, err := o.reader(o.db).Statement(o.t.Context(), root, query.StatementQuery{Account: name, Period: o.period, By: by})
	if err != nil {
		o.t.Fatal(err)
	}
	what := name + " " + o.period + " by " + by
	if !s.Verified {
		o.t.Errorf("%s: %s", what, s.Difference)
	}
	o.from, o.to = s.From.UnixNano(), s.To.UnixNano()
	own := map[id.Account]string{}
	for k, a := range o.seq.World().Tenancy.Accounts.All() {
		if a.Name == name || name == "nlp" && a.Name == "seminar" {
			own[k] = a.Name
		}
	}
	users := map[string]int64{}
	var all int64
	for _, x := range o.transfers {
		if own[x.Account] == "" || x.At < o.from || x.At >= o.to {
			continue
		}
		n := map[ledger.Kind]int64{ledger.KindCharge: 1, ledger.KindCorrect: -1, ledger.KindRefund: -1}[x.Kind] * int64(x.Amount)
		u, _ := o.seq.World().Tenancy.Users.Get(x.User)
		users[own[x.Account]+" "+u.Name] += n
		all += n
	}
	for _, u := range s.Users {
		key := u.Account + " " + u.User
		if u.User == "(reserved, unused)" {
			key = u.Account + " "
		}
		if micros(u.Charged) != users[key] {
			o.t.Errorf("%s: %s was charged %s, posted was %d", what, key, u.Charged, users[key])
		}
		users[key] = 0
	}
	for k, n := range users {
		if n != 0 {
			o.t.Errorf("%s: nothing of %s, posted was %d", what, k, n)
		}
	}
	var lines int64
	for _, x := range s.Lines {
		lines += micros(x.Credits)
	}
	if lines != all || micros(s.Accounts[0].Charged) != all || micros(s.Total.Charged) != all {
		o.t.Errorf("%s: lines come to %d, accounts to %s, posted was %d", what, lines, s.Accounts[0].Charged, all)
	}
	o.grants(what, s, own)
	if by == "device" {
		o.deviceTime(what, s, own)
	}
}

// grants follows each grant by its transfers alone.
func (o *oracle) grants(what string, s v1.Statement, own map[id.Account]string) {
	listed := map[string]v1.StatementGrant{}
	for _, g := range s.Grants {
		if !g.Part {
			listed[g.ID] = g
		}
	}
	for k, g := range o.seq.World().Ledger.Grants.All() {
		if own[g.Account] == "" {
			continue
		}
		has := func(until int64) (n int64) { // in it, and set aside out of it
			for _, x := range o.transfers {
				if x.At >= until {
					continue
				}
				in := func(a ledger.Account) bool {
					return a == ledger.OfGrant(k) || x.Job != 0 && a == ledger.Deposit(x.Job, ledger.OfGrant(k))
				}
				if x.Kind == ledger.KindDeposit && in(x.To) {
					continue // from the grant, or from its array's deposit
				}
				if in(x.To) && !in(x.From) {
					n += int64(x.Amount)
				}
				if in(x.From) && !in(x.To) {
					n -= int64(x.Amount)
				}
			}
			return n
		}
		w, ok := listed[fmt.Sprint(k)]
		if !ok {
			if has(o.from) != 0 || has(o.to) != 0 {
				o.t.Errorf("%s: grant %d isn't listed, it had %d and has %d", what, k, has(o.from), has(o.to))
			}
			continue
		}
		if micros(w.Opening) != has(o.from) || micros(w.Left) != has(o.to) || micros(w.Opening)+micros(w.Given)-micros(w.Spent)-micros(w.Expired) != micros(w.Left) {
			o.t.Errorf("%s: grant %d had %d and has %d: %+v", what, k, has(o.from), has(o.to), w)
		}
	}
}

// deviceTime compares the lines' spans with the tiles, to the nanosecond.
func (o *oracle) deviceTime(what string, s v1.Statement, own map[id.Account]string) {
	want, got := new(big.Int), new(big.Int)
	for _, x := range o.tiles {
		if own[x.Account] != "" {
			want.Add(want, o.span(x))
		}
	}
	seen := map[string]bool{}
	for _, x := range s.Lines {
		if x.From == nil {
			continue
		}
		key := fmt.Sprint(x.Device, x.From, x.To, x.Job, x.Step)
		if seen[key] {
			continue // the same span, paid by another grant
		}
		seen[key] = true
		gpu := rat(string(x.GPU))
		n := big.NewInt(x.To.UnixNano() - x.From.UnixNano())
		got.Add(got, n.Mul(n, gpu.Mul(gpu, big.NewRat(1000, 1)).Num()))
	}
	if want.Cmp(got) != 0 {
		o.t.Errorf("%s: %s of device time, recorded is %s", what, got, want)
	}
}

// span is a tile's thousandths of device-nanoseconds in the period.
func (o *oracle) span(x ledger.Tile) *big.Int {
	to := min(x.To, o.to)
	if x.To == 0 {
		to = min(o.now.Load(), o.to)
	}
	return new(big.Int).Mul(big.NewInt(max(0, to-max(x.From, o.from))), big.NewInt(x.Milli))
}

func (o *oracle) machine() {
	o.t.Helper()
	m, err := o.reader(o.db).MachineStatement(o.t.Context(), root, "", o.period)
	if err != nil {
		o.t.Fatal(err)
	}
	if !m.Verified {
		o.t.Errorf("machine %s: %s", o.period, m.Difference)
	}
	want := new(big.Int) // from what the inventory had
	for _, spans := range o.spans {
		for _, s := range spans {
			want.Add(want, o.span(ledger.Tile{From: s[0], To: s[1], Milli: 1000}))
		}
	}
	hours := new(big.Int).Quo(want, big.NewInt(3600*1e9))
	var parts, causes int64
	thousandths := func(s string) int64 { r := rat(s); return r.Mul(r, big.NewRat(1000, 1)).Num().Int64() }
	for _, v := range m.By {
		parts += thousandths(v)
	}
	for _, v := range m.Causes {
		causes += thousandths(v)
	}
	if total := thousandths(m.Total); total != hours.Int64() || parts != total || causes != total {
		o.t.Errorf("machine %s: %s hours, its parts come to %d and %d; the inventory had %s", o.period, m.Total, parts, causes, hours)
	}
	// at any time each device that is there is wholly somebody's
	for range 50 {
		at := o.began + o.Int64N(o.now.Load()-o.began)
		for i, spans := range o.spans {
			var milli, there int64
			for _, x := range o.tiles {
				if x.Device == fmt.Sprint("SIM-", i) && x.From <= at && (x.To == 0 || at < x.To) {
					milli += x.Milli
				}
			}
			if slices.ContainsFunc(spans, func(s [2]int64) bool { return s[0] <= at && (s[1] == 0 || at < s[1]) }) {
				there = 1000
			}
			if milli != there {
				o.t.Errorf("at %d %d of device %d is recorded, the inventory has %d", at, milli, i, there)
			}
		}
	}
}

func userNamed(name string) world.Command { return command.UserPut{Create: true, Name: name} }

func memberOf(account, user, role string) world.Command {
	return command.MemberPut{Account: account, User: user, Role: role}
}
