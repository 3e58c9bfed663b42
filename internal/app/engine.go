package app

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"croft.dev/croft/internal/clock"
	"croft.dev/croft/internal/config"
	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/engine/cri"
	"croft.dev/croft/internal/engine/cri/devices"
	"croft.dev/croft/internal/engine/cri/runtimed"
	"croft.dev/croft/internal/engine/kube"
	"croft.dev/croft/internal/engine/sim"
)

// newLink describes how to reach the engine that the configuration names.
func (s *server) newLink(ctx context.Context) (*link, error) {
	l := &link{what: "the container runtime", log: s.Log, cut: make(chan struct{}, 1)}
	switch s.Config.Engine.Kind {
	case config.EngineKube:
		cfg := s.kubeConfig(s.Config.Engine.Kube)
		l.what = "the cluster"
		l.connect = func(ctx context.Context) (engine.Engine, error) { return kube.New(ctx, cfg) }
		return l, nil
	case config.EngineSim:
		fleet, err := simFleet(s.Config, s.head.Instance)
		if err != nil {
			return nil, err
		}
		l.connect = func(context.Context) (engine.Engine, error) { return fleet.Connect(), nil }
		return l, nil
	}
	source, err := s.deviceSource()
	if err != nil {
		return nil, err
	}
	endpoint := s.Config.Engine.Endpoint
	if endpoint == "" {
		rt, err := Runtime(s.Config, s.InitPath, s.Log)
		if err != nil {
			return nil, err
		}
		endpoint, l.ensure = rt.Endpoint(), rt.Ensure
	}
	cfg := s.criConfig(endpoint, source)
	cfg.Cut = l.lost
	l.connect = func(ctx context.Context) (engine.Engine, error) { return cri.New(ctx, cfg) }
	return l, nil
}

func (s *server) criConfig(endpoint string, source cri.DeviceSource) cri.Config {
	e := s.Config.Engine
	return cri.Config{
		Endpoint: endpoint, Own: e.Endpoint == "", Instance: s.head.Instance, NodeName: nodeName(s.Config), StateDir: s.in("state"), LogDir: s.in("logs"), VolumeDir: string(s.Config.Volumes),
		InitPath: s.InitPath, CgroupParent: e.CgroupParent, ReserveCPU: int64(e.Reserve.CPU), ReserveMemory: int64(e.Reserve.Mem),
		PidsMax: int64(e.Pids), Devices: source, HostDevices: e.Host.Devices, DNSServers: e.DNS, PublishAddress: s.Config.Network.Publish, ParallelPulls: e.Pulls,
		Logs:   cri.LogPolicy{MaxSize: int64(e.LogMaxSize), Keep: e.LogFiles, Retention: e.LogRetention.Std()},
		Images: cri.ImagePolicy{High: e.ImageHigh, Low: e.ImageLow},
		Logger: s.Log,
	}
}

// Runtime is the container runtime that belongs to a configuration.
func Runtime(c config.Config, initPath string, log *slog.Logger) (*runtimed.Runtime, error) {
	e := c.Engine
	return runtimed.New(runtimed.Config{
		Dir: filepath.Join(string(c.Data), "runtime"), BinDir: filepath.Join(string(e.RuntimeDir), "bin"), CNIBinDir: filepath.Join(string(e.RuntimeDir), "cni"),
		InitPath: initPath, CDIDirs: []string{filepath.Join(string(c.Data), "cdi")}, Bridge: e.Bridge, Subnet: e.Subnet,
		Registry: runtimed.Registry{Mirrors: e.Mirrors, CAFile: string(e.CAFile), HTTPProxy: e.Proxy.HTTP, HTTPSProxy: e.Proxy.HTTPS, NoProxy: e.Proxy.NoProxy},
		Logger:   log,
	})
}

// Clear takes away what jobs left on the machine outside of a runtime that was
// destroyed: mounts and control groups.
func Clear(c config.Config) error {
	return cri.Clear(filepath.Join(string(c.Data), "state"), c.Engine.CgroupParent)
}

// deviceSource is where accelerators come from: NVIDIA's driver where it is there,
// simulated ones where the configuration asks for them.
func (s *server) deviceSource() (cri.DeviceSource, error) {
	d := s.Config.Devices
	if d.Simulated.Count > 0 {
		return devices.NewSimulated(devices.SimulatedConfig{
			Instance: s.head.Instance, Count: d.Simulated.Count, Model: d.Simulated.Model, CDIDir: s.in("cdi"), Dir: string(s.Config.Data), Subset: d.Offer,
		})
	}
	if d.NVIDIA == config.NVIDIAAuto && devices.HasNVIDIA() {
		return devices.NewNVIDIA(devices.NVIDIAConfig{
			Subset: d.Offer, Processes: devices.Processes{CgroupParent: s.Config.Engine.CgroupParent, UserName: s.machine.userName},
		}), nil
	}
	return nil, nil
}

// nodeName is the configured name of this machine, or its host name.
func nodeName(c config.Config) string {
	if c.Engine.NodeName != "" {
		return c.Engine.NodeName
	}
	host, err := os.Hostname()
	if err != nil {
		return "localhost"
	}
	name, _, _ := strings.Cut(host, ".")
	return name
}

// simFleet is a virtual machine like this one, without containers, or the cluster
// that the configuration names.
func simFleet(c config.Config, instance string) (*sim.Fleet, error) {
	if c.Engine.Fleet != "" {
		return readFleet(string(c.Engine.Fleet), instance)
	}
	node := nodeName(c)
	cfg := sim.Config{
		Clock: clock.System{}, Instance: instance, OtherImages: &sim.Image{Present: true},
		Nodes: []engine.Node{{Name: node, CPU: int64(runtime.NumCPU()) * 1000, Memory: 64 << 30, Ready: true}},
	}
	for i := range c.Devices.Simulated.Count {
		cfg.Devices = append(cfg.Devices, engine.Device{
			UUID: fmt.Sprintf("SIM-%s-%d", instance[:8], i), Node: node, Index: i, Name: fmt.Sprintf("gpu%d", i), Model: c.Devices.Simulated.Model, Healthy: true,
		})
	}
	return sim.NewFleet(cfg)
}

func readFleet(path, instance string) (*sim.Fleet, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("engine.fleet: %w", err)
	}
	defer f.Close()
	cfg := sim.Config{Clock: clock.System{}, Instance: instance, OtherImages: &sim.Image{Present: true}}
	if cfg.Nodes, cfg.Devices, err = sim.ReadNodes(f); err != nil {
		return nil, fmt.Errorf("engine.fleet: %s: %w", path, err)
	}
	return sim.NewFleet(cfg)
}

// deviceMemory is what the configuration says of models' memory, in bytes.
func deviceMemory(c config.Config) map[string]int64 {
	out := make(map[string]int64, len(c.Devices.Memory))
	for model, n := range c.Devices.Memory {
		out[model] = int64(n)
	}
	return out
}
