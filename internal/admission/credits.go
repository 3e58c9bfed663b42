package admission

import (
	"fmt"
	"iter"
	"math"

	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/tenancy"
	"croft.dev/croft/internal/workload"
)

// capped refuses a deposit with which its user would have spent and set aside more in an
// account than a cap allows. At Start it waits: for a new period, or for what returns.
func (d *decision) capped(need money.Micros) {
	for _, b := range d.Limits.Caps(d.who(), d.Now) {
		b = d.Charged(b)
		d.out.Caps = append(d.out.Caps, b)
		if int64(need) > b.Left() {
			d.refuse(d.violation(limits.Violation{Bound: b, Asked: int64(need), Never: d.Gate == Accept}))
		}
	}
}

// Charged completes a limit on credits with what was charged in its period; of one for
// each user it is about whoever has used most. Other limits are left as they are. What is
// refunded of earlier periods makes no room beyond the cap.
func (v View) Charged(b limits.Bound) limits.Bound {
	l := b.Limit
	if l.Resource != limits.Credits {
		return b
	}
	b.From, b.To = l.Span(v.Now)
	if t := b.Token.ID; t != 0 {
		b.Spent = max(int64(v.Ledger.SpentByToken(t, b.From)), 0)
		b.Used += b.Spent
		return b
	}
	if l.Scope.User == limits.Each {
		b.Used = 0
		for _, of := range v.Capped(l) {
			if of.Used > b.Used {
				b.Used, b.Spent = of.Used, of.Spent
			}
		}
		return b
	}
	spent := v.Ledger.SpentBy(l.Scope.User, b.From, func(a id.Account) bool { return v.Tenancy.Within(a, l.Scope.Account) })
	b.Spent = max(int64(spent), 0)
	b.Used += b.Spent
	return b
}

// Capped yields whom a limit on credits binds, with what each has used of it.
func (v View) Capped(l limits.Limit) iter.Seq2[id.User, limits.Bound] {
	return func(yield func(id.User, limits.Bound) bool) {
		for u := range v.Tenancy.Users.All() {
			if l.Scope.User != limits.Each && l.Scope.User != u {
				continue
			}
			if b, binds := v.Limits.BoundFor(l, u, v.Now); binds && !yield(u, v.Charged(b)) {
				return
			}
		}
	}
}

// overCap words a cap that a deposit would pass.
func overCap(v limits.Violation, scope, account string) string {
	aside, do := money.Micros(v.Used-v.Spent), "whoever manages "+account+" can set another cap"
	if v.Token.ID != 0 {
		do = "only another token can have another cap: croft user token create"
	}
	return fmt.Sprintf("the deposit is %s, %s has %s left of %s credits%s: %s spent, %s set aside; %s",
		money.Micros(v.Asked), scope, money.Micros(v.Left()), money.Micros(v.Max), during(v.Bound), money.Micros(v.Spent), aside, do)
}

// usable is what may be set aside for a request, with what is already.
func (v Verdict) usable(mode tenancy.Billing, j *workload.Job) money.Micros {
	most := money.Micros(math.MaxInt64) / 2
	if mode == tenancy.BillingEnforce {
		most = money.Micros(v.Before)
	}
	for _, b := range v.Caps {
		most = min(most, money.Micros(b.Left()))
	}
	return most + aside(j)
}
