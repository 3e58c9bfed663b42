package query

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/store"
	"croft.dev/croft/internal/tenancy"
)

// StatementQuery says what a statement is about, and how deep it goes.
type StatementQuery struct {
	Account string
	Period  string // as parsePeriod reads it
	By      string // "" or one of byDepth
}

// statement is one while it is made: of an account and those below it.
type statement struct {
	view
	own      tenancy.Account
	accounts []id.Account
	span     store.Period
	by       string

	kept   *kept         // of closed periods; nil: some of the span is open
	ledger *ledger.State // its grants

	money []store.MoneyDay
	work  map[id.Attempt]*work // the time and the money of attempts in the period
	steps map[id.Job][]used
	token map[id.Job]tenancy.ByToken // by which jobs were submitted, if lines tell
	check findings

	corrections []v1.StatementCorrection
}

// Statement says where the money of an account went in a period, and of those below it.
// For operators and auditors it has the machine's own balance too.
//
// A member sees the sums and his own lines. Lines are of everybody to those who may
// read everybody's jobs; to others they are one, without names.
func (r *Reader) Statement(ctx context.Context, p access.Principal, q StatementQuery) (v1.Statement, error) {
	v := r.view(p)
	a, err := v.accountNamed(q.Account)
	if err != nil {
		return v1.Statement{}, err
	}
	if !v.may(access.AccountRead, 0, a.ID) {
		return v1.Statement{}, fault.New(codes.Denied, "the statement of %s isn't yours to read", a.Name)
	}
	if q.By != "" && !slices.Contains(byDepth, q.By) {
		return v1.Statement{}, fault.Invalid("by", "must be member, token, job, step, device or day")
	}
	span, err := parsePeriod(q.Period, time.Unix(0, v.now))
	if err != nil {
		return v1.Statement{}, err
	}
	span.Now = v.now
	s := &statement{view: v, own: a, accounts: []id.Account{a.ID}, span: span, by: q.By, ledger: &v.w.Ledger, work: map[id.Attempt]*work{}}
	for k := range v.w.Tenancy.Accounts.All() { // those that were removed have books too
		if k != a.ID && v.w.Tenancy.Within(k, a.ID) {
			s.accounts = append(s.accounts, k)
		}
	}
	var out v1.Statement
	err = r.History.Books(ctx, func(b *store.Books) error {
		if err := s.keep(b); err != nil {
			return err
		}
		if err := s.read(b); err != nil {
			return err
		}
		if err := s.verify(b); err != nil {
			return err
		}
		out, err = s.wire()
		if err != nil || !v.may(access.LedgerAll, 0, 0) {
			return err
		}
		m := &machine{view: v, span: span, kept: s.kept}
		if err := m.read(b, nil); err != nil {
			return err
		}
		balance := m.wire()
		if out.Devices = balance.Nodes; out.Verified {
			out.Verified, out.Difference = balance.Verified, balance.Difference
		}
		return nil
	})
	return out, readErr(err, "", "")
}

// read collects what was posted and metered in the period.
func (s *statement) read(b *store.Books) error {
	var grants []id.Grant
	for _, g := range s.ledger.Grants.All() {
		if slices.Contains(s.accounts, g.Account) {
			grants = append(grants, g.ID)
		}
	}
	err := b.Money(s.accounts, grants, func(m *store.MoneyDay) { s.money = append(s.money, *m) })
	if err != nil {
		return err
	}
	err = b.Spent(s.accounts, s.span, func(d *store.SpentDay) {
		w := s.of(d.Job, d.Attempt, d.Account, d.User)
		w.days = append(w.days, *d)
		w.spent, w.lost = w.spent+d.Spent, w.lost+d.Lost
	})
	if err != nil {
		return err
	}
	err = s.readTiles(b, func(t *ledger.Tile) {
		w := s.of(t.Job, t.Attempt, t.Account, t.User)
		w.tiles = append(w.tiles, *t)
	})
	if err == nil && (s.by == byStep || s.by == byDevice) {
		err = s.readSteps(b)
	}
	if err == nil && (s.by == byOneToken || s.by == byJob) {
		s.token, err = b.TokensOf(s.jobs())
	}
	if err != nil || s.kept != nil {
		return err
	}
	return s.correct(b)
}

