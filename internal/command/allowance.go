package command

import (
	"strings"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/allowance"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/tenancy"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

// AllowancePut has an account given credits in each period from now on, in place of its rule
// of that name. The grant of a period that has begun stays as it was given.
type AllowancePut struct {
	Account string
	Name    string `json:",omitempty"` // by default the period's, "month"
	Amount  money.Micros
	Per     limits.Unit
	From    int64        `json:",omitempty"` // ns; 0: now
	Until   int64        `json:",omitempty"` // ns, the first moment after it; 0: it goes on
	Carry   limits.Carry `json:",omitzero"`
	Source  string       `json:",omitempty"` // by default "allowance" and its name
	Subtree bool         `json:",omitempty"`
}

// Kind is allowance.set.
func (AllowancePut) Kind() string { return "allowance.set" }

// The bounds of an allowance's texts, which become a grant's source with the period.
const (
	maxAllowanceName   = 32
	maxAllowanceSource = 48
)

// Decide puts the rule, and gives what is due by it.
func (c AllowancePut) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	if !w.Can(at.Principal, access.MoneyGive, 0, 0) {
		return world.Outcome{}, fault.New(codes.Denied, "only an admin may give allowances")
	}
	acc, ok := w.Tenancy.Account(c.Account)
	if !ok {
		return world.Outcome{}, fault.NotFound("account", c.Account)
	}
	row := allowance.Allowance{
		ID: w.Allowances.NextID(), Account: acc.ID, Name: or(c.Name, string(c.Per)), Amount: c.Amount, Per: c.Per, From: c.From, Until: c.Until, Carry: c.Carry,
		Subtree: c.Subtree, By: id.User(at.Principal.User), Changed: at.Now,
	}
	row.Source = or(c.Source, "allowance "+row.Name)
	if row.From == 0 {
		row.From = at.Now
	}
	if err := checkAllowance(row, at.Now); err != nil {
		return world.Outcome{}, err
	}
	if old, ok := w.Allowances.Named(acc.ID, row.Name); ok {
		row.ID, row.Through, row.Last = old.ID, old.Through, old.Last
	}
	out := world.Outcome{
		Changes: []world.Change{allowance.Set{Row: row}}, Result: row,
		Event: world.Event{Account: acc.ID, Message: c.Amount.String() + " credits per " + string(c.Per) + " to " + acc.Name},
	}
	if from, to, due := allowanceDue(w, row, at.Now); due {
		row, changes := giveAllowance(w, at, row, from, to)
		out.Changes, out.Result = changes, row
	}
	return out, nil
}

func checkAllowance(a allowance.Allowance, now int64) error {
	var bad fault.Fields
	if a.Amount <= 0 || a.Amount > maxGrant {
		bad.Add("amount", "must be more than 0 and at most %s credits", maxGrant)
	}
	if !allowance.Valid(a.Per) {
		bad.Add("per", "must be week, month, quarter or year")
	}
	if !workload.KnownVolume(a.Name) || len(a.Name) > maxAllowanceName {
		bad.Add("name", "must be at most %d letters, digits and _ . -, the first a letter or digit", maxAllowanceName)
	}
	if !oneLine(a.Source, maxAllowanceSource) || strings.EqualFold(a.Source, "platform") {
		bad.Add("source", "names where the money comes from, e.g. DFG-123 (at most %d characters)", maxAllowanceSource)
	}
	if !a.Carry.Valid() || a.Carry.Amount > int64(maxGrant) {
		bad.Add("carry_over", "must be a share of at most 100%% or an amount of credits, at most %s", maxGrant)
	}
	switch {
	case a.Until == 0:
	case a.Until <= now:
		bad.Add("until", "must be in the future: croft allowance rm ends one")
	case a.Until <= a.From:
		bad.Add("until", "must not be before from")
	}
	return bad.Err()
}

// AllowanceRemove ends a rule. What was given by it stays.
type AllowanceRemove struct{ Account, Name string }

// Kind is allowance.remove.
func (AllowanceRemove) Kind() string { return "allowance.remove" }

