package admission_test

import (
	"testing"

	"croft.dev/croft/internal/admission"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/placement"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

func points(v admission.View, j *workload.Job) (int64, bool) {
	for _, f := range v.Factors(j) {
		if f.Kind == admission.FactorQueue {
			return f.Points, true
		}
	}
	return 0, false
}

// Accounts that have less than they are guaranteed come first, by points that are shown and
// only where there are shares; jobs that are cut up gain nothing by it.
func TestSharesInTheOrder(t *testing.T) {
	l := newLab(t, "off", 0)
	site := l.w.Site
	site.Weights = admission.Weights{Queue: 1000}
	l.w.Fold([]world.Change{world.SiteSet{Row: site}})
	job := l.submit(t, example()).Changes[0].(workload.JobSet).Row
	if n, shown := points(l.w.View(l.now), job); shown {
		t.Errorf("%d points without a share", n)
	}
	l.must(t, command.SharePut{Account: "nlp", Partition: "main", Resource: limits.GPU, Guaranteed: 1000})
	whole := example()
	whole.GPU = 4000
	for _, spec := range []workload.Spec{example(), whole} {
		v, r := l.request(t, spec)
		waiting := &workload.Job{User: r.Subject.User.ID, Account: r.Subject.Account.ID, Spec: r.Spec, Submitted: l.now}
		if n, _ := points(v, waiting); n != 1000 {
			t.Errorf("%d points below the guarantee, for %d devices", n, spec.GPU)
		}
	}
	l.must(t, command.JobStart{Job: job.ID, Image: "sha256:1"})
	next := l.submit(t, example()).Changes[0].(workload.JobSet).Row
	if n, _ := points(l.w.View(l.now), next); n != 500 {
		t.Errorf("%d points at the guarantee, with nothing borrowed", n)
	}
	cores := example()
	cores.GPU = 0
	_, r := l.request(t, cores)
	if n, shown := points(l.w.View(l.now), &workload.Job{User: r.Subject.User.ID, Account: r.Subject.Account.ID, Spec: r.Spec}); shown {
		t.Errorf("%d points for a job that asks for nothing that is shared", n)
	}
}

// A job that its share keeps waiting is told when those before it are over.
func TestStartUnderAShare(t *testing.T) {
	l := newLab(t, "off", 0)
	most := int64(1000)
	l.must(t, command.SharePut{Account: "nlp", Partition: "main", Resource: limits.GPU, Guaranteed: 1000, Limit: &most})
	running := l.submit(t, example()).Changes[0].(workload.JobSet).Row
	l.must(t, command.JobStart{Job: running.ID, Image: "sha256:1", Node: "gpu1", Devices: []string{"SIM-0"}})
	v, r := l.request(t, example())
	quoted, err := admission.Quote(v, r)
	want := placement.Window{Kind: placement.StartEstimated, Start: l.now + 2*hour + admission.StartMargin, Position: 1, Queue: 1}
	if err != nil || quoted.Window != want {
		t.Errorf("%+v, want %+v, %v", quoted.Window, want, err)
	}
	waits := id.Job(l.submit(t, example()).Changes[0].(workload.JobSet).Row.ID)
	j, _ := l.w.Workload.Jobs.Get(waits)
	why, _, err := admission.Why(l.w.View(l.now), j)
	if err != nil || why.Admit || why.Window != want {
		t.Errorf("%+v, want %+v, %v", why.Window, want, err)
	}
}
