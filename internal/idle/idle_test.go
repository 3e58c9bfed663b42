package idle

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

const (
	second = int64(time.Second)
	minute = int64(time.Minute)
	hour   = int64(time.Hour)
	noon   = 1_000_000 * hour
)

// usual is the policy of workspaces.
func usual() Policy {
	return Policy{Mode: Stop, After: 2 * hour, Notice: 15 * minute, Device: 50, CPU: 100, Signals: []Signal{Device, CPU, App, SSH, Terminal}}
}

// quiet is what is read of a job that does nothing.
func quiet(p Policy) []Reading {
	return []Reading{
		p.ReadDevices([]Busy{{Name: "gpu0", Known: true}}), p.ReadCPU(10, true, 8000),
		ReadApps([]Activity{{Name: "jupyter", Known: true}}), ReadConnections(SSH, 0, 0), ReadConnections(Terminal, 0, 0), ReadConnections(Browser, 2, 0),
	}
}

// watch looks every ten seconds for a while, beginning one after the last look.
func watch(p Policy, c Watch, now *int64, span int64, readings []Reading) Verdict {
	v := Verdict{Count: c}
	for end := *now + span; *now < end; {
		*now += 10 * second
		v = p.Look(v.Count, *now, readings)
		if v.Notice {
			v.Count.Told = *now
		}
	}
	return v
}

func TestIdleIsToldAndStopped(t *testing.T) {
	p, now := usual(), noon
	v := watch(p, Watch{Count: Count{Since: now}}, &now, 10*second, quiet(p))
	if v.Standing != Idle || v.StopAt != now+2*hour || v.Notice || v.Stop {
		t.Errorf("at first: %+v", v)
	}
	v = watch(p, v.Count, &now, 104*minute, quiet(p))
	if v.Count.Told != 0 {
		t.Error("told too early")
	}
	v = watch(p, v.Count, &now, minute, quiet(p))
	if v.Count.Told == 0 || v.Stop {
		t.Errorf("after 1h45m: %+v", v.Count)
	}
	v = watch(p, v.Count, &now, 14*minute, quiet(p))
	if v.Stop {
		t.Errorf("stopped %v after it was told", time.Duration(now-v.Count.Told))
	}
	v = watch(p, v.Count, &now, minute, quiet(p))
	if !v.Stop {
		t.Errorf("not stopped: %+v", v.Count)
	}
	const want = "idle for 2h: device 0 % (< 5 %), CPU 0.01 of 8 cores (< 0.1), jupyter idle, no SSH, no terminal"
	if got := v.Text(); got != want {
		t.Errorf("%s, want\n%s", got, want)
	}
	if r := v.Reasons(); len(r) != 5 || r[0].Observed != "device 0 %" || r[0].Bound != "5 %" || r[0].Field != "device" {
		t.Errorf("%+v", r)
	}
}

