package sequencer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/store"
	"croft.dev/croft/internal/store/chain"
	"croft.dev/croft/internal/tenancy"
	"croft.dev/croft/internal/world"
)

// bundle is a running sequencer on a store in memory.
type bundle struct {
	*Sequencer
	store  *memory
	dead   bytes.Buffer
	stop   context.CancelFunc
	result chan error // of Run
	now    int64
}

func setup(t *testing.T, limit int) *bundle {
	t.Helper()
	b := &bundle{store: &memory{}, result: make(chan error, 1), now: 100}
	w := world.New()
	w.Fold([]world.Change{tenancy.UserSet{Row: tenancy.User{ID: 1, Name: "ada", Platform: access.Admin, UID: -1}}})
	b.Sequencer = New(Config{
		World: w, Store: b.store, Clock: func() int64 { return b.now }, MaxBatch: limit, DeadLetters: &b.dead,
	})
	ctx, stop := context.WithCancel(t.Context())
	b.stop = stop
	go func() { b.result <- b.Run(ctx) }()
	return b
}

var ada = Actor{User: 1}

func (b *bundle) do(cmd test) (Answer, error) {
	return b.Do(context.Background(), ada, cmd, Key{})
}

// all does commands at once, so that they come in one batch after the one that is
// being committed, and returns their errors' codes.
func (b *bundle) all(cmds ...test) []codes.Code {
	out := make([]codes.Code, len(cmds))
	release := make(chan struct{})
	before := b.store.before
	b.store.before = func([]store.Batch) error { <-release; return nil }
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = b.do(test{Do: "account", Name: "first"}) })
	synctest.Wait()
	for i, cmd := range cmds {
		wg.Go(func() {
			if _, err := b.do(cmd); err != nil {
				out[i] = fault.Of(err)
			}
		})
		synctest.Wait() // in order
	}
	b.store.before = before
	close(release)
	wg.Wait()
	return out
}

func TestDo(t *testing.T) {
	b := setup(t, 0)
	got, err := b.do(test{Do: "submit", Name: "a"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Answer{Result: id.Job(1), Seq: 1, At: 100}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	w := b.World()
	if job, ok := w.Workload.Jobs.Get(1); !ok || job.Spec.Name != "a" || w.Seq != 1 || w.Now != 100 {
		t.Errorf("world at %d, %d: job %+v", w.Seq, w.Now, job)
	}
	want := world.Entry{
		Seq: 1, At: 100, User: 1, Principal: "ada", Kind: "test.submit", Command: []byte(`{"Do":"submit","Name":"a"}`),
		Touched: "job:1 transfer:1 tile:d:100", Event: world.Event{Job: 1}, Hash: b.store.head.Hash,
	}
	if diff := cmp.Diff(want, b.store.rows[0].Entry); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAnswers(t *testing.T) {
	tests := map[string]struct {
		do   string
		code codes.Code
		rows int
		dead bool
	}{
		"refused, with a row":     {"refuse", codes.Refused, 1, false},
		"rejected without trace":  {"reject", codes.Denied, 0, false},
		"nothing to do":           {"skip", "", 0, false},
		"failed inside":           {"fail", codes.Internal, 0, true},
		"panicked":                {"panic", codes.Internal, 0, true},
		"done":                    {"account", "", 1, false},
		"not a change that folds": {"unknown", codes.Internal, 0, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := setup(t, 0)
			got, err := b.do(test{Do: tt.do, Name: "n"})
			var code codes.Code
			if err != nil {
				code = fault.Of(err)
			}
			if code != tt.code || got.Seq != int64(tt.rows) || len(b.store.rows) != tt.rows || b.World().Seq != int64(tt.rows) {
				t.Errorf("%+v, %v; %d rows, world at %d", got, err, len(b.store.rows), b.World().Seq)
			}
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("what went wrong inside is told: %v", err)
			}
			var letter map[string]any
			if dead := json.Unmarshal(b.dead.Bytes(), &letter) == nil; dead != tt.dead {
				t.Errorf("dead letter %q", b.dead.String())
			}
		})
	}
}

func TestOnlyTheCulpritSuffers(t *testing.T) {
	for _, culprit := range []string{"panic", "fail", "poison"} {
		t.Run(culprit, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := setup(t, 0)
				b.store.before = func(all []store.Batch) error {
					for _, row := range all {
						if row.Entry.Kind == "test.poison" {
							return errors.New("constraint")
						}
					}
					return nil
				}
				got := b.all(test{Do: "submit"}, test{Do: culprit}, test{Do: "submit"}, test{Do: "reject"})
				if diff := cmp.Diff([]codes.Code{"", codes.Internal, "", codes.Denied}, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				if n := b.World().Workload.Jobs.Len(); n != 2 || !strings.Contains(b.dead.String(), culprit) {
					t.Errorf("%d jobs, dead letters %q", n, b.dead.String())
				}
				b.check(t)
				b.stop()
			})
		})
	}
}

