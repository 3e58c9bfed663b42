package cri

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/engine/cri/cgroup"
	"croft.dev/croft/internal/engine/cri/devices"
	"croft.dev/croft/internal/engine/cri/shim"
	"croft.dev/croft/internal/engine/record"
)

// A host step is a program on the machine itself. Its processes are in a control group of
// their own below the attempt's, and a shim watches over it, see package shim. What is known
// of it is in files that the shim and this engine both write, in a directory of root's: they
// are to host steps what the runtime is to containers.

// hostStep is what is known of one.
type hostStep struct {
	labels map[string]string
	shim.State
}

func hostDir(stateDir string) string { return filepath.Join(stateDir, "hosts") }

func (e *Engine) hostDir() string { return hostDir(e.cfg.StateDir) }

func (e *Engine) hostFiles(id engine.StepID) shim.Files {
	return shim.Files(filepath.Join(e.hostDir(), id.String()))
}

// hostGroup is the control group of a host step's program.
func (e *Engine) hostGroup(id engine.StepID) string { return hostGroup(e.cfg.CgroupParent, id) }

func hostGroup(parent string, id engine.StepID) string {
	return path.Join(groupOf(parent, id.Attempt), "step-"+strconv.Itoa(id.N))
}

// shimGroup is where shims are: apart from the jobs, whose limits must not end them.
func (e *Engine) shimGroup() string { return path.Join("/", e.cfg.CgroupParent, "shims") }

// parseStepID reads what StepID.String writes.
func parseStepID(s string) (engine.StepID, bool) {
	attempt, number, ok := strings.Cut(s, ".")
	n, err := strconv.Atoi(number)
	return engine.StepID{Attempt: engine.AttemptID(attempt), N: n}, ok && err == nil && n >= engine.PrimaryStep
}

// hostSteps returns the host steps of an attempt, or of all of this instance.
func (e *Engine) hostSteps(of engine.AttemptID) (map[engine.StepID]hostStep, error) {
	names, err := shim.Steps(e.hostDir())
	if err != nil {
		return nil, fmt.Errorf("cri: %w", err)
	}
	out := make(map[engine.StepID]hostStep)
	for _, name := range names {
		id, ok := parseStepID(name)
		if !ok || !e.owns(id.Attempt) || of != "" && id.Attempt != of {
			continue
		}
		h, err := e.hostStep(id)
		if errors.Is(err, os.ErrNotExist) {
			continue // removed meanwhile
		}
		if err != nil {
			return nil, fmt.Errorf("cri: step %s: %w", id, err)
		}
		if h.labels[labelInstance] == e.cfg.Instance {
			out[id] = h
		}
	}
	return out, nil
}

func (e *Engine) hostStep(id engine.StepID) (h hostStep, err error) {
	f := e.hostFiles(id)
	if err := f.Ordered(); err != nil {
		return h, err // removed, whatever is still known of it
	}
	e.mu.Lock()
	h.labels = e.hostLabels[id]
	e.mu.Unlock()
	if h.labels == nil { // they never change, and the file may be large
		spec, err := f.ReadSpec()
		if err != nil {
			return h, err
		}
		h.labels = spec.Labels
		e.mu.Lock()
		e.hostLabels[id] = h.labels
		e.mu.Unlock()
	}
	h.State, err = f.Look()
	return h, err
}

// hostStatus describes a host step.
func (e *Engine) hostStatus(id engine.StepID, h hostStep) (engine.Status, error) {
	st := e.fromLabels(h.labels)
	if h.Exit == nil && !h.Begun.IsZero() && !h.Alive {
		left, err := e.cg.Group(e.hostGroup(id)).Processes()
		if err != nil {
			return st, fmt.Errorf("cri: step %s: %w", id, err)
		}
		if len(left) == 0 { // the machine was restarted, or somebody killed the shim
			x, err := e.hostFiles(id).Settle(shim.Exit{Lost: true, Started: h.Begun, Finished: time.Now()})
			if err != nil {
				return st, fmt.Errorf("cri: step %s: %w", id, err)
			}
			h.Exit = &x
		}
	}
	switch x := h.Exit; {
	case x != nil:
		st.Phase, st.Started, st.Finished, st.ExitCode, st.Failure, st.Lost = engine.PhaseExited, x.Started, x.Finished, x.Code, x.Failure, x.Lost
		st.OutOfMemory = x.Code == exitKilled && x.OOMKills > 0
	case h.Begun.IsZero():
		st.Phase = engine.PhaseCreated
	default:
		st.Phase, st.Started = engine.PhaseRunning, h.Begun
	}
	return st, nil
}

