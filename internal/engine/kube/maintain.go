package kube

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"croft.dev/croft/internal/engine"
)

// Maintain removes the logs that were kept long enough. It is to be called now and then.
func (e *Engine) Maintain(ctx context.Context) error {
	attempts, err := os.ReadDir(e.cfg.LogDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("kube: %w", err)
	}
	for _, a := range attempts {
		dir := filepath.Join(e.cfg.LogDir, a.Name())
		info, err := os.Stat(dir) // a log that is added changes its folder
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return fmt.Errorf("kube: %w", err)
		case time.Since(info.ModTime()) < e.cfg.LogRetention || e.there(engine.AttemptID(a.Name())):
			continue
		}
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("kube: %w", err)
		}
	}
	return nil
}

// there reports whether an attempt's Pod is known.
func (e *Engine) there(id engine.AttemptID) bool {
	_, ok, err := e.pods.GetStore().GetByKey(e.cfg.Namespace + "/" + podName(id))
	return ok || err != nil
}
