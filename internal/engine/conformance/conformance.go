// Package conformance is the suite that every engine passes: what the comments
// of engine.Engine promise, as tests. It runs in real time against a container
// runtime and in virtual time against engine/sim; which of the two is a matter
// of the Fixture only.
package conformance

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"croft.dev/croft/internal/engine"
)

// Fixture is an engine under test and what the suite must know of its world.
// Everything but the fields marked optional is required.
type Fixture struct {
	// Engine is connected and serves Instance. Whoever opened it closes it.
	Engine engine.Engine
	// Instance is the UUID that the engine labels its objects with. It must be
	// new for each run, so that left-overs of an earlier one aren't seen.
	Instance string
	// Reconnect opens one more connection to the same runtime, as a server does
	// that was killed and started again. The suite closes what it gets.
	Reconnect func(t *testing.T) engine.Engine
	// Other opens a connection to the same runtime for another instance, and
	// returns that instance's UUID. The suite closes what it gets.
	Other func(t *testing.T) (e engine.Engine, instance string)

	ImageOK      string // present at the runtime
	ImageMissing string // neither present nor to be had from a reachable registry
	Node         string // where to run
	User         engine.User
	Workdir      string // a directory of ImageOK and of the node; "" means /tmp
	CPU          int64  // milli-cores of each attempt; 0 means 500
	Memory       int64  // bytes of each attempt; 0 means 64 MiB

	Commands Commands

	// Step lets a little time pass while the suite waits for something: a virtual
	// clock advances. Optional: real time passes by itself.
	Step func()
	// NoListen is set for an engine that can't listen inside of steps, and says so.
	NoListen bool
	// StepsEnd is set for an engine whose further steps end with the primary, by themselves.
	StepsEnd bool
	// LoseEvents makes the engine lose the events of its watches while on.
	// Optional: without it the suite only stalls a watcher.
	LoseEvents func(on bool)
}

// Commands are argument vectors that do what their field says in ImageOK, and on the node
// itself.
type Commands struct {
	// Exit ends at once with the code.
	Exit func(code int) []string
	// Print writes the lines in order, then ends with the code.
	Print func(lines []Line, code int) []string
	// UntilTerm prints the line "ready", runs until SIGTERM, then exits 0.
	UntilTerm []string
	// IgnoreTerm prints the line "ready" and runs on, whatever SIGTERM says.
	IgnoreTerm []string
	// Sleep runs for at least an hour.
	Sleep []string
	// PrintEnv prints the value of a variable as one line.
	PrintEnv func(name string) []string
	// PrintWorkdir prints the working directory as one line.
	PrintWorkdir []string
	// Copy copies its input to its output until that ends, then exits 0.
	Copy []string
	// Drain has its output closed, reads its input to its end, and exits 0 if that was n
	// bytes. Optional.
	Drain func(n int) []string
	// Sizes prints its terminal's size as "ROWS COLUMNS" whenever that changes, and
	// runs for at least an hour.
	Sizes []string
	// Busy prints the line "ready" and uses the CPU that it has for at least an hour.
	Busy []string
	// Listen answers HTTP on a TCP port of loopback, with the page "hello" and a newline,
	// until a signal ends it. Only ever run in a container.
	Listen func(port uint16) []string
	// NotFound names a program that isn't in the image.
	NotFound []string
	// MemoryHog touches more memory than Fixture.Memory. Optional.
	MemoryHog []string
}

// Line is a line of output.
type Line struct {
	Stream engine.Stream
	Text   string        // letters, digits and spaces
	Pause  time.Duration // after the line, whole milliseconds
}

// patience is how long (real time) the suite waits for one thing.
const patience = time.Minute

// Run runs the suite on the engine that open returns. open is called once. Most
// cases run in parallel and go on after Run has returned, so what open opens must
// live until t ends: t.Cleanup, not defer.
func Run(t *testing.T, open func(t *testing.T) Fixture) {
	t.Helper()
	f := open(t)
	checkFixture(t, f)
	s := &suite{Fixture: f}
	if s.Workdir == "" {
		s.Workdir = "/tmp"
	}
	if s.CPU == 0 {
		s.CPU = 500
	}
	if s.Memory == 0 {
		s.Memory = 64 << 20
	}
	for _, c := range s.cases() {
		for _, host := range []bool{false, true} {
			name := c.name
			if host {
				name = "on the host, " + name
			}
			if host && c.containers {
				continue
			}
			t.Run(name, func(t *testing.T) {
				if !c.alone {
					t.Parallel()
				}
				c.run(&world{T: t, suite: s, host: host})
			})
		}
	}
}

// testCase is one promise of the contract.
type testCase struct {
	name  string
	run   func(w *world)
	alone bool // disturbs other cases
	// containers is set where programs on the host have no part in it; the other cases are
	// run with those, too.
	containers bool
}

// cases returns the cases that the fixture has the means for.
func (s *suite) cases() []testCase {
	all := slices.Concat(startCases(), stepCases(), hostCases(), endCases(), viewCases(), logCases(), imageCases(), programCases(), attachCases(), dialCases(), listenCases(), usageCases(), terminalCases())
	if s.Commands.Drain != nil {
		all = append(all, testCase{name: "Exec gives all of an input to a command without an output", run: execDrains})
	}
	if len(s.Commands.MemoryHog) > 0 {
		all = append(all, testCase{name: "too much memory ends as OutOfMemory", run: outOfMemory})
	}
	if s.LoseEvents != nil {
		all = append(all, testCase{name: "lost events are repaired by List", run: watchLost, alone: true})
	}
	return all
}

// suite is what the cases of one run share.
type suite struct {
	Fixture
	jobs atomic.Int64 // last job number given out
}

// checkFixture fails on a fixture that would make cases pass for nothing.
func checkFixture(t *testing.T, f Fixture) {
	t.Helper()
	c := f.Commands
	required := []struct {
		name string
		ok   bool
	}{
		{"Engine", f.Engine != nil},
		{"Instance", f.Instance != ""},
		{"Reconnect", f.Reconnect != nil},
		{"Other", f.Other != nil},
		{"ImageOK", f.ImageOK != ""},
		{"ImageMissing", f.ImageMissing != ""},
		{"Node", f.Node != ""},
		{"User.Name", f.User.Name != ""},
		{"Commands.Exit", c.Exit != nil},
		{"Commands.Print", c.Print != nil},
		{"Commands.UntilTerm", len(c.UntilTerm) > 0},
		{"Commands.IgnoreTerm", len(c.IgnoreTerm) > 0},
		{"Commands.Sleep", len(c.Sleep) > 0},
		{"Commands.PrintEnv", c.PrintEnv != nil},
		{"Commands.PrintWorkdir", len(c.PrintWorkdir) > 0},
		{"Commands.Copy", len(c.Copy) > 0},
		{"Commands.Sizes", len(c.Sizes) > 0},
		{"Commands.Busy", len(c.Busy) > 0},
		{"Commands.Listen", c.Listen != nil},
		{"Commands.NotFound", len(c.NotFound) > 0},
	}
	for _, r := range required {
		if !r.ok {
			t.Fatalf("conformance.Fixture: %s is missing", r.name)
		}
	}
}

// attemptID names an attempt as Croft does: instance, job, attempt number.
func attemptID(instance string, job int64, n int) engine.AttemptID {
	return engine.AttemptID(fmt.Sprintf("%.8s-%d-%d", instance, job, n))
}
