package devices

import (
	"fmt"

	"golang.org/x/sys/unix"
	"tags.cncf.io/container-device-interface/pkg/cdi"
	specs "tags.cncf.io/container-device-interface/specs-go"

	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/engine/cri/cgroup"
)

// nodesOf returns the device nodes that CDI files give to whoever is given these devices:
// each one's own, and those that all of its kind share. A device that no file lists is an
// *engine.StartError.
func nodesOf(dirs []string, list []engine.Device) ([]cgroup.Device, error) {
	cache, err := cdi.NewCache(cdi.WithSpecDirs(dirs...), cdi.WithAutoRefresh(false))
	if err != nil {
		return nil, fmt.Errorf("devices: %w", err)
	}
	var out []cgroup.Device
	for _, d := range list {
		listed := cache.GetDevice(d.CDI)
		if listed == nil {
			return nil, &engine.StartError{Message: "the device " + d.CDI + " is gone: no CDI file lists it"}
		}
		for _, edits := range []specs.ContainerEdits{listed.ContainerEdits, listed.GetSpec().ContainerEdits} {
			for _, n := range edits.DeviceNodes {
				node, err := numbers(n)
				if err != nil {
					return nil, fmt.Errorf("devices: %s: %w", d.CDI, err)
				}
				out = append(out, node)
			}
		}
	}
	return out, nil
}

// numbers are a device node's as its CDI file says, or as the machine does.
func numbers(n *specs.DeviceNode) (cgroup.Device, error) {
	if n.Major != 0 {
		return cgroup.Device{Block: n.Type == "b", Major: n.Major, Minor: n.Minor}, nil
	}
	path := n.HostPath
	if path == "" {
		path = n.Path
	}
	return Node(path)
}

// Node returns the device that the node at path stands for.
func Node(path string) (cgroup.Device, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return cgroup.Device{}, fmt.Errorf("%s: %w", path, err)
	}
	kind := st.Mode & unix.S_IFMT
	if kind != unix.S_IFCHR && kind != unix.S_IFBLK {
		return cgroup.Device{}, fmt.Errorf("%s is no device node", path)
	}
	return cgroup.Device{Block: kind == unix.S_IFBLK, Major: int64(unix.Major(st.Rdev)), Minor: int64(unix.Minor(st.Rdev))}, nil
}

// Nodes implements cri.DeviceSource.
func (n *NVIDIA) Nodes(list []engine.Device) ([]cgroup.Device, error) {
	return nodesOf(n.cfg.CDIDirs, list)
}

// Nodes implements cri.DeviceSource.
func (s *Simulated) Nodes(list []engine.Device) ([]cgroup.Device, error) {
	return nodesOf([]string{s.cfg.CDIDir}, list)
}
