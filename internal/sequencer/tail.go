package sequencer

import (
	"context"
	"errors"
	"iter"
	"sync"

	"croft.dev/croft/internal/store"
	"croft.dev/croft/internal/world"
)

// ErrResync says that entries after the reader's place have left the buffer: read
// them from the store, and tail again from there.
var ErrResync = errors.New("too far behind: read the log and go on from there")

// Tail yields the committed entries after a seq in order, as they come, until ctx
// ends; then it yields ctx's error. Readers share one bounded buffer: one that is
// behind it gets ErrResync, and the others never wait for it.
func (s *Sequencer) Tail(ctx context.Context, after int64) iter.Seq2[world.Entry, error] {
	return func(yield func(world.Entry, error) bool) {
		for {
			entries, more, err := s.ring.after(after)
			if err != nil {
				yield(world.Entry{}, err)
				return
			}
			for _, e := range entries {
				if !yield(e, nil) {
					return
				}
				after = e.Seq
			}
			if len(entries) > 0 {
				continue
			}
			select {
			case <-ctx.Done():
				yield(world.Entry{}, ctx.Err())
				return
			case <-more:
			}
		}
	}
}

// The buffer's bounds, by count and by bytes of commands.
const (
	ringEntries = 4096
	ringBytes   = 16 << 20
)

// ring keeps the newest entries and wakes whoever waits for more.
type ring struct {
	mu      sync.Mutex
	entries []world.Entry // by seq, without a gap
	base    int64         // seq before the first of entries
	bytes   int
	more    chan struct{} // closed at the next append
}

func newRing(base int64) *ring { return &ring{base: base, more: make(chan struct{})} }

func (r *ring) watch() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.more
}

// after returns up to a pageful of entries after seq, and the channel that tells of
// more.
func (r *ring) after(seq int64) ([]world.Entry, <-chan struct{}, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if seq < r.base {
		return nil, nil, ErrResync
	}
	from := min(int(seq-r.base), len(r.entries))
	page := r.entries[from:min(from+256, len(r.entries))]
	return append([]world.Entry(nil), page...), r.more, nil
}

func (r *ring) append(rows []store.Batch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, row := range rows {
		r.entries = append(r.entries, row.Entry)
		r.bytes += len(row.Entry.Command)
	}
	drop := 0
	for len(r.entries)-drop > ringEntries || r.bytes > ringBytes {
		r.bytes -= len(r.entries[drop].Command)
		drop++
	}
	clear(r.entries[:drop]) // append moves the rest when it next needs room
	r.entries = r.entries[drop:]
	r.base += int64(drop)
	close(r.more)
	r.more = make(chan struct{})
}
