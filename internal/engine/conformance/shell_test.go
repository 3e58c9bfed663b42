package conformance_test

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/engine/conformance"
)

func TestShellCommandsThatEnd(t *testing.T) {
	c := conformance.ShellCommands()
	tests := map[string]struct {
		argv           []string
		stdout, stderr string
		code           int
	}{
		"exit": {argv: c.Exit(42), code: 42},
		"print": {argv: c.Print([]conformance.Line{
			{Stream: engine.Stdout, Text: "one 1", Pause: 5 * time.Millisecond},
			{Stream: engine.Stderr, Text: "two"},
			{Stream: engine.Stdout, Text: "three"},
		}, 7), stdout: "one 1\nthree\n", stderr: "two\n", code: 7},
		"environment": {argv: c.PrintEnv("GREETING"), stdout: "good morning $HOME\n"},
		"workdir":     {argv: c.PrintWorkdir, stdout: "/\n"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			cmd := exec.CommandContext(t.Context(), test.argv[0], test.argv[1:]...)
			cmd.Dir = "/"
			cmd.Env = append(cmd.Environ(), "GREETING=good morning $HOME")
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			err := cmd.Run()
			if cmd.ProcessState == nil {
				t.Fatal(err)
			}
			if code := cmd.ProcessState.ExitCode(); code != test.code || stdout.String() != test.stdout || stderr.String() != test.stderr {
				t.Errorf("exit code %d, stdout %q, stderr %q", code, &stdout, &stderr)
			}
		})
	}
}

func TestShellCommandUntilTerm(t *testing.T) {
	cmd := startReady(t, conformance.ShellCommands().UntilTerm)
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("after TERM: %v", err)
	}
}

func TestShellCommandIgnoreTerm(t *testing.T) {
	cmd := startReady(t, conformance.ShellCommands().IgnoreTerm)
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(status), "SigIgn:\t")
	mask, _, _ := strings.Cut(after, "\n")
	ignored, err := strconv.ParseUint(mask, 16, 64)
	if err != nil || ignored&(1<<(syscall.SIGTERM-1)) == 0 {
		t.Errorf("ignored signals: %q, error %v; want TERM among them", mask, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("killed, and no error")
	}
}

// startReady starts a command and waits for its line "ready".
func startReady(t *testing.T, argv []string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("first line %q, error %v", line, err)
	}
	return cmd
}
