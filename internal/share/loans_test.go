package share_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/share"
	"croft.dev/croft/internal/tenancy"
)

// pool is a partition in which jobs wait and run.
type pool struct {
	scene
	account map[id.Job]id.Account
	size    map[id.Job]int64
	since   map[id.Job]int64 // 0: waits
	now     int64
}

func drawPool(t *rapid.T) *pool {
	p := &pool{draw(t), map[id.Job]id.Account{}, map[id.Job]int64{}, map[id.Job]int64{}, 1}
	p.use = map[id.Account]int64{}
	for k := id.Job(1); k <= id.Job(rapid.IntRange(1, 14).Draw(t, "jobs")); k++ {
		p.account[k] = id.Account(rapid.IntRange(1, len(p.parent)).Draw(t, "account"))
		p.size[k] = rapid.Int64Range(1, 6).Draw(t, "size")
		p.since[k] = 0
	}
	return p
}

func (p *pool) jobs() []id.Job {
	var out []id.Job
	for k := range p.account {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

func (p *pool) start(k id.Job) {
	p.now++
	p.since[k] = p.now
	p.use[p.account[k]] += p.size[k]
}

func (p *pool) stop(k id.Job) {
	p.since[k] = 0
	p.use[p.account[k]] -= p.size[k]
}

func (p *pool) free() int64 { return p.offered - p.used(0) }

func (p *pool) world() (share.State, tenancy.State, func(limits.Resource) int64) {
	st, tn := p.build()
	return st, tn, func(limits.Resource) int64 { return p.offered }
}

func (p *pool) claim(k id.Job) share.Claim {
	st, tn, offered := p.world()
	var runs []share.Run
	for _, j := range p.jobs() {
		if p.since[j] != 0 {
			runs = append(runs, share.Run{Job: j, Path: p.path(p.account[j]), Use: limits.Demand{GPU: p.size[j]}, Since: p.since[j]})
		}
	}
	return share.Claim{Loans: st.Loans(nil, &tn, main, func() []share.Run { return runs }, nil, offered), Path: p.path(p.account[k]), Ask: limits.Demand{GPU: p.size[k]}}
}

// mayStart reports whether shares let a waiting job start.
func (p *pool) mayStart(k id.Job) bool {
	st, tn, offered := p.world()
	return len(st.Check(nil, &tn, p.path(p.account[k]), main, limits.Ask{Demand: limits.Demand{GPU: p.size[k]}}, offered)) == 0
}

// due lists the running jobs that give way to a waiting one.
func (p *pool) due(k id.Job) []id.Job {
	c := p.claim(k)
	var out []id.Job
	for _, j := range p.jobs() {
		if p.since[j] == 0 {
			continue
		}
		if due, _ := c.On(j); due {
			out = append(out, j)
		}
	}
	return out
}

// branch is the account right below where the ways of two accounts to the top meet, on the
// way of the first: 0 if there is none.
func (s scene) branch(a, b id.Account) id.Account {
	line := func(a id.Account) []id.Account {
		var out []id.Account
		for a = s.above(a); a != 0; a = s.above(s.parent[a]) {
			out = append(out, a)
		}
		return append(out, 0)
	}
	last := id.Account(0)
	for _, x := range line(a) {
		if slices.Contains(line(b), x) {
			return last
		}
		last = x
	}
	return 0
}

// Whoever is within his guarantee can have it: if all that give way to him are stopped,
// there is room. Only jobs of those beyond their guarantee give way, none of them fits
// into what is left of that when they are gone, and nothing that is covered is touched.
func TestGuaranteesAreHonoured(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPool(t)
		for _, k := range p.jobs() {
			if p.size[k] <= p.free() && rapid.IntRange(0, 3).Draw(t, "starts") > 0 {
				p.start(k)
			}
		}
		for _, k := range p.jobs() {
			if p.since[k] != 0 {
				continue
			}
			due := p.due(k)
			var gone int64
			for _, v := range due {
				gone += p.size[v]
				its := p.branch(p.account[v], p.account[k])
				if its == 0 {
					continue
				}
				rest := p.used(its)
				if rest <= p.shares[its].Guaranteed {
					t.Fatalf("job %d gives way, though its account %d has no more than %d", v, its, p.shares[its].Guaranteed)
				}
				for _, o := range due {
					if p.branch(p.account[o], p.account[k]) == its {
						rest -= p.size[o]
					}
				}
				if rest+p.size[v] <= p.shares[its].Guaranteed {
					t.Fatalf("job %d gives way, and would fit into the guarantee of account %d", v, its)
				}
			}
			mine := p.branch(p.account[k], 0)
			if mine != 0 && p.taken(mine, p.account[k], p.size[k]) <= p.shares[mine].Guaranteed && p.free()+gone < p.size[k] {
				t.Fatalf("account %d is within its guarantee with job %d of %d, and has no room: %d are free, %d give way", mine, k, p.size[k], p.free(), gone)
			}
		}
	})
}

// Claims come to an end, whatever else starts meanwhile; then nobody who is within his
// guarantee waits for somebody who isn't.
func TestReclaimTerminates(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPool(t)
		reclaims := 0
		for moved := true; moved; {
			moved = false
			for _, k := range rapid.Permutation(p.jobs()).Draw(t, "order") {
				if p.since[k] != 0 || !p.mayStart(k) {
					continue
				}
				if p.size[k] <= p.free() {
					p.start(k)
					moved = true
					continue
				}
				due := p.due(k)
				var gone int64
				for _, v := range due {
					gone += p.size[v]
				}
				if p.free()+gone < p.size[k] {
					continue
				}
				for _, v := range rapid.Permutation(due).Draw(t, "victims") {
					if p.free() < p.size[k] {
						p.stop(v)
					}
				}
				p.start(k)
				moved = true
				if reclaims++; reclaims > 200 {
					t.Fatalf("%d jobs have made room for each other %d times: %+v", len(p.account), reclaims, p)
				}
			}
		}
	})
}

// Two accounts can't take from each other in turn.
func TestNoReclaimInReturn(t *testing.T) {
	p := &pool{scene{map[id.Account]id.Account{1: 0, 2: 0}, map[id.Account]share.Share{}, map[id.Account]int64{}, 4}, map[id.Job]id.Account{1: 1, 2: 1, 3: 2}, map[id.Job]int64{1: 2, 2: 2, 3: 2}, map[id.Job]int64{1: 0, 2: 0, 3: 0}, 1}
	for a := range p.parent {
		p.shares[a] = share.Share{ID: id.Share(a), Account: a, Partition: main, Resource: limits.GPU, Guaranteed: 2, Limit: share.Any, Borrow: share.Any, Lend: share.Any}
	}
	p.start(1)
	p.start(2)
	if got := fmt.Sprint(p.due(3)); got != "[2]" {
		t.Fatalf("to the other account %s give way, want the job that began last", got)
	}
	p.stop(2)
	p.start(3)
	if got := p.due(2); got != nil {
		t.Errorf("%v give way in return", got)
	}
}