// hostExisting looks at what there is of a host step, and reports whether there is nothing
// left to do.
func (e *Engine) hostExisting(a engine.Allocation, n int, have objects) (done bool, err error) {
	h, ok := have.hosts[engine.StepID{Attempt: a.Attempt, N: n}]
	switch {
	case !ok:
		return false, nil
	case h.labels[labelSpecDigest] != a.SpecDigest:
		return false, &engine.StartError{Message: "a program of an earlier life of this server has this attempt's name"}
	case h.Exit != nil, !h.Begun.IsZero():
		return true, nil
	case h.Alive:
		return false, &engine.UnavailableError{Cause: errors.New("the program is being started")}
	}
	return false, nil
}

// checkHost refuses what can never start on the machine.
func (e *Engine) checkHost(a engine.Allocation, s engine.Step) error {
	refuse := func(format string, args ...any) error {
		return &engine.StartError{Message: fmt.Sprintf(format, args...)}
	}
	switch {
	case !e.facts.JobCgroups:
		return refuse("programs on the machine itself need control groups of Croft's own, which it hasn't where the runtime leaves them to systemd")
	case len(s.Command) == 0 || s.Command[0] == "":
		return refuse("a program on the machine needs a command")
	case s.Stdin || s.TTY:
		return refuse("a program on the machine has neither an input nor a terminal")
	case a.User.UID == 0 || a.User.GID == 0:
		// its control group, the device filter and this state are root's files
		return refuse("a program on the machine itself can't run as root")
	case s.Workdir != "" && !path.IsAbs(s.Workdir):
		return refuse("the working directory %q must be an absolute path", s.Workdir)
	}
	return nil
}

// startHost starts a host step that has not begun.
func (e *Engine) startHost(ctx context.Context, a engine.Allocation, s engine.Step) error {
	id := engine.StepID{Attempt: a.Attempt, N: s.N}
	spec, err := e.prepareHost(a, s)
	if err != nil {
		return err
	}
	f := e.hostFiles(id)
	if err := f.Order(spec); err != nil {
		return fmt.Errorf("cri: step %s: %w", id, err)
	}
	ctx, cancel := context.WithTimeout(ctx, e.cfg.StartTimeout)
	defer cancel()
	err = shim.Start(ctx, e.cfg.InitPath, f)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.DeadlineExceeded):
		return &engine.UnavailableError{Cause: fmt.Errorf("starting %s: %w", id, err)}
	}
	return fmt.Errorf("cri: step %s: %w", id, err)
}

// prepareHost makes the control groups of a host step and returns the order for its shim.
func (e *Engine) prepareHost(a engine.Allocation, s engine.Step) (shim.Spec, error) {
	id := engine.StepID{Attempt: a.Attempt, N: s.N}
	nodes, err := e.deviceNodes(s.Devices)
	if err != nil {
		return shim.Spec{}, err
	}
	for _, dir := range []struct {
		path string
		mode os.FileMode
	}{{e.hostDir(), 0o700}, {string(e.scratch(a.Attempt).step(s.N)), 0o711}} {
		if err := os.MkdirAll(dir.path, dir.mode); err != nil {
			return shim.Spec{}, fmt.Errorf("cri: %w", err)
		}
	}
	group := e.hostGroup(id)
	err = errors.Join(
		e.cg.CreateLeaf(e.shimGroup(), cgroup.Limits{}),
		e.cg.CreateLeaf(group, cgroup.Limits{CPU: s.CPU, Memory: s.Memory, Pids: e.cfg.PidsMax}),
	)
	if err != nil {
		return shim.Spec{}, fmt.Errorf("cri: %w", err)
	}
	if err := e.cg.OnlyDevices(group, nodes); err != nil {
		return shim.Spec{}, fmt.Errorf("cri: %w", err)
	}
	return shim.Spec{
		Labels:  e.labelsOfStep(a, s),
		Shims:   e.cg.Group(e.shimGroup()),
		Program: hostProgram(a.User, s, e.cg.Group(group)),
		Log:     shim.Log{Path: e.logPath(id), Max: e.cfg.Logs.MaxSize, Keep: e.cfg.Logs.Keep},
	}, nil
}

// hostProgram is a command as its user would run it.
func hostProgram(u engine.User, s engine.Step, group cgroup.Group) shim.Program {
	env := map[string]string{
		"USER": u.Name, "LOGNAME": u.Name, "HOME": u.Home, "SHELL": shellOf(u), "PATH": record.DefaultPath,
	}
	for k, v := range s.Env {
		env[k] = v
	}
	p := shim.Program{
		Argv: slices.Concat(s.Command, s.Args), Dir: s.Workdir, Home: u.Home,
		UID: int(u.UID), GID: int(u.GID), Group: group, OOMScore: oomScore,
	}
	for k, v := range env {
		p.Env = append(p.Env, k+"="+v)
	}
	slices.Sort(p.Env)
	for _, g := range u.Groups {
		p.Groups = append(p.Groups, int(g.GID))
	}
	return p
}

