package share_test

import (
	"testing"

	"pgregory.net/rapid"

	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/share"
)

// Who has less than he is guaranteed comes first; those who borrow follow by what they have
// borrowed against their weights; what is decided is whose branch of the tree it is.
func TestTurn(t *testing.T) {
	s := scene{map[id.Account]id.Account{1: 0, 2: 1, 3: 1, 4: 0, 5: 0}, map[id.Account]share.Share{}, map[id.Account]int64{}, 16}
	put := func(a id.Account, n, weight int64) {
		s.shares[a] = share.Share{ID: id.Share(a), Account: a, Partition: main, Resource: limits.GPU, Guaranteed: n, Limit: share.Any, Borrow: share.Any, Lend: share.Any, Weight: weight}
	}
	put(1, 8, 2)
	put(2, 4, 0)
	put(3, 4, 0)
	put(4, 4, 1)
	type want struct {
		below  bool
		before int64
	}
	tests := map[string]struct {
		use  map[id.Account]int64
		want map[id.Account]want
	}{
		"nothing is in use": {nil, map[id.Account]want{1: {true, 0}, 2: {true, 0}, 4: {true, 0}, 5: {false, 4}}},
		"one lab has all of its own": {
			map[id.Account]int64{2: 4}, map[id.Account]want{2: {true, 0}, 3: {true, 0}, 5: {false, 4}}, // what is above it isn't used up
		},
		"one lab has the other's": {
			map[id.Account]int64{2: 8, 4: 4}, map[id.Account]want{3: {true, 0}, 2: {false, 2}, 4: {false, 1}}, // and those right in account 1 before 2
		},
		"borrowed against weights": {
			map[id.Account]int64{1: 2, 2: 4, 3: 5, 4: 6}, map[id.Account]want{5: {false, 0}, 2: {false, 1}, 3: {false, 2}, 1: {false, 3}, 4: {false, 4}}, // 1 has 3 for 2, 4 has 2 for 1
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := s
			s.use = tt.use
			st, tn := s.build()
			for a, want := range tt.want {
				got := st.Tree(&tn, main, limits.GPU, s.offered).Turn(s.path(a))
				if got.Below != want.below || got.Before != want.before || got.Places != 5 {
					t.Errorf("account %d: below %v, %d of %d before; want %+v", a, got.Below, got.Before, got.Places, want)
				}
			}
		})
	}
}

// Whoever is told to come first with what he is guaranteed has not used all of it, at his own
// account or at one above it.
func TestTurnsAreOfGuarantees(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t)
		st, tn := s.build()
		tree := st.Tree(&tn, main, limits.GPU, s.offered)
		for a := range s.parent {
			below := false
			for x := s.above(a); x != 0; x = s.above(s.parent[x]) {
				below = below || s.taken(x, 0, 0) < s.shares[x].Guaranteed
			}
			got := tree.Turn(s.path(a))
			if got.Below != below || got.Before < 0 || got.Before >= got.Places || below && got.Before != 0 {
				t.Errorf("account %d: %+v, below %v", a, got, below)
			}
		}
	})
}
