package cri

import (
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	containersapi "github.com/containerd/containerd/api/services/containers/v1"
	contentapi "github.com/containerd/containerd/api/services/content/v1"
	diffapi "github.com/containerd/containerd/api/services/diff/v1"
	imagesapi "github.com/containerd/containerd/api/services/images/v1"
	leasesapi "github.com/containerd/containerd/api/services/leases/v1"
	snapshotsapi "github.com/containerd/containerd/api/services/snapshots/v1"
	"github.com/containerd/containerd/api/types"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/engine/cri/layer"
	"croft.dev/croft/internal/engine/record"
)

// An image is saved by what containerd has besides the CRI: what a container has written is
// compared with its image into a blob; that is rewritten as a layer; a configuration and a
// manifest follow; and only the last call gives it all a name. A lease keeps what is made
// until then, and ends by itself if the server does.

// saveLease is how long that is kept, at most.
const saveLease = 6 * time.Hour

// emptied are folders whose content belongs to the container's life, not to its image:
// sockets, keys of agents, what programs left there.
var emptied = []string{"/run", "/tmp", "/dev", "/proc", "/sys"}

// labelSaved is of an image that was saved: which request made it. With labelAdded it says
// how many bytes it added, with labelPackages which packages, as JSON.
const (
	labelSaved    = "croft.saved"
	labelAdded    = "croft.added"
	labelPackages = "croft.packages"
	labelBase     = "croft.base"
)

// saving is one image on its way.
type saving struct {
	e      *Engine
	req    engine.SaveRequest
	id     string // of what is made for it
	tell   func(engine.Progress)
	c      *containersapi.Container
	spec   containerSpec
	base   baseImage
	left   []*types.Mount // the image's files, the uppermost layer first
	result layer.Result
}

// containerSpec is what matters here of a container's OCI specification.
type containerSpec struct {
	Mounts []struct {
		Destination string `json:"destination"`
	} `json:"mounts"`
	Linux struct {
		UIDMappings []struct {
			ContainerID int64 `json:"containerID"`
			HostID      int64 `json:"hostID"`
			Size        int64 `json:"size"`
		} `json:"uidMappings"`
	} `json:"linux"`
}

// SaveImage implements engine.Engine.
func (e *Engine) SaveImage(ctx context.Context, step engine.StepID, req engine.SaveRequest, progress func(engine.Progress)) (engine.Saved, error) {
	if !e.cfg.Own {
		return engine.Saved{}, &engine.SaveError{Message: "images can only be saved with Croft's own container runtime; this site uses another one"}
	}
	if saved, ok, err := e.saved(ctx, step, req); err != nil || ok {
		return saved, err
	}
	have, err := e.find(ctx, step.Attempt)
	if err != nil {
		return engine.Saved{}, err
	}
	if _, host := have.hosts[step]; host {
		return engine.Saved{}, &engine.SaveError{Message: "it runs on the machine itself, not in a container"}
	}
	c := have.step(step.N)
	if c == nil {
		return engine.Saved{}, &engine.SaveError{Message: "its container is gone: what it had written outside of mounts went with it"}
	}
	s := &saving{e: e, req: req, id: "croft-save-" + string(step.Attempt) + "-" + strconv.FormatInt(time.Now().UnixNano(), 10), tell: progress}
	err = s.run(ctx, c, savedBy(step, req))
	if err != nil {
		return engine.Saved{}, s.failure(ctx, err)
	}
	return e.awaitSaved(ctx, step, req)
}

// savedBy tells requests apart: one that is made again finds what the first time made.
func savedBy(step engine.StepID, req engine.SaveRequest) string {
	return step.String() + "@" + strconv.FormatInt(req.At.UnixNano(), 10)
}

