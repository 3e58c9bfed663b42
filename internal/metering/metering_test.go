package metering_test

import (
	"testing"

	"pgregory.net/rapid"

	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/metering"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/workload"
)

const hour = int64(3600e9)

// till is a ledger, a price book and one job on them.
type till struct {
	ledger ledger.State
	prices catalog.State
	job    *workload.Job
	now    int64
}

type fataler interface{ Fatalf(string, ...any) }

// newTill gives account 1 two grants, and a job that has set aside deposit.
func newTill(t fataler, spec workload.Spec, rate money.Rate, deposit money.Micros) *till {
	c := &till{}
	spec.Partition = "main"
	c.prices.Fold(catalog.PriceSet{Row: catalog.Price{ID: 1, CPU: rate}})
	for i, n := range []money.Micros{2 * money.Credit, 50 * money.Credit} {
		c.fold(c.ledger.NewPosting(1, 0).Give(&c.ledger, ledger.Grant{ID: c.ledger.NextGrant(), Account: 1, Amount: n, Source: "x", End: int64(i+1) * 1000 * hour}))
	}
	c.job = &workload.Job{ID: 1, User: 1, Account: 1, Spec: spec, Factor: 1000, Billing: "enforce", State: workload.Running}
	parts, short := ledger.Split(c.ledger.Sources([]id.Account{1}, 0), deposit, "")
	if short != 0 {
		t.Fatalf("short of %d", short)
	}
	c.fold(metering.SetAside(c.ledger.NewPosting(2, 0), c.job, parts))
	c.job.Attempt = workload.Attempt{N: 1, Started: hour, Until: hour + spec.Time}
	c.now = hour
	return c
}

func (c *till) fold(changes []ledger.Change) {
	for _, ch := range changes {
		c.ledger.Fold(ch)
	}
}

func (c *till) post(t fataler) {
	j := *c.job
	changes, err := metering.Post(c.ledger.NewPosting(3, c.now), &c.prices, &j, c.now)
	if err != nil {
		t.Fatalf("post: %v", err)
	}
	c.job = &j
	c.fold(changes)
}

// check compares what the job says with what the ledger has.
func (c *till) check(t fataler) {
	var aside money.Micros
	for _, s := range c.job.Sources {
		if b := c.ledger.Balance(ledger.Deposit(1, ledger.Account(s.Source))); b != s.Left || s.Left < 0 || s.Paid < 0 {
			t.Fatalf("part %+v, the ledger has %d", s, b)
		}
		aside += s.Left
	}
	j := c.job
	if aside != metering.Left(j) || j.Deposit != aside+j.Charged+j.Returned+j.Refunded {
		t.Fatalf("deposit %d: left %d charged %d returned %d refunded %d", j.Deposit, aside, j.Charged, j.Returned, j.Refunded)
	}
	if spent := c.ledger.Balance(ledger.Spent(1)); spent != j.Charged {
		t.Fatalf("charged %d, the ledger has %d", j.Charged, spent)
	}
	var sum money.Micros
	for _, b := range c.ledger.Balances {
		sum += b
	}
	if sum != 0 {
		t.Fatalf("%d was made", sum)
	}
}

