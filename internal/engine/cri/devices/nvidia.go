package devices

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"time"

	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/engine/product"
)

// NVIDIAConfig describes where NVIDIA's devices are read from. The zero value
// asks this machine.
type NVIDIAConfig struct {
	CDIDirs   []string // default /etc/cdi and /var/run/cdi
	Subset    []string // offer only these, by UUID or index
	Processes Processes
	// Query runs nvidia-smi with the arguments and returns what it prints.
	Query func(ctx context.Context, args ...string) ([]byte, error)
	Now   func() time.Time
	// Leftover is how much memory in bytes may be in use on a device without a
	// process: the driver's own. Default 1 GiB.
	Leftover int64
	// LeftoverAfter is how long it may be more: what a job that has just ended
	// used isn't freed at once. Default 30 s.
	LeftoverAfter time.Duration
}

// NVIDIA reads NVIDIA's devices.
type NVIDIA struct {
	cfg NVIDIAConfig

	mu    sync.Mutex
	since map[string]time.Time // by UUID: memory in use by no process since
}

// NewNVIDIA returns a source. Whether there are devices is seen when it is asked.
func NewNVIDIA(cfg NVIDIAConfig) *NVIDIA {
	if cfg.CDIDirs == nil {
		cfg.CDIDirs = []string{"/etc/cdi", "/var/run/cdi"}
	}
	if cfg.Query == nil {
		cfg.Query = nvidiaSMI
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Leftover == 0 {
		cfg.Leftover = 1 << 30
	}
	if cfg.LeftoverAfter == 0 {
		cfg.LeftoverAfter = 30 * time.Second
	}
	return &NVIDIA{cfg: cfg, since: make(map[string]time.Time)}
}

// HasNVIDIA reports whether this machine has NVIDIA's driver and its tool.
func HasNVIDIA() bool {
	_, err := exec.LookPath("nvidia-smi")
	return err == nil
}

// smiTimeout bounds one run of nvidia-smi: with a device in trouble it can hang.
const smiTimeout = 20 * time.Second

func nvidiaSMI(ctx context.Context, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, smiTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "nvidia-smi", args...)
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("nvidia-smi: %w: %s", err, firstLine(out))
	}
	return out, nil
}

func firstLine(text []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	return line
}

// healthQueries are tried in turn: a driver refuses the whole query for one field
// that it doesn't know.
var healthQueries = []string{
	"uuid,ecc.errors.uncorrected.volatile.total,remapped_rows.failure,gpu_recovery_action",
	"uuid,ecc.errors.uncorrected.volatile.total,remapped_rows.failure",
	"uuid,ecc.errors.uncorrected.volatile.total",
}

// Devices implements cri.DeviceSource.
func (n *NVIDIA) Devices(ctx context.Context) ([]engine.Device, error) {
	out, err := n.cfg.Query(ctx, "--query-gpu="+gpuFields, "--format=csv,noheader,nounits")
	if err != nil {
		return nil, fmt.Errorf("devices: %w", err)
	}
	gpus, err := parseGPUs(string(out))
	if err != nil {
		return nil, err
	}
	var apps []app
	if out, err = n.cfg.Query(ctx, "--query-compute-apps=gpu_uuid,pid,used_memory", "--format=csv,noheader,nounits"); err != nil {
		return nil, fmt.Errorf("devices: %w", err)
	}
	if apps, err = parseApps(string(out)); err != nil {
		return nil, err
	}
	faults := n.health(ctx)
	instances, err := n.instances(ctx, gpus)
	if err != nil {
		return nil, err
	}
	files := readCDI(n.cfg.CDIDirs)
	var all []engine.Device
	for _, g := range gpus {
		all = append(all, n.describe(g, instances[g.uuid], apps, faults[g.uuid], files)...)
	}
	return selectDevices(all, n.cfg.Subset)
}

