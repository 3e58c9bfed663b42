package admission_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/internal/admission"
	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/workload"
)

// drawLab is a lab with random money, limits, prices to come and jobs.
func drawLab(t *rapid.T) *lab {
	l := newLab(t, rapid.SampledFrom([]string{"off", "showback", "enforce"}).Draw(t, "billing"), money.Micros(rapid.Int64Range(0, 30).Draw(t, "funds"))*money.Credit/2)
	for range rapid.IntRange(0, 4).Draw(t, "limits") {
		c := command.LimitPut{Resource: rapid.SampledFrom([]limits.Resource{"cpu", "mem", "gpu", "gpu:a100", "running", "submitted", "time", "job.gpu", "job.cpu", "gpu-hours", "cpu-hours"}).Draw(t, "resource")}
		c.Account = rapid.SampledFrom([]string{"", "nlp"}).Draw(t, "of account")
		c.User = rapid.SampledFrom([]string{"", "ada"}).Draw(t, "of user")
		most := map[limits.Resource]int64{"cpu": 70_000, "job.cpu": 70_000, "mem": 600 * gib, "time": 50 * hour, "gpu": 5000, "gpu:a100": 5000, "job.gpu": 5000, "gpu-hours": 100 * 3600 * 1000, "cpu-hours": 3600 * 3_600_000}[c.Resource]
		if most == 0 {
			most = 5
		}
		c.Max = rapid.Int64Range(0, most).Draw(t, "max")
		if c.Resource.Hours() {
			c.Per.Unit, c.Carry.Milli = limits.Day, rapid.Int64Range(0, 1000).Draw(t, "carried")
		}
		l.must(t, c)
	}
	if rapid.Bool().Draw(t, "dearer") {
		l.must(t, command.PricePut{From: l.now + rapid.Int64Range(1, 5*hour).Draw(t, "from"), CPU: 30_000, Mem: 900, Devices: []catalog.ModelRate{{Model: "a100", Rate: 3_000_000}}})
	}
	if rapid.Bool().Draw(t, "shared devices") {
		shared := true
		l.must(t, command.PartitionPut{Name: "main", ShareDevices: &shared})
	}
	if rapid.Bool().Draw(t, "maintenance") {
		from := l.now + rapid.Int64Range(0, 5*hour).Draw(t, "begins")
		l.must(t, command.MaintenancePut{Node: "gpu1", From: from, To: from + hour})
	}
	for range rapid.IntRange(0, 3).Draw(t, "jobs") {
		out := l.submit(t, drawSpec(t))
		if a, ok := out.Result.(admission.Accepted); ok && rapid.Bool().Draw(t, "start") {
			l.must(t, command.JobStart{Job: a.Job.ID})
		}
	}
	return l
}

func drawSpec(t *rapid.T) workload.Spec {
	s := example()
	s.GPU = rapid.Int64Range(0, 6).Draw(t, "gpu") * 1000
	s.CPU = rapid.Int64Range(1, 80).Draw(t, "cpu") * 1000
	s.Mem = rapid.Int64Range(1, 600).Draw(t, "mem") * gib
	s.Time = rapid.Int64Range(1, 60*60).Draw(t, "minutes") * minute
	s.Grace = rapid.Int64Range(0, 120).Draw(t, "grace") * 1e9
	s.QoS = rapid.SampledFrom([]string{"", "fast"}).Draw(t, "qos")
	if s.GPU > 0 {
		s.GPU = rapid.SampledFrom([]int64{s.GPU, s.GPU, s.GPU, 1, 250, 600}).Draw(t, "or a part")
		s.GPUMem = rapid.SampledFrom([]int64{0, 0, 0, 8, 30, 40, 41}).Draw(t, "memory of each") * gib
		s.Model = rapid.SampledFrom([]string{"", "a100", "h100"}).Draw(t, "model")
	}
	if rapid.IntRange(0, 9).Draw(t, "mounts") == 0 {
		s.Mounts = []workload.Mount{{Source: "/etc", Target: "/x"}}
	}
	return s
}