// Decide removes the rule.
func (c AllowanceRemove) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	if !w.Can(at.Principal, access.MoneyGive, 0, 0) {
		return world.Outcome{}, fault.New(codes.Denied, "only an admin may remove allowances")
	}
	acc, ok := w.Tenancy.Account(c.Account)
	if !ok {
		return world.Outcome{}, fault.NotFound("account", c.Account)
	}
	row, ok := w.Allowances.Named(acc.ID, c.Name)
	if !ok || row.Removed {
		return world.Outcome{}, fault.NotFound("allowance", c.Account+"/"+c.Name)
	}
	row.Removed, row.Changed = true, at.Now
	return world.Outcome{
		Changes: []world.Change{allowance.Set{Row: row}},
		Event:   world.Event{Account: acc.ID, Message: "no more per " + string(row.Per) + " to " + acc.Name},
	}, nil
}

// AllowanceDue gives what is due by a rule: one grant for the period that has begun, with
// what is carried over.
type AllowanceDue struct{ Allowance id.Allowance }

// Kind is allowance.due.
func (AllowanceDue) Kind() string { return "allowance.due" }

// Decide gives the grant, if the period has none yet.
func (c AllowanceDue) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	if !w.Can(at.Principal, access.System, 0, 0) {
		return world.Outcome{}, fault.New(codes.Denied, "only the server itself gives what is due")
	}
	row, _ := w.Allowances.Rules.Get(c.Allowance)
	from, to, due := allowanceDue(w, row, at.Now)
	if !due {
		return world.Outcome{Event: world.Event{Skip: true}}, nil
	}
	row, changes := giveAllowance(w, at, row, from, to)
	return world.Outcome{
		Changes: changes, Result: row,
		Event: world.Event{Account: row.Account, Message: row.Amount.String() + " credits from " + row.Label(from)},
	}, nil
}

// AllowancesDue lists the rules by which something is due, and says when the next of the
// others may be, in ns; 0: never.
func AllowancesDue(w *world.World, now int64) (due []id.Allowance, next int64) {
	for k, a := range w.Allowances.Rules.All() {
		at, more := a.Next()
		switch {
		case !more:
		case at > now:
			if next == 0 || at < next {
				next = at
			}
		default:
			if _, _, is := allowanceDue(w, a, now); is {
				due = append(due, k)
			}
		}
	}
	return due, next
}

// allowanceDue is allowance.Due for an account that isn't over.
func allowanceDue(w *world.World, a allowance.Allowance, now int64) (from, to int64, due bool) {
	ends := w.Tenancy.AccountEnd(a.Account)
	if a.ID == 0 || ends != 0 && ends <= now {
		return 0, 0, false
	}
	return a.Due(now)
}

// giveAllowance is the grant of a period and the rule as it is then.
func giveAllowance(w *world.World, at world.Context, a allowance.Allowance, from, to int64) (allowance.Allowance, []world.Change) {
	g := ledger.Grant{
		ID: w.Ledger.NextGrant(), Account: a.Account, Amount: a.Amount, Source: a.Label(from), Start: from, End: tenancy.Sooner(to, w.Tenancy.AccountEnd(a.Account)), OwnEnd: to,
		Subtree: a.Subtree, By: a.By, Created: at.Now, Allowance: a.ID,
	}
	before, _ := w.Ledger.Grants.Get(a.Last)
	carried := min(a.Left(before, w.Ledger.Balance(ledger.OfGrant(before.ID))), maxGrant)
	a.Through, a.Last = to, g.ID
	return a, append([]world.Change{allowance.Set{Row: a}}, wrap(w.Ledger.NewPosting(at.Seq, at.Now).Renew(&w.Ledger, g, before, carried))...)
}

// awaited reports whether a grant's rest may be carried over by what is due already.
func awaited(w *world.World, g ledger.Grant, now int64) bool {
	a, ok := w.Allowances.Rules.Get(g.Allowance)
	_, _, due := allowanceDue(w, a, now)
	return ok && due && a.Last == g.ID && a.Left(g, w.Ledger.Balance(ledger.OfGrant(g.ID))) > 0
}