func TestStanding(t *testing.T) {
	p := usual()
	with := func(r Reading) []Reading { return append(quiet(p), r) }
	almost := Watch{Count{Since: noon - 2*hour, Idle: 2*hour - second, Told: noon - hour}, noon - 10*second, true}
	tests := map[string]struct {
		policy   func(*Policy)
		count    Watch
		readings []Reading
		want     Standing
		text     string
		count2   Count // what it comes to, but for the look itself
	}{
		"idle": {count: almost, readings: quiet(p), want: Idle, text: "idle for 2h: device 0 % (< 5 %), CPU 0.01 of 8 cores (< 0.1), jupyter idle, no SSH, no terminal",
			count2: Count{Since: noon - 2*hour, Idle: 2 * hour, Told: noon - hour}},
		"one device of several": {count: almost, readings: []Reading{p.ReadDevices([]Busy{{"gpu0", true, 0}, {"gpu1", true, 900}, {"gpu2", false, 0}}), p.ReadCPU(0, true, 1000)},
			want: Active, text: "at work: device gpu1 90 % (≥ 5 %)", count2: Count{Since: noon}},
		"a device unknown": {count: almost, readings: []Reading{p.ReadDevices([]Busy{{"gpu0", true, 0}, {"gpu1", false, 0}}), p.ReadCPU(0, true, 1000)},
			want: Unknown, text: "not known to be idle: how busy device gpu1 is can't be seen", count2: Count{Since: almost.Since, Idle: almost.Idle, Told: almost.Told}},
		"at the bound":   {count: almost, readings: []Reading{p.ReadCPU(100, true, 1000)}, want: Active, text: "at work: CPU 0.1 of 1 cores (≥ 0.1)", count2: Count{Since: noon}},
		"a running cell": {count: almost, readings: with(ReadApps([]Activity{{Name: "lab", Known: true, Busy: true}, {Name: "code"}})), want: Active, text: "at work: jupyter idle, lab busy", count2: Count{Since: noon}},
		"a program that doesn't answer": {count: almost, readings: with(ReadApps([]Activity{{Name: "lab"}, {Name: "code", Known: true}})), want: Unknown,
			text: "not known to be idle: jupyter idle, whether lab works can't be seen", count2: Count{Since: almost.Since, Idle: almost.Idle, Told: almost.Told}},
		"a cell that ran between two looks": {count: almost, readings: with(ReadApps([]Activity{{Name: "lab", Known: true, Last: noon - 5*minute}})), want: Idle,
			text:   "idle for 5m: device 0 % (< 5 %), CPU 0.01 of 8 cores (< 0.1), jupyter idle, no SSH, no terminal, lab idle for 5m",
			count2: Count{Since: noon - 5*minute, Idle: 5 * minute}},
		"SSH":  {count: almost, readings: with(ReadConnections(SSH, 2, 0)), want: Active, text: "at work: no SSH, 2 SSH connections", count2: Count{Since: noon}},
		"kept": {count: Watch{Count: Count{Keep: noon + hour, Idle: 5 * hour, Told: noon - hour}}, readings: quiet(p), want: Kept, text: "kept for another 1h", count2: Count{Keep: noon + hour, Since: noon}},
		"was kept": {count: Watch{Count{Keep: noon, Since: noon - hour}, noon - 10*second, true}, readings: quiet(p), want: Idle,
			text: "idle for 10s: device 0 % (< 5 %), CPU 0.01 of 8 cores (< 0.1), jupyter idle, no SSH, no terminal", count2: Count{Keep: noon, Since: noon - hour, Idle: 10 * second}},
		"no policy":    {policy: func(p *Policy) { *p = Policy{Mode: Off} }, count: almost, readings: quiet(p), want: Unwatched, text: "not watched", count2: Count{Since: noon}},
		"nothing seen": {count: almost, want: Unknown, text: "not known to be idle: no signal that counts can be seen of it", count2: Count{Since: almost.Since, Idle: almost.Idle, Told: almost.Told}},
		"a gap": {count: Watch{Count{Since: noon - 2*hour, Idle: hour}, noon - 2*minute, true}, readings: quiet(p), want: Idle,
			text: "idle for 1h: device 0 % (< 5 %), CPU 0.01 of 8 cores (< 0.1), jupyter idle, no SSH, no terminal", count2: Count{Since: noon - 2*hour, Idle: hour}},
		"a new server": {count: Watch{Count: Count{Since: noon - 2*hour, Idle: hour}}, readings: quiet(p), want: Idle,
			text: "idle for 1h: device 0 % (< 5 %), CPU 0.01 of 8 cores (< 0.1), jupyter idle, no SSH, no terminal", count2: Count{Since: noon - 2*hour, Idle: hour}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p := usual()
			if tt.policy != nil {
				tt.policy(&p)
			}
			v := p.Look(tt.count, noon, tt.readings)
			if v.Standing != tt.want || v.Text() != tt.text {
				t.Errorf("%s %q, want %s\n%q", v.Standing, v.Text(), tt.want, tt.text)
			}
			if diff := cmp.Diff(Watch{tt.count2, noon, tt.want == Idle}, v.Count); diff != "" {
				t.Errorf("count (-want +got):\n%s", diff)
			}
			if v.Stop != (name == "idle") {
				t.Errorf("stop: %v", v.Stop)
			}
		})
	}
}

func TestDryRunOnlyNotes(t *testing.T) {
	p, now := usual(), noon
	p.Mode = DryRun
	v := watch(p, Watch{Count: Count{Since: now}}, &now, 3*hour, quiet(p))
	if v.Notice || v.Count.Told != 0 || !v.Stop || v.Standing != Idle {
		t.Errorf("%+v", v)
	}
}

