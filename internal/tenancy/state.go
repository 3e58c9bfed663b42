package tenancy

import (
	"cmp"
	"fmt"
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
	// PasswordSet with an empty hash takes the password away.
	PasswordSet struct{ Row Password }
	// CredentialSet without a sealed password takes the credential away.
	CredentialSet struct{ Row Credential }
	// SSHKeySet without a blob takes the key away.
	SSHKeySet struct{ Row SSHKey }
	// Counted loads the greatest token id, revoked ones included.
	Counted struct{ Token id.Token }
)

func (AccountSet) tenancy()    {}
func (UserSet) tenancy()       {}
func (MemberSet) tenancy()     {}
func (TokenSet) tenancy()      {}
func (PasswordSet) tenancy()   {}
func (CredentialSet) tenancy() {}
func (SSHKeySet) tenancy()     {}
func (Counted) tenancy()       {}

// State is every user, account, membership and live token.
type State struct {
	Accounts    table.Table[id.Account, Account]
	Users       table.Table[id.User, User]
	Tokens      table.Table[id.Token, Token]
	Passwords   table.Table[id.User, Password]
	Credentials table.Table[string, Credential] // by user and registry
	SSHKeys     table.Table[string, SSHKey]     // by fingerprint

	accountByName table.Table[string, id.Account]
	userByName    table.Table[string, id.User]
	userByUID     table.Table[int64, id.User]
	tokenByHash   table.Table[string, id.Token]
	members       table.Table[string, Member]   // by Pair(account, user)
	ofUser        table.Table[string, Member]   // by Pair(user, account)
	tokensOf      table.Table[string, id.Token] // by Pair(user, token)
	sshKeysOf     table.Table[string, SSHKey]   // by user and fingerprint
	lastToken     id.Token
}

// Copy returns an independent state in constant time.
func (s *State) Copy() State {
	return State{
		Accounts: s.Accounts.Copy(), Users: s.Users.Copy(), Tokens: s.Tokens.Copy(), Passwords: s.Passwords.Copy(),
		accountByName: s.accountByName.Copy(), userByName: s.userByName.Copy(), userByUID: s.userByUID.Copy(),
		tokenByHash: s.tokenByHash.Copy(), members: s.members.Copy(), ofUser: s.ofUser.Copy(), tokensOf: s.tokensOf.Copy(),
		Credentials: s.Credentials.Copy(), SSHKeys: s.SSHKeys.Copy(), sshKeysOf: s.sshKeysOf.Copy(), lastToken: s.lastToken,
	}
}

