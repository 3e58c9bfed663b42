package cri

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"

	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/engine/cri/cgroup"
)

// Clear takes away what an engine with this state directory and parent control
// group left on the machine, once its runtime and every container are gone: the
// attempts' mounts and control groups, and the parent unless another has jobs there.
func Clear(stateDir, cgroupParent string) error {
	attempts, err := filepath.Glob(filepath.Join(stateDir, "attempts", "*"))
	if err != nil {
		return fmt.Errorf("cri: %w", err)
	}
	groups, err := cgroup.Detect()
	if err != nil {
		return fmt.Errorf("cri: %w", err)
	}
	var errs []error
	for _, dir := range attempts {
		s := scratch(dir)
		if err := s.unmount(); err != nil {
			errs = append(errs, err)
			continue
		}
		errs = append(errs, os.RemoveAll(dir), groups.Remove(groupOf(cgroupParent, engine.AttemptID(filepath.Base(dir)))))
	}
	return errors.Join(append(errs, groups.RemoveEmpty(path.Join("/", cgroupParent)))...)
}
