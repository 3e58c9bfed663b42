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
	"croft.dev/croft/internal/metering"
	"croft.dev/croft/internal/store"
)

// periodName is a span of whole days as parsePeriod reads it.
func periodName(from, to int64) string {
	begin, end := time.Unix(0, from).UTC(), time.Unix(0, to).UTC()
	switch {
	case begin.Day() == 1 && end.Equal(begin.AddDate(0, 1, 0)):
		return begin.Format("2006-01")
	case end.Equal(begin.AddDate(0, 0, 1)):
		return begin.Format(time.DateOnly)
	}
	return begin.Format(time.DateOnly) + ".." + end.AddDate(0, 0, -1).Format(time.DateOnly)
}

func (r *Reader) booksView(p access.Principal) (view, error) {
	v := r.view(p)
	if !v.may(access.LedgerAll, 0, 0) {
		return v, fault.New(codes.Denied, "periods are for operators and auditors")
	}
	return v, nil
}

// Periods lists closed periods, and since the first grant the months of which no day is
// closed, the newest first.
func (r *Reader) Periods(ctx context.Context, p access.Principal) ([]v1.Period, error) {
	v, err := r.booksView(p)
	if err != nil {
		return nil, err
	}
	out := []v1.Period{}
	err = r.History.Books(ctx, func(b *store.Books) error {
		for _, c := range v.w.Ledger.Closed.All() {
			row, err := v.periodWire(b, c)
			if err != nil {
				return err
			}
			out = append(out, row)
		}
		return nil
	})
	first := v.now
	for _, g := range v.w.Ledger.Grants.All() {
		first = min(first, g.Created)
	}
	month := time.Unix(0, first).UTC()
	for month = time.Date(month.Year(), month.Month(), 1, 0, 0, 0, 0, time.UTC); month.UnixNano() <= v.now; month = month.AddDate(0, 1, 0) {
		span := store.Period{From: month.UnixNano(), To: month.AddDate(0, 1, 0).UnixNano()}
		if len(v.w.Ledger.ClosedIn(span.From, span.To)) == 0 {
			out = append(out, v.openWire(span))
		}
	}
	slices.SortFunc(out, func(a, b v1.Period) int { return b.From.Compare(a.From) })
	return out, readErr(err, "", "")
}

func (v view) openWire(span store.Period) v1.Period {
	out := v1.Period{Period: periodName(span.From, span.To), From: at(span.From), To: at(span.To), State: "open"}
	if v.now < span.To {
		out.State = "current"
	}
	return out
}

func (v view) periodWire(b *store.Books, p ledger.Period) (v1.Period, error) {
	hash, err := b.ClosedHash(p)
	return v1.Period{
		Period: periodName(p.From, p.To), From: at(p.From), To: at(p.To), State: "closed", Closed: moment(p.Closed), By: v.user(p.By), Hash: hash,
	}, err
}

// Period is one with its sums as they are kept, or with what keeps it from being closed.
func (r *Reader) Period(ctx context.Context, p access.Principal, name string) (v1.Period, error) {
	v, err := r.booksView(p)
	if err != nil {
		return v1.Period{}, err
	}
	span, err := parsePeriod(name, time.Unix(0, v.now))
	if err != nil {
		return v1.Period{}, err
	}
	span.Now = v.now
	closed := v.w.Ledger.ClosedIn(span.From, span.To)
	if len(closed) == 1 && closed[0].From == span.From && closed[0].To == span.To {
		var out v1.Period
		err := r.History.Books(ctx, func(b *store.Books) (err error) {
			out, err = v.closedWire(b, closed[0])
			return err
		})
		return out, readErr(err, "", "")
	}
	out := v.openWire(span)
	switch {
	case len(closed) > 0:
		out.Open = append(out.Open, periodName(closed[0].From, closed[0].To)+" is closed already: name what isn't")
		return out, nil
	case out.State == "current":
		out.Open = append(out.Open, "it isn't over: wait until "+stamp(span.To))
	}
	for _, u := range metering.UnsettledBy(&v.w.Catalog, &v.w.Workload, min(span.To, v.now)) {
		if out.State != "current" {
			out.Open = append(out.Open, u.String())
		}
	}
	difference, err := r.differs(ctx, v, span)
	if difference != "" {
		out.Open = append(out.Open, "it isn't verified: "+difference+": see croft ledger verify")
	}
	return out, readErr(err, "", "")
}

// ClosedPeriod is one that was closed just now, whoever may read others.
func (r *Reader) ClosedPeriod(ctx context.Context, p access.Principal, from, to int64) (v1.Period, error) {
	v := r.view(p)
	var out v1.Period
	err := r.History.Books(ctx, func(b *store.Books) (err error) {
		for _, c := range v.w.Ledger.ClosedIn(from, to) {
			out, err = v.closedWire(b, c)
		}
		return err
	})
	return out, readErr(err, "", "")
}

// closedWire is what is kept of a period.
func (v view) closedWire(b *store.Books, p ledger.Period) (v1.Period, error) {
	out, err := v.periodWire(b, p)
	if err != nil {
		return out, err
	}
	err = b.Closed(p, nil, func(c store.ClosedBook) error {
		var sum store.MoneyDay
		for _, m := range c.Money {
			plus(&sum, m)
		}
		if len(c.Money) > 0 {
			out.Accounts = append(out.Accounts, v1.PeriodAccount{
				Account: c.Account.Name, Given: sum.Given.String(), Spent: sum.Spent.String(), Expired: sum.Expired.String(), Hash: c.Hash,
			})
		}
		return nil
	})
	if err != nil {
		return out, err
	}
	slices.SortFunc(out.Accounts, func(a, b v1.PeriodAccount) int { return cmp.Compare(a.Account, b.Account) })
	_, out.Difference, err = b.ClosedDiffers(p, nil)
	out.Verified = err == nil && out.Difference == ""
	return out, err
}

// MayClose says why a period can't be closed, as far as the decision to close it doesn't:
// what it would keep must be verified. It returns the period's days.
func (r *Reader) MayClose(ctx context.Context, p access.Principal, name string) (from, to int64, err error) {
	v := r.view(p)
	if !v.may(access.PeriodClose, 0, 0) {
		return 0, 0, fault.New(codes.Denied, "only operators may close periods")
	}
	if name == "" {
		return 0, 0, fault.Invalid("period", "which one? 2026-11, for example")
	}
	span, err := parsePeriod(name, time.Unix(0, v.now))
	if err != nil || v.now < span.To || len(v.w.Ledger.ClosedIn(span.From, span.To)) > 0 {
		return span.From, span.To, err // the decision says that
	}
	span.Now = v.now
	difference, err := r.differs(ctx, v, span)
	if err == nil && difference != "" {
		err = fault.New(codes.Conflict, "%s isn't verified: %s: see croft ledger verify", name, difference)
	}
	return span.From, span.To, readErr(err, "", "")
}

// differs is the first difference between postings, metered time and device time of a
// period, whoever's they are.
func (r *Reader) differs(ctx context.Context, v view, span store.Period) (string, error) {
	s := &statement{view: v, span: span, ledger: &v.w.Ledger, work: map[id.Attempt]*work{}}
	for k := range v.w.Tenancy.Accounts.All() {
		s.accounts = append(s.accounts, k)
	}
	m := &machine{view: v, span: span}
	err := r.History.Books(ctx, func(b *store.Books) error {
		if err := s.read(b); err != nil {
			return err
		}
		if err := s.verify(b); err != nil {
			return err
		}
		s.grants() // which compares their balances
		return m.read(b, nil)
	})
	return cmp.Or(s.check.first, m.check.first), err
}
