package run_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/loop/looptest"
	"croft.dev/croft/internal/workload"
)

// gangSpec is a job on three machines; each rank does what is said of it, or all the same.
func gangSpec(success string, ranks ...string) workload.Spec {
	spec := looptest.Spec("ranks=" + strings.Join(ranks, "|"))
	spec.Nodes, spec.Success = 3, success
	return spec
}

// rankOf is what the engine calls a rank of a job's first attempt.
func (b *bench) rankOf(k id.Job, rank int) engine.AttemptID {
	return engine.AttemptID(id.Attempt{Job: k, N: 1}.Ranks(looptest.Instance, 2)[rank])
}

// ran lists the ranks that the engine has, and whether all have ended.
func (b *bench) ran() (ids []engine.AttemptID, over bool) {
	b.Helper()
	all, err := b.engine.Engine.List(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	over = true
	for _, s := range all {
		ids = append(ids, s.Attempt)
		over = over && s.Phase == engine.PhaseExited
	}
	return ids, over
}

func TestGangRunsOnAllItsMachines(t *testing.T) {
	inClusterOf(t, 3, func(b *bench) {
		k := b.begin(gangSpec("", "run=90s"))
		b.state(k, "running")
		_, starts, _, _, _ := b.engine.asked()
		slices.SortFunc(starts, func(x, y engine.Allocation) int { return strings.Compare(x.Node, y.Node) })
		if len(starts) != 3 {
			t.Fatalf("started %d", len(starts))
		}
		for i, a := range starts {
			if a.Node != fmt.Sprintf("gpu%d", i+1) || a.Attempt != b.rankOf(k, i) || len(a.Devices) != 1 || a.Devices[0].Node != a.Node || a.Gang == nil || a.Gang.Rank != i || a.Gang.Size != 3 {
				t.Errorf("rank %d: %+v", i, a)
			}
			want := map[string]string{
				"RANK": fmt.Sprint(i), "WORLD_SIZE": "3", "MASTER_ADDR": "rank-0.croft-" + string(b.rankOf(k, 0)), "CROFT_GPU": "1",
				"CROFT_NODES": "gpu1,gpu2,gpu3", "CROFT_NODE": a.Node, "CRANE_JOB_NUM_NODES": "3", "NODE_RANK": fmt.Sprint(i),
			}
			for name, v := range want {
				if a.Env[name] != v {
					t.Errorf("rank %d: %s is %q, want %q", i, name, a.Env[name], v)
				}
			}
		}
		b.kill() // a server that comes back finds all of them
		b.boot()
		b.pass(2 * time.Minute)
		b.state(k, "endedcompleted")
		_, again, _, removed, _ := b.engine.asked()
		slices.Sort(removed) // one may be seen, and removed, twice
		if len(again) != 0 || len(slices.Compact(removed)) != 3 {
			t.Errorf("started %d again, removed %v", len(again), removed)
		}
	})
}

func TestGangEnds(t *testing.T) {
	tests := map[string]struct {
		success string
		ranks   []string // what each does
		want    string
		exit    int32
		after   time.Duration
	}{
		"all: the first that fails ends all":       {"", []string{"run=10m", "run=1m,exit=7", "run=10m"}, "endedfailed", 7, 2 * time.Minute},
		"all: it lasts as long as the longest":     {"", []string{"run=1m", "run=5m", "run=2m"}, "endedcompleted", 0, 6 * time.Minute},
		"primary: the others end with it":          {workload.SuccessPrimary, []string{"run=1m", "run=50m", "run=50m"}, "endedcompleted", 0, 2 * time.Minute},
		"primary: what others come to is nothing":  {workload.SuccessPrimary, []string{"run=3m", "run=1m,exit=9", "run=50m"}, "endedcompleted", 0, 4 * time.Minute},
		"primary: it fails":                        {workload.SuccessPrimary, []string{"run=1m,exit=3", "run=50m", "run=50m"}, "endedfailed", 3, 2 * time.Minute},
		"any: the first that succeeds":             {workload.SuccessAny, []string{"run=50m", "run=1m,exit=9", "run=2m"}, "endedcompleted", 0, 3 * time.Minute},
		"any: none does":                           {workload.SuccessAny, []string{"run=1m,exit=4", "run=1m,exit=9", "run=2m,exit=5"}, "endedfailed", 4, 3 * time.Minute},
		"all: one that is out of memory ends them": {"", []string{"run=10m", "run=10m", "run=1m,oom"}, "endedout_of_memory", 137, 2 * time.Minute},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			inClusterOf(t, 3, func(b *bench) {
				k := b.begin(gangSpec(tt.success, tt.ranks...))
				b.pass(tt.after)
				b.state(k, tt.want)
				j := b.port.Job(k)
				if j.ExitCode != tt.exit {
					t.Errorf("exit code %d (%s), want %d", j.ExitCode, j.Message, tt.exit)
				}
				b.pass(time.Minute)
				if ids, _ := b.ran(); len(ids) != 0 {
					t.Errorf("left: %v", ids)
				}
				if used := j.Attempt.Ended - j.Attempt.Started; used > int64(tt.after) {
					t.Errorf("it lasted %v", time.Duration(used))
				}
			})
		})
	}
}

