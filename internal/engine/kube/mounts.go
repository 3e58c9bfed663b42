package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/engine/kube/files"
	"croft.dev/croft/internal/engine/record"
)

// mounted is what comes of a step's mounts.
type mounted struct {
	mounts  []engine.Mount // those that it has
	notes   []string       // what its user is told of those that it hasn't
	volumes []corev1.Volume
	within  []corev1.VolumeMount
	files   files.Set
}

// mountsOf finds what a step's mounts are on the cluster. have are the volumes of the Pod that
// a further step is added to, which can't be given others any more.
func (e *Engine) mountsOf(ctx context.Context, u engine.User, s engine.Step, have []corev1.Volume) (mounted, error) {
	out := mounted{
		within:  []corev1.VolumeMount{{Name: volumeCroft, MountPath: record.Root}, {Name: volumeShm, MountPath: "/dev/shm"}},
		volumes: have,
	}
	if s.N == engine.PrimaryStep { // others can't have a part of a volume
		for _, name := range []string{"passwd", "group"} {
			out.within = append(out.within, corev1.VolumeMount{Name: volumeCroft, SubPath: name, MountPath: "/etc/" + name, ReadOnly: true})
		}
	}
	for i, m := range s.Mounts {
		var err error
		switch {
		case m.Target == "":
			continue
		case m.Site: // programs has its file put into record.Root
			out.within = append(out.within, corev1.VolumeMount{Name: volumeCroft, MountPath: path.Dir(m.Target), ReadOnly: true})
		case m.Tmpfs > 0 && s.N == engine.PrimaryStep:
			err = out.tmpfs(i, m)
		case m.Tmpfs > 0:
			err = &engine.StartError{Message: "on this cluster a further step has none"}
		case m.Volume != "":
			err = &engine.StartError{Message: "on this cluster there are no named volumes"}
		default:
			err = e.bind(ctx, u, s, m, &out)
		}
		switch {
		case err == nil:
			out.mounts = append(out.mounts, m)
		case ctx.Err() != nil:
			return out, err
		case m.Optional != "":
			out.notes = append(out.notes, m.Optional+" isn't mounted: "+why(err))
		default:
			return out, of(m, err)
		}
	}
	if s.Host {
		if err := out.machine(e.cfg.Claims, s.N); err != nil {
			return out, err
		}
	}
	return out, nil
}

// tmpfs adds the i-th mount, an empty folder.
func (m *mounted) tmpfs(i int, ask engine.Mount) error {
	if err := m.files.Take(ask.Target); err != nil {
		return err
	}
	name := "tmp-" + strconv.Itoa(i)
	m.volumes = append(m.volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{
		Medium: corev1.StorageMediumMemory, SizeLimit: resource.NewQuantity(ask.Tmpfs, resource.BinarySI),
	}}})
	m.within = append(m.within, corev1.VolumeMount{Name: name, MountPath: path.Clean(ask.Target), ReadOnly: ask.ReadOnly})
	return nil
}

// bind adds a mount of files.
func (e *Engine) bind(ctx context.Context, u engine.User, s engine.Step, ask engine.Mount, out *mounted) error {
	p, err := e.cfg.Claims.OfFurther(ask)
	if s.N == engine.PrimaryStep {
		p, err = e.cfg.Claims.Of(ctx, u, ask)
	}
	if err != nil {
		return err
	}
	return out.add(p, s.N)
}

// machine adds what a program outside of containers finds: all files at their paths.
func (m *mounted) machine(claims files.Claims, step int) error {
	for _, p := range claims.Whole() {
		if err := m.add(p, step); err != nil {
			return of(engine.Mount{Source: p.Target}, err)
		}
		m.mounts = append(m.mounts, engine.Mount{Source: p.Target, Target: p.Target, ReadOnly: p.ReadOnly})
	}
	return nil
}

// add adds a part of a claim.
func (m *mounted) add(p files.Part, step int) error {
	name := claimVolume(m.volumes, p.Claim)
	if name == "" && step != engine.PrimaryStep {
		return &engine.StartError{Message: "a further step has only what its job mounts something of, and that is nothing of the claim " + p.Claim}
	}
	before := len(m.files.Parts)
	if err := m.files.Add(p); err != nil || len(m.files.Parts) == before {
		return err
	}
	if name == "" {
		name = fmt.Sprintf("files-%d", len(m.volumes))
		m.volumes = append(m.volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: p.Claim},
		}})
	}
	v := corev1.VolumeMount{Name: name, MountPath: p.Target, SubPath: p.Sub, ReadOnly: p.ReadOnly}
	if p.ReadOnly { // with all that is mounted below
		v.RecursiveReadOnly = ptr.To(corev1.RecursiveReadOnlyIfPossible)
	}
	m.within = append(m.within, v)
	return nil
}

// claimVolume is the name of the volume that is of a claim; empty where there is none.
func claimVolume(volumes []corev1.Volume, claim string) string {
	for _, v := range volumes {
		if c := v.PersistentVolumeClaim; c != nil && c.ClaimName == claim {
			return v.Name
		}
	}
	return ""
}

// of says of which mount an error is.
func of(m engine.Mount, err error) error {
	text := "mount " + cmp.Or(m.Source, m.Volume, m.Target) + ": " + why(err)
	if engine.IsUnavailable(err) {
		return &engine.UnavailableError{Cause: errors.New(text)}
	}
	return &engine.StartError{Message: text}
}

// why is what an error says to whoever mounts something.
func why(err error) string {
	var away *engine.UnavailableError
	if errors.As(err, &away) {
		return away.Cause.Error()
	}
	return err.Error()
}

// programs are the files of Croft's image that containers are given: the site's own, whose
// sources are paths there.
func programs(mounts []engine.Mount) []string {
	var out []string
	for _, m := range mounts {
		if m.Site {
			out = append(out, m.Source)
		}
	}
	return out
}
