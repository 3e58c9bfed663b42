package query

import (
	"context"
	"slices"
	"strconv"
	"strings"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/placement"
	"croft.dev/croft/internal/store"
	"croft.dev/croft/internal/tenancy"
)

// Grants lists the grants of an account, or of all that the caller may look into, with how
// long they last at the pace of the last 30 days.
func (r *Reader) Grants(ctx context.Context, p access.Principal, account string) ([]v1.Grant, error) {
	v := r.view(p)
	var only id.Account
	if account != "" {
		a, err := v.accountNamed(account)
		if err != nil {
			return nil, err
		}
		only = a.ID
	}
	out, rows, open := []v1.Grant{}, []ledger.Grant{}, []id.Grant{}
	for _, g := range v.w.Ledger.Grants.All() {
		if (only == 0 || g.Account == only) && v.may(access.AccountRead, 0, g.Account) {
			out, rows = append(out, v.grantWire(g)), append(rows, g)
			if g.Usable(v.now) {
				open = append(open, g.ID)
			}
		}
	}
	from := (v.now/Day - 30) * Day
	err := r.History.Books(ctx, func(b *store.Books) error {
		spent, err := b.SpentOf(open, from/Day)
		for i, g := range rows {
			rest := v.w.Ledger.Balance(ledger.OfGrant(g.ID)) + v.aside().source[string(ledger.OfGrant(g.ID))]
			out[i].Lasts = moment(pace(g, from, v.now, spent[g.ID], rest))
		}
		return err
	})
	return out, readErr(err, "", "")
}

// Grant is a grant as the API shows it now.
func (r *Reader) Grant(p access.Principal, g ledger.Grant) v1.Grant { return r.view(p).grantWire(g) }

// GrantMade finds the newest grant like the wanted one that was given at a moment,
// for a repeated request.
func (r *Reader) GrantMade(p access.Principal, created int64, want v1.Grant) (made v1.Grant, ok bool) {
	v := r.view(p)
	amount, err := money.Parse(want.Amount)
	for _, g := range v.w.Ledger.Grants.All() {
		if err == nil && g.Created == created && g.Amount == amount && g.Source == want.Source && v.account(g.Account) == want.Account {
			made, ok = v.grantWire(g), true
		}
	}
	return made, ok
}

// GrantsPassed are the grants that one account gave another at a moment.
func (r *Reader) GrantsPassed(p access.Principal, created int64, from, to string) []v1.Grant {
	v := r.view(p)
	out := []v1.Grant{}
	for _, g := range v.w.Ledger.Grants.All() {
		origin, ok := v.w.Ledger.Grants.Get(g.Origin)
		if ok && g.Created == created && v.account(origin.Account) == from && v.account(g.Account) == to {
			out = append(out, v.grantWire(g))
		}
	}
	return out
}

func (v view) grantWire(g ledger.Grant) v1.Grant {
	out := v1.Grant{
		ID: decimal(g.ID), Account: v.account(g.Account), Amount: g.Amount.String(), Source: g.Source, Start: moment(g.Start), End: moment(g.End),
		Subtree: g.Subtree, State: grantState(g, v.now), Allowance: v.allowanceName(g.Allowance),
	}
	if g.Carried > 0 {
		out.Carried = g.Carried.String()
	}
	if g.Passed > 0 {
		out.Transferred = g.Passed.String()
	}
	if repaid := v.w.Ledger.RepaidBy(g); repaid > 0 {
		out.Repaid = repaid.String()
	}
	source := ledger.OfGrant(g.ID)
	rest := v.w.Ledger.Balance(source)
	aside := v.aside().source[string(source)]
	out.Available, out.Deposits = rest.String(), aside.String()
	if !g.Expired {
		out.Spent = (g.Own() - rest - aside).String()
	}
	out.Used = money.Percent(g.Own()-rest, g.Own())
	switch {
	case !g.Usable(v.now):
	case out.Used >= 95:
		out.Warning = "nearly used up: " + rest.String() + " are left"
	case out.Used >= 80:
		out.Warning = rest.String() + " are left"
	}
	return out
}

func grantState(g ledger.Grant, now int64) string {
	switch {
	case g.Expired:
		return "expired"
	case now < g.Start:
		return "future"
	case g.End != 0 && now >= g.End:
		return "ended"
	}
	return "open"
}

// Prices lists the versions of the price book by id.
func (r *Reader) Prices(p access.Principal) []v1.PriceVersion {
	v := r.view(p)
	out := []v1.PriceVersion{}
	for _, row := range v.w.Catalog.Prices.All() {
		out = append(out, v.priceWire(row))
	}
	return out
}

// Price is a version as the API shows it.
func (r *Reader) Price(p access.Principal, row catalog.Price) v1.PriceVersion {
	return r.view(p).priceWire(row)
}

