package store_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/store"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

const second = int64(1e9)

// books reads with a snapshot of the books.
func (f *fixture) books(read func(*store.Books) error) {
	f.t.Helper()
	if err := f.store.Books(f.t.Context(), read); err != nil {
		f.t.Fatal(err)
	}
}

// days are transfers of a grant over two days: 100 given; an array sets 60 aside and hands
// an element 30 of it, which is charged 20, corrected by 4 and gets the rest back after the
// grant's end; another job loses 7 beyond its deposit, and is refunded on the next day.
func days() []ledger.Transfer {
	grant, array, element, other := ledger.OfGrant(7), ledger.Deposit(1, ledger.OfGrant(7)), ledger.Deposit(2, ledger.OfGrant(7)), ledger.Deposit(3, ledger.OfGrant(7))
	all := []ledger.Transfer{
		{From: ledger.Platform, To: grant, Amount: 100, Kind: ledger.KindGrant, Account: 1},
		{From: grant, To: array, Amount: 60, Kind: ledger.KindDeposit, Job: 1, Account: 1, User: 11},
		{From: array, To: element, Amount: 30, Kind: ledger.KindDeposit, Job: 2, Account: 1, User: 11},
		{From: element, To: ledger.Spent(1), Amount: 20, Kind: ledger.KindCharge, Job: 2, Attempt: 1, Account: 1, User: 11},
		{From: grant, To: other, Amount: 10, Kind: ledger.KindDeposit, Job: 3, Account: 2, User: 12},
		{From: other, To: ledger.Spent(2), Amount: 10, Kind: ledger.KindCharge, Job: 3, Attempt: 1, Account: 2, User: 12},
		{From: ledger.Platform, To: ledger.Waste(ledger.CauseEnding), Amount: 7, Kind: ledger.KindWaste, Job: 3, Attempt: 1, Account: 2, User: 12},
		{From: ledger.Platform, To: ledger.Waste(ledger.CauseEnding), Amount: 5, Kind: ledger.KindWaste, Job: 3, Attempt: 1},
		{At: store.Day, From: ledger.Spent(1), To: element, Amount: 4, Kind: ledger.KindCorrect, Job: 2, Attempt: 1, Account: 1, User: 11},
		{At: store.Day, From: element, To: ledger.Expired, Amount: 14, Kind: ledger.KindReturn, Job: 2, Account: 1, User: 11},
		{At: store.Day, From: ledger.Spent(2), To: grant, Amount: 10, Kind: ledger.KindRefund, Job: 3, Attempt: 1, Account: 2, User: 12},
		{At: store.Day + 5, From: grant, To: ledger.Expired, Amount: 40, Kind: ledger.KindExpire, Account: 1},
		{At: 2 * store.Day, From: ledger.OfGrant(8), To: ledger.Spent(1), Amount: 3, Kind: ledger.KindCharge, Account: 1},
	}
	for i := range all {
		all[i].ID = id.Transfer(i + 1)
	}
	return all
}

// The sums of days are kept in the transaction of their transfers, whatever batches these
// come in, and a migration makes the same of older ones.
func TestDailySums(t *testing.T) {
	money := []store.MoneyDay{
		{Account: 1, Day: 0, Grant: 7, Given: 100, Aside: 40, Spent: 20},
		{Account: 2, Day: 0, Grant: 7, Spent: 10},
		{Account: 1, Day: 1, Grant: 7, Aside: -10, Spent: -4, Expired: 54},
		{Account: 2, Day: 1, Grant: 7, Spent: -10},
		{Account: 1, Day: 2, Grant: 8, Aside: -3, Spent: 3},
	}
	spent := []store.SpentDay{
		{Account: 1, Day: 0, User: 11, Job: 2, Attempt: 1, Grant: 7, Spent: 20},
		{Account: 1, Day: 1, User: 11, Job: 2, Attempt: 1, Grant: 7, Spent: -4},
		{Account: 2, Day: 0, User: 12, Job: 3, Attempt: 1, Lost: 7},
		{Account: 2, Day: 0, User: 12, Job: 3, Attempt: 1, Grant: 7, Spent: 10},
		{Account: 2, Day: 1, User: 12, Job: 3, Attempt: 1, Grant: 7, Spent: -10},
	}
	onEach(t, func(t *testing.T, f *fixture) {
		for _, m := range days()[:4] {
			f.commit(ledger.Posted{Row: m})
		}
		var rest []world.Change
		for _, m := range days()[4:] {
			rest = append(rest, ledger.Posted{Row: m})
		}
		f.commit(rest...)
		read := func() {
			t.Helper()
			f.books(func(b *store.Books) error {
				var gotMoney []store.MoneyDay
				err := b.Money([]id.Account{1}, []id.Grant{7}, func(d *store.MoneyDay) { gotMoney = append(gotMoney, *d) })
				check(t, "money", gotMoney, money, err)
				var gotSpent []store.SpentDay
				err = b.Spent([]id.Account{1, 2}, store.Period{To: 2 * store.Day}, func(d *store.SpentDay) { gotSpent = append(gotSpent, *d) })
				check(t, "spent", gotSpent, spent, err)
				posted, err := b.Posted([]id.Account{1}, store.Period{From: store.Day, To: 3 * store.Day})
				check(t, "posted", int64(posted), int64(-4+3), err)
				unused, metered, err := b.Unused([]id.Account{1})
				check(t, "unused", [2]int64{int64(unused), int64(metered)}, [2]int64{3, 0}, err)
				return nil
			})
		}
		read()
		rows, first, err := f.store.DailyDiffers(t.Context())
		check(t, "no difference", first, "", err)
		if rows < 10 {
			t.Errorf("%d sums", rows)
		}
		f.exec("UPDATE transfer SET amount = 21 WHERE id = 4")
		_, first, err = f.store.DailyDiffers(t.Context())
		check(t, "another amount", first, "account 1 on day 0, grant 7: the daily sums and the postings differ by 0.000, 0.000001, -0.000001, 0.000 (given, set aside, spent, expired or lost)", err)
		f.exec("UPDATE transfer SET amount = 20 WHERE id = 4")
		f.exec("UPDATE spent_day SET lost = 8 WHERE lost = 7")
		_, first, err = f.store.DailyDiffers(t.Context())
		check(t, "another sum", first, "job 3, attempt 1, account 2 on day 0, grant 0: the daily sums and the postings differ by 0.000, 0.000, 0.000, 0.000001 (given, set aside, spent, expired or lost)", err)

		script, err := store.Migration(71)
		if err != nil {
			t.Fatal(err)
		}
		f.exec(`DROP TABLE money_day; DROP TABLE spent_day; DROP INDEX job_ended; DROP INDEX tile_reserved`)
		f.exec(script)
		read()
	})
}

