package conformance

import (
	"errors"
	"strings"

	"croft.dev/croft/internal/engine"
)

func imageCases() []testCase {
	return []testCase{
		{name: "an image that is present is described", run: imagePresent, containers: true},
		{name: "an image that is missing is no error to Image", run: imageMissing, containers: true},
		{name: "Pull of an image that can't be had is a PullError", run: pullMissing, containers: true},
	}
}

func imagePresent(w *world) {
	got, ok, err := w.Engine.Image(w.Context(), w.ImageOK)
	w.must("Image", err)
	if !ok || got.Ref != w.ImageOK || !strings.HasPrefix(got.ID, "sha256:") || got.Size <= 0 {
		w.Errorf("ok %v, image %+v", ok, got)
	}
}

func imageMissing(w *world) {
	got, ok, err := w.Engine.Image(w.Context(), w.ImageMissing)
	if ok || err != nil {
		w.Errorf("image %+v, ok %v, error %v", got, ok, err)
	}
}

func pullMissing(w *world) {
	_, err := call(w, "Pull", func() (engine.Image, error) {
		return w.Engine.Pull(w.Context(), engine.PullRequest{Ref: w.ImageMissing}, func(engine.Progress) {})
	})
	var refused *engine.PullError
	if !errors.As(err, &refused) {
		w.Fatalf("error %v (%T), want a PullError", err, err)
	}
	if !refused.NotFound || refused.Ref != w.ImageMissing || refused.Message == "" {
		w.Errorf("PullError %+v, want NotFound, the reference and a message", refused)
	}
}
