package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Node is a kubelet on this machine, with a container runtime of its own.
type Node struct {
	Name string
	// Dir holds what is the node's; Sockets, where device plugins announce themselves.
	Dir, Sockets string

	c          *Cluster
	bridge     string
	subnet     string // the first three bytes of its addresses, with dots
	containerd *process
	kubelet    *process
}

// AddNode starts a node with some images, such as "tiny.tar", and waits until it is ready.
// At most nine of a cluster. It needs root.
func (c *Cluster) AddNode(ctx context.Context, name string, images ...string) (*Node, error) {
	n := &Node{Name: name, Dir: filepath.Join(c.dir, name), c: c}
	n.Sockets = filepath.Join(n.Dir, "kubelet", "device-plugins")
	n.bridge = bridgePrefix(c.dir) + strconv.Itoa(len(c.nodes))
	c.nodes = append(c.nodes, n)
	steps := []func(context.Context) error{n.network, n.startContainerd, func(ctx context.Context) error {
		return n.load(ctx, append(images, "pause.tar"))
	}, n.startKubelet, n.Ready}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return n, fmt.Errorf("node %s: %w", name, err)
		}
	}
	return n, nil
}

// address is the node's own, which isn't of loopback: a kubelet wants none of those.
func (n *Node) address() string { return n.subnet + ".1" }

// network makes a bridge with the first network that is free, and the description of it.
func (n *Node) network(context.Context) error {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return err
	}
	for i := range 255 {
		subnet := fmt.Sprintf("10.189.%d", i)
		taken := false
		for _, a := range addresses {
			taken = taken || strings.HasPrefix(a.String(), subnet+".")
		}
		if !taken {
			n.subnet = subnet
			break
		}
	}
	for _, args := range [][]string{
		{"link", "add", n.bridge, "type", "bridge"}, {"addr", "add", n.address() + "/24", "dev", n.bridge}, {"link", "set", n.bridge, "up"},
	} {
		if err := run("ip", args...); err != nil {
			return err
		}
	}
	return n.write("cni/10-test.conflist", fmt.Sprintf(`{"cniVersion": "1.0.0", "name": %q, "plugins": [
  {"type": "bridge", "bridge": %[1]q, "isGateway": true, "hairpinMode": true,
   "ipam": {"type": "host-local", "dataDir": %q, "ranges": [[{"subnet": "%s.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}]}
`, n.bridge, n.in("ipam"), n.subnet))
}

func (n *Node) in(parts ...string) string {
	return filepath.Join(append([]string{n.Dir}, parts...)...)
}

func (n *Node) write(name, text string) error {
	if err := os.MkdirAll(filepath.Dir(n.in(name)), 0o755); err != nil {
		return err
	}
	return os.WriteFile(n.in(name), []byte(text), 0o600)
}

func (n *Node) socket() string { return n.in("run", "containerd.sock") }

func (n *Node) startContainerd(ctx context.Context) error {
	bin := filepath.Join(n.c.cfg.Runtime, "bin")
	err := n.write("containerd.toml", fmt.Sprintf(`version = 3
root = %q
state = %q
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.blockfile", "io.containerd.snapshotter.v1.erofs", "io.containerd.differ.v1.erofs",
  "io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.tracing"]
[grpc]
address = %q
[ttrpc]
address = %q
[plugins."io.containerd.nri.v1.nri"]
disable = true
[plugins."io.containerd.internal.v1.opt"]
path = %q
[plugins."io.containerd.cri.v1.images"]
pinned_images = {sandbox = "localhost/croft-pause:1"}
[plugins."io.containerd.cri.v1.images".registry]
config_path = %q
[plugins."io.containerd.cri.v1.runtime"]
restrict_oom_score_adj = true
cdi_spec_dirs = [%q]
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
runtime_path = %q
options = {BinaryName = %q, Root = %q, SystemdCgroup = false}
[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = [%q]
conf_dir = %q
[plugins."io.containerd.grpc.v1.cri"]
stream_server_address = "127.0.0.1"
stream_server_port = "0"
`, n.in("containerd"), n.in("run", "state"), n.socket(), n.socket()+".ttrpc", n.in("opt"), n.in("registries"), n.in("cdi"),
		filepath.Join(bin, "containerd-shim-runc-v2"), filepath.Join(bin, "runc"), n.in("run", "runc"),
		filepath.Join(n.c.cfg.Runtime, "cni"), n.in("cni")))
	if err != nil {
		return err
	}
	for host, mirror := range n.c.cfg.Mirrors {
		err = errors.Join(err, n.write(filepath.Join("registries", host, "hosts.toml"), fmt.Sprintf("[host.%q]\ncapabilities = [\"pull\", \"resolve\"]\n", mirror)))
	}
	if err = errors.Join(err, os.MkdirAll(n.in("run"), 0o711)); err != nil {
		return err
	}
	if n.containerd, err = n.c.start("containerd-"+n.Name, filepath.Join(bin, "containerd"), "--config", n.in("containerd.toml"), "--log-level", "warn"); err != nil {
		return err
	}
	return n.containerd.await(ctx, "containerd", func(ctx context.Context) error {
		return output(exec.CommandContext(ctx, filepath.Join(bin, "ctr"), "--address", n.socket(), "version"))
	})
}

// load imports archives of images.
func (n *Node) load(ctx context.Context, names []string) error {
	for _, name := range names {
		ctr := filepath.Join(n.c.cfg.Runtime, "bin", "ctr")
		if err := output(exec.CommandContext(ctx, ctr, "--address", n.socket(), "-n", "k8s.io", "images", "import", filepath.Join(n.c.cfg.Images, name))); err != nil {
			return err
		}
	}
	return nil
}