func TestOf(t *testing.T) {
	all := []Policy{
		{QoS: []string{"urgent"}, Mode: Off},
		{Kinds: []string{"workspace"}, Accounts: []string{"physics"}, Mode: DryRun},
		{Kinds: []string{"workspace"}, Partitions: []string{"main", "big"}, Mode: Stop},
	}
	tests := map[string]struct {
		kind, partition, qos string
		accounts             []string
		want                 Mode
	}{
		"the first that fits":    {"workspace", "main", "urgent", []string{"nlp"}, Off},
		"below an account":       {"workspace", "main", "normal", []string{"lab", "physics"}, DryRun},
		"by kind and partition":  {"workspace", "big", "normal", []string{"nlp"}, Stop},
		"another kind":           {"batch", "big", "normal", []string{"nlp"}, Off},
		"a partition that isn't": {"workspace", "old", "normal", []string{"nlp"}, Off},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Of(all, tt.kind, tt.partition, tt.qos, tt.accounts); got.Mode != tt.want {
				t.Errorf("%+v", got)
			}
		})
	}
}

// Whatever is seen, in whatever order and with whatever gaps: a job is stopped only if no
// signal that counts was active within the time that the policy gives, none is unknown,
// nobody keeps it, it was seen to be idle for as long, and its user was told in time.
func TestWhateverIsSeen(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Policy{
			Mode: Stop, After: rapid.Int64Range(1, 60).Draw(t, "after") * second, Device: 50, CPU: 100,
			Signals: rapid.SliceOfDistinct(rapid.SampledFrom(Signals()), func(s Signal) Signal { return s }).Draw(t, "signals"),
		}
		p.Notice = min(rapid.Int64Range(0, 20).Draw(t, "notice")*second, p.After)
		now := noon
		c := Watch{Count: Count{Since: now}}
		var active, watched int64 = now, 0 // when it worked last; how long it was watched since
		for range rapid.IntRange(1, 80).Draw(t, "looks") {
			step := rapid.Int64Range(0, 90).Draw(t, "step") * second
			now += step
			if rapid.Bool().Draw(t, "restart") && rapid.Bool().Draw(t, "really") {
				c.At, c.Quiet = 0, false
			}
			if rapid.IntRange(0, 30).Draw(t, "keep") == 0 {
				c.Keep = now + 30*second
			}
			var readings []Reading
			var unknown bool
			for _, s := range rapid.SliceOf(rapid.SampledFrom(Signals())).Draw(t, "read") {
				r := Reading{Signal: s, Known: rapid.IntRange(0, 9).Draw(t, "known") > 0, Active: rapid.IntRange(0, 9).Draw(t, "active") == 0}
				if rapid.IntRange(0, 9).Draw(t, "last") == 0 {
					r.Last = now - rapid.Int64Range(-5, 60).Draw(t, "ago")*second
				}
				readings = append(readings, r)
				if !p.Counts(s) {
					continue
				}
				unknown = unknown || !r.Known
				if r.Known && r.Active {
					active, watched = now, 0
				}
				if r.Known && !unknown {
					active = max(active, min(r.Last, now))
				}
			}
			v := p.Look(c, now, readings)
			if watched += min(step, MaxGap); v.Standing != Idle && v.Standing != Unknown {
				watched = 0
			}
			if v.Stop {
				switch {
				case v.Standing != Idle:
					t.Fatalf("stopped while %s", v.Standing)
				case unknown:
					t.Fatal("stopped although something isn't known")
				case c.Keep > now:
					t.Fatal("stopped although it is kept")
				case now-active < p.After:
					t.Fatalf("stopped %v after it worked", time.Duration(now-active))
				case watched < p.After:
					t.Fatalf("stopped after it was watched for %v", time.Duration(watched))
				case c.Told == 0 || now-c.Told < p.Notice:
					t.Fatalf("stopped without a notice in time: told %d, now %d", c.Told, now)
				}
			}
			if v.StopAt != 0 && v.StopAt < now {
				t.Fatalf("the stop is foreseen in the past")
			}
			if v.Count.Idle > now-v.Count.Since || v.Count.Idle < 0 {
				t.Fatalf("idle for longer than since it worked: %+v", v.Count)
			}
			c = v.Count
			if v.Notice {
				c.Told = now
			}
		}
	})
}
