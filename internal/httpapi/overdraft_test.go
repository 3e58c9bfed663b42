package httpapi

import (
	"testing"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/internal/money"
)

// An admin says how far an account may go beyond its grants, when it is made or later; who
// manages it sees that, and doesn't say it.
func TestOverdraft(t *testing.T) {
	h := newHarness(t)
	text := func(s string) *string { return &s }
	made := get[v1.Account](h, 201, request{method: "POST", path: "/v1/accounts", user: "root", body: v1.Account{Name: "lab", Billing: "enforce", OutOfCredit: "overdraft", Overdraft: "2.5"}})
	if made.OutOfCredit != "overdraft" || made.Overdraft != "2.500" {
		t.Errorf("%+v", made)
	}
	set := v1.AccountPatch{OutOfCredit: text("overdraft"), Overdraft: text("50")}
	usable := func() money.Micros {
		t.Helper()
		n, err := money.Parse(get[v1.Quote](h, 200, request{method: "POST", path: "/v1/quotes", user: "ada", body: example()}).Balance)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := usable()
	get[v1.Problem](h, 403, request{method: "PATCH", path: "/v1/accounts/nlp", user: "mia", body: set})
	if got := get[v1.Account](h, 200, request{method: "PATCH", path: "/v1/accounts/nlp", user: "root", body: set}); got.Overdraft != "50.000" {
		t.Errorf("%+v", got)
	}
	if now := usable(); now != before+50*money.Credit {
		t.Errorf("a quote says that %s are usable, it was %s", now, before)
	}
	if got := get[v1.Account](h, 200, request{method: "GET", path: "/v1/accounts/nlp", user: "mia"}); got.OutOfCredit != "overdraft" || got.Overdraft != "50.000" || got.Balance.Overdrawn != "" {
		t.Errorf("%+v", got)
	}
	for _, bad := range []string{"", "much", "-1", "0", "1e3", "0.0000001", "99999999999999999999", "9223372036854.775807"} {
		got := get[v1.Problem](h, 422, request{method: "PATCH", path: "/v1/accounts/nlp", user: "root", body: v1.AccountPatch{Overdraft: &bad}})
		if len(got.Fields) != 1 || got.Fields[0].Path != "overdraft" {
			t.Errorf("%q: %+v", bad, got)
		}
	}
	if got := get[v1.Account](h, 200, request{method: "PATCH", path: "/v1/accounts/nlp", user: "root", body: v1.AccountPatch{OutOfCredit: text("stop")}}); got.OutOfCredit != "stop" || got.Overdraft != "" {
		t.Errorf("%+v", got)
	}
}
