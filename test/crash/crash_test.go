package crash

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
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

// storm submits while the killer kills: so many times, and on a slow machine oftener, until as
// many jobs were accepted.
func storm(t *testing.T, l *load, k *killer, clients, kills int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stop := make(chan struct{})
	killed := make(chan error, 1)
	go func() {
		err := k.run(ctx, kills)
		for err == nil && l.count() < kills {
			err = k.run(ctx, 1)
		}
		killed <- err
		close(stop)
	}()
	err := l.run(ctx, clients, stop)
	cancel() // clients that have all failed reach no number
	if kerr := <-killed; err == nil {
		err = kerr
	}
	must(t, err)
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

// TestChains kills a server while jobs wait for others, for their elements, for their
// turn among those of their name and for their release. What can start does, in its order;
// what can't ends.
func TestChains(t *testing.T) {
	const kills, rounds = 40, 25
	s := open(t, site.Config{Name: "chains", Sim: true})
	populate(t, s.Client(), "root")
	c := s.Client()
	submit := func(name, after, array string, hold bool, run string) string {
		job, err := c.Submit(t.Context(), v1.JobSpec{
			Name: name, Account: account, Image: "tiny:1", CPU: "0.1", Command: []string{"sim", run}, Requeue: []string{"node"}, After: after, Array: array, Hold: hold,
		})
		must(t, err)
		return job.ID
	}
	var held, each []string
	for i := range rounds {
		first := submit("first", "", "", false, "run=20ms")
		held = append(held, submit("held", "afterok:"+first, "", true, "run=10ms"))
		submit("never", "afternotok:"+first, "", false, "run=10ms")
		array := submit("array", "after:"+first, "0-3", false, "run=10ms")
		each = append(each, submit("each", "aftercorr:"+array, "0-3", false, "run=10ms"))
		submit("one", "afterok:"+array+"_"+strconv.Itoa(i%4), "", false, "run=10ms")
		submit("alone", "singleton", "", false, "run=10ms")
	}
	released := make(chan error, 1)
	go func() {
		for _, id := range held {
			err := v1.Retry(t.Context(), away, func() error {
				_, err := c.Release(t.Context(), id)
				if isCode(err, codes.Conflict) {
					return nil // an earlier try did it, or it could never start
				}
				return err
			})
			if err != nil {
				released <- err
				return
			}
		}
		released <- nil
	}()
	k := &killer{site: s, rand: seeded(t), least: 20 * time.Millisecond, most: 400 * time.Millisecond}
	must(t, k.run(t.Context(), kills))
	must(t, <-released)

	jobs := map[string]v1.Job{}
	for job, err := range c.Jobs(t.Context(), v1.JobQuery{Account: account, State: "all", User: "*"}) {
		must(t, err)
		done := wait(t, c, job.ID, v1.Ended)
		jobs[job.ID] = *done
	}
	if len(jobs) != 7*rounds {
		t.Errorf("%d jobs, want %d", len(jobs), 7*rounds)
	}
	var alone []v1.Job
	for id, job := range jobs {
		_, after, _ := strings.Cut(job.Spec.After, ":")
		first, started := jobs[after], job.Started != nil
		switch job.Name {
		case "held":
			if (first.Outcome == "completed") != started || started && job.Started.Before(*first.Ended) {
				t.Errorf("job %s, %s, started at %v, after one that %s at %v", id, job.Outcome, job.Started, first.Outcome, first.Ended)
			}
		case "never":
			if (first.Outcome == "completed") == started || !started && job.Outcome != "cancelled" {
				t.Errorf("job %s is %s, after one that %s", id, job.Outcome, first.Outcome)
			}
		case "alone":
			alone = append(alone, job)
		}
	}
	for _, id := range each {
		ended := int64(0)
		for outcome, n := range jobs[id].Array.Ended {
			if ended += n; outcome != "completed" && outcome != "cancelled" && outcome != "node_failed" {
				t.Errorf("job %s: %d %s", id, n, outcome)
			}
		}
		if ended != 4 {
			t.Errorf("job %s: %d of 4 elements have ended", id, ended)
		}
	}
	slices.SortFunc(alone, func(a, b v1.Job) int { return a.Submitted.Compare(b.Submitted) })
	for i, job := range alone {
		if job.Started == nil || i > 0 && job.Started.Before(*alone[i-1].Ended) {
			t.Errorf("job %s started at %v, though the one before it ended at %v", job.ID, job.Started, alone[max(i-1, 0)].Ended)
		}
	}
	consistent(t, c)
}

// TestPreemption kills a server between the stop of a job and the start of the one that it
// makes room for: that has a claim, and comes before what is first in the queue by then.
func TestPreemption(t *testing.T) {
	const rounds = 20
	s := open(t, site.Config{Name: "preempt", Sim: true, Extra: "qos: [{name: normal, grace: 2s}]\n"})
	populate(t, s.Client(), "root")
	c := s.Client()
	above, first := int64(1), int64(1_000_000)
	_, err := c.AddQoS(t.Context(), v1.NewQoS{Name: "urgent", QoSPatch: v1.QoSPatch{Priority: &above, Preempts: &[]string{"normal"}}})
	must(t, err)
	var cores v1.Quantity
	for n, err := range c.Nodes(t.Context()) {
		must(t, err)
		cores = n.CPU.Total
	}
	submit := func(qos, grace string, words ...string) string {
		job, err := c.Submit(t.Context(), v1.JobSpec{
			Account: account, QoS: qos, Image: "tiny:1", CPU: cores, Grace: v1.Quantity(grace), Command: append([]string{"sim"}, words...), Requeue: []string{"node", "preempt"},
		})
		must(t, err)
		return job.ID
	}
	rand := seeded(t)
	for range rounds {
		victim := submit("normal", "2s", "forever", "trap-term=150ms")
		wait(t, c, victim, v1.Running)
		longer := submit("normal", "2s", "forever")
		urgent := submit("urgent", "2s", "run=10ms")
		for claimed := false; !claimed; {
			job, err := c.Job(t.Context(), urgent)
			must(t, err)
			claimed = job.State != "queued" || strings.Contains(job.Message, "to make room for it")
		}
		_, err = c.Prioritize(t.Context(), longer, v1.PriorityRequest{Points: &first})
		must(t, err)
		must(t, after(time.Duration(rand.Int64N(int64(300*time.Millisecond))))(t.Context()))
		must(t, s.Kill())
		must(t, s.Launch(t.Context()))
		must(t, s.Ready(t.Context()))
		done := wait(t, c, urgent, v1.Ended)
		for _, id := range []string{victim, longer} {
			job, err := c.Job(t.Context(), id)
			must(t, err)
			if job.State == "ended" || id == longer && job.Started != nil && job.Started.Before(*done.Started) {
				t.Errorf("job %s is %s %s since %v, the urgent one began at %v", id, job.State, job.Outcome, job.Started, done.Started)
			}
			_, err = c.Stop(t.Context(), id, v1.StopRequest{Now: true})
			must(t, err)
			wait(t, c, id, v1.Ended)
		}
	}
	consistent(t, c)
}

// TestArray kills a server while an array's elements start and end. Each of them ends
// once, and the array when all have.
func TestArray(t *testing.T) {
	const kills, elements = 40, 300
	s := open(t, site.Config{Name: "array", Sim: true})
	populate(t, s.Client(), "root")
	c := s.Client()
	array, err := c.Submit(t.Context(), v1.JobSpec{
		Account: account, Image: "tiny:1", CPU: "0.1", Command: []string{"sim", "run=30ms"}, Requeue: []string{"node"}, Array: "0-598:2%20",
	})
	must(t, err)
	k := &killer{site: s, rand: seeded(t), least: 20 * time.Millisecond, most: 400 * time.Millisecond}
	must(t, k.run(t.Context(), kills))
	array = wait(t, c, array.ID, v1.Ended)
	ended := int64(0)
	for _, n := range array.Array.Ended {
		ended += n
	}
	if ended != elements || array.Array.Pending != 0 || array.Array.Active != 0 {
		t.Errorf("of %d elements ended: %+v", elements, array.Array)
	}
	seen := map[string]bool{}
	for job, err := range c.Jobs(t.Context(), v1.JobQuery{Account: account, State: "all", User: "*", Elements: true}) {
		must(t, err)
		if job.ID == array.ID {
			continue
		}
		if seen[job.ID] || !strings.HasPrefix(job.ID, array.ID+"_") || job.Outcome != "completed" && job.Outcome != "node_failed" {
			t.Errorf("element %s: %s: %s", job.ID, job.Outcome, job.Message)
		}
		seen[job.ID] = true
	}
	if len(seen) != elements {
		t.Errorf("%d elements were run", len(seen))
	}
	consistent(t, c)
}
