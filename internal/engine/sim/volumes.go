package sim

import (
	"context"

	"croft.dev/croft/internal/engine"
)

// Volumes implements engine.Engine: a virtual fleet mounts nothing.
func (c *conn) Volumes(ctx context.Context, _ int64) ([]engine.Volume, error) { return nil, ctx.Err() }

// RemoveVolume implements engine.Engine.
func (c *conn) RemoveVolume(_ context.Context, _ int64, name string) error {
	return &engine.NoVolumeError{Name: name}
}
