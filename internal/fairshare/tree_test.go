package fairshare

import (
	"fmt"
	"math/big"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/tenancy"
)

// site is accounts and users with weights, and what has been used.
type site struct {
	tenancy tenancy.State
	shares  State
}

func drawSite(t *rapid.T) *site {
	s := &site{}
	users := rapid.IntRange(1, 6).Draw(t, "users")
	for u := range users {
		s.tenancy.Fold(tenancy.UserSet{Row: tenancy.User{ID: id.User(u + 1), Name: fmt.Sprint("u", u+1), UID: -1}})
	}
	small := rapid.Int64Range(0, 3)
	for a := range rapid.IntRange(1, 7).Draw(t, "accounts") {
		row := tenancy.Account{ID: id.Account(a + 1), Name: fmt.Sprint("a", a+1), Parent: id.Account(rapid.IntRange(0, a).Draw(t, "parent")), Weight: small.Draw(t, "weight")}
		row.Closed = rapid.IntRange(0, 9).Draw(t, "closed") == 0
		s.tenancy.Fold(tenancy.AccountSet{Row: row})
		for u := range users {
			if rapid.Bool().Draw(t, "member") {
				s.tenancy.Fold(tenancy.MemberSet{Row: tenancy.Member{Account: row.ID, User: id.User(u + 1), Role: access.Member, Weight: small.Draw(t, "weight")}})
			}
			if rapid.IntRange(0, 2).Draw(t, "used") == 0 {
				use := money.Micros(rapid.OneOf(small, rapid.Int64Range(0, 1<<50)).Draw(t, "use"))
				s.shares.Fold(UseSet{Use{Account: row.ID, User: id.User(u + 1), Left: use}})
			}
			if rapid.IntRange(0, 4).Draw(t, "runs") == 0 {
				s.shares.Track(row.ID, id.User(u+1), id.Job(a*10+u), Run{Rate: money.Rate(small.Draw(t, "rate")), From: -3600e9, Until: 1 << 60})
			}
		}
	}
	return s
}

// oracle is a node by definition: it knows its children, and its level as a fraction.
type oracle struct {
	key
	weight, use int64
	level       *big.Rat // nil: infinite
	below       []*oracle
}

// oracleOf builds the tree top down.
func oracleOf(s *site, k key) *oracle {
	o := &oracle{key: k}
	dead := false
	for a := k.account; a != 0; {
		row, _ := s.tenancy.Accounts.Get(a)
		dead, a = dead || row.Closed, row.Parent
	}
	for _, row := range s.tenancy.Accounts.All() {
		if c := oracleOf2(s, row, k.account); c != nil {
			o.below = append(o.below, c)
		}
	}
	for _, u := range s.tenancy.Users.All() {
		m, is := s.tenancy.Member(k.account, u.ID)
		c := &oracle{key: key{k.account, u.ID}, weight: max(m.Weight, 1)}
		for _, use := range s.shares.uses.All() {
			if use.Account == k.account && use.User == u.ID {
				c.use += int64(use.Left)
			}
		}
		for at, r := range s.shares.runs.All() {
			if a, by := ofRun(at); a == k.account && by == u.ID {
				c.use += int64(r.Rate) // for an hour
			}
		}
		if k.account != 0 && (is && !dead || c.use > 0) {
			o.below = append(o.below, c)
		}
	}
	var weights int64
	for _, c := range o.below {
		o.use += c.use
		weights += c.weight
	}
	for _, c := range o.below {
		if c.use > 0 {
			c.level = new(big.Rat).Quo(big.NewRat(c.weight, weights), big.NewRat(c.use, o.use))
		}
	}
	return o
}

func oracleOf2(s *site, row tenancy.Account, parent id.Account) *oracle {
	if row.Parent != parent {
		return nil
	}
	c := oracleOf(s, key{row.ID, 0})
	if c.weight = max(row.Weight, 1); len(c.below) == 0 {
		return nil
	}
	return c
}

