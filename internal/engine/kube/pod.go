package kube

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/engine/record"
)

// Volumes of every Pod.
const (
	volumeCroft = "croft" // record.Root
	volumeShm   = "shm"
)

// mostOwn bounds what is in record.Root: Croft's programs, and notes of which jobs can write
// some.
const mostOwn = 256 << 20

// stepDir is a step's own folder.
func stepDir(n int) string { return record.Root + "/" + strconv.Itoa(n) }

// reportPath is where a step's program is told of when it has ended: the container's
// termination message.
func reportPath(n int) string { return record.Root + "/" + strconv.Itoa(n) + ".exit" }

// pod is an attempt's Pod.
func (e *Engine) pod(ctx context.Context, a engine.Allocation) (*corev1.Pod, error) {
	labels, annotations := identity(a)
	m, err := e.mountsOf(ctx, a.User, a.Primary(), nil)
	if err != nil {
		return nil, err
	}
	primary, err := e.container(a, a.Primary(), m)
	if err != nil {
		return nil, err
	}
	resources := amounts(a.CPU, a.Memory)
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: podName(a.Attempt), Namespace: e.cfg.Namespace, Labels: labels, Annotations: annotations, Finalizers: []string{finalizer},
		},
		Spec: corev1.PodSpec{
			RestartPolicy:                 corev1.RestartPolicyNever,
			TerminationGracePeriodSeconds: ptr.To(int64(0)),
			AutomountServiceAccountToken:  ptr.To(false),
			PriorityClassName:             e.cfg.PriorityClass,
			EnableServiceLinks:            ptr.To(false),
			Hostname:                      a.Pod.Hostname,
			ShareProcessNamespace:         ptr.To(a.Pod.SharePID),
			SecurityContext:               podSecurity(a),
			Resources:                     &resources,
			InitContainers:                []corev1.Container{e.installer(a)},
			Containers:                    []corev1.Container{primary},
			Volumes: []corev1.Volume{
				{Name: volumeCroft, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{
					SizeLimit: resource.NewQuantity(mostOwn, resource.BinarySI),
				}}},
				{Name: volumeShm, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{
					Medium: corev1.StorageMediumMemory, SizeLimit: resource.NewQuantity(a.Memory/2, resource.BinarySI),
				}}},
			},
		},
	}
	if a.Node != "" {
		p.Spec.Affinity = on(a.Node)
	}
	if len(a.Pod.DNS) > 0 {
		// Beside the nodes' own a Pod's would be asked after them.
		p.Spec.DNSPolicy, p.Spec.DNSConfig = corev1.DNSNone, &corev1.PodDNSConfig{Nameservers: a.Pod.DNS}
	}
	p.Spec.Volumes = append(p.Spec.Volumes, m.volumes...)
	nameRank(a, p)
	return p, e.give(a, p)
}

// amounts are what a container may use, and what is kept for it.
func amounts(cpu, memory int64) corev1.ResourceRequirements {
	list := corev1.ResourceList{
		corev1.ResourceCPU: *resource.NewMilliQuantity(cpu, resource.DecimalSI), corev1.ResourceMemory: *resource.NewQuantity(memory, resource.BinarySI),
	}
	return corev1.ResourceRequirements{Limits: list, Requests: maps.Clone(list)}
}

// on is what leads the scheduler to one node, by its name: the label of its host's name may be
// another, or lack.
func on(node string) *corev1.Affinity {
	named := corev1.NodeSelectorRequirement{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{named}}},
	}}}
}

// chosen is the node that a Pod is led to; empty if it is any.
func chosen(p *corev1.Pod) string {
	if p.Spec.Affinity == nil || p.Spec.Affinity.NodeAffinity == nil || p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return ""
	}
	for _, term := range p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		for _, f := range term.MatchFields {
			if f.Key == metav1.ObjectNameField && len(f.Values) == 1 {
				return f.Values[0]
			}
		}
	}
	return ""
}

// bounded adds how much of the node's disk a container may fill. Nothing is kept for it: Croft
// places jobs by what they ask for, and a node may be full by that alone.
func (e *Engine) bounded(r corev1.ResourceRequirements) corev1.ResourceRequirements {
	if e.cfg.Scratch > 0 {
		r.Limits[corev1.ResourceEphemeralStorage] = *resource.NewQuantity(e.cfg.Scratch, resource.BinarySI)
		r.Requests[corev1.ResourceEphemeralStorage] = *resource.NewQuantity(0, resource.BinarySI)
	}
	return r
}

