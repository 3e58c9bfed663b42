package crash

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/test/site"
)

// TestContainers kills the server while real containers run. Each job appends a
// line to a file, so that one that ran twice, or never, shows.
func TestContainers(t *testing.T) {
	const kills, clients = 26, 4
	s := open(t, site.Config{
		Name: "crash", Users: []string{"ada"}, Images: []string{"tiny.tar"},
		Extra: "qos: [{name: normal, grace: 2s}]\ndefaults: {cpu: 0.1, mem: 32M, time: 10m}\n",
	})
	ada := s.User("ada")
	populate(t, s.Client(), ada)
	l := &load{client: client(t, s, ada), spec: v1.JobSpec{
		Account: account, Image: "tiny:1",
		Command: []string{"sh", "-c", "echo $CROFT_JOB_ID $CROFT_ATTEMPT >> ~/ran; sleep 0.$((CROFT_JOB_ID % 7))"},
		Mounts:  []v1.Mount{{Source: s.Home("ada")}},
	}}
	l.pause = after(2 * time.Second)
	storm(t, l, &killer{site: s, rand: seeded(t), least: 50 * time.Millisecond, most: 4 * time.Second}, clients, kills)

	jobs := l.ended(t)
	if len(jobs) < kills {
		t.Errorf("only %d jobs were run during %d kills", len(jobs), kills)
	}
	text, err := os.ReadFile(filepath.Join(s.Home("ada"), "ran"))
	must(t, err)
	ran := map[string]int{}
	for line := range strings.Lines(string(text)) {
		ran[strings.TrimSpace(line)]++
	}
	for id, job := range jobs {
		if job.Outcome != "completed" || job.Attempt != 1 {
			t.Errorf("job %s: %s in attempt %d: %s", id, job.Outcome, job.Attempt, job.Message)
		}
		if n := ran[id+" 1"]; n != 1 {
			t.Errorf("job %s ran %d times", id, n)
		}
	}
	if len(ran) != len(jobs) {
		t.Errorf("%d attempts of %d jobs ran", len(ran), len(jobs))
	}
	consistent(t, s.Client())
	t.Logf("%d jobs, %d kills", len(jobs), kills)
}

// client is a client of a user's, over HTTP with a token.
func client(t *testing.T, s *site.Site, user string) *v1.Client {
	t.Helper()
	token, err := s.Client().AddToken(t.Context(), user, v1.TokenRequest{Name: "crash"})
	must(t, err)
	c, err := v1.New(v1.Config{Server: s.HTTP(), Token: token.Secret})
	must(t, err)
	t.Cleanup(c.Close)
	return c
}

// after is a pause between submissions, so that the machine keeps up.
func after(d time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(d):
			return nil
		}
	}
}

// storm submits while the killer kills.
func storm(t *testing.T, l *load, k *killer, clients, kills int) {
	t.Helper()
	stop := make(chan struct{})
	killed := make(chan error, 1)
	go func() {
		killed <- k.run(t.Context(), kills)
		close(stop)
	}()
	if err := l.run(t.Context(), clients, stop); err != nil {
		t.Error(err)
	}
	must(t, <-killed)
}

// TestQuick kills a server without containers much more often, within its start
// too. What ran when it was killed is gone with it, and is run again.
func TestQuick(t *testing.T) {
	const kills, clients = 100, 4
	s := open(t, site.Config{Name: "quick", Sim: true})
	populate(t, s.Client(), "root")
	l := &load{client: s.Client(), spec: v1.JobSpec{
		Account: account, Image: "tiny:1", CPU: "0.1", Command: []string{"sim", "run=30ms"}, Requeue: []string{"node"},
	}}
	l.pause = after(10 * time.Millisecond)
	storm(t, l, &killer{site: s, rand: seeded(t), least: 20 * time.Millisecond, most: 400 * time.Millisecond}, clients, kills)
	jobs := l.ended(t)
	if len(jobs) < kills {
		t.Errorf("only %d jobs were run during %d kills", len(jobs), kills)
	}
	for id, job := range jobs {
		if job.Outcome != "completed" && job.Outcome != "node_failed" {
			t.Errorf("job %s: %s: %s", id, job.Outcome, job.Message)
		}
	}
	consistent(t, s.Client())
	t.Logf("%d jobs, %d kills", len(jobs), kills)
}