// check compares the store's log with the world.
func (b *bundle) check(t *testing.T) {
	t.Helper()
	var v chain.Verifier
	for _, row := range b.store.rows {
		if err := v.Next(row.Entry); err != nil {
			t.Error(err)
		}
	}
	if w := b.World(); v.Seq() != w.Seq {
		t.Errorf("log at %d, world at %d", v.Seq(), w.Seq)
	}
}

var errAway = fmt.Errorf("gone: %w", store.ErrUnavailable)

func TestStoreAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, 0)
		b.store.before = func([]store.Batch) error { return errAway }
		if _, err := b.do(test{Do: "submit"}); fault.Of(err) != codes.Unavailable {
			t.Errorf("err = %v", err)
		}
		if b.World().Seq != 0 || b.World().Workload.Jobs.Len() != 0 {
			t.Error("the world moved on")
		}
		b.store.before = nil
		if _, err := b.do(test{Do: "submit"}); err != nil {
			t.Errorf("back again: %v", err)
		}
		b.check(t)
		b.stop()
	})
}

func TestUnknownOutcome(t *testing.T) {
	t.Run("it was committed", func(t *testing.T) {
		b := setup(t, 0)
		b.store.after = func([]store.Batch) error { return errAway }
		if got, err := b.do(test{Do: "submit"}); err != nil || got.Seq != 1 {
			t.Errorf("%+v, %v", got, err)
		}
		b.check(t)
	})
	t.Run("nobody can tell yet", func(t *testing.T) {
		b := setup(t, 0)
		b.store.after = func([]store.Batch) error { return errAway }
		b.store.unreadable = errAway
		key := Key{Name: "k", Body: []byte("x")}
		for range 2 {
			if _, err := b.Do(t.Context(), ada, test{Do: "submit"}, key); fault.Of(err) != codes.Unavailable {
				t.Fatalf("err = %v", err)
			}
		}
		if b.World().Seq != 0 {
			t.Error("published what may not be")
		}
		b.store.after, b.store.unreadable = nil, nil
		got, err := b.Do(t.Context(), ada, test{Do: "submit"}, key)
		if err != nil || got.Replayed == nil || got.Replayed.Job != 1 {
			t.Errorf("tried again: %+v, %v", got, err)
		}
		b.check(t)
	})
}

