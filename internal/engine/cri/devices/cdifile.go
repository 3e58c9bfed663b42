package devices

import (
	"regexp"

	"tags.cncf.io/container-device-interface/pkg/cdi"
	specs "tags.cncf.io/container-device-interface/specs-go"

	"croft.dev/croft/internal/engine"
)

// nvidiaKind is the kind that nvidia-ctk writes.
const nvidiaKind = "nvidia.com/gpu"

// cdiFiles is what the CDI files say of NVIDIA's devices.
type cdiFiles struct {
	names   map[string]bool // device names of nvidiaKind
	drivers map[string]bool // driver versions that the files' libraries are of
}

func readCDI(dirs []string) cdiFiles {
	out := cdiFiles{names: make(map[string]bool), drivers: make(map[string]bool)}
	cache, err := cdi.NewCache(cdi.WithSpecDirs(dirs...), cdi.WithAutoRefresh(false))
	if err != nil {
		return out // a directory that can't be read lists nothing
	}
	for _, spec := range cache.GetVendorSpecs("nvidia.com") {
		if spec.Kind == nvidiaKind {
			out.add(spec.Spec)
		}
	}
	return out
}

// driverLibrary matches the libraries of a driver, whose names end in its version.
var driverLibrary = regexp.MustCompile(`/lib(?:cuda|nvidia-ml|nvidia-ptxjitcompiler)\.so\.(\d+(?:\.\d+)+)$`)

func (c cdiFiles) add(spec *specs.Spec) {
	c.addDrivers(spec.ContainerEdits)
	for _, d := range spec.Devices {
		c.names[d.Name] = true
		c.addDrivers(d.ContainerEdits)
	}
}

func (c cdiFiles) addDrivers(edits specs.ContainerEdits) {
	for _, m := range edits.Mounts {
		if v := driverLibrary.FindStringSubmatch(m.HostPath); v != nil {
			c.drivers[v[1]] = true
		}
	}
}

// name fills in a device's CDI name, the first of candidates that is listed. A
// device without one, or in a file made for another driver, can't be used.
func (c cdiFiles) name(d engine.Device, candidates []string, driver string) engine.Device {
	stale := ""
	switch {
	case len(c.names) == 0:
		stale = "no CDI file lists NVIDIA's devices: run nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"
	case len(c.drivers) > 0 && driver != "" && !c.drivers[driver]:
		stale = "the CDI file is of another driver than " + driver + ": run nvidia-ctk cdi generate again"
	}
	if stale == "" {
		for _, name := range candidates {
			if c.names[name] {
				d.CDI = nvidiaKind + "=" + name
				return d
			}
		}
		stale = "the CDI file doesn't list it: run nvidia-ctk cdi generate again"
	}
	if d.Healthy {
		d.Healthy, d.Reason = false, stale
	}
	return d
}