// deviceNodes are those that a program may open which is given these devices: theirs, and
// those of the machine that the site lets everybody have.
func (e *Engine) deviceNodes(given []engine.Device) ([]cgroup.Device, error) {
	var out []cgroup.Device
	if len(given) > 0 {
		if e.cfg.Devices == nil {
			return nil, &engine.StartError{Message: "this machine has no devices"}
		}
		var err error
		if out, err = e.cfg.Devices.Nodes(given); err != nil {
			return nil, err
		}
	}
	for _, pattern := range e.cfg.HostDevices {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			return nil, fmt.Errorf("cri: %s: %w", pattern, err)
		}
		for _, p := range paths {
			if node, err := devices.Node(p); err == nil { // a folder between them, or one that has just gone
				out = append(out, node)
			}
		}
	}
	return out, nil
}

// signalHost sends a signal to a host step.
func (e *Engine) signalHost(ctx context.Context, id engine.StepID, sig unix.Signal) error {
	if sig == unix.SIGKILL {
		return e.stopHost(ctx, id)
	}
	if err := e.hostFiles(id).Signal(sig); err != nil {
		return fmt.Errorf("cri: signal %s: %w", id, err)
	}
	return nil
}

// stopHost kills what is left of a host step.
func (e *Engine) stopHost(ctx context.Context, id engine.StepID) error {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.StartTimeout)
	defer cancel()
	if err := endHost(ctx, e.hostFiles(id), e.cg.Group(e.hostGroup(id))); err != nil {
		return &engine.UnavailableError{Cause: fmt.Errorf("stopping %s: %w", id, err)}
	}
	return nil
}

// endHost kills what is in a host step's group until its end is noted. Whatever its shim is
// just doing, what that has started is killed in the next round at the latest.
func endHost(ctx context.Context, f shim.Files, group cgroup.Group) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		state, err := f.Look()
		if err != nil {
			return err
		}
		if err := group.KillAll(ctx, nil); err != nil {
			return err
		}
		switch {
		case state.Exit != nil, !state.Alive && !state.Begun.IsZero(): // of the latter nobody can say how it ended
			return nil
		case !state.Alive:
			_, err := f.Settle(shim.Exit{Code: exitKilled, Finished: time.Now()})
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("its end isn't noted: %w", ctx.Err())
		case <-tick.C:
		}
	}
}

// attachHost passes on what a host step writes from now on, until it has ended.
func (e *Engine) attachHost(ctx context.Context, id engine.StepID, h hostStep, req engine.AttachRequest) error {
	switch {
	case h.Exit != nil || h.Begun.IsZero():
		return &engine.NotFoundError{Attempt: id.Attempt}
	case req.Stdin != nil:
		return &engine.AttachError{Message: engine.NoInput}
	}
	return e.Logs(ctx, id, engine.LogOptions{Follow: true}, attachedLog(req))
}

// attachedLog is the writers of an attach as a log's.
type attachedLog engine.AttachRequest

// Flush implements engine.LogWriter: nothing is kept back.
func (attachedLog) Flush() error { return nil }

// WriteLog implements engine.LogWriter.
func (l attachedLog) WriteLog(_ time.Time, stream engine.Stream, data []byte) error {
	w := l.Stdout
	if stream == engine.Stderr {
		w = l.Stderr
	}
	_, err := or(w).Write(data)
	return err
}

// hostBusy reports whether something of a host step is still there.
func (e *Engine) hostBusy(id engine.StepID, h hostStep) (bool, error) {
	left, err := e.cg.Group(e.hostGroup(id)).Processes()
	return h.Exit == nil && h.Alive || len(left) > 0, err
}

// forgetHosts deletes what is noted of an attempt's host steps.
func (e *Engine) forgetHosts(attempt engine.AttemptID) error {
	names, err := shim.Steps(e.hostDir())
	if err != nil {
		return fmt.Errorf("cri: %w", err)
	}
	for _, name := range names {
		id, ok := parseStepID(name)
		if !ok || id.Attempt != attempt {
			continue
		}
		if err := e.hostFiles(id).Remove(); err != nil {
			return fmt.Errorf("cri: %w", err)
		}
		e.mu.Lock()
		delete(e.hostLabels, id)
		e.mu.Unlock()
	}
	return nil
}