// of is the work of an attempt; without a job it is what was reserved and not used,
// by account.
func (s *statement) of(j id.Job, attempt int32, a id.Account, u id.User) *work {
	key := id.Attempt{Job: j, N: attempt}
	if j == 0 {
		key.Job = -id.Job(a)
	}
	w := s.work[key]
	if w == nil {
		w = &work{job: j, attempt: attempt, account: a, user: u}
		s.work[key] = w
	}
	return w
}

func (s *statement) wire() (v1.Statement, error) {
	out := v1.Statement{Account: s.own.Name, From: at(s.span.From), To: at(s.span.To), By: s.by}
	out.Grants, out.Total = s.grants() // which compares their balances
	out.Verified, out.Difference = s.check.first == "", s.evidence()
	out.Closed, out.Corrections = s.kept.wire(), s.corrections
	out.Accounts, out.Users = s.members()
	out.Total.Charged = out.Accounts[0].Charged // the first is all of them
	if s.by == "" {
		return out, nil
	}
	lines := s.lines(s.by)
	if len(lines) > maxLines {
		return out, fault.Invalid("by", "that is more than %d lines: ask for a shorter period", maxLines)
	}
	out.Lines = []v1.StatementLine{}
	for _, l := range lines {
		out.Lines = append(out.Lines, s.lineWire(l))
	}
	return out, nil
}

// evidence is the first difference, as far as the caller may see whose it is.
func (s *statement) evidence() string {
	if c := s.check; c.first == "" || c.account == 0 || s.may(access.JobRead, c.user, c.account) {
		return c.first
	}
	return "in what isn't yours to read: a manager of the account sees it"
}

// grants is each grant of the accounts as it stood at the beginning and at the end, and
// what was spent of others'.
func (s *statement) grants() ([]v1.StatementGrant, v1.StatementTotal) {
	type sums struct{ before, within, now store.MoneyDay }
	of := map[id.Grant]*sums{}
	first, end := s.span.Days()
	for _, d := range s.money {
		g, mine := s.ledger.Grants.Get(d.Grant)
		if mine = mine && slices.Contains(s.accounts, g.Account); !mine && (d.Day < first || d.Day >= end) {
			continue // of another's grant, only what these accounts spent in the period
		}
		x := of[d.Grant]
		if x == nil {
			x = &sums{}
			of[d.Grant] = x
		}
		switch {
		case d.Day < first:
			plus(&x.before, d)
		case d.Day < end:
			plus(&x.within, d)
		}
		plus(&x.now, d)
	}
	out, total := []v1.StatementGrant{}, store.MoneyDay{}
	var opening money.Micros
	for _, k := range slices.Sorted(maps.Keys(of)) {
		x := of[k]
		g, known := s.ledger.Grants.Get(k)
		if !known || !slices.Contains(s.accounts, g.Account) {
			if x.within.Spent != 0 {
				out = append(out, s.grantOfOthers(g, x.within.Spent))
			}
			continue
		}
		s.check.balance(g, x.now)
		begun := left(x.before)
		if g.Created >= s.span.To || begun == 0 && x.within == (store.MoneyDay{}) {
			continue
		}
		opening += begun
		plus(&total, x.within)
		out = append(out, s.grantLine(g, begun, x.before.Aside+x.within.Aside, x.within))
	}
	return out, v1.StatementTotal{
		Opening: opening.String(), Given: total.Given.String(), Spent: total.Spent.String(), Expired: total.Expired.String(),
		Left: (opening + left(total)).String(),
	}
}

func plus(sum *store.MoneyDay, d store.MoneyDay) {
	sum.Given, sum.Aside, sum.Spent, sum.Expired = sum.Given+d.Given, sum.Aside+d.Aside, sum.Spent+d.Spent, sum.Expired+d.Expired
}

