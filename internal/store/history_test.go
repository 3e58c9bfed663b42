package store_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/store"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

func TestJobs(t *testing.T) {
	job := func(n id.Job, account id.Account, user id.User, state workload.JobState) world.Change {
		row := &workload.Job{ID: n, Account: account, User: user, State: state, Path: []id.Account{account}, Submitted: 100 * int64(n)}
		row.Spec.Partition = "cpu"
		if n == 3 {
			row.Spec.Partition = "gpu"
		}
		if state == workload.Ended {
			row.Ended = row.Submitted + 50
		}
		return workload.JobSet{Row: row}
	}
	tests := map[string]struct {
		filter store.JobFilter
		limit  int
		want   []id.Job
	}{
		"all":           {store.JobFilter{}, 0, []id.Job{5, 4, 3, 2, 1}},
		"first page":    {store.JobFilter{}, 2, []id.Job{5, 4}},
		"next page":     {store.JobFilter{Before: 4}, 2, []id.Job{3, 2}},
		"an account":    {store.JobFilter{Accounts: []id.Account{1}}, 9, []id.Job{4, 3, 1}},
		"two accounts":  {store.JobFilter{Accounts: []id.Account{2, 3}}, 9, []id.Job{5, 2}},
		"a user":        {store.JobFilter{Users: []id.User{11}}, 9, []id.Job{4, 2, 1}},
		"states":        {store.JobFilter{States: []workload.JobState{workload.Queued, workload.Ended}}, 9, []id.Job{4, 2, 1}},
		"live":          {store.JobFilter{States: []workload.JobState{workload.Running}}, 9, []id.Job{5, 3}},
		"all at once":   {store.JobFilter{Accounts: []id.Account{1}, Users: []id.User{11}, States: []workload.JobState{workload.Queued}, Before: 4}, 9, []id.Job{1}},
		"ids":           {store.JobFilter{IDs: []id.Job{1, 3, 77}}, 9, []id.Job{3, 1}},
		"a partition":   {store.JobFilter{Partitions: []string{"gpu"}}, 9, []id.Job{3}},
		"not over then": {store.JobFilter{From: 251}, 9, []id.Job{5, 4, 3, 1}},
		"there then":    {store.JobFilter{From: 250, To: 400}, 9, []id.Job{3, 2, 1}},
		"nothing there": {store.JobFilter{Users: []id.User{99}}, 9, nil},
	}
	onEach(t, func(t *testing.T, f *fixture) {
		f.commit(job(1, 1, 11, workload.Queued), job(2, 2, 11, workload.Ended), job(3, 1, 12, workload.Running),
			job(4, 1, 11, workload.Ended), job(5, 3, 13, workload.Running))
		for name, tt := range tests {
			t.Run(name, func(t *testing.T) {
				all, err := f.store.Jobs(t.Context(), tt.filter, tt.limit)
				var got []id.Job
				for _, j := range all {
					got = append(got, j.ID)
				}
				check(t, "jobs", got, tt.want, err)
			})
		}
	})
}

// money of one grant: 100 given; job 1 of user 11 sets aside 30, is charged 20, gets
// 10 back and later 5 refunded; job 2 of user 12 has 40 set aside and is charged 15.
func moves() []ledger.Transfer {
	deposit1, deposit2 := ledger.Deposit(1, ledger.OfGrant(7)), ledger.Deposit(2, ledger.OfGrant(7))
	all := []ledger.Transfer{
		{At: 100, From: ledger.Platform, To: ledger.OfGrant(7), Amount: 100, Kind: ledger.KindGrant, Account: 1},
		{At: 200, From: ledger.OfGrant(7), To: deposit1, Amount: 30, Kind: ledger.KindDeposit, Job: 1, Account: 1, User: 11},
		{At: 300, From: deposit1, To: ledger.Spent(1), Amount: 20, Kind: ledger.KindCharge, Job: 1, Attempt: 1, Account: 1, User: 11},
		{At: 300, From: deposit1, To: ledger.OfGrant(7), Amount: 10, Kind: ledger.KindReturn, Job: 1, Account: 1, User: 11},
		{At: 400, From: ledger.OfGrant(7), To: deposit2, Amount: 40, Kind: ledger.KindDeposit, Job: 2, Account: 1, User: 12},
		{At: 500, From: deposit2, To: ledger.Spent(1), Amount: 15, Kind: ledger.KindCharge, Job: 2, Attempt: 1, Account: 1, User: 12},
		{At: 600, From: ledger.Spent(1), To: ledger.OfGrant(7), Amount: 5, Kind: ledger.KindRefund, Job: 1, Account: 1, User: 11},
		{At: 700, From: ledger.Platform, To: ledger.Waste(ledger.CauseIdle), Amount: 3, Kind: ledger.KindWaste},
		// another grant and account
		{At: 300, From: ledger.Platform, To: ledger.OfGrant(17), Amount: 50, Kind: ledger.KindGrant, Account: 2},
		{At: 350, From: ledger.OfGrant(17), To: ledger.Spent(2), Amount: 50, Kind: ledger.KindCharge, Account: 2, User: 11, Job: 3},
	}
	for i := range all {
		all[i].ID = id.Transfer(i + 1)
	}
	return all
}

