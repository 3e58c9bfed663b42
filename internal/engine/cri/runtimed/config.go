package runtimed

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"golang.org/x/sys/unix"
)

// prepare writes everything that the runtime reads at its start and returns a
// digest of it: another digest means that a running one has to be restarted.
func (r *Runtime) prepare(ctx context.Context) (digest string, err error) {
	for _, dir := range []string{r.path("root"), r.path("cni", "conf"), r.path("cni", "ipam"), r.path("certs.d")} {
		if err := os.MkdirAll(dir, 0o711); err != nil {
			return "", fmt.Errorf("runtimed: %w", err)
		}
	}
	if err := os.MkdirAll(r.cfg.RunDir, 0o711); err != nil {
		return "", fmt.Errorf("runtimed: %w", err)
	}
	if err := r.prepareNetwork(ctx); err != nil {
		return "", err
	}
	if err := r.writeHosts(); err != nil {
		return "", err
	}
	pause, err := r.pauseName()
	if err != nil {
		return "", err
	}
	raise := mayRaiseLimits()
	if raise {
		if err := r.writeBaseSpec(ctx); err != nil {
			return "", err
		}
	}
	text, err := toml.Marshal(r.containerdConfig(pause, raise))
	if err != nil {
		return "", fmt.Errorf("runtimed: %w", err)
	}
	if err := writeFile(r.configPath(), text, 0o644); err != nil {
		return "", err
	}
	h := sha256.New()
	h.Write(text)
	for _, bin := range []string{"containerd", "containerd-shim-runc-v2", "runc"} {
		st, err := os.Stat(r.bin(bin))
		if err != nil {
			return "", fmt.Errorf("runtimed: %w", err)
		}
		fmt.Fprintln(h, bin, st.Size(), st.ModTime().UnixNano())
	}
	fmt.Fprintln(h, r.cfg.Registry.HTTPProxy, r.cfg.Registry.HTTPSProxy, r.cfg.Registry.NoProxy)
	return hex.EncodeToString(h.Sum(nil)), nil
}

type table = map[string]any

// containerdConfig is the runtime's configuration. raise says whether limits
// may be raised and out-of-memory scores lowered (CAP_SYS_RESOURCE).
func (r *Runtime) containerdConfig(pause string, raise bool) table {
	runc := table{
		"runtime_type": "io.containerd.runc.v2",
		"runtime_path": r.bin("containerd-shim-runc-v2"),
		"options": table{
			"BinaryName":    r.bin("runc"),
			"Root":          filepath.Join(r.cfg.RunDir, "runc"),
			"SystemdCgroup": false,
		},
	}
	cfg := table{
		"version": 3,
		"root":    r.path("root"),
		"state":   filepath.Join(r.cfg.RunDir, "state"),
		"grpc":    table{"address": r.Socket()},
		"ttrpc":   table{"address": r.Socket() + ".ttrpc"},
		// Nothing here uses them; the devices' and file systems' tools they look
		// for are missing on most machines.
		"disabled_plugins": []string{
			"io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs",
			"io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.blockfile",
			"io.containerd.snapshotter.v1.erofs", "io.containerd.differ.v1.erofs",
			"io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.tracing",
		},
		"plugins": table{
			"io.containerd.cri.v1.images": table{
				"snapshotter":   r.snapshotter(),
				"pinned_images": table{"sandbox": pause},
				"registry":      table{"config_path": r.path("certs.d")},
			},
			"io.containerd.cri.v1.runtime": table{
				"restrict_oom_score_adj":       !raise,
				"cdi_spec_dirs":                r.cdiDirs(),
				"netns_mounts_under_state_dir": true,
				"enable_unprivileged_ports":    true,
				"enable_unprivileged_icmp":     true,
				"containerd": table{
					"default_runtime_name": "runc",
					"runtimes":             table{"runc": runc},
				},
				"cni": table{
					"bin_dirs":              []string{r.cfg.CNIBinDir},
					"conf_dir":              r.path("cni", "conf"),
					"use_internal_loopback": true,
				},
			},
			"io.containerd.grpc.v1.cri": table{
				"stream_server_address": "127.0.0.1",
				"stream_server_port":    "0",
			},
			"io.containerd.nri.v1.nri":      table{"disable": true},
			"io.containerd.internal.v1.opt": table{"path": r.path("opt")},
		},
	}
	if raise {
		cfg["oom_score"] = -999
		runc["base_runtime_spec"] = r.path("base-spec.json")
	}
	return cfg
}

