package run_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/loop/looptest"
	"croft.dev/croft/internal/loop/run"
	"croft.dev/croft/internal/workload"
)

func TestAJobRunsAndEnds(t *testing.T) {
	inBench(t, func(b *bench) {
		spec := looptest.Spec("run=90s", "exit=3")
		spec.Command, spec.Args = spec.Command[:1], spec.Command[1:]
		spec.Streams = workload.Streams{Stdin: true, TTY: true}
		spec.Env = map[string]string{"OMP_NUM_THREADS": "7"}
		spec.Mounts = []workload.Mount{{Source: "/data/set", Target: "/in", ReadOnly: true}, {Type: workload.MountTmpfs, Target: "/t"}, {Type: workload.MountTmpfs, Target: "/u", Size: 7}, {Type: workload.MountVolume, Source: "cache", Target: "/v"}}
		k := b.begin(spec)
		b.state(k, "running")
		a := b.engine.starts[0]
		if a.Account != "nlp" || a.SpecDigest != run.Digest(b.port.Job(k).Spec) || len(a.Devices) != 1 || a.User.Name != "ada" || a.ImageID != "sha256:1" || !a.Stdin || !a.TTY || a.AwaitAttach {
			t.Errorf("allocation %+v", a)
		}
		if a.Env["CROFT_JOB_ID"] != "1" || a.Env["CUDA_VISIBLE_DEVICES"] != a.Devices[0].UUID || a.Env["OMP_NUM_THREADS"] != "7" || a.Env["CROFT_GPU"] != "1" || a.Env["CROFT_GPU_MEMORY"] != "85899345920" {
			t.Errorf("environment %v", a.Env)
		}
		if diff := cmp.Diff([]engine.Mount{{Source: "/data/set", Target: "/in", ReadOnly: true, Within: []string{"/data", "/home/ada"}}, {Target: "/t", Tmpfs: a.Memory / 2}, {Target: "/u", Tmpfs: 7}, {Volume: "cache", Target: "/v"}, siteMount}, a.Mounts); diff != "" {
			t.Errorf("mounts (-want +got)\n%s", diff)
		}
		b.pass(2 * time.Minute)
		b.state(k, "endedfailed")
		if j := b.port.Job(k); j.ExitCode != 3 || j.Attempt.Ended-j.Attempt.Started != 90e9 {
			t.Errorf("exit %d after %d s", j.ExitCode, (j.Attempt.Ended-j.Attempt.Started)/1e9)
		}
		if len(b.engine.removed) == 0 || len(b.engine.starts) != 1 {
			t.Errorf("started %d times, removed %v", len(b.engine.starts), b.engine.removed)
		}
	})
}

// A job that has a part of a device is told how much of its memory is its own.
func TestPartIsTold(t *testing.T) {
	inBench(t, func(b *bench) {
		shared := true
		b.port.Do(t, command.PartitionPut{Name: "main", ShareDevices: &shared})
		spec := looptest.Spec("run=90s")
		spec.GPU, spec.GPUMem = 300, 30<<30
		b.begin(spec)
		a := b.engine.starts[0]
		if a.Part != 375 || a.Env["CROFT_GPU"] != "0.375" || a.Env["CROFT_GPU_MEMORY"] != "32212254720" {
			t.Errorf("%d milli-devices, environment %v", a.Part, a.Env)
		}
	})
}

// A server that is killed finds its jobs again: nothing is started twice, and what
// ended meanwhile is seen with its own times.
func TestAdoptedAfterRestart(t *testing.T) {
	inBench(t, func(b *bench) {
		long, short := b.begin(looptest.Spec("run=30m")), b.begin(looptest.Spec("run=60s"))
		b.kill()
		b.pass(10 * time.Minute)
		b.state(short, "running")
		b.boot()
		b.pass(time.Second)
		b.state(long, "running")
		b.state(short, "endedcompleted")
		if j := b.port.Job(short); j.Attempt.Ended-j.Attempt.Started != 60e9 {
			t.Errorf("ran for %d s", (j.Attempt.Ended-j.Attempt.Started)/1e9)
		}
		if n := len(b.fleet.Running()); n != 1 {
			t.Errorf("%d programs run", n)
		}
		b.pass(time.Hour)
		b.state(long, "endedcompleted")
	})
}

