package command_test

import (
	"testing"

	"pgregory.net/rapid"

	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/workload"
)

// Whatever jobs do, and is given, in an account that may go beyond its grants: it never does
// so further than it may, and what is given repays that at once.
func TestOverdraftsHold(t *testing.T) {
	seen := map[ledger.Kind]int{}
	rapid.Check(t, func(t *rapid.T) {
		h := newHistory(t)
		h.overdraws(t)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			h.money(t)
			h.check(t)
		}
		h.finish(t)
		for _, tr := range h.transfers {
			seen[tr.Kind]++
		}
	})
	if seen[ledger.KindRepay] == 0 {
		t.Error("nothing was repaid")
	}
}

// money does something that moves some.
func (h *history) money(t *rapid.T) {
	h.now += rapid.Int64Range(0, hour/2).Draw(t, "passes")
	root, job := h.user("root"), id.Job(0)
	if len(h.ids) > 0 {
		job = rapid.SampledFrom(h.ids).Draw(t, "job")
	}
	switch rapid.IntRange(0, 10).Draw(t, "kind") {
	case 0, 1:
		spec := example()
		spec.Account, spec.Time, spec.GPU = "nlp", rapid.SampledFrom([]int64{hour, 2 * hour, 5 * hour}).Draw(t, "time"), 1000
		spec.Deposit = rapid.SampledFrom([]string{"", workload.DepositRolling}).Draw(t, "deposit")
		h.do(t, h.user("ada"), command.Submit{Spec: spec})
	case 2, 3:
		h.do(t, system, command.JobStart{Job: job})
		h.do(t, system, command.JobObserved{Job: job, N: 1, Running: true, Started: h.now})
	case 4:
		h.observe(t, job)
	case 5:
		h.do(t, system, command.JobObserved{Job: job, N: 1, Lost: true})
	case 6:
		h.do(t, h.user("ada"), command.JobStop{Job: job, Now: true})
		h.do(t, system, command.JobDue{Job: job})
	case 7, 8:
		h.do(t, system, command.Meter{Jobs: h.ids})
		h.topUp(t)
	case 9:
		start := h.now + rapid.SampledFrom([]int64{0, 0, 0, hour}).Draw(t, "starts")
		h.do(t, root, command.GrantGive{Account: "nlp", Amount: money.Micros(rapid.Int64Range(1, 4e6).Draw(t, "gives")), Source: "extra", Start: start, End: start + 2*hour})
	case 10:
		h.do(t, root, command.GrantTransfer{From: rapid.SampledFrom([]string{"nlp", "vision"}).Draw(t, "from"), To: rapid.SampledFrom([]string{"nlp", "vision"}).Draw(t, "to"), Amount: money.Micros(rapid.Int64Range(1, 2e6).Draw(t, "passes on"))})
		bound := money.Micros(rapid.Int64Range(1, 20e6).Draw(t, "bound"))
		h.do(t, root, command.AccountPut{Name: "nlp", Overdraft: &bound})
	}
}

// overdraws leaves an account little, and lets it go beyond that.
func (h *history) overdraws(t *rapid.T) {
	root := h.user("root")
	nlp, _ := h.w.Tenancy.Account("nlp")
	have := ledger.Available(h.w.Ledger.Sources([]id.Account{nlp.ID}, h.now))
	left := money.Micros(rapid.Int64Range(1, 2e6).Draw(t, "left"))
	h.must(t, root, command.GrantTransfer{From: "nlp", To: "vision", Amount: have - left})
	bound := money.Micros(rapid.Int64Range(1, 20e6).Draw(t, "overdraft"))
	h.must(t, root, command.AccountPut{Name: "nlp", OutOfCredit: text("overdraft"), Overdraft: &bound})
}

// overdrafts sees that no account goes beyond its grants further than it may, and that what
// is given repays what is owed at once.
func (h *history) overdrafts(t *rapid.T) {
	gave := map[id.Account]bool{}
	for _, tr := range h.transfers[h.checked:] {
		gave[tr.Account] = gave[tr.Account] || tr.Kind == ledger.KindGrant
	}
	for k, row := range h.w.Tenancy.Accounts.All() {
		if used := h.w.Ledger.Overdrawn(k); used < 0 || used > row.Overdraft {
			t.Fatalf("%s uses %s of its overdraft of %s", row.Name, used, row.Overdraft)
		}
		have := ledger.Available(h.w.Ledger.Sources([]id.Account{k}, h.now))
		if owed := h.w.Ledger.Owed(k); gave[k] && owed > 0 && have > 0 {
			t.Fatalf("%s was given credits, owes %s and has %s", row.Name, owed, have)
		}
	}
}
