package command

import (
	"fmt"
	"slices"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/notice"
	"croft.dev/croft/internal/placement"
	"croft.dev/croft/internal/share"
	"croft.dev/croft/internal/tenancy"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

// UserRetire lets a user go for good. The name and the uid become free; what the
// user did stays under it. Tokens, sessions, the password and memberships end at
// once.
type UserRetire struct {
	Name string
	Stop bool // the user's jobs; otherwise they are in the way
}

// Retired is what retiring a user ended.
type Retired struct {
	Jobs, Tokens, Members int
}

// Kind is user.retire.
func (UserRetire) Kind() string { return "user.retire" }

// maxStops bounds the jobs that one command ends.
const maxStops = 10_000

// Decide retires the user.
func (c UserRetire) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	if !w.Can(at.Principal, access.UserRun, 0, 0) {
		return world.Outcome{}, fault.New(codes.Denied, "only an admin may retire users")
	}
	user, ok := w.Tenancy.User(c.Name)
	switch {
	case !ok:
		return world.Outcome{}, fault.NotFound("user", c.Name)
	case int64(user.ID) == at.Principal.User:
		return world.Outcome{}, fault.New(codes.Conflict, "you can't retire yourself: let another admin do it")
	}
	if by := reservationsOf(w, func(r placement.Reservation) bool { return slices.Contains(r.Users, user.ID) }); by != nil {
		return world.Outcome{}, inUse("user", c.Name, by)
	}
	var result Retired
	var changes []world.Change
	var live []id.Job
	for j := range w.Workload.OfUser(user.ID, w.Workload.NextJob()) {
		live = append(live, j.ID)
	}
	switch {
	case len(live) > 0 && !c.Stop:
		by := jobsOf(w, func(j *workload.Job) bool { return j.User == user.ID })
		return world.Outcome{}, fault.New(codes.Conflict, "user %s is in use: %s; stop that first, or with the user (--stop)", c.Name, by[0])
	case len(live) > maxStops:
		return world.Outcome{}, fault.New(codes.Conflict, "user %s has %d jobs that haven't ended, more than %d: stop some first", c.Name, len(live), maxStops)
	}
	after := w.Copy()
	for _, k := range live {
		if _, still := after.Workload.Jobs.Get(k); !still {
			continue // an array, which ended with its last element
		}
		out, err := JobStop{Job: k, Delete: true}.Decide(after, at)
		if err != nil {
			return world.Outcome{}, err
		}
		after.Fold(out.Changes) // each posts after the one before
		changes = append(changes, out.Changes...)
		result.Jobs++
	}
	for _, t := range w.Tenancy.TokensOf(user.ID) {
		t.Revoked = true
		changes = append(changes, tenancy.TokenSet{Row: t})
		result.Tokens++
	}
	for _, m := range w.Tenancy.MembershipsOf(user.ID) {
		m.Role = access.NoRole
		changes = append(changes, tenancy.MemberSet{Row: m})
		result.Members++
	}
	if _, has := w.Tenancy.Passwords.Get(user.ID); has {
		changes = append(changes, tenancy.PasswordSet{Row: tenancy.Password{User: user.ID, Changed: at.Now}})
	}
	for _, cred := range w.Tenancy.CredentialsOf(user.ID) {
		changes = append(changes, tenancy.CredentialSet{Row: tenancy.Credential{User: user.ID, Registry: cred.Registry, Changed: at.Now}})
	}
	for _, hook := range w.Notices.HooksOf(user.ID) {
		changes = append(changes, notice.HookSet{Row: notice.Hook{User: user.ID, Name: hook.Name, Changed: at.Now}})
	}
	for _, key := range w.Tenancy.SSHKeysOf(user.ID) {
		key.Blob = ""
		changes = append(changes, tenancy.SSHKeySet{Row: key})
	}
	user.Retired = at.Now
	return world.Outcome{Changes: append(changes, tenancy.UserSet{Row: user}), Result: result, Event: world.Event{Message: "user " + c.Name + " retired"}}, nil
}

// AccountMove puts an account, with all below it, under another one.
type AccountMove struct {
	Name  string
	Under string // empty: it becomes a root
	Dry   bool   `json:",omitempty"` // only say what it would come to
}

// Moved is what a move leaves as it was.
type Moved struct {
	Row  tenancy.Account
	Jobs int // that haven't ended, and go on under what was above on their day
}

// Kind is account.move.
func (AccountMove) Kind() string { return "account.move" }