// A server that is killed between the commit and the start starts it then.
func TestStartedAfterRestart(t *testing.T) {
	inBench(t, func(b *bench) {
		b.kill()
		k := b.begin(looptest.Spec("forever"))
		b.state(k, "starting")
		b.boot()
		b.state(k, "running")
	})
}

// While the engine can't be asked nothing ends, nothing is released and nothing
// is called more and more often; when it can be again, the truth is found.
func TestUnavailableEndsNothing(t *testing.T) {
	inBench(t, func(b *bench) {
		long, short := b.begin(looptest.Spec("run=100m")), b.begin(looptest.Spec("run=60s"))
		b.fleet.SetDown(true)
		b.pass(50 * time.Minute)
		for _, k := range []int{int(long), int(short)} {
			if j := b.port.Job(long); j.State != workload.Running || j.Attempt.Lost == 0 {
				t.Errorf("job %d: %s, lost since %d", k, j.State, j.Attempt.Lost)
			}
		}
		if b.runner.Lost() == nil || len(b.port.Done("job.observed")) != 2 || b.port.World().Placement.Holds.Len() != 2 {
			t.Errorf("lost %v, observed %v", b.runner.Lost(), b.port.Done("job.observed"))
		}
		// the watch and the listing try once a second each
		lists, _, stopped, removed, signals := b.engine.asked()
		if most := 2*50*60 + 200; lists > most {
			t.Errorf("%d listings in 50 minutes, at most %d are expected", lists, most)
		}
		if len(stopped)+len(removed)+len(signals) != 0 {
			t.Errorf("stopped %v removed %v", stopped, removed)
		}
		b.fleet.SetDown(false)
		b.pass(5 * time.Second)
		b.state(long, "running")
		b.state(short, "endedcompleted")
		if j := b.port.Job(long); j.Attempt.Lost != 0 || b.runner.Lost() != nil {
			t.Errorf("still lost: %+v", j.Attempt)
		}
	})
}

// That contact is lost is recorded even if the first attempt to record it fails.
func TestContactIsRecordedLater(t *testing.T) {
	inBench(t, func(b *bench) {
		k := b.begin(looptest.Spec("forever"))
		b.port.Fail("node.contact", errors.New("disk full"))
		b.fleet.SetDown(true)
		b.pass(time.Minute)
		b.port.Fail("node.contact", nil)
		b.pass(5 * time.Second)
		if b.port.Job(k).Attempt.Lost == 0 {
			t.Error("nobody was told")
		}
	})
}

// Events may be lost: the next full listing repairs.
func TestExitSeenWithoutEvents(t *testing.T) {
	inBench(t, func(b *bench) {
		b.fleet.SetLoseEvents(true)
		k := b.begin(looptest.Spec("run=70s"))
		b.pass(40 * time.Second)
		b.state(k, "running")
		b.pass(time.Minute)
		b.state(k, "endedcompleted")
	})
}

// An attempt that a complete listing lacks once is no news; twice, it is gone.
func TestMissingTwiceIsGone(t *testing.T) {
	inBench(t, func(b *bench) {
		once, gone := b.begin(looptest.Spec("forever")), b.begin(looptest.Spec("forever"))
		hide := func(is bool) {
			b.engine.mu.Lock()
			defer b.engine.mu.Unlock()
			b.engine.hide[b.attempt(gone, 1)] = true
			b.engine.hide[b.attempt(once, 1)] = is
		}
		lists, _, _, _, _ := b.engine.asked()
		hide(true)
		for now := lists; now == lists; now, _, _, _, _ = b.engine.asked() {
			b.pass(100 * time.Millisecond)
		}
		b.state(gone, "running")
		hide(false)
		b.pass(10 * time.Second)
		b.state(gone, "endednode_failed")
		b.state(once, "running")
		if n := len(b.fleet.Running()); n != 2 {
			t.Errorf("%d programs run: a listing stopped one", n)
		}
	})
}

