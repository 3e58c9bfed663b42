package share_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/share"
)

// What is decided with trees that are kept is what is decided without, whatever has been
// counted, put or copied since they were kept.
func TestTreesStayTrue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPool(t)
		st, tn, offered := p.world()
		var runs []share.Run
		for _, k := range p.jobs() {
			runs = append(runs, share.Run{Job: k, Path: p.path(p.account[k]), Use: limits.Demand{GPU: p.size[k]}, Since: int64(k)})
		}
		account := func() id.Account { return id.Account(rapid.IntRange(1, len(p.parent)).Draw(t, "account")) }
		trees, now := share.NewTrees(), &st
		var other *share.State // a copy of it, or what it is a copy of
		for range 12 {
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				now.Count(p.path(account()), main, limits.Demand{GPU: rapid.Int64Range(1, 4).Draw(t, "starts")}, +1)
			case 1:
				for _, row := range now.Shares.All() {
					row.Guaranteed, row.Removed = rapid.Int64Range(0, 6).Draw(t, "guaranteed"), rapid.IntRange(0, 4).Draw(t, "removed") == 0
					now.Fold(share.Set{Row: row})
					break
				}
			case 2:
				if other == nil || rapid.Bool().Draw(t, "anew") {
					c := now.Copy()
					other = &c
				}
				now, other = other, now
			}
			of, ask := account(), limits.Demand{GPU: rapid.Int64Range(1, 8).Draw(t, "ask")}
			check := func(k *share.Trees) []share.Violation {
				return now.Check(k, &tn, p.path(of), main, limits.Ask{Demand: ask}, offered)
			}
			if diff := cmp.Diff(check(nil), check(trees)); diff != "" {
				t.Fatalf("bounds (-fresh +kept)\n%s", diff)
			}
			var claims []share.Run
			if rapid.Bool().Draw(t, "claims") {
				claims = append(claims, share.Run{Path: p.path(account()), Use: limits.Demand{GPU: 1}})
			}
			claim := func(k *share.Trees) share.Claim {
				return share.Claim{Loans: now.Loans(k, &tn, main, func() []share.Run { return runs }, claims, offered), Path: p.path(of), Ask: ask}
			}
			fresh, kept := claim(nil), claim(trees)
			if fresh.Any() != kept.Any() {
				t.Fatalf("a claim on any: %v, kept %v", fresh.Any(), kept.Any())
			}
			for _, r := range runs {
				due, covered := fresh.On(r.Job)
				if d, c := kept.On(r.Job); d != due || c != covered {
					t.Fatalf("job %d: due %v, covered %v; kept %v, %v", r.Job, due, covered, d, c)
				}
			}
		}
	})
}
