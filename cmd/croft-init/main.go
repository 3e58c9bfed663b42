// Croft-init is process 1 of a job's container. It starts the user's command,
// passes signals on to it, reaps orphans, and notes how the command ended.
//
//	croft-init -- COMMAND [ARG…]       process 1 of the primary container
//	croft-init --attach 15s -- COMMAND […]   likewise, once somebody is attached
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
		fail(2, "usage: croft-init [--attach|--exec|--pause] -- COMMAND [ARG…]")
	}
	switch {
	case args[0] == "--pause":
		pause()
	case args[0] == "--exec" && len(args) > 2 && args[1] == "--":
		become(args[2:])
	case args[0] == "--" && len(args) > 1:
		os.Exit(supervise(args[1:], 0))
	case args[0] == "--attach" && len(args) > 3 && args[2] == "--":
		patience, err := time.ParseDuration(args[1])
		if err != nil {
			fail(2, "bad arguments")
		}
		os.Exit(supervise(args[3:], patience))
	default:
		fail(2, "bad arguments")
	}
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
