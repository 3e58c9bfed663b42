package config

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"croft.dev/croft/internal/fault"
)

// Kube is the Kubernetes cluster that runs the jobs.
type Kube struct {
	// File that says how the cluster is reached. Left out, the server runs inside of the
	// cluster, and is known there by its Pod's service account.
	Kubeconfig Path `yaml:"kubeconfig" example:"/etc/croft/kubeconfig"`
	// Context of that file. Left out, its current one.
	Context string `yaml:"context" example:"gpu-cluster"`
	// Namespace of all jobs, for nothing else. It is made if it isn't there and the server
	// may.
	Namespace string `yaml:"namespace"`
	// Image with croft-init and croft in its root, and with what programs outside of the
	// jobs' own images (batch scripts) find on the node: a shell, the site's tools.
	Image string `yaml:"image" example:"registry.example.org/croft/tools:1"`
	// Whom jobs run as. machine: whom the server's machine or Pod knows by the name, as
	// getent passwd says, with his groups. croft: nobody is looked up, and everybody has the
	// uid that croft user add gave him, a group of the same number, and the home /home/NAME.
	Users string `yaml:"users"`
	// Batch scheduler of the cluster that jobs are handed to. none: the cluster's own scheduler,
	// Pod by Pod. kueue (0.15 or later), volcano (1.11 or later): in queues that follow partitions
	// and shares. native: the cluster's own scheduler, by Kubernetes' groups of Pods (1.37 with
	// the feature gate GenericWorkload).
	Scheduler string `yaml:"scheduler"`
	// apply: the server keeps the batch scheduler's queues as partitions and shares are. watch:
	// it changes nothing there; croft kube plan says what it would.
	Queues string `yaml:"queues"`
	// What the names of these queues begin with.
	QueuePrefix string `yaml:"queue_prefix"`
	// Jobs of an account's queue, for devices of the same models, that may be handed to the
	// cluster at a time without running yet. 0 is any number.
	Window int `yaml:"window"`
	// PriorityClass of all Pods. Left out, the cluster's default.
	PriorityClass string `yaml:"priority_class" example:"croft-jobs"`
	// How much of its node's disk a job may fill on each: with what it writes into its containers
	// outside of its mounts, and with its logs. A node ends one that has more. 0 is any amount:
	// then a job can fill its node.
	Scratch Bytes `yaml:"scratch"`
	// What the cluster's accelerators are: for those that aren't NVIDIA's or Huawei's, which
	// are known by the labels and attributes of their makers, or to call these otherwise. The
	// first element that is for an accelerator counts.
	Models []KubeModel `yaml:"models"`
	// Files that jobs may mount, in PersistentVolumeClaims of the namespace: homes, folders of
	// accounts, datasets. What is in none of them isn't on the cluster.
	Claims []KubeClaim `yaml:"claims"`
}

// KubeClaim is a PersistentVolumeClaim with files that users know by a path.
type KubeClaim struct {
	// Where users know its root: what jobs mount from below it is in the claim. No path is in
	// another's.
	Path Path `yaml:"path" example:"/home"`
	// Name of the PersistentVolumeClaim: ReadWriteMany or ReadOnlyMany where there is more than
	// one node.
	Claim string `yaml:"claim" example:"homes"`
	// Nobody writes to it, whatever a job asks for.
	ReadOnly bool `yaml:"read_only"`
	// Where the server's machine or Pod has the same files, by which it looks what is there and
	// gives jobs no more than they ask for. Left out, it doesn't look, and jobs have the claim
	// as a whole, at its path.
	Here Path `yaml:"here" example:"/home"`
}

// KubeModel is a model of accelerator in a cluster.
type KubeModel struct {
	// Name that jobs ask for it by.
	Name string `yaml:"name"`
	// Extended resource that Pods ask for it by, where a device plugin offers it.
	Resource string `yaml:"resource" example:"nvidia.com/gpu"`
	// Labels of the nodes where that resource is this model. Left out, all nodes.
	Labels map[string]string `yaml:"labels" example:"nvidia.com/gpu.product: NVIDIA-A100-SXM4-80GB"`
	// DeviceClass that Pods claim it by, where a driver of dynamic resource allocation offers
	// it: in place of resource.
	Class string `yaml:"class" example:"gpu.nvidia.com"`
	// CEL expressions that a device of that class has to meet to be this model. Left out, all
	// are.
	Selectors []string `yaml:"selectors" example:"device.attributes['gpu.nvidia.com'].productName == 'NVIDIA L40S'"`
	// Memory of each. Jobs that ask for memory of a device get none of a model without.
	Memory Bytes `yaml:"memory" example:"80G"`
}

