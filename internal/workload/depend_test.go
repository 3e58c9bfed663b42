package workload_test

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/workload"
)

const minute = int64(60e9)

func TestParseDependencies(t *testing.T) {
	tests := map[string]struct {
		in   string
		want workload.Dependencies
		text string // where it isn't in
		bad  string
	}{
		"none":           {},
		"one":            {in: "afterok:12", want: workload.Dependencies{Of: []workload.Dependency{{Event: workload.AfterOK, Job: 12}}}},
		"several":        {in: "afterok:12:13,afterany:14+30m", want: workload.Dependencies{Of: []workload.Dependency{{workload.AfterOK, 12, 0}, {workload.AfterOK, 13, 0}, {workload.AfterAny, 14, 30 * minute}}}},
		"any":            {in: "after:1?afternotok:2", want: workload.Dependencies{Any: true, Of: []workload.Dependency{{workload.AfterStart, 1, 0}, {workload.AfterNotOK, 2, 0}}}},
		"minutes":        {in: "after:1+90", text: "after:1+1h30m", want: workload.Dependencies{Of: []workload.Dependency{{workload.AfterStart, 1, 90 * minute}}}},
		"twice":          {in: "afterok:1:1", text: "afterok:1", want: workload.Dependencies{Of: []workload.Dependency{{Event: workload.AfterOK, Job: 1}}}},
		"both":           {in: "afterok:1,afterok:2?afterok:3", bad: "both , and ?"},
		"no event":       {in: "12", bad: "isn't afterok"},
		"no job":         {in: "afterok", bad: "isn't a job's number"},
		"singleton":      {in: "singleton", want: workload.Dependencies{Of: []workload.Dependency{{Event: workload.Singleton}}}},
		"with others":    {in: "singleton,afterok:3", want: workload.Dependencies{Of: []workload.Dependency{{Event: workload.Singleton}, {workload.AfterOK, 3, 0}}}},
		"of a job":       {in: "singleton:3", bad: "singleton names no job"},
		"an element":     {in: "afterok:12_7+2m", want: workload.Dependencies{Of: []workload.Dependency{{workload.AfterOK, id.Element(12, 7), 2 * minute}}}},
		"no index":       {in: "afterok:12_", bad: "isn't a job's number"},
		"huge index":     {in: "afterok:12_99999999", bad: "isn't a job's number"},
		"negative index": {in: "afterok:12_-1", bad: "isn't a job's number"},
		"corr":           {in: "aftercorr:12", want: workload.Dependencies{Of: []workload.Dependency{{Event: workload.AfterCorr, Job: 12}}}},
		"corr of one":    {in: "aftercorr:12_7", bad: "name the array"},
		"corr, several":  {in: "aftercorr:12:13", bad: "for one, element by element"},
		"corr, or":       {in: "aftercorr:12?afterok:13", bad: "all must come about"},
		"corr, later":    {in: "aftercorr:12+5m", bad: "leave it out"},
		"a word":         {in: "afterok:x", bad: "isn't a job's number"},
		"zero":           {in: "afterok:0", bad: "isn't a job's number"},
		"negative":       {in: "afterok:-1", bad: "isn't a job's number"},
		"huge":           {in: "afterok:99999999999999999999", bad: "isn't a job's number"},
		"bad delay":      {in: "after:1+x", bad: "isn't a delay"},
		"negative delay": {in: "after:1+-5m", bad: "isn't a delay"},
		"endless delay":  {in: "after:1+999999999d", bad: "isn't a delay"},
		"empty clause":   {in: "afterok:1,", bad: "isn't afterok"},
		"too many":       {in: "afterok" + many257(), bad: "more than 256"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := workload.ParseDependencies(tt.in)
			if tt.bad != "" {
				if err == nil || !strings.Contains(err.Error(), tt.bad) || len(err.Error()) > 200 {
					t.Fatalf("%v, want it to say %q", err, tt.bad)
				}
				return
			}
			if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
				t.Fatalf("%v (-want +got)\n%s", err, diff)
			}
			if want := tt.text; got.String() != want && got.String() != tt.in {
				t.Errorf("reads %q, want %q", got, want)
			}
		})
	}
}

func many257() string {
	var b strings.Builder
	for i := range 257 {
		b.WriteString(":" + strconv.Itoa(i+1))
	}
	return b.String()
}

func FuzzDependencies(f *testing.F) {
	for _, s := range []string{"", "afterok:12:13,afterany:14+30m", "after:1?afternotok:2+1d", "afterok:1:1", "?", "afterok:1+30:2", "singleton,aftercorr:3", "afterok:3_7:4"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := workload.ParseDependencies(s)
		if err != nil {
			return
		}
		again, err := workload.ParseDependencies(d.String())
		if diff := cmp.Diff(d, again); err != nil || diff != "" {
			t.Fatalf("%q reads back as %q: %v\n%s", s, d, err, diff)
		}
	})
}

// What each kind of dependency makes of what may become of a job.
func TestMet(t *testing.T) {
	const start, end, delay = 100, 200, 7
	fates := map[string]workload.Fate{
		"waits":     {},
		"runs":      {Started: start},
		"completed": {Started: start, Ended: end, Outcome: codes.Completed},
		"failed":    {Started: start, Ended: end, Outcome: codes.Failed},
		"cancelled": {Ended: end, Outcome: codes.Cancelled}, // before it started
	}
	want := map[workload.Event]map[string]workload.Met{
		workload.AfterStart: {"runs": {At: start + delay}, "completed": {At: start + delay}, "failed": {At: start + delay}, "cancelled": {At: end + delay}},
		workload.AfterOK:    {"completed": {At: end + delay}, "failed": {Never: true}, "cancelled": {Never: true}},
		workload.AfterNotOK: {"completed": {Never: true}, "failed": {At: end + delay}, "cancelled": {At: end + delay}},
		workload.AfterAny:   {"completed": {At: end + delay}, "failed": {At: end + delay}, "cancelled": {At: end + delay}},
	}
	for event, of := range want {
		for name, fate := range fates {
			got := workload.Dependency{Event: event, Job: 1, Delay: delay}.Met(fate)
			got.As = ""
			if got != of[name] {
				t.Errorf("%s a job that %s: %+v, want %+v", event, name, got, of[name])
			}
		}
	}
}

