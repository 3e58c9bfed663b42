// Package access answers one question: may this principal do this to that? It is
// pure and small; every operation of every transport asks it, and what is not
// allowed here is denied. Whoever may not see a thing is told it doesn't exist.
package access

import "strconv"

// Platform is a user's role on the whole installation.
type Platform string

// The platform roles. An operator runs the machine, an auditor sees everything
// and changes nothing, an admin also gives out roles and money.
const (
	PlatformUser Platform = "user"
	Operator     Platform = "operator"
	Admin        Platform = "admin"
	Auditor      Platform = "auditor"
)

// ParsePlatform reads a platform role; empty is user.
func ParsePlatform(s string) (Platform, bool) {
	switch p := Platform(s); p {
	case PlatformUser, Operator, Admin, Auditor:
		return p, true
	case "":
		return PlatformUser, true
	}
	return "", false
}

// Role is a member's role in an account; it reaches down the account tree.
type Role int8

// The account roles, each including those before it.
const (
	NoRole Role = iota
	Viewer
	Member
	Manager
	Owner
)

var roleNames = [...]string{"", "viewer", "member", "manager", "owner"}

// String is the role's name.
func (r Role) String() string {
	if r < 0 || int(r) >= len(roleNames) {
		return ""
	}
	return roleNames[r]
}

// ParseRole reads a role's name.
func ParseRole(s string) (Role, bool) {
	for i, n := range roleNames[1:] {
		if n == s {
			return Role(i + 1), true
		}
	}
	return NoRole, false
}

// Principal is who asks, as of one moment.
type Principal struct {
	Now      int64    // ns; when this was so
	User     int64    // row id; 0: the server itself
	Name     string   // as recorded in the log
	Platform Platform // as of now
	System   bool     // the server's own loops
	Blocked  bool     // or ended, or retired: may nothing
	Narrow   Narrowing
}

// Signature is how the log names p: with the personal token too that was shown, "ada (ci #7)".
// Its number tells it from others of that name.
func (p Principal) Signature() string {
	if p.Narrow.Name == "" {
		return p.Name
	}
	return p.Name + " (" + p.Narrow.Name + " #" + strconv.FormatInt(p.Narrow.Token, 10) + ")"
}

// Action is what is asked for.
type Action string

// The actions.
const (
	JobSee      Action = "job.see"    // state, size, times
	JobRead     Action = "job.read"   // spec, log, receipt, reasons
	JobSubmit   Action = "job.submit" // on an account
	JobControl  Action = "job.control"
	JobEnter    Action = "job.enter" // exec, attach: the job's own identity
	JobShare    Action = "job.share" // let others into its applications
	AppSee      Action = "app.see"   // that there is one: its job's state, size and times
	AppView     Action = "app.view"  // look at an application: nothing is changed by it
	AppUse      Action = "app.use"   // an application, which acts as the job's user
	TermView    Action = "terminal.view"
	TermUse     Action = "terminal.use" // type in one, or end it
	JobRaise    Action = "job.raise"    // above the priority that everybody has
	AccountSee  Action = "account.see"
	AccountRead Action = "account.read" // money, usage, members
	AccountRun  Action = "account.manage"
	AccountMake Action = "account.create"
	MoneyGive   Action = "money.grant"
	PriceSet    Action = "price.set"
	LimitSet    Action = "limit.set"
	CatalogSet  Action = "catalog.set" // partitions and QoS
	UserSee     Action = "user.see"
	UserRun     Action = "user.manage"
	TokenRun    Action = "token.manage" // tokens, sessions and passwords
	NodeSee     Action = "node.see"
	NodeRun     Action = "node.manage"
	LedgerAll   Action = "ledger.read"
	PeriodClose Action = "period.close"
	EventsAll   Action = "events.read"
	RequestMake Action = "request.make"
	RequestSee  Action = "request.see"
	// RequestDecide lets somebody decide at all; what a request asks for he must be able to do himself.
	RequestDecide Action = "request.decide"

	System Action = "system" // observations and plans: loops only
)

// Share is how far a job's owner lets others into its applications and terminals.
type Share int8

// The shares, each including those before it.
const (
	NoShare Share = iota
	ShareView
	ShareFull
)

var shareNames = [...]string{"", "view", "full"}

// String is the share's name.
func (s Share) String() string {
	if s < 0 || int(s) >= len(shareNames) {
		return ""
	}
	return shareNames[s]
}

// ParseShare reads a share's name.
func ParseShare(s string) (Share, bool) {
	for i, n := range shareNames[1:] {
		if n == s {
			return Share(i + 1), true
		}
	}
	return NoShare, false
}

// shareFor is the least share that an action on an application or a terminal needs.
func shareFor(a Action) Share {
	switch a {
	case AppSee, AppView, TermView:
		return ShareView
	case AppUse, TermUse:
		return ShareFull
	}
	return NoShare
}

// Target is what is acted on, as far as the rules need it.
type Target struct {
	Owner int64 // user id of a job, token or user row; 0: nobody's
	Role  Role  // the principal's role in the account concerned, ancestors included
	// Within says that the account concerned is the one that the principal is
	// narrowed to, or below it. Who isn't narrowed needs no more than his role.
	Within bool
	// Token is by which token the job concerned was submitted; 0: by none, or it is no job.
	Token int64
	// Share is the principal's in the job concerned, and Public what its owner gives to
	// whoever comes, of applications alone; as of the moment that the principal is of.
	Share, Public Share
}

// Authorize reports whether p may do a to t. What no line allows is denied.
func Authorize(p Principal, a Action, t Target) bool {
	need := shareFor(a)
	if p.System || (a == AppView || a == AppUse) && t.Public >= need {
		return true
	}
	mine := t.Owner != 0 && t.Owner == p.User
	if p.User == 0 || p.Blocked || !p.Narrow.allows(a, t, mine) {
		return false
	}
	admin := p.Platform == Admin
	operator := admin || p.Platform == Operator
	sees := operator || p.Platform == Auditor
	switch a {
	case JobSee, NodeSee:
		return true // the queue is public in what it holds, redacted in who
	case JobRead:
		return mine || sees || t.Role >= Manager
	case JobSubmit:
		return t.Role >= Member
	case JobControl:
		return mine || operator || t.Role >= Manager
	case JobEnter, JobShare, RequestMake:
		return mine
	case RequestSee:
		return mine || sees || t.Role >= Manager
	case RequestDecide:
		return mine || operator || t.Role >= Manager
	case AppSee, AppView, AppUse, TermView, TermUse:
		return mine || t.Share >= need
	case AccountSee, AccountRead:
		return sees || t.Role >= Viewer
	case AccountRun:
		return admin || t.Role >= Manager
	case AccountMake, MoneyGive, PriceSet, UserRun:
		return admin
	case LimitSet, CatalogSet, JobRaise, NodeRun, PeriodClose:
		return operator
	case UserSee, TokenRun:
		return mine || sees && a == UserSee || admin
	case LedgerAll, EventsAll:
		return sees
	}
	return false
}
