package workload_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/quantity"
	"croft.dev/croft/internal/workload"
)

// Steps come and go at random: what those that name amounts have never comes to more than
// their job has, nobody has another's device, and a step that names nothing always fits.
func TestRoomIsNeverPassed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := workload.NewState()
		j := &workload.Job{ID: 7, State: workload.Running, Spec: workload.Spec{CPU: 8000, Mem: 64, GPU: 4 * quantity.Device}}
		for i := range 4 {
			j.Attempt.Devices = append(j.Attempt.Devices, fmt.Sprint("SIM-", i))
		}
		s.Fold(workload.JobSet{Row: j})
		s.Fold(workload.StepSet{Row: &workload.Step{Job: 8, N: 2, State: workload.Running, Spec: workload.StepSpec{CPU: 8000}}}) // another job's
		for n := int32(workload.FirstStep); n < 30; n++ {
			step := &workload.Step{Job: j.ID, N: n, State: workload.Queued, Spec: workload.StepSpec{
				CPU: rapid.Int64Range(0, 8).Draw(t, "cpu") * 1000, Mem: rapid.Int64Range(0, 64).Draw(t, "mem"),
			}}
			if step.Spec.NoGPU = rapid.Bool().Draw(t, "none"); !step.Spec.NoGPU {
				step.Spec.GPU = rapid.Int64Range(0, 4).Draw(t, "gpu") * quantity.Device
			}
			devices, ok := s.Room(j, step)
			named := step.Spec.CPU+step.Spec.Mem+step.Spec.GPU > 0
			switch {
			case !ok && !named:
				t.Fatal("a step that asks for nothing of its own waits")
			case ok:
				checkRoom(t, &s, j, step, devices)
				run := *step
				run.State, run.Devices = workload.Starting, devices
				s.Fold(workload.StepSet{Row: &run})
			}
			if rapid.Bool().Draw(t, "one ends") {
				for k := range s.StepsOf(j.ID) {
					over := *k
					over.State = workload.Ended
					s.Fold(workload.StepSet{Row: &over})
					break
				}
			}
		}
	})
}

// checkRoom adds up what the steps of a job have, and a further one that is let in.
func checkRoom(t *rapid.T, s *workload.State, j *workload.Job, step *workload.Step, devices []string) {
	cpu, mem := step.Spec.CPU, step.Spec.Mem
	var own []string
	if step.Spec.GPU > 0 {
		own = slices.Clone(devices)
	}
	for other := range s.StepsOf(j.ID) {
		cpu, mem = cpu+other.Spec.CPU, mem+other.Spec.Mem
		if other.Spec.GPU > 0 {
			own = append(own, other.Devices...)
		}
	}
	slices.Sort(own)
	if cpu > j.Spec.CPU || mem > j.Spec.Mem || len(slices.Compact(slices.Clone(own))) != len(own) {
		t.Fatalf("steps have %d of %d milli-cores, %d of %d bytes, devices %v", cpu, j.Spec.CPU, mem, j.Spec.Mem, own)
	}
	want := len(j.Attempt.Devices)
	switch {
	case step.Spec.NoGPU:
		want = 0
	case step.Spec.GPU > 0:
		want = int(step.Spec.GPU / quantity.Device)
	}
	if len(devices) != want {
		t.Fatalf("a step that asks for %d of devices (none: %v) gets %v", step.Spec.GPU, step.Spec.NoGPU, devices)
	}
}

func TestStepTransitions(t *testing.T) {
	want := map[workload.JobState]string{
		//                  H Q S R T E
		workload.Held:     ". . . . . .",
		workload.Queued:   ". . x . . x",
		workload.Starting: ". . . x x x",
		workload.Running:  ". . . . x x",
		workload.Stopping: ". . . . . x",
		workload.Ended:    ". . . . . .",
	}
	for _, from := range states {
		var row []string
		for _, to := range states {
			row = append(row, map[bool]string{true: "x", false: "."}[workload.MayStep(from, to)])
		}
		if got := strings.Join(row, " "); got != want[from] {
			t.Errorf("from %s: %s, want %s", from, got, want[from])
		}
	}
}

