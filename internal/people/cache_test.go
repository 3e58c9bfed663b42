package people

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/fault"
)

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

func line(u User) string {
	return u.Name + ":x:" + itoa(u.UID) + ":" + itoa(u.GID) + ":" + u.Gecos + ":" + u.Home + ":" + u.Shell + "\n"
}

// script is a Command whose behaviour a test changes as it goes.
type script struct {
	mu    sync.Mutex
	calls int
	do    func(ctx context.Context) (string, int, error)
}

func (s *script) run(ctx context.Context, _ string, _ ...string) (string, int, error) {
	s.mu.Lock()
	s.calls++
	do := s.do
	s.mu.Unlock()
	return do(ctx)
}

func (s *script) becomes(do func(ctx context.Context) (string, int, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.do = do
}

func (s *script) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

func answers(context.Context) (string, int, error) { return adaLine, 0, nil }
func none(context.Context) (string, int, error)    { return "", getentNotFound, nil }

// hangs ignores its context, as a process does that the kernel can't end.
func hangs(context.Context) (string, int, error) {
	time.Sleep(24 * time.Hour)
	return "", 0, errors.New("much too late")
}

func TestCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{do: answers}
		d := New(Config{Run: s.run})
		ask := func(want codes.Code, calls int) {
			t.Helper()
			_, err := d.ByName(t.Context(), "ada")
			if err == nil && want != "" || err != nil && fault.Of(err) != want {
				t.Errorf("got %v, want %q", err, want)
			}
			if got := s.count(); got != calls {
				t.Errorf("%d commands, want %d", got, calls)
			}
		}
		ask("", 1)
		time.Sleep(29 * time.Second)
		ask("", 1) // kept
		time.Sleep(time.Second)
		s.becomes(none)
		ask(codes.NotFound, 2)
		time.Sleep(4 * time.Second)
		s.becomes(answers)
		ask(codes.NotFound, 2) // kept, but not as long
		time.Sleep(time.Second)
		ask("", 3)
	})
}

func TestStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{do: answers}
		d := New(Config{Run: s.run})
		if _, err := d.ByName(t.Context(), "ada"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		s.becomes(func(ctx context.Context) (string, int, error) {
			<-ctx.Done()
			return "", 0, errNoAnswer
		})
		start := time.Now()
		if u, err := d.ByName(t.Context(), "ada"); err != nil || u != ada {
			t.Errorf("while the directory hangs: %+v, %v", u, err)
		}
		if took := time.Since(start); took != 2*time.Second {
			t.Errorf("took %v, want the timeout", took)
		}
		start = time.Now()
		if _, err := d.ByName(t.Context(), "ada"); err != nil || time.Since(start) != 0 {
			t.Errorf("soon after: %v after %v, want the old answer at once", err, time.Since(start))
		}
		time.Sleep(time.Hour)
		if _, err := d.ByName(t.Context(), "ada"); fault.Of(err) != codes.Unavailable {
			t.Errorf("an hour later: %v, want unavailable", err)
		}
		s.becomes(answers)
		time.Sleep(5 * time.Second)
		if _, err := d.ByName(t.Context(), "ada"); err != nil {
			t.Errorf("after it came back: %v", err)
		}
	})
}

// TestHang holds that commands that never end bound what every caller waits, and
// how many of them there are.
func TestHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{do: hangs}
		d := New(Config{Run: s.run})
		start := time.Now()
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() {
				if _, err := d.ByUID(t.Context(), int64(i)); fault.Of(err) != codes.Unavailable {
					t.Errorf("got %v, want unavailable", err)
				}
			})
		}
		wg.Wait()
		if took := time.Since(start); took > 3*time.Second {
			t.Errorf("callers waited %v", took)
		}
		if n := s.count(); n != maxCommands {
			t.Errorf("%d commands, want %d", n, maxCommands)
		}
		s.becomes(answers)
		time.Sleep(time.Minute)
		if _, err := d.ByName(t.Context(), "ada"); fault.Of(err) != codes.Unavailable {
			t.Errorf("got %v while all commands hang, want unavailable", err)
		}
		time.Sleep(24 * time.Hour)
		if _, err := d.ByName(t.Context(), "ada"); err != nil {
			t.Errorf("after they have ended: %v", err)
		}
	})
}

func TestOneFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{do: func(context.Context) (string, int, error) {
			time.Sleep(time.Second)
			return adaLine, 0, nil
		}}
		d := New(Config{Run: s.run})
		first, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := d.ByName(first, "ada"); !errors.Is(err, context.Canceled) {
				t.Errorf("the one who left: %v", err)
			}
		})
		synctest.Wait()
		for range 20 {
			wg.Go(func() {
				if u, err := d.ByName(t.Context(), "ada"); err != nil || u != ada {
					t.Errorf("got %+v, %v", u, err)
				}
			})
		}
		synctest.Wait()
		cancel() // must not end the others' question
		wg.Wait()
		if n := s.count(); n != 1 {
			t.Errorf("%d commands, want 1", n)
		}
	})
}

func TestCacheIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{do: none}
		d := New(Config{Run: s.run})
		for i := range int64(maxAnswers + 10) {
			if _, err := d.ByUID(t.Context(), i); fault.Of(err) != codes.NotFound {
				t.Fatal(err)
			}
			if i == maxAnswers/2 {
				time.Sleep(time.Second)
			}
		}
		if n := len(d.cache); n > maxAnswers {
			t.Errorf("%d answers kept", n)
		}
		before := s.count()
		if _, err := d.ByUID(t.Context(), maxAnswers+9); fault.Of(err) != codes.NotFound || s.count() != before {
			t.Errorf("the newest answer was dropped: %v", err)
		}
	})
}
