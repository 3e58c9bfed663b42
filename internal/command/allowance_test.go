package command_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"croft.dev/croft/internal/allowance"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/money"
)

func utc(y int, m time.Month, d, h int) int64 {
	return time.Date(y, m, d, h, 0, 0, 0, time.UTC).UnixNano()
}

// Whatever can't be, is refused by the name of its field.
func TestAllowancesThatCantBe(t *testing.T) {
	s := newSim(t)
	root := s.user("root")
	for field, change := range map[string]func(*command.AllowancePut){
		"amount":     func(c *command.AllowancePut) { c.Amount = 0 },
		"amount ":    func(c *command.AllowancePut) { c.Amount = -1 },
		"amount  ":   func(c *command.AllowancePut) { c.Amount = math.MaxInt64 },
		"per":        func(c *command.AllowancePut) { c.Per = limits.Day },
		"per ":       func(c *command.AllowancePut) { c.Per = "" },
		"name":       func(c *command.AllowancePut) { c.Name = "a/b" },
		"source":     func(c *command.AllowancePut) { c.Source = "Platform" },
		"source ":    func(c *command.AllowancePut) { c.Source = "a\nb" },
		"carry_over": func(c *command.AllowancePut) { c.Carry = limits.Carry{Milli: 1001} },
		"carry_over ": func(c *command.AllowancePut) {
			c.Carry = limits.Carry{Amount: -1}
		},
		"carry_over  ": func(c *command.AllowancePut) { c.Carry = limits.Carry{Amount: math.MaxInt64} },
		"until":        func(c *command.AllowancePut) { c.Until = s.now },
		"until ":       func(c *command.AllowancePut) { c.From, c.Until = s.now+2, s.now+1 },
	} {
		c := command.AllowancePut{Account: "nlp", Amount: money.Credit, Per: limits.Month}
		change(&c)
		_, err := s.do(root, c)
		f, ok := err.(*fault.Error)
		if !ok || f.Code != "invalid" || len(f.Fields) == 0 || f.Fields[0].Path != strings.TrimSpace(field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// Periods begin and end where the calendar says, of UTC.
func TestAllowancePeriods(t *testing.T) {
	for name, tt := range map[string]struct {
		per      limits.Unit
		now      int64
		from, to int64
		source   string
	}{
		"a short month":          {limits.Month, utc(2027, 2, 1, 0), utc(2027, 2, 1, 0), utc(2027, 3, 1, 0), "allowance month 2027-02"},
		"a leap year's":          {limits.Month, utc(2028, 2, 29, 23), utc(2028, 2, 29, 23), utc(2028, 3, 1, 0), "allowance month 2028-02"},
		"the last moment":        {limits.Month, utc(2027, 1, 1, 0) - 1, utc(2027, 1, 1, 0) - 1, utc(2027, 1, 1, 0), "allowance month 2026-12"},
		"a quarter":              {limits.Quarter, utc(2027, 6, 30, 23), utc(2027, 6, 30, 23), utc(2027, 7, 1, 0), "allowance quarter 2027-Q2"},
		"a week of two years":    {limits.Week, utc(2027, 1, 1, 0), utc(2027, 1, 1, 0), utc(2027, 1, 4, 0), "allowance week 2026-W53"},
		"a year that begins now": {limits.Year, utc(2027, 1, 1, 0), utc(2027, 1, 1, 0), utc(2028, 1, 1, 0), "allowance year 2027"},
	} {
		s := newSim(t)
		s.now = tt.now
		s.must(t, s.user("root"), command.AllowancePut{Account: "nlp", Amount: money.Credit, Per: tt.per})
		_, g, _ := s.w.Ledger.Grants.Last()
		if g.Start != tt.from || g.End != tt.to || g.Source != tt.source || g.Amount != money.Credit {
			t.Errorf("%s: %+v", name, g)
		}
	}
}

// The same name again gives nothing twice, removed or not, and a bound on what is carried over
// holds up to the greatest amounts.
func TestAllowanceOncePerPeriod(t *testing.T) {
	s := newSim(t)
	root := s.user("root")
	s.now = utc(2027, 1, 10, 0)
	put := command.AllowancePut{Account: "nlp", Amount: 1e15, Per: limits.Month, Carry: limits.Carry{Milli: 1000}}
	k := s.must(t, root, put).(allowance.Allowance).ID
	s.must(t, root, put)
	s.must(t, root, command.AllowanceRemove{Account: "nlp", Name: "month"})
	s.must(t, root, put)
	if _, g, _ := s.w.Ledger.Grants.Last(); s.w.Ledger.Grants.Len() != 2 || g.Amount != 1e15 {
		t.Fatalf("%d grants, the last is %+v", s.w.Ledger.Grants.Len(), g)
	}
	for m := time.Month(2); m <= 12; m++ {
		s.now = utc(2027, m, 1, 0)
		s.must(t, system, command.AllowanceDue{Allowance: k})
	}
	if _, g, _ := s.w.Ledger.Grants.Last(); g.Amount != 2e15 {
		t.Errorf("%s in the end", g.Amount)
	}
	if _, err := s.do(root, command.AccountRemove{Name: "nlp", Expire: true}); err == nil || !strings.Contains(err.Error(), "allowance month") {
		t.Errorf("removing an account that is given credits each month: %v", err)
	}
}

// After any time without a server, what was left is carried over and doesn't expire before.
func TestAllowanceAfterMissedPeriods(t *testing.T) {
	s := newSim(t)
	s.now = utc(2027, 1, 10, 0)
	k := s.must(t, s.user("root"), command.AllowancePut{Account: "nlp", Amount: money.Credit, Per: limits.Month, Carry: limits.Carry{Amount: 400_000}}).(allowance.Allowance).ID
	s.now = utc(2027, 6, 15, 0)
	s.must(t, system, command.GrantExpire{Grant: 2}) // before what is due
	s.must(t, system, command.AllowanceDue{Allowance: k})
	s.must(t, system, command.GrantExpire{Grant: 2})
	last, g, _ := s.w.Ledger.Grants.Last()
	if last != id.Grant(3) || g.Start != utc(2027, 6, 1, 0) || g.Amount != 1_400_000 || s.w.Ledger.Balance(ledger.Expired) != 600_000 {
		t.Errorf("grant %d is %+v, %s expired", last, g, s.w.Ledger.Balance(ledger.Expired))
	}
	// Of an account that is over nothing is due, and its grant doesn't wait.
	ends := utc(2027, 6, 20, 0)
	s.must(t, s.user("root"), command.AccountPut{Name: "nlp", Ends: &ends})
	s.now = utc(2027, 8, 15, 0)
	s.must(t, system, command.AllowanceDue{Allowance: k})
	s.must(t, system, command.GrantExpire{Grant: 3})
	if s.w.Ledger.Grants.Len() != 3 || s.w.Ledger.Balance(ledger.Expired) != 2_000_000 {
		t.Errorf("%d grants, %s expired", s.w.Ledger.Grants.Len(), s.w.Ledger.Balance(ledger.Expired))
	}
}