func TestStopOfAStep(t *testing.T) {
	const second = int64(1e9)
	s := &workload.Step{State: workload.Running}
	if !s.Stop(100*second, 30*second, false, "cancelled", "by ada") || s.Due() != 130*second {
		t.Errorf("told to end: %+v", s)
	}
	if s.Stop(101*second, 60*second, false, "cancelled", "") || s.Due() != 130*second {
		t.Errorf("a longer grace later puts it off: %+v", s)
	}
	if !s.Stop(110*second, 5*second, false, "cancelled", "") || s.Due() != 115*second {
		t.Errorf("a shorter grace later: %+v", s)
	}
	if !s.Stop(111*second, 0, true, "cancelled", "") || !s.Kill || s.Due() != 0 || s.Stop(112*second, 0, true, "cancelled", "") {
		t.Errorf("at once: %+v", s)
	}
}

func TestWithinAJob(t *testing.T) {
	j := workload.Spec{Name: "train.py", Image: "registry/train:1"}
	for name, tt := range map[string]struct{ in, want workload.StepSpec }{
		"nothing of its own": {workload.StepSpec{}, workload.StepSpec{Image: "registry/train:1", Name: "train:1"}},
		"an image":           {workload.StepSpec{Image: "tool:2"}, workload.StepSpec{Image: "tool:2", Name: "tool:2"}},
		"a name":             {workload.StepSpec{Name: "eval"}, workload.StepSpec{Image: "registry/train:1", Name: "eval"}},
	} {
		if got := tt.in.Within(j); fmt.Sprint(got) != fmt.Sprint(tt.want) {
			t.Errorf("%s: %+v, want %+v", name, got, tt.want)
		}
	}
}

