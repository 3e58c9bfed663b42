package command_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/admission"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/workload"
)

// followed is a small array that waits as text says.
func followed(t *testing.T, elements, text string) workload.Spec {
	t.Helper()
	spec := arrayOf(t, elements)
	spec.After = after(t, text).After
	return spec
}

// named is a small job of a name.
func named(t *testing.T, name, text string) workload.Spec {
	t.Helper()
	spec := followed(t, "", text)
	spec.Name = name
	return spec
}

// What waits for one element hears of that element, by its name or its number, also when
// it is stopped before it has started, and each row is written once.
func TestWaitForOneElement(t *testing.T) {
	s := newSim(t)
	k := s.submit(t, arrayOf(t, "0-4"))
	zero := s.begin(t, k, 0)
	ok, twice := s.submit(t, after(t, fmt.Sprintf("afterok:%d_0", k))), s.submit(t, after(t, fmt.Sprintf("afterok:%d_0:%d,after:%d_1", k, zero, k)))
	notOK, third := s.submit(t, after(t, fmt.Sprintf("afternotok:%d_0", k))), s.submit(t, after(t, fmt.Sprintf("afterany:%d_3", k)))
	never, whole := s.submit(t, after(t, fmt.Sprintf("afterok:%d_4", k))), s.submit(t, after(t, fmt.Sprintf("afterany:%d", k)))
	all := []id.Job{ok, twice, notOK, third, never, whole}
	s.stand(t, "at first", []string{"held", "held", "held", "held", "held", "held"}, all...)
	s.exited(t, zero, 0)
	s.tick(t)
	s.stand(t, "after one", []string{"queued", "held", "gone", "held", "held", "held"}, all...)
	one := s.begin(t, k, 1)
	s.stand(t, "another has begun", []string{"queued", "queued", "gone", "held", "held", "held"}, all...)
	s.must(t, s.user("ada"), command.JobStop{Job: k, Elements: workload.Elements{{First: 1, Last: 4, Step: 1}}})
	s.tick(t)
	s.stand(t, "those that waited are stopped", []string{"queued", "queued", "gone", "queued", "gone", "held"}, all...)
	s.exited(t, one, 143)
	s.stand(t, "in the end", []string{"queued", "queued", "gone", "queued", "gone", "queued"}, all...)
}