// Values of Kube.Users.
const (
	UsersMachine = "machine"
	UsersCroft   = "croft"
)

// Values of Kube.Scheduler and Kube.Queues.
const (
	SchedulerNone    = "none"
	SchedulerKueue   = "kueue"
	SchedulerVolcano = "volcano"
	SchedulerNative  = "native"

	QueuesApply = "apply"
	QueuesWatch = "watch"
)

// mostWindow bounds Kube.Window, and leastScratch what Croft's own programs take in each Pod.
const (
	mostWindow   = 100_000
	leastScratch = gib
)

func defaultKube() Kube {
	return Kube{Namespace: "croft-jobs", Users: UsersMachine, Scheduler: SchedulerNone, Queues: QueuesApply, QueuePrefix: "croft", Window: 50, Scratch: 50 * gib}
}

func (k Kube) check(at string, f *fault.Fields) {
	if k.Context != "" && k.Kubeconfig == "" {
		f.Add(at+".context", "is of a kubeconfig, which isn't set: give the file, or remove it to run inside of the cluster")
	}
	if !dnsLabel(k.Namespace) {
		f.Add(at+".namespace", "%q must be 1 to 63 small letters, digits and dashes, and begin and end with a letter or digit", k.Namespace)
	}
	if k.Image == "" || strings.ContainsAny(k.Image, " \t") {
		f.Add(at+".image", "%q must be an image with croft-init and croft in it, such as registry.example.org/croft/tools:1: docs/operations/kubernetes.md says how it is made", k.Image)
	}
	oneOf(f, at+".users", k.Users, UsersMachine, UsersCroft)
	oneOf(f, at+".scheduler", k.Scheduler, SchedulerNone, SchedulerKueue, SchedulerVolcano, SchedulerNative)
	oneOf(f, at+".queues", k.Queues, QueuesApply, QueuesWatch)
	if !dnsLabel(k.QueuePrefix) || len(k.QueuePrefix) > 20 {
		f.Add(at+".queue_prefix", "%q must be 1 to 20 small letters, digits and dashes, and begin and end with a letter or digit", k.QueuePrefix)
	}
	if k.Window < 0 || k.Window > mostWindow {
		f.Add(at+".window", "%d must be from 0 to %d", k.Window, mostWindow)
	}
	if k.Scratch != 0 && (k.Scratch < leastScratch || k.Scratch > mostMemory) {
		f.Add(at+".scratch", "%s must be 0, or from 1G to 1P", k.Scratch.format())
	}
	if k.PriorityClass != "" && !label(k.PriorityClass) {
		f.Add(at+".priority_class", "%q %s", k.PriorityClass, labelRule)
	}
	k.checkClaims(at+".claims", f)
	for i, m := range k.Models {
		at := element(at+".models", i)
		if !label(m.Name) {
			f.Add(at+".name", "%q %s", m.Name, labelRule)
		}
		m.checkKind(at, f)
		if m.Memory < 0 || m.Memory > mostMemory {
			f.Add(at+".memory", "%s must be at most 1P", m.Memory.format())
		}
		if slices.ContainsFunc(k.Models[:i], func(o KubeModel) bool { return m.Resource != "" && o.Resource == m.Resource && len(o.Labels) == 0 }) {
			f.Add(at, "is never used: an element before it has %s without labels", m.Resource)
		}
	}
}

// containersOwn are folders of every image's own, or Croft's: a claim would hide them.
var containersOwn = []string{"/", "/bin", "/boot", "/etc", "/lib", "/lib64", "/opt", "/opt/croft", "/run", "/sbin", "/tmp", "/usr", "/var"}