// saved is an image that the same request has made already. One of the same name that
// another made is in nobody's way: it is replaced.
func (e *Engine) saved(ctx context.Context, step engine.StepID, req engine.SaveRequest) (engine.Saved, bool, error) {
	img, ok, err := e.Image(ctx, req.Ref)
	if err != nil || !ok || img.Labels[labelSaved] != savedBy(step, req) {
		return engine.Saved{}, false, err
	}
	out := engine.Saved{Image: img, Base: img.Labels[labelBase]}
	if out.Added, err = strconv.ParseInt(img.Labels[labelAdded], 10, 64); err != nil {
		return out, false, fmt.Errorf("cri: label %s of %s: %w", labelAdded, req.Ref, err)
	}
	if err := json.Unmarshal([]byte(img.Labels[labelPackages]), &out.Packages); err != nil {
		return out, false, fmt.Errorf("cri: label %s of %s: %w", labelPackages, req.Ref, err)
	}
	return out, true, nil
}

// awaitSaved waits until the runtime's CRI knows an image: it hears of it by an event.
func (e *Engine) awaitSaved(ctx context.Context, step engine.StepID, req engine.SaveRequest) (engine.Saved, error) {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.StartTimeout)
	defer cancel()
	for {
		out, ok, err := e.saved(ctx, step, req)
		if err != nil || ok {
			return out, err
		}
		select {
		case <-ctx.Done():
			return out, &engine.UnavailableError{Cause: errors.New("the runtime doesn't know the image that was saved")}
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (s *saving) run(ctx context.Context, c *runtimeapi.Container, by string) error {
	ctx = ofCRI(ctx)
	ctx, done, err := s.lease(ctx)
	if err != nil {
		return err
	}
	defer done()
	if err := s.look(ctx, c); err != nil {
		return err
	}
	diff, err := s.compare(ctx)
	if err != nil {
		return err
	}
	l, diffID, err := s.layer(ctx, diff)
	if err != nil {
		return err
	}
	manifest, err := s.assemble(ctx, l, diffID, by)
	if err != nil {
		return err
	}
	return s.name(ctx, manifest)
}

// lease keeps what is made with the context that it returns, until done.
func (s *saving) lease(ctx context.Context) (_ context.Context, done func(), err error) {
	labels := map[string]string{"containerd.io/gc.expire": time.Now().Add(saveLease).UTC().Format(time.RFC3339)}
	if _, err = s.e.rt.leases.Create(ctx, &leasesapi.CreateRequest{ID: s.id, Labels: labels}); err != nil {
		return ctx, nil, err
	}
	done = func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.e.cfg.StartTimeout)
		defer cancel()
		if s.left != nil {
			_, err := s.e.rt.snapshots.Remove(ctx, &snapshotsapi.RemoveSnapshotRequest{Snapshotter: s.c.GetSnapshotter(), Key: s.id})
			if err != nil && !isNotFound(err) {
				s.e.log.Warn("a view of an image is kept for some hours", "snapshot", s.id, "error", err)
			}
		}
		if _, err := s.e.rt.leases.Delete(ctx, &leasesapi.DeleteRequest{ID: s.id}); err != nil {
			s.e.log.Warn("what was made for an image is kept for some hours", "lease", s.id, "error", err)
		}
	}
	return metadata.AppendToOutgoingContext(ctx, "containerd-lease", s.id), done, nil
}

// look finds the container, and the image that it was made of: by its content, since its
// name may mean another by now.
func (s *saving) look(ctx context.Context, c *runtimeapi.Container) error {
	r, err := s.e.rt.objects.Get(ctx, &containersapi.GetContainerRequest{ID: c.GetId()})
	if err != nil {
		return err
	}
	s.c = r.GetContainer()
	if err := json.Unmarshal(s.c.GetSpec().GetValue(), &s.spec); err != nil {
		return fmt.Errorf("cri: specification of %s: %w", c.GetId(), err)
	}
	s.base, err = s.e.baseOf(ctx, c.GetImageRef())
	return err
}

