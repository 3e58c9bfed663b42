package workload_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/workload"
)

var states = []workload.JobState{workload.Held, workload.Queued, workload.Starting, workload.Running, workload.Stopping, workload.Ended}

// The table of transitions, as a picture: a row's state may go to a column's.
func TestTransitions(t *testing.T) {
	want := map[workload.JobState]string{
		//                  H Q S R T E
		workload.Held:     ". x . . . x",
		workload.Queued:   "x . x . . x",
		workload.Starting: ". x . x x x",
		workload.Running:  ". x . . x x",
		workload.Stopping: "x x . . . x",
		workload.Ended:    ". . . . . .",
	}
	for _, from := range states {
		row := ""
		for i, to := range states {
			if i > 0 {
				row += " "
			}
			row += map[bool]string{true: "x", false: "."}[workload.May(from, to)]
		}
		if row != want[from] {
			t.Errorf("from %s: %s, want %s", from, row, want[from])
		}
		if workload.May(from, "paused") || workload.May("paused", from) {
			t.Errorf("%s goes to or comes from a state that isn't one", from)
		}
	}
}

// The rules of a state hang together, whatever the table says.
func TestRulesHangTogether(t *testing.T) {
	for _, s := range states {
		r := workload.RulesOf(s)
		switch {
		case r.Submitted != (s != workload.Ended):
			t.Errorf("%s counts as submitted: %v", s, r.Submitted)
		case r.Deposit != r.Submitted:
			t.Errorf("%s keeps its deposit: %v", s, r.Deposit)
		case r.Running && !r.Submitted, r.Charges && !r.Running, r.Clock && !r.Charges:
			t.Errorf("%s: %+v", s, r)
		}
		// Holding something ends only by waiting again or by ending.
		for _, to := range states {
			if after := workload.RulesOf(to); workload.May(s, to) && r.Running && !after.Running && to != workload.Queued && to != workload.Held && to != workload.Ended {
				t.Errorf("%s may let go of its allocation by becoming %s", s, to)
			}
			// Nothing is charged that didn't start.
			if workload.May(s, to) && workload.RulesOf(to).Clock && !r.Running {
				t.Errorf("%s may become %s without an allocation", s, to)
			}
		}
	}
	if r := workload.RulesOf("paused"); r != (workload.Rules{}) {
		t.Errorf("a state that isn't one: %+v", r)
	}
}

// However jobs come and go: Active, OfUser and the counts of those that wait are
// what a look at all jobs says, and the queue is in order; see order_test.go.
func TestStateIndexes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := workload.NewState()
		rows := map[id.Job]*workload.Job{}
		for range rapid.IntRange(1, 60).Draw(t, "changes") {
			j := &workload.Job{
				ID: id.Job(rapid.IntRange(1, 12).Draw(t, "job")), User: id.User(rapid.IntRange(1, 3).Draw(t, "user")),
				State: rapid.SampledFrom(states).Draw(t, "state"),
			}
			drawLane(t, j)
			drawWaits(t, j)
			if old, ok := rows[j.ID]; ok {
				j.User = old.User
			}
			snapshot := s.Copy()
			if before := s.Fold(workload.JobSet{Row: j}); before != rows[j.ID] {
				t.Fatalf("before %+v, was %+v", before, rows[j.ID])
			}
			if old, _ := snapshot.Jobs.Get(j.ID); old != rows[j.ID] {
				t.Fatal("a copy changed")
			}
			if rows[j.ID] = j; j.State == workload.Ended {
				delete(rows, j.ID)
			}
		}
		checkIndexes(t, &s, rows)
	})
}

func checkIndexes(t *rapid.T, s *workload.State, rows map[id.Job]*workload.Job) {
	var queued []*workload.Job
	users := map[id.User][]id.Job{}
	active := 0
	for k := id.Job(1); k <= 12; k++ {
		j, ok := rows[k]
		if got, has := s.Jobs.Get(k); has != ok || got != j {
			t.Fatalf("job %d: %+v", k, got)
		}
		if !ok {
			continue
		}
		users[j.User] = append(users[j.User], k)
		if j.State == workload.Queued {
			queued = append(queued, j)
		}
		if workload.RulesOf(j.State).Running {
			active++
		}
	}
	checkWaits(t, s, rows)
	if s.Active.Len() != active {
		t.Fatalf("%d active, want %d", s.Active.Len(), active)
	}
	if s.Waiting() != int64(len(queued)) {
		t.Fatalf("%d wait, want %d", s.Waiting(), len(queued))
	}
	checkOrder(t, s, queued)
	for u := id.User(1); u <= 3; u++ {
		for _, before := range []id.Job{2, 5, s.NextJob()} {
			var got, want []id.Job
			for j := range s.OfUser(u, before) {
				got = append(got, j.ID)
			}
			for _, k := range slices.Backward(users[u]) {
				if k < before {
					want = append(want, k)
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("jobs of user %d below %d (-want +got)\n%s", u, before, diff)
			}
		}
	}
}

func drawWaits(t *rapid.T, j *workload.Job) {
	j.Spec.Time = 10
	if rapid.Bool().Draw(t, "has a deadline") {
		j.Spec.Deadline = rapid.Int64Range(1, 30).Draw(t, "deadline")
	}
	j.Spec.Begin = rapid.Int64Range(0, 5).Draw(t, "begin")
	j.Spec.After.Any = rapid.Bool().Draw(t, "any")
	for range rapid.IntRange(0, 3).Draw(t, "waits for") {
		j.Spec.After.Of = append(j.Spec.After.Of, workload.Dependency{Event: workload.AfterOK, Job: id.Job(rapid.IntRange(1, 12).Draw(t, "other"))})
		j.Met = append(j.Met, rapid.SampledFrom([]workload.Met{{}, {At: 7}, {Never: true}}).Draw(t, "met"))
	}
}

// checkWaits looks at all jobs for what waits for a time or for another job.
func checkWaits(t *rapid.T, s *workload.State, rows map[id.Job]*workload.Job) {
	timed, last := 0, int64(0)
	for j := range s.Timed() {
		if rows[j.ID] != j || j.Due() < last {
			t.Fatalf("job %d is due at %d after %d", j.ID, j.Due(), last)
		}
		timed, last = timed+1, j.Due()
	}
	for k := id.Job(1); k <= 12; k++ {
		var want []id.Job
		for d := id.Job(1); d <= 12; d++ {
			j, ok := rows[d]
			if ok && k == 1 && j.Due() != 0 {
				timed--
			}
			if !ok || workload.RulesOf(j.State).Running {
				continue
			}
			for i, dep := range j.Spec.After.Of {
				if dep.Job == k && !j.Met[i].Settled() {
					want = append(want, d)
					break
				}
			}
		}
		var got []id.Job
		for j := range s.Awaiting(k) {
			got = append(got, j.ID)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("who waits for job %d (-want +got)\n%s", k, diff)
		}
	}
	if timed != 0 {
		t.Fatalf("%d more wait for a time than should", timed)
	}
}
