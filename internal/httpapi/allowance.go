package httpapi

import (
	"time"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/allowance"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/money"
)

func allowanceOperations() []operation {
	return []operation{
		ask("listAllowances", "GET /v1/allowances", "What accounts that you may look into are given period after period", access.AccountRead, (*call).allowances,
			param{"account", "only of this account"}),
		tell("setAllowance", "POST /v1/allowances", "Have an account given credits in each period; one of the same name is replaced, for later periods", access.MoneyGive, ok, (*call).setAllowance),
		drop("removeAllowance", "DELETE /v1/allowances/{account}/{name}", "End an allowance; what it gave stays", access.MoneyGive, (*call).removeAllowance),
	}
}

func (c *call) allowances() (v1.Page[v1.Allowance], error) {
	return page(c.Reader.Allowances(c.p, c.r.URL.Query().Get("account")))
}

func (c *call) setAllowance(in v1.Allowance) (v1.Allowance, error) {
	cmd := command.AllowancePut{Account: in.Account, Name: in.Name, Per: limits.Unit(in.Per), Source: in.Source, Subtree: in.Subtree}
	var bad fault.Fields
	var err error
	if cmd.Amount, err = money.Parse(in.Amount); err != nil {
		bad.Add("amount", "must be credits such as 500 or 2.5")
	}
	if cmd.Carry, err = limits.ParseCarry(limits.Credits, in.CarryOver); err != nil {
		bad.Add("carry_over", "must be a share such as 50%% or credits")
	}
	cmd.From = day(&bad, "from", in.From)
	if cmd.Until = day(&bad, "until", in.Until); cmd.Until != 0 {
		cmd.Until += int64(24 * time.Hour)
	}
	if in.Grant != "" || in.Next != nil {
		bad.Add("grant", "grant and next aren't set here")
	}
	if err := bad.Err(); err != nil {
		return v1.Allowance{}, err
	}
	got, err := c.do(cmd)
	if err != nil {
		return v1.Allowance{}, err
	}
	if got.Replayed != nil {
		return before(c.Reader.AllowanceMade(c.p, in.Account, orWord(in.Name, in.Per)))
	}
	row, ok := got.Result.(allowance.Allowance)
	if !ok {
		return v1.Allowance{}, unexpected(got)
	}
	return c.Reader.Allowance(c.p, row), nil
}

func (c *call) removeAllowance() error {
	_, err := c.do(command.AllowanceRemove{Account: c.path("account"), Name: c.path("name")})
	return err
}

// day is the first moment of a day of UTC, in ns; 0: none is given.
func day(bad *fault.Fields, field, text string) int64 {
	if text == "" {
		return 0
	}
	t, err := time.Parse(time.DateOnly, text)
	if err != nil || t.Year() < 1970 || t.Year() >= 2200 {
		bad.Add(field, "must be a day such as 2027-01-31, between the years 1970 and 2200")
		return 0
	}
	return max(t.UnixNano(), 1)
}