// compare writes what the container has that its image hasn't as a blob, and returns that.
func (s *saving) compare(ctx context.Context) (*types.Descriptor, error) {
	snapshots, key, kind := s.e.rt.snapshots, s.c.GetSnapshotKey(), s.c.GetSnapshotter()
	st, err := snapshots.Stat(ctx, &snapshotsapi.StatSnapshotRequest{Snapshotter: kind, Key: key})
	if err != nil {
		return nil, err
	}
	view, err := snapshots.View(ctx, &snapshotsapi.ViewSnapshotRequest{Snapshotter: kind, Key: s.id, Parent: st.GetInfo().GetParent()})
	if err != nil {
		return nil, err
	}
	s.left = view.GetMounts()
	upper, err := snapshots.Mounts(ctx, &snapshotsapi.MountsRequest{Snapshotter: kind, Key: key})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watched := make(chan struct{})
	go func() { defer close(watched); s.watch(ctx, cancel) }()
	r, err := s.e.rt.diff.Diff(ctx, &diffapi.DiffRequest{Left: view.GetMounts(), Right: upper.GetMounts(), MediaType: "application/vnd.oci.image.layer.v1.tar", Ref: s.id})
	large := new(layer.TooLargeError)
	if errors.As(context.Cause(ctx), &large) {
		err = large
	}
	cancel(nil)
	<-watched
	return r.GetDiff(), err
}

// watch follows a comparison, and ends it when it gets too large. Of what it writes some
// isn't kept, so it may be as much larger.
func (s *saving) watch(ctx context.Context, end func(error)) {
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		r, err := s.e.rt.content.Status(ctx, &contentapi.StatusRequest{Ref: s.id})
		if err != nil {
			continue // it hasn't begun
		}
		if done := r.GetStatus().GetOffset(); s.req.Max > 0 && done > 2*s.req.Max+(64<<20) {
			end(&layer.TooLargeError{Max: s.req.Max})
			return
		} else if s.tell != nil {
			s.tell(engine.Progress{Done: done})
		}
	}
}

// layer makes the layer of a comparison.
func (s *saving) layer(ctx context.Context, diff *types.Descriptor) (l descriptor, diffID string, err error) {
	src, err := s.e.readBlob(ctx, diff.GetDigest())
	if err != nil {
		return l, "", err
	}
	out, err := s.e.newBlob(ctx, s.id+"-layer")
	if err != nil {
		return l, "", err
	}
	defer out.close()
	zip, err := gzip.NewWriterLevel(out, gzip.BestSpeed)
	if err != nil {
		return l, "", err
	}
	sum := sha256.New()
	opts := layer.Options{Without: []string{record.Root}, Emptied: emptied, Max: s.req.Max, Base: s.lower}
	for _, m := range s.spec.Mounts {
		opts.Without = append(opts.Without, m.Destination)
	}
	for _, m := range s.spec.Linux.UIDMappings {
		if m.ContainerID == 0 {
			opts.First, opts.Size = m.HostID, m.Size
		}
	}
	opts.Without = slices.DeleteFunc(opts.Without, func(p string) bool { return slices.Contains(emptied, p) })
	s.result, err = layer.Write(io.MultiWriter(zip, sum), &counted{Reader: src, total: diff.GetSize(), tell: s.tell}, opts)
	if err == nil {
		err = zip.Close()
	}
	if err != nil {
		return l, "", err
	}
	if s.result.Files == 0 {
		return l, "", &engine.SaveError{Message: "it has written nothing outside of what it mounts and of /tmp and /run: there is nothing to save"}
	}
	diffID = digest(sum)
	l, err = out.commit(map[string]string{"containerd.io/uncompressed": diffID})
	l.MediaType = s.base.layerType()
	return l, diffID, err
}

