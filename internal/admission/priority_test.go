package admission_test

import (
	"testing"

	"pgregory.net/rapid"

	"croft.dev/croft/internal/admission"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

// drawWeights makes everything that there is count.
func drawWeights(t *rapid.T, l *lab) {
	points := rapid.Int64Range(0, 5000)
	site := l.w.Site
	site.Weights = admission.Weights{
		Age: points.Draw(t, "age"), AgeCap: rapid.Int64Range(1, 100*hour).Draw(t, "cap"),
		Share: points.Draw(t, "share"), HalfLife: rapid.SampledFrom([]int64{0, hour, 168 * hour}).Draw(t, "half-life"),
		Devices: points.Draw(t, "devices"), Cores: points.Draw(t, "cores"),
	}
	l.w.Fold([]world.Change{world.SiteSet{Row: site}})
}

func sum(factors []admission.Factor) int64 {
	var n int64
	for _, f := range factors {
		n += f.Points
	}
	return n
}

// The factors of a job, and those of a request, come to the priority that puts it in
// order.
func TestFactorsAreThePriority(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawLab(t)
		drawWeights(t, l)
		l.now += rapid.Int64Range(0, 50*hour).Draw(t, "passes")
		v, o := l.w.View(l.now), l.w.View(l.now).Order()
		for _, j := range l.w.Workload.Jobs.All() {
			if rapid.IntRange(0, 5).Draw(t, "pinned") == 0 {
				pinned := *j
				pinned.Pinned, pinned.Pin = true, rapid.Int64Range(-9, 9).Draw(t, "pin")
				j = &pinned
			}
			if got, want := sum(v.Factors(j)), o.Place(j.LaneOf(), j.Since(), j.ID).Priority; got != want {
				t.Fatalf("%+v come to %d, the order has %d", v.Factors(j), got, want)
			}
		}
		v, req := l.request(t, drawSpec(t))
		j := &workload.Job{User: req.Subject.User.ID, Account: req.Subject.Account.ID, Spec: req.Spec, Submitted: l.now}
		if got, want := sum(v.FactorsOf(req)), sum(v.Factors(j)); got != want {
			t.Fatalf("%d quoted, %d once submitted", got, want)
		}
	})
}

// cut divides n among parts, each of which may get nothing.
func cut(t *rapid.T, n int64, parts int) []int64 {
	out := make([]int64, parts)
	for i := range out[1:] {
		out[i] = rapid.Int64Range(0, n).Draw(t, "part")
		n -= out[i]
	}
	out[parts-1] = n
	return out
}

// No piece of a job comes before what the whole of it would, whatever the weights,
// as long as it asks for the same kind of things; nor does one that is submitted
// again, or counts as waiting from later on. Once it has run, what it counts is no
// more than what its pieces count.
func TestSplittingAndHoldingGainNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := newLab(t, "showback", 0)
		drawWeights(t, l)
		whole := &workload.Job{ID: 1, User: 1, Account: 1, Submitted: l.now, Spec: workload.Spec{
			Partition: "main", QoS: "normal", GPU: rapid.Int64Range(0, 64).Draw(t, "gpu"), CPU: rapid.Int64Range(1, 256).Draw(t, "cpu") * 1000,
		}}
		l.now += rapid.Int64Range(0, 200*hour).Draw(t, "passes")
		o := l.w.View(l.now).Order()
		at := o.Place(whole.LaneOf(), whole.Since(), whole.ID)
		parts := rapid.IntRange(2, 8).Draw(t, "parts")
		gpus, cpus := cut(t, whole.Spec.GPU, parts), cut(t, whole.Spec.CPU, parts)
		for i := range parts {
			part := *whole
			part.ID += id.Job(i)
			part.Spec.GPU, part.Spec.CPU = gpus[i], cpus[i]
			if part.Spec.GPU == 0 && whole.Spec.GPU > 0 {
				continue // another kind of job
			}
			later := rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, 300*hour))
			part.Submitted += later.Draw(t, "later")
			if rapid.Bool().Draw(t, "held") {
				part.Eligible = part.Submitted + later.Draw(t, "for")
			}
			if got := o.Place(part.LaneOf(), part.Since(), part.ID); got.Compare(at) < 0 {
				t.Fatalf("%+v comes before %+v", got, at)
			}
		}
	})
}

// Who has used more than another comes after him, while the job still runs, and once
// the use has faded they are as before.
func TestUseCounts(t *testing.T) {
	l := newLab(t, "off", 0)
	l.must(t, command.UserPut{Create: true, Name: "ben"})
	l.must(t, command.AccountPut{Create: true, Name: "vision"})
	l.must(t, command.MemberPut{Account: "vision", User: "ben", Role: "member"})
	site := l.w.Site
	site.Weights = admission.Weights{Share: 1000, HalfLife: 24 * hour}
	l.w.Fold([]world.Change{world.SiteSet{Row: site}})
	check := func(when string, ada, ben int64) {
		t.Helper()
		v := l.w.View(l.now)
		for account, want := range map[id.Account]int64{1: ada, 2: ben} {
			f := v.Factors(&workload.Job{User: id.User(account), Account: account, Spec: workload.Spec{QoS: "normal", Partition: "main"}})
			if sum(f) != want {
				t.Errorf("%s: account %d has %d, want %d", when, account, sum(f), want)
			}
		}
	}
	check("unused", 1000, 1000)
	j := l.submit(t, example()).Result.(admission.Accepted).Job
	l.must(t, command.JobStart{Job: j.ID})
	l.must(t, command.JobObserved{Job: j.ID, N: 1, Running: true, Started: l.now})
	check("started", 1000, 1000)
	l.now += minute
	check("runs", 500, 1000)
	l.now += hour
	l.must(t, command.JobObserved{Job: j.ID, N: 1, Exited: true, Started: l.now, Finished: l.now})
	check("over", 500, 1000)
	l.now += 2000 * 24 * hour
	check("long ago", 1000, 1000)
}
