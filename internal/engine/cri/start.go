package cri

import (
	"context"
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"croft.dev/croft/internal/engine"
)

// Start implements engine.Engine. Each step first looks what is there, so that
// the call may be repeated after a crash between any two of them.
func (e *Engine) Start(ctx context.Context, a engine.Allocation) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	unlock, err := e.locks.lock(ctx, a.Attempt)
	if err != nil {
		return err
	}
	defer unlock()

	have, err := e.find(ctx, a.Attempt)
	if err != nil {
		return err
	}
	if e.stopMarked(a.Attempt.Primary()) {
		return nil // stopped before it began: that is its end
	}
	if a.Host {
		return e.startPrimaryHost(ctx, a, have)
	}
	c, done, err := e.existing(ctx, a, have.step(engine.PrimaryStep))
	if err != nil || done {
		return err
	}
	if err := e.check(a, a.Primary()); err != nil {
		return err
	}
	return e.advance(ctx, a, have, c)
}

// startPrimaryHost starts a primary on the machine itself. The attempt has its sandbox all
// the same: steps may be added that are containers.
func (e *Engine) startPrimaryHost(ctx context.Context, a engine.Allocation, have objects) error {
	if done, err := e.hostExisting(a, engine.PrimaryStep, have); err != nil || done {
		return err
	}
	if err := e.check(a, a.Primary()); err != nil {
		return err
	}
	if have.ready() == "" {
		if err := e.checkPorts(a.Pod); err != nil {
			return err
		}
	}
	mounts := e.likelyMounts(ctx, a)
	defer func() { mounts.close() }()
	note, err := e.settle(ctx, &a, &mounts, have.readySandbox())
	if err != nil {
		return err
	}
	if err := e.prepare(a); err != nil {
		return err
	}
	sandbox, err := e.ensureSandbox(ctx, a, have, e.sandboxConfig(a, note))
	if err != nil {
		return err
	}
	if err := e.closeInbound(ctx, a, sandbox); err != nil {
		return err
	}
	return e.startHost(ctx, a, a.Primary())
}

// StartStep implements engine.Engine.
func (e *Engine) StartStep(ctx context.Context, a engine.Allocation, s engine.Step) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	id := engine.StepID{Attempt: a.Attempt, N: s.N}
	unlock, err := e.locks.lockStep(ctx, id)
	if err != nil {
		return err
	}
	defer unlock()

	have, err := e.find(ctx, a.Attempt)
	switch {
	case err != nil:
		return err
	case have.none():
		return &engine.NotFoundError{Attempt: a.Attempt}
	case s.N <= engine.PrimaryStep:
		return &engine.StartError{Message: fmt.Sprintf("a step can't have the number %d", s.N)}
	case e.stopMarked(id):
		return nil // stopped before it began: that is its end
	}
	if s.Host {
		return e.startStepHost(ctx, a, s, have)
	}
	c, done, err := e.existing(ctx, a, have.step(s.N))
	if err != nil || done {
		return err
	}
	if err := e.mayJoin(a, s, have); err != nil {
		return err
	}
	image, err := e.imageOf(ctx, s.Container)
	if err != nil {
		return err
	}
	mounts, err := e.openMounts(ctx, a, s.Mounts)
	if err != nil {
		return err
	}
	defer mounts.close()
	note, err := e.join(&a, mounts, have.readySandbox())
	if err != nil {
		return err
	}
	s.Mounts = mounts.had(s.Mounts)
	if err := e.prepareStep(a, s); err != nil {
		return err
	}
	if err := e.shareCPU(a); err != nil {
		return err
	}
	if err := e.scratch(a.Attempt).step(s.N).attach(mounts, c != ""); err != nil {
		return err
	}
	if c == "" {
		if c, err = e.createContainer(ctx, a, s, have.ready(), e.sandboxConfig(a, note), image, mounts.notes(a)); err != nil {
			return err
		}
	}
	return e.startContainer(ctx, id, c)
}

// startStepHost starts a further step on the machine itself.
func (e *Engine) startStepHost(ctx context.Context, a engine.Allocation, s engine.Step, have objects) error {
	if done, err := e.hostExisting(a, s.N, have); err != nil || done {
		return err
	}
	if err := e.mayJoin(a, s, have); err != nil {
		return err
	}
	if err := e.shareCPU(a); err != nil {
		return err
	}
	return e.startHost(ctx, a, s)
}

// mayJoin says whether a step may be started beside what is there.
func (e *Engine) mayJoin(a engine.Allocation, s engine.Step, have objects) error {
	switch running, ended := have.primary(a.Attempt); {
	case ended, e.stopMarked(a.Attempt.Primary()):
		return &engine.StartError{Message: "the job has ended"}
	case !running, !s.Host && have.ready() == "":
		return &engine.UnavailableError{Cause: errors.New("the job's primary doesn't run")}
	}
	return e.check(a, s)
}