func (f *fixture) commitMoves() []ledger.Transfer {
	f.t.Helper()
	all := moves()
	changes := []world.Change{
		ledger.GrantSet{Row: ledger.Grant{ID: 7, Account: 1, Amount: 100}}, ledger.GrantSet{Row: ledger.Grant{ID: 8, Account: 1}},
		ledger.GrantSet{Row: ledger.Grant{ID: 17, Account: 2, Amount: 50}},
	}
	for _, m := range all {
		changes = append(changes, ledger.Posted{Row: m})
	}
	f.commit(changes...)
	return all
}

func TestTransfers(t *testing.T) {
	tests := map[string]struct {
		filter store.TransferFilter
		limit  int
		want   []id.Transfer
	}{
		"all":              {store.TransferFilter{}, 0, []id.Transfer{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}},
		"page":             {store.TransferFilter{After: 4}, 2, []id.Transfer{5, 6}},
		"a ledger account": {store.TransferFilter{Ledger: ledger.Spent(1)}, 9, []id.Transfer{3, 6, 7}},
		"a deposit":        {store.TransferFilter{Ledger: ledger.Deposit(1, ledger.OfGrant(7))}, 9, []id.Transfer{2, 3, 4}},
		"no deposit":       {store.TransferFilter{Ledger: "deposit:x"}, 9, nil},
		"a job":            {store.TransferFilter{Job: 2}, 9, []id.Transfer{5, 6}},
		"an account":       {store.TransferFilter{Account: 2}, 9, []id.Transfer{9, 10}},
	}
	onEach(t, func(t *testing.T, f *fixture) {
		f.commitMoves()
		f.checkLoad()
		for name, tt := range tests {
			t.Run(name, func(t *testing.T) {
				all, err := f.store.Transfers(t.Context(), tt.filter, tt.limit)
				var got []id.Transfer
				for _, m := range all {
					got = append(got, m.ID)
				}
				check(t, "transfers", got, tt.want, err)
			})
		}
	})
}

func TestLog(t *testing.T) {
	onEach(t, func(t *testing.T, f *fixture) {
		for range 5 {
			f.commit()
		}
		var got []int64
		all, err := f.store.Log(t.Context(), store.LogFilter{After: 1}, 3)
		for _, e := range all {
			got = append(got, e.Seq)
		}
		check(t, "log", got, []int64{2, 3, 4}, err)
	})
}

// Why jobs waited is found again by job, the oldest first; a row that is written once more
// takes the place of the first.
func TestWaits(t *testing.T) {
	onEach(t, func(t *testing.T, f *fixture) {
		row := workload.Wait{Job: 7, At: 20, Position: 3, Queue: 9, Kind: "estimated", Start: 99, Reasons: []fault.Reason{{Code: codes.DevicesBusy, Message: "all are busy"}}}
		first, other := workload.Wait{Job: 7, At: 10, Kind: "unknown"}, workload.Wait{Job: 8, At: 15}
		for _, rows := range [][]workload.Wait{{row, other}, {first}, {row}} {
			if err := f.store.KeepWaits(t.Context(), rows); err != nil {
				t.Fatal(err)
			}
		}
		for want, k := range map[string]id.Job{"7 10, 7 20": 7, "8 15": 8, "": 9} {
			got, err := f.store.Waits(t.Context(), k)
			if err != nil {
				t.Fatal(err)
			}
			var said []string
			for _, w := range got {
				said = append(said, fmt.Sprint(w.Job, " ", w.At))
				if diff := cmp.Diff(row, w); w.At == row.At && diff != "" {
					t.Errorf("(-want +got)\n%s", diff)
				}
			}
			if strings.Join(said, ", ") != want {
				t.Errorf("of %d: %v, want %s", k, said, want)
			}
		}
	})
}
