package store_test

import (
	"fmt"
	"testing"

	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/store"
	"croft.dev/croft/internal/tenancy"
	"croft.dev/croft/internal/world"
)

// busyDay is a day of which much is to be kept.
func busyDay() []world.Change {
	out := []world.Change{tenancy.AccountSet{Row: tenancy.Account{ID: 1, Name: "nlp"}}, tenancy.UserSet{Row: tenancy.User{ID: 11, Name: "ada"}}}
	for i := range int64(400) {
		t := ledger.Tile{Device: fmt.Sprint("GPU-", i%4), Node: "gpu1", Model: "a100", From: i * second, Milli: 1000, Cause: ledger.CauseUsed, Job: id.Job(i + 1), Attempt: 1, Account: 1, User: 11}
		if t.To = t.From + second; i%100 == 99 {
			t.To = 0
		}
		out = append(out, ledger.TileSet{Row: t})
	}
	return out
}

// A period whose closing fails, wherever it fails, is open, and nothing of it is kept; the
// next try closes it.
func TestClosingIsWholeOrNot(t *testing.T) {
	p := ledger.Period{From: 0, To: store.Day, Closed: 2 * store.Day, By: 11}
	failed, closed := 0, 0
	for pages := 0; closed == 0; pages += 4 {
		f := &fixture{t: t, cfg: backends["sqlite"](t), world: world.New()}
		f.open()
		f.commit(busyDay()...)
		restore := store.BoundPages(t, f.store, pages)
		b := f.batch(f.head, ledger.PeriodSet{Row: p})
		err := f.store.Commit(t.Context(), []store.Batch{b})
		if restore(); err == nil {
			f.fold(b)
			closed++
		} else {
			failed++
		}
		count := func() (n int) {
			if err := f.raw().QueryRow("SELECT (SELECT COUNT(*) FROM closed_period) + (SELECT COUNT(*) FROM closed_book) + (SELECT COUNT(*) FROM closed_tile)").Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n
		}
		if n := count(); err == nil && n != 1+2+400 || err != nil && n != 0 {
			t.Errorf("with %d pages: %v, %d rows", pages, err, n)
		}
		f.checkLoad()
		if err != nil {
			f.commit(ledger.PeriodSet{Row: p})
			f.checkLoad()
		}
		f.books(func(b *store.Books) error {
			n, first, err := b.ClosedDiffers(p, nil)
			if n != 2 || first != "" {
				t.Errorf("%d books: %s", n, first)
			}
			return err
		})
	}
	if failed < 3 {
		t.Errorf("it failed %d times", failed)
	}
}

// What is kept is cut to the period, whatever becomes of the time itself, and a period is
// closed once.
func TestClosedTilesStay(t *testing.T) {
	onEach(t, func(t *testing.T, f *fixture) {
		p := ledger.Period{From: store.Day, To: 2 * store.Day, Closed: 3 * store.Day, By: 11}
		tile := ledger.Tile{Device: "GPU-0", Node: "gpu1", Model: "a100", From: store.Day - second, Milli: 1000, Cause: ledger.CauseUsed, Job: 1, Attempt: 1, Account: 1, User: 11}
		f.commit(tenancy.AccountSet{Row: tenancy.Account{ID: 1, Name: "nlp"}}, ledger.TileSet{Row: tile})
		f.commit(ledger.PeriodSet{Row: p})
		tile.To, tile.Cause, tile.Account, tile.User = store.Day+second, ledger.CauseDown, 0, 0
		f.commit(ledger.TileSet{Row: tile})
		var got []ledger.Tile
		f.books(func(b *store.Books) error {
			return b.ClosedTiles(p, []id.Account{1}, func(t *ledger.Tile) { got = append(got, *t) })
		})
		if len(got) != 1 || got[0].From != p.From || got[0].To != p.To || got[0].Cause != ledger.CauseUsed || got[0].User != 11 {
			t.Errorf("%+v", got)
		}
		if err := f.store.Commit(t.Context(), []store.Batch{f.batch(f.head, ledger.PeriodSet{Row: p})}); err == nil {
			t.Error("it was closed twice")
		}
	})
}
