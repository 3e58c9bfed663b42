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

const main = "main"

// scene is a tree of accounts with shares of one resource, and jobs that are where they are.
type scene struct {
	parent  map[id.Account]id.Account
	shares  map[id.Account]share.Share
	use     map[id.Account]int64 // of each account's own jobs
	offered int64
}

// draw makes a scene whose guarantees fit. What is in use needn't keep to anything: limits
// may have been lowered.
func draw(t *rapid.T) scene {
	s := scene{map[id.Account]id.Account{}, map[id.Account]share.Share{}, map[id.Account]int64{}, rapid.Int64Range(0, 24).Draw(t, "offered")}
	n := rapid.IntRange(1, 7).Draw(t, "accounts")
	left := map[id.Account]int64{0: s.offered} // of the guarantee that an account, or who is above it, can give on
	for a := id.Account(1); a <= id.Account(n); a++ {
		s.parent[a] = id.Account(rapid.IntRange(0, int(a)-1).Draw(t, "parent"))
		s.use[a] = rapid.Int64Range(0, 5).Draw(t, "use")
		above := s.above(s.parent[a])
		if !rapid.Bool().Draw(t, "shared") {
			continue
		}
		g := rapid.Int64Range(0, left[above]).Draw(t, "guaranteed")
		left[above] -= g
		left[a] = g
		row := share.Share{ID: id.Share(a), Account: a, Partition: main, Resource: limits.GPU, Guaranteed: g, Limit: share.Any, Borrow: share.Any, Lend: share.Any}
		if rapid.Bool().Draw(t, "limited") {
			row.Limit = g + rapid.Int64Range(0, 6).Draw(t, "limit")
		}
		if rapid.Bool().Draw(t, "bounded") {
			row.Borrow = rapid.Int64Range(0, 6).Draw(t, "borrow")
		}
		if rapid.Bool().Draw(t, "keeps") {
			row.Lend = rapid.Int64Range(0, g).Draw(t, "lend")
		}
		s.shares[a] = row
	}
	return s
}

// above is the nearest account at or above one that has a share.
func (s scene) above(a id.Account) id.Account {
	for a != 0 {
		if _, ok := s.shares[a]; ok {
			return a
		}
		a = s.parent[a]
	}
	return 0
}

func (s scene) path(a id.Account) []id.Account {
	var out []id.Account
	for ; a != 0; a = s.parent[a] {
		out = append(out, a)
	}
	return out
}

func (s scene) build() (share.State, tenancy.State) {
	var st share.State
	var tn tenancy.State
	for a, p := range s.parent {
		tn.Fold(tenancy.AccountSet{Row: tenancy.Account{ID: a, Name: fmt.Sprint("a", a), Parent: p}})
	}
	for _, row := range s.shares {
		st.Fold(share.Set{Row: row})
	}
	for a, n := range s.use {
		st.Count(s.path(a), main, limits.Demand{GPU: n}, +1)
	}
	return st, tn
}

// taken is the oracle: what is in use below an account (0: all of the partition), and what
// those below it keep and don't use, if account of asks for so much more.
func (s scene) taken(a, of id.Account, more int64) int64 {
	var sum int64
	for x := range s.parent {
		if s.above(x) == a {
			sum += s.use[x]
		}
		if _, ok := s.shares[x]; ok && s.above(s.parent[x]) == a {
			keeps := int64(0)
			if row := s.shares[x]; row.Lend != share.Any {
				keeps = row.Guaranteed - row.Lend
			}
			sum += max(keeps, s.taken(x, of, more))
		}
	}
	if s.above(of) == a {
		sum += more
	}
	return sum
}

// used is what is in use below an account without what anybody keeps.
func (s scene) used(a id.Account) int64 {
	var sum int64
	for x := range s.parent {
		if a == 0 || slices.Contains(s.path(x), a) {
			sum += s.use[x]
		}
	}
	return sum
}

// broken lists the bounds that an ask would pass, by the oracle, which works everything out
// anew from the definitions.
func (s scene) broken(of id.Account, more int64) []string {
	var out []string
	within := false
	for a := s.above(of); a != 0; a = s.above(s.parent[a]) {
		before, after, row := s.taken(a, of, 0), s.taken(a, of, more), s.shares[a]
		if after == before {
			return out // it is what those below have kept
		}
		if row.Limit != share.Any && after > row.Limit {
			out = append(out, fmt.Sprint("limit of ", a))
		}
		if within = after <= row.Guaranteed; !within && row.Borrow != share.Any && after-row.Guaranteed > row.Borrow {
			out = append(out, fmt.Sprint("borrow of ", a))
		}
	}
	before, after := s.taken(0, of, 0), s.taken(0, of, more)
	if after > before && !within && before > s.used(0) && after > s.offered {
		out = append(out, "others")
	}
	return out
}

func name(v share.Violation) string {
	switch v.Kind {
	case share.OfLimit:
		return fmt.Sprint("limit of ", v.Share.Account)
	case share.OfBorrow:
		return fmt.Sprint("borrow of ", v.Share.Account)
	}
	return "others"
}

