package tenancy

import (
	"slices"

	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/table"
)

// Change is a row that this package's decisions put.
type Change interface{ tenancy() }

// The changes: each puts the whole row. A Member with NoRole is removed.
type (
	AccountSet struct{ Row Account }
	UserSet    struct{ Row User }
	MemberSet  struct{ Row Member }
	TokenSet   struct{ Row Token }
	// Counted loads the greatest token id, revoked ones included.
	Counted struct{ Token id.Token }
)

func (AccountSet) tenancy() {}
func (UserSet) tenancy()    {}
func (MemberSet) tenancy()  {}
func (TokenSet) tenancy()   {}
func (Counted) tenancy()    {}

// State is every user, account, membership and live token.
type State struct {
	Accounts table.Table[id.Account, Account]
	Users    table.Table[id.User, User]
	Tokens   table.Table[id.Token, Token]

	accountByName table.Table[string, id.Account]
	userByName    table.Table[string, id.User]
	userByUID     table.Table[int64, id.User]
	tokenByHash   table.Table[string, id.Token]
	members       table.Table[string, Member] // by Pair(account, user)
	ofUser        table.Table[string, Member] // by Pair(user, account)
	lastToken     id.Token
}

// Copy returns an independent state in constant time.
func (s *State) Copy() State {
	return State{
		Accounts: s.Accounts.Copy(), Users: s.Users.Copy(), Tokens: s.Tokens.Copy(),
		accountByName: s.accountByName.Copy(), userByName: s.userByName.Copy(), userByUID: s.userByUID.Copy(),
		tokenByHash: s.tokenByHash.Copy(), members: s.members.Copy(), ofUser: s.ofUser.Copy(),
		lastToken: s.lastToken,
	}
}

// Fold puts a change's row.
func (s *State) Fold(c Change) {
	switch c := c.(type) {
	case AccountSet:
		if old, ok := s.Accounts.Set(c.Row.ID, c.Row); ok {
			s.accountByName.Delete(old.Name)
		}
		s.accountByName.Set(c.Row.Name, c.Row.ID)
	case UserSet:
		if old, ok := s.Users.Set(c.Row.ID, c.Row); ok {
			s.userByName.Delete(old.Name)
			if at, ok := s.userByUID.Get(old.UID); ok && at == old.ID {
				s.userByUID.Delete(old.UID)
			}
		}
		s.userByName.Set(c.Row.Name, c.Row.ID)
		if c.Row.UID >= 0 {
			s.userByUID.Set(c.Row.UID, c.Row.ID)
		}
	case MemberSet:
		a, u := table.Pair(int64(c.Row.Account), int64(c.Row.User)), table.Pair(int64(c.Row.User), int64(c.Row.Account))
		if c.Row.Role == access.NoRole {
			s.members.Delete(a)
			s.ofUser.Delete(u)
			return
		}
		s.members.Set(a, c.Row)
		s.ofUser.Set(u, c.Row)
	case Counted:
		s.lastToken = max(s.lastToken, c.Token)
	case TokenSet:
		s.lastToken = max(s.lastToken, c.Row.ID)
		s.tokenByHash.Delete(c.Row.Hash)
		if c.Row.Revoked {
			s.Tokens.Delete(c.Row.ID)
			return
		}
		s.Tokens.Set(c.Row.ID, c.Row)
		s.tokenByHash.Set(c.Row.Hash, c.Row.ID)
	}
}

// Account finds an account by name.
func (s *State) Account(name string) (Account, bool) {
	if k, ok := s.accountByName.Get(name); ok {
		return s.Accounts.Get(k)
	}
	return Account{}, false
}

// User finds a user by name.
func (s *State) User(name string) (User, bool) {
	if k, ok := s.userByName.Get(name); ok {
		return s.Users.Get(k)
	}
	return User{}, false
}

// UserOfUID finds the user whom a Unix uid is bound to.
func (s *State) UserOfUID(uid int64) (User, bool) {
	if k, ok := s.userByUID.Get(uid); ok && uid >= 0 {
		return s.Users.Get(k)
	}
	return User{}, false
}

// TokenOfHash finds a live token by the hash of its secret.
func (s *State) TokenOfHash(hash string) (Token, bool) {
	if k, ok := s.tokenByHash.Get(hash); ok {
		return s.Tokens.Get(k)
	}
	return Token{}, false
}

// Path returns account a and its ancestors, a first.
func (s *State) Path(a id.Account) []id.Account {
	var path []id.Account
	for a != 0 && len(path) < MaxDepth {
		path = append(path, a)
		row, ok := s.Accounts.Get(a)
		if !ok {
			break
		}
		a = row.Parent
	}
	return path
}

// MaxDepth bounds the account tree; a deeper one is refused when it is made.
const MaxDepth = 32

// NextAccount is the id of the next account.
func (s *State) NextAccount() id.Account { k, _, _ := s.Accounts.Last(); return k + 1 }

// NextUser is the id of the next user.
func (s *State) NextUser() id.User { k, _, _ := s.Users.Last(); return k + 1 }

// NextToken is the id of the next token.
func (s *State) NextToken() id.Token { return s.lastToken + 1 }

// Role is u's highest role in a or any ancestor of it at time now. A membership
// counts until it ends, or its account, or an account above that.
func (s *State) Role(u id.User, a id.Account, now int64) access.Role {
	best := access.NoRole
	path := s.Path(a)
	for i := len(path) - 1; i >= 0; i-- {
		if row, ok := s.Accounts.Get(path[i]); ok && over(row.Ends, now) {
			break // nor do those below it
		}
		if m, ok := s.members.Get(table.Pair(int64(path[i]), int64(u))); ok && !over(m.Ends, now) {
			best = max(best, m.Role)
		}
	}
	return best
}

// AccountEnd is when a ends: itself or, before that, an account above it. 0: never.
func (s *State) AccountEnd(a id.Account) int64 {
	var end int64
	for _, at := range s.Path(a) {
		if row, ok := s.Accounts.Get(at); ok {
			end = Sooner(end, row.Ends)
		}
	}
	return end
}

// MemberEnd is when a membership ends: itself or, before that, its account. 0: never.
func (s *State) MemberEnd(m Member) int64 { return Sooner(m.Ends, s.AccountEnd(m.Account)) }

// Within reports whether a is top or below it. Every account is within 0.
func (s *State) Within(a, top id.Account) bool {
	return top == 0 || a != 0 && slices.Contains(s.Path(a), top)
}

// Member returns u's own membership of a, ancestors aside.
func (s *State) Member(a id.Account, u id.User) (Member, bool) {
	return s.members.Get(table.Pair(int64(a), int64(u)))
}

// Members lists a's own members by user id.
func (s *State) Members(a id.Account) []Member { return prefixed(&s.members, int64(a)) }

// MembershipsOf lists u's memberships by account id.
func (s *State) MembershipsOf(u id.User) []Member { return prefixed(&s.ofUser, int64(u)) }

func prefixed(t *table.Table[string, Member], a int64) []Member {
	var out []Member
	from, to := table.Pair(a, 0), table.Pair(a+1, 0)
	for k, m := range t.From(from) {
		if k >= to {
			break
		}
		out = append(out, m)
	}
	return out
}
