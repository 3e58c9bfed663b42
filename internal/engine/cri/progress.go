package cri

import (
	"context"
	"time"

	contentapi "github.com/containerd/containerd/api/services/content/v1"

	"croft.dev/croft/internal/engine"
)

// progressEvery is how often a pull's progress is reported.
const progressEvery = 250 * time.Millisecond

// report calls progress while an image is pulled, with what containerd's content
// store says of downloads that began since. CRI has no such call. With several
// pulls at once, one may show another's layers: the store doesn't say for whom
// it downloads. The returned function ends it and waits for its last call.
func (e *Engine) report(ctx context.Context, progress func(engine.Progress)) (stop func()) {
	ctx, cancel := context.WithCancel(ofCRI(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		t := newTally(time.Now())
		tick := time.NewTicker(progressEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			r, err := ask(ctx, e.rt, func(ctx context.Context) (*contentapi.ListStatusesResponse, error) {
				return e.rt.content.ListStatuses(ctx, &contentapi.ListStatusesRequest{})
			})
			if err != nil {
				continue
			}
			if p, changed := t.update(r.GetStatuses()); changed {
				progress(p)
			}
		}
	}()
	return func() { cancel(); <-done }
}

// tally sums downloads. One that has vanished from the store's list is complete.
type tally struct {
	since time.Time
	parts map[string]engine.Progress
	last  engine.Progress
}

func newTally(since time.Time) *tally {
	return &tally{since: since, parts: make(map[string]engine.Progress)}
}

func (t *tally) update(statuses []*contentapi.Status) (engine.Progress, bool) {
	active := make(map[string]bool, len(statuses))
	for _, s := range statuses {
		// The store's clock is this machine's, its granularity that of a file.
		if s.GetStartedAt().AsTime().Before(t.since.Add(-time.Second)) {
			continue
		}
		active[s.GetRef()] = true
		t.parts[s.GetRef()] = engine.Progress{Done: s.GetOffset(), Total: max(s.GetTotal(), s.GetOffset())}
	}
	var sum engine.Progress
	for ref, p := range t.parts {
		if !active[ref] {
			p.Done = p.Total
			t.parts[ref] = p
		}
		sum.Done += p.Done
		sum.Total += p.Total
	}
	changed := sum != t.last
	t.last = sum
	return sum, changed
}
