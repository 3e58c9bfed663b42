package access

import "strings"

// Narrowing is what a token takes away from whoever it stands for. The zero value
// takes nothing.
type Narrowing struct {
	Token   int64  // row id of the token or session that was shown; 0: none, the socket's peer
	Scopes  Scope  // 0: all of them
	Account int64  // row id; only this account and those below it. 0: every one
	Capped  bool   // what its jobs come to is bounded: it acts in no others
	Name    string // the personal token's, whatever it takes away: the log keeps both names
}

// OfCapped are the scopes that a token has at most whose jobs are bounded: with others
// its bounds, or what they are counted in, could be changed.
const OfCapped = ScopeRead | ScopeSubmit

// Scope is a set of kinds of actions.
type Scope int8

// The scopes.
const (
	ScopeRead   Scope = 1 << iota // see and read
	ScopeSubmit                   // submit jobs; read, stop and enter one's own
	ScopeManage                   // what managers and operators do: others' jobs, members, limits, nodes
	ScopeAdmin                    // what admins do: users, accounts, money, prices
)

var scopeNames = [...]string{"read", "submit", "manage", "admin"}

// ScopeNames are the words for the scopes, in order.
func ScopeNames() []string { return append([]string(nil), scopeNames[:]...) }

// ParseScope reads one scope's word.
func ParseScope(s string) (Scope, bool) {
	for i, name := range scopeNames {
		if name == s {
			return 1 << i, true
		}
	}
	return 0, false
}

// Names are the words of the scopes in s.
func (s Scope) Names() []string {
	var out []string
	for i, name := range scopeNames {
		if s&(1<<i) != 0 {
			out = append(out, name)
		}
	}
	return out
}

// String is the words with commas between them.
func (s Scope) String() string { return strings.Join(s.Names(), ",") }

// allows reports whether a narrowed principal may still do a to t.
func (n Narrowing) allows(a Action, t Target, mine bool) bool {
	if n.Scopes == 0 && n.Account == 0 && !n.Capped {
		return true
	}
	if a == NodeSee {
		return true // who one is and what the machine has: every token may ask
	}
	// What makes other credentials would undo the narrowing.
	if a == TokenRun || n.Account != 0 && !t.Within {
		return false
	}
	scopes := n.Scopes
	if n.Capped {
		if acts(a) && (n.Token == 0 || t.Token != n.Token) {
			return false
		}
		if scopes == 0 {
			scopes = OfCapped
		}
		scopes &= OfCapped
		return scopes&scopesFor(a, mine) != 0
	}
	return scopes == 0 || scopes&scopesFor(a, mine) != 0
}

// acts reports whether an action is done to a job or in it, with what that has. In a job
// that counts for nothing of a token's, it would be a way around the token's bounds.
func acts(a Action) bool {
	switch a {
	case JobControl, JobEnter, JobShare, AppUse, TermView, TermUse:
		return true
	}
	return false
}

// scopesFor are the scopes of which an action needs one. Whoever may change a thing
// may read it: an answer says what it is then. An action that isn't listed needs more
// than any token narrowed by scopes has.
func scopesFor(a Action, mine bool) Scope {
	switch a {
	case JobSee, JobRead:
		if mine {
			return ScopeRead | ScopeManage | ScopeSubmit
		}
		return ScopeRead | ScopeManage
	case AccountSee, AccountRead:
		return ScopeRead | ScopeManage | ScopeAdmin
	case UserSee:
		return ScopeRead | ScopeAdmin
	case LedgerAll, EventsAll:
		return ScopeRead
	case JobControl:
		if !mine {
			return ScopeManage
		}
		return ScopeSubmit
	case RequestSee:
		if mine {
			return ScopeRead | ScopeManage | ScopeAdmin | ScopeSubmit
		}
		return ScopeRead | ScopeManage | ScopeAdmin
	case RequestMake:
		return ScopeSubmit | ScopeManage
	case RequestDecide:
		return ScopeManage | ScopeAdmin
	case JobSubmit, JobEnter, JobShare, AppUse, TermView, TermUse:
		return ScopeSubmit
	case AppSee, AppView:
		return ScopeRead | ScopeSubmit
	case AccountRun, LimitSet, CatalogSet, NodeRun, JobRaise:
		return ScopeManage
	case AccountMake, MoneyGive, PriceSet, UserRun, PeriodClose:
		return ScopeAdmin
	}
	return 0
}
