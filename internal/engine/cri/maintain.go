package cri

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/engine/cri/logfile/rotation"
	"croft.dev/croft/internal/engine/cri/runtimed"
)

// recentUse protects an image that was pulled for a job which isn't started yet.
const recentUse = time.Hour

// Maintain does what has to be done now and then: it rotates logs, deletes those
// over their retention, and collects images when their file system fills up,
// never one in use or named in keep (references or ids). To be called about
// every ten seconds; one part's error doesn't keep the others from being tried.
func (e *Engine) Maintain(ctx context.Context, keep ...string) error {
	containers, err := e.rt.containers(ctx, e.mine(""))
	if err != nil {
		return err
	}
	sandboxes, err := e.rt.sandboxes(ctx, e.mine(""))
	if err != nil {
		return err
	}
	live := make(map[string]bool, len(sandboxes))
	for _, s := range sandboxes {
		live[s.GetLabels()[labelAttempt]] = true
	}
	hosts, err := e.hostSteps("")
	if err != nil {
		return err
	}
	for id := range hosts {
		live[string(id.Attempt)] = true
	}
	return errors.Join(
		e.rotateLogs(ctx, containers),
		e.expireLogs(live),
		e.sweep(live),
		e.sweepVolumes(),
		e.collectImages(ctx, keep),
	)
}

// rotateLogs rotates the logs of running containers; shims do that themselves.
func (e *Engine) rotateLogs(ctx context.Context, containers []*runtimeapi.Container) error {
	var errs []error
	for _, c := range containers {
		if c.GetState() != runtimeapi.ContainerState_CONTAINER_RUNNING {
			continue
		}
		path := e.logPath(engine.StepID{Attempt: engine.AttemptID(c.GetLabels()[labelAttempt]), N: stepOf(c.GetLabels())})
		if _, err := rotation.Rotate(path, e.cfg.Logs.MaxSize, time.Now()); err != nil {
			errs = append(errs, fmt.Errorf("cri: %w", err))
			continue
		}
		// Missing also when an earlier reopening failed.
		if _, err := os.Lstat(path); err == nil {
			continue
		}
		_, err := ask(ctx, e.rt, func(ctx context.Context) (*runtimeapi.ReopenContainerLogResponse, error) {
			return e.rt.runtime.ReopenContainerLog(ctx, &runtimeapi.ReopenContainerLogRequest{ContainerId: c.GetId()})
		})
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if err := rotation.Prune(path, e.cfg.Logs.Keep); err != nil {
			errs = append(errs, fmt.Errorf("cri: %w", err))
		}
	}
	return errors.Join(errs...)
}

// expireLogs deletes logs of removed attempts after their retention.
func (e *Engine) expireLogs(live map[string]bool) error {
	return e.eachOld(e.cfg.LogDir, e.cfg.Logs.Retention, live, func(name string) error {
		return os.RemoveAll(filepath.Join(e.cfg.LogDir, name))
	})
}

// sweep clears up after attempts that were given up before they had a sandbox
// and that nobody removes.
func (e *Engine) sweep(live map[string]bool) error {
	dir := filepath.Join(e.cfg.StateDir, "attempts")
	return e.eachOld(dir, 24*time.Hour, live, func(name string) error {
		return e.release(engine.AttemptID(name))
	})
}

