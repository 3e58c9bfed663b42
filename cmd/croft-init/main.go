// Croft-init is process 1 of a job's container. It starts the user's command,
// passes signals on to it, reaps orphans, and notes how the command ended.
//
//	croft-init [--note TEXT] [--attach 15s] [--dir DIR] [--report FILE] -- COMMAND [ARG…]
//	                                   process 1 of a step's container: tell the user TEXT,
//	                                   begin once somebody is attached
//	croft-init --exec -- COMMAND […]   become COMMAND, beside a primary
//	croft-init --feed -- COMMAND […]   run COMMAND, beside a primary, that has an input
//	croft-init --shell -- COMMAND […]  likewise, a shell for a person: tell of a full home
//	croft-init --sftp                  serve files on standard input and output
//	croft-init --pause                 process 1 of a sandbox: wait for a signal
//	croft-init --terminals DIR         start the keeper of a step's terminals; see package keep
//	croft-init --keep-terminals DIR    be that
//	croft-init --join-terminals DIR    connect standard input and output with it
//
// and in a Pod of a cluster what pod.go says. There it runs as the job's user, without capabilities, so that nothing here is
// trusted. It does as little as it can before the command starts.
//
// For a program on the machine itself it is also what starts that and watches over
// it, as root; see package shim:
//
//	croft-init --host FILES            start a step's shim
//	croft-init --shim FILES            be that
//	croft-init --enter                 become the step's program
package main

import (
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"

	"croft.dev/croft/internal/engine/cri/shim"
	"croft.dev/croft/internal/engine/keep"
	"croft.dev/croft/internal/engine/record"
	"croft.dev/croft/internal/engine/room"
	"croft.dev/croft/internal/sftp"
)

func main() {
	args := os.Args[1:]
	if len(args) == 0 {
		fail(2, "usage: croft-init [--note|--attach|--exec|--pause] -- COMMAND [ARG…]")
	}
	switch {
	case args[0] == "--pause":
		pause()
	case args[0] == record.Exec && len(args) > 2 && args[1] == "--":
		become(args[2:])
	case args[0] == record.Feed && len(args) > 2 && args[1] == "--":
		os.Exit(feed(args[2:]))
	case args[0] == record.Shell && len(args) > 2 && args[1] == "--":
		tellOfHome()
		become(args[2:])
	case args[0] == record.SFTP && len(args) == 1:
		fitEnvironment()
		end(sftp.Serve(os.Stdin, os.Stdout))
	case args[0] == keep.AsLauncher && len(args) == 2:
		fitEnvironment()
		end(keep.Launch(args[1]))
	case args[0] == keep.AsKeeper && len(args) == 2:
		end(keep.Keep(args[1]))
	case args[0] == keep.AsJoiner && len(args) == 2:
		os.Exit(keep.Join(args[1]))
	case args[0] == shim.AsLauncher && len(args) == 2:
		end(shim.Launch(shim.Files(args[1])))
	case args[0] == shim.AsShim && len(args) == 2:
		end(shim.Supervise(shim.Files(args[1])))
	case args[0] == shim.AsProgram && len(args) == 1:
		shim.Enter()
	case inPod(args):
	default:
		o, argv, ok := parse(args)
		if !ok {
			fail(2, "bad arguments")
		}
		os.Exit(supervise(argv, o))
	}
}

// options say what comes before the command.
type options struct {
	note     string        // for the user, if any
	patience time.Duration // how long to wait for somebody to attach; 0: not at all
	dir      string        // the step's own folder; empty: record.Dir, which has a gate
	report   string        // the file that is told how it ended; empty: the note of the folder
}

// parse takes a command line of process 1 apart; ok is false for one that is none.
func parse(args []string) (o options, argv []string, ok bool) {
	for len(args) > 1 {
		switch value := args[1]; args[0] {
		case "--":
			return o, args[1:], true
		case "--note":
			o.note = value
		case "--dir":
			o.dir = value
		case "--report":
			o.report = value
		case "--attach":
			var err error
			if o.patience, err = time.ParseDuration(value); err != nil {
				return o, nil, false
			}
		default:
			return o, nil, false
		}
		args = args[2:]
	}
	return o, nil, false
}

// end ends with a code that says whether all went well.
func end(err error) {
	if err != nil {
		fail(1, err.Error())
	}
	os.Exit(0)
}

// pause holds a sandbox's namespaces until it is told to go. As process 1 of
// the pod it also has to reap.
func pause() {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGINT, syscall.SIGTERM)
	children := make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)
	for {
		select {
		case <-stop:
			os.Exit(0)
		case <-children:
			reap()
		}
	}
}

func reap() {
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, syscall.WNOHANG, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
	}
}

// become replaces croft-init by the command of an exec.
func become(argv []string) {
	fitEnvironment()
	path, failure := record.LookPath(argv[0], os.Getenv("PATH"))
	if failure != "" {
		fail(failure.Code(), failure.Message(argv[0], inImage))
	}
	err := syscall.Exec(path, argv, os.Environ())
	failure = record.FailureOf(err)
	fail(failure.Code(), failure.Message(argv[0], inImage))
}

// feed runs the command of an exec that has an input, and returns its exit code. It stays and
// has the outputs open until then: containerd ends an input as soon as one of the outputs has
// ended, and after cat >file nobody else would have it.
func feed(argv []string) int {
	fitEnvironment()
	path, failure := record.LookPath(argv[0], os.Getenv("PATH"))
	if failure != "" {
		fail(failure.Code(), failure.Message(argv[0], inImage))
	}
	// What is sent to the command's group is the command's to answer; caught ones are as they
	// were for it.
	signal.Notify(make(chan os.Signal, 1))
	runtime.LockOSThread() // the command ends with the thread that has started it
	pid, err := syscall.ForkExec(path, argv, &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}})
	if err != nil {
		failure = record.FailureOf(err)
		fail(failure.Code(), failure.Message(argv[0], inImage))
	}
	_ = syscall.Close(0) // so that who writes to it learns when the command doesn't read any more
	return exitCode(wait(pid))
}

// exitCode is the one that stands for an end, as shells have it.
func exitCode(ws syscall.WaitStatus) int {
	if ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return ws.ExitStatus()
}

// tellOfHome tells whoever begins a shell that there is no room left in his home, and spares
// the shell what it would keep there.
func tellOfHome() {
	fitEnvironment()
	notice := room.Notice(os.Getenv("HOME"))
	if notice == "" {
		return
	}
	_, _ = os.Stderr.WriteString(notice) // who can't be told has a shell all the same
	for _, kv := range room.Spare() {
		name, value, _ := strings.Cut(kv, "=")
		_ = os.Setenv(name, value) // fails for names that aren't any
	}
}

// inImage is where commands are looked for.
const inImage = "in the image"

func fail(code int, text string) {
	os.Stderr.WriteString("croft: " + text + "\n")
	os.Exit(code)
}