// higher compares levels: 1 is higher.
func higher(a, b *oracle) int {
	switch {
	case a.level == nil && b.level == nil:
		return 0
	case a.level == nil:
		return 1
	case b.level == nil:
		return -1
	}
	return a.level.Cmp(b.level)
}

// order lists users class by class, the first class first: those of a class tie.
func order(set []*oracle) [][]key {
	var out [][]key
	for len(set) > 0 {
		best := slices.MaxFunc(set, higher)
		var users []key
		var pooled, rest []*oracle
		for _, o := range set {
			switch {
			case higher(o, best) != 0:
				rest = append(rest, o)
			case o.user != 0:
				users = append(users, o.key)
			default:
				pooled = append(pooled, o.below...)
			}
		}
		under := order(pooled)
		if len(under) > 0 {
			under[0] = append(under[0], users...)
		} else {
			under = [][]key{users}
		}
		out, set = append(out, under...), rest
	}
	return out
}

// Ranks are those of Fair Tree by definition, in fractions; parents have what their
// children have; and everybody is ranked once.
func TestStandingsAgainstOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSite(t)
		got := s.shares.Standings(&s.tenancy, 0, 0)
		root := oracleOf(s, key{})
		var before int64
		for _, class := range order(root.below) {
			for _, k := range class {
				if n := got.Before(&s.tenancy, k.account, k.user); n != before {
					t.Fatalf("%v has %d before, want %d", k, n, before)
				}
			}
			idle := false
			for _, k := range class {
				if n := got.nodes[got.at[k]]; n.Use > 0 {
					before++
				} else {
					idle = true
				}
			}
			if idle {
				before++ // all together
			}
		}
		if got.Places() != before {
			t.Fatalf("%d places, want %d", got.Places(), before)
		}
		checkNodes(t, got, root)
	})
}

func checkNodes(t *rapid.T, s *Standings, o *oracle) {
	var weights int64
	for _, c := range o.below {
		weights += c.weight
	}
	for _, c := range o.below {
		path := s.Path(c.account, c.user)
		if len(path) == 0 {
			t.Fatalf("%v isn't in the tree", c.key)
		}
		n := path[0]
		if n.Account != c.account || n.User != c.user || n.Weight != c.weight || n.Siblings != weights || int64(n.Use) != c.use || int64(n.Level) != o.use {
			t.Fatalf("%+v, want %+v of %d", n, c, o.use)
		}
		if c.use > 0 {
			want := new(big.Rat).Inv(c.level)
			want.Mul(want, big.NewRat(100, 1))
			if q := new(big.Int).Quo(want.Num(), want.Denom()); q.IsInt64() && q.Int64() != n.Times() {
				t.Fatalf("%d hundredths, want %s", n.Times(), want.FloatString(3))
			}
		}
		checkNodes(t, s, c)
	}
}

// The whole tree is walked, each node once, in order, beneath its account.
func TestWalk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSite(t)
		got := s.shares.Standings(&s.tenancy, 0, 0)
		var path []Node
		var users int
		var last int64
		for n, depth := range got.Below {
			if depth > len(path) {
				t.Fatalf("%+v at depth %d below %d", n, depth, len(path))
			}
			if path = append(path[:depth], n); n.User == 0 {
				continue
			}
			if users++; n.Before < last && !tied(got) {
				t.Fatalf("%+v after one with %d before", n, last)
			}
			last = n.Before
		}
		if nodes := len(got.nodes) - 1; users > nodes || nodes > users*(tenancy.MaxDepth+1) {
			t.Fatalf("walked to %d users in a tree of %d", users, nodes)
		}
	})
}

// tied reports whether accounts are pooled somewhere: then the tree isn't in the
// order of ranks.
func tied(s *Standings) bool {
	for i := range s.nodes {
		for n, a := range s.nodes[i].below {
			for _, b := range s.nodes[i].below[:n] {
				if s.nodes[a].level(s.nodes[b].Node) == 0 {
					return true
				}
			}
		}
	}
	return false
}