// What can be said about elements and names, and what can't.
func TestWhatElementsToWaitFor(t *testing.T) {
	s := newSim(t)
	k, plain := s.submit(t, arrayOf(t, "0-9")), s.submit(t, example())
	theirs := s.must(t, s.user("ben"), command.Submit{Spec: arrayOf(t, "0-9")}).(admission.Accepted).Job.ID
	gone := s.submit(t, arrayOf(t, "0-3"))
	s.must(t, s.user("ada"), command.JobStop{Job: gone})
	past := func(failed string) []admission.Past {
		out, err := workload.ParseElements(failed)
		if err != nil {
			t.Fatal(err)
		}
		return []admission.Past{{
			Fate: workload.Fate{Job: gone, Ended: s.now, Outcome: codes.Failed}, User: 2, Account: 1, Elements: workload.Elements{{First: 0, Last: 3, Step: 1}},
			Array: &workload.Array{Failed: out},
		}}
	}
	absent := []admission.Past{{Fate: workload.Fate{Job: id.Element(gone, 7)}, Absent: true}}
	many := past("1")
	many[0].Array.More = 1
	for name, tt := range map[string]struct {
		elements, after string
		past            []admission.Past
		code            codes.Code
	}{
		"an element":              {after: fmt.Sprintf("afterok:%d_9", k)},
		"no such element":         {after: fmt.Sprintf("afterok:%d_10", k), past: []admission.Past{{Fate: workload.Fate{Job: id.Element(k, 10)}, Absent: true}}, code: codes.Invalid},
		"of no array":             {after: fmt.Sprintf("afterok:%d_0", plain), past: []admission.Past{{Fate: workload.Fate{Job: id.Element(plain, 0)}, Absent: true}}, code: codes.Invalid},
		"of one yet to come":      {after: fmt.Sprintf("afterok:%d_0", s.w.Workload.NextJob()), code: codes.Invalid},
		"of somebody else's":      {after: fmt.Sprintf("afterok:%d_0", theirs), code: codes.Invalid},
		"of an ended one":         {after: fmt.Sprintf("afterok:%d_7", gone), past: absent, code: codes.Invalid},
		"ended, not looked up":    {after: fmt.Sprintf("afterok:%d_0", gone), code: codes.Conflict},
		"each":                    {elements: "0-9:3", after: fmt.Sprintf("aftercorr:%d", k)},
		"each of no array":        {elements: "0-9", after: fmt.Sprintf("aftercorr:%d", plain), code: codes.Invalid},
		"more than there are":     {elements: "0-10", after: fmt.Sprintf("aftercorr:%d", k), code: codes.Invalid},
		"each of somebody else's": {elements: "0-9", after: fmt.Sprintf("aftercorr:%d", theirs), code: codes.Invalid},
		"each of itself":          {elements: "0-9", after: fmt.Sprintf("aftercorr:%d", s.w.Workload.NextJob()), code: codes.Invalid},
		"each, ended":             {elements: "0-3", after: fmt.Sprintf("aftercorr:%d", gone), past: past("1-2")},
		"each, all have failed":   {elements: "1-2", after: fmt.Sprintf("aftercorr:%d", gone), past: past("1-2"), code: codes.Refused},
		"each, too many failed":   {elements: "0-3", after: fmt.Sprintf("aftercorr:%d", gone), past: many, code: codes.Invalid},
	} {
		t.Run(name, func(t *testing.T) {
			s := &sim{w: s.w.Copy(), now: s.now}
			got, err := s.do(s.user("ada"), command.Submit{Spec: followed(t, tt.elements, tt.after), Past: tt.past})
			if fault.Of(err) != tt.code && (err != nil || tt.code != "") {
				t.Fatalf("%v %v, want %q", got, err, tt.code)
			}
			if tt.code == codes.Refused && refusal(t, err).Reasons[0].Code != codes.DependencyNever {
				t.Errorf("%v", err)
			}
			if name == "each, ended" {
				j := got.(admission.Accepted).Job
				if s.tick(t); s.job(t, j.ID).Array.Pending.String() != "0,3" || s.job(t, j.ID).State != workload.Queued {
					t.Errorf("%s: %s wait", j.State, s.job(t, j.ID).Array.Pending)
				}
			}
		})
	}
	for range workload.MaxFollowers {
		s.submit(t, followed(t, "0-9", fmt.Sprintf("aftercorr:%d", k)))
	}
	if _, err := s.do(s.user("ada"), command.Submit{Spec: followed(t, "0-9", fmt.Sprintf("aftercorr:%d", k))}); fault.Of(err) != codes.Invalid {
		t.Errorf("one more than may waits element by element: %v", err)
	}
}

