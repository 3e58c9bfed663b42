package presence

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"croft.dev/croft/internal/id"
)

// TestEnter follows connections of two jobs.
func TestEnter(t *testing.T) {
	now := int64(10)
	r := New(func() int64 { return now })
	want := func(job id.Job, w map[Kind]Seen) {
		t.Helper()
		if d := cmp.Diff(w, r.Of(job)); d != "" {
			t.Errorf("at %d, job %d (-want +got):\n%s", now, job, d)
		}
	}
	want(1, map[Kind]Seen{})
	a, b := r.Enter(1, App), r.Enter(1, App)
	ssh := r.Enter(1, SSH)
	r.Enter(2, Terminal)
	now = 20
	want(1, map[Kind]Seen{App: {2, 20}, SSH: {1, 20}})
	a()
	ssh()
	now = 30
	want(1, map[Kind]Seen{App: {1, 30}, SSH: {0, 20}})
	b()
	now = 40
	r.Keep(func(job id.Job) bool { return false })
	want(1, map[Kind]Seen{})
	want(2, map[Kind]Seen{Terminal: {1, 40}})
}

// TestTell tells those who listen, and none who doesn't any more.
func TestTell(t *testing.T) {
	r := New(func() int64 { return 1 })
	heard := make(chan string, 9)
	listen := func(job id.Job, as string) func() {
		return r.Listen(job, func(line string) { heard <- as + " " + line })
	}
	a, b := listen(1, "a"), listen(1, "b")
	defer listen(2, "c")()
	b()
	r.Tell(1, "stops soon")
	if got := <-heard; got != "a stops soon" {
		t.Errorf("%q", got)
	}
	a()
	r.Tell(1, "stops now")
	r.Tell(2, "stays")
	if got := <-heard; got != "c stays" {
		t.Errorf("%q", got)
	}
	if len(r.ears) != 1 {
		t.Errorf("%d jobs are listened to", len(r.ears))
	}
}

// TestEnterTogether loses no connection, whoever forgets meanwhile.
func TestEnterTogether(t *testing.T) {
	r := New(func() int64 { return 1 })
	done := make(chan struct{})
	for range 8 {
		go func() {
			for range 1000 {
				leave := r.Enter(7, App)
				if n := r.Of(7)[App].Open; n < 1 || n > 8 {
					t.Errorf("%d are open", n)
				}
				r.Keep(func(id.Job) bool { return false })
				leave()
			}
			done <- struct{}{}
		}()
	}
	for range 8 {
		<-done
	}
	if got := r.Of(7)[App].Open; got != 0 {
		t.Errorf("%d are left open", got)
	}
}