// However many idle members there are, those who use the machine stay as far apart.
func TestIdleMembersCountOnce(t *testing.T) {
	s := &site{}
	for a := range id.Account(2) {
		s.tenancy.Fold(tenancy.AccountSet{Row: tenancy.Account{ID: a + 1, Name: fmt.Sprint("a", a)}})
		s.shares.Fold(UseSet{Use{Account: a + 1, User: 1, Left: money.Micros(a + 1)}})
	}
	for u := range id.User(1000) {
		s.tenancy.Fold(tenancy.UserSet{Row: tenancy.User{ID: u + 1, Name: fmt.Sprint("u", u), UID: -1}})
		s.tenancy.Fold(tenancy.MemberSet{Row: tenancy.Member{Account: 1, User: u + 1, Role: access.Member}})
	}
	got := s.shares.Standings(&s.tenancy, 0, 0)
	for k, want := range map[key]int64{{1, 2}: 0, {1, 1000}: 0, {1, 1}: 1, {2, 1}: 2} {
		if n := got.Before(&s.tenancy, k.account, k.user); n != want || got.Places() != 3 {
			t.Errorf("%v has %d of %d before, want %d", k, n, got.Places(), want)
		}
	}
}

// Who is in an account by one above it and has used nothing is with its first.
func TestInherited(t *testing.T) {
	s := &site{}
	s.tenancy.Fold(tenancy.AccountSet{Row: tenancy.Account{ID: 1, Name: "faculty"}})
	s.tenancy.Fold(tenancy.AccountSet{Row: tenancy.Account{ID: 2, Name: "lab", Parent: 1}})
	s.tenancy.Fold(tenancy.AccountSet{Row: tenancy.Account{ID: 3, Name: "empty", Parent: 2}})
	for u := range id.User(3) {
		s.tenancy.Fold(tenancy.UserSet{Row: tenancy.User{ID: u + 1, Name: fmt.Sprint("u", u+1), UID: -1}})
		s.tenancy.Fold(tenancy.MemberSet{Row: tenancy.Member{Account: 1 + id.Account(u)%2, User: u + 1, Role: access.Member}})
		s.shares.Fold(UseSet{Use{Account: 1 + id.Account(u)%2, User: u + 1, Left: money.Micros(10 * (u + 1))}})
	}
	got := s.shares.Standings(&s.tenancy, 0, 0) // faculty: u1 10, lab 20 (u2), u3 30
	for k, want := range map[key]int64{{1, 1}: 0, {2, 2}: 1, {1, 3}: 2, {2, 1}: 1, {3, 1}: 1, {1, 2}: 0, {9, 9}: 0} {
		if n := got.Before(&s.tenancy, k.account, k.user); n != want {
			t.Errorf("%v has %d before, want %d", k, n, want)
		}
	}
}

func BenchmarkStandings(b *testing.B) {
	for _, size := range []struct{ accounts, users, runs int }{{20, 50, 6000}, {100, 50, 6000}} {
		b.Run(fmt.Sprintf("users=%d/runs=%d", size.accounts*size.users, size.runs), func(b *testing.B) {
			s := &site{}
			for a := range id.Account(size.accounts) {
				s.tenancy.Fold(tenancy.AccountSet{Row: tenancy.Account{ID: a + 1, Name: fmt.Sprint("a", a+1), Parent: a / 10}})
				for i := range id.User(size.users) {
					u := id.User(a)*id.User(size.users) + i + 1
					s.tenancy.Fold(tenancy.UserSet{Row: tenancy.User{ID: u, Name: fmt.Sprint("u", u), UID: -1}})
					s.tenancy.Fold(tenancy.MemberSet{Row: tenancy.Member{Account: a + 1, User: u, Role: access.Member}})
					s.shares.Fold(UseSet{Use{Account: a + 1, User: u, Left: money.Micros(u*7919%1000 + 1)}})
				}
			}
			for i := range size.runs {
				u := id.User(i % (size.accounts * size.users))
				s.shares.Track(id.Account(u)/id.Account(size.users)+1, u+1, id.Job(i), Run{Rate: 1e6, From: int64(i), Until: 1 << 60})
			}
			for b.Loop() {
				s.shares.Standings(&s.tenancy, 7*day, day)
			}
		})
	}
}
