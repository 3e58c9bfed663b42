package devices

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"
	"tags.cncf.io/container-device-interface/pkg/cdi"
	specs "tags.cncf.io/container-device-interface/specs-go"

	"croft.dev/croft/internal/engine"
)

// SimulatedConfig describes simulated accelerators.
type SimulatedConfig struct {
	Instance string // the UUIDs derive from it, and so outlive restarts
	Count    int
	Model    string   // catalogue model of all of them, such as "a100-80g"
	CDIDir   string   // where the CDI file goes; a directory that the runtime reads
	Dir      string   // where FaultsFile and UsageFile are looked for
	Subset   []string // offer only these, by UUID or index
}

// FaultsFile, in SimulatedConfig.Dir, makes devices behave as broken or occupied
// ones do; see Faults. It may appear, change and vanish at any time.
const FaultsFile = "sim-foreign.json"

// Faults is the contents of FaultsFile: by index of the device.
type Faults struct {
	Devices map[int]Fault `json:"devices"`
}

// Fault is what is wrong with a simulated device.
type Fault struct {
	Foreign  []engine.Process `json:"foreign,omitempty"`  // processes that Croft didn't start
	Leftover int64            `json:"leftover,omitempty"` // bytes in use by no process
	Error    string           `json:"error,omitempty"`    // a fatal error
}

// UsageFile, in SimulatedConfig.Dir, plays how busy devices are: a Usage, which may
// change at any time. Without it they are idle.
const UsageFile = "sim-usage.json"

// Usage is the contents of UsageFile: by index of the device.
type Usage struct {
	Devices map[int]Busy `json:"devices"`
}

// Busy is how busy a simulated device is.
type Busy struct {
	Percent int64 `json:"percent"`
	Memory  int64 `json:"memory,omitempty"`  // bytes in use
	Unknown bool  `json:"unknown,omitempty"` // it can't be known, as of a real one in MIG mode
}

// SimulatedKind is the kind of simulated devices in CDI.
const SimulatedKind = "croft.dev/sim"

// Simulated offers devices that exist as device nodes only.
type Simulated struct {
	cfg     SimulatedConfig
	devices []engine.Device
}

// NewSimulated writes the CDI file of the devices.
func NewSimulated(cfg SimulatedConfig) (*Simulated, error) {
	if cfg.Count < 0 || cfg.Count > 64 {
		return nil, fmt.Errorf("devices: %d simulated devices: want 0 to 64", cfg.Count)
	}
	space, err := uuid.Parse(cfg.Instance)
	if err != nil {
		return nil, fmt.Errorf("devices: instance %q is no UUID", cfg.Instance)
	}
	var all []engine.Device
	for i := range cfg.Count {
		id := "SIM-" + uuid.NewSHA1(space, fmt.Appendf(nil, "simulated device %d", i)).String()
		all = append(all, engine.Device{
			UUID: id, Index: i, Name: fmt.Sprintf("gpu%d", i), Model: cfg.Model,
			CDI: SimulatedKind + "=" + id, Healthy: true,
		})
	}
	s := &Simulated{cfg: cfg}
	if s.devices, err = selectDevices(all, cfg.Subset); err != nil {
		return nil, err
	}
	makeNodes(all)
	return s, s.writeSpec(all)
}

// makeNodes makes the devices on the machine too, where they harm nobody: in a user
// namespace the runtime can't make nodes, and shows those of the machine. Without them
// devices still work for jobs that have none, so that failing is no error.
func makeNodes(all []engine.Device) {
	for _, d := range all {
		if unix.Mknod(nodePath(d), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))) == nil {
			_ = os.Chmod(nodePath(d), 0o666) // whatever the umask is
		}
	}
}

func nodePath(d engine.Device) string { return fmt.Sprintf("/dev/croft-sim%d", d.Index) }

// writeSpec writes the CDI file. Each device is a node that behaves as /dev/null.
// The file carries no environment: what several devices set would collide, and
// only the server knows which were given.
func (s *Simulated) writeSpec(all []engine.Device) error {
	mode := os.FileMode(0o666)
	spec := &specs.Spec{Version: "0.6.0", Kind: SimulatedKind}
	for _, d := range all {
		spec.Devices = append(spec.Devices, specs.Device{
			Name: d.UUID,
			ContainerEdits: specs.ContainerEdits{DeviceNodes: []*specs.DeviceNode{{
				Path: nodePath(d),
				Type: "c", Major: 1, Minor: 3, FileMode: &mode, Permissions: "rw",
			}}},
		})
	}
	// Several instances may share the directory.
	name := "croft-sim-" + s.cfg.Instance[:8] + ".json"
	if len(all) == 0 {
		err := os.Remove(filepath.Join(s.cfg.CDIDir, name))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	if err := os.MkdirAll(s.cfg.CDIDir, 0o755); err != nil {
		return fmt.Errorf("devices: %w", err)
	}
	cache, err := cdi.NewCache(cdi.WithSpecDirs(s.cfg.CDIDir), cdi.WithAutoRefresh(false))
	if err != nil {
		return fmt.Errorf("devices: %w", err)
	}
	if err := cache.WriteSpec(spec, name); err != nil {
		return fmt.Errorf("devices: CDI file: %w", err)
	}
	return nil
}

// Devices returns the devices with the faults of the moment.
func (s *Simulated) Devices(context.Context) ([]engine.Device, error) {
	text, err := os.ReadFile(filepath.Join(s.cfg.Dir, FaultsFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("devices: %w", err)
	}
	faults, err := parseFaults(text)
	if err != nil {
		return nil, err
	}
	out := make([]engine.Device, len(s.devices))
	for i, d := range s.devices {
		f := faults.Devices[d.Index]
		d.Foreign = f.Foreign
		switch {
		case f.Error != "":
			d.Healthy, d.Reason = false, "fatal error: "+f.Error
		case f.Leftover > 0:
			d.Healthy, d.Reason = false, leftoverReason(f.Leftover)
		}
		out[i] = d
	}
	return out, nil
}

// Usage implements cri.DeviceSource.
func (s *Simulated) Usage(context.Context) ([]engine.DeviceUsage, error) {
	text, err := os.ReadFile(filepath.Join(s.cfg.Dir, UsageFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("devices: %w", err)
	}
	var played Usage
	if len(text) > 0 {
		if err := json.Unmarshal(text, &played); err != nil {
			return nil, fmt.Errorf("devices: %s: %w", UsageFile, err)
		}
	}
	var out []engine.DeviceUsage
	for _, d := range s.devices {
		b := played.Devices[d.Index]
		if b.Unknown {
			continue
		}
		out = append(out, engine.DeviceUsage{UUID: d.UUID, At: time.Now(), Busy: min(max(b.Percent, 0), 100) * 10, Memory: b.Memory})
	}
	return out, nil
}

func parseFaults(text []byte) (Faults, error) {
	var f Faults
	if len(text) == 0 {
		return f, nil
	}
	if err := json.Unmarshal(text, &f); err != nil {
		return f, fmt.Errorf("devices: %s: %w", FaultsFile, err)
	}
	return f, nil
}

func leftoverReason(bytes int64) string {
	return fmt.Sprintf("%d MiB of its memory are in use by no process", bytes>>20)
}
