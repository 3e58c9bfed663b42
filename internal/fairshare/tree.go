package fairshare

import (
	"cmp"
	"math"
	"math/big"
	"math/bits"
	"slices"

	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/tenancy"
)

// Node is an account, or a user in an account, as it stands among its siblings: the
// accounts and users directly below the same account.
type Node struct {
	Account  id.Account
	User     id.User // 0: the account itself
	Weight   int64
	Siblings int64        // weights of all siblings, its own among them
	Use      money.Micros // of all below it
	Level    money.Micros // use of all siblings, its own among them
	Before   int64        // places before its own; an account has that of its first user
}

// Times is how often the node has used its share of what its siblings used, in
// hundredths: below 100 it has had less than that.
func (n Node) Times() int64 {
	if n.Use == 0 {
		return 0
	}
	// use / level ÷ weight / siblings
	num := new(big.Int).Mul(big.NewInt(int64(n.Use)), big.NewInt(n.Siblings))
	num.Mul(num, big.NewInt(100))
	num.Div(num, new(big.Int).Mul(big.NewInt(int64(n.Level)), big.NewInt(n.Weight)))
	if !num.IsInt64() {
		return math.MaxInt64
	}
	return num.Int64()
}

// Share is the node's part of its siblings' weights, in hundredths of a percent.
func (n Node) Share() int64 { return part(n.Weight, n.Siblings) }

// Used is the node's part of its siblings' use, in hundredths of a percent; 0 if
// nothing was used.
func (n Node) Used() int64 { return part(int64(n.Use), int64(n.Level)) }

func part(n, of int64) int64 {
	if of <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(min(n, of)), 10_000)
	q, _ := bits.Div64(hi, lo, uint64(of)) // at most 10,000
	return int64(q)
}

// Standings is how everybody stands at one time.
type Standings struct {
	nodes  []node
	at     map[key]int
	places int64
}

type key struct {
	account id.Account
	user    id.User
}

type node struct {
	Node
	above int // 0: the root of all, which is nodes[0]
	below []int
}

// Places is how many places there are: one for each user in an account who has used
// something there, and one for all siblings together who haven't.
func (s *Standings) Places() int64 { return s.places }

// Before is how many places come before that of a user in an account. Whom the tree doesn't
// have, since he is in the account by one above it and has used nothing, comes with
// its first.
func (s *Standings) Before(t *tenancy.State, a id.Account, u id.User) int64 {
	if i, ok := s.at[key{a, u}]; ok {
		return s.nodes[i].Before
	}
	for _, above := range t.Path(a) {
		if i, ok := s.at[key{above, 0}]; ok {
			return s.nodes[i].Before
		}
	}
	return 0
}

// Path is where a user in an account stands (user 0: the account itself), and above
// him each account up to the root, the lowest first. What the tree doesn't have is
// left out.
func (s *Standings) Path(a id.Account, u id.User) []Node {
	i, ok := s.at[key{a, u}]
	if !ok {
		i, ok = s.at[key{a, 0}]
	}
	var out []Node
	for ; ok && i != 0; i = s.nodes[i].above {
		out = append(out, s.nodes[i].Node)
	}
	return out
}

// Below yields the nodes of the tree in the order of their ranks, each account
// before those below it, with how deep it is.
func (s *Standings) Below(yield func(Node, int) bool) { s.walk(0, 0, yield) }

func (s *Standings) walk(i, depth int, yield func(Node, int) bool) bool {
	set := slices.Clone(s.nodes[i].below)
	slices.SortFunc(set, func(a, b int) int {
		return cmp.Or(cmp.Compare(s.nodes[a].Before, s.nodes[b].Before), s.nodes[a].compare(s.nodes[b].Node))
	})
	for _, c := range set {
		if !yield(s.nodes[c].Node, depth) || !s.walk(c, depth+1, yield) {
			return false
		}
	}
	return true
}

// Standings ranks all users. A user who may use an account is in the tree, and so
// is one of whose use there something is left; an account in which nobody is, isn't.
func (s *State) Standings(t *tenancy.State, half, now int64) *Standings {
	out := &Standings{nodes: []node{{above: -1}}, at: map[key]int{{}: 0}}
	b := builder{out, t, now}
	b.members()
	for _, u := range s.uses.All() {
		b.add(u.Account, u.User, faded(u.Left, now-u.At, half))
	}
	for k, r := range s.runs.All() {
		a, u := ofRun(k)
		b.add(a, u, priced(r.Rate, lasting(r.From, r.Until, now, half)))
	}
	out.total()
	out.places = out.rank(slices.Clone(out.nodes[0].below), 0, 0)
	return out
}

// builder puts a tree together.
type builder struct {
	*Standings
	t   *tenancy.State
	now int64
}

// members puts everybody who may use an account.
func (b builder) members() {
	over := map[id.Account]bool{}
	for _, a := range b.t.Accounts.All() {
		if b.over(a, over) {
			continue
		}
		for _, m := range b.t.Members(a.ID) {
			if u, ok := b.t.Users.Get(m.User); ok && m.Role >= access.Member && (m.Ends == 0 || b.now < m.Ends) && u.Barred(b.now) == "" {
				b.node(a.ID, m.User)
			}
		}
	}
}

