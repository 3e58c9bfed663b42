// Package devices tells which accelerators a machine has: NVIDIA's, read from
// what nvidia-smi prints and from the CDI files that nvidia-ctk wrote, or
// simulated ones that Croft offers by a CDI file of its own.
//
// A device that must not be given away is reported as unhealthy, with a reason
// for the operator. A process on a device that Croft didn't start is reported;
// it is never touched.
package devices

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/engine/cri/cgroup"
)

// selectDevices returns the devices that subset names by UUID or index; all of
// them if subset is empty. A name that no device has is an error: a typing
// mistake would otherwise quietly offer less.
func selectDevices(all []engine.Device, subset []string) ([]engine.Device, error) {
	if len(subset) == 0 {
		return all, nil
	}
	matched := make(map[string]bool)
	var out []engine.Device
	for _, d := range all {
		for _, name := range subset {
			if strings.EqualFold(name, d.UUID) || name == strconv.Itoa(d.Index) || name == d.Name {
				matched[name] = true
				if !slices.ContainsFunc(out, func(o engine.Device) bool { return o.UUID == d.UUID }) {
					out = append(out, d)
				}
			}
		}
	}
	for _, name := range subset {
		if !matched[name] {
			return nil, fmt.Errorf("devices: no device %q on this machine", name)
		}
	}
	return out, nil
}

// Processes looks processes up. The zero value of a field means the machine's
// own /proc.
type Processes struct {
	CgroupParent string                  // Croft's control group; default "croft"
	UserName     func(uid uint32) string // name of a user; default: the number
	Root         string                  // where proc(5) is mounted; default /proc
}

// foreign describes a process unless Croft started it or it is gone.
func (p Processes) foreign(pid int) (engine.Process, bool) {
	root, parent := p.Root, p.CgroupParent
	if root == "" {
		root = "/proc"
	}
	if parent == "" {
		parent = "croft"
	}
	dir := root + "/" + strconv.Itoa(pid)
	groups, err := os.ReadFile(dir + "/cgroup")
	if os.IsNotExist(err) {
		return engine.Process{}, false // ended meanwhile
	}
	if err != nil {
		// It is there and can't be looked at: not ours.
		return engine.Process{PID: pid, User: "unknown", Command: "unknown"}, true
	}
	if cgroup.Within(string(groups), parent) {
		return engine.Process{}, false
	}
	out := engine.Process{PID: pid, User: "unknown", Command: "unknown"}
	if comm, err := os.ReadFile(dir + "/comm"); err == nil {
		out.Command = strings.TrimSpace(string(comm))
	}
	if st, err := os.Stat(dir); err == nil {
		if sys, ok := st.Sys().(*syscall.Stat_t); ok {
			out.User = strconv.FormatUint(uint64(sys.Uid), 10)
			if p.UserName != nil {
				out.User = p.UserName(sys.Uid)
			}
		}
	}
	return out, true
}
