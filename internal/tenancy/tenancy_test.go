package tenancy_test

import (
	"testing"

	"pgregory.net/rapid"

	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/tenancy"
)

// tree is a random account tree with one user's memberships in it.
type tree struct {
	accounts []tenancy.Account // by id - 1; a parent comes first
	members  map[id.Account]tenancy.Member
}

func randomTree(t *rapid.T) tree {
	end := rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(1, 20))
	out := tree{members: map[id.Account]tenancy.Member{}}
	for n := range id.Account(rapid.IntRange(1, 8).Draw(t, "accounts")) {
		a := tenancy.Account{ID: n + 1, Name: rapid.StringMatching("[a-z]{12}").Draw(t, "name"), Ends: end.Draw(t, "ends")}
		a.Parent = id.Account(rapid.Int64Range(0, int64(n)).Draw(t, "parent"))
		out.accounts = append(out.accounts, a)
		if rapid.Bool().Draw(t, "member") {
			role := access.Role(rapid.IntRange(1, 4).Draw(t, "role"))
			out.members[a.ID] = tenancy.Member{Account: a.ID, User: 1, Role: role, Ends: end.Draw(t, "member ends")}
		}
	}
	return out
}

func (r tree) state() *tenancy.State {
	s := &tenancy.State{}
	for _, a := range r.accounts {
		s.Fold(tenancy.AccountSet{Row: a})
		if m, ok := r.members[a.ID]; ok {
			s.Fold(tenancy.MemberSet{Row: m})
		}
	}
	return s
}

func passed(end, now int64) bool { return end > 0 && end <= now }

// open is the oracle: whether an account and all above it have not ended.
func (r tree) open(a id.Account, now int64) bool {
	if a == 0 {
		return true
	}
	row := r.accounts[a-1]
	return !passed(row.Ends, now) && r.open(row.Parent, now)
}

// role is the oracle: a's own membership, or what is had above.
func (r tree) role(a id.Account, now int64) access.Role {
	if a == 0 {
		return access.NoRole
	}
	m := r.members[a]
	if !r.open(a, now) || passed(m.Ends, now) {
		m.Role = access.NoRole
	}
	return max(m.Role, r.role(r.accounts[a-1].Parent, now))
}

// At every moment a role is what a naive reading of the tree says: nothing counts
// that has ended, or whose account or an account above it has.
func TestRoleAgainstOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := randomTree(t)
		s := r.state()
		for now := range int64(22) {
			for _, a := range r.accounts {
				if got, want := s.Role(1, a.ID, now), r.role(a.ID, now); got != want {
					t.Fatalf("Role in %d at %d is %q, want %q: %+v", a.ID, now, got, want, r)
				}
				if got, want := passed(s.AccountEnd(a.ID), now), !r.open(a.ID, now); got != want {
					t.Fatalf("account %d ends at %d, open at %d is %v: %+v", a.ID, s.AccountEnd(a.ID), now, !want, r)
				}
				if m, ok := s.Member(a.ID, 1); ok && passed(s.MemberEnd(m), now) != (passed(m.Ends, now) || !r.open(a.ID, now)) {
					t.Fatalf("member of %d ends at %d: %+v", a.ID, s.MemberEnd(m), r)
				}
			}
		}
	})
}

func TestTokensEnd(t *testing.T) {
	tests := map[string]struct {
		token  tenancy.Token
		usable map[int64]bool // by time
	}{
		"never":          {tenancy.Token{}, map[int64]bool{0: true, 1 << 60: true}},
		"at a moment":    {tenancy.Token{Expires: 10}, map[int64]bool{9: true, 10: false, 11: false}},
		"revoked":        {tenancy.Token{Expires: 10, Revoked: true}, map[int64]bool{1: false}},
		"idle":           {tenancy.Token{Expires: 100, Used: 10, Idle: 16}, map[int64]bool{25: true, 26: false}},
		"idle, then end": {tenancy.Token{Expires: 100, Used: 90, Idle: 16}, map[int64]bool{99: true, 100: false}},
	}
	for name, tt := range tests {
		for now, want := range tt.usable {
			if got := tt.token.Usable(now); got != want {
				t.Errorf("%s: usable at %d: %v", name, now, got)
			}
		}
	}
	session := tenancy.Token{Idle: 16, Used: 100}
	if session.NoteUse(100) || !session.NoteUse(101) || (tenancy.Token{}).NoteUse(1<<60) {
		t.Error("a session's use is noted once in a sixteenth of its idle time, a token's never")
	}
}

func TestBarred(t *testing.T) {
	for want, u := range map[string]tenancy.User{
		"": {Ends: 11}, "expired": {Ends: 10}, "blocked": {Blocked: true, Ends: 1}, "retired": {Retired: 3, Blocked: true},
	} {
		if got := u.Barred(10); got != want {
			t.Errorf("%+v is %q, want %q", u, got, want)
		}
	}
}
