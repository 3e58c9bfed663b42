package query_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/query"
)

// What nobody used of a reservation is on its payer's statement, and the books agree.
func TestStatementOfAReservation(t *testing.T) {
	b := newBench(t)
	b.do(1, command.ReservationPut{Name: "class", Accounts: []string{"nlp"}, Count: 3, GPU: 1000, Length: 2 * hour})
	b.do(0, command.ReservationsDue{})
	for _, d := range b.reader(b.db).Nodes(root)[0].Devices[:1] {
		if d.State != "reserved" {
			t.Errorf("%+v", d)
		}
	}
	b.pass(3 * time.Hour)
	b.do(0, command.ReservationsDue{})
	got, err := b.reader(b.db).Statement(t.Context(), root, query.StatementQuery{Account: "nlp", Period: "2026-11"})
	if err != nil {
		t.Fatal(err)
	}
	want := v1.StatementUser{Account: "nlp", User: "(reserved, unused)", GPUHours: "6.0", Charged: "6.000", Models: []v1.StatementModel{{Model: "a100", GPUHours: "6.0", Charged: "6.000"}}}
	if diff := cmp.Diff([]v1.StatementUser{want}, got.Users); diff != "" {
		t.Error(diff)
	}
	if !got.Verified {
		t.Error(got.Difference)
	}
	if g := got.Grants[0]; g.Spent != "6.000" || g.Left != "494.000" || g.Deposits != "0.000" {
		t.Errorf("%+v", g)
	}
	if n := got.Devices[0]; n.By["reserved"] != "6.0" || n.By["idle"] != "6.0" || !got.Verified {
		t.Errorf("%+v, verified %v", n, got.Verified)
	}
	for name, h := range map[string]tampered{"as it is": {History: b.db}, "less was charged": {History: b.db, tile: func(r *ledger.Tile) {
		if r.Cause == ledger.CauseReserved {
			r.Posted--
		}
	}}} {
		v, err := b.reader(h).Verify(t.Context(), root)
		if err != nil || v.OK == (h.tile != nil) {
			t.Errorf("%s: %+v %v", name, v.Checks, err)
		}
	}
}
