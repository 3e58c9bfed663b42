package cri

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"time"

	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/engine/cri/cgroup"
	"croft.dev/croft/internal/engine/cri/shim"
)

// Clear takes away what an engine with this state directory and parent control
// group left on the machine, once its runtime and every container are gone: programs
// on the machine itself, the attempts' mounts and control groups, and the parent unless
// another has jobs there.
func Clear(stateDir, cgroupParent string) error {
	attempts, err := filepath.Glob(filepath.Join(stateDir, "attempts", "*"))
	if err != nil {
		return fmt.Errorf("cri: %w", err)
	}
	groups, err := cgroup.Detect()
	if err != nil {
		return fmt.Errorf("cri: %w", err)
	}
	errs := []error{endHosts(stateDir, cgroupParent, groups)}
	for _, dir := range attempts {
		s := scratch(dir)
		if err := s.unmount(); err != nil {
			errs = append(errs, err)
			continue
		}
		errs = append(errs, os.RemoveAll(dir), groups.Remove(groupOf(cgroupParent, engine.AttemptID(filepath.Base(dir)))))
	}
	errs = append(errs, groups.RemoveEmpty(path.Join("/", cgroupParent, "shims")))
	return errors.Join(append(errs, groups.RemoveEmpty(path.Join("/", cgroupParent)))...)
}

// endHosts kills all host steps and waits for their shims' end.
func endHosts(stateDir, cgroupParent string, groups *cgroup.Tree) error {
	dir := hostDir(stateDir)
	names, err := shim.Steps(dir)
	if err != nil {
		return fmt.Errorf("cri: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	errs := []error{}
	for _, name := range names {
		id, ok := parseStepID(name)
		if !ok {
			continue
		}
		err := endHost(ctx, shim.Files(filepath.Join(dir, name)), groups.Group(hostGroup(cgroupParent, id)))
		errs = append(errs, err)
	}
	return errors.Join(append(errs, os.RemoveAll(dir))...)
}