// eachOld calls f for each directory in dir that is named after an attempt of
// this instance, not live, and whose newest file is older than age.
func (e *Engine) eachOld(dir string, age time.Duration, live map[string]bool, f func(name string) error) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("cri: %w", err)
	}
	limit := time.Now().Add(-age)
	var errs []error
	for _, d := range entries {
		name := d.Name()
		if !d.IsDir() || live[name] || !e.owns(engine.AttemptID(name)) || newest(filepath.Join(dir, name)).After(limit) {
			continue
		}
		if err := f(name); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// newest returns the latest modification time of a directory and its files.
func newest(dir string) time.Time {
	var at time.Time
	if st, err := os.Lstat(dir); err == nil {
		at = st.ModTime()
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return at
	}
	for _, d := range entries {
		if info, err := d.Info(); err == nil && info.ModTime().After(at) {
			at = info.ModTime()
		}
	}
	return at
}

// collectImages deletes the images used least recently from the high mark on
// until the low one is reached.
func (e *Engine) collectImages(ctx context.Context, keep []string) error {
	used, total, err := e.imageSpace(ctx)
	if err != nil || total == 0 || used*100 < total*int64(e.cfg.Images.High) {
		return err
	}
	excess := used - total/100*int64(e.cfg.Images.Low)
	candidates, err := e.unusedImages(ctx, keep)
	if err != nil {
		return err
	}
	for _, img := range candidates {
		if excess <= 0 {
			return nil
		}
		_, err := call(ctx, e.cfg.StartTimeout, func(ctx context.Context) (*runtimeapi.RemoveImageResponse, error) {
			return e.rt.image.RemoveImage(ctx, &runtimeapi.RemoveImageRequest{Image: &runtimeapi.ImageSpec{Image: img.GetId()}})
		})
		if err != nil {
			return err
		}
		e.log.Info("image collected", "image", img.GetId(), "names", img.GetRepoTags(), "bytes", img.GetSize())
		e.forgetImage(img.GetId())
		// The runtime frees the space later; its size is what can be known now.
		excess -= int64(img.GetSize())
	}
	return nil
}

// imageSpace returns how much of the images' file system is used, in bytes.
func (e *Engine) imageSpace(ctx context.Context) (used, total int64, err error) {
	dir, err := e.imageDir(ctx)
	if err != nil || dir == "" {
		return 0, 0, err
	}
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, 0, fmt.Errorf("cri: image file system: %w", err)
	}
	// As df(1) counts: what is reserved for root belongs to neither.
	size := st.Frsize
	used = int64(st.Blocks-st.Bfree) * size
	return used, used + int64(st.Bavail)*size, nil
}

// imageDir is where the runtime keeps images; empty if it doesn't say.
func (e *Engine) imageDir(ctx context.Context) (string, error) {
	r, err := ask(ctx, e.rt, func(ctx context.Context) (*runtimeapi.ImageFsInfoResponse, error) {
		return e.rt.image.ImageFsInfo(ctx, &runtimeapi.ImageFsInfoRequest{})
	})
	if err != nil || len(r.GetImageFilesystems()) == 0 {
		return "", err
	}
	return r.GetImageFilesystems()[0].GetFsId().GetMountpoint(), nil
}

// unusedImages returns the images that may be deleted, the one used longest ago
// first.
func (e *Engine) unusedImages(ctx context.Context, keep []string) ([]*runtimeapi.Image, error) {
	r, err := ask(ctx, e.rt, func(ctx context.Context) (*runtimeapi.ListImagesResponse, error) {
		return e.rt.image.ListImages(ctx, &runtimeapi.ListImagesRequest{})
	})
	if err != nil {
		return nil, err
	}
	containers, err := e.rt.containers(ctx, nil)
	if err != nil {
		return nil, err
	}
	needed := make(map[string]bool)
	for _, ref := range keep {
		needed[ref] = true
	}
	for _, c := range containers {
		needed[c.GetImageRef()] = true
		needed[c.GetImageId()] = true
		needed[c.GetImage().GetImage()] = true
	}
	limit := time.Now().Add(-recentUse)
	var out []*runtimeapi.Image
	lastUse := make(map[string]time.Time)
	for _, img := range r.GetImages() {
		if st, err := os.Stat(e.usedFile(img.GetId())); err == nil {
			lastUse[img.GetId()] = st.ModTime()
		}
		if !img.GetPinned() && !isNeeded(img, needed) && lastUse[img.GetId()].Before(limit) {
			out = append(out, img)
		}
	}
	slices.SortStableFunc(out, func(a, b *runtimeapi.Image) int {
		return cmp.Or(lastUse[a.GetId()].Compare(lastUse[b.GetId()]), strings.Compare(a.GetId(), b.GetId()))
	})
	return out, nil
}

// isNeeded reports whether an image is named by one of needed in any of the ways
// that images are named, or is a sandbox's.
func isNeeded(img *runtimeapi.Image, needed map[string]bool) bool {
	names := slices.Concat([]string{img.GetId()}, img.GetRepoTags(), img.GetRepoDigests())
	return slices.ContainsFunc(names, func(name string) bool {
		return needed[name] || needed[strings.TrimPrefix(name, "docker.io/library/")] ||
			needed[strings.TrimPrefix(name, "docker.io/")] || strings.HasPrefix(name, runtimed.PauseRepository+":")
	})
}
