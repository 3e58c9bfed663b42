package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"croft.dev/croft/internal/engine/keep"
	"croft.dev/croft/internal/engine/record"
)

// What the server can't do from outside of a Pod is asked of croft-init within: it is run
// there beside the step's program, as the same user.
//
//	croft-init --install DIR FILE…     put croft-init, the files, and who the user is, into DIR
//	croft-init --signal STEPDIR NAME   signal the step's program
//	croft-init --kill STEPDIR          kill all that the step runs
//	croft-init --claim-input STEPDIR   be the one who gives the step's input
//	croft-init --leave-input STEPDIR   let another be it

// Files in a step's own folder.
const (
	pidFile   = "pid"   // of the croft-init that watches over the program
	inputFile = "input" // of who gives the input
)

// inPod does what it is told, if that is one of the above.
func inPod(args []string) (done bool) {
	switch {
	case len(args) >= 2 && args[0] == "--install":
		end(install(args[1], args[2:]))
	case len(args) == 3 && args[0] == "--signal":
		end(signalStep(args[1], args[2]))
	case len(args) == 2 && args[0] == "--kill":
		end(killStep(args[1]))
	case len(args) == 2 && args[0] == "--claim-input":
		os.Exit(claimInput(args[1]))
	case len(args) == 2 && args[0] == "--leave-input":
		end(errors.Join(remove(args[1], inputFile), record.LeaveTurn(args[1])))
	}
	return false
}

// install copies this program and others, and writes the files by which programs know users.
func install(dir string, programs []string) error {
	err := copyTo("/proc/self/exe", dir+"/init")
	for _, path := range programs {
		err = errors.Join(err, copyTo(path, dir+"/"+filepath.Base(path)))
	}
	for _, file := range []string{"passwd", "group"} {
		text := os.Getenv("CROFT_" + strings.ToUpper(file))
		err = errors.Join(err, os.WriteFile(dir+"/"+file, []byte(text), 0o644))
	}
	return err
}

// copyTo copies a program.
func copyTo(path, to string) error {
	from, err := os.Open(path)
	if err != nil {
		return err
	}
	defer from.Close()
	f, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	return errors.Join(err, f.Close())
}

// enter makes a step's folder, and notes who watches over its program.
func enter(dir string) error {
	if err := keep.Folder(dir); err != nil {
		return err
	}
	// What loses its parent stays below this process, also where another is process 1.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return err
	}
	return os.WriteFile(dir+"/"+pidFile, []byte(strconv.Itoa(os.Getpid())), 0o600)
}

// watcher is the process that watches over a step's program. Nobody does where the image says
// by itself what runs, or it waits for a signal: then it is the program itself, and alone is true.
func watcher(dir string) (pid int, alone bool, err error) {
	text, err := os.ReadFile(dir + "/" + pidFile)
	if errors.Is(err, fs.ErrNotExist) {
		all, err := beside()
		if err == nil && len(all) == 0 {
			err = errors.New("nothing else runs in the container")
		}
		if err != nil {
			return 0, true, err
		}
		return all[0], true, nil
	}
	if err != nil {
		return 0, false, err
	}
	pid, err = strconv.Atoi(string(text))
	if err != nil || pid < 1 {
		return 0, false, fmt.Errorf("%s: %q is no process", pidFile, text)
	}
	return pid, false, nil
}

// beside are all other processes of the container, the first that began, first. Process 1 may
// be another's: of processes that are seen those of the container are in its control group.
func beside() ([]int, error) {
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	began := make(map[int]uint64)
	var all []int
	for _, e := range entries {
		p, err := strconv.Atoi(e.Name())
		if err != nil || p == os.Getpid() {
			continue
		}
		group, err := os.ReadFile("/proc/" + e.Name() + "/cgroup")
		if s, alive := statOf(p); err == nil && alive && bytes.Equal(group, own) {
			began[p] = s.began
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b int) int { return cmp.Or(cmp.Compare(began[a], began[b]), cmp.Compare(a, b)) })
	return all, nil
}

func signalStep(dir, name string) error {
	sig := unix.SignalNum("SIG" + name)
	if sig == 0 {
		return errors.New("no such signal: " + name)
	}
	if sig == unix.SIGKILL {
		return killStep(dir)
	}
	pid, _, err := watcher(dir)
	if err == nil {
		err = syscall.Kill(pid, sig)
	}
	return err
}

// killTime is how long killStep tries. What was killed is there until it has run once more,
// which takes a while on a busy machine.
const killTime = 8 * time.Second

// killStep kills everything below the one who watches, until there is nothing; where nobody
// does, all of the container. Process 1 can't be killed from within, and is asked to end.
func killStep(dir string) error {
	pid, alone, err := watcher(dir)
	switch {
	case err != nil:
		return err
	case alone && pid == 1:
		return syscall.Kill(pid, syscall.SIGTERM)
	}
	for end := time.Now().Add(killTime); time.Now().Before(end); <-time.After(time.Millisecond) {
		all, err := beside()
		if !alone {
			all, err = below(pid)
		}
		if err != nil || len(all) == 0 {
			return err
		}
		for _, p := range all {
			_ = syscall.Kill(p, syscall.SIGKILL) // it may have ended
		}
	}
	return errors.New("there are processes still: new ones come as fast as they are killed, or the machine doesn't get round to ending them")
}

// below are all processes that descend from one, but for this one.
func below(pid int) ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	children := make(map[int][]int)
	for _, e := range entries {
		p, err := strconv.Atoi(e.Name())
		if err != nil || p == os.Getpid() {
			continue
		}
		if s, alive := statOf(p); alive {
			children[s.parent] = append(children[s.parent], p)
		}
	}
	all := children[pid]
	for i := 0; i < len(all); i++ {
		all = append(all, children[all[i]]...)
	}
	return all, nil
}

// stat is what is known of a process.
type stat struct {
	parent int
	began  uint64 // in ticks
}

// statOf looks at a process; alive is false for one that has ended.
func statOf(pid int) (s stat, alive bool) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return stat{}, false
	}
	// The name, in brackets, may have anything in it.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	const state, parent, began = 0, 1, 19 // proc_pid_stat(5), less pid and name
	if len(fields) <= began || fields[state] == "Z" {
		return stat{}, false
	}
	var perr, berr error
	s.parent, perr = strconv.Atoi(fields[parent])
	s.began, berr = strconv.ParseUint(fields[began], 10, 64)
	return s, perr == nil && berr == nil
}

// What claimInput says.
const (
	claimed     = 0
	taken       = 1
	claimedTurn = 3 // and the program waits for record.Attached
)

func claimInput(dir string) int {
	if err := keep.Folder(dir); err != nil {
		return taken
	}
	f, err := os.OpenFile(dir+"/"+inputFile, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return taken
	}
	f.Close()
	if first, err := record.TakeTurn(dir); err == nil && first {
		return claimedTurn
	}
	return claimed
}

func remove(dir, name string) error {
	if err := os.Remove(dir + "/" + name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
