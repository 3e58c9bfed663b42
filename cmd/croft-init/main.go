// Croft-init is process 1 of a job's container. It starts the user's command,
// passes signals on to it, reaps orphans, and notes how the command ended.
//
//	croft-init [--note TEXT] [--attach 15s] -- COMMAND [ARG…]
//	                                   process 1 of a step's container: tell the user TEXT,
//	                                   begin once somebody is attached
//	croft-init --exec -- COMMAND […]   become COMMAND, beside a primary
//	croft-init --pause                 process 1 of a sandbox: wait for a signal
//
// It runs as the job's user, without capabilities, inside the container, so
// that nothing here is trusted. It links the standard library only and does as
// little as it can before the command starts.
package main

import (
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	args := os.Args[1:]
	if len(args) == 0 {
		fail(2, "usage: croft-init [--note|--attach|--exec|--pause] -- COMMAND [ARG…]")
	}
	switch {
	case args[0] == "--pause":
		pause()
	case args[0] == "--exec" && len(args) > 2 && args[1] == "--":
		become(args[2:])
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
}

// parse takes a command line of process 1 apart; ok is false for one that is none.
func parse(args []string) (o options, argv []string, ok bool) {
	for len(args) > 1 {
		switch value := args[1]; args[0] {
		case "--":
			return o, args[1:], true
		case "--note":
			o.note = value
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
	path, failure := lookPath(argv[0])
	if failure != "" {
		fail(code(failure), message(argv[0], failure))
	}
	err := syscall.Exec(path, argv, os.Environ())
	failure = failureOf(err)
	fail(code(failure), message(argv[0], failure))
}

func fail(code int, text string) {
	os.Stderr.WriteString("croft: " + text + "\n")
	os.Exit(code)
}