// left is what a grant has by its sums, set aside or not.
func left(d store.MoneyDay) money.Micros { return d.Given - d.Spent - d.Expired }

func (s *statement) grantLine(g ledger.Grant, opening, aside money.Micros, d store.MoneyDay) v1.StatementGrant {
	rest := opening + left(d)
	return v1.StatementGrant{
		ID: decimal(g.ID), Account: s.account(g.Account), Source: g.Source, Start: moment(g.Start), End: moment(g.End), Subtree: g.Subtree,
		State: grantState(g, s.span.Until()), Opening: opening.String(), Given: d.Given.String(), Spent: d.Spent.String(), Expired: d.Expired.String(),
		Left: rest.String(), Deposits: aside.String(), Until: moment(pace(g, s.span.From, s.span.Until(), d.Spent, rest)),
	}
}

// grantOfOthers is what was spent of a grant of an account above, or beyond all grants.
func (s *statement) grantOfOthers(g ledger.Grant, spent money.Micros) v1.StatementGrant {
	out := v1.StatementGrant{Part: true, Spent: spent.String()}
	if g.ID != 0 {
		out.ID, out.Account, out.Source, out.Subtree = decimal(g.ID), s.account(g.Account), g.Source, g.Subtree
	}
	return out
}

// pace is when a grant of which rest is left is used up, if it is spent on as it was from
// one time to another; 0: that can't be said, or the grant ends before.
func pace(g ledger.Grant, from, to int64, spent, rest money.Micros) int64 {
	from = max(from, g.Start)
	if spent <= 0 || rest < 0 || from >= to || grantState(g, to) != "open" {
		return 0
	}
	const longest = 50 * 365 * Day
	lasts, ok := muldiv(int64(rest), to-from, int64(spent))
	if !ok || lasts > longest || g.End != 0 && to+lasts >= g.End {
		return 0
	}
	return to + lasts
}

// Day is a day of a statement, in ns.
const Day = store.Day

// members is what each account and each of its members spent.
func (s *statement) members() ([]v1.StatementAccount, []v1.StatementUser) {
	jobs := map[who]map[id.Job]bool{}
	for _, w := range s.work {
		k := s.whoOf(w)
		if jobs[k] == nil {
			jobs[k] = map[id.Job]bool{}
		}
		if w.job != 0 && (w.spent != 0 || len(w.tiles) > 0) {
			jobs[k][w.job] = true
		}
	}
	type sum struct {
		time deviceTime
		cost money.Micros
	}
	var all sum
	byAccount, byUser, models := map[id.Account]*sum{}, map[who]*sum{}, map[who][]v1.StatementModel{}
	for _, l := range s.lines(byMemberModel) {
		k := l.who
		if byAccount[k.account] == nil {
			byAccount[k.account] = &sum{}
		}
		if byUser[k] == nil {
			byUser[k] = &sum{}
		}
		for _, x := range []*sum{&all, byAccount[k.account], byUser[k]} {
			x.time.plus(l.time)
			x.cost += l.credits
		}
		models[k] = append(models[k], v1.StatementModel{Model: l.model, GPUHours: l.time.String(), Charged: l.credits.String()})
	}
	accounts, users := []v1.StatementAccount{{Account: s.own.Name, Below: true, GPUHours: all.time.String(), Charged: all.cost.String()}}, []v1.StatementUser{}
	for _, a := range s.accounts {
		if x := byAccount[a]; x != nil {
			accounts = append(accounts, v1.StatementAccount{Account: s.account(a), GPUHours: x.time.String(), Charged: x.cost.String()})
		}
	}
	for k, x := range byUser {
		users = append(users, v1.StatementUser{
			Account: s.account(k.account), User: s.nameOf(k), Jobs: int64(len(jobs[k])), GPUHours: x.time.String(), Charged: x.cost.String(), Models: models[k],
		})
	}
	slices.SortFunc(users, func(a, b v1.StatementUser) int {
		return cmp.Or(cmp.Compare(a.Account, b.Account), cmp.Compare(a.User, b.User))
	})
	return accounts, users
}
