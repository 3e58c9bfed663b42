package httpapi

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/sequencer"
)

// A hundred requests at once of one who may spend enough for two: two are accepted, and
// what is set aside is within the cap.
func TestAHundredForTheLastCredit(t *testing.T) {
	const crowd = 100
	h := newHarness(t)
	h.as("root", command.GrantGive{Account: "nlp", Amount: 10_000 * money.Credit, Source: "enough"})
	quote := get[v1.Quote](h, 200, request{method: "POST", path: "/v1/quotes", user: "ada", body: example()})
	one, err := money.Parse(quote.Price.Total)
	if err != nil {
		t.Fatal(err)
	}
	most := v1.Quantity((2*one + one/2).String())
	put := v1.Limit{Account: "nlp", User: "ada", Resource: "credits", Max: most, Per: "month"}
	get[v1.LimitUse](h, 200, request{method: "POST", path: "/v1/limits", user: "mia", body: put})

	ada, _ := h.seq.World().Tenancy.User("ada")
	spec := parsed(t, h)
	var accepted, refused atomic.Int32
	var all sync.WaitGroup
	for range crowd {
		all.Go(func() {
			_, err := h.seq.Do(context.Background(), sequencer.Actor{User: ada.ID}, command.Submit{Spec: spec}, sequencer.Key{})
			switch {
			case err == nil:
				accepted.Add(1)
			case strings.Contains(err.Error(), "user ada in account nlp has"):
				refused.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	all.Wait()
	if accepted.Load() != 2 || refused.Load() != crowd-2 {
		t.Errorf("%d accepted, %d refused", accepted.Load(), refused.Load())
	}
	left := v1.Quantity((one / 2).String())
	for _, path := range []string{"/v1/limits?user=ada", "/v1/accounts/nlp"} {
		var list []v1.LimitUse
		if strings.HasPrefix(path, "/v1/limits") {
			list = get[v1.Page[v1.LimitUse]](h, 200, request{method: "GET", path: path, user: "ada"}).Items
		} else {
			list = get[v1.Account](h, 200, request{method: "GET", path: path, user: "mia"}).Usage
		}
		found := false
		for _, l := range list {
			if l.Resource == "credits" {
				found = true
				if l.Used != v1.Quantity((2*one).String()) || l.Spent != "0.000" || l.Left != left || l.Until.Format("2006-01-02") != "2026-12-01" {
					t.Errorf("%s: %+v", path, l)
				}
			}
		}
		if !found {
			t.Errorf("%s doesn't list the cap", path)
		}
	}
	quote = get[v1.Quote](h, 200, request{method: "POST", path: "/v1/quotes", user: "ada", body: example()})
	if quote.Admitted || len(quote.Caps) != 1 || quote.Caps[0].Left != left || quote.Reasons[0].Code != "LIMIT_CREDITS" || quote.Remedy == nil {
		t.Errorf("%+v", quote)
	}
	put.Max = "0.5"
	over := get[v1.LimitUse](h, 200, request{method: "POST", path: "/v1/limits", user: "mia", body: put})
	if over.Over == "" || len(over.Users) != 1 || over.Users[0].User != "ada" {
		t.Errorf("%+v", over)
	}
	get[v1.Problem](h, 403, request{method: "POST", path: "/v1/limits", user: "ada", body: put})
	get[v1.Problem](h, 403, request{method: "DELETE", path: "/v1/limits/" + over.ID, user: "ada"})
	h.send(request{method: "DELETE", path: "/v1/limits/" + over.ID, user: "mia"})
	if n := h.seq.World().Limits.Limits.Len(); n != 0 {
		t.Errorf("%d limits are left", n)
	}
}

// What a cap can't be says which field.
func TestCapsThatCantBe(t *testing.T) {
	h := newHarness(t)
	tests := map[string]struct {
		limit v1.Limit
		field string
	}{
		"whose account":  {v1.Limit{User: "ada", Max: "1"}, "account"},
		"whose":          {v1.Limit{Account: "nlp", Max: "1"}, "user"},
		"in a partition": {v1.Limit{Account: "nlp", User: "ada", Partition: "main", Max: "1"}, "partition"},
		"rolling":        {v1.Limit{Account: "nlp", User: "ada", Max: "1", Per: "rolling 7d"}, "per"},
		"carried over":   {v1.Limit{Account: "nlp", User: "ada", Max: "1", Per: "month", CarryOver: "50%"}, "carry_over"},
		"negative":       {v1.Limit{Account: "nlp", User: "ada", Max: "-1"}, "max"},
		"too fine":       {v1.Limit{Account: "nlp", User: "ada", Max: "0.0000001"}, "max"},
		"too much":       {v1.Limit{Account: "nlp", User: "ada", Max: "99999999999999999999"}, "max"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			tt.limit.Resource = "credits"
			p := get[v1.Problem](h, 422, request{method: "POST", path: "/v1/limits", user: "olga", body: tt.limit})
			if len(p.Fields) != 1 || p.Fields[0].Path != tt.field {
				t.Errorf("%+v, want %s", p, tt.field)
			}
		})
	}
}
