package command

import (
	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/tenancy"
	"croft.dev/croft/internal/world"
)

// GrantTransfer gives credits of one account's grants to another account.
type GrantTransfer struct {
	From, To string
	Amount   money.Micros
	Grant    id.Grant `json:",omitempty"` // out of it alone; 0: the grant that ends first pays first
	Subtree  bool     `json:",omitempty"` // accounts below To may spend it

	asked bool // somebody who may has asked for it on behalf of To
}

// Kind is grant.transfer.
func (GrantTransfer) Kind() string { return "grant.transfer" }

// Decide makes a grant of To for each grant of From that pays. It ends when that does: credits
// gain no time by being handed on.
func (c GrantTransfer) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	from, ok := w.Tenancy.Account(c.From)
	if !ok || !w.Can(at.Principal, access.AccountSee, 0, from.ID) {
		return world.Outcome{}, fault.NotFound("account", c.From)
	}
	if !w.MayTransfer(at.Principal, from.ID) {
		return world.Outcome{}, fault.New(codes.Denied, "only a manager of %s, or an admin, may give its credits to another account: croft request transfer asks for it", c.From)
	}
	to, ok := w.Tenancy.Account(c.To)
	if !ok || !c.asked && !w.Can(at.Principal, access.AccountSee, 0, to.ID) {
		return world.Outcome{}, fault.NotFound("account", c.To)
	}
	ends := w.Tenancy.AccountEnd(to.ID)
	switch {
	case from.ID == to.ID:
		return world.Outcome{}, fault.Invalid("to", "%s has these credits already", c.To)
	case ends != 0 && ends <= at.Now:
		return world.Outcome{}, fault.Invalid("to", "account %s is over", c.To)
	case c.Amount <= 0 || c.Amount > maxGrant:
		return world.Outcome{}, fault.Invalid("amount", "must be more than 0 and at most %s credits", maxGrant)
	}
	sources, err := c.sources(w, at, from)
	if err != nil {
		return world.Outcome{}, err
	}
	parts, short := ledger.Split(sources, c.Amount, "")
	if short > 0 {
		return world.Outcome{}, fault.New(codes.Conflict, "account %s has %s in grants of its own that can be spent now, asked for %s", c.From, ledger.Available(sources), c.Amount)
	}
	own := ledger.Available(w.Ledger.Sources([]id.Account{from.ID}, at.Now))
	if used := w.Ledger.Overdrawn(from.ID); used > 0 && own-c.Amount < used {
		return world.Outcome{}, fault.New(codes.Conflict, "account %s uses %s of its overdraft, which its credits are to repay: of %s at most %s can be given to others", c.From, used, own, max(own-used, 0))
	}
	p := w.Ledger.NewPosting(at.Seq, at.Now)
	var given []ledger.Grant
	var changes []ledger.Change
	for i, part := range parts {
		old := sources[i].Grant
		g := ledger.Grant{
			ID: w.Ledger.NextGrant() + id.Grant(i), Account: to.ID, Amount: part.Amount, Source: old.Source, Start: at.Now, End: tenancy.Sooner(old.End, ends), OwnEnd: old.End,
			Subtree: c.Subtree, By: id.User(at.Principal.User), Created: at.Now, Origin: old.ID,
		}
		given, changes = append(given, g), append(changes, p.Pass(&w.Ledger, old, g)...)
	}
	return world.Outcome{
		Changes: wrap(changes), Result: given,
		Event: world.Event{Account: from.ID, Message: c.Amount.String() + " credits of " + from.Name + " to " + to.Name},
	}, nil
}

// sources are the account's own grants that can be spent now, in the order in which they pay.
// What an account above lets it spend isn't its own to give.
func (c GrantTransfer) sources(w *world.World, at world.Context, from tenancy.Account) ([]ledger.Source, error) {
	sources := w.Ledger.Sources([]id.Account{from.ID}, at.Now)
	if c.Grant == 0 {
		return sources, nil
	}
	for _, s := range sources {
		if s.Grant.ID == c.Grant {
			return []ledger.Source{s}, nil
		}
	}
	return nil, fault.Invalid("grant", "%s has no grant %d that can be spent now", c.From, c.Grant)
}