// checkClaims refuses claims of which it isn't clear what is where, or that would be in the
// way of what is in containers.
func (k Kube) checkClaims(list string, f *fault.Fields) {
	for i, c := range k.Claims {
		at, p := element(list, i), string(c.Path)
		switch {
		case p == "":
			f.Add(at+".path", "is missing: say where users know its root, such as /home")
		case slices.Contains(containersOwn, p) || slices.ContainsFunc([]string{"/proc", "/sys", "/dev", "/etc", "/.croft"}, func(d string) bool { return within(p, d) }):
			f.Add(at+".path", "%s is containers' own: name a folder with users' files", p)
		}
		if !label(c.Claim) {
			f.Add(at+".claim", "%q %s", c.Claim, labelRule)
		}
		for _, o := range k.Claims[:i] {
			switch {
			case p != "" && o.Path != "" && (within(p, string(o.Path)) || within(string(o.Path), p)):
				f.Add(at+".path", "%s and %s, of the claim %s, are in each other: each file is in one claim", p, o.Path, o.Claim)
			case c.Claim != "" && c.Claim == o.Claim:
				f.Add(at+".claim", "%s is there twice: a claim has one path", c.Claim)
			}
		}
	}
}

// within reports whether a clean path is root, or below it.
func within(p, root string) bool {
	return p == root || strings.HasPrefix(p, strings.TrimSuffix(root, "/")+"/")
}

// checkKind refuses a model that isn't said to be found in exactly one way. The server checks
// selectors when it starts.
func (m KubeModel) checkKind(at string, f *fault.Fields) {
	switch {
	case m.Resource == "" && m.Class == "":
		f.Add(at+".resource", "say how it is asked for: resource, such as nvidia.com/gpu, or class, a DeviceClass")
	case m.Resource != "" && m.Class != "":
		f.Add(at+".class", "a model has either a resource or a class: remove one")
	case m.Class != "" && (!label(m.Class) || len(m.Labels) > 0):
		f.Add(at+".class", "%q must be the name of a DeviceClass, and labels are for a resource: a class has selectors", m.Class)
	case m.Resource != "" && !resourceName.MatchString(m.Resource):
		f.Add(at+".resource", "%q must be an extended resource, such as nvidia.com/gpu", m.Resource)
	case m.Resource != "" && len(m.Selectors) > 0:
		f.Add(at+".selectors", "are for a class: a resource has labels")
	}
}

var resourceName = regexp.MustCompile(`\A[a-z0-9]([a-z0-9.-]*[a-z0-9])?/[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?\z`)

// dnsLabel reports whether s is a name of a namespace.
func dnsLabel(s string) bool { return label(s) && !strings.Contains(s, ".") }

// checkKube refuses what is said of this machine, where jobs run on a cluster: nothing would
// come of it. What has a default is refused where it says something else.
func (c *Config) checkKube(f *fault.Fields) {
	if c.Engine.Kind != EngineKube {
		return
	}
	c.Engine.Kube.check("engine.kube", f)
	for i, r := range c.Mounts {
		on := func(k KubeClaim) bool {
			return k.Path != "" && (within(r, string(k.Path)) || within(string(k.Path), r))
		}
		if r != "~" && path.IsAbs(r) && !slices.ContainsFunc(c.Engine.Kube.Claims, on) {
			f.Add(element("mounts", i), "%s isn't on the cluster: say in engine.kube.claims which claim it is in, or remove it", r)
		}
	}
	const nodes = "is of jobs on this machine: on a cluster it is the nodes' own affair; remove it"
	e, usual := c.Engine, Default().Engine
	for _, key := range []struct {
		at  string
		set bool
	}{
		{"engine.endpoint", e.Endpoint != ""}, {"engine.node_name", e.NodeName != ""}, {"engine.fleet", e.Fleet != ""}, {"engine.subnet", e.Subnet != ""},
		{"engine.dns", len(e.DNS) > 0}, {"engine.host.devices", len(e.Host.Devices) > 0},
		{"engine.cgroup_parent", e.CgroupParent != usual.CgroupParent}, {"engine.bridge", e.Bridge != usual.Bridge},
		{"engine.reserve", e.Reserve != usual.Reserve}, {"engine.pids", e.Pids != usual.Pids}, {"engine.log_files", e.LogFiles != usual.LogFiles},
		{"engine.image_high", e.ImageHigh != usual.ImageHigh}, {"engine.image_low", e.ImageLow != usual.ImageLow},
		{"devices.offer", len(c.Devices.Offer) > 0}, {"devices.simulated.count", c.Devices.Simulated.Count > 0},
	} {
		if key.set {
			f.Add(key.at, nodes)
		}
	}
	if c.Network.Host {
		f.Add("network.host", "no job has a node's network: remove it")
	}
	if c.Defaults.Userns == UsernsOn {
		f.Add("defaults.userns", "there is no fake root on a cluster: use off")
	}
}