// However often it is posted, and whenever the end becomes known: the user is
// charged what the billable span costs, the rest of the deposit comes back, and
// the ledger agrees with the job all along.
func TestPostingInPieces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := workload.Spec{CPU: rapid.Int64Range(1, 64_000).Draw(t, "cpu"), Time: rapid.Int64Range(1, 10*hour).Draw(t, "time"), Grace: rapid.Int64Range(0, hour).Draw(t, "grace")}
		c := newTill(t, spec, money.Rate(rapid.Int64Range(0, 50_000).Draw(t, "rate")), 0)
		full, err := c.prices.Book("main", 0).Cost(catalog.Use{CPU: spec.CPU}, 1000, 0, spec.Time+spec.Grace)
		if err != nil {
			t.Fatal(err)
		}
		parts, short := ledger.Split(c.ledger.Sources([]id.Account{1}, 0), full.Total, "")
		if short > 0 {
			t.Skip("not enough money for that")
		}
		c.fold(metering.SetAside(c.ledger.NewPosting(2, 0), c.job, parts))
		for range rapid.IntRange(0, 8).Draw(t, "posts") {
			c.now += rapid.Int64Range(0, 4*hour).Draw(t, "passes")
			c.post(t)
			c.check(t)
		}
		end := rapid.Int64Range(hour, c.now).Draw(t, "end") // may be before what was posted
		c.job.Attempt.Ended = end
		if rapid.IntRange(0, 3).Draw(t, "lost") == 0 {
			c.job.Attempt.Outcome = "node_failed"
			c.fold(metering.Refund(c.ledger.NewPosting(4, c.now), &c.ledger, c.job, ledger.CauseDown))
		} else {
			c.post(t)
		}
		c.check(t)
		from, to := metering.Billable(c.job.Attempt, spec.Grace, c.now)
		want, err := c.prices.Book("main", 0).Cost(catalog.Use{CPU: spec.CPU}, 1000, from, to)
		if err != nil || c.job.Charged != want.Total {
			t.Fatalf("charged %d for %d ns, want %d (%v)", c.job.Charged, to-from, want.Total, err)
		}
		c.fold(metering.Close(c.ledger.NewPosting(5, c.now), &c.ledger, c.job))
		c.check(t)
		if left := metering.Left(c.job); left != 0 {
			t.Fatalf("%d is left of a closed deposit", left)
		}
	})
}

// What a deposit lacks is the platform's loss, posted once however often the
// meter runs, and only when the end is known.
func TestBeyondTheDepositIsPostedOnce(t *testing.T) {
	c := newTill(t, workload.Spec{CPU: 1000, Time: 10 * hour}, 100, 150) // 100 an hour, for one and a half
	for range 5 {
		c.now += hour
		c.post(t)
		c.check(t)
		if lost := c.ledger.Balance(ledger.Waste(ledger.CauseEnding)); lost != 0 {
			t.Fatalf("lost %d before the end is known", lost)
		}
	}
	c.job.Attempt.Ended = hour + 2*hour
	c.post(t)
	c.check(t)
	if lost := c.ledger.Balance(ledger.Waste(ledger.CauseEnding)); lost != 50 || c.job.Charged != 150 {
		t.Errorf("charged %d, lost %d", c.job.Charged, lost)
	}
}

// A receipt is the sum of its lines over all attempts.
func TestReceiptSumsAttempts(t *testing.T) {
	c := newTill(t, workload.Spec{CPU: 1000, Time: 10 * hour}, 100, 0)
	c.job.Past = []workload.Attempt{
		{N: 1, Started: hour, Until: 11 * hour, Ended: 3 * hour, Outcome: "timed_out"},
		{N: 2, Started: 4 * hour, Until: 14 * hour, Ended: 9 * hour, Outcome: "node_failed"},
	}
	c.job.Attempt = workload.Attempt{N: 3, Started: 20 * hour, Until: 30 * hour}
	got, err := metering.Receipt(&c.prices, c.job, 23*hour)
	if err != nil || len(got.Lines) != 1 || got.Lines[0].Micros != 500 || got.Total != 500 {
		t.Errorf("%+v %v, want 200 and 300, the lost attempt free", got, err)
	}
}

// The billable span is from the start to the end, at most limit and grace.
func TestBillable(t *testing.T) {
	tests := map[string]struct {
		a    workload.Attempt
		now  int64
		want int64 // ns
	}{
		"not started":           {workload.Attempt{Until: 10}, 100, 0},
		"runs":                  {workload.Attempt{Started: 5, Until: 15}, 12, 7},
		"ended":                 {workload.Attempt{Started: 5, Until: 15, Ended: 9}, 100, 4},
		"overdue":               {workload.Attempt{Started: 5, Until: 15}, 100, 13},
		"ended long after":      {workload.Attempt{Started: 5, Until: 15, Ended: 50}, 100, 13},
		"lost":                  {workload.Attempt{Started: 5, Until: 15, Ended: 9, Outcome: "node_failed"}, 100, 0},
		"ended before it began": {workload.Attempt{Started: 5, Until: 15, Ended: 2}, 100, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if from, to := metering.Billable(tt.a, 3, tt.now); to-from != tt.want || from != tt.a.Started {
				t.Errorf("%d to %d, want %d ns", from, to, tt.want)
			}
		})
	}
}