// Containers of this instance that no record knows are told of and left alone,
// whatever their labels say; those of another instance are nobody's business.
func TestStrangersAreQuarantined(t *testing.T) {
	inBench(t, func(b *bench) {
		over := b.begin(looptest.Spec("run=1s"))
		b.pass(time.Minute)
		b.state(over, "endedcompleted")
		removed := len(b.engine.removed)
		s := engine.Status{Instance: looptest.Instance, Step: engine.PrimaryStep, Node: "gpu1", Phase: engine.PhaseRunning, Started: time.Now()}
		with := func(a engine.AttemptID, job int64, n int) engine.Status {
			s := s
			s.Attempt, s.Job, s.N = a, job, n
			return s
		}
		foreign := with("other-1-1", 1, 1)
		foreign.Instance = "other"
		b.engine.mu.Lock()
		b.engine.extra = []engine.Status{
			with(b.attempt(999, 1), 999, 1),       // a job that was never handed out
			with("3f2a9c1e-hand-made", 0, 0),      // no labels
			with("3f2a9c1e-mine", int64(over), 1), // an ended job's, under another name
			with(b.attempt(over, 0), int64(over), 0),
			foreign,
		}
		b.engine.mu.Unlock()
		b.pass(5 * time.Minute)
		if n := b.runner.Strange(); n != 4 {
			t.Errorf("%d strangers, want 4", n)
		}
		if len(b.engine.stopped) != 0 || len(b.engine.removed) != removed {
			t.Errorf("stopped %v, removed %v", b.engine.stopped, b.engine.removed[removed:])
		}
		b.engine.mu.Lock()
		b.engine.extra = nil
		b.engine.mu.Unlock()
		b.pass(time.Minute)
		if n := b.runner.Strange(); n != 0 {
			t.Errorf("%d strangers that are gone", n)
		}
	})
}

// What a command decided is delivered: the user's signal, SIGTERM, SIGKILL.
func TestSignalsAreDelivered(t *testing.T) {
	inBench(t, func(b *bench) {
		spec := looptest.Spec("forever", "trap=USR1", "ignore-term")
		spec.Signal, spec.Grace, spec.Time = workload.Signal{Name: "USR1", Before: 10e9}, 10e9, 60e9
		k := b.begin(spec)
		for _, step := range []struct {
			at      time.Duration
			signals string
			stopped int
		}{
			{50 * time.Second, "USR1", 0}, {10 * time.Second, "USR1 TERM", 0}, {10 * time.Second, "USR1 TERM", 1},
		} {
			b.pass(step.at)
			b.port.Do(t, command.JobDue{Job: k})
			b.pass(time.Millisecond)
			if got := strings.Join(b.engine.signals, " "); got != step.signals || len(b.engine.stopped) != step.stopped {
				t.Errorf("signals %q stopped %v, want %+v", got, b.engine.stopped, step)
			}
		}
		b.pass(time.Second)
		b.state(k, "endedtimed_out")
	})
}

func TestStop(t *testing.T) {
	tests := map[string]struct {
		words   []string
		now     bool
		signals string
		exit    int32
	}{
		"gently":    {[]string{"forever", "trap-term=2s", "exit=4"}, false, "TERM", 4},
		"at once":   {[]string{"forever", "ignore-term"}, true, "", 137},
		"unstarted": {[]string{"delay=1h", "forever"}, true, "", 137},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			inBench(t, func(b *bench) {
				spec := looptest.Spec(tt.words...)
				spec.Grace = 60e9
				k := b.begin(spec)
				if _, err := b.port.As(b.port.Ada(), command.JobStop{Job: k, Now: tt.now}); err != nil {
					t.Fatal(err)
				}
				b.pass(5 * time.Second)
				b.state(k, "endedcancelled")
				if got := strings.Join(b.engine.signals, " "); got != tt.signals || b.port.Job(k).ExitCode != tt.exit {
					t.Errorf("signals %q exit %d, want %q %d", got, b.port.Job(k).ExitCode, tt.signals, tt.exit)
				}
				if n := len(b.fleet.Running()) + b.port.World().Placement.Holds.Len(); n != 0 {
					t.Errorf("%d are left", n)
				}
			})
		})
	}
}