func (n *Node) startKubelet(context.Context) error {
	file := "kubelet-" + n.Name
	err := errors.Join(n.c.ca.issue(file, "system:node:"+n.Name, []string{"system:nodes"}, n.address(), "127.0.0.1"), n.c.kubeconfig(file), makeGroup(n.group()))
	if err != nil {
		return err
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	health, err := freePort()
	if err != nil {
		return err
	}
	var gates []string
	for name, on := range n.c.cfg.Gates {
		gates = append(gates, fmt.Sprintf("%s: %t", name, on))
	}
	err = n.write("kubelet.yaml", fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: %s
port: %s
healthzPort: %s
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: %s}}
authorization: {mode: Webhook}
tlsCertFile: %s
tlsPrivateKeyFile: %s
containerRuntimeEndpoint: unix://%s
cgroupDriver: cgroupfs
cgroupRoot: /%s
failCgroupV1: false
failSwapOn: false
enforceNodeAllocatable: []
evictionHard: {memory.available: "0%%", nodefs.available: "0%%", imagefs.available: "0%%", nodefs.inodesFree: "0%%"}
imageGCHighThresholdPercent: 100
localStorageCapacityIsolation: false
podLogsDir: %s
resolvConf: ""
syncFrequency: 10s
nodeStatusUpdateFrequency: 4s
volumePluginDir: %s
featureGates: {%s}
`, n.address(), port, health, n.c.ca.crt("ca"), n.c.ca.crt(file), n.c.ca.sec(file), n.socket(), n.group(), n.in("logs"), n.in("plugins"), strings.Join(gates, ", ")))
	if err != nil {
		return err
	}
	if err := n.shareFolder(); err != nil {
		return err
	}
	n.kubelet, err = n.c.start(file, "unshare", "--mount", "--propagation", "unchanged", "sh", "-ec", apart, "sh", n.Sockets,
		n.c.bin("kubelet"), "--config", n.in("kubelet.yaml"), "--kubeconfig", n.c.kubeconfigOf(file),
		"--root-dir", n.in("kubelet"), "--cert-dir", n.in("certs"), "--hostname-override", n.Name, "--node-ip", n.address())
	return err
}

// apart gives a kubelet a folder of its own where device plugins announce themselves, which
// it has at one place of the machine whatever its configuration says.
const apart = `mount --make-private "$(stat -c %m ` + pluginFolder + `)"
mount --bind "$1" ` + pluginFolder + `
shift
exec "$@"`

const pluginFolder = "/var/lib/kubelet/device-plugins"

// shareFolder makes what the kubelet mounts in its own folder appear outside of its mount
// namespace as well: the container runtime is there.
func (n *Node) shareFolder() error {
	root := n.in("kubelet")
	if err := errors.Join(os.MkdirAll(n.Sockets, 0o755), os.MkdirAll(pluginFolder, 0o750)); err != nil {
		return err
	}
	if mounted, err := isMount(root); err != nil || mounted {
		return err
	}
	if err := unix.Mount(root, root, "", unix.MS_BIND, ""); err != nil {
		return err
	}
	return unix.Mount("", root, "", unix.MS_SHARED, "")
}

// isMount reports whether something is mounted at a path.
func isMount(path string) (bool, error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return false, err
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 4 && f[4] == path {
			return true, nil
		}
	}
	return false, nil
}

// Ready waits until the cluster knows that the node is ready.
func (n *Node) Ready(ctx context.Context) error {
	client, err := n.c.client()
	if err != nil {
		return err
	}
	return n.kubelet.await(ctx, "the node", func(ctx context.Context) error {
		text, err := fetch(ctx, client, "https://127.0.0.1:"+n.c.port+"/api/v1/nodes/"+n.Name)
		if err == nil && !strings.Contains(strings.Join(strings.Fields(text), ""), `"reason":"KubeletReady"`) {
			err = errors.New("it isn't ready")
		}
		return err
	})
}

// Kill ends the kubelet with SIGKILL: the node is lost, what runs there goes on.
func (n *Node) Kill() error { return n.kubelet.stop(syscall.SIGKILL) }

// Start starts the kubelet that was killed, and waits until it is ready.
func (n *Node) Start(ctx context.Context) error {
	if err := n.startKubelet(ctx); err != nil {
		return err
	}
	return n.Ready(ctx)
}

// group is the control group of all that the node runs.
func (n *Node) group() string { return filepath.Base(n.c.dir) + "-" + n.Name }

// makeGroup makes a control group in every hierarchy of the machine.
func makeGroup(name string) error {
	for _, root := range hierarchies() {
		dir := filepath.Join(root, name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
			if text, err := os.ReadFile(filepath.Join(root, file)); err == nil {
				if err := os.WriteFile(filepath.Join(dir, file), text, 0o644); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// hierarchies are the roots of the control groups: one of version 2, or those of version 1.
func hierarchies() []string {
	var all []string
	entries, err := os.ReadDir("/sys/fs/cgroup")
	if _, v2 := os.Stat("/sys/fs/cgroup/cgroup.controllers"); v2 == nil || err != nil {
		return []string{"/sys/fs/cgroup"}
	}
	for _, e := range entries {
		if e.IsDir() {
			all = append(all, filepath.Join("/sys/fs/cgroup", e.Name()))
		}
	}
	return all
}

func run(name string, args ...string) error { return output(exec.Command(name, args...)) }

// output runs a command; its output is part of the error.
func output(cmd *exec.Cmd) error {
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, text)
	}
	return nil
}
