package cri

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/distribution/reference"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"croft.dev/croft/internal/engine"
)

// Image implements engine.Engine.
func (e *Engine) Image(ctx context.Context, ref string) (engine.Image, bool, error) {
	name, _, err := fullName(ref)
	if err != nil {
		return engine.Image{}, false, nil
	}
	r, err := e.imageStatus(ctx, name)
	if err != nil {
		if status.Code(err) == codes.InvalidArgument || isNotFound(err) {
			return engine.Image{}, false, nil
		}
		return engine.Image{}, false, err
	}
	img := r.GetImage()
	if img == nil {
		return engine.Image{}, false, nil
	}
	cfg, err := parseImageInfo(r.GetInfo()["info"])
	if err == nil {
		e.mu.Lock()
		e.images[img.GetId()] = cfg
		e.mu.Unlock()
	}
	return engine.Image{
		Ref: ref, ID: img.GetId(), Size: int64(img.GetSize()), User: cfg.User, Labels: cfg.Labels,
	}, true, nil
}

// Pull implements engine.Engine.
func (e *Engine) Pull(ctx context.Context, req engine.PullRequest, progress func(engine.Progress)) (engine.Image, error) {
	if err := ctx.Err(); err != nil {
		return engine.Image{}, err
	}
	select {
	case e.pulls <- struct{}{}:
		defer func() { <-e.pulls }()
	case <-ctx.Done():
		return engine.Image{}, ctx.Err()
	}
	name, host, err := fullName(req.Ref)
	if err != nil {
		return engine.Image{}, &engine.PullError{Ref: req.Ref, NotFound: true, Message: "this is no image reference"}
	}
	stop := func() {}
	if progress != nil && e.facts.PullProgress {
		stop = e.report(ctx, progress)
	}
	r, err := e.rt.image.PullImage(ctx, &runtimeapi.PullImageRequest{
		Image: &runtimeapi.ImageSpec{Image: name},
		Auth:  auth(req, host),
	})
	stop()
	if err != nil {
		return engine.Image{}, e.pullError(ctx, req.Ref, err)
	}
	e.touchImage(r.GetImageRef())
	img, ok, err := e.Image(ctx, req.Ref)
	if err == nil && !ok {
		err = &engine.PullError{Ref: req.Ref, Message: "the image was removed while it was pulled"}
	}
	return img, err
}

// auth is what to authenticate with, at the image's registry and nowhere else: not at a
// mirror, which the runtime may ask first.
func auth(req engine.PullRequest, host string) *runtimeapi.AuthConfig {
	if req.Username == "" && req.Password == "" {
		return nil
	}
	return &runtimeapi.AuthConfig{Username: req.Username, Password: req.Password, ServerAddress: "https://" + host}
}

// fullName is an image's name with its registry, and that registry's host. A runtime also
// takes an image's own digest, or the beginning of it, for a name; here it is none, so
// that whoever may not pull an image can't name it by its content.
func fullName(ref string) (full, host string, err error) {
	named, err := reference.ParseDockerRef(ref)
	if err != nil {
		return "", "", err
	}
	if host = reference.Domain(named); host == "docker.io" {
		host = "registry-1.docker.io"
	}
	return named.String(), host, nil
}

// pullPatterns classify what registries and the runtime say, where the code of
// the answer doesn't.
var (
	deniedPattern    = regexp.MustCompile(`(?i)unauthorized|denied|insufficient_scope|authorization failed|\b40[13]\b`)
	notFoundPattern  = regexp.MustCompile(`(?i)not found|manifest unknown|name unknown|\b404\b`)
	unreachPattern   = regexp.MustCompile(`(?i)dial tcp|no such host|connection refused|i/o timeout|tls: |x509: |network is unreachable|\b50[234]\b`)
	diskPattern      = regexp.MustCompile(`(?i)no space left on device`)
	referencePattern = regexp.MustCompile(`(?i)invalid reference|failed to parse image reference`)
)

func (e *Engine) pullError(ctx context.Context, ref string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	e.log.Warn("image not pulled", "image", ref, "error", err)
	text := err.Error()
	p := &engine.PullError{Ref: ref}
	switch code := status.Code(err); {
	case code == codes.PermissionDenied, code == codes.Unauthenticated, deniedPattern.MatchString(text):
		p.Denied = true
		p.Message = "the registry denies access: the image doesn't exist, or credentials are missing or wrong"
	case unreachPattern.MatchString(text):
		p.Message = "the registry can't be reached"
	case code == codes.NotFound, notFoundPattern.MatchString(text):
		p.NotFound = true
		p.Message = "no such image"
	case code == codes.InvalidArgument, referencePattern.MatchString(text):
		p.NotFound = true
		p.Message = "this is no image reference"
	case diskPattern.MatchString(text):
		p.Message = "no space is left for images on the machine"
	case engine.IsUnavailable(classify(err)):
		return classify(err)
	default:
		p.Message = "the image could not be pulled"
	}
	return p
}

// usedFile records when an image was last used, as a file's time: the runtime
// doesn't know it.
func (e *Engine) usedFile(id string) string {
	return filepath.Join(e.cfg.StateDir, "images", filepath.Base(id))
}

func (e *Engine) touchImage(id string) {
	path := e.usedFile(id)
	now := time.Now()
	if os.Chtimes(path, now, now) == nil {
		return
	}
	// Without the record an image counts as unused: it may be collected early
	// and pulled again.
	if os.MkdirAll(filepath.Dir(path), 0o711) == nil {
		_ = os.WriteFile(path, nil, 0o600)
	}
}

func (e *Engine) forgetImage(id string) {
	_ = os.Remove(e.usedFile(id))
	e.mu.Lock()
	delete(e.images, id)
	e.mu.Unlock()
}
