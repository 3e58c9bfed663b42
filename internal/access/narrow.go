package access

import "strings"

// Narrowing is what a token takes away from whoever it stands for. The zero value
// takes nothing.
type Narrowing struct {
	Token   int64  // row id of the token or session that was shown; 0: none, the socket's peer
	Scopes  Scope  // 0: all of them
	Account int64  // row id; only this account and those below it. 0: every one
	Name    string // the token's, when it takes something away: the log keeps both names
}

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
	if n.Scopes == 0 && n.Account == 0 {
		return true
	}
	if a == NodeSee {
		return true // who one is and what the machine has: every token may ask
	}
	// What makes other credentials would undo the narrowing.
	if a == TokenRun || n.Account != 0 && !t.Within {
		return false
	}
	return n.Scopes == 0 || n.Scopes&scopesFor(a, mine) != 0
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