// What statements read of devices' time and of jobs is what lies in the period.
func TestBooksOfAPeriod(t *testing.T) {
	tile := func(device, node string, from, to int64, cause ledger.Cause, account id.Account) world.Change {
		return ledger.TileSet{Row: ledger.Tile{Device: device, Node: node, Model: "a100", From: from, To: to, Milli: 1000, Cause: cause, Account: account, Posted: money.Micros(from)}}
	}
	job := func(n id.Job, account id.Account, ended int64) world.Change {
		j := &workload.Job{ID: n, Account: account, Path: []id.Account{account}, State: workload.Queued, Ended: ended}
		if ended != 0 {
			j.State = workload.Ended
		}
		return workload.JobSet{Row: j}
	}
	onEach(t, func(t *testing.T, f *fixture) {
		f.commit(
			tile("d1", "n1", 0, 10*second, ledger.CauseIdle, 0), tile("d1", "n1", 10*second, 25*second, ledger.CauseUsed, 1),
			tile("d1", "n2", 25*second, 0, ledger.CauseReserved, 1), tile("d2", "n2", 12*second, 14*second, ledger.CauseUsed, 2),
			tile("d2", "n2", 90*second, 0, ledger.CauseDown, 0),
			job(1, 1, 5*second), job(2, 1, 20*second), job(3, 1, 0), job(4, 2, 20*second), job(5, 1, 30*second),
		)
		period := store.Period{From: 10 * second, To: 30 * second, Now: 100 * second}
		f.books(func(b *store.Books) error {
			var got []string
			note := func(x *ledger.Tile) { got = append(got, x.Device+" "+string(x.Cause)) }
			err := b.Tiles([]id.Account{1}, period, note)
			check(t, "an account's", got, []string{"d1 used", "d1 reserved"}, err)
			got = nil
			err = b.DeviceTiles(nil, period, note)
			check(t, "all", got, []string{"d1 used", "d1 reserved", "d2 used"}, err)
			got = nil
			err = b.DeviceTiles([]string{"n1"}, period, note)
			check(t, "of a node's devices", got, []string{"d1 used", "d1 reserved"}, err)
			got = nil
			err = b.DeviceTiles(nil, store.Period{From: 10 * second, To: 200 * second, Now: 11 * second}, note)
			check(t, "up to now", got, []string{"d1 used"}, err)
			var jobs []id.Job
			each := func(j *workload.Job) error { jobs = append(jobs, j.ID); return nil }
			err = b.Over([]id.Account{1}, period, each)
			check(t, "jobs that ended", jobs, []id.Job{2}, err)
			jobs = nil
			err = b.Jobs([]id.Job{3, 4, 99}, each)
			check(t, "jobs by id", jobs, []id.Job{3, 4}, err)
			seen, err := b.Seen("d1", 12*second)
			check(t, "seen", seen, 25*second, err)
			_, metered, err := b.Unused([]id.Account{1})
			check(t, "reserved", int64(metered), 25*second, err)
			return nil
		})
	})
}

// What is committed while the books are open isn't in them.
func TestBooksAreOfOneRow(t *testing.T) {
	onEach(t, func(t *testing.T, f *fixture) {
		f.commit()
		f.books(func(b *store.Books) error {
			before, err := b.Seq()
			if err != nil {
				return err
			}
			f.commit(ledger.Posted{Row: days()[0]})
			after, err := b.Seq()
			if diff := cmp.Diff(before, after); diff != "" {
				t.Error(diff)
			}
			return err
		})
	})
}