// A quote is what Submit does in the same world: as admitted, at the same price,
// with the same reasons and remedy.
func TestQuoteIsWhatSubmitDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, spec := drawLab(t), drawSpec(t)
		v, req := l.request(t, spec)
		quote, err := admission.Quote(v, req)
		if err != nil {
			t.Fatal(err)
		}
		out := l.submit(t, spec)
		if !quote.Admit {
			want := quote.Fault()
			want.Remedy = admission.Remedy(v, req, quote)
			if out.Fault == nil {
				t.Fatalf("quoted %v, was accepted", quote.Reasons)
			}
			if diff := cmp.Diff(want, out.Fault, cmpopts.IgnoreFields(fault.Error{}, "ID", "Message")); diff != "" {
				t.Fatalf("refused otherwise than quoted (-quote +refusal)\n%s", diff)
			}
			return
		}
		got, ok := out.Result.(admission.Accepted)
		if !ok {
			t.Fatalf("the quote was admitted, submission: %v", out.Fault)
		}
		if diff := cmp.Diff(quote, got.Verdict, cmpopts.IgnoreFields(admission.Verdict{}, "Window"), cmpopts.IgnoreFields(workload.Demand{}, "Job"), cmpopts.EquateComparable(struct{}{})); diff != "" {
			t.Fatalf("accepted otherwise than quoted (-quote +acceptance)\n%s", diff)
		}
		if want := quote.Cost.Total; got.Job.Deposit != want && got.Job.Billing != "off" {
			t.Fatalf("quoted %s, %s was set aside", want, got.Job.Deposit)
		}
	})
}

// apply makes a remedy's change as a caller would: in the wire form, read again.
func apply(t fataler, l *lab, spec workload.Spec, r *fault.Remedy) workload.Spec {
	w := spec.Wire()
	for field, value := range r.Set {
		switch field {
		case "gpu":
			w.GPU = v1.Quantity(value)
		case "gpu_mem":
			w.GPUMem = v1.Quantity(value)
		case "cpu":
			w.CPU = v1.Quantity(value)
		case "mem":
			w.Mem = v1.Quantity(value)
		case "time":
			w.Time = v1.Quantity(value)
		case "model":
			w.Model = value
		default:
			t.Fatalf("a remedy for %s", field)
		}
	}
	out, err := workload.Parse(w, workload.Defaults{CPU: 1000, Mem: gib, Time: hour, MaxGrace: hour})
	if err != nil {
		t.Fatalf("remedy %v can't be asked for: %v", r.Set, err)
	}
	return out
}

// What a remedy says is admitted when it is done, and as far as it is one number,
// a little more of it is not.
func TestRemediesAreAdmitted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, spec := drawLab(t), drawSpec(t)
		v, req := l.request(t, spec)
		verdict, err := admission.Decide(v, req)
		if err != nil {
			t.Fatal(err)
		}
		r := admission.Remedy(v, req, verdict)
		switch {
		case verdict.Admit && r != nil && len(r.Set) > 0:
			t.Fatalf("a remedy %v for what is admitted", r.Set)
		case verdict.Admit || r == nil:
			return
		case len(r.Set) == 0 || r.Flags == "":
			t.Fatalf("a remedy that changes nothing: %+v", r)
		}
		remedied := apply(t, l, req.Spec, r)
		if !admitted(t, l, remedied) {
			t.Fatalf("remedy %v of %+v isn't admitted", r.Set, req.Spec)
		}
		if more, ok := oneMore(remedied, req.Spec, r); ok && admitted(t, l, more) {
			t.Fatalf("remedy %v isn't the smallest change: %+v is admitted too", r.Set, more)
		}
	})
}

func admitted(t *rapid.T, l *lab, spec workload.Spec) bool {
	v, req := l.request(t, spec)
	verdict, err := admission.Decide(v, req)
	if err != nil {
		t.Fatal(err)
	}
	return verdict.Admit
}

// oneMore is a remedied spec with one step less of a change, where the remedy is
// one number.
func oneMore(spec, before workload.Spec, r *fault.Remedy) (workload.Spec, bool) {
	if len(r.Set) != 1 {
		return spec, false
	}
	asked := spec
	switch {
	case spec.GPU%1000 != 0:
		return spec, false
	case r.Set["gpu"] != "":
		spec.GPU += 1000
	case r.Set["gpu_mem"] != "":
		spec.GPUMem++
	case r.Set["cpu"] != "":
		spec.CPU++
	case r.Set["mem"] != "":
		spec.Mem++
	case r.Set["time"] != "":
		spec.Time += minute + 1e9 // funds are given out in whole minutes, and see Affordable
	}
	less := spec.GPU < before.GPU || spec.CPU < before.CPU || spec.Mem < before.Mem || spec.Time < before.Time || spec.GPUMem < before.GPUMem
	return spec, less && fmt.Sprint(asked) != fmt.Sprint(spec)
}

