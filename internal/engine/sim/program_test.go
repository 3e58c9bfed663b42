package sim_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/engine/sim"
)

func TestScript(t *testing.T) {
	const out, stderr = engine.Stdout, engine.Stderr
	sh := func(script string) []string { return []string{"sh", "-c", script} }
	tests := map[string]struct {
		command []string
		env     map[string]string
		want    sim.Program
	}{
		"nothing":      {want: sim.Program{Run: -1}},
		"unknown":      {command: []string{"python", "train.py"}, want: sim.Program{Run: -1}},
		"true":         {command: []string{"/bin/true"}},
		"false":        {command: []string{"false"}, want: sim.Program{Exit: 1}},
		"sleep":        {command: []string{"sleep", "90"}, want: sim.Program{Run: 90 * time.Second}},
		"sleep part":   {command: []string{"sleep", "0.250"}, want: sim.Program{Run: 250 * time.Millisecond}},
		"sleep day":    {command: []string{"sleep", "2d"}, want: sim.Program{Run: 48 * time.Hour}},
		"sleep always": {command: []string{"sleep", "infinity"}, want: sim.Program{Run: -1}},
		"sleep wrong": {command: []string{"sleep", "-1"}, want: sim.Program{
			Exit: 1, Output: []sim.Output{{Stream: stderr, Text: "sleep: invalid time interval"}}}},
		"echo": {command: []string{"echo", "a", "b"}, want: sim.Program{
			Output: []sim.Output{{Stream: out, Text: "a b"}}}},
		"home": {command: []string{"printenv", "HOME", "NONE"}, want: sim.Program{
			Exit: 1, Output: []sim.Output{{Stream: out, Text: "/home/ada"}}}},
		"words": {command: []string{"sim", "delay=1s", "out=a b", "pause=2s", "err=c", "run=90s", "exit=3", "trap=SIGUSR1", "trap-term=5"},
			want: sim.Program{
				Delay: time.Second, Run: 90 * time.Second, Exit: 3, Caught: []string{"USR1"}, TrapTerm: 5 * time.Second,
				Output: []sim.Output{{Stream: out, Text: "a b"}, {At: 2 * time.Second, Stream: stderr, Text: "c"}},
			}},
		"run isn't shorter than the pauses": {command: []string{"sim", "run=1s", "pause=2s"}, want: sim.Program{Run: 2 * time.Second}},
		"oom":                               {command: []string{"sim", "oom", "ignore-term"}, want: sim.Program{OutOfMemory: true, IgnoreTerm: true}},
		"refuse":                            {command: []string{"sim", "refuse=no"}, want: sim.Program{Refusal: "no"}},
		"by environment": {command: []string{"python"}, env: map[string]string{"CROFT_SIM": " run=2m  exit=7 "},
			want: sim.Program{Run: 2 * time.Minute, Exit: 7}},
		"wrong word": {command: []string{"sim", "exit=256"}, want: sim.Program{
			Exit: 2, Output: []sim.Output{{Stream: stderr, Text: `sim: cannot read "exit=256"`}}}},
		"script": {command: sh("echo 'a;b' \"$X-y\" >&2; sleep 5 && echo c\nexit 4; echo never"), env: map[string]string{"X": "x $Y"},
			want: sim.Program{Exit: 4, Run: 5 * time.Second, Output: []sim.Output{
				{Stream: stderr, Text: "a;b x $Y-y"}, {At: 5 * time.Second, Stream: out, Text: "c"}}}},
		"script and": {command: sh("false && echo a && echo b; true && echo c"), want: sim.Program{
			Output: []sim.Output{{Stream: out, Text: "c"}}}},
		"script quoted operator": {command: sh("echo '>&2'"), want: sim.Program{
			Output: []sim.Output{{Stream: out, Text: ">&2"}}}},
		"script with what isn't understood": {command: sh("echo a; for i in 1 2; do x; done"), want: sim.Program{
			Run: -1, Output: []sim.Output{{Stream: out, Text: "a"}}}},
		"script with a pipe": {command: sh("echo a | cat"), want: sim.Program{Run: -1}},
		"script unclosed":    {command: sh("echo 'a"), want: sim.Program{Run: -1}},
		"script empty":       {command: sh("")},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if test.want.TrapTerm == 0 {
				test.want.TrapTerm = -1
			}
			got := sim.Script(engine.Allocation{Container: engine.Container{Command: test.command, Env: test.env}, User: user()})
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Whatever a user writes, reading it ends and the program's times are in order.
func FuzzScript(f *testing.F) {
	for _, s := range []string{"echo a; sleep 1 && exit 3", "echo '$X' \"$HOME\" >&2\nfalse", "a=$(b)", "sleep 99999999999d", "echo \"", "$", "é;&&>&2"} {
		f.Add(s, "out="+s, s)
	}
	f.Fuzz(func(t *testing.T, script, word, env string) {
		for _, c := range []engine.Container{
			{Command: []string{"sh", "-c", script}},
			{Command: []string{"sim", word, script}},
			{Env: map[string]string{"CROFT_SIM": env}},
		} {
			p := sim.Script(engine.Allocation{Container: c})
			var last time.Duration
			for _, o := range p.Output {
				if o.At < last || p.Run >= 0 && o.At > p.Run {
					t.Fatalf("%q: output at %v after %v in a run of %v", c.Command, o.At, last, p.Run)
				}
				last = o.At
			}
			if p.Delay < 0 || p.Exit < 0 || p.Exit > 255 {
				t.Fatalf("%q: %+v", c.Command, p)
			}
		}
	})
}
