package terminal

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"
)

// TestRing compares a ring with all that was ever written.
func TestRing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := ring{limit: rapid.IntRange(1, 3*firstRing).Draw(t, "limit")}
		var all, lost []byte
		for range rapid.IntRange(0, 20).Draw(t, "writes") {
			part := make([]byte, rapid.IntRange(0, 4*firstRing).Draw(t, "length"))
			for i := range part {
				part[i] = byte(len(all) + i*7)
			}
			all = append(all, part...)
			r.write(part, func(b []byte) { lost = append(lost, b...) })
			if r.end != int64(len(all)) || r.end-r.start != int64(min(len(all), r.limit)) {
				t.Fatalf("has %d to %d of %d bytes, limit %d", r.start, r.end, len(all), r.limit)
			}
			if !bytes.Equal(lost, all[:r.start]) {
				t.Fatalf("%d bytes were lost, or others than the first %d", len(lost), r.start)
			}
			from := rapid.Int64Range(r.start, r.end).Draw(t, "from")
			into := make([]byte, rapid.IntRange(0, 2*r.limit).Draw(t, "room"))
			n := r.read(from, into)
			if want := all[from:min(int64(len(all)), from+int64(len(into)))]; !bytes.Equal(into[:n], want) {
				t.Fatalf("from %d: %d bytes, want %d, or others", from, n, len(want))
			}
		}
	})
}
