package cri

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/engine/cri/cgroup"
	"croft.dev/croft/internal/engine/record"
)

const (
	// cpuPeriod of the CFS quota in microseconds, the kernel's default.
	cpuPeriod = 100_000
	// oomScore makes a job's processes likelier victims than the machine's own
	// services when the whole machine runs out of memory.
	oomScore = 500
	// sandboxMemory is what the attempt's control group may hold beyond the job's
	// memory, in bytes, for the sandbox's own process: the job's container can use
	// all that was promised.
	sandboxMemory = 16 << 20
)

func (e *Engine) logDir(id engine.AttemptID) string { return filepath.Join(e.cfg.LogDir, string(id)) }
func (e *Engine) logPath(id engine.StepID) string {
	return filepath.Join(e.logDir(id.Attempt), logName(id.N))
}

// logName is the name of a step's log: JOB.1 is the primary.
func logName(n int) string { return strconv.Itoa(n) + ".log" }

// containerName is unique in its sandbox.
func containerName(n int) string {
	if n == engine.PrimaryStep {
		return "primary"
	}
	return "step-" + strconv.Itoa(n)
}

// sandboxConfig is an attempt's sandbox; note is kept with it for further steps.
func (e *Engine) sandboxConfig(a engine.Allocation, note string) *runtimeapi.PodSandboxConfig {
	return &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{
			Name:      fmt.Sprintf("job-%d", a.Job),
			Uid:       string(a.Attempt),
			Namespace: "croft-" + shorten(e.cfg.Instance, 8),
			Attempt:   uint32(a.N),
		},
		Hostname:     hostnameOf(a),
		LogDirectory: e.logDir(a.Attempt),
		DnsConfig:    e.dns(a.Pod),
		PortMappings: e.ports(a.Pod),
		Labels:       e.labelsOf(a),
		Annotations:  annotationsOf(a.Userns, note),
		Linux: &runtimeapi.LinuxPodSandboxConfig{
			CgroupParent: e.cgroupParent(a.Attempt),
			SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
				NamespaceOptions: namespaces(a),
				RunAsUser:        &runtimeapi.Int64Value{Value: 65534},
				RunAsGroup:       &runtimeapi.Int64Value{Value: 65534},
				ReadonlyRootfs:   true,
				Seccomp:          runtimeDefault(),
			},
		},
	}
}

// cgroupParent is the attempt's group in the form that the runtime's driver
// wants: a path, or the name of a slice.
func (e *Engine) cgroupParent(id engine.AttemptID) string {
	if e.facts.JobCgroups {
		return e.cgroupOf(id)
	}
	// In a slice's name a dash stands for a level of the hierarchy.
	return sliceOf(e.cfg.CgroupParent) + "-" + sliceOf(string(id)) + ".slice"
}

func sliceOf(name string) string { return strings.ReplaceAll(name, "-", "_") }

func (e *Engine) limits(a engine.Allocation) cgroup.Limits {
	return cgroup.Limits{Memory: a.Memory + sandboxMemory, Pids: e.cfg.PidsMax}
}

// namespaces are those of an attempt's sandbox and containers.
func namespaces(a engine.Allocation) *runtimeapi.NamespaceOption {
	network := runtimeapi.NamespaceMode_POD
	if a.Pod.HostNetwork {
		network = runtimeapi.NamespaceMode_NODE
	}
	pid := runtimeapi.NamespaceMode_CONTAINER
	if a.Pod.SharePID {
		pid = runtimeapi.NamespaceMode_POD
	}
	return &runtimeapi.NamespaceOption{
		Network: network,
		Pid:     pid,
		Ipc:     runtimeapi.NamespaceMode_POD,

		UsernsOptions: options(a.Userns),
	}
}

func runtimeDefault() *runtimeapi.SecurityProfile {
	return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault}
}

// containerConfig is a step's container, which begins by telling the user notes, if any.
func (e *Engine) containerConfig(a engine.Allocation, s engine.Step, img imageConfig, notes []string) (*runtimeapi.ContainerConfig, error) {
	argv, err := argv(s.Container, img)
	if err != nil {
		return nil, err
	}
	image := s.ImageID
	if image == "" {
		image = s.Image
	}
	cfg := &runtimeapi.ContainerConfig{
		Metadata:   &runtimeapi.ContainerMetadata{Name: containerName(s.N)},
		Image:      &runtimeapi.ImageSpec{Image: image, UserSpecifiedImage: s.Image},
		Command:    slices.Concat(initCommand(s.Container, notes), argv),
		WorkingDir: s.Workdir,
		Envs:       environment(a, s.Container),
		Mounts:     e.mounts(a, s),
		Labels:     e.labelsOfStep(a, s),
		LogPath:    logName(s.N),
		Stdin:      s.Stdin,
		StdinOnce:  s.Stdin && !s.TTY,
		Tty:        s.TTY,
		Linux: &runtimeapi.LinuxContainerConfig{
			Resources: &runtimeapi.LinuxContainerResources{
				CpuPeriod:          cpuPeriod,
				CpuQuota:           max(s.CPU*cpuPeriod/1000, 1000), // the kernel's least
				CpuShares:          max(s.CPU*1024/1000, 2),
				MemoryLimitInBytes: s.Memory,
				OomScoreAdj:        oomScore,
			},
			SecurityContext: security(a),
		},
	}
	for _, d := range s.Devices {
		if d.CDI != "" {
			cfg.CDIDevices = append(cfg.CDIDevices, &runtimeapi.CDIDevice{Name: d.CDI})
		}
	}
	return cfg, nil
}