// What an ask would pass is what the definitions say, whatever the tree and the use; the
// room that is named is the most that passes; and what nobody's end cures is said.
func TestCheckAgainstOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t)
		st, tn := s.build()
		of := id.Account(rapid.IntRange(1, len(s.parent)).Draw(t, "of"))
		more := rapid.Int64Range(1, 12).Draw(t, "more")
		offered := func(limits.Resource) int64 { return s.offered }
		check := func(n int64) []share.Violation {
			return st.Check(nil, &tn, s.path(of), main, limits.Ask{Demand: limits.Demand{GPU: n}}, offered)
		}
		idle := s
		idle.use = map[id.Account]int64{}
		never := idle.broken(of, more)
		all := func(n int64) []string {
			out := append(s.broken(of, n), idle.broken(of, n)...)
			slices.Sort(out)
			return slices.Compact(out)
		}
		want := all(more)
		var got []string
		least := more
		for i, v := range check(more) {
			got = append(got, name(v))
			least = min(least, v.Room)
			if v.Never != slices.Contains(never, name(v)) {
				t.Errorf("%s: never %v", name(v), v.Never)
			}
			if i == 0 && len(never) > 0 && !v.Never {
				t.Errorf("%s comes first, and isn't one that no waiting cures", name(v))
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Fatalf("%d asks for %d: passes %v, the oracle says %v\n%+v", of, more, got, want, s)
		}
		if len(got) > 0 && (least > 0 && len(all(least)) > 0 || len(all(least+1)) == 0) {
			t.Errorf("%d of %d is named as what would pass", least, more)
		}
	})
}

// Within its guarantee an account is held up by nobody's keeping, and by no bound of its
// own.
func TestWithinTheGuarantee(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t)
		st, tn := s.build()
		for a, row := range s.shares {
			more := row.Guaranteed - s.taken(a, 0, 0)
			if more <= 0 {
				continue
			}
			for _, v := range st.Check(nil, &tn, s.path(a), main, limits.Ask{Demand: limits.Demand{GPU: more}}, func(limits.Resource) int64 { return s.offered }) {
				if v.Share.Account == a || v.Share.Account == 0 && s.above(s.parent[a]) == 0 {
					t.Errorf("account %d is guaranteed %d more, and is kept from it by %s", a, more, name(v))
				}
			}
		}
	})
}

// Guarantees that don't fit into the one above are refused with who has what.
func TestFits(t *testing.T) {
	s := scene{map[id.Account]id.Account{1: 0, 2: 1, 3: 1, 4: 0}, map[id.Account]share.Share{}, nil, 16_000}
	put := func(a id.Account, n int64) {
		s.shares[a] = share.Share{ID: id.Share(a), Account: a, Partition: main, Resource: limits.GPU, Guaranteed: n * 1000, Limit: share.Any, Borrow: share.Any, Lend: share.Any}
	}
	put(1, 10)
	put(2, 8)
	put(4, 6)
	tests := map[string]struct {
		account id.Account
		n       int64
		want    string
	}{
		"all that is left":           {3, 2, ""},
		"more than the one above":    {3, 3, "11 gpu would be guaranteed together (a2 8, a3 3), and account a1 above them is guaranteed 10"},
		"less than those below have": {1, 7, "8 gpu would be guaranteed together (a2 8), and account a1 above them is guaranteed 7"},
		"more than there is":         {4, 7, "17 gpu would be guaranteed together (a1 10, a4 7), and partition main has 16"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			old, had := s.shares[tt.account]
			put(tt.account, tt.n)
			st, tn := s.build()
			if had {
				s.shares[tt.account] = old
			} else {
				delete(s.shares, tt.account)
			}
			err := st.Tree(&tn, main, limits.GPU, s.offered).Fits(&tn, tt.account, true)
			if got := fmt.Sprint(err); tt.want == "" && err != nil || tt.want != "" && got != tt.want {
				t.Errorf("%s, want %q", got, tt.want)
			}
		})
	}
}

// A share by itself must make sense.
func TestShareIsChecked(t *testing.T) {
	ok := share.Share{Resource: limits.GPU, Guaranteed: 4000, Limit: share.Any, Borrow: share.Any, Lend: share.Any}
	if err := ok.Check(); err != nil {
		t.Fatal(err)
	}
	for want, bad := range map[string]func(s *share.Share){
		"resource: must be cpu, mem, gpu or gpu:MODEL":                  func(s *share.Share) { s.Resource = limits.Running },
		"resource: must be cpu, mem, gpu or gpu:MODEL ":                 func(s *share.Share) { s.Resource = "gpu-hours:a100" },
		"guaranteed: must not be negative":                              func(s *share.Share) { s.Guaranteed = -1 },
		"limit: 3 is less than the 4 that are guaranteed":               func(s *share.Share) { s.Limit = 3000 },
		"lend: 5 is more than the 4 that are guaranteed":                func(s *share.Share) { s.Lend = 5000 },
		"borrow: must not be negative":                                  func(s *share.Share) { s.Borrow = -2 },
		"weight: must be from 1 to 1000000, or 0 for the account's own": func(s *share.Share) { s.Weight = -1 },
	} {
		s := ok
		bad(&s)
		if err := s.Check(); err == nil || err.Error()+" " != want+" " && err.Error()+" " != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
