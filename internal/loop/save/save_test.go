package save

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"croft.dev/croft/internal/asset"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/loop/looptest"
)

// fake is an engine that answers each save as it is told, after a minute.
type fake struct {
	Engine
	asked []engine.SaveRequest
	errs  []error // of the next saves; then none
	have  []string
	gone  []string
}

func (f *fake) SaveImage(ctx context.Context, step engine.StepID, req engine.SaveRequest, progress func(engine.Progress)) (engine.Saved, error) {
	f.asked = append(f.asked, req)
	progress(engine.Progress{Done: 1, Total: 2})
	select {
	case <-ctx.Done():
		return engine.Saved{}, ctx.Err()
	case <-time.After(time.Minute):
	}
	if len(f.errs) > 0 {
		err := f.errs[0]
		f.errs = f.errs[1:]
		return engine.Saved{}, err
	}
	return engine.Saved{Image: engine.Image{ID: "sha256:1"}, Added: 10, Packages: []engine.Package{{Manager: "pip", Name: "six", Version: "1"}}}, nil
}

func (f *fake) SavedImages(context.Context, string) ([]string, error) { return f.have, nil }

func (f *fake) RemoveImage(_ context.Context, ref string) error {
	f.gone = append(f.gone, ref)
	return nil
}

// TestSave has an image saved that the engine can't be asked for at first, and one that
// can't be made.
func TestSave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fleet := looptest.NewFleet(t)
		port := looptest.New(t, fleet)
		k := port.Submit(t, looptest.Spec())
		port.Do(t, command.JobStart{Job: k, Image: "sha256:0"})
		port.Do(t, command.JobObserved{Job: k, N: 1, Running: true, Started: time.Now().UnixNano()})
		f := &fake{errs: []error{&engine.UnavailableError{Cause: errors.New("away")}}, have: []string{"croft.local/ada/old:1", "croft.local/ada/env:1"}}
		l := New(Config{Port: port, Engine: f, Instance: looptest.Instance, Parallel: 2, Retry: 10 * time.Second, Sweep: time.Hour, Log: looptest.Log()})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); l.Run(ctx) }()
		ask(t, port, k, "env:1")
		synctest.Wait()
		if p, ok := l.Progress("croft.local/ada/env:1"); !ok || p != (engine.Progress{Done: 1, Total: 2}) {
			t.Errorf("progress %+v, %v", p, ok)
		}
		<-time.After(3 * time.Minute)
		synctest.Wait()
		row, _ := port.World().Assets.Images.Get("croft.local/ada/env:1")
		if row.State != asset.Ready || row.Digest != "sha256:1" || row.Size != 10 || len(row.Packages) != 1 {
			t.Errorf("%+v", row)
		}
		if len(f.asked) != 2 || f.asked[1].Max != 100<<20 || f.asked[1].Author != "ada" || f.asked[1].At.UnixNano() != row.Made {
			t.Errorf("asked for %+v", f.asked)
		}
		f.errs = []error{&engine.SaveError{Message: "its container is gone"}}
		ask(t, port, k, "env:2")
		<-time.After(2 * time.Minute)
		synctest.Wait()
		if row, _ := port.World().Assets.Images.Get("croft.local/ada/env:2"); row.State != asset.Failed || row.Note != "its container is gone" {
			t.Errorf("%+v", row)
		}
		if diff := cmp.Diff([]string{"croft.local/ada/old:1"}, f.gone[:1]); diff != "" {
			t.Errorf("swept (-want +got)\n%s", diff)
		}
		// one that is cut off is made by the next server
		ask(t, port, k, "env:3")
		synctest.Wait()
		cancel()
		<-done
		if row, _ := port.World().Assets.Images.Get("croft.local/ada/env:3"); row.State != asset.Saving {
			t.Errorf("%+v", row)
		}
	})
}

func ask(t *testing.T, port *looptest.Port, k id.Job, name string) {
	t.Helper()
	w := port.World()
	u, _ := w.Tenancy.User("ada")
	if _, err := port.As(w.Principal(u.ID, 0, time.Now().UnixNano()), command.ImageSave{Job: k, Step: 1, Name: name}); err != nil {
		t.Fatal(err)
	}
}
