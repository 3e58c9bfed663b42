package cri

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/engine/record"
)

// imageConfig is what an image says about how it is run.
type imageConfig struct {
	User       string            `json:"User"`
	Entrypoint []string          `json:"Entrypoint"`
	Cmd        []string          `json:"Cmd"`
	Labels     map[string]string `json:"Labels"`
}

// argv is the command line that the image and the job make together. As in
// Docker and Kubernetes, the job's command replaces the image's entry point with
// its command, the job's arguments only the latter.
func argv(c engine.Container, img imageConfig) ([]string, error) {
	var argv []string
	switch {
	case c.Pause:
		return []string{record.InitPath, "--pause"}, nil
	case len(c.Command) > 0:
		argv = slices.Concat(c.Command, c.Args)
	case len(c.Args) > 0:
		argv = slices.Concat(img.Entrypoint, c.Args)
	default:
		argv = slices.Concat(img.Entrypoint, img.Cmd)
	}
	if len(argv) == 0 || argv[0] == "" {
		return nil, &engine.StartError{Message: "no command is given, and the image " + c.Image + " has none"}
	}
	return argv, nil
}

// imageOf returns the configuration of a step's image, which must be there.
// It is asked for only when the command line depends on it and once per image.
func (e *Engine) imageOf(ctx context.Context, c engine.Container) (imageConfig, error) {
	ref := c.ImageID
	if ref == "" {
		ref = c.Image
	}
	if cfg, ok := e.cachedImage(ref); ok {
		e.touchImage(ref)
		return cfg, nil
	}
	r, err := e.imageStatus(ctx, ref)
	if err != nil {
		return imageConfig{}, err
	}
	if r.GetImage() == nil {
		return imageConfig{}, &engine.StartError{Message: "the image " + c.Image + " isn't on " + e.cfg.NodeName}
	}
	cfg, err := parseImageInfo(r.GetInfo()["info"])
	if err != nil && len(c.Command) == 0 && !c.Pause {
		return imageConfig{}, &engine.StartError{Message: "the runtime doesn't tell the command of the image " + c.Image + "; give one"}
	}
	e.mu.Lock()
	e.images[r.GetImage().GetId()] = cfg
	e.mu.Unlock()
	e.touchImage(r.GetImage().GetId())
	return cfg, nil
}

// cachedImage answers for digests only: what a name stands for can change. An
// image that was removed meanwhile makes CreateContainer fail.
func (e *Engine) cachedImage(id string) (imageConfig, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	cfg, ok := e.images[id]
	return cfg, ok
}

// parseImageInfo reads the verbose part of ImageStatus, which containerd and
// CRI-O fill with the image's OCI configuration.
func parseImageInfo(text string) (imageConfig, error) {
	var info struct {
		Spec *struct {
			Config imageConfig `json:"config"`
		} `json:"imageSpec"`
	}
	if err := json.Unmarshal([]byte(text), &info); err != nil {
		return imageConfig{}, err
	}
	if info.Spec == nil {
		return imageConfig{}, errors.New("no image configuration")
	}
	return info.Spec.Config, nil
}

func (e *Engine) imageStatus(ctx context.Context, ref string) (*runtimeapi.ImageStatusResponse, error) {
	return ask(ctx, e.rt, func(ctx context.Context) (*runtimeapi.ImageStatusResponse, error) {
		return e.rt.image.ImageStatus(ctx, &runtimeapi.ImageStatusRequest{
			Image: &runtimeapi.ImageSpec{Image: ref}, Verbose: true})
	})
}