// Why says of a waiting job what JobStart decides, and its remedy passes the same
// gate.
func TestWhyIsWhatStartDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawLab(t)
		accepted, ok := l.submit(t, drawSpec(t)).Result.(admission.Accepted)
		for range 10 { // most are refused
			if !ok {
				accepted, ok = l.submit(t, drawSpec(t)).Result.(admission.Accepted)
			}
		}
		if !ok {
			t.Skip("refused")
		}
		l.now += rapid.Int64Range(0, 4*hour).Draw(t, "later")
		v := l.w.View(l.now)
		why, req, err := admission.Why(v, accepted.Job)
		if err != nil {
			t.Fatal(err)
		}
		if v.Eligible(accepted.Job) != (nonResources(why.Reasons) == "") {
			t.Fatalf("eligible %v, but %q", v.Eligible(accepted.Job), nonResources(why.Reasons))
		}
		if r := admission.Remedy(v, req, why); r != nil {
			again := req
			again.Spec = apply(t, l, req.Spec, r)
			again.Spec.Name = req.Spec.Name
			if verdict, err := admission.Decide(v, again); err != nil || !verdict.Admit {
				t.Fatalf("remedy %v: %v %v", r.Set, verdict.Reasons, err)
			}
		}
		out, err := l.do(system, command.JobStart{Job: accepted.Job.ID})
		if err != nil {
			t.Fatal(err)
		}
		started := !out.Event.Skip
		if started != why.Admit {
			t.Fatalf("why says %v %v, start: %v", why.Admit, why.Reasons, started)
		}
		if started {
			j, _ := l.w.Workload.Jobs.Get(accepted.Job.ID)
			if diff := cmp.Diff(why.Spot.UUIDs(), j.Attempt.Devices, cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("devices (-why +start)\n%s", diff)
			}
			return
		}
		if diff := cmp.Diff(why.Reasons, out.Result.(admission.Verdict).Reasons); diff != "" {
			t.Fatalf("reasons (-why +start)\n%s", diff)
		}
	})
}

// A Keeper says of every waiting job what Kept says, whatever it was asked before: of
// those of one kind, of which some are held, some were submitted before their account was
// moved below one with limits, and some have less set aside than the others.
func TestKeeperIsKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := newLab(t, rapid.SampledFrom([]string{"showback", "enforce"}).Draw(t, "billing"), money.Micros(rapid.Int64Range(5, 20).Draw(t, "funds"))*money.Credit)
		l.must(t, command.AccountPut{Create: true, Name: "faculty"})
		submit := func() {
			spec := example()
			spec.Hold = rapid.IntRange(0, 3).Draw(t, "hold") == 0
			l.submit(t, spec)
		}
		if rapid.Bool().Draw(t, "limit") { // which the first one that runs reaches
			l.must(t, command.LimitPut{Account: rapid.SampledFrom([]string{"faculty", "nlp"}).Draw(t, "of"), Resource: "running", Max: 1})
		}
		running := l.submit(t, example()).Result.(admission.Accepted)
		for range rapid.IntRange(1, 3).Draw(t, "jobs") {
			submit()
		}
		if rapid.Bool().Draw(t, "moved") { // what waits keeps its path, what comes has another
			l.must(t, command.AccountMove{Name: "nlp", Under: "faculty"})
			submit()
			if a, ok := l.submit(t, example()).Result.(admission.Accepted); ok {
				running = a
			}
		}
		l.must(t, command.JobStart{Job: running.Job.ID})
		v := l.w.View(l.now)
		keeper := v.Keeper()
		for _, j := range l.w.Workload.Jobs.All() {
			if j.State != workload.Queued && j.State != workload.Held {
				continue
			}
			if rapid.IntRange(0, 2).Draw(t, "spent") == 0 {
				spent := *j
				spent.Sources = nil
				j = &spent
			}
			want, err := v.Kept(j)
			got, gotErr := keeper.Kept(j)
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" || (err == nil) != (gotErr == nil) {
				t.Fatalf("job %d: %v %v (-kept +keeper)\n%s", j.ID, err, gotErr, diff)
			}
		}
	})
}

// nonResources names the reasons that aren't about what is busy now.
func nonResources(reasons []fault.Reason) string {
	var out []string
	for _, r := range reasons {
		switch r.Code {
		case "DEVICES_BUSY", "CPU_BUSY", "MEM_BUSY", "MAINTENANCE":
		default:
			out = append(out, string(r.Code))
		}
	}
	return strings.Join(out, " ")
}