// Nothing of a gang is free before all of it has ended.
func TestGangIsHeldToItsLastProcess(t *testing.T) {
	inClusterOf(t, 3, func(b *bench) {
		k := b.begin(gangSpec("", "run=50m", "run=1m,exit=2", "run=50m"))
		hang := func(on bool) {
			b.engine.mu.Lock()
			defer b.engine.mu.Unlock()
			b.engine.hangs[b.rankOf(k, 2)] = on
		}
		hang(true)
		b.pass(2 * time.Minute)
		b.state(k, "running")
		if got := b.port.World().Placement.InUse("SIM-8"); got == 0 {
			t.Error("its device is free while it runs")
		}
		hang(false)
		b.pass(time.Minute)
		b.state(k, "endedfailed")
	})
}

func TestGangIsStopped(t *testing.T) {
	inClusterOf(t, 3, func(b *bench) {
		k := b.begin(gangSpec("", "run=50m,ignore-term"))
		if _, err := b.port.As(b.port.Ada(), command.JobStop{Job: k}); err != nil {
			t.Fatal(err)
		}
		b.pass(2 * time.Second)
		if _, _, _, _, signals := b.engine.asked(); len(signals) != 3 || signals[0] != "TERM" {
			t.Errorf("told %v", signals)
		}
		b.state(k, "stopping")
		b.port.Do(t, command.JobStop{Job: k, Now: true})
		b.pass(2 * time.Minute)
		b.state(k, "endedcancelled")
		if ids, _ := b.ran(); len(ids) != 0 {
			t.Errorf("left: %v", ids)
		}
	})
}

// One that can't start keeps all from running, and nothing is paid for.
func TestGangStartsAsAWhole(t *testing.T) {
	inClusterOf(t, 3, func(b *bench) {
		k := b.begin(gangSpec("", "run=50m", "run=50m", "refuse=no such mount"))
		b.pass(time.Minute)
		b.state(k, "endedfailed")
		j := b.port.Job(k)
		if !strings.Contains(j.Message, "on gpu3: no such mount") || j.Attempt.Started != 0 || j.Charged != 0 {
			t.Errorf("%q, started %d, charged %d", j.Message, j.Attempt.Started, j.Charged)
		}
		if ids, _ := b.ran(); len(ids) != 0 {
			t.Errorf("left: %v", ids)
		}
	})
}

// The loss of one machine is the loss of all.
func TestGangLosesAMachine(t *testing.T) {
	inClusterOf(t, 3, func(b *bench) {
		k := b.begin(gangSpec("", "run=50m"))
		b.engine.mu.Lock()
		b.engine.hide[b.rankOf(k, 1)] = true
		b.engine.mu.Unlock()
		b.pass(2 * time.Minute)
		b.state(k, "endednode_failed")
	})
}
