package query_test

import (
	"testing"
	"time"

	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/money"
)

// An open grant warns from 80 % on, and again from 95 %, of what is spent or set aside.
func TestGrantsWarn(t *testing.T) {
	tests := map[string]struct {
		amount  money.Micros // of which a job of two hours sets 2.288 and its grace aside
		used    int64
		warning string
	}{
		"hardly used":    {500 * money.Credit, 0, ""},
		"almost 80 %":    {2_860_001, 79, ""},
		"80 %":           {2_860_000, 80, "0.572 are left"},
		"almost 95 %":    {2_408_422, 94, "0.120422 are left"},
		"95 %":           {2_408_421, 95, "nearly used up: 0.120421 are left"},
		"used up":        {2_288_000, 100, "nearly used up: 0.000 are left"},
		"not one credit": {2_288_001, 99, "nearly used up: 0.000001 are left"},
	}
	for name, tt := range tests {
		b := newBench(t)
		b.do(1, command.GrantGive{Account: "nlp", Amount: tt.amount, Source: "gift", End: b.now.Load() + 1e18})
		b.run(time.Minute)
		all, err := b.reader(b.db).Grants(t.Context(), root, "nlp")
		if err != nil || len(all) != 2 {
			t.Fatal(err)
		}
		if g := all[1]; g.Used != tt.used || g.Warning != tt.warning {
			t.Errorf("%s: %d %%, %q, want %d %%, %q; %s set aside, %s spent", name, g.Used, g.Warning, tt.used, tt.warning, g.Deposits, g.Spent)
		}
		b.now.Add(2e18)
		if all, err = b.reader(b.db).Grants(t.Context(), root, "nlp"); err != nil || all[1].Warning != "" || all[1].Lasts != nil {
			t.Errorf("%s, after its end: %+v, %v", name, all[1], err)
		}
	}
}

// What went to another account is no longer of the grant: it isn't used up by that.
func TestTransferredIsNotUsed(t *testing.T) {
	b := newBench(t)
	b.do(1, command.AccountPut{Create: true, Name: "vision"})
	b.do(1, command.GrantTransfer{From: "nlp", To: "vision", Amount: 490 * money.Credit})
	b.do(1, command.GrantTransfer{From: "vision", To: "nlp", Amount: 5 * money.Credit})
	all, err := b.reader(b.db).Grants(t.Context(), root, "nlp")
	if err != nil || len(all) != 2 {
		t.Fatal(all, err)
	}
	for _, g := range all {
		if g.Used != 0 || g.Warning != "" || g.Spent != "0.000" {
			t.Errorf("%+v", g)
		}
	}
	b.run(time.Minute) // sets 8.288 and its grace aside: the one that has no end and was given first pays
	if all, err = b.reader(b.db).Grants(t.Context(), root, "nlp"); err != nil || all[0].Used < 20 || all[1].Used != 0 {
		t.Errorf("%+v, %v", all, err)
	}
}

// A grant lasts as long as what is left of it does at the pace of the last 30 days; what was
// spent before doesn't count.
func TestGrantsLast(t *testing.T) {
	b := newBench(t)
	ask := func() (lasts time.Time, ok bool) {
		all, err := b.reader(b.db).Grants(t.Context(), root, "")
		if err != nil {
			t.Fatal(err)
		}
		if all[0].Lasts == nil {
			return time.Time{}, false
		}
		return *all[0].Lasts, true
	}
	if at, ok := ask(); ok {
		t.Errorf("of which nothing was spent: %s", at)
	}
	begun := b.now.Load()
	b.exit(b.run(100 * time.Minute))
	check := func(since int64) {
		t.Helper()
		all, _ := b.reader(b.db).Grants(t.Context(), root, "")
		left, spent := rat(all[0].Available), rat(all[0].Spent)
		lasts, _ := left.Quo(left, spent).Float64()
		now := b.now.Load()
		want := time.Unix(0, now).Add(time.Duration(lasts * float64(now-since)))
		if got, ok := ask(); !ok || got.Sub(want).Abs() > time.Second {
			t.Errorf("lasts until %s, %v, want %s", got, ok, want)
		}
	}
	check(begun) // since it was given
	b.pass(20 * 24 * time.Hour)
	check(begun)
	b.pass(20 * 24 * time.Hour)
	if at, ok := ask(); ok {
		t.Errorf("nothing was spent for 30 days: %s", at)
	}
}