// podSecurity gives the Pod the user's own identity and nothing else.
func podSecurity(a engine.Allocation) *corev1.PodSecurityContext {
	sc := &corev1.PodSecurityContext{
		RunAsUser: ptr.To(a.User.UID), RunAsGroup: ptr.To(a.User.GID), RunAsNonRoot: ptr.To(true),
		SupplementalGroupsPolicy: ptr.To(corev1.SupplementalGroupsPolicyStrict), // none from the image
		SeccompProfile:           &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
	for _, g := range a.User.Groups {
		sc.SupplementalGroups = append(sc.SupplementalGroups, g.GID)
	}
	return sc
}

func containerSecurity() *corev1.SecurityContext {
	return &corev1.SecurityContext{
		AllowPrivilegeEscalation: ptr.To(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
}

// installer puts croft-init, and who the user is, where all of the Pod's containers find it.
func (e *Engine) installer(a engine.Allocation) corev1.Container {
	return corev1.Container{
		Name: "croft", Image: e.cfg.Image, ImagePullPolicy: corev1.PullIfNotPresent,
		Command:         append([]string{"/croft-init", "--install", record.Root}, programs(a.Mounts)...),
		Env:             []corev1.EnvVar{{Name: "CROFT_PASSWD", Value: escape(a.User.PasswdFile(homeOf(a.User, a.Mounts)))}, {Name: "CROFT_GROUP", Value: escape(a.User.GroupFile())}},
		Resources:       e.bounded(amounts(a.CPU, a.Memory)),
		VolumeMounts:    []corev1.VolumeMount{{Name: volumeCroft, MountPath: record.Root}},
		SecurityContext: containerSecurity(),
	}
}

// container is a step's. That of a further step is made to an ephemeral one.
func (e *Engine) container(a engine.Allocation, s engine.Step, m mounted) (corev1.Container, error) {
	s.Mounts = m.mounts
	if s.Host {
		s.Workdir = cmp.Or(s.Workdir, homeOf(a.User, m.mounts))
	}
	dir, enter := m.files.Begin(s.Workdir)
	if enter != "" && !s.Pause && len(s.Command) == 0 {
		return corev1.Container{}, &engine.StartError{Message: "on this cluster a program that begins in " + enter + " needs a command: what the image runs by itself begins where the image says"}
	}
	c := corev1.Container{
		Name: containerName(s.N), Image: imageOf(s.Container), ImagePullPolicy: corev1.PullIfNotPresent,
		WorkingDir: dir, Stdin: s.Stdin, StdinOnce: s.Stdin && !s.TTY, TTY: s.TTY,
		Env: environment(a, s.Container), Resources: e.bounded(amounts(s.CPU, s.Memory)),
		TerminationMessagePath: reportPath(s.N), TerminationMessagePolicy: corev1.TerminationMessageReadFile,
		SecurityContext: containerSecurity(), VolumeMounts: m.within,
	}
	if s.Host {
		c.Image = e.cfg.Image
	}
	if enter != "" {
		c.Env = append(c.Env, corev1.EnvVar{Name: record.Workdir, Value: escape(enter)})
	}
	switch {
	case s.Pause:
		c.Command = []string{record.InitPath, "--pause"}
	case len(s.Command) > 0:
		c.Command = escapeAll(slices.Concat(initCommand(s, m.notes), s.Command, s.Args))
	default:
		// What the image runs by itself only the node knows, so that nobody stands between.
		c.Args = escapeAll(s.Args)
	}
	return c, nil
}

// initCommand is how croft-init is called before the command, which begins by telling the
// user notes, if any.
func initCommand(s engine.Step, notes []string) []string {
	cmd := []string{record.InitPath, "--dir", stepDir(s.N), "--report", reportPath(s.N)}
	if len(notes) > 0 {
		cmd = append(cmd, "--note", strings.Join(notes, "\ncroft: ")) // it begins the first line so
	}
	if s.AwaitAttach {
		cmd = append(cmd, "--attach", engine.AttachWithin.String())
	}
	return append(cmd, "--")
}

// imageOf is the image by its digest, if that is known: what a name stands for can change.
func imageOf(c engine.Container) string {
	r, err := name.ParseReference(c.Image)
	if err != nil || c.ImageID == "" {
		return c.Image
	}
	return r.Context().Digest(c.ImageID).Name()
}

// noHome is the home of a user who has none in the container.
const noHome = "/tmp"

// environment is the job's, over what a login would set.
func environment(a engine.Allocation, c engine.Container) []corev1.EnvVar {
	env := map[string]string{
		"USER": a.User.Name, "LOGNAME": a.User.Name, "HOME": homeOf(a.User, c.Mounts), "SHELL": cmp.Or(a.User.Shell, "/bin/sh"),
	}
	for _, m := range c.Mounts {
		maps.Copy(env, m.Env)
	}
	maps.Copy(env, c.Env)
	var out []corev1.EnvVar
	for _, k := range slices.Sorted(maps.Keys(env)) {
		out = append(out, corev1.EnvVar{Name: k, Value: escape(env[k])})
	}
	return out
}

// escape keeps Kubernetes from expanding $(NAME) in a value.
func escape(v string) string { return strings.ReplaceAll(v, "$", "$$") }

func escapeAll(args []string) []string {
	var out []string
	for _, a := range args {
		out = append(out, escape(a))
	}
	return out
}
