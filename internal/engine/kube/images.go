package kube

import (
	"context"
	"errors"
	"net/http"
	"runtime"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"croft.dev/croft/internal/engine"
)

// Image implements engine.Engine. What images a node has is the kubelet's affair: one that
// its registry has is there. Its digest is what runs.
func (e *Engine) Image(ctx context.Context, ref string) (engine.Image, bool, error) {
	img, err := e.resolve(ctx, ref, authn.Anonymous)
	var refused *engine.PullError
	if errors.As(err, &refused) {
		return engine.Image{}, false, nil
	}
	return img, err == nil, err
}

// Pull implements engine.Engine: it looks whether the image is to be had, and how large it
// is. The node fetches it when it runs it.
func (e *Engine) Pull(ctx context.Context, req engine.PullRequest, progress func(engine.Progress)) (engine.Image, error) {
	auth := authn.Anonymous
	if req.Username != "" || req.Password != "" {
		auth = &authn.Basic{Username: req.Username, Password: req.Password}
	}
	return e.resolve(ctx, req.Ref, auth)
}

// resolve asks an image's registry.
func (e *Engine) resolve(ctx context.Context, ref string, auth authn.Authenticator) (engine.Image, error) {
	if err := ctx.Err(); err != nil {
		return engine.Image{}, err
	}
	r, err := name.ParseReference(ref)
	if err != nil {
		return engine.Image{}, &engine.PullError{Ref: ref, NotFound: true, Message: "this is no image reference"}
	}
	by := e.cfg.Registries
	if auth == authn.Anonymous {
		by = mirrored{by, e.cfg.Mirrors}
	}
	img, err := remote.Image(r, remote.WithContext(ctx), remote.WithAuth(auth), remote.WithTransport(by), remote.WithPlatform(v1.Platform{OS: "linux", Architecture: runtime.GOARCH}))
	if err != nil {
		return engine.Image{}, pullError(ctx, ref, err)
	}
	digest, err := img.Digest()
	if err != nil {
		return engine.Image{}, pullError(ctx, ref, err)
	}
	m, err := img.Manifest()
	if err != nil {
		return engine.Image{}, pullError(ctx, ref, err)
	}
	out := engine.Image{Ref: ref, ID: digest.String(), Size: m.Config.Size}
	for _, l := range m.Layers {
		out.Size += l.Size
	}
	return out, nil
}

// pullError is what a registry's answer means.
func pullError(ctx context.Context, ref string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var t *transport.Error
	if errors.As(err, &t) {
		switch t.StatusCode {
		case http.StatusNotFound:
			return &engine.PullError{Ref: ref, NotFound: true, Message: "there is no such image"}
		case http.StatusUnauthorized, http.StatusForbidden:
			return &engine.PullError{Ref: ref, Denied: true, Message: "the registry denies it: log in with croft registry login; the nodes pull it by what the cluster itself has for that registry, which an admin sets up"}
		}
	}
	return &engine.UnavailableError{Cause: err}
}

// SaveImage implements engine.Engine.
func (e *Engine) SaveImage(ctx context.Context, step engine.StepID, req engine.SaveRequest, progress func(engine.Progress)) (engine.Saved, error) {
	if err := ctx.Err(); err != nil {
		return engine.Saved{}, err
	}
	return engine.Saved{}, &engine.SaveError{Message: "on a cluster no image is made of what a job has written"}
}

// RemoveImage implements engine.Engine: none was made.
func (e *Engine) RemoveImage(ctx context.Context, ref string) error { return ctx.Err() }

// SavedImages implements engine.Engine.
func (e *Engine) SavedImages(ctx context.Context, prefix string) ([]string, error) {
	return nil, ctx.Err()
}