// Usage implements cri.DeviceSource.
func (n *NVIDIA) Usage(ctx context.Context) ([]engine.DeviceUsage, error) {
	out, err := n.cfg.Query(ctx, "--query-gpu="+usageFields, "--format=csv,noheader,nounits")
	if err != nil {
		return nil, fmt.Errorf("devices: %w", err)
	}
	return parseUsage(string(out), n.cfg.Now())
}

// health returns the fatal errors by UUID.
func (n *NVIDIA) health(ctx context.Context) map[string]string {
	for _, q := range healthQueries {
		out, err := n.cfg.Query(ctx, "--query-gpu="+q, "--format=csv,noheader,nounits")
		if err == nil {
			return parseHealth(string(out))
		}
	}
	return nil
}

// instances returns the MIG instances by the UUID of their GPU, if there is a GPU
// that has any.
func (n *NVIDIA) instances(ctx context.Context, gpus []gpu) (map[string][]instance, error) {
	mig := false
	for _, g := range gpus {
		mig = mig || g.mig
	}
	if !mig {
		return nil, nil
	}
	out, err := n.cfg.Query(ctx, "-L")
	if err != nil {
		return nil, fmt.Errorf("devices: %w", err)
	}
	return parseList(string(out)), nil
}

// describe makes the devices of one GPU: itself, or its MIG instances.
func (n *NVIDIA) describe(g gpu, parts []instance, apps []app, fault string, files cdiFiles) []engine.Device {
	whole := engine.Device{
		UUID: g.uuid, Index: g.index, Name: fmt.Sprintf("gpu%d", g.index),
		Model: product.Model(g.name), Memory: g.total, Healthy: true,
	}
	processes := 0
	for _, a := range apps {
		if a.gpu != g.uuid && !ofInstance(parts, a.gpu) {
			continue
		}
		processes++
		if p, ok := n.cfg.Processes.foreign(a.pid); ok {
			whole.Foreign = append(whole.Foreign, p)
		}
	}
	if fault == "" {
		fault = g.fault
	}
	if fault == "" && !g.mig {
		fault = n.leftover(g, processes)
	}
	if fault != "" {
		whole.Healthy, whole.Reason = false, fault
	}
	if !g.mig {
		return []engine.Device{files.name(whole, []string{g.uuid, fmt.Sprint(g.index)}, g.driver)}
	}
	var out []engine.Device
	for _, p := range parts {
		// What is known of processes is known of the whole GPU only, so that each
		// instance shows them.
		d := whole
		d.UUID, d.Name = p.uuid, fmt.Sprintf("gpu%d.%d", g.index, p.index)
		d.Model, d.Memory = product.Part(whole.Model, p.profile), 0 // the profile's name rounds it
		out = append(out, files.name(d, []string{p.uuid, fmt.Sprintf("%d:%d", g.index, p.index)}, g.driver))
	}
	return out
}

func ofInstance(parts []instance, uuid string) bool {
	for _, p := range parts {
		if p.uuid == uuid {
			return true
		}
	}
	return false
}

// leftover returns a reason when memory has been in use by no process for some
// time.
func (n *NVIDIA) leftover(g gpu, processes int) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if processes > 0 || g.used <= n.cfg.Leftover {
		delete(n.since, g.uuid)
		return ""
	}
	now := n.cfg.Now()
	since, ok := n.since[g.uuid]
	if !ok {
		n.since[g.uuid] = now
		return ""
	}
	if now.Sub(since) < n.cfg.LeftoverAfter {
		return ""
	}
	return leftoverReason(g.used)
}

// CDI tells whether CDI files list NVIDIA's devices as they are now: nil, or an
// error that says what to do.
func (n *NVIDIA) CDI(ctx context.Context) error {
	all, err := n.Devices(ctx)
	if err != nil {
		return err
	}
	var reasons []string
	for _, d := range all {
		if d.CDI == "" {
			reasons = append(reasons, d.Name+": "+d.Reason)
		}
	}
	if len(reasons) == 0 {
		return nil
	}
	return errors.New("devices: " + strings.Join(reasons, "; "))
}
