package placement

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/workload"
)

// gpus is a job that wants n devices for some minutes.
func gpus(jid id.Job, n, minutes int64) *workload.Job {
	return job(jid, Shape{CPU: core, Mem: gib, GPU: n * 1000, Wall: minutes * 60 * second})
}

// by is a job with a deadline.
func by(deadline int64, j *workload.Job) *workload.Job {
	j.Spec.Deadline = deadline
	return j
}

func promised(j *workload.Job, at int64) *workload.Job {
	j.Promise = at
	return j
}

func TestPlan(t *testing.T) {
	const (
		now    = 1000 * hour
		minute = 60 * second
	)
	// One node with four devices; job 90 has two of them for another ten minutes.
	busy := func() *State {
		s := machine(&State{}, "n1", "a", "a", "a", "a")
		s.Hold(Hold{Job: 90, Node: "n1", CPU: core, Mem: gib, Devices: uuids("n1", 0, 1), Until: now + 10*minute})
		return s
	}
	type promise struct {
		Job id.Job
		In  int64 // minutes
	}
	cases := map[string]struct {
		state    *State
		queue    []*workload.Job
		edit     func(*PlanInput)
		starts   []id.Job
		promises []promise
	}{
		"in order while there is room": {
			queue:    []*workload.Job{gpus(1, 1, 5), gpus(2, 1, 5), gpus(3, 1, 5)},
			starts:   []id.Job{1, 2},
			promises: []promise{{3, 5}},
		},
		"one that couldn't end by its deadline isn't started and gets no promise": {
			queue:    []*workload.Job{by(now+9*minute, gpus(1, 1, 10)), by(now+10*minute, gpus(2, 1, 10)), by(now+15*minute, gpus(3, 4, 10)), gpus(4, 4, 10)},
			starts:   []id.Job{2},
			promises: []promise{{4, 10}},
		},
		"nor is it when it is further down": {
			queue:    []*workload.Job{gpus(1, 4, 60), by(now+9*minute, gpus(2, 1, 10)), by(now+10*minute, gpus(3, 1, 10))},
			edit:     func(in *PlanInput) { in.Depth = 1 },
			starts:   []id.Job{3},
			promises: []promise{{1, 10}},
		},
		"a promise isn't put off past the deadline": {
			queue:    []*workload.Job{promised(by(now+21*minute, gpus(1, 4, 10)), now+11*minute), promised(by(now+19*minute, gpus(2, 4, 10)), now+9*minute)},
			promises: []promise{{1, 10}},
		},
		"a short job goes ahead of one that must wait": {
			queue:    []*workload.Job{gpus(1, 4, 60), gpus(2, 2, 10)},
			starts:   []id.Job{2},
			promises: []promise{{1, 10}},
		},
		"a job that is a minute too long doesn't": {
			queue:    []*workload.Job{gpus(1, 4, 60), gpus(2, 2, 11)},
			promises: []promise{{1, 10}, {2, 70}},
		},
		"nor with a margin": {
			queue:    []*workload.Job{gpus(1, 4, 60), gpus(2, 2, 10)},
			edit:     func(in *PlanInput) { in.Margin = minute },
			promises: []promise{{1, 10}, {2, 71}},
		},
		"beyond the depth only what fits now": {
			queue:    []*workload.Job{gpus(1, 4, 60), gpus(2, 3, 60), gpus(3, 3, 60), gpus(4, 2, 11), gpus(5, 1, 10)},
			edit:     func(in *PlanInput) { in.Depth = 2 },
			starts:   []id.Job{5},
			promises: []promise{{1, 10}, {2, 70}},
		},
		"the budget ends the look beyond": {
			queue:    []*workload.Job{gpus(1, 4, 60), gpus(2, 3, 60), gpus(3, 1, 10)},
			edit:     func(in *PlanInput) { in.Depth, in.Budget = 1, 1 },
			promises: []promise{{1, 10}},
		},
		"what an earlier try rules out costs no budget": {
			queue:    []*workload.Job{gpus(1, 4, 60), gpus(2, 3, 60), gpus(3, 4, 60), gpus(4, 3, 61), gpus(5, 1, 10)},
			edit:     func(in *PlanInput) { in.Depth, in.Budget = 1, 2 },
			starts:   []id.Job{5},
			promises: []promise{{1, 10}},
		},
		"a blocked job gets no slot": {
			queue:    []*workload.Job{gpus(1, 4, 59), gpus(2, 4, 60)},
			edit:     func(in *PlanInput) { in.Eligible = func(j *workload.Job) bool { return j.ID != 1 } },
			promises: []promise{{2, 10}},
		},
		"a job whose image is missing keeps its slot": {
			queue:    []*workload.Job{gpus(1, 2, 60), gpus(2, 1, 5)},
			edit:     func(in *PlanInput) { in.CanStart = func(j *workload.Job, _ Spot) bool { return j.ID != 1 } },
			promises: []promise{{1, 0}, {2, 10}},
		},
		"a deeper one whose image is missing lets others by": {
			queue: []*workload.Job{gpus(1, 2, 5), gpus(2, 2, 5), gpus(3, 2, 5)},
			edit: func(in *PlanInput) {
				in.Depth, in.CanStart = 0, func(j *workload.Job, _ Spot) bool { return j.ID != 1 }
			},
			starts: []id.Job{2},
		},
		"nothing starts that would meet a window": {
			state: func() *State {
				s := busy()
				s.Fold(MaintenanceSet{Maintenance{ID: 1, Node: "n1", From: now + 10*minute, To: now + 30*minute}})
				return s
			}(),
			queue:    []*workload.Job{gpus(1, 1, 11), gpus(2, 1, 10)},
			starts:   []id.Job{2},
			promises: []promise{{1, 30}},
		},
		"a standing promise keeps its slot when an earlier job moves forward": {
			// Job 1 was promised the node from minute 10; job 2 a slot before that. Both
			// would like what has just come free.
			state: machine(&State{}, "n1", "a", "a"),
			queue: []*workload.Job{gpus(1, 2, 60), gpus(2, 1, 8)},
			edit: func(in *PlanInput) {
				in.Standing = []Promise{{1, now + 10*minute, "n1", nil, ""}, {2, now + minute, "n1", nil, ""}}
			},
			starts:   []id.Job{2},
			promises: []promise{{1, 9}}, // job 2 moves forward after it, so the next pass makes this 8
		},
		"a job of higher place takes a standing slot": {
			queue:    []*workload.Job{gpus(1, 4, 60), gpus(2, 4, 60)},
			edit:     func(in *PlanInput) { in.Standing = []Promise{{2, now + 10*minute, "n1", nil, ""}} },
			promises: []promise{{1, 10}, {2, 70}},
		},
		"a promise known only by its time is kept": {
			queue:    []*workload.Job{promised(gpus(1, 4, 30), now+30*minute), promised(gpus(2, 2, 30), now)},
			starts:   []id.Job{2},
			promises: []promise{{1, 30}},
		},
		"a job of any model keeps the models that it was promised": {
			state: func() *State {
				s := machine(&State{}, "n1", "a", "a", "b", "b")
				s.Hold(Hold{Job: 90, Node: "n1", CPU: 32 * core, Until: now + 10*minute})
				return s
			}(),
			queue: []*workload.Job{gpus(1, 2, 30), job(2, Shape{CPU: core, GPU: 2000, Model: "a", Wall: 30 * minute})},
			edit: func(in *PlanInput) {
				in.Standing = []Promise{
					{1, now + 10*minute, "n1", []catalog.ModelCount{{Model: "b", Count: 2000}}, ""},
					{2, now + 10*minute, "n1", []catalog.ModelCount{{Model: "a", Count: 2000}}, ""},
				}
			},
			promises: []promise{{1, 10}, {2, 10}},
		},
		"a slot that comes free a little late is waited for": {
			state: func() *State {
				s := machine(machine(&State{}, "n1", "a"), "n2", "a")
				s.Hold(Hold{Job: 90, Node: "n1", Devices: uuids("n1", 0), Until: now + 11*minute})
				s.Hold(Hold{Job: 91, Node: "n2", Devices: uuids("n2", 0), Until: now + 10*minute})
				return s
			}(),
			queue: []*workload.Job{gpus(1, 1, 60), gpus(2, 1, 60)},
			edit: func(in *PlanInput) {
				in.Standing = []Promise{{1, now + 10*minute, "n1", nil, ""}, {2, now + 10*minute, "n2", nil, ""}}
			},
			promises: []promise{{1, 11}, {2, 10}},
		},
		"no promise where nothing is usable": {
			state: func() *State {
				s := busy()
				changeNode(s, "n1", func(n *Node) { n.Drained = true })
				return s
			}(),
			queue: []*workload.Job{gpus(1, 1, 1)},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if c.state == nil {
				c.state = busy()
			}
			in := PlanInput{State: c.state, Lanes: []Lane{{Partition: everywhere, Queue: queue(c.queue...)}}, Now: now, Depth: 10}
			if c.edit != nil {
				c.edit(&in)
			}
			got := Plan(in)
			var starts []id.Job
			for _, st := range got.Starts {
				starts = append(starts, st.Job.ID)
			}
			var promises []promise
			for _, p := range got.Promises {
				promises = append(promises, promise{p.Job, (p.At - now) / minute})
			}
			if diff := cmp.Diff(c.starts, starts); diff != "" {
				t.Errorf("starts (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.promises, promises); diff != "" {
				t.Errorf("promises, in minutes (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(got, Plan(in), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("the same input twice:\n%s", diff)
			}
		})
	}
}

func TestPlanSharesNodesBetweenLanes(t *testing.T) {
	const now = 1000 * hour
	s := machine(&State{}, "n1", "a")
	low, high := gpus(1, 1, 60), gpus(2, 1, 60)
	high.Pin = 10
	got := Plan(PlanInput{
		State: s, Now: now, Depth: 5,
		Lanes: []Lane{
			{Partition: everywhere, Queue: queue(low)},
			{Partition: catalog.Partition{Name: "fast", Nodes: []string{"n1"}}, Queue: queue(high)},
		},
	})
	if len(got.Starts) != 1 || got.Starts[0].Job != high {
		t.Errorf("starts %v, want the job of higher priority", got.Starts)
	}
	if want := []Promise{{1, now + hour, "n1", []catalog.ModelCount{{Model: "a", Count: 1000}}, ""}}; !cmp.Equal(want, got.Promises) {
		t.Errorf("promises %v, want %v", got.Promises, want)
	}
	// Deeper jobs of both lanes are merged in order, too.
	got = Plan(PlanInput{
		State: s, Now: now,
		Lanes: []Lane{
			{Partition: everywhere, Queue: queue(low)},
			{Partition: catalog.Partition{Name: "fast", Nodes: []string{"n1"}}, Queue: queue(high)},
		},
	})
	if len(got.Starts) != 1 || got.Starts[0].Job != high {
		t.Errorf("deeper starts %v, want the job of higher priority", got.Starts)
	}
}

func TestPlanAsksOnceAboutJobsThatAreAlike(t *testing.T) {
	asked := 0
	var jobs []*workload.Job
	for i := range 1000 {
		jobs = append(jobs, gpus(id.Job(i+1), 1, 60))
	}
	Plan(PlanInput{
		State: machine(&State{}, "n1", "a"), Lanes: []Lane{{Partition: everywhere, Queue: queue(jobs...)}}, Now: hour, Depth: 10,
		Eligible: func(*workload.Job) bool { asked++; return false },
	})
	if asked != 1 {
		t.Errorf("asked %d times", asked)
	}
}