func TestDeposed(t *testing.T) {
	for name, err := range map[string]error{"deposed": store.ErrDeposed, "somebody else wrote": store.ErrStale} {
		t.Run(name, func(t *testing.T) {
			b := setup(t, 0)
			b.store.before = func([]store.Batch) error { return err }
			b.store.unreadable = err
			if _, err := b.do(test{Do: "submit"}); fault.Of(err) != codes.Unavailable {
				t.Errorf("err = %v", err)
			}
			if got := <-b.result; !errors.Is(got, err) {
				t.Errorf("Run: %v", got)
			}
			if _, err := b.do(test{Do: "submit"}); fault.Of(err) != codes.Unavailable {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}

func TestKeys(t *testing.T) {
	b := setup(t, 0)
	ctx := t.Context()
	same, other := Key{Name: "k", Body: []byte("x")}, Key{Name: "k", Body: []byte("y")}
	first, err := b.Do(ctx, ada, test{Do: "submit"}, same)
	if err != nil || first.Replayed != nil {
		t.Fatalf("%+v, %v", first, err)
	}
	again, err := b.Do(ctx, ada, test{Do: "submit"}, same)
	if err != nil || again.Replayed == nil || again.Replayed.Job != 1 || again.Seq != 1 {
		t.Errorf("again: %+v, %v", again, err)
	}
	if _, err := b.Do(ctx, ada, test{Do: "submit"}, other); fault.Of(err) != codes.Conflict {
		t.Errorf("another body: %v", err)
	}
	for name, do := range map[string]func() (Answer, error){
		"another user":    func() (Answer, error) { return b.Do(ctx, Actor{User: 2}, test{Do: "submit"}, other) },
		"another command": func() (Answer, error) { return b.Do(ctx, ada, test{Do: "account"}, other) },
		"no key":          func() (Answer, error) { return b.do(test{Do: "submit"}) },
	} {
		if got, err := do(); err != nil || got.Replayed != nil {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	b.now += world.KeyLife + 1
	if got, err := b.do(test{Do: "account"}); err != nil || got.At != b.now {
		t.Fatal(err)
	}
	if got, err := b.Do(ctx, ada, test{Do: "submit"}, other); err != nil || got.Replayed != nil {
		t.Errorf("a week later: %+v, %v", got, err)
	}
	b.check(t)
}

func TestKeyTwiceInABatch(t *testing.T) {
	s := New(Config{World: world.New(), Store: &memory{}, Clock: func() int64 { return 1 }})
	var reqs []*request
	for range 2 {
		r := &request{actor: ada, cmd: test{Do: "submit"}, done: make(chan reply, 1)}
		r.key, r.digest = joinKey(ada, "test.submit", Key{Name: "k"})
		reqs = append(reqs, r)
	}
	if err := s.process(reqs); err != nil {
		t.Fatal(err)
	}
	if a, b := <-reqs[0].done, <-reqs[1].done; a.answer.Replayed != nil || b.answer.Replayed == nil || b.answer.Seq != 1 {
		t.Errorf("%+v, %+v", a, b)
	}
}

func TestPrincipalAndEventText(t *testing.T) {
	tests := map[string]struct {
		actor Actor
		want  access.Principal
	}{
		"user":         {ada, access.Principal{Now: 100, User: 1, Name: "ada", Platform: access.Admin}},
		"unknown user": {Actor{User: 9}, access.Principal{}},
		"a loop":       {Actor{System: true, Name: "meter"}, access.Principal{Now: 100, System: true, Name: "meter"}},
		"the server":   {Actor{System: true}, access.Principal{Now: 100, System: true, Name: "system"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := setup(t, 0)
			got, err := b.Do(t.Context(), tt.actor, test{Do: "who"}, Key{})
			if diff := cmp.Diff(tt.want, got.Result); diff != "" || err != nil {
				t.Errorf("(-want +got):\n%s %v", diff, err)
			}
			if e := b.store.rows[0].Entry; e.Event.Message != "a\uFFFDb\uFFFD" || e.Principal != tt.want.Name {
				t.Errorf("%+v", e)
			}
			b.check(t)
		})
	}
}

func TestTimeNeverGoesBack(t *testing.T) {
	b := setup(t, 0)
	for i, now := range []int64{50, 40, 60} {
		b.now = now
		got, err := b.do(test{Do: "account"})
		if want := []int64{50, 50, 60}[i]; err != nil || got.At != want {
			t.Errorf("%d: %+v, %v", now, got, err)
		}
	}
}

func TestGivingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, 0)
		release := make(chan struct{})
		b.store.before = func([]store.Batch) error { <-release; return nil }
		var wg sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		wg.Go(func() { // is being committed: stays
			if _, err := b.Do(ctx, ada, test{Do: "submit", Name: "picked"}, Key{}); err != nil {
				t.Errorf("picked: %v", err)
			}
		})
		synctest.Wait()
		wg.Go(func() { // is queued: goes
			if _, err := b.Do(ctx, ada, test{Do: "submit", Name: "queued"}, Key{}); !errors.Is(err, context.Canceled) {
				t.Errorf("queued: %v", err)
			}
		})
		synctest.Wait()
		cancel()
		synctest.Wait()
		close(release)
		wg.Wait()
		if _, err := b.do(test{Do: "account"}); err != nil {
			t.Fatal(err)
		}
		if n := b.World().Workload.Jobs.Len(); n != 1 {
			t.Errorf("%d jobs", n)
		}
		b.stop()
	})
}

func TestStopDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, 4)
		release := make(chan struct{})
		b.store.before = func([]store.Batch) error { <-release; return nil }
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				if _, err := b.do(test{Do: "submit"}); err != nil {
					t.Errorf("queued before the stop: %v", err)
				}
			})
		}
		synctest.Wait()
		b.stop()
		close(release)
		wg.Wait()
		if err := <-b.result; err != nil {
			t.Errorf("Run: %v", err)
		}
		if _, err := b.do(test{Do: "submit"}); fault.Of(err) != codes.Unavailable {
			t.Errorf("after the stop: %v", err)
		}
		if n := b.World().Workload.Jobs.Len(); n != 20 {
			t.Errorf("%d jobs", n)
		}
		for _, n := range b.store.sizes {
			if n > 4 {
				t.Errorf("a batch of %d", n)
			}
		}
		b.check(t)
	})
}

