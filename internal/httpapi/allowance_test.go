package httpapi

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/command"
)

// An allowance as it is set, listed with what it gave, repeated, refused and removed.
func TestAllowances(t *testing.T) {
	h := newHarness(t)
	root, ada := h.client("root"), h.client("ada")
	now := time.Unix(0, h.now.Load()).UTC()
	first := time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
	next := first.AddDate(0, 1, 0)
	in := v1.Allowance{
		Account: "nlp", Amount: "5", Per: "month", CarryOver: "2.5", From: first.Format(time.DateOnly), Until: next.AddDate(0, 1, -1).Format(time.DateOnly), Source: "DFG-7",
	}
	set, err := root.SetAllowance(t.Context(), in, v1.Key("a"))
	if err != nil {
		t.Fatal(err)
	}
	want := in
	want.Name, want.Amount, want.CarryOver, want.Grant, want.Next = "month", "5.000", "2.500", set.Grant, &next
	if diff := cmp.Diff(&want, set); diff != "" || set.Grant == "" {
		t.Errorf("set (-want +got):\n%s", diff)
	}
	again, err := root.SetAllowance(t.Context(), in, v1.Key("a"))
	if err != nil || cmp.Diff(set, again) != "" {
		t.Errorf("repeated: %+v, %v", again, err)
	}
	h.now.Store(next.UnixNano())
	h.system(command.AllowanceDue{Allowance: 1})
	list, err := v1.Collect(ada.Allowances(t.Context(), "nlp"))
	if err != nil || len(list) != 1 || list[0].Grant == set.Grant || list[0].Next != nil {
		t.Errorf("listed: %+v, %v", list, err)
	}
	grants, err := v1.Collect(ada.Grants(t.Context(), "nlp"))
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range grants {
		switch {
		case g.ID == set.Grant:
			if g.Amount != "5.000" || g.Carried != "2.500" || g.Available != "2.500" || g.Spent != "0.000" || g.Used != 0 || g.Allowance != "month" {
				t.Errorf("the old grant: %+v", g)
			}
		case len(list) == 1 && g.ID == list[0].Grant:
			if g.Amount != "7.500" || g.Source != "DFG-7 "+next.Format("2006-01") || g.Start == nil || !g.Start.Equal(next) {
				t.Errorf("the new grant: %+v", g)
			}
		}
	}
	for field, change := range map[string]func(*v1.Allowance){
		"amount": func(a *v1.Allowance) { a.Amount = "-5" }, "from": func(a *v1.Allowance) { a.From = "31.3.2027" }, "until": func(a *v1.Allowance) { a.Until = "2300-01-01" },
		"carry_over": func(a *v1.Allowance) { a.CarryOver = "200%" }, "per": func(a *v1.Allowance) { a.Per = "day" }, "grant": func(a *v1.Allowance) { a.Grant = "1" },
	} {
		bad := in
		bad.From, bad.Until = "", ""
		change(&bad)
		if _, err := root.SetAllowance(t.Context(), bad); v1.CodeOf(err) != codes.Invalid || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
	if err := root.RemoveAllowance(t.Context(), "nlp", "month"); err != nil {
		t.Error(err)
	}
	if err := root.RemoveAllowance(t.Context(), "nlp", "month"); v1.CodeOf(err) != codes.NotFound {
		t.Errorf("removed twice: %v", err)
	}
}
