package conformance

import (
	"fmt"
	"strings"

	"croft.dev/croft/internal/engine"
)

// ShellCommands returns commands for an image that has a POSIX shell as "sh" and
// the usual small programs. The memory hog is the shell itself, so that no other
// program has to be in the image for it.
func ShellCommands() Commands {
	return Commands{
		Exit:         func(code int) []string { return shell(fmt.Sprintf("exit %d", code)) },
		Print:        shellPrint,
		UntilTerm:    shell(`trap 'kill $!; exit 0' TERM; sleep 3600 & echo ready; wait`),
		IgnoreTerm:   shell(`trap "" TERM; echo ready; while :; do sleep 1; done`),
		Sleep:        []string{"sleep", "3600"},
		PrintEnv:     func(name string) []string { return shell(`echo "$` + name + `"`) },
		PrintWorkdir: []string{"pwd"},
		Copy:         []string{"cat"},
		Drain: func(n int) []string {
			return shell(fmt.Sprintf("exec >/tmp/drained-$$; cat; test $(wc -c </tmp/drained-$$) -eq %d", n))
		},
		Sizes: shell(`last=; while :; do now=$(stty size); [ "$now" = "$last" ] || echo "$now"; last=$now; sleep 0.05; done`),
		Busy:  shell(`echo ready; while :; do :; done`),
		Listen: func(port uint16) []string {
			return shell(fmt.Sprintf("mkdir -p /tmp/w && echo hello >/tmp/w/index.html && exec httpd -f -p 127.0.0.1:%d -h /tmp/w", port))
		},
		NotFound:  []string{"/no/such/program"},
		MemoryHog: shell(`x=0123456789abcdef; while :; do x=$x$x; done`),
	}
}

func shell(script string) []string { return []string{"sh", "-c", script} }

func shellPrint(lines []Line, code int) []string {
	var b strings.Builder
	for _, l := range lines {
		fmt.Fprintf(&b, "echo '%s'", l.Text)
		if l.Stream == engine.Stderr {
			b.WriteString(" >&2")
		}
		b.WriteString("; ")
		if l.Pause > 0 {
			fmt.Fprintf(&b, "sleep %d.%03d; ", l.Pause.Milliseconds()/1000, l.Pause.Milliseconds()%1000)
		}
	}
	fmt.Fprintf(&b, "exit %d", code)
	return shell(b.String())
}
