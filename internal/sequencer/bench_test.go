package sequencer

import (
	"context"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"

	"croft.dev/croft/internal/store"
	"croft.dev/croft/internal/world"
)

// void keeps nothing.
type void struct{}

func (void) Commit(context.Context, []store.Batch) error { return nil }
func (void) Head(context.Context) (store.Head, error)    { return store.Head{}, nil }

// BenchmarkDo measures commands through the sequencer by 1, 8 and 64 callers: what
// it costs by itself (void), and with three rows a command on SQLite in full sync.
func BenchmarkDo(b *testing.B) {
	stores := map[string]func(*testing.B) Store{
		"void": func(*testing.B) Store { return void{} },
		"sqlite": func(b *testing.B) Store {
			s, err := store.Open(b.Context(), store.Config{Path: filepath.Join(b.TempDir(), "croft.db")})
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = s.Close() })
			return s
		},
	}
	for _, name := range []string{"void", "sqlite"} {
		for _, callers := range []int{1, 8, 64} {
			b.Run(fmt.Sprintf("%s/callers=%d", name, callers), func(b *testing.B) {
				benchDo(b, stores[name](b), callers)
			})
		}
	}
}

func benchDo(b *testing.B, to Store, callers int) {
	var now atomic.Int64
	head, err := to.Head(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	s := New(Config{World: world.New(), Head: head, Store: to, Clock: func() int64 { return now.Load() }})
	ctx, stop := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	var left atomic.Int64
	left.Store(int64(b.N))
	b.ReportAllocs()
	b.ResetTimer()
	done := make(chan error, callers)
	for range callers {
		go func() {
			var err error
			for left.Add(-1) >= 0 && err == nil {
				_, err = s.Do(ctx, ada, test{Do: "submit", Name: "bench"}, Key{})
			}
			done <- err
		}()
	}
	for range callers {
		if err := <-done; err != nil {
			b.Error(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commands/s")
	b.StopTimer()
	stop()
	<-ended
}
