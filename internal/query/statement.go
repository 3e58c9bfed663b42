package query

import (
	"cmp"
	"context"
	"slices"
	"time"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/quantity"
	"croft.dev/croft/internal/store"
	"croft.dev/croft/internal/tenancy"
)

// Statement says where an account's money went in a period. For operators and
// auditors it has the machine's own balance too.
func (r *Reader) Statement(ctx context.Context, p access.Principal, account, period string) (v1.Statement, error) {
	v := r.view(p)
	a, err := v.accountNamed(account)
	if err != nil {
		return v1.Statement{}, err
	}
	if !v.may(access.AccountRead, 0, a.ID) {
		return v1.Statement{}, fault.New(codes.Denied, "the statement of %s isn't yours to read", a.Name)
	}
	span, err := parsePeriod(period, time.Unix(0, v.now))
	if err != nil {
		return v1.Statement{}, err
	}
	out := v1.Statement{Account: a.Name, From: at(span.From), To: at(span.To), Grants: []v1.Grant{}}
	span.To = min(span.To, v.now+1) // open tiles count up to the present, which is part of it
	if out.Grants, err = r.statementGrants(ctx, v, a, span); err != nil {
		return out, readErr(err, "", "")
	}
	if out.Users, err = r.statementUsers(ctx, v, a, span); err != nil {
		return out, readErr(err, "", "")
	}
	if v.may(access.LedgerAll, 0, 0) {
		if out.Devices, err = r.statementNodes(ctx, span); err != nil {
			return out, readErr(err, "", "")
		}
	}
	out.Verified, err = r.spentAgrees(ctx, a, v.now)
	return out, readErr(err, "", "")
}

// statementGrants is each grant as it stood at the end of the period, with what
// was spent of it within the period.
func (r *Reader) statementGrants(ctx context.Context, v view, a tenancy.Account, span store.Period) ([]v1.Grant, error) {
	uses, err := r.History.GrantUses(ctx, a.ID, span)
	if err != nil {
		return nil, err
	}
	out := []v1.Grant{}
	for _, u := range uses {
		if u.Grant.Created >= span.To {
			continue
		}
		ever, within := map[ledger.Kind]money.Micros{}, map[ledger.Kind]money.Micros{}
		for _, m := range u.Moves {
			ever[m.Kind], within[m.Kind] = m.Ever, m.Period
		}
		g := v.grantWire(u.Grant)
		g.State = grantState(u.Grant, span.To)
		aside := ever[ledger.KindDeposit] - ever[ledger.KindCharge] + ever[ledger.KindCorrect] - ever[ledger.KindReturn]
		rest := ever[ledger.KindGrant] - ever[ledger.KindDeposit] + ever[ledger.KindReturn] + ever[ledger.KindRefund] - ever[ledger.KindExpire]
		if ever[ledger.KindExpire] > 0 {
			rest = 0 // what returned since went to expired as well
		}
		g.Available, g.Deposits = rest.String(), aside.String()
		g.Spent = (within[ledger.KindCharge] - within[ledger.KindCorrect] - within[ledger.KindRefund]).String()
		out = append(out, g)
	}
	return out, nil
}

// statementUsers is each member's charges and the device time behind them.
func (r *Reader) statementUsers(ctx context.Context, v view, a tenancy.Account, span store.Period) ([]v1.StatementUser, error) {
	charges, err := r.History.Charges(ctx, a.ID, span)
	if err != nil {
		return nil, err
	}
	times, err := r.History.AccountTime(ctx, a.ID, span)
	if err != nil {
		return nil, err
	}
	type sum struct {
		jobs    int64
		charged money.Micros
		device  deviceHours
	}
	sums := map[id.User]*sum{}
	of := func(u id.User) *sum {
		if sums[u] == nil {
			sums[u] = &sum{}
		}
		return sums[u]
	}
	for _, c := range charges {
		of(c.User).charged += signed(c)
		if c.Kind == ledger.KindCharge {
			of(c.User).jobs += c.Jobs
		}
	}
	for _, t := range times {
		of(t.User).device.add(t)
	}
	out := []v1.StatementUser{}
	for u, s := range sums {
		name := v.user(u)
		if u == 0 {
			name, s.jobs = "(reserved, unused)", 0
		}
		out = append(out, v1.StatementUser{User: name, Jobs: s.jobs, GPUHours: s.device.String(), Charged: s.charged.String()})
	}
	slices.SortFunc(out, func(a, b v1.StatementUser) int { return cmp.Compare(a.User, b.User) })
	return out, nil
}

// signed is a charge as what it adds to what was spent.
func signed(c store.Charge) money.Micros {
	if c.Kind == ledger.KindCharge {
		return c.Amount
	}
	return -c.Amount
}

// statementNodes is where each machine's device time went.
func (r *Reader) statementNodes(ctx context.Context, span store.Period) ([]v1.StatementNode, error) {
	times, err := r.History.MachineTime(ctx, "", span)
	if err != nil {
		return nil, err
	}
	var out []v1.StatementNode
	var total deviceHours
	by := map[string]*deviceHours{}
	flush := func(node string) {
		n := v1.StatementNode{Node: node, Total: total.String(), By: map[string]string{}}
		for cause, h := range by {
			n.By[cause] = h.String()
		}
		out = append(out, n)
		total = deviceHours{}
		clear(by)
	}
	for i, t := range times {
		cause := string(t.Cause)
		if t.Cause == ledger.CauseUsed {
			cause = "users"
		}
		if by[cause] == nil {
			by[cause] = &deviceHours{}
		}
		by[cause].add(t)
		total.add(t)
		if i == len(times)-1 || times[i+1].Node != t.Node {
			flush(t.Node)
		}
	}
	return out, nil
}

// deviceHours adds device time up, in thousandths of a device-second.
type deviceHours struct{ milliSeconds int64 }

func (d *deviceHours) add(t store.DeviceTime) {
	d.milliSeconds += t.Seconds*t.Milli + t.Nanos/1000*t.Milli/1e6
}

// String is in hours to a thousandth, rounded down.
func (d *deviceHours) String() string { return quantity.FormatDecimal(d.milliSeconds/3600, 3, 1) }

// spentAgrees compares what the account was ever charged, by its transfers, with
// the balance of what it has spent. A commit in between is no difference, so it
// looks again.
func (r *Reader) spentAgrees(ctx context.Context, a tenancy.Account, now int64) (bool, error) {
	for range 3 {
		before := r.Worlds.World().Ledger
		all, err := r.History.Charges(ctx, a.ID, store.Period{To: max(now, r.Now()) + 1})
		if err != nil {
			return false, err
		}
		var sum money.Micros
		for _, c := range all {
			sum += signed(c)
		}
		if sum == before.Balance(ledger.Spent(a.ID)) {
			return true, nil
		}
	}
	return false, nil
}