// primary reports whether the primary is known to run, or to have ended.
func (o objects) primary(id engine.AttemptID) (running, ended bool) {
	if h, ok := o.hosts[id.Primary()]; ok {
		return h.Exit == nil && h.Alive && !h.Begun.IsZero(), h.Exit != nil
	}
	switch c := o.step(engine.PrimaryStep); {
	case c == nil:
		return false, false
	default:
		state := c.GetState()
		return state == runtimeapi.ContainerState_CONTAINER_RUNNING, state == runtimeapi.ContainerState_CONTAINER_EXITED
	}
}

// existing looks at a step's container, if there is one. It returns the id of one that is
// still to be started, or that there is nothing left to do.
func (e *Engine) existing(ctx context.Context, a engine.Allocation, c *runtimeapi.Container) (id string, done bool, err error) {
	if c == nil {
		return "", false, nil
	}
	if was := c.GetLabels()[labelSpecDigest]; was != a.SpecDigest {
		return "", false, &engine.StartError{Message: "a container of an earlier life of this server has this attempt's name"}
	}
	switch c.GetState() {
	case runtimeapi.ContainerState_CONTAINER_RUNNING:
		e.begun(engine.StepID{Attempt: a.Attempt, N: stepOf(c.GetLabels())})
		return "", true, nil
	case runtimeapi.ContainerState_CONTAINER_CREATED:
		return c.GetId(), false, nil
	}
	cut, err := e.discardCut(ctx, c.GetId())
	if err == nil && !cut && c.GetState() == runtimeapi.ContainerState_CONTAINER_UNKNOWN {
		err = &engine.UnavailableError{Cause: errors.New("the container's state is unknown")}
	}
	return "", !cut, err
}

// advance goes on from what is there: at most a ready sandbox and a container
// that was created and not started.
func (e *Engine) advance(ctx context.Context, a engine.Allocation, have objects, created string) error {
	primary := a.Primary()
	image, err := e.imageOf(ctx, primary.Container)
	if err != nil {
		return err
	}
	if have.ready() == "" {
		if err := e.checkPorts(a.Pod); err != nil {
			return err
		}
	}
	mounts, err := e.openMounts(ctx, a, primary.Mounts)
	if err != nil {
		return err
	}
	defer func() { mounts.close() }()
	note, err := e.settle(ctx, &a, &mounts, have.readySandbox())
	if err != nil {
		return err
	}
	a.Mounts = mounts.had(primary.Mounts)
	primary = a.Primary()
	if err := e.prepare(a); err != nil {
		return err
	}
	sandboxConfig := e.sandboxConfig(a, note)
	sandbox, err := e.ensureSandbox(ctx, a, have, sandboxConfig)
	if err != nil {
		return err
	}
	if err := e.closeInbound(ctx, a, sandbox); err != nil {
		return err
	}
	made := created != "" && have.step(engine.PrimaryStep).GetPodSandboxId() == sandbox
	if err := e.scratch(a.Attempt).attach(mounts, made); err != nil {
		return err
	}
	if !made {
		created, err = e.createContainer(ctx, a, primary, sandbox, sandboxConfig, image, mounts.notes(a))
		if err != nil {
			return err
		}
	}
	return e.startContainer(ctx, a.Attempt.Primary(), created)
}

// ensureSandbox returns a ready sandbox: the one that is there, or a new one. A
// dead one in which nothing has run (the machine was restarted) is replaced.
func (e *Engine) ensureSandbox(ctx context.Context, a engine.Allocation, have objects, cfg *runtimeapi.PodSandboxConfig) (string, error) {
	if id := have.ready(); id != "" {
		return id, nil
	}
	for _, s := range have.sandboxes {
		if err := e.removeSandbox(ctx, s.GetId()); err != nil {
			return "", err
		}
	}
	r, err := call(ctx, e.cfg.StartTimeout, func(ctx context.Context) (*runtimeapi.RunPodSandboxResponse, error) {
		return e.rt.runtime.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{Config: cfg})
	})
	if err == nil {
		return r.GetPodSandboxId(), nil
	}
	if ctx.Err() != nil || engine.IsUnavailable(err) {
		return "", err
	}
	if refusesIDMap(err) { // known from now on, so that the next try does without
		e.noIDMap.Store(true)
		return "", &engine.UnavailableError{Cause: err}
	}
	// The name may be reserved: by a sandbox that another call made, or by one
	// whose making was cut short and is being cleaned up, to be tried again.
	again, ferr := e.rt.sandboxes(ctx, e.mine(a.Attempt))
	if ferr != nil {
		return "", ferr
	}
	if id := (objects{sandboxes: again}).ready(); id != "" {
		return id, nil
	}
	if strings.Contains(err.Error(), "is reserved for") {
		return "", &engine.UnavailableError{Cause: err}
	}
	return "", fmt.Errorf("cri: sandbox of %s: %w", a.Attempt, err)
}