// Decide moves the account. Jobs that were accepted keep the path of their day: what
// they have set aside came from the grants on it, and they count against its limits.
func (c AccountMove) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	if !w.Can(at.Principal, access.AccountMake, 0, 0) {
		return world.Outcome{}, fault.New(codes.Denied, "only an admin may move an account: what is above it binds it and may pay for it")
	}
	row, ok := w.Tenancy.Account(c.Name)
	if !ok {
		return world.Outcome{}, fault.NotFound("account", c.Name)
	}
	parent, ok := w.Tenancy.Account(c.Under)
	if c.Under != "" && !ok {
		return world.Outcome{}, fault.Invalid("under", "no such account: %s", c.Under)
	}
	if err := w.Tenancy.CheckMove(row.ID, parent.ID); err != nil {
		return world.Outcome{}, fault.Invalid("under", "%s %v", c.Under, err)
	}
	for _, a := range w.Tenancy.Path(parent.ID) {
		above, _ := w.Tenancy.Accounts.Get(a)
		if above.Closed || above.Over(at.Now) {
			return world.Outcome{}, fault.New(codes.Conflict, "account %s is closed or over: nothing under it could run", above.Name)
		}
	}
	result := Moved{Row: row}
	for _, j := range w.Workload.Jobs.All() {
		if w.Tenancy.Within(j.Account, row.ID) {
			result.Jobs++
		}
	}
	if row.Parent == parent.ID {
		return world.Outcome{Result: result, Event: world.Event{Skip: true}}, nil
	}
	row.Parent = parent.ID
	result.Row = row
	after := w.Copy()
	after.Fold(placed(w, row))
	if err := sharesFit(after, at, row.ID); err != nil {
		return world.Outcome{}, err
	}
	if c.Dry {
		return world.Outcome{Result: result, Event: world.Event{Skip: true}}, nil
	}
	where := "to the top"
	if c.Under != "" {
		where = "under " + c.Under
	}
	return world.Outcome{Changes: placed(w, row), Result: result, Event: world.Event{Account: row.ID, Message: "account " + c.Name + " moved " + where}}, nil
}

// AccountRemove retires an account that nothing needs any more. Its name becomes
// free; what was done under it stays in the books.
type AccountRemove struct {
	Name   string
	Expire bool // what is left of its grants; otherwise it is in the way
}

// Kind is account.remove.
func (AccountRemove) Kind() string { return "account.remove" }

// Decide retires the account.
func (c AccountRemove) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	if !w.Can(at.Principal, access.AccountMake, 0, 0) {
		return world.Outcome{}, fault.New(codes.Denied, "only an admin may remove an account")
	}
	row, ok := w.Tenancy.Account(c.Name)
	if !ok {
		return world.Outcome{}, fault.NotFound("account", c.Name)
	}
	by := needs(w, row.ID)
	p := w.Ledger.NewPosting(at.Seq, at.Now)
	var changes []world.Change
	for _, g := range w.Ledger.Grants.All() {
		rest := w.Ledger.Balance(ledger.OfGrant(g.ID))
		if g.Account != row.ID || g.Expired {
			continue
		}
		if rest > 0 && !c.Expire {
			by = append(by, fmt.Sprintf("grant %d has %s credits left", g.ID, rest))
		}
		changes = append(changes, wrap(p.Expire(&w.Ledger, g))...)
	}
	if err := inUse("account", c.Name, by); err != nil {
		return world.Outcome{}, err
	}
	for _, m := range w.Tenancy.Members(row.ID) {
		m.Role = access.NoRole
		changes = append(changes, tenancy.MemberSet{Row: m})
	}
	row.Retired, row.Closed = at.Now, true
	return world.Outcome{Changes: append(changes, tenancy.AccountSet{Row: row}), Result: row, Event: world.Event{Account: row.ID, Message: "account " + c.Name + " removed"}}, nil
}

// needs says what needs an account, its grants aside.
func needs(w *world.World, a id.Account) []string {
	var by []string
	for _, below := range w.Tenancy.Accounts.All() {
		if below.Parent == a && below.Retired == 0 {
			by = append(by, "account "+below.Name+" is below it")
		}
	}
	by = append(by, jobsOf(w, func(j *workload.Job) bool { return slices.Contains(j.Path, a) })...)
	for _, l := range w.Limits.Limits.All() {
		if l.Scope.Account == a {
			by = append(by, fmt.Sprintf("limit %d is about it", l.ID))
		}
	}
	for _, r := range w.Allowances.Of(a) {
		by = append(by, "allowance "+r.Name+" gives it credits")
	}
	if owed := w.Ledger.Owed(a); owed > 0 {
		by = append(by, fmt.Sprintf("it owes %s of its overdraft, which a grant repays", owed))
	}
	by = append(by, sharesOf(w, func(s share.Share) bool { return s.Account == a })...)
	for _, q := range w.Catalog.QoS.All() {
		if slices.Contains(q.Allow, a) {
			by = append(by, "QoS "+q.Name+" is for it")
		}
	}
	by = append(by, reservationsOf(w, func(r placement.Reservation) bool { return r.Payer == a || slices.Contains(r.Accounts, a) })...)
	for _, p := range w.Catalog.Partitions.All() {
		if slices.Contains(p.Allow, a) || slices.Contains(p.Deny, a) {
			by = append(by, "partition "+p.Name+" names it")
		}
	}
	return by
}
