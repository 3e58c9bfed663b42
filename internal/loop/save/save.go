// Package save makes the images that users save from their jobs, and takes away those that
// nobody has any more. What should be there are rows of the world; a save that was cut off
// is made again, and what an engine has beyond the rows is removed.
package save

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"croft.dev/croft/internal/asset"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/loop"
	"croft.dev/croft/internal/world"
)

// Engine is the part of an engine that saves images.
type Engine interface {
	SaveImage(ctx context.Context, step engine.StepID, req engine.SaveRequest, progress func(engine.Progress)) (engine.Saved, error)
	RemoveImage(ctx context.Context, ref string) error
	SavedImages(ctx context.Context, prefix string) ([]string, error)
}

// Config of a Loop.
type Config struct {
	Port     loop.Port
	Engine   Engine
	Instance string
	Parallel int           // images made at the same time
	Retry    time.Duration // how long one is left alone that the engine couldn't be asked for
	Sweep    time.Duration // how often what nobody has is looked for
	Log      *slog.Logger
}

// Loop is the loop.
type Loop struct {
	cfg  Config
	free chan struct{} // has a token when an image isn't worked on any more

	mu   sync.Mutex
	busy map[string]engine.Progress // by name
}

// New returns a loop.
func New(cfg Config) *Loop {
	return &Loop{cfg: cfg, free: make(chan struct{}, 1), busy: map[string]engine.Progress{}}
}

// Progress says how far an image is; false if nobody works on it yet.
func (l *Loop) Progress(ref string) (engine.Progress, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p, ok := l.busy[ref]
	return p, ok
}

// Run makes and removes images until ctx ends.
func (l *Loop) Run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { loop.Every(ctx, l.cfg.Log, "saved images", l.cfg.Sweep, l.sweep) })
	for {
		changed := l.cfg.Port.Changed()
		for _, row := range l.next() {
			wg.Go(func() {
				l.save(ctx, row)
				l.release(row.Ref)
			})
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-l.free:
		}
	}
}

// next takes as many images to be made as there is room for.
func (l *Loop) next() (rows []asset.Image) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, row := range l.cfg.Port.World().Assets.Saving.All() {
		if _, taken := l.busy[row.Ref]; taken || len(l.busy) >= l.cfg.Parallel {
			continue
		}
		l.busy[row.Ref] = engine.Progress{}
		rows = append(rows, row)
	}
	return rows
}

func (l *Loop) release(ref string) {
	l.mu.Lock()
	delete(l.busy, ref)
	l.mu.Unlock()
	select {
	case l.free <- struct{}{}:
	default:
	}
}

// save makes one image, and notes what became of it. What can't be known now is left for
// another time.
func (l *Loop) save(ctx context.Context, row asset.Image) {
	cmd, err := l.make(ctx, row)
	if err == nil {
		_, err = l.cfg.Port.Command(ctx, cmd)
	}
	if err == nil || ctx.Err() != nil {
		return
	}
	l.cfg.Log.Warn("image not saved, will try again", "image", row.Ref, "error", err)
	select {
	case <-ctx.Done():
	case <-time.After(l.cfg.Retry):
	}
}

func (l *Loop) make(ctx context.Context, row asset.Image) (world.Command, error) {
	w := l.cfg.Port.World()
	user, _ := w.Tenancy.Users.Get(row.User)
	step := engine.StepID{Attempt: engine.AttemptID(id.Attempt{Job: row.Job, N: row.Attempt}.Engine(l.cfg.Instance)), N: int(row.Step)}
	req := engine.SaveRequest{Ref: row.Ref, Max: max(w.Site.UserImages-w.Assets.SizeOf(row.User), 1), Author: user.Name, Comment: row.Comment, At: time.Unix(0, row.Made)}
	l.cfg.Log.Info("saving image", "image", row.Ref, "step", step.String())
	got, err := l.cfg.Engine.SaveImage(ctx, step, req, func(p engine.Progress) {
		l.mu.Lock()
		l.busy[row.Ref] = p
		l.mu.Unlock()
	})
	if never := new(engine.SaveError); errors.As(err, &never) {
		return command.ImageFail{Ref: row.Ref, Made: row.Made, Message: never.Message}, nil
	}
	packages := make([]asset.Package, 0, len(got.Packages))
	for _, p := range got.Packages {
		packages = append(packages, asset.Package(p))
	}
	return command.ImageSaved{Ref: row.Ref, Made: row.Made, Digest: got.ID, Added: got.Added, Packages: packages}, err
}

// sweep removes what the engine has and nobody any more.
func (l *Loop) sweep(ctx context.Context) error {
	have, err := l.cfg.Engine.SavedImages(ctx, asset.Registry+"/")
	if engine.IsUnavailable(err) {
		return nil // said elsewhere
	}
	if err != nil {
		return err
	}
	var errs []error
	for _, ref := range have {
		errs = append(errs, l.drop(ctx, ref))
	}
	return errors.Join(errs...)
}

// drop removes an image that nobody has. Meanwhile none of its name is made.
func (l *Loop) drop(ctx context.Context, ref string) error {
	l.mu.Lock()
	_, taken := l.busy[ref]
	row, ok := l.cfg.Port.World().Assets.Images.Get(ref)
	if taken || ok && row.State != asset.Failed {
		l.mu.Unlock()
		return nil
	}
	l.busy[ref] = engine.Progress{}
	l.mu.Unlock()
	defer l.release(ref)
	l.cfg.Log.Info("removing image", "image", ref)
	return l.cfg.Engine.RemoveImage(ctx, ref)
}