func (e *Engine) createContainer(ctx context.Context, a engine.Allocation, s engine.Step, sandbox string, cfg *runtimeapi.PodSandboxConfig, img imageConfig, notes []string) (string, error) {
	if note := cfg.GetAnnotations()[annotationNote]; note != "" && (s.N == engine.PrimaryStep || a.Host) { // once, unless it has nobody else to tell it
		notes = append([]string{note}, notes...)
	}
	config, err := e.containerConfig(a, s, img, notes)
	if err != nil {
		return "", err
	}
	r, err := call(ctx, e.cfg.StartTimeout, func(ctx context.Context) (*runtimeapi.CreateContainerResponse, error) {
		return e.rt.runtime.CreateContainer(ctx, &runtimeapi.CreateContainerRequest{
			PodSandboxId: sandbox, Config: config, SandboxConfig: cfg})
	})
	if err == nil {
		return r.GetContainerId(), nil
	}
	if ctx.Err() != nil || engine.IsUnavailable(err) {
		return "", err
	}
	if msg, ok := startMessage(err.Error()); ok {
		e.log.Warn("container not created", "attempt", a.Attempt, "step", s.N, "error", err)
		return "", &engine.StartError{Message: msg}
	}
	return "", fmt.Errorf("cri: container of %s.%d: %w", a.Attempt, s.N, err)
}

func (e *Engine) startContainer(ctx context.Context, step engine.StepID, id string) error {
	_, err := call(ctx, e.cfg.StartTimeout, func(ctx context.Context) (*runtimeapi.StartContainerResponse, error) {
		return e.rt.runtime.StartContainer(ctx, &runtimeapi.StartContainerRequest{ContainerId: id})
	})
	if err == nil {
		e.begun(step)
		return nil
	}
	if ctx.Err() != nil || engine.IsUnavailable(err) {
		return err
	}
	if strings.Contains(err.Error(), "failed to set starting state") {
		// the call of an earlier life of this server goes on
		return &engine.UnavailableError{Cause: err}
	}
	// The runtime has given the container up: it is listed as exited now, and
	// starting it again is impossible.
	e.log.Warn("container not started", "step", step.String(), "error", err)
	return &engine.StartError{Message: failureMessage(err.Error())}
}

// startPatterns turn a runtime's error into something that helps the user and
// tells nothing about the machine.
var startPatterns = []struct {
	match *regexp.Regexp
	text  string
}{
	{regexp.MustCompile(`unresolvable CDI devices? (\S+)`), "the device $1 is gone: no CDI file lists it"},
	{regexp.MustCompile(`chdir to cwd \("([^"]*)"\) set in config\.json failed: ([a-z ]+)`), "the working directory $1 can't be entered: $2"},
	{regexp.MustCompile(`failed to set MOUNT_ATTR_IDMAP on ([^:]+):`), "no fake root: $1, which a device needs, is on a file system without idmapped mounts"},
	{regexp.MustCompile(`no space left on device`), "the machine's disk is full"},
	{regexp.MustCompile(`(?:mounting|mount) .*: not a directory`), "a mount's target is a file in the image and its source a directory, or the other way round"},
	{regexp.MustCompile(`failed to generate container .*: mkdir .*: read-only file system`), "a mount's target can't be made in the image"},
}

// startMessage returns a safe description of a runtime's error if it is one of
// those that trying again doesn't help.
func startMessage(text string) (string, bool) {
	for _, p := range startPatterns {
		if m := p.match.FindStringSubmatchIndex(text); m != nil {
			return string(p.match.ExpandString(nil, p.text, text, m)), true
		}
	}
	return "", false
}

func failureMessage(text string) string {
	if msg, ok := startMessage(text); ok {
		return msg
	}
	return "the container runtime could not start the container"
}

var attemptName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,100}$`)

// check refuses what can never start.
func (e *Engine) check(a engine.Allocation, s engine.Step) error {
	refuse := func(format string, args ...any) error {
		return &engine.StartError{Message: fmt.Sprintf(format, args...)}
	}
	switch {
	case !attemptName.MatchString(string(a.Attempt)):
		return refuse("attempt id %q is not of the form a-1-1", a.Attempt)
	case s.CPU <= 0 || s.Memory <= 0:
		return refuse("CPU and memory must be above zero")
	case a.User.UID < 0 || a.User.GID < 0:
		return refuse("the user's uid and gid must not be negative")
	case a.Pod.Closed && a.Pod.HostNetwork:
		return refuse("in the machine's network nobody can be kept out: applications need a network of their own")
	case s.Host:
		return e.checkHost(a, s)
	}
	for _, m := range s.Mounts {
		if err := checkTarget(m.Target); err != nil {
			return err
		}
	}
	return nil
}

// checkTarget refuses mounts over what the engine and the kernel provide.
func checkTarget(target string) error {
	clean := path.Clean(target)
	if !path.IsAbs(target) || clean == "/" {
		return &engine.StartError{Message: fmt.Sprintf("mount target %q must be an absolute path below /", target)}
	}
	for _, own := range []string{"/.croft", "/proc", "/sys", "/dev"} {
		if clean == own || strings.HasPrefix(clean, own+"/") {
			return &engine.StartError{Message: fmt.Sprintf("mount target %s is not allowed: %s belongs to the system", target, own)}
		}
	}
	return nil
}
