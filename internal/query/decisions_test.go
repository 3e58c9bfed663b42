package query_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/admission"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/placement"
	"croft.dev/croft/internal/store"
	"croft.dev/croft/internal/workload"
)

// Of a job one can ask later where it stood at a time, and why it waited then.
func TestDecisions(t *testing.T) {
	for name, b := range map[string]*bench{"sqlite": newBench(t), "postgres": newBenchOn(t, store.Config{DSN: postgres.DSN(t)})} {
		t.Run(name, func(t *testing.T) { testDecisions(t, b) })
	}
}

// Of an element one finds what was decided of its array, until it began.
func TestDecisionsOfElements(t *testing.T) {
	b := newBench(t)
	spec := workload.Spec{Name: "x", Kind: workload.KindContainer, Image: "a:1", CPU: 1000, Mem: 1 << 30, Time: hour, Array: workload.ArraySpec{Elements: workload.Elements{{First: 0, Last: 2, Step: 1}}}}
	k := b.do(2, command.Submit{Spec: spec}).Result.(admission.Accepted).Job.ID
	wait := func() {
		t.Helper()
		if err := b.db.KeepWaits(context.Background(), []workload.Wait{{Job: k, At: b.now.Load(), Position: 1, Queue: 3, Kind: "promised"}}); err != nil {
			t.Fatal(err)
		}
	}
	b.pass(time.Minute)
	wait()
	b.pass(time.Minute)
	b.do(0, command.JobStart{Job: k, Element: 1})
	b.pass(time.Minute)
	wait()
	ada := b.seq.World().Principal(2, 0, b.now.Load())
	for element, want := range map[string]string{"_0": "job.submit, waits, waits", "_1": "job.submit, waits, job.start", "": "job.submit, waits, waits"} {
		var kinds []string
		got, err := b.reader(b.db).Decisions(context.Background(), ada, strconv.FormatInt(int64(k), 10)+element, 0)
		for _, d := range got {
			kinds = append(kinds, d.Kind)
		}
		if said := strings.Join(kinds, ", "); err != nil || said != want {
			t.Errorf("%s: %s, %v, want %s", element, said, err, want)
		}
		if held, err := b.reader(b.db).Decisions(context.Background(), ada, strconv.FormatInt(int64(k), 10)+element, b.now.Load()); err != nil || len(held) == 0 {
			t.Errorf("%s now: %v, %v", element, held, err)
		}
	}
}

func testDecisions(t *testing.T, b *bench) {
	begin := b.now.Load()
	minute := int64(time.Minute)
	k := b.told(placement.StartEstimated, time.Hour)
	busy := fault.Reason{Code: codes.DevicesBusy, Scope: "partition main", Message: "all 4 devices are busy"}
	for _, row := range []workload.Wait{
		{Job: k, At: begin + 2*minute, Position: 2, Queue: 3, Kind: "estimated", Start: begin + 60*minute, Reasons: []fault.Reason{busy}},
		{Job: k, At: begin + 10*minute, Position: 1, Queue: 2, Kind: "promised", Start: begin + 20*minute},
	} {
		if err := b.db.KeepWaits(context.Background(), []workload.Wait{row}); err != nil {
			t.Fatal(err)
		}
	}
	b.pass(20 * time.Minute)
	b.begins(k)
	b.pass(40 * time.Minute)
	b.exit(k)

	id := strconv.FormatInt(int64(k), 10)
	ada := b.seq.World().Principal(2, 0, b.now.Load())
	at := func(t0 int64) string {
		t.Helper()
		got, err := b.reader(b.db).Decisions(context.Background(), ada, id, t0)
		if err != nil {
			return "error: " + err.Error()
		}
		var said []string
		for _, d := range got {
			s := d.State
			if d.Window != nil {
				s = d.Window.Kind
				for _, r := range d.Reasons {
					s += " " + string(r.Code)
				}
			}
			said = append(said, s)
		}
		return strings.Join(said, ", ")
	}
	for want, t0 := range map[string]int64{
		"queued":                         begin + minute,
		"queued, estimated DEVICES_BUSY": begin + 9*minute,
		"queued, promised":               begin + 10*minute,
		"running":                        begin + 30*minute,
		"ended":                          b.now.Load(),
	} {
		if got := at(t0); got != want {
			t.Errorf("after %s: %s, want %s", time.Duration(t0-begin), got, want)
		}
	}
	if got := at(begin - 1); !strings.Contains(got, "was submitted later") {
		t.Errorf("before: %s", got)
	}
	if got := at(b.now.Load() + hour); !strings.Contains(got, "in the future") {
		t.Errorf("later: %s", got)
	}
	if got := at(0); got != "queued, estimated DEVICES_BUSY, promised, starting, running, ended" {
		t.Errorf("all: %s", got)
	}
	if got, err := b.reader(b.db).Decisions(context.Background(), access.Principal{User: 99}, id, 0); err == nil {
		t.Errorf("a stranger sees %v", got)
	}
	if _, err := b.reader(b.db).Decisions(context.Background(), ada, "R-1", 0); err == nil {
		t.Error("of a request that there isn't")
	}
}
