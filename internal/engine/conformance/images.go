package conformance

import (
	"errors"
	"strings"
	"time"

	"croft.dev/croft/internal/engine"
)

func imageCases() []testCase {
	return []testCase{
		{name: "an image that is present is described", run: imagePresent, containers: true},
		{name: "an image that is missing is no error to Image", run: imageMissing, containers: true},
		{name: "no image is saved of a step that isn't there", run: saveMissing, containers: true},
		{name: "an image that is missing is removed without error", run: removeMissing, containers: true},
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

func saveMissing(w *world) {
	a := w.start(w.Commands.Sleep)
	ref := "croft.local/" + string(a.Attempt) + "/none:1"
	for _, step := range []engine.StepID{{Attempt: a.Attempt, N: 7}, {Attempt: a.Attempt + "0", N: engine.PrimaryStep}} {
		_, err := call(w, "SaveImage", func() (engine.Saved, error) {
			return w.Engine.SaveImage(w.Context(), step, engine.SaveRequest{Ref: ref, At: time.Now()}, func(engine.Progress) {})
		})
		var refused *engine.SaveError
		if !errors.As(err, &refused) || refused.Message == "" {
			w.Errorf("%s: error %v (%T), want a SaveError with a message", step, err, err)
		}
	}
	list, err := w.Engine.SavedImages(w.Context(), ref)
	if len(list) != 0 || err != nil {
		w.Errorf("saved: %v, %v", list, err)
	}
}

func removeMissing(w *world) {
	w.must("RemoveImage", w.Engine.RemoveImage(w.Context(), "croft.local/nobody/"+w.ImageMissing))
}
