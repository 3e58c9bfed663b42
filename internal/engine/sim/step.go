package sim

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"croft.dev/croft/internal/clock"
	"croft.dev/croft/internal/engine"
)

// step is a program of an attempt on a virtual node. Fleet.mu guards it.
type step struct {
	engine.Allocation       // its attempt's, with what is its own
	n                 int   // of the step
	seq               int64 // place in the order of starts
	program           Program
	added             []*step // of a primary: the further ones, in the order of their starts

	phase             engine.Phase
	started, finished time.Time
	exit              int
	oom               bool
	failure           string
	removed           bool // with its attempt: no longer listed; the log is kept

	begins time.Time // when the step begins
	origin time.Time // when its program does: then, or once somebody has attached
	ends   time.Time // when it ends by itself; zero: never
	given  bool      // somebody has given its input, or does
	size   engine.Size
	timer  *clock.Timer

	terminals *terminals // nil: none were asked for

	log     []logEntry
	changed chan struct{} // closed when the log grows, the step ends or contact is lost
}

// logEntry is a line of a log.
type logEntry struct {
	at     time.Time
	stream engine.Stream
	text   string // with its newline; of a copied input, as it came
}

// id names the step.
func (a *step) id() engine.StepID { return engine.StepID{Attempt: a.Attempt, N: a.n} }

// start makes a step and lets its program do what it does at once. f.mu is held.
func (f *Fleet) start(alloc engine.Allocation, n int, p Program) {
	now := f.clock.Now()
	f.started++
	a := &step{
		Allocation: clone(alloc),
		n:          n,
		seq:        f.started,
		program:    p,
		phase:      engine.PhaseCreated,
		begins:     now.Add(p.Delay),
		changed:    make(chan struct{}),
	}
	f.steps[a.id()] = a
	if p.Failure != "" {
		a.failure = p.Failure
		f.end(a, now, 127)
		return
	}
	f.settle(a)
	if a.phase == engine.PhaseCreated {
		f.publish(a)
	}
}

func clone(a engine.Allocation) engine.Allocation {
	a.Command = slices.Clone(a.Command)
	a.Args = slices.Clone(a.Args)
	a.Env = maps.Clone(a.Env)
	a.Mounts = slices.Clone(a.Mounts)
	a.Devices = slices.Clone(a.Devices)
	return a
}

// settle lets happen what is due by now, each at its own time, and sets the timer
// for what comes next. Calling it once more does no harm. f.mu is held.
func (f *Fleet) settle(a *step) {
	now := f.clock.Now()
	for {
		at, do := a.next()
		if do == nil {
			return
		}
		if at.After(now) {
			f.wake(a, at.Sub(now))
			return
		}
		do(f, at)
	}
}

// next returns what the step does next, and its time; nil if nothing is to come by
// itself.
func (a *step) next() (time.Time, func(*Fleet, time.Time)) {
	switch {
	case a.phase == engine.PhaseCreated:
		return a.begins, func(f *Fleet, at time.Time) { f.begin(a, at) }
	case a.phase != engine.PhaseRunning:
		return time.Time{}, nil
	}
	if len(a.program.Output) > 0 {
		at := a.origin.Add(a.program.Output[0].At)
		if a.ends.IsZero() || !at.After(a.ends) {
			return at, func(_ *Fleet, at time.Time) { a.printNext(at) }
		}
	}
	if a.ends.IsZero() {
		return time.Time{}, nil
	}
	return a.ends, func(f *Fleet, at time.Time) {
		a.oom = a.program.OutOfMemory
		code := a.program.Exit
		if a.oom {
			code = 128 + sigkill
		}
		f.end(a, at, code)
	}
}

func (f *Fleet) wake(a *step, after time.Duration) {
	if a.timer != nil {
		a.timer.Stop()
	}
	a.timer = f.clock.AfterFunc(after, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.settle(a)
	})
}

func (f *Fleet) begin(a *step, at time.Time) {
	a.phase = engine.PhaseRunning
	a.started = at
	a.origin = at
	if a.AwaitAttach {
		a.origin = at.Add(engine.AttachWithin)
	}
	a.schedule()
	f.publish(a)
}

// schedule says when the program ends by itself. One that reads an input ends with that.
func (a *step) schedule() {
	if a.program.Run >= 0 && !(a.program.Stdin && a.Stdin) {
		a.ends = a.origin.Add(a.program.Run)
	}
}

func (a *step) printNext(at time.Time) {
	o := a.program.Output[0]
	a.program.Output = a.program.Output[1:]
	a.print(at, o.Stream, o.Text)
}

func (a *step) print(at time.Time, stream engine.Stream, text string) {
	a.write(at, stream, text+"\n")
}

func (a *step) write(at time.Time, stream engine.Stream, text string) {
	a.log = append(a.log, logEntry{at: at, stream: stream, text: text})
	a.notify()
}

// end ends the step. f.mu is held.
func (f *Fleet) end(a *step, at time.Time, code int) {
	if a.timer != nil {
		a.timer.Stop()
	}
	a.phase = engine.PhaseExited
	a.finished = at
	a.exit = code
	a.terminals.end()
	a.notify()
	f.publish(a)
}

// notify wakes those who wait for the step.
func (a *step) notify() {
	close(a.changed)
	a.changed = make(chan struct{})
}

// kill ends a step that hasn't ended yet as SIGKILL does. f.mu is held.
func (f *Fleet) kill(a *step) {
	f.settle(a)
	if a.phase != engine.PhaseExited {
		f.end(a, f.clock.Now(), 128+sigkill)
	}
}

// signal delivers a signal to the program. f.mu is held.
func (f *Fleet) signal(a *step, name string) error {
	name, sig, ok := lookSignal(name)
	if !ok {
		return fmt.Errorf("sim: unknown signal %q", name)
	}
	f.settle(a)
	if a.phase != engine.PhaseRunning {
		return nil
	}
	now := f.clock.Now()
	switch p := a.program; {
	case name == "KILL":
		f.kill(a)
	case slices.Contains(p.Caught, name):
		a.print(now, engine.Stdout, "caught "+name)
	case name == "TERM" && p.IgnoreTerm:
	case name == "TERM" && p.TrapTerm >= 0:
		if ends := now.Add(p.TrapTerm); a.ends.IsZero() || ends.Before(a.ends) {
			a.ends = ends
		}
		f.settle(a)
	case !sig.harmless:
		f.end(a, now, 128+sig.number)
	}
	return nil
}

// status returns what an engine shows of the step. f.mu is held.
func (f *Fleet) status(a *step) engine.Status {
	s := engine.Status{
		Attempt: a.Attempt, Step: a.n, Instance: a.Instance, Job: a.Job, N: a.N,
		Account: a.Account, SpecDigest: a.SpecDigest, Node: a.Node,
	}
	if f.node(a.Node).lost {
		s.Phase = engine.PhaseUnknown
		return s
	}
	s.Phase, s.Started, s.Finished = a.phase, a.started, a.finished
	s.ExitCode, s.OutOfMemory, s.Failure = a.exit, a.oom, a.failure
	return s
}
