package cri

import (
	"fmt"
	"testing"

	"croft.dev/croft/internal/engine"
)

// BenchmarkTrue measures /bin/true from Start to the exit seen. The removal isn't
// counted.
func BenchmarkTrue(b *testing.B) {
	e := newEngine(b)
	events, err := e.Watch(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	job := int64(0)
	for b.Loop() {
		job++
		a := e.allocation(job, "true")
		if err := e.Start(b.Context(), a); err != nil {
			b.Fatal(err)
		}
		for st := range events {
			if st.Attempt == a.Attempt && st.Phase == engine.PhaseExited {
				break
			}
		}
		b.StopTimer()
		if err := e.Remove(b.Context(), a.Attempt); err != nil {
			b.Fatal(fmt.Errorf("Remove: %w", err))
		}
		b.StartTimer()
	}
}