func (r *Runtime) cdiDirs() []string {
	return append(append([]string{}, r.cfg.CDIDirs...), "/etc/cdi", "/var/run/cdi")
}

// snapshotter is overlayfs, except on top of an overlay (Croft inside of a
// container), which the kernel refuses as an upper layer.
func (r *Runtime) snapshotter() string {
	const overlayMagic = 0x794c7630
	var st unix.Statfs_t
	if err := unix.Statfs(r.cfg.Dir, &st); err == nil && int64(st.Type) == overlayMagic {
		return "native"
	}
	return "overlayfs"
}

// writeBaseSpec writes the specification that every container starts from: the
// runtime's own with locked memory unlimited, which RDMA and pinned buffers need.
func (r *Runtime) writeBaseSpec(ctx context.Context) error {
	out, err := exec.CommandContext(ctx, r.bin("ctr"), "oci", "spec").Output()
	if err != nil {
		return fmt.Errorf("runtimed: ctr oci spec: %w", err)
	}
	text, err := withLimits(out)
	if err != nil {
		return err
	}
	return writeFile(r.path("base-spec.json"), text, 0o644)
}

// withLimits sets the resource limits in an OCI specification.
func withLimits(spec []byte) ([]byte, error) {
	var doc map[string]json.RawMessage
	if err := json.Unmarshal(spec, &doc); err != nil {
		return nil, fmt.Errorf("runtimed: base specification: %w", err)
	}
	var process map[string]any
	if err := json.Unmarshal(doc["process"], &process); err != nil {
		return nil, fmt.Errorf("runtimed: base specification: %w", err)
	}
	const unlimited = ^uint64(0)
	process["rlimits"] = []map[string]any{
		{"type": "RLIMIT_MEMLOCK", "soft": unlimited, "hard": unlimited},
		{"type": "RLIMIT_NOFILE", "soft": 65536, "hard": 1048576},
	}
	text, err := json.Marshal(process)
	if err != nil {
		return nil, err
	}
	doc["process"] = text
	return json.Marshal(doc)
}

// mayRaiseLimits reports whether this process has CAP_SYS_RESOURCE. Without it
// (in many containers) lowering an out-of-memory score fails every sandbox.
func mayRaiseLimits() bool {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return false
	}
	return hasCapability(string(text), unix.CAP_SYS_RESOURCE)
}

func hasCapability(status string, bit int) bool {
	for line := range strings.Lines(status) {
		v, ok := strings.CutPrefix(line, "CapEff:")
		if !ok {
			continue
		}
		var set uint64
		if _, err := fmt.Sscanf(strings.TrimSpace(v), "%x", &set); err != nil {
			return false
		}
		return set&(1<<bit) != 0
	}
	return false
}

// writeHosts writes the registry configuration in the form of containerd's
// hosts.toml, and takes away that of registries no longer named.
func (r *Runtime) writeHosts() error {
	dir := r.path("certs.d")
	files := hostsFiles(r.cfg.Registry)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("runtimed: %w", err)
	}
	for _, e := range entries {
		if _, ok := files[e.Name()]; !ok {
			if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
				return fmt.Errorf("runtimed: %w", err)
			}
		}
	}
	for host, file := range files {
		text, err := toml.Marshal(file)
		if err != nil {
			return fmt.Errorf("runtimed: %w", err)
		}
		if err := writeFile(filepath.Join(dir, host, "hosts.toml"), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// hostsFile is containerd's hosts.toml.
type hostsFile struct {
	Server string              `toml:"server,omitempty"`
	CA     string              `toml:"ca,omitempty"`
	Host   map[string]hostPart `toml:"host,omitempty"`
}

type hostPart struct {
	Capabilities []string `toml:"capabilities"`
	CA           string   `toml:"ca,omitempty"`
}

// hostsFiles returns the files by registry host. "_default" holds for all
// registries without a file of their own.
func hostsFiles(reg Registry) map[string]hostsFile {
	files := make(map[string]hostsFile)
	if reg.CAFile != "" {
		files["_default"] = hostsFile{CA: reg.CAFile}
	}
	for host, mirrors := range reg.Mirrors {
		f := hostsFile{Server: "https://" + host, CA: reg.CAFile, Host: make(map[string]hostPart)}
		if host == "docker.io" {
			f.Server = "https://registry-1.docker.io"
		}
		for _, m := range mirrors {
			f.Host[m] = hostPart{Capabilities: []string{"pull", "resolve"}, CA: reg.CAFile}
		}
		files[host] = f
	}
	return files
}
