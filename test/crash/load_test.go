package crash

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/test/site"
)

// account is who pays for the load.
const account = "crash"

// away is how long a client keeps trying while the server is being killed.
const away = 2 * time.Minute

// open sets up a site, and takes it away after the test.
func open(t *testing.T, cfg site.Config) *site.Site {
	t.Helper()
	s, err := site.Open(t.Context(), cfg)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of the server's log:\n%s", s.Tail())
		}
		if err := s.Close(); err != nil {
			t.Errorf("taking the site away: %v", err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	must(t, s.Start(t.Context()))
	return s
}

// populate makes an account with prices, money and, besides root, a member.
func populate(t *testing.T, c *v1.Client, member string) {
	t.Helper()
	ctx := t.Context()
	if member != "root" {
		_, err := c.AddUser(ctx, v1.User{Name: member})
		must(t, err)
	}
	_, err := c.AddAccount(ctx, v1.Account{Name: account, Billing: "enforce"})
	must(t, err)
	_, err = c.SetMember(ctx, account, member, v1.MemberRequest{Role: "member"})
	must(t, err)
	_, err = c.SetPrice(ctx, v1.PriceVersion{CPU: "0.01", Mem: "0.001", GPU: map[string]string{"*": "1"}})
	must(t, err)
	_, err = c.AddGrant(ctx, v1.Grant{Account: account, Amount: "100000", Source: "crash"})
	must(t, err)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// load submits jobs from several clients at once.
type load struct {
	client *v1.Client
	spec   v1.JobSpec
	// pause is made between two submissions of one client.
	pause func(ctx context.Context) error

	mu       sync.Mutex
	accepted map[string]string // job by key
}

// run submits from so many clients until stop is closed, each submission under a
// key of its own and repeated until it is answered.
func (l *load) run(ctx context.Context, clients int, stop <-chan struct{}) error {
	l.mu.Lock()
	l.accepted = map[string]string{}
	l.mu.Unlock()
	errs := make([]error, clients)
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() { errs[i] = l.one(ctx, i, stop) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// count is how many jobs were accepted.
func (l *load) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.accepted)
}

func (l *load) one(ctx context.Context, client int, stop <-chan struct{}) error {
	for n := 0; ; n++ {
		select {
		case <-stop:
			return nil
		default:
		}
		if _, err := l.submit(ctx, fmt.Sprintf("c%d-%d", client, n)); err != nil {
			return err
		}
		if err := l.pause(ctx); err != nil {
			return err
		}
	}
}

func (l *load) submit(ctx context.Context, key string) (*v1.Job, error) {
	spec := l.spec
	spec.Name = key
	// Not v1.Retry: its pauses grow beyond the life of a server that is killed all the time.
	for end := time.Now().Add(away); ; {
		job, err := l.client.Submit(ctx, spec, v1.Key(key))
		if err == nil {
			l.mu.Lock()
			l.accepted[key] = job.ID
			l.mu.Unlock()
			return job, nil
		}
		if !v1.Transient(err) || time.Now().After(end) {
			return nil, fmt.Errorf("submitting %s: %w", key, err)
		}
		if err := after(20 * time.Millisecond)(ctx); err != nil {
			return nil, err
		}
	}
}

// hung is after how long a job that should get somewhere counts as one that never will.
const hung = 5 * time.Minute

// wait waits until a job is where it should get. One that isn't ends the test and shows itself,
// so that it isn't for the test's own end to say so.
func wait(t *testing.T, c *v1.Client, id string, until v1.Until) *v1.Job {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), hung)
	defer cancel()
	job, err := c.Wait(ctx, id, until, v1.WaitOptions{})
	if err != nil {
		now, _ := c.Job(t.Context(), id)
		t.Fatalf("job %s: %v; it is %+v", id, err, now)
	}
	return job
}

// ended waits until every accepted job has ended, and returns all jobs of the
// account by id. What was accepted must be there, once, and nothing else.
func (l *load) ended(t *testing.T) map[string]v1.Job {
	t.Helper()
	ctx := t.Context()
	names := map[string]string{}
	for key, id := range l.accepted {
		if other, ok := names[id]; ok {
			t.Errorf("the keys %s and %s gave one job, %s", key, other, id)
		}
		names[id] = key
	}
	jobs := map[string]v1.Job{}
	for id := range names {
		wait(t, l.client, id, v1.Ended)
	}
	for job, err := range l.client.Jobs(ctx, v1.JobQuery{Account: account, State: "all", User: "*"}) {
		must(t, err)
		if names[job.ID] != job.Name {
			t.Errorf("job %s, %s: accepted was %q under this id", job.ID, job.Name, names[job.ID])
		}
		jobs[job.ID] = job
	}
	if len(jobs) != len(names) {
		t.Errorf("%d jobs were accepted, the server has %d", len(names), len(jobs))
	}
	return jobs
}

// consistent checks what must hold on any server at rest: every posting verifies,
// no deposit is left, and the log has no gap.
func consistent(t *testing.T, c *v1.Client) {
	t.Helper()
	v, err := c.VerifyLedger(t.Context())
	must(t, err)
	for _, check := range v.Checks {
		if !check.OK {
			t.Errorf("ledger verify: %s: %s", check.Name, check.First)
		}
	}
	a, err := c.Account(t.Context(), account)
	must(t, err)
	if d, err := strconv.ParseFloat(a.Balance.Deposits, 64); err != nil || d != 0 {
		t.Errorf("deposits of %s are left", a.Balance.Deposits)
	}
	noGap(t, c, v.Seq)
}

func noGap(t *testing.T, c *v1.Client, head int64) {
	t.Helper()
	last := int64(0)
	for last < head {
		page, err := c.EventPage(t.Context(), v1.EventQuery{After: last, Limit: 500})
		must(t, err)
		if len(page.Items) == 0 {
			t.Fatalf("the log ends at %d of %d", last, head)
		}
		slices.SortFunc(page.Items, func(a, b v1.Event) int { return int(a.Seq - b.Seq) })
		for _, e := range page.Items {
			if e.Seq != last+1 {
				t.Fatalf("after event %d comes %d", last, e.Seq)
			}
			last = e.Seq
		}
	}
}

// killer kills a server again and again, at random moments of its life.
type killer struct {
	site  *site.Site
	rand  *rand.Rand
	least time.Duration // shortest life
	most  time.Duration // longest life
}

// run kills the server so many times. It runs afterwards.
func (k *killer) run(ctx context.Context, times int) error {
	for range times {
		life := k.least + time.Duration(k.rand.Int64N(int64(k.most-k.least)))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(life):
		}
		if err := k.site.Kill(); err != nil {
			return err
		}
		if err := k.site.Launch(ctx); err != nil {
			return err
		}
	}
	return k.site.Ready(ctx)
}

// seeded is a source of chance that a failing run can be repeated with, as far as
// the machine's own timing lets it.
func seeded(t *testing.T) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// isCode says whether err is a problem of that code.
func isCode(err error, code codes.Code) bool { return v1.CodeOf(err) == code }