func TestParseStep(t *testing.T) {
	for name, tt := range map[string]struct {
		in   v1.StepSpec
		want workload.StepSpec
		err  string
	}{
		"nothing":       {v1.StepSpec{}, workload.StepSpec{Pull: "missing"}, ""},
		"a part":        {v1.StepSpec{Name: "x", Image: "a:1", CPU: "0.5", Mem: "64M", GPU: "2", Time: "90s", Grace: "5s"}, workload.StepSpec{Name: "x", Image: "a:1", Pull: "missing", CPU: 500, Mem: 64 << 20, GPU: 2000, Time: 90e9, Grace: 5e9}, ""},
		"no devices":    {v1.StepSpec{Name: "x", GPU: "0"}, workload.StepSpec{Name: "x", Pull: "missing", NoGPU: true}, ""},
		"a named mount": {v1.StepSpec{Name: "x", Mounts: []v1.Mount{{Source: "/a", ReadOnly: true}}}, workload.StepSpec{Name: "x", Pull: "missing", Mounts: []workload.Mount{{Source: "/a", Target: "/a", ReadOnly: true}}}, ""},
		"arguments":     {v1.StepSpec{Name: "x", Args: []string{"", "-v"}}, workload.StepSpec{Name: "x", Args: []string{"", "-v"}, Pull: "missing"}, ""},
		"no arguments":  {v1.StepSpec{Args: []string{"a\x00"}}, workload.StepSpec{}, "args"},
		"on the host":   {v1.StepSpec{Host: true, Command: []string{"hostname"}}, workload.StepSpec{Name: "hostname", Host: true, Command: []string{"hostname"}, Pull: "missing"}, ""},
		"host, nothing": {v1.StepSpec{Host: true}, workload.StepSpec{}, "command"},
		"host, image":   {v1.StepSpec{Host: true, Command: []string{"a"}, Image: "a:1"}, workload.StepSpec{}, "image"},
		"host, mount":   {v1.StepSpec{Host: true, Command: []string{"a"}, Mounts: []v1.Mount{{Source: "/a"}}}, workload.StepSpec{}, "mounts"},
		"host, input":   {v1.StepSpec{Host: true, Command: []string{"a"}, Stdin: true}, workload.StepSpec{}, "stdin"},
		"streams":       {v1.StepSpec{Name: "x", Stdin: true, TTY: true, AwaitAttach: true}, workload.StepSpec{Name: "x", Pull: "missing", Streams: workload.Streams{Stdin: true, TTY: true, AwaitAttach: true}}, ""},
		"no streams":    {v1.StepSpec{AwaitAttach: true}, workload.StepSpec{}, "await_attach"},
		"two lines":     {v1.StepSpec{Name: "a\nb"}, workload.StepSpec{}, "name"},
		"no variable":   {v1.StepSpec{Env: map[string]string{"A=B": "c"}}, workload.StepSpec{}, "env"},
		"below nothing": {v1.StepSpec{CPU: "-1"}, workload.StepSpec{}, "cpu"},
		"absurd":        {v1.StepSpec{GPU: "99999999999999999999"}, workload.StepSpec{}, "gpu"},
		"half a device": {v1.StepSpec{GPU: "0.5"}, workload.StepSpec{}, "gpu"},
		"no number":     {v1.StepSpec{CPU: "many"}, workload.StepSpec{}, "cpu"},
		"up and away":   {v1.StepSpec{Mounts: []v1.Mount{{Source: "/a/../b"}}}, workload.StepSpec{}, "mounts"},
		"over /proc":    {v1.StepSpec{Mounts: []v1.Mount{{Source: "/a", Target: "/proc/1"}}}, workload.StepSpec{}, "mounts"},
		"a bad image":   {v1.StepSpec{Image: "--x"}, workload.StepSpec{}, "image"},
		"a bad pull":    {v1.StepSpec{Pull: "perhaps"}, workload.StepSpec{}, "pull"},
		"long grace":    {v1.StepSpec{Grace: "2h"}, workload.StepSpec{}, "grace"},
	} {
		got, err := workload.ParseStep(tt.in, workload.Defaults{MaxGrace: 3600e9})
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%s: error %v, want one that names %s", name, err, tt.err)
			}
			continue
		}
		if err != nil || fmt.Sprint(got) != fmt.Sprint(tt.want) {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, tt.want)
		}
		if again, err := workload.ParseStep(got.Wire(), workload.Defaults{}); err != nil || fmt.Sprint(again) != fmt.Sprint(got) {
			t.Errorf("%s: by way of the wire %+v, %v", name, again, err)
		}
	}
}

// Whatever is asked for, a step is refused by a field's name, or is one that reads the same
// by way of the wire.
func FuzzParseStep(f *testing.F) {
	for _, s := range []v1.StepSpec{
		{}, {Name: "x", Image: "a/b:1", CPU: "0.5", Mem: "64M", GPU: "2", Time: "90s", Grace: "5s", Pull: "never"},
		{Command: []string{"\n/\u202e"}, Env: map[string]string{"A": "b"}, Mounts: []v1.Mount{{Source: "/x/./y", Target: "/z/"}}, Workdir: "/w", GPU: "0"},
	} {
		b, err := json.Marshal(s)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var in v1.StepSpec
		if json.Unmarshal(b, &in) != nil {
			return
		}
		spec, err := workload.ParseStep(in, defaults)
		if err != nil {
			if e := new(fault.Error); !errors.As(err, &e) || len(e.Fields) == 0 {
				t.Fatalf("%T %v names no field", err, err)
			}
			return
		}
		if again, err := workload.ParseStep(spec.Wire(), defaults); err != nil || !reflect.DeepEqual(again, spec) {
			t.Fatalf("%+v, by way of the wire %+v: %v", spec, again, err)
		}
	})
}
