package images

import (
	"context"
	"errors"

	"croft.dev/croft/internal/asset"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/tenancy"
	"croft.dev/croft/internal/workload"
)

// An image that was pulled with somebody's credentials isn't everybody's only because it
// is on the machine. What is of the same repository is looked up at its registry for each
// user, with the credentials that he has there or none: by a pull, which fetches nothing
// that is there already.

// personal reports whether it matters for an image who asks for it.
func (s *Store) personal(ref string, user id.User) bool {
	w := s.cfg.Port.World()
	if _, local := asset.Local(ref); local {
		return true
	}
	registry, repository := workload.Repository(ref)
	_, known := w.Tenancy.Credential(user, registry)
	return known || w.Catalog.Private(repository)
}

func (s *Store) private(ref string) bool {
	_, repository := workload.Repository(ref)
	return s.cfg.Port.World().Catalog.Private(repository)
}

// pull fetches an image: without credentials, if it is to be had so and isn't known to be
// private, else with the user's. That it is private is noted before anything of it comes
// to the machine.
func (s *Store) pull(ctx context.Context, k key, e *entry) (engine.Image, error) {
	registry, repository := workload.Repository(k.ref)
	cred, known := s.cfg.Port.World().Tenancy.Credential(k.user, registry)
	if private := s.private(k.ref); !known || !private {
		img, err := s.fetchAs(ctx, k.ref, "", "", e)
		var denied *engine.PullError
		if !errors.As(err, &denied) || !denied.Denied {
			return img, err
		}
		if !known {
			denied.Message += "; croft registry login " + registry
			return img, denied
		}
	}
	password, err := s.open(cred)
	if err != nil {
		return engine.Image{}, &engine.PullError{Ref: k.ref, Denied: true, Message: "your password at " + registry + " can't be read any more: croft registry login " + registry}
	}
	if _, err := s.cfg.Port.Command(ctx, command.RepositoryPrivate{Name: repository}); err != nil {
		return engine.Image{}, err
	}
	return s.fetchAs(ctx, k.ref, cred.Username, password, e)
}

func (s *Store) open(c tenancy.Credential) (string, error) {
	if s.cfg.Open == nil {
		return "", errors.New("nothing opens it")
	}
	password, err := s.cfg.Open(c)
	if err != nil {
		s.cfg.Log.Warn("a password for a registry can't be read", "user", int64(c.User), "registry", c.Registry, "error", err)
	}
	return password, err
}

func (s *Store) fetchAs(ctx context.Context, ref, username, password string, e *entry) (engine.Image, error) {
	return s.cfg.Engine.Pull(ctx, engine.PullRequest{Ref: ref, Username: username, Password: password}, func(p engine.Progress) {
		s.mu.Lock()
		e.progress = p
		s.mu.Unlock()
	})
}

// local finds an image that was saved from a job. It is in no registry: who may have it is
// in the world.
func (s *Store) local(ctx context.Context, full string, k key) (engine.Image, error) {
	now, _ := s.cfg.Port.Now()
	w := s.cfg.Port.World()
	row, ok := w.Assets.Images.Get(full)
	if !ok || row.State != asset.Ready || !row.Usable(&w.Tenancy, k.user, now) {
		return engine.Image{}, &engine.PullError{Ref: k.ref, NotFound: true, Message: "no such image: croft image ls"}
	}
	img, there, err := s.cfg.Engine.Image(ctx, full)
	if err == nil && !there {
		err = &engine.PullError{Ref: k.ref, NotFound: true, Message: "it isn't on the machine any more: croft image rm it, and save it again"}
	}
	return img, err
}