// Fold puts a change's row.
func (s *State) Fold(c Change) {
	switch c := c.(type) {
	case AccountSet:
		if old, ok := s.Accounts.Set(c.Row.ID, c.Row); ok {
			release(&s.accountByName, old.Name, old.ID)
		}
		if c.Row.Retired == 0 {
			s.accountByName.Set(c.Row.Name, c.Row.ID)
		}
	case UserSet:
		if old, ok := s.Users.Set(c.Row.ID, c.Row); ok {
			release(&s.userByName, old.Name, old.ID)
			release(&s.userByUID, old.UID, old.ID)
		}
		if c.Row.Retired != 0 {
			return // name and uid are free for others
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
	case PasswordSet:
		if c.Row.Hash == "" {
			s.Passwords.Delete(c.Row.User)
			return
		}
		s.Passwords.Set(c.Row.User, c.Row)
	case CredentialSet:
		s.putCredential(c.Row)
	case SSHKeySet:
		s.putSSHKey(c.Row)
	case TokenSet:
		s.lastToken = max(s.lastToken, c.Row.ID)
		s.tokenByHash.Delete(c.Row.Hash)
		of := table.Pair(int64(c.Row.User), int64(c.Row.ID))
		if c.Row.Revoked {
			s.Tokens.Delete(c.Row.ID)
			s.tokensOf.Delete(of)
			return
		}
		s.Tokens.Set(c.Row.ID, c.Row)
		s.tokensOf.Set(of, c.Row.ID)
		s.tokenByHash.Set(c.Row.Hash, c.Row.ID)
	}
}

// release takes a key from who has it; it may be another's meanwhile.
func release[K cmp.Ordered, V comparable](t *table.Table[K, V], key K, who V) {
	if has, ok := t.Get(key); ok && has == who {
		t.Delete(key)
	}
}

// AccountsNamed lists whatever has or had a name, the present one first, then the
// retired ones, the newest first.
func (s *State) AccountsNamed(name string) []Account {
	out := named(&s.Accounts, func(a Account) bool { return a.Name == name && a.Retired != 0 })
	if a, ok := s.Account(name); ok {
		out = slices.Insert(out, 0, a)
	}
	return out
}

// UsersNamed lists whoever has or had a name, the present one first, then the
// retired ones, the newest first.
func (s *State) UsersNamed(name string) []User {
	out := named(&s.Users, func(u User) bool { return u.Name == name && u.Retired != 0 })
	if u, ok := s.User(name); ok {
		out = slices.Insert(out, 0, u)
	}
	return out
}

func named[K cmp.Ordered, V any](t *table.Table[K, V], is func(V) bool) []V {
	var out []V
	for _, row := range t.All() {
		if is(row) {
			out = append(out, row)
		}
	}
	slices.Reverse(out)
	return out
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

// Below lists the accounts below a by id, a not among them; retired ones aside.
func (s *State) Below(a id.Account) []Account {
	var out []Account
	for k, row := range s.Accounts.All() {
		if k != a && row.Retired == 0 && s.Within(k, a) {
			out = append(out, row)
		}
	}
	return out
}

// CheckMove says why a, with all below it, can't stand under parent (0: as a root).
func (s *State) CheckMove(a, parent id.Account) error {
	if s.Within(parent, a) && parent != 0 {
		return fmt.Errorf("is %s or below it: that would be a loop", s.name(a))
	}
	height := 1
	above := len(s.Path(a))
	for _, row := range s.Below(a) {
		height = max(height, len(s.Path(row.ID))-above+1)
	}
	if len(s.Path(parent))+height > MaxDepth {
		return fmt.Errorf("the account tree is at most %d deep", MaxDepth)
	}
	return nil
}

func (s *State) name(a id.Account) string {
	row, _ := s.Accounts.Get(a)
	return row.Name
}

// Left reports whether somebody with this name and uid has been retired: such a one
// comes back only when an admin says so.
func (s *State) Left(name string, uid int64) bool {
	return slices.ContainsFunc(s.UsersNamed(name), func(u User) bool { return u.Retired != 0 && u.UID == uid })
}

// Within reports whether a is top or below it. Every account is within 0.
func (s *State) Within(a, top id.Account) bool {
	return top == 0 || a != 0 && slices.Contains(s.Path(a), top)
}

// Member returns u's own membership of a, ancestors aside.
func (s *State) Member(a id.Account, u id.User) (Member, bool) {
	return s.members.Get(table.Pair(int64(a), int64(u)))
}

// TokensOf lists u's live tokens and sessions by id.
func (s *State) TokensOf(u id.User) []Token {
	var out []Token
	for _, k := range prefixed(&s.tokensOf, int64(u)) {
		if t, ok := s.Tokens.Get(k); ok {
			out = append(out, t)
		}
	}
	return out
}

// Members lists a's own members by user id.
func (s *State) Members(a id.Account) []Member { return prefixed(&s.members, int64(a)) }

// MembershipsOf lists u's memberships by account id.
func (s *State) MembershipsOf(u id.User) []Member { return prefixed(&s.ofUser, int64(u)) }

func prefixed[V any](t *table.Table[string, V], a int64) []V {
	var out []V
	from, to := table.Pair(a, 0), table.Pair(a+1, 0)
	for k, m := range t.From(from) {
		if k >= to {
			break
		}
		out = append(out, m)
	}
	return out
}
