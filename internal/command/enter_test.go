package command_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

// What the log keeps of a command is a program's name and nothing that may be a secret.
func TestProgramOf(t *testing.T) {
	for name, tt := range map[string]struct {
		command []string
		want    string
	}{
		"a name":              {[]string{"nvidia-smi", "-L"}, "nvidia-smi"},
		"a path":              {[]string{"/usr/bin/python3.11", "x"}, "/usr/bin/python3.11"},
		"none":                {nil, ""},
		"words in one":        {[]string{"psql postgres://ada:secret@db"}, ""},
		"an assignment":       {[]string{"TOKEN=secret"}, ""},
		"an address":          {[]string{"https://ada:secret@host"}, ""},
		"several lines":       {[]string{"sh\n"}, ""},
		"longer than a name":  {[]string{strings.Repeat("x", 65)}, ""},
		"turned round, empty": {[]string{"\u202e"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := command.ProgramOf(tt.command); got != tt.want {
				t.Errorf("ProgramOf(%q) = %q, want %q", tt.command, got, tt.want)
			}
		})
	}
}

// Who enters what runs leaves a row that changes nothing, and doesn't get into what
// doesn't run.
func TestEntering(t *testing.T) {
	s := newSim(t)
	k := s.running(t)
	ada := s.user("ada")
	n := s.add(t, k, workload.StepSpec{})
	for name, tt := range map[string]struct {
		cmd  world.Command
		want string
	}{
		"a command":             {command.JobExec{Job: k, Step: 1, Program: "ps", Words: 1}, "exec ps"},
		"one with arguments":    {command.JobExec{Job: k, Step: 1, Program: "sh", Words: 3}, "exec sh …"},
		"one that isn't shown":  {command.JobExec{Job: k, Step: 1, Words: 1}, "exec …"},
		"attached":              {command.JobAttach{Job: k, Step: 1}, "attached"},
		"attached to its input": {command.JobAttach{Job: k, Step: 1, Input: true}, "attached with input"},
		"a terminal":            {command.JobTerminal{Job: k, Step: 1, Name: "main"}, "terminal main"},
		"only looking at one":   {command.JobTerminal{Job: k, Step: 1, Name: "a.b", View: true}, "terminal a.b, to look"},
		"one is ended":          {command.JobTerminal{Job: k, Step: 1, Name: "main", End: true}, "terminal main ended"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := tt.cmd.Decide(s.w, world.Context{Now: s.now, Principal: ada})
			if err != nil {
				t.Fatal(err)
			}
			want := world.Event{Job: k, Account: out.Event.Account, State: "running", Message: tt.want}
			if diff := cmp.Diff(want, out.Event); diff != "" || len(out.Changes) > 0 {
				t.Errorf("event (-want +got):\n%s\nchanges %v", diff, out.Changes)
			}
		})
	}
	for name, cmd := range map[string]world.Command{
		"a step that waits": command.JobAttach{Job: k, Step: n}, "no such step": command.JobExec{Job: k, Step: 99},
	} {
		if _, err := s.do(ada, cmd); fault.Of(err) != codes.Conflict {
			t.Errorf("%s: %v, want a conflict", name, err)
		}
	}
	if _, err := s.do(ada, command.JobTerminal{Job: k, Step: 1, Name: "../main"}); fault.Of(err) != codes.Invalid {
		t.Errorf("a terminal that can't be called that: %v, want invalid", err)
	}
	s.beginStep(t, k, n)
	out, err := command.JobExec{Job: k, Step: n, Program: "ps", Words: 1}.Decide(s.w, world.Context{Now: s.now, Principal: ada})
	if err != nil || out.Event.Message != "step 2: exec ps" {
		t.Errorf("in a step: %q, %v", out.Event.Message, err)
	}
	s.must(t, ada, command.JobStop{Job: k})
	if _, err := s.do(ada, command.JobAttach{Job: k, Step: 1}); fault.Of(err) != codes.Conflict {
		t.Errorf("into one that is stopping: %v, want a conflict", err)
	}
}
