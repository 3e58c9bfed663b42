package query

import (
	"time"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/allowance"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/limits"
)

// Allowances lists the allowances of an account, or of all that the caller may look into.
func (r *Reader) Allowances(p access.Principal, account string) ([]v1.Allowance, error) {
	v := r.view(p)
	var only id.Account
	if account != "" {
		a, err := v.accountNamed(account)
		if err != nil {
			return nil, err
		}
		only = a.ID
	}
	out := []v1.Allowance{}
	for _, a := range v.w.Allowances.Rules.All() {
		if !a.Removed && (only == 0 || a.Account == only) && v.may(access.AccountRead, 0, a.Account) {
			out = append(out, v.allowanceWire(a))
		}
	}
	return out, nil
}

// Allowance is one as the API shows it now.
func (r *Reader) Allowance(p access.Principal, a allowance.Allowance) v1.Allowance {
	return r.view(p).allowanceWire(a)
}

// AllowanceMade finds the one that a repeated request set.
func (r *Reader) AllowanceMade(p access.Principal, account, name string) (made v1.Allowance, ok bool) {
	v := r.view(p)
	acc, _ := v.w.Tenancy.Account(account)
	a, ok := v.w.Allowances.Named(acc.ID, name)
	return v.allowanceWire(a), ok && !a.Removed
}

// allowanceName is how a grant names the rule that gave it.
func (v view) allowanceName(k id.Allowance) string {
	a, _ := v.w.Allowances.Rules.Get(k)
	return a.Name
}

func (v view) allowanceWire(a allowance.Allowance) v1.Allowance {
	out := v1.Allowance{
		Account: v.account(a.Account), Name: a.Name, Amount: a.Amount.String(), Per: string(a.Per), From: dateOf(a.From), CarryOver: a.Carry.Text(limits.Credits),
		Source: a.Source, Subtree: a.Subtree,
	}
	if a.Until != 0 {
		out.Until = dateOf(a.Until - 1)
	}
	if a.Last != 0 {
		out.Grant = decimal(a.Last)
	}
	if next, ok := a.Next(); ok {
		out.Next = moment(next)
	}
	return out
}

// dateOf is the day of UTC that a moment is in.
func dateOf(ns int64) string { return time.Unix(0, ns).UTC().Format(time.DateOnly) }