// counted tells how much of a whole was read.
type counted struct {
	io.Reader
	done, total int64
	tell        func(engine.Progress)
	last        time.Time
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.done += int64(n)
	if now := time.Now(); c.tell != nil && now.Sub(c.last) > progressEvery {
		c.last = now
		c.tell(engine.Progress{Done: c.done, Total: c.total})
	}
	return n, err
}

// assemble writes the image's configuration and manifest, and returns the latter.
func (s *saving) assemble(ctx context.Context, l descriptor, diffID, by string) (descriptor, error) {
	packages := make([]engine.Package, 0, len(s.result.Packages))
	for _, p := range s.result.Packages {
		packages = append(packages, engine.Package(p))
	}
	packages = packages[:min(len(packages), engine.MaxPackages)]
	list, err := json.Marshal(packages)
	if err != nil {
		return descriptor{}, err
	}
	labels := map[string]string{labelSaved: by, labelAdded: strconv.FormatInt(s.result.Bytes, 10), labelPackages: string(list), labelBase: s.base.id}
	config, err := s.base.configWith(diffID, s.req, s.result.Packages, labels)
	if err != nil {
		return descriptor{}, err
	}
	c, err := s.e.putBlob(ctx, s.id+"-config", config, nil)
	if err != nil {
		return descriptor{}, err
	}
	manifest, refs, err := s.base.manifestWith(c, l)
	if err != nil {
		return descriptor{}, err
	}
	m, err := s.e.putBlob(ctx, s.id+"-manifest", manifest, refs)
	m.MediaType = s.base.mediaType
	return m, err
}

// name makes the image known, which is the moment from which it is there.
func (s *saving) name(ctx context.Context, manifest descriptor) error {
	image := &imagesapi.Image{Name: s.req.Ref, Target: manifest.proto(), Labels: map[string]string{labelSaved: s.e.cfg.Instance}}
	_, err := s.e.rt.named.Create(ctx, &imagesapi.CreateImageRequest{Image: image})
	if status.Code(err) == codes.AlreadyExists {
		_, err = s.e.rt.named.Update(ctx, &imagesapi.UpdateImageRequest{Image: image})
	}
	return err
}

// failure tells what nobody can mend by trying again from the rest.
func (s *saving) failure(ctx context.Context, err error) error {
	never, large, link := new(engine.SaveError), new(layer.TooLargeError), new(layer.LinkError)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &never):
		return never
	case errors.As(err, &large):
		return &engine.SaveError{TooLarge: true, Message: "it has written more than may be saved"}
	case errors.As(err, &link):
		return &engine.SaveError{Message: link.Error()}
	case diskPattern.MatchString(err.Error()):
		return &engine.SaveError{Message: "no space is left for images on the machine"}
	}
	return classify(err)
}

// RemoveImage implements engine.Engine.
func (e *Engine) RemoveImage(ctx context.Context, ref string) error {
	img, ok, err := e.Image(ctx, ref)
	if err != nil || !ok {
		return err
	}
	_, err = call(ctx, e.cfg.StartTimeout, func(ctx context.Context) (*runtimeapi.RemoveImageResponse, error) {
		return e.rt.image.RemoveImage(ctx, &runtimeapi.RemoveImageRequest{Image: &runtimeapi.ImageSpec{Image: img.ID}})
	})
	if err == nil {
		e.forgetImage(img.ID)
	}
	return err
}

// SavedImages implements engine.Engine.
func (e *Engine) SavedImages(ctx context.Context, prefix string) ([]string, error) {
	r, err := ask(ctx, e.rt, func(ctx context.Context) (*runtimeapi.ListImagesResponse, error) {
		return e.rt.image.ListImages(ctx, &runtimeapi.ListImagesRequest{})
	})
	if err != nil {
		return nil, err
	}
	var out []string
	for _, img := range r.GetImages() {
		for _, name := range img.GetRepoTags() {
			if strings.HasPrefix(name, prefix) {
				out = append(out, name)
			}
		}
	}
	return out, nil
}