// PriceMade finds the newest version of a partition that was published at a moment,
// for a repeated request.
func (r *Reader) PriceMade(p access.Principal, published int64, partition string) (made v1.PriceVersion, ok bool) {
	v := r.view(p)
	for _, row := range v.w.Catalog.Prices.All() {
		if row.Published == published && row.Partition == partition {
			made, ok = v.priceWire(row), true
		}
	}
	return made, ok
}

func (v view) priceWire(row catalog.Price) v1.PriceVersion {
	out := v1.PriceVersion{
		ID: decimal(row.ID), Partition: row.Partition, From: moment(row.From), CPU: money.Micros(row.CPU).String(), Mem: money.Micros(row.Memory).String(),
		By: v.user(row.By),
	}
	for _, m := range row.Devices {
		if out.GPU == nil {
			out.GPU = map[string]string{}
		}
		out.GPU[m.Model] = money.Micros(m.Rate).String()
	}
	return out
}

// TransferQuery selects postings.
type TransferQuery struct {
	Ledger string // a ledger account, "grant:3"
	Job    string
	Limit  int // items per page; 0: the default
	Cursor string
}

// Transfers lists postings, the oldest first. Who may not read the whole ledger
// names a job or a ledger account that is his to read.
func (r *Reader) Transfers(ctx context.Context, p access.Principal, q TransferQuery) (v1.Page[v1.Transfer], error) {
	out := v1.Page[v1.Transfer]{Items: []v1.Transfer{}}
	v := r.view(p)
	size, err := pageSize(q.Limit)
	if err != nil {
		return out, err
	}
	filter := filterHash("transfers", decimal(p.User), q.Ledger, q.Job)
	from, err := parseCursor(q.Cursor, filter)
	if err != nil {
		return out, err
	}
	f := store.TransferFilter{Ledger: ledger.Account(q.Ledger), After: id.Transfer(from.ID)}
	if q.Job != "" {
		j, err := r.find(ctx, v, q.Job)
		if err != nil {
			return out, err
		}
		f.Job = j.ID
	}
	if f.Job == 0 && !v.may(access.LedgerAll, 0, 0) && !v.ownsLedger(f.Ledger) {
		return out, fault.New(codes.Denied, "name a job or a ledger account that you may read, e.g. --job 118: the whole ledger is for operators and auditors")
	}
	rows, err := r.History.Transfers(ctx, f, size+1)
	if err != nil {
		return out, readErr(err, "", "")
	}
	if len(rows) > size {
		rows = rows[:size]
		out.Next = cursor{Filter: filter, ID: int64(rows[size-1].ID)}.encode()
	}
	var tokens []id.Token
	for _, t := range rows {
		if t.Token != 0 && !slices.Contains(tokens, t.Token) {
			tokens = append(tokens, t.Token)
		}
	}
	names, err := r.History.TokenNames(ctx, tokens)
	if err != nil {
		return out, readErr(err, "", "")
	}
	for _, t := range rows {
		out.Items = append(out.Items, v.transferWire(t, names))
	}
	return out, nil
}

// ownsLedger reports whether a ledger account belongs to an account whose money
// the caller may read.
func (v view) ownsLedger(a ledger.Account) bool {
	kind, rest, _ := strings.Cut(string(a), ":")
	if kind == "repaid" { // by which grant is said behind its account
		kind, rest = "spent", rest[:max(strings.Index(rest, ":"), 0)]
	}
	n, err := strconv.ParseInt(rest, 10, 64)
	if err != nil || n <= 0 {
		return false
	}
	switch kind {
	case "grant":
		g, ok := v.w.Ledger.Grants.Get(id.Grant(n))
		return ok && v.may(access.AccountRead, 0, g.Account)
	case "spent", "unfunded", "overdraft":
		return v.may(access.AccountRead, 0, id.Account(n))
	}
	return false
}

func (v view) transferWire(t ledger.Transfer, tokens map[id.Token]string) v1.Transfer {
	out := v1.Transfer{
		ID: decimal(t.ID), At: at(t.At), From: string(t.From), To: string(t.To), Amount: t.Amount.String(), Kind: string(t.Kind), Seq: t.Seq,
	}
	if t.Job != 0 {
		out.Job = decimal(t.Job)
	}
	// A grant's postings may be read by all members: whose jobs they were for not by all.
	if t.User != 0 && v.may(access.JobRead, t.User, t.Account) {
		out.User, out.Token = v.user(t.User), byToken(tenancy.ByToken{ID: t.Token, Name: tokens[t.Token]})
	}
	return out
}

// maintenanceWire is a window as the API shows it.
func maintenanceWire(m placement.Maintenance) v1.Maintenance {
	return v1.Maintenance{ID: decimal(m.ID), Node: m.Node, From: at(m.From), To: at(m.To), Reason: m.Reason}
}