// However the elements of one array start, fail, are queued again and stopped, those of
// another start after the same ones have completed, and only then; those that can't any
// more end, and nothing of either deposit is lost.
func TestElementByElement(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s := newSim(r)
		k := s.submit(t, arrayOf(t, "0-11"))
		live := map[int64]id.Job{}
		fate := map[int64]codes.Outcome{} // of the first array's
		var begun []int64                 // of the other's
		var other id.Job
		late := rapid.IntRange(0, 30).Draw(r, "submitted after")
		stop := func(i int64) {
			s.must(r, s.user("ada"), command.JobStop{Job: k, Elements: workload.Elements{{First: i, Last: i, Step: 1}}})
			if _, runs := live[i]; !runs && fate[i] == "" {
				fate[i] = codes.Cancelled
			}
		}
		for n := range 60 {
			if n == late && len(fate) < 12 {
				other = s.submit(t, followed(t, "1-11:2", fmt.Sprintf("aftercorr:%d", k)))
			}
			switch i := rapid.Int64Range(0, 11).Draw(r, "element"); rapid.IntRange(0, 6).Draw(r, "what") {
			case 0, 1, 2:
				if _, runs := live[i]; fate[i] != "" || runs {
					continue
				}
				s.must(r, system, command.JobStart{Job: k, Element: i})
				if e, ok := s.w.Workload.Element(k, i); ok {
					live[i] = e.ID
					s.must(r, system, command.JobObserved{Job: e.ID, N: 1, Running: true, Started: s.now})
				}
			case 3, 4:
				if e, runs := live[i]; runs {
					j, _ := s.w.Workload.Jobs.Get(e)
					code := int32(rapid.IntRange(0, 1).Draw(r, "exit code"))
					s.must(r, system, command.JobObserved{Job: e, N: j.Attempt.N, Exited: true, Finished: s.now, ExitCode: code})
					switch delete(live, i); {
					case j.Attempt.Cause == codes.Cancelled:
						fate[i] = codes.Cancelled
					case code == 0:
						fate[i] = codes.Completed
					default:
						fate[i] = codes.Failed
					}
				}
			case 5:
				if len(fate) < 12 { // and the array is over
					stop(i)
				}
			case 6:
				if other == 0 {
					continue
				}
				_, before := s.w.Workload.Element(other, i)
				s.must(r, system, command.JobStart{Job: other, Element: i})
				e, now := s.w.Workload.Element(other, i)
				want := i%2 == 1 && fate[i] == codes.Completed && !slices.Contains(begun, i)
				if now && !before != want {
					r.Fatalf("element %d, whose counterpart is %q, started: %v", i, fate[i], now)
				}
				if now && !before {
					begun = append(begun, i)
					s.must(r, system, command.JobObserved{Job: e.ID, N: 1, Exited: true, Finished: s.now})
				}
			}
			s.tick(t)
			if j, ok := s.w.Workload.Jobs.Get(other); ok {
				var pending, ready []int64
				for i := int64(1); i <= 11; i += 2 {
					if slices.Contains(begun, i) || fate[i] != "" && fate[i] != codes.Completed {
						continue
					}
					if pending = append(pending, i); fate[i] == codes.Completed {
						ready = append(ready, i)
					}
				}
				if got := slices.Collect(j.Array.Pending.All); !slices.Equal(got, pending) {
					r.Fatalf("%v wait, want %v", got, pending)
				}
				if got := slices.Collect(j.Array.Ready.All); !slices.Equal(got, ready) || len(j.Array.Lost) > 0 {
					r.Fatalf("%v are ready, want %v; lost %v", got, ready, j.Array.Lost)
				}
				if (j.State == workload.Queued) != (len(ready) > 0) {
					r.Fatalf("%s with %v ready", j.State, ready)
				}
			}
		}
		if len(fate) < 12 {
			s.must(r, s.user("ada"), command.JobStop{Job: k, Now: true})
		}
		for i := range int64(12) {
			if e, runs := live[i]; runs {
				s.must(r, system, command.JobObserved{Job: e, N: 1, Exited: true, Finished: s.now, ExitCode: 137})
			}
		}
		s.tick(t)
		if _, ok := s.w.Workload.Jobs.Get(k); ok {
			r.Fatal("the first array goes on")
		}
		if j, ok := s.w.Workload.Jobs.Get(other); ok {
			if !slices.Equal(slices.Collect(j.Array.Ready.All), slices.Collect(j.Array.Pending.All)) {
				r.Fatalf("%s wait and %s may start, with nothing left to wait for", j.Array.Pending, j.Array.Ready)
			}
			s.must(r, s.user("ada"), command.JobStop{Job: other})
		}
		if s.w.Workload.Jobs.Len() != 0 {
			r.Fatalf("%d jobs are left", s.w.Workload.Jobs.Len())
		}
		if sum := s.w.Ledger.Balance(ledger.OfGrant(1)) + s.w.Ledger.Balance(ledger.Spent(1)); sum != 500*money.Credit {
			r.Fatalf("%s are left of 500", sum)
		}
	})
}

