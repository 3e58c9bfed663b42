package conformance

import (
	"bytes"
	"errors"
	"strings"
	"time"

	"croft.dev/croft/internal/engine"
)

func programCases() []testCase {
	return []testCase{
		{name: "the environment reaches the program", run: environment},
		{name: "the user's HOME reaches the program", run: home},
		{name: "the program begins in its working directory", run: workdir},
		{name: "the devices given are the ones seen", run: devices},
		{name: "Exec returns output and exit code", run: execOutput},
		{name: "Exec gives what comes out after the end of what is typed", run: execTyped},
		{name: "Exec sees the attempt's environment", run: execEnvironment},
		{name: "Exec in an unknown attempt is not found", run: execUnknown},
	}
}

func environment(w *world) {
	a := w.allocation(w.Commands.PrintEnv("GREETING"))
	a.Env["GREETING"] = "good morning $HOME = x"
	w.must("Start", w.Engine.Start(w.Context(), a))
	w.awaitExit(a.Attempt.Primary())
	w.wantOutput(a.Attempt.Primary(), "good morning $HOME = x")
}

func home(w *world) {
	a := w.start(w.Commands.PrintEnv("HOME"))
	w.awaitExit(a.Attempt.Primary())
	w.wantOutput(a.Attempt.Primary(), w.User.Home)
}

func workdir(w *world) {
	a := w.start(w.Commands.PrintWorkdir)
	w.awaitExit(a.Attempt.Primary())
	w.wantOutput(a.Attempt.Primary(), w.Workdir)
}

// devices gives away the first half of the node's devices. An engine that offers
// none passes: it has nothing to hand over.
func devices(w *world) {
	inv, err := w.Engine.Inventory(w.Context())
	w.must("Inventory", err)
	a := w.allocation(w.Commands.PrintEnv("CROFT_DEVICES"))
	var names []string
	for _, d := range inv.Devices {
		if d.Node == w.Node && d.Healthy {
			a.Devices = append(a.Devices, d)
			names = append(names, d.Name)
		}
	}
	half := (len(names) + 1) / 2
	a.Devices, names = a.Devices[:half], names[:half]
	a.Env["CROFT_DEVICES"] = strings.Join(names, ",")
	w.must("Start", w.Engine.Start(w.Context(), a))
	w.awaitExit(a.Attempt.Primary())
	w.wantOutput(a.Attempt.Primary(), strings.Join(names, ","))
}

// exec runs a command beside a primary.
func (w *world) exec(id engine.StepID, command []string) (code int, stdout, stderr string) {
	w.Helper()
	var out, err bytes.Buffer
	code, e := call(w, "Exec", func() (int, error) {
		return w.Engine.Exec(w.Context(), id, engine.ExecRequest{Command: command, Stdout: &out, Stderr: &err})
	})
	w.must("Exec", e)
	return code, out.String(), err.String()
}

func execOutput(w *world) {
	a := w.start(w.Commands.Sleep)
	w.awaitPhase(a.Attempt.Primary(), engine.PhaseRunning)
	code, stdout, stderr := w.exec(a.Attempt.Primary(), w.Commands.Print([]Line{
		{Stream: engine.Stdout, Text: "to stdout"},
		{Stream: engine.Stderr, Text: "to stderr"},
	}, 7))
	if code != 7 || stdout != "to stdout\n" || stderr != "to stderr\n" {
		w.Errorf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	if got := w.status(a.Attempt.Primary()); got.Phase != engine.PhaseRunning {
		w.Errorf("the attempt after Exec: %+v", got)
	}
	w.wantOutput(a.Attempt.Primary())
}

// execDrains is croft exec JOB -- sh -c 'cat >file': the input goes on when the output has
// ended, and the command's end isn't missed.
func execDrains(w *world) {
	a := w.start(w.Commands.Sleep)
	w.awaitPhase(a.Attempt.Primary(), engine.PhaseRunning)
	const size = 3<<20 + 7
	var out, err bytes.Buffer
	code, e := call(w, "Exec", func() (int, error) {
		return w.Engine.Exec(w.Context(), a.Attempt.Primary(), engine.ExecRequest{
			Command: w.Commands.Drain(size), Stdin: bytes.NewReader(make([]byte, size)), Stdout: &out, Stderr: &err,
		})
	})
	w.must("Exec", e)
	if code != 0 || out.Len() > 0 || err.Len() > 0 {
		w.Errorf("exit code %d, %q, %q: some of the input was lost", code, out.String(), err.String())
	}
}

// execTyped is ssh -tt JOB cmd </dev/null: what comes out after the end of what is typed isn't
// lost, and a program that reads gets to know of that end.
func execTyped(w *world) {
	a := w.start(w.Commands.Sleep)
	w.awaitPhase(a.Attempt.Primary(), engine.PhaseRunning)
	for in, command := range map[string][]string{
		"":        w.Commands.Print([]Line{{Text: "first", Pause: time.Second}, {Text: "later"}}, 5),
		"later":   w.Commands.Copy,
		"later\n": w.Commands.Copy,
	} {
		var out bytes.Buffer
		code, err := call(w, "Exec", func() (int, error) {
			return w.Engine.Exec(w.Context(), a.Attempt.Primary(), engine.ExecRequest{Command: command, TTY: true, Stdin: strings.NewReader(in), Stdout: &out})
		})
		w.must("Exec", err)
		if want := map[bool]int{true: 5}[in == ""]; code != want || !strings.Contains(out.String(), "later") {
			w.Errorf("typed %q: exit code %d of %d, output %q", in, code, want, out.String())
		}
	}
}

func execEnvironment(w *world) {
	a := w.allocation(w.Commands.Sleep)
	a.Env["GREETING"] = "good evening"
	w.must("Start", w.Engine.Start(w.Context(), a))
	w.awaitPhase(a.Attempt.Primary(), engine.PhaseRunning)
	if code, stdout, _ := w.exec(a.Attempt.Primary(), w.Commands.PrintEnv("GREETING")); code != 0 || stdout != "good evening\n" {
		w.Errorf("exit code %d, stdout %q", code, stdout)
	}
	if code, stdout, _ := w.exec(a.Attempt.Primary(), w.Commands.PrintWorkdir); code != 0 || stdout != w.Workdir+"\n" {
		w.Errorf("exit code %d, working directory %q", code, stdout)
	}
}

func execUnknown(w *world) {
	id := attemptID(w.Instance, w.jobs.Add(1), 1)
	_, err := w.Engine.Exec(w.Context(), id.Primary(), engine.ExecRequest{Command: w.Commands.Sleep})
	var none *engine.NotFoundError
	if !errors.As(err, &none) || none.Attempt != id {
		w.Errorf("error %v, want NotFoundError", err)
	}
}