// over reports whether nothing can run in an account any more.
func (b builder) over(a tenancy.Account, known map[id.Account]bool) bool {
	if v, ok := known[a.ID]; ok {
		return v
	}
	v := a.Closed || a.Over(b.now)
	known[a.ID] = v
	if above, ok := b.t.Accounts.Get(a.Parent); ok && !v {
		v = b.over(above, known)
		known[a.ID] = v
	}
	return v
}

func (b builder) add(a id.Account, u id.User, use money.Micros) {
	if _, ok := b.t.Accounts.Get(a); ok && use > 0 {
		n := &b.nodes[b.node(a, u)]
		n.Use = plus(n.Use, use)
	}
}

// node finds a node, or makes it with those above it.
func (b builder) node(a id.Account, u id.User) int {
	k := key{a, u}
	if i, ok := b.at[k]; ok {
		return i
	}
	weight, above := int64(0), 0
	if row, ok := b.t.Accounts.Get(a); u == 0 && ok {
		weight = row.Weight
		above = b.node(row.Parent, 0)
	} else if u != 0 {
		m, _ := b.t.Member(a, u)
		weight = m.Weight
		above = b.node(a, 0)
	}
	i := len(b.nodes)
	b.nodes = append(b.nodes, node{Node: Node{Account: a, User: u, Weight: max(weight, 1), Before: math.MaxInt64}, above: above})
	b.nodes[above].below = append(b.nodes[above].below, i)
	b.at[k] = i
	return i
}

// total adds use up the tree, and says it to siblings.
func (s *Standings) total() {
	for i := range s.nodes {
		n := s.nodes[i]
		if n.User == 0 {
			continue
		}
		for at := n.above; at != -1; at = s.nodes[at].above {
			s.nodes[at].Use = plus(s.nodes[at].Use, n.Use)
		}
	}
	for i := range s.nodes {
		var weights int64
		for _, c := range s.nodes[i].below {
			weights += s.nodes[c].Weight
		}
		for _, c := range s.nodes[i].below {
			s.nodes[c].Siblings, s.nodes[c].Level = weights, s.nodes[i].Use
		}
	}
}

// rank ranks a set of nodes and all below them: the first get a place, after so many
// that come before, and all others the number of those before them. It returns that
// number for whoever comes next. Of those who tie, users share a place, and accounts
// are taken as one, whose first users share it too. Siblings who have used nothing
// count as one, however many they are: else the idle would crowd the others together.
func (s *Standings) rank(set []int, place, before int64) int64 {
	slices.SortFunc(set, func(a, b int) int { return s.nodes[a].compare(s.nodes[b].Node) })
	for len(set) > 0 {
		n := 1
		for n < len(set) && s.nodes[set[0]].level(s.nodes[set[n]].Node) == 0 {
			n++
		}
		if s.nodes[set[0]].Use == 0 {
			s.idle(set[:n], place)
			before++
		} else {
			before = s.tied(set[:n], place, before)
		}
		place, set = before, set[n:]
	}
	return before
}

// tied ranks a set of nodes that have used the same of their shares.
func (s *Standings) tied(set []int, place, before int64) int64 {
	var pooled []int
	for _, i := range set {
		if s.nodes[i].User == 0 {
			pooled = append(pooled, s.nodes[i].below...)
			continue
		}
		before++
		s.put(i, place)
	}
	if len(pooled) > 0 {
		before = s.rank(pooled, place, before)
	}
	return before
}

// idle gives all users below a set of nodes a place.
func (s *Standings) idle(set []int, place int64) {
	for _, i := range set {
		if s.nodes[i].User != 0 {
			s.put(i, place)
		}
		s.idle(s.nodes[i].below, place)
	}
}

// put gives a user a place, and those accounts above him whose first he is.
func (s *Standings) put(user int, place int64) {
	for at := user; at != -1 && s.nodes[at].Before > place; at = s.nodes[at].above {
		s.nodes[at].Before = place
	}
}

// compare is negative if n comes before o. Among those who tie it is users who come
// first, then the lower ids; they share their place.
func (n Node) compare(o Node) int {
	return cmp.Or(n.level(o), -cmp.Compare(min(n.User, 1), min(o.User, 1)), cmp.Compare(n.Account, o.Account), cmp.Compare(n.User, o.User))
}

// level is negative if n has had less of its share than o: weight / siblings ÷ use /
// level is greater. It is 0 for any two that have used nothing.
func (n Node) level(o Node) int {
	switch {
	case n.Use == 0 || o.Use == 0:
		return cmp.Compare(min(n.Use, 1), min(o.Use, 1))
	case n.Siblings == o.Siblings && n.Level == o.Level:
		h1, l1 := bits.Mul64(uint64(n.Weight), uint64(o.Use))
		h2, l2 := bits.Mul64(uint64(o.Weight), uint64(n.Use))
		return -cmp.Or(cmp.Compare(h1, h2), cmp.Compare(l1, l2))
	}
	return -product(n.Weight, n.Level, o.Siblings, o.Use).Cmp(product(o.Weight, o.Level, n.Siblings, n.Use))
}

func product(w int64, level money.Micros, siblings int64, use money.Micros) *big.Int {
	out := big.NewInt(w)
	for _, n := range [3]int64{int64(level), siblings, int64(use)} {
		out.Mul(out, big.NewInt(n))
	}
	return out
}
