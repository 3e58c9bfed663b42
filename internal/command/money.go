package command

import (
	"strings"
	"unicode"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/tenancy"
	"croft.dev/croft/internal/world"
)

// GrantGive gives an account credits.
type GrantGive struct {
	Account    string
	Amount     money.Micros
	Source     string
	Start, End int64 // ns; 0: now, never
	Subtree    bool
}

// Kind is grant.give.
func (GrantGive) Kind() string { return "grant.give" }

// maxGrant keeps sums of all grants far from overflowing.
const maxGrant = money.Micros(1e15) // a thousand million credits

// Decide posts the grant.
func (c GrantGive) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	acc, ok := w.Tenancy.Account(c.Account)
	switch {
	case !w.Can(at.Principal, access.MoneyGive, 0, 0):
		return world.Outcome{}, fault.New(codes.Denied, "only an admin may give grants")
	case !ok:
		return world.Outcome{}, fault.NotFound("account", c.Account)
	case c.Amount <= 0 || c.Amount > maxGrant:
		return world.Outcome{}, fault.Invalid("amount", "must be more than 0 and at most %s credits", maxGrant)
	case !oneLine(c.Source, 64) || strings.EqualFold(c.Source, "platform"):
		return world.Outcome{}, fault.Invalid("source", "names where the money comes from, e.g. DFG-123 (at most 64 characters)")
	}
	start := c.Start
	if start == 0 {
		start = at.Now
	}
	if c.End != 0 && (c.End <= start || c.End <= at.Now) {
		return world.Outcome{}, fault.Invalid("end", "must be after the start and in the future")
	}
	ends := w.Tenancy.AccountEnd(acc.ID)
	if ends != 0 && ends <= start {
		return world.Outcome{}, fault.Invalid("start", "account %s is over by then", acc.Name)
	}
	g := ledger.Grant{
		ID: w.Ledger.NextGrant(), Account: acc.ID, Amount: c.Amount, Source: c.Source, Start: start,
		End: tenancy.Sooner(c.End, ends), OwnEnd: c.End, Subtree: c.Subtree, By: id.User(at.Principal.User), Created: at.Now,
	}
	return world.Outcome{
		Changes: wrap(w.Ledger.NewPosting(at.Seq, at.Now).Give(&w.Ledger, g)), Result: g,
		Event: world.Event{Account: acc.ID, Message: c.Amount.String() + " credits from " + c.Source + " to " + acc.Name},
	}, nil
}

// GrantExpire posts what is left of a grant whose refund tail has passed.
type GrantExpire struct{ Grant id.Grant }

// Kind is grant.expire.
func (GrantExpire) Kind() string { return "grant.expire" }

// Decide expires the grant, if it is due.
func (c GrantExpire) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	if !w.Can(at.Principal, access.System, 0, 0) {
		return world.Outcome{}, fault.New(codes.Denied, "only the server itself expires grants")
	}
	g, ok := w.Ledger.Grants.Get(c.Grant)
	if !ok || g.Expired || g.Open(at.Now) || awaited(w, g, at.Now) {
		return world.Outcome{Event: world.Event{Skip: true}}, nil
	}
	return world.Outcome{Changes: wrap(w.Ledger.NewPosting(at.Seq, at.Now).Expire(&w.Ledger, g)), Event: world.Event{Account: g.Account, Message: "grant " + g.Source + " ended"}}, nil
}

// PricePut publishes a version of the price book.
type PricePut struct {
	Partition string
	From      int64 // ns; 0: now
	CPU, Mem  money.Rate
	Devices   []catalog.ModelRate // sorted by model
}

// Kind is price.set.
func (PricePut) Kind() string { return "price.set" }

// Decide publishes the version. The past can't be repriced.
func (c PricePut) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	if !w.Can(at.Principal, access.PriceSet, 0, 0) {
		return world.Outcome{}, fault.New(codes.Denied, "only an admin may set prices")
	}
	if _, ok := w.Catalog.Partitions.Get(c.Partition); c.Partition != "" && !ok {
		return world.Outcome{}, fault.Invalid("partition", "no such partition: %s", c.Partition)
	}
	from := c.From
	if from == 0 {
		from = at.Now
	}
	if from < at.Now {
		return world.Outcome{}, fault.Invalid("from", "is in the past: prices are set ahead of time")
	}
	row := catalog.Price{
		ID: w.Catalog.NextPrice(), Partition: c.Partition, From: from, CPU: c.CPU, Memory: c.Mem, Devices: c.Devices,
		By: id.User(at.Principal.User), Published: at.Now,
	}
	if err := row.Check(); err != nil {
		return world.Outcome{}, err
	}
	return world.Outcome{Changes: []world.Change{catalog.PriceSet{Row: row}}, Result: row, Event: world.Event{Message: "price book of " + or(c.Partition, "every partition")}}, nil
}

// wrap turns a package's changes into the world's.
func wrap[C any](in []C) []world.Change {
	out := make([]world.Change, len(in))
	for i, c := range in {
		out[i] = c
	}
	return out
}

func oneLine(s string, most int) bool {
	return s != "" && len(s) <= most && !strings.ContainsFunc(s, func(r rune) bool { return unicode.IsControl(r) || r == unicode.ReplacementChar })
}

func or(s, other string) string {
	if s == "" {
		return other
	}
	return s
}
