package query_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/admission"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/placement"
	"croft.dev/croft/internal/workload"
)

// told submits a job of ada's whose start was said to be so long from now.
func (b *bench) told(kind placement.WindowKind, in time.Duration) id.Job {
	b.t.Helper()
	w := placement.Window{Kind: kind}
	if kind != placement.StartUnknown {
		w.Start = b.now.Load() + int64(in)
	}
	spec := workload.Spec{Name: "x", Kind: workload.KindContainer, Image: "a:1", GPU: 1000, CPU: 8000, Mem: 64 << 30, Time: 2 * hour}
	return b.do(2, command.Submit{Spec: spec, Window: w}).Result.(admission.Accepted).Job.ID
}

func (b *bench) begins(k id.Job) {
	b.do(0, command.JobStart{Job: k})
	b.do(0, command.JobObserved{Job: k, N: 1, Running: true, Started: b.now.Load()})
}

func (b *bench) accuracy(p access.Principal, period string) v1.Accuracy {
	b.t.Helper()
	got, err := b.reader(b.db).Accuracy(context.Background(), p, period)
	if err != nil {
		b.t.Fatal(err)
	}
	return got
}

// What was said of each job is compared with what became of it: of those that have ended,
// and of those that live. Who waits longer than was said is late, whatever becomes of him.
func TestAccuracy(t *testing.T) {
	b := newBench(t)
	now, early, gone := b.told(placement.StartNow, 0), b.told(placement.StartEstimated, time.Hour), b.told(placement.StartEstimated, 10*time.Minute)
	b.told(placement.StartPromised, 30*time.Minute)
	unknown := b.told(placement.StartUnknown, 0)
	b.told(placement.StartEstimated, 48*time.Hour)
	b.pass(20 * time.Second)
	b.begins(now)
	b.pass(20 * time.Minute)
	b.begins(early)
	b.pass(40 * time.Minute) // gone and waits are late, gone by 50 minutes
	b.do(2, command.JobStop{Job: gone})
	b.begins(unknown)
	b.exit(now)

	ada, root := b.seq.World().Principal(2, 0, b.now.Load()), b.seq.World().Principal(1, 0, b.now.Load())
	want := []v1.StartAccuracy{
		{Partition: "main", Said: "now", Jobs: 1, Started: 1, OnTime: 1, P50: "20s", P90: "20s", Latest: "20s"},
		{Partition: "main", Said: "promised", Jobs: 1, Late: 1, P50: "30m21s", P90: "30m21s", Latest: "30m21s"},
		{Partition: "main", Said: "estimated", Jobs: 3, Started: 1, Early: 1, Late: 1, P50: "39m40s", P90: "50m20s", Latest: "50m20s"},
		{Partition: "main", Said: "unknown", Jobs: 1, Started: 1},
	}
	got := b.accuracy(ada, "")
	if diff := cmp.Diff(want, got.Starts); diff != "" {
		t.Errorf("starts (-want +got)\n%s", diff)
	}
	// It ran for an hour of the two hours and 30 s of grace that were quoted: the rest was off.
	job, err := b.reader(b.db).Job(context.Background(), ada, strconv.FormatInt(int64(now), 10))
	if err != nil {
		t.Fatal(err)
	}
	cost, charged := credits(t, job.Quoted.Cost), credits(t, job.Receipt.Charged)
	off := fmt.Sprintf("%d.%d", (cost-charged)*100/cost, (cost-charged)*1000/cost%10)
	if diff := cmp.Diff([]v1.CostAccuracy{{Partition: "main", Jobs: 1, P50: off, P90: off}}, got.Costs); diff != "" || charged == 0 || job.Quoted.Kind != "now" {
		t.Errorf("of %s that was quoted %s was charged (-want +got)\n%s", job.Quoted.Cost, job.Receipt.Charged, diff)
	}
	byName := b.accuracy(root, "2026-11")
	byName.Period = got.Period
	if diff := cmp.Diff(got, byName); diff != "" {
		t.Errorf("as root, by the month's name (-ada +root)\n%s", diff)
	}
	if other := b.accuracy(access.Principal{User: 99}, ""); len(other.Starts)+len(other.Costs) != 0 {
		t.Errorf("a stranger sees %+v", other)
	}
	if past := b.accuracy(root, "2026-10"); len(past.Starts) != 0 {
		t.Errorf("in October: %+v", past)
	}
	if _, err := b.reader(b.db).Accuracy(context.Background(), root, "yesterday"); err == nil {
		t.Error("a period that is none was taken")
	}
}

func credits(t *testing.T, s string) int64 {
	t.Helper()
	m, err := money.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return int64(m)
}