func TestWatch(t *testing.T) {
	b := setup(t, 0)
	changed := b.Watch()
	if _, err := b.do(test{Do: "submit"}); err != nil {
		t.Fatal(err)
	}
	<-changed
	select {
	case <-b.Watch():
		t.Error("told of a world that isn't there")
	default:
	}
}

func TestTail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, 0)
		ctx, cancel := context.WithCancel(t.Context())
		var got []int64
		var end error
		var wg sync.WaitGroup
		wg.Go(func() {
			for e, err := range b.Tail(ctx, 1) {
				if end = err; err == nil {
					got = append(got, e.Seq)
				}
			}
		})
		for range 3 {
			if _, err := b.do(test{Do: "account"}); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if _, err := b.do(test{Do: "account"}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		cancel()
		wg.Wait()
		if diff := cmp.Diff([]int64{2, 3, 4}, got); diff != "" || !errors.Is(end, context.Canceled) {
			t.Errorf("(-want +got):\n%s end: %v", diff, end)
		}
		b.stop()
	})
}

func TestTailTooFarBehind(t *testing.T) {
	tests := map[string]struct {
		rows    int
		command int // bytes
		after   int64
		first   int64 // seq; 0: resync
	}{
		"before the start":   {1, 1, 9, 0},
		"from the start":     {1, 1, 10, 11},
		"dropped by count":   {ringEntries + 1, 1, 10, 0},
		"kept by count":      {ringEntries + 1, 1, 11, 12},
		"dropped by size":    {3, ringBytes/2 - 1, 10, 0},
		"kept by size":       {3, ringBytes/2 - 1, 11, 12},
		"one beyond the lot": {1, ringBytes + 1, 10, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := New(Config{World: world.New(), Head: store.Head{Seq: 10}, Store: &memory{}})
			for i := range tt.rows {
				s.ring.append([]store.Batch{{Entry: world.Entry{Seq: 11 + int64(i), Command: make([]byte, tt.command)}}})
			}
			for e, err := range s.Tail(t.Context(), tt.after) {
				if (tt.first == 0) != errors.Is(err, ErrResync) || e.Seq != tt.first {
					t.Errorf("%d, %v", e.Seq, err)
				}
				break
			}
		})
	}
}
