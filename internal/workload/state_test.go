package workload_test

import (
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
		workload.Stopping: ". x . . . x",
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
			if after := workload.RulesOf(to); workload.May(s, to) && r.Running && !after.Running && to != workload.Queued && to != workload.Ended {
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
	if s.Active.Len() != active {
		t.Fatalf("%d active, want %d", s.Active.Len(), active)
	}
	if s.Waiting() != int64(len(queued)) {
		t.Fatalf("%d wait, want %d", s.Waiting(), len(queued))
	}
	checkOrder(t, s, queued)
	for u := id.User(1); u <= 3; u++ {
		var got []id.Job
		for j := range s.OfUser(u) {
			got = append(got, j.ID)
		}
		if diff := cmp.Diff(users[u], got); diff != "" {
			t.Fatalf("jobs of user %d (-want +got)\n%s", u, diff)
		}
	}
}
