package sim

import (
	"context"
	"slices"
	"strings"

	"croft.dev/croft/internal/engine"
)

// savedSize is what every virtual step has written, in bytes.
const savedSize = 4096

// SaveImage implements engine.Engine.
func (c *conn) SaveImage(ctx context.Context, step engine.StepID, req engine.SaveRequest, progress func(engine.Progress)) (engine.Saved, error) {
	if err := c.enter(ctx); err != nil {
		return engine.Saved{}, err
	}
	f := c.fleet
	f.mu.Lock()
	defer f.mu.Unlock()
	a := c.step(step)
	switch {
	case a == nil || a.removed:
		return engine.Saved{}, &engine.SaveError{Message: "its container is gone: what it had written outside of mounts went with it"}
	case a.Host:
		return engine.Saved{}, &engine.SaveError{Message: "it runs on the machine itself, not in a container"}
	case req.Max > 0 && req.Max < savedSize:
		return engine.Saved{}, &engine.SaveError{TooLarge: true, Message: "it has written more than may be saved"}
	}
	img := &Image{Ref: req.Ref, Size: savedSize, Present: true, saved: true}
	f.images[req.Ref] = img
	if progress != nil {
		progress(engine.Progress{Done: savedSize, Total: savedSize})
	}
	out := engine.Saved{Image: img.describe(), Added: savedSize}
	if base := f.image(a.Image); base != nil {
		out.Base = base.describe().ID
	}
	return out, nil
}

// RemoveImage implements engine.Engine.
func (c *conn) RemoveImage(ctx context.Context, ref string) error {
	if err := c.enter(ctx); err != nil {
		return err
	}
	c.fleet.mu.Lock()
	defer c.fleet.mu.Unlock()
	delete(c.fleet.images, ref)
	return nil
}

// SavedImages implements engine.Engine.
func (c *conn) SavedImages(ctx context.Context, prefix string) ([]string, error) {
	if err := c.enter(ctx); err != nil {
		return nil, err
	}
	c.fleet.mu.Lock()
	defer c.fleet.mu.Unlock()
	var out []string
	for ref, i := range c.fleet.images {
		if i.saved && strings.HasPrefix(ref, prefix) {
			out = append(out, ref)
		}
	}
	slices.Sort(out)
	return out, nil
}
