package command

import (
	"fmt"
	"regexp"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

// JobExec notes that somebody runs a command in a running job. Arguments may hold
// secrets, so the log keeps only how many words there are, and the first.
type JobExec struct {
	Job     id.Job
	Step    int32
	Program string // see ProgramOf
	Words   int
	TTY     bool `json:",omitempty"`
}

// Kind is job.exec.
func (JobExec) Kind() string { return "job.exec" }

// programName is what names a program, and can't well be anything else.
var programName = regexp.MustCompile(`^[A-Za-z0-9._/+-]{1,64}$`)

// ProgramOf is what the log keeps of a command: its first word, unless that is more than
// a program's name.
func ProgramOf(command []string) string {
	if len(command) == 0 || !programName.MatchString(command[0]) {
		return ""
	}
	return command[0]
}

// Decide lets the caller in, or not.
func (c JobExec) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	text := "exec"
	if c.Program != "" {
		text += " " + c.Program
	}
	if c.Words > 1 || c.Program == "" {
		text += " …"
	}
	return enter(w, at, c.Job, c.Step, text)
}

// JobAttach notes that somebody attaches to what a job runs.
type JobAttach struct {
	Job   id.Job
	Step  int32
	Input bool `json:",omitempty"` // and gives it its input
}

// Kind is job.attach.
func (JobAttach) Kind() string { return "job.attach" }

// Decide lets the caller in, or not.
func (c JobAttach) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	text := "attached"
	if c.Input {
		text += " with input"
	}
	return enter(w, at, c.Job, c.Step, text)
}

// What somebody comes into a job for by SSH.
const (
	SSHShell   = "shell"
	SSHExec    = "exec"
	SSHFiles   = "sftp"
	SSHForward = "forwarding" // of ports; noted once for a connection
)

// JobSSH notes that somebody comes into a running job by SSH. Of a command it keeps what
// JobExec does.
type JobSSH struct {
	Job     id.Job
	Step    int32
	For     string
	Key     string `json:",omitempty"` // fingerprint; empty: the API knew him
	Program string `json:",omitempty"`
	Words   int    `json:",omitempty"`
	TTY     bool   `json:",omitempty"`
}

// Kind is job.ssh.
func (JobSSH) Kind() string { return "job.ssh" }

// Decide lets the caller in, or not.
func (c JobSSH) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	text := "ssh " + c.For
	if c.Program != "" {
		text += " " + c.Program
	}
	if c.For == SSHExec && (c.Words > 1 || c.Program == "") {
		text += " …"
	}
	return enter(w, at, c.Job, c.Step, text)
}

// JobTerminal notes that somebody joins a terminal beside what a job runs, or ends it.
type JobTerminal struct {
	Job  id.Job
	Step int32
	Name string
	View bool `json:",omitempty"` // he only looks
	End  bool `json:",omitempty"`
}

// Kind is job.terminal.
func (JobTerminal) Kind() string { return "job.terminal" }

// Decide lets the caller in, or not.
func (c JobTerminal) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	if !terminalName.MatchString(c.Name) {
		return world.Outcome{}, fault.Invalid("name", "no terminal can be called that")
	}
	text := "terminal " + c.Name
	switch {
	case c.View:
		text += ", to look"
	case c.End:
		text += " ended"
	}
	action := access.TermUse
	if c.View {
		action = access.TermView
	}
	j, err := joined(w, at, c.Job, action)
	if err != nil {
		return world.Outcome{}, err
	}
	return inStep(w, j, c.Step, text)
}

// terminalName is what a terminal can be called.
var terminalName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// enter lets the caller into a step that runs. It changes nothing but the log.
func enter(w *world.World, at world.Context, k id.Job, n int32, text string) (world.Outcome, error) {
	j, err := entered(w, at, k)
	if err != nil {
		return world.Outcome{}, err
	}
	return inStep(w, j, n, text)
}

// inStep notes what somebody who may does in a step, if that runs.
func inStep(w *world.World, j *workload.Job, n int32, text string) (world.Outcome, error) {
	if j.State != workload.Running {
		return world.Outcome{}, j.NotRunning()
	}
	if n != workload.PrimaryStep {
		s, ok := w.Workload.Step(j.ID, n)
		if !ok {
			return world.Outcome{}, fault.New(codes.Conflict, "step %s.%d isn't running", j.Name(), n)
		}
		if s.State != workload.Running {
			return world.Outcome{}, fault.New(codes.Conflict, "step %s.%d isn't running: it is %s", j.Name(), n, s.State)
		}
		text = fmt.Sprintf("step %d: %s", n, text)
	}
	return world.Outcome{Result: j, Event: world.Event{Job: j.ID, Account: j.Account, State: string(j.State), Message: text}}, nil
}