// A job's age is the time that it has spent in the queue, however it is held and
// released, and whenever somebody looks.
func TestNothingIsGainedByHolding(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		j := &workload.Job{State: workload.Held, Submitted: 1000, Spec: workload.Spec{Begin: rapid.Int64Range(0, 1500).Draw(t, "begin")}}
		now, in, since := int64(1000), int64(0), int64(-1) // time in the queue; since when now
		look := func() {
			j.LineUp(now, now)
			if queued := j.State == workload.Queued; queued != (j.Hold == workload.NoHold && j.Spec.Begin <= now) {
				t.Fatalf("at %d: %s, hold %q, begin %d", now, j.State, j.Hold, j.Spec.Begin)
			} else if queued && since < 0 {
				since = now
			} else if !queued && since >= 0 {
				in, since = in+now-since, -1
			}
			if since >= 0 && now-j.Since() != in+now-since {
				t.Fatalf("at %d it is %d old, want %d", now, now-j.Since(), in+now-since)
			}
			if j.State == workload.Held && j.Aged != in {
				t.Fatalf("held with age %d, want %d", j.Aged, in)
			}
		}
		look()
		for range rapid.IntRange(0, 20).Draw(t, "steps") {
			if now += rapid.Int64Range(0, 100).Draw(t, "passes"); j.State == workload.Held && j.Hold == workload.NoHold {
				now = max(now, j.Spec.Begin)
			}
			j.Hold = rapid.SampledFrom([]workload.Hold{workload.NoHold, workload.HeldByUser, workload.HeldByOperator}).Draw(t, "hold")
			look()
		}
	})
}

// When a job came to compete doesn't depend on when somebody looked.
func TestEligibleWhenItWas(t *testing.T) {
	for name, tt := range map[string]struct {
		spec workload.Spec
		met  []workload.Met
		want int64
	}{
		"begin":      {spec: workload.Spec{Begin: 1200}, want: 1200},
		"dependency": {spec: workload.Spec{Begin: 1200}, met: []workload.Met{{At: 1300}, {At: 1100}}, want: 1300},
		"any":        {spec: workload.Spec{After: workload.Dependencies{Any: true}}, met: []workload.Met{{At: 1300}, {}, {Never: true}}, want: 1300},
		"before":     {spec: workload.Spec{Begin: 10}, want: 1000},
	} {
		for _, late := range []int64{0, 5, 5000} {
			j := &workload.Job{State: workload.Held, Submitted: 1000, Spec: tt.spec, Met: tt.met}
			if due := j.Due(); due != max(1, tt.want) && name != "before" {
				t.Errorf("%s: due at %d, want %d", name, due, tt.want)
			}
			j.LineUp(tt.want+late, j.Submitted)
			if j.State != workload.Queued || j.Since() != tt.want {
				t.Errorf("%s, seen %d later: %s since %d, want since %d", name, late, j.State, j.Since(), tt.want)
			}
		}
	}
}

// Dependencies together: all of them, or any.
func TestOpens(t *testing.T) {
	open, met, lost := workload.Met{}, workload.Met{At: 50}, workload.Met{Never: true}
	for name, tt := range map[string]struct {
		any          bool
		met          []workload.Met
		known, never bool
	}{
		"all met":       {met: []workload.Met{met, met}, known: true},
		"one open":      {met: []workload.Met{met, open}},
		"one lost":      {met: []workload.Met{open, lost}, never: true},
		"any met":       {any: true, met: []workload.Met{open, met, lost}, known: true},
		"any open":      {any: true, met: []workload.Met{open, lost}},
		"any, all lost": {any: true, met: []workload.Met{lost, lost}, never: true},
	} {
		_, known, never := workload.Spec{After: workload.Dependencies{Any: tt.any}}.Opens(tt.met)
		if known != tt.known || never != tt.never {
			t.Errorf("%s: known %v never %v", name, known, never)
		}
	}
}

func TestDeadline(t *testing.T) {
	j := &workload.Job{ID: id.Job(1), State: workload.Queued, Spec: workload.Spec{Time: 100, Deadline: 1000}}
	if j.Spec.LastStart() != 900 || j.Expired(900) || !j.Expired(901) || j.Due() != 901 {
		t.Errorf("last start %d, due %d", j.Spec.LastStart(), j.Due())
	}
	// It was let start at the last moment, and began late: its deadline stands.
	j.State = workload.Running
	if j.Begun(920); j.Attempt.Until != 1000 || j.OutOfTime() != codes.Deadline {
		t.Errorf("until %d, then %s", j.Attempt.Until, j.OutOfTime())
	}
	if j.Begun(850); j.Attempt.Until != 950 || j.OutOfTime() != codes.TimedOut {
		t.Errorf("until %d, then %s", j.Attempt.Until, j.OutOfTime())
	}
	if j.Spec.Deadline = 0; j.Spec.LastStart() != math.MaxInt64 {
		t.Error("a job without a deadline has a last start")
	}
}
