package cri

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
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
	if e.stopMarked(a.Attempt) {
		return nil // stopped before it began: that is its end
	}
	if c := have.primary(); c != nil {
		if was := c.GetLabels()[labelSpecDigest]; was != a.SpecDigest {
			return &engine.StartError{Message: "a container of an earlier life of this server has this attempt's name"}
		}
		if c.GetState() == runtimeapi.ContainerState_CONTAINER_RUNNING {
			e.openGate(a.Attempt)
			return nil
		}
		if c.GetState() != runtimeapi.ContainerState_CONTAINER_CREATED {
			cut, err := e.discardCut(ctx, c.GetId())
			switch {
			case err != nil:
				return err
			case !cut && c.GetState() == runtimeapi.ContainerState_CONTAINER_UNKNOWN:
				return &engine.UnavailableError{Cause: errors.New("the container's state is unknown")}
			case !cut:
				return nil
			}
			have.containers = nil
		}
	}
	if err := e.check(a); err != nil {
		return err
	}
	return e.advance(ctx, a, have)
}

// advance goes on from what is there: at most a ready sandbox and a container
// that was created and not started.
func (e *Engine) advance(ctx context.Context, a engine.Allocation, have objects) error {
	image, err := e.imageOf(ctx, a)
	if err != nil {
		return err
	}
	if err := e.prepare(a); err != nil {
		return err
	}
	sandboxConfig := e.sandboxConfig(a)
	sandbox, err := e.ensureSandbox(ctx, a, have, sandboxConfig)
	if err != nil {
		return err
	}
	container := ""
	if c := have.primary(); c != nil && c.GetPodSandboxId() == sandbox {
		container = c.GetId()
	} else {
		container, err = e.createContainer(ctx, a, sandbox, sandboxConfig, image)
		if err != nil {
			return err
		}
	}
	return e.startContainer(ctx, a, container)
}

// ensureSandbox returns a ready sandbox: the one that is there, or a new one. A
// dead one in which nothing has run (the machine was restarted) is replaced.
func (e *Engine) ensureSandbox(ctx context.Context, a engine.Allocation, have objects, cfg *runtimeapi.PodSandboxConfig) (string, error) {
	for _, s := range have.sandboxes {
		if s.GetState() == runtimeapi.PodSandboxState_SANDBOX_READY {
			return s.GetId(), nil
		}
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
	// The name may be reserved: by a sandbox that another call made, or by one
	// whose making was cut short and is being cleaned up, to be tried again.
	again, ferr := e.rt.sandboxes(ctx, e.mine(a.Attempt))
	if ferr != nil {
		return "", ferr
	}
	for _, s := range again {
		if s.GetState() == runtimeapi.PodSandboxState_SANDBOX_READY {
			return s.GetId(), nil
		}
	}
	if strings.Contains(err.Error(), "is reserved for") {
		return "", &engine.UnavailableError{Cause: err}
	}
	return "", fmt.Errorf("cri: sandbox of %s: %w", a.Attempt, err)
}

func (e *Engine) createContainer(ctx context.Context, a engine.Allocation, sandbox string, cfg *runtimeapi.PodSandboxConfig, img imageConfig) (string, error) {
	config, err := e.containerConfig(a, img)
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
		e.log.Warn("container not created", "attempt", a.Attempt, "error", err)
		return "", &engine.StartError{Message: msg}
	}
	return "", fmt.Errorf("cri: container of %s: %w", a.Attempt, err)
}

func (e *Engine) startContainer(ctx context.Context, a engine.Allocation, id string) error {
	_, err := call(ctx, e.cfg.StartTimeout, func(ctx context.Context) (*runtimeapi.StartContainerResponse, error) {
		return e.rt.runtime.StartContainer(ctx, &runtimeapi.StartContainerRequest{ContainerId: id})
	})
	if err == nil {
		e.openGate(a.Attempt)
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
	e.log.Warn("container not started", "attempt", a.Attempt, "error", err)
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
func (e *Engine) check(a engine.Allocation) error {
	refuse := func(format string, args ...any) error {
		return &engine.StartError{Message: fmt.Sprintf(format, args...)}
	}
	switch {
	case !attemptName.MatchString(string(a.Attempt)):
		return refuse("attempt id %q is not of the form a-1-1", a.Attempt)
	case a.CPU <= 0 || a.Memory <= 0:
		return refuse("CPU and memory must be above zero")
	case a.User.UID < 0 || a.User.GID < 0:
		return refuse("the user's uid and gid must not be negative")
	}
	for _, m := range a.Mounts {
		if err := checkTarget(m.Target); err != nil {
			return err
		}
		if _, err := os.Stat(m.Source); errors.Is(err, fs.ErrNotExist) {
			return refuse("mount source %s doesn't exist on %s", m.Source, e.cfg.NodeName)
		} else if err != nil {
			return refuse("mount source %s can't be read on %s", m.Source, e.cfg.NodeName)
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