// Of the jobs of one user and name, one that is to be alone waits until none is left that
// came before it, and runs beside none.
func TestSingletonsRunAlone(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s := newSim(r)
		type job struct {
			k           id.Job
			name        string
			alone, runs bool
		}
		var jobs []job
		for range 50 {
			name := rapid.SampledFrom([]string{"a", "b"}).Draw(r, "name")
			pick := func() int {
				if len(jobs) == 0 {
					return -1
				}
				return rapid.IntRange(0, len(jobs)-1).Draw(r, "job")
			}
			switch rapid.IntRange(0, 4).Draw(r, "what") {
			case 0, 1:
				text := rapid.SampledFrom([]string{"", "singleton"}).Draw(r, "after")
				jobs = append(jobs, job{k: s.submit(t, named(t, name, text)), name: name, alone: text != ""})
			case 2:
				if i := pick(); i >= 0 && !jobs[i].runs {
					want := true
					for n, o := range jobs {
						if jobs[i].alone && o.name == jobs[i].name && n != i && (n < i || o.runs) {
							want = false
						}
					}
					s.must(r, system, command.JobStart{Job: jobs[i].k})
					j, _ := s.w.Workload.Jobs.Get(jobs[i].k)
					if got := j.State == workload.Starting; got != want {
						r.Fatalf("job %d of %+v started: %v", jobs[i].k, jobs, got)
					}
					if jobs[i].runs = want; want {
						s.must(r, system, command.JobObserved{Job: j.ID, N: j.Attempt.N, Running: true, Started: s.now})
					}
				}
			case 3:
				if i := pick(); i >= 0 && jobs[i].runs {
					j, _ := s.w.Workload.Jobs.Get(jobs[i].k)
					if rapid.Bool().Draw(r, "again") {
						s.must(r, s.user("root"), command.JobRequeue{Job: j.ID})
						jobs[i].runs = false
					}
					s.must(r, system, command.JobObserved{Job: j.ID, N: j.Attempt.N, Exited: true, Finished: s.now})
					if jobs[i].runs {
						jobs = slices.Delete(jobs, i, i+1)
					}
				}
			case 4:
				if i := pick(); i >= 0 && !jobs[i].runs {
					s.must(r, s.user("ada"), command.JobStop{Job: jobs[i].k})
					jobs = slices.Delete(jobs, i, i+1)
				}
			}
		}
	})
}

// Thousands that wait for each other are one in the queue; other users and names have
// nothing to do with them. An array is one job, whose elements run beside each other.
func TestManySingletons(t *testing.T) {
	s := newSim(t)
	array := named(t, "train", "singleton")
	array.Array = arrayOf(t, "0-2").Array
	k := s.submit(t, array)
	var others []id.Job
	for range 2000 {
		others = append(others, s.submit(t, named(t, "train", "singleton")))
	}
	other := s.submit(t, named(t, "eval", "singleton"))
	ben := s.must(t, s.user("ben"), command.Submit{Spec: named(t, "train", "singleton")}).(admission.Accepted).Job.ID
	s.stand(t, "at first", []string{"queued", "held", "held", "queued", "queued"}, k, others[0], others[1999], other, ben)
	if n := s.w.Workload.Length("main"); n != 5 {
		t.Errorf("%d are in the queue", n)
	}
	a, b := s.begin(t, k, 0), s.begin(t, k, 1)
	if a == 0 || b == 0 {
		t.Fatal("elements of one array don't run beside each other")
	}
	beside := s.submit(t, named(t, "train", ""))
	s.started(t, beside)
	if e := s.begin(t, k, 2); e != 0 {
		t.Error("an element runs beside another job of its name")
	}
	s.exited(t, beside, 0)
	s.exited(t, s.begin(t, k, 2), 1)
	s.exited(t, a, 0)
	s.stand(t, "with one element left", []string{"held"}, others[0])
	s.exited(t, b, 0)
	s.stand(t, "then", []string{"gone", "queued", "held"}, k, others[0], others[1])
	s.must(t, s.user("ada"), command.JobStop{Job: others[1]})
	s.must(t, s.user("ada"), command.JobStop{Job: others[0]})
	s.stand(t, "and then", []string{"queued", "held"}, others[2], others[3])
}
