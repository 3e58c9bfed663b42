package main

import (
	"cmp"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"croft.dev/croft/internal/engine/record"
)

// supervise starts argv, waits for its end and returns the exit code that
// stands for it. Before that it does what o says.
func supervise(argv []string, o options) int {
	// Signals are caught first of all: one that comes before there is a child is delivered
	// afterwards instead of being lost.
	signals := make(chan os.Signal, 64)
	signal.Notify(signals)
	raiseMemlock()
	if err := enterWorkdir(); err != nil && os.Getenv(record.Workdir) != os.Getenv("HOME") { // a home may not be there
		fail(record.ExitNotExecutable, "the working directory can't be entered: "+err.Error())
	}
	fitEnvironment()

	before := oomKills()
	path, failure := record.LookPath(argv[0], os.Getenv("PATH"))
	if failure != "" {
		return refuse(argv[0], failure, o)
	}
	if err := o.begin(); err != nil {
		fail(record.ExitNotExecutable, "waiting for the start: "+err.Error())
	}
	if o.patience > 0 {
		awaitAttach(o.folder(), o.patience)
	}
	if o.note != "" {
		os.Stderr.WriteString("croft: " + o.note + "\n")
	}
	pid, err := start(path, argv)
	if err != nil {
		return refuse(argv[0], record.FailureOf(err), o)
	}
	go forward(signals, pid)

	ws := wait(pid)
	r := record.Record{Code: ws.ExitStatus(), OOMKills: oomKills() - before}
	if ws.Signaled() {
		r.Signal = int(ws.Signal())
		r.Code = 128 + r.Signal
	}
	o.tell(r)
	return r.Code
}

// folder is the step's own.
func (o options) folder() string { return cmp.Or(o.dir, record.Dir) }

// begin returns when the program may.
func (o options) begin() error {
	if o.dir != "" {
		return enter(o.dir)
	}
	return record.WaitGate(record.Dir)
}

// tell leaves a note of how it ended. It is a help, not a need: with its little file
// system full, the exit code still arrives.
func (o options) tell(r record.Record) {
	if o.report != "" { // a file that is watched: it can't be replaced
		_ = os.WriteFile(o.report, []byte(r.Format()), 0o600)
		return
	}
	_ = record.Write(o.folder(), r)
}

// start starts the command in a session of its own; on a terminal, which belongs to
// croft-init's session, as the group in its foreground. The out-of-memory killer
// weighs processes by memory and a score: croft-init raises its own score while
// it forks, so that the command inherits the higher one and croft-init lives to
// tell. (Lowering it back to where it was needs no privilege.)
func start(path string, argv []string) (int, error) {
	own := oomScore()
	if own >= 0 && own+oomScoreStep <= 1000 {
		if setOOMScore(own+oomScoreStep) == nil {
			defer setOOMScore(own)
		}
	}
	sys := &syscall.SysProcAttr{Setsid: true}
	if _, ok := terminalSize(); ok {
		sys = &syscall.SysProcAttr{Foreground: true, Ctty: 0}
	}
	return syscall.ForkExec(path, argv, &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2}, Sys: sys})
}

const oomScoreStep = 50

// forward passes every signal to the command's process group, so that a shell
// script and the program it waits for both get it.
func forward(signals <-chan os.Signal, pid int) {
	for s := range signals {
		sig, ok := s.(syscall.Signal)
		if !ok {
			continue
		}
		switch sig {
		case syscall.SIGCHLD, syscall.SIGURG, syscall.SIGPIPE:
			// Ours: children are waited for, SIGURG is the Go scheduler's.
			continue
		}
		_ = syscall.Kill(-pid, sig)
	}
}

// wait reaps whatever ends until the command itself has ended. What it leaves
// behind is killed by the kernel when process 1 goes.
func wait(pid int) syscall.WaitStatus {
	for {
		var ws syscall.WaitStatus
		got, err := syscall.Wait4(-1, &ws, 0, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			// Cannot happen while the command is our child; an endless loop would
			// be worse than a wrong code.
			return syscall.WaitStatus(255 << 8)
		case got == pid && (ws.Exited() || ws.Signaled()):
			return ws
		}
	}
}

func refuse(command string, f record.Failure, o options) int {
	c := f.Code()
	os.Stderr.WriteString("croft: " + f.Message(command, inImage) + "\n")
	o.tell(record.Record{Code: c, Failure: f})
	return c
}

// raiseMemlock lifts the soft limit on locked memory to the hard one, which the
// runtime sets to unlimited where it may: RDMA and pinned buffers need it.
func raiseMemlock() {
	const rlimitMemlock = 8
	var lim syscall.Rlimit
	if syscall.Getrlimit(rlimitMemlock, &lim) != nil || lim.Cur == lim.Max {
		return
	}
	lim.Cur = lim.Max
	_ = syscall.Setrlimit(rlimitMemlock, &lim)
}

// enterWorkdir goes where programs begin, if that was left to it.
func enterWorkdir() error {
	if dir := os.Getenv(record.Workdir); dir != "" {
		return os.Chdir(dir)
	}
	return nil
}

// fitEnvironment makes HOME and SHELL something that exists: an image need not
// have /tmp, nor the shell of the machine's user database. What runs beside a step's program
// begins where that does, or where the container does.
func fitEnvironment() {
	_ = enterWorkdir()
	home := os.Getenv("HOME")
	if st, err := os.Stat(home); home == "" || err != nil || !st.IsDir() {
		_ = os.Setenv("HOME", "/")
	}
	if shell := os.Getenv("SHELL"); shell != "" && record.Probe(shell) != record.None {
		_ = os.Setenv("SHELL", "/bin/sh")
	}
}

func oomScore() int {
	text, err := os.ReadFile("/proc/self/oom_score_adj")
	if err != nil {
		return -1
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return -1
	}
	return n
}

func setOOMScore(n int) error {
	return os.WriteFile("/proc/self/oom_score_adj", []byte(strconv.Itoa(n)), 0)
}

// oomKills reads how often the kernel killed in this container's cgroup:
// memory.events in cgroup v2, memory.oom_control in v1.
func oomKills() int64 {
	for _, path := range []string{
		"/sys/fs/cgroup/memory.events",
		"/sys/fs/cgroup/memory/memory.oom_control",
	} {
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			if v, ok := strings.CutPrefix(line, "oom_kill "); ok {
				n, _ := strconv.ParseInt(strings.TrimSpace(v), 10, 64)
				return n
			}
		}
	}
	return 0
}
