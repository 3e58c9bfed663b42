package query

import (
	"context"
	"fmt"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/store"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

// check counts what was looked at and keeps the first difference.
type check struct {
	name  string
	n     int64
	first string
}

// want notes that a thing was looked at, and what it should have been if it isn't.
func (c *check) want(ok bool, format string, args ...any) {
	c.n++
	if !ok && c.first == "" {
		c.first = fmt.Sprintf(format, args...)
	}
}

func (c *check) line() v1.CheckLine {
	return v1.CheckLine{Name: c.name, OK: c.first == "", Checked: c.n, First: c.first}
}

// audit is the state of the books as of one row of the log, S, put together again
// from the database while others write to it. No transaction is held for that:
// transfers carry the row that posted them and never change, a job that has ended
// never changes either, and what was open at S (jobs, tiles) is in the snapshot.
type audit struct {
	r *Reader
	w *world.World // as of S

	balances map[ledger.Account]int64
	jobs     map[id.Job]jobSums
	attempts map[id.Attempt]attemptSums
	waste    map[ledger.Cause]int64 // posted for tiles
	posted   map[ledger.Cause]int64 // of tiles
	used     map[id.Attempt][]ledger.Tile
	spent    map[ledger.Spending]money.Micros // by themselves without their amounts
	byToken  map[ledger.TokenSpending]money.Micros
	given    map[ledger.Account]money.Micros // to grants, with what was carried over into them
	carried  map[ledger.Account]money.Micros // out of grants, over into the next of their allowance
	passed   map[ledger.Account]money.Micros // out of grants, to other accounts

	transfers, balance, daily, spending, tokens, grants, signs, deposits, perJob, charges, tiles, time, lost, periods, log, counters check
}

type jobSums struct {
	deposit, charge, refund, returned int64
	token                             id.Token // of the last
}

// attemptSums is what an attempt was charged, less refunds, and what it would have
// been charged beyond its deposit.
type attemptSums struct{ charged, over int64 }

// Verify checks the ledger against everything that was recorded: every sum is made
// again from the transfers, every charge again from prices and device time. It
// needs no pause of the server. Reading everything, it takes as long as the books
// are thick.
func (r *Reader) Verify(ctx context.Context, p access.Principal) (v1.Verification, error) {
	if !r.view(p).may(access.LedgerAll, 0, 0) {
		return v1.Verification{}, fault.New(codes.Denied, "only operators and auditors verify the ledger")
	}
	a := &audit{
		r: r, w: r.Worlds.World(), balances: map[ledger.Account]int64{}, jobs: map[id.Job]jobSums{}, attempts: map[id.Attempt]attemptSums{},
		waste: map[ledger.Cause]int64{}, posted: map[ledger.Cause]int64{}, used: map[id.Attempt][]ledger.Tile{}, spent: map[ledger.Spending]money.Micros{}, byToken: map[ledger.TokenSpending]money.Micros{},
		given: map[ledger.Account]money.Micros{}, carried: map[ledger.Account]money.Micros{}, passed: map[ledger.Account]money.Micros{},
	}
	a.names()
	for _, step := range []func(context.Context) error{a.readTransfers, a.readDaily, a.readTiles, a.readJobs, a.readClosed, a.readLog} {
		if err := step(ctx); err != nil {
			return v1.Verification{}, readErr(err, "", "")
		}
	}
	a.compareBalances()
	a.compareSpending()
	a.compareTokens()
	a.compareGrants()
	a.compareWaste()
	out := v1.Verification{OK: true, Seq: a.w.Seq, Transfers: a.transfers.n}
	for _, c := range a.checks() {
		line := c.line()
		out.OK = out.OK && line.OK
		out.Checks = append(out.Checks, line)
	}
	return out, nil
}

func (a *audit) checks() []*check {
	return []*check{
		&a.transfers, &a.balance, &a.daily, &a.spending, &a.tokens, &a.grants, &a.signs, &a.deposits, &a.perJob, &a.charges, &a.tiles, &a.time, &a.lost, &a.periods, &a.log, &a.counters,
	}
}

func (a *audit) names() {
	for i, name := range []string{
		"transfers are dense, unique and balanced",
		"balances are the sums of their transfers",
		"daily sums are those of their transfers",
		"what users spent is the sum of their charges",
		"what tokens spent is the sum of their jobs' charges",
		"grants are what was given and carried over, once for each period",
		"nothing is negative that may not be",
		"deposits are what open jobs have set aside",
		"jobs' sums are those of their transfers",
		"charges are prices times metered time",
		"device time has neither gap nor overlap",
		"charged time is the devices' used time",
		"waste is what the platform's device time costs",
		"closed periods are what was kept of them",
		"the log's hash chain is whole",
		"counters are ahead of what they count",
	} {
		a.checks()[i].name = name
	}
}

// pageRows is how many rows are read at once.
const pageRows = 5000

// readJobs goes through every job as of S.
func (a *audit) readJobs(ctx context.Context) error {
	var before id.Job
	var newest id.Job
	for {
		rows, err := a.r.History.Jobs(ctx, store.JobFilter{Elements: true, Before: before, States: []workload.JobState{workload.Ended}}, pageRows)
		if err != nil {
			return err
		}
		for i := range rows {
			if before = rows[i].ID; rows[i].Seq <= a.w.Seq {
				newest = max(newest, before)
				a.job(&rows[i])
			}
		}
		if len(rows) < pageRows {
			break
		}
	}
	for k, j := range a.w.Workload.Jobs.All() {
		newest = max(newest, k)
		a.job(j)
	}
	for k := range a.jobs {
		a.perJob.want(k <= newest, "transfers name job %d, the newest job is %d", k, newest)
	}
	a.counters.want(newest < a.w.Workload.NextJob(), "job %d exists, the next would be %d", newest, a.w.Workload.NextJob())
	return nil
}

func (a *audit) readLog(ctx context.Context) error {
	rows, err := a.r.History.VerifyChain(ctx)
	a.log.n = rows
	if err == nil {
		a.log.want(rows >= a.w.Seq, "it has %d rows, the server has decided %d", rows, a.w.Seq)
		a.log.n = rows
		return nil
	}
	if broken := chainBreak(err); broken != "" {
		a.log.first = broken
		return nil
	}
	return err
}