// Programs that can't be signalled keep no other job from starting, and not themselves from
// being killed.
func TestDeaf(t *testing.T) {
	inBench(t, func(b *bench) {
		b.engine.deaf = true
		spec := looptest.Spec("forever", "ignore-term")
		spec.GPU, spec.Grace = 0, 10e9
		var all []id.Job
		for range 5 { // one more than there are slots
			k := b.begin(spec)
			if _, err := b.port.As(b.port.Ada(), command.JobStop{Job: k}); err != nil {
				t.Fatal(err)
			}
			all = append(all, k)
		}
		k := b.begin(spec)
		b.state(k, "running")
		b.pass(10 * time.Second)
		for _, k := range all {
			b.port.Do(t, command.JobDue{Job: k})
		}
		b.pass(time.Second)
		for _, k := range all {
			b.state(k, "endedcancelled")
		}
	})
}

// What can never start fails its job with the words for the user; what can't just
// now is tried again.
func TestStartErrors(t *testing.T) {
	tests := map[string]struct {
		spec  func(*workload.Spec)
		setup func(*bench)
		state string
		says  string
	}{
		"refused":        {func(s *workload.Spec) { s.Command = []string{"sim", "refuse=no-such-device"} }, nil, "endedfailed", "no-such-device"},
		"no program":     {func(s *workload.Spec) { s.Command = []string{"sim", "not-found"} }, nil, "endedfailed", "not found"},
		"answer is lost": {func(s *workload.Spec) { s.Command = []string{"sim", "forever"} }, func(b *bench) { b.fleet.FailStarts(3) }, "running", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			inBench(t, func(b *bench) {
				if tt.setup != nil {
					tt.setup(b)
				}
				spec := looptest.Spec("forever")
				tt.spec(&spec)
				k := b.begin(spec)
				b.pass(20 * time.Second)
				b.state(k, tt.state)
				if m := b.port.Job(k).Message; !strings.Contains(m, tt.says) {
					t.Errorf("says %q, want %q", m, tt.says)
				}
				if tt.state == "running" && len(b.fleet.Running()) != 1 {
					t.Errorf("%d programs run", len(b.fleet.Running()))
				}
			})
		})
	}
}

// A Start whose answer was lost isn't taken for one that failed: no second run,
// and a node that is lost for a while ends nothing either.
func TestLostNodeEndsNothing(t *testing.T) {
	inBench(t, func(b *bench) {
		k := b.begin(looptest.Spec("run=50m"))
		if err := b.fleet.LoseNode("gpu1"); err != nil {
			t.Fatal(err)
		}
		b.pass(20 * time.Minute)
		b.state(k, "running")
		if err := b.fleet.RestoreNode("gpu1"); err != nil {
			t.Fatal(err)
		}
		b.pass(40 * time.Minute)
		b.state(k, "endedcompleted")
	})
}

// A command that can't be carried out now is asked for again.
func TestObservationIsRepeated(t *testing.T) {
	inBench(t, func(b *bench) {
		b.port.Fail("job.observed", context.DeadlineExceeded)
		k := b.begin(looptest.Spec("run=20s"))
		b.pass(time.Minute)
		b.state(k, "starting")
		b.port.Fail("job.observed", nil)
		b.pass(30 * time.Second)
		b.state(k, "endedcompleted")
	})
}