// initCommand is how croft-init is called for what a container runs, which begins by
// telling the user notes, if any.
func initCommand(c engine.Container, notes []string) []string {
	cmd := []string{record.InitPath}
	if len(notes) > 0 {
		cmd = append(cmd, "--note", strings.Join(notes, "\ncroft: ")) // it begins the first line so
	}
	if c.AwaitAttach {
		cmd = append(cmd, "--attach", engine.AttachWithin.String())
	}
	return append(cmd, "--")
}

// security gives the container the user's own identity and nothing else, or what is his
// in a user namespace, with root's rights over that.
func security(a engine.Allocation) *runtimeapi.LinuxContainerSecurityContext {
	u, ns := a.User, a.Userns
	sc := &runtimeapi.LinuxContainerSecurityContext{
		Capabilities:             &runtimeapi.Capability{DropCapabilities: []string{"ALL"}},
		NamespaceOptions:         namespaces(a),
		RunAsUser:                &runtimeapi.Int64Value{Value: u.UID},
		RunAsGroup:               &runtimeapi.Int64Value{Value: u.GID},
		SupplementalGroupsPolicy: runtimeapi.SupplementalGroupsPolicy_Strict, // none from the image
		NoNewPrivs:               true,
		Seccomp:                  runtimeDefault(),
		MaskedPaths: []string{
			"/proc/asound", "/proc/acpi", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
			"/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware",
			"/sys/devices/virtual/powercap",
		},
		ReadonlyPaths: []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"},
	}
	if ns != nil {
		sc.Capabilities.AddCapabilities = rootCapabilities
		sc.RunAsUser.Value, sc.RunAsGroup.Value = ns.UID, ns.GID
		sc.NoNewPrivs = false // su, sudo: privileges over the namespace are all there are
		return sc
	}
	for _, g := range u.Groups {
		sc.SupplementalGroups = append(sc.SupplementalGroups, g.GID)
	}
	return sc
}

func (e *Engine) mounts(a engine.Allocation, step engine.Step) []*runtimeapi.Mount {
	s := e.scratch(a.Attempt)
	own := s.step(step.N)
	mounts := []*runtimeapi.Mount{
		{ContainerPath: "/dev/shm", HostPath: s.shm()},
		{ContainerPath: "/etc/hosts", HostPath: s.hosts(), Readonly: true},
		{ContainerPath: record.InitPath, HostPath: e.cfg.InitPath, Readonly: true},
		{ContainerPath: record.Dir, HostPath: own.record()},
	}
	if a.Userns == nil { // else the image's own users are those of the namespace
		mounts = append(mounts,
			&runtimeapi.Mount{ContainerPath: "/etc/passwd", HostPath: own.passwd(), Readonly: true},
			&runtimeapi.Mount{ContainerPath: "/etc/group", HostPath: s.group(), Readonly: true})
	}
	for i, m := range step.Mounts {
		if m.Target == "" {
			continue
		}
		// what is below a read-only one is read-only already
		mounts = append(mounts, &runtimeapi.Mount{ContainerPath: m.Target, HostPath: own.mountPoint(i), Readonly: m.ReadOnly})
	}
	return mounts
}

// environment is the job's, over what a login would set.
func environment(a engine.Allocation, c engine.Container) []*runtimeapi.KeyValue {
	env := login(a, c.Mounts)
	for _, m := range c.Mounts {
		maps.Copy(env, m.Env)
	}
	for k, v := range c.Env {
		env[k] = v
	}
	// Devices come by CDI alone. Where a site's runtime has NVIDIA's hook, the hook
	// would give every device to whoever names it here, as most CUDA images do.
	env["NVIDIA_VISIBLE_DEVICES"] = "void"
	names := make([]string, 0, len(env))
	for k := range env {
		names = append(names, k)
	}
	slices.Sort(names)
	out := make([]*runtimeapi.KeyValue, 0, len(names))
	for _, k := range names {
		out = append(out, &runtimeapi.KeyValue{Key: k, Value: []byte(env[k])})
	}
	return out
}

// login is what a login of whom the containers run as would set. Whom else than root an
// image knows in a user namespace, the runtime finds out.
func login(a engine.Allocation, mounts []engine.Mount) map[string]string {
	env := map[string]string{"SHELL": shellOf(a.User)}
	home := mountedHome(a.User, mounts)
	switch {
	case a.Userns == nil:
		env["USER"], env["HOME"] = a.User.Name, cmp.Or(home, noHome)
	case a.Userns.UID == 0:
		env["USER"], env["HOME"] = "root", cmp.Or(home, "/root")
	case home != "":
		env["HOME"] = home
	}
	if name, ok := env["USER"]; ok {
		env["LOGNAME"] = name
	}
	return env
}

func shorten(s string, n int) string { return s[:min(len(s), n)] }
