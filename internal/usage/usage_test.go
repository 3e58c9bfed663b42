package usage

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"croft.dev/croft/internal/id"
)

var attempt = id.Attempt{Job: 7, N: 1}

const second = int64(time.Second)

func TestLast(t *testing.T) {
	b := NewBook()
	if _, ok := b.Last(attempt); ok {
		t.Error("a sample of what was never seen")
	}
	look := func(at, cpu int64, busy ...Device) Sample {
		b.Put(attempt, Seen{At: at * second, CPU: cpu, Memory: 5, Devices: busy})
		s, _ := b.Last(attempt)
		return s
	}
	if s := look(100, 90*second); s.Known {
		t.Errorf("the first sight tells how much CPU is used: %+v", s)
	}
	if s := look(110, 95*second); !s.Known || s.CPU != 500 {
		t.Errorf("5 s of CPU in 10 s: %+v", s)
	}
	if s := look(105, 500*second); s.CPU != 500 {
		t.Errorf("an older sight counts: %+v", s)
	}
	if s := look(120, 95*second); s.CPU != 250 {
		t.Errorf("5 s of CPU in 20 s: %+v", s)
	}
	if s := look(175, 95*second); s.CPU != 0 {
		t.Errorf("nothing in the last minute, but before: %+v", s)
	}
	if s := look(180, second); s.Known {
		t.Errorf("CPU time that went back: %+v", s)
	}
	idle, busy, unknown := Device{UUID: "A", Known: true}, Device{UUID: "B", Known: true, Busy: 10}, Device{UUID: "C", Busy: 999}
	if s := look(190, second, idle, busy, unknown); s.Device != busy {
		t.Errorf("the busiest of the known: %+v", s.Device)
	}
	b.Keep(map[id.Attempt]bool{{Job: 7, N: 2}: true})
	if _, ok := b.Last(attempt); ok {
		t.Error("a sample of an attempt that is over")
	}
}

func TestHour(t *testing.T) {
	b := NewBook()
	for at := int64(0); at < 70*60; at += 10 {
		busy := int64(0)
		if at%60 == 20 { // once a minute, for a moment
			busy = 700
		}
		b.Put(attempt, Seen{At: (at + 60) * second, CPU: at / 2 * second, Memory: at, Devices: []Device{{UUID: "A", Known: true, Busy: busy}}})
	}
	hour := b.Hour(attempt)
	if len(hour) != Minutes+1 {
		t.Fatalf("%d minutes are kept", len(hour))
	}
	for i, m := range hour {
		if want := (int64(10+i) * 60) * second; m.At != want || m.CPU != 500 || !m.Known || m.Device.Busy != 700 {
			t.Errorf("minute %d: %+v", i, m)
		}
	}
	if diff := cmp.Diff(int64(69*60+50), hour[Minutes].Memory); diff != "" {
		t.Error(diff)
	}
}

// Whatever is put: CPU is never less than nothing, and no more is kept than an hour.
func TestWhateverIsSeen(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := NewBook()
		for range rapid.IntRange(1, 200).Draw(t, "sights") {
			b.Put(attempt, Seen{
				At:  rapid.Int64Range(1, int64(1)<<61).Draw(t, "at"),
				CPU: rapid.Int64Range(0, int64(1)<<61).Draw(t, "cpu"),
			})
			if s, _ := b.Last(attempt); s.CPU < 0 {
				t.Fatalf("%+v", s)
			}
		}
		for _, m := range b.Hour(attempt) {
			if m.CPU < 0 || len(b.Hour(attempt)) > Minutes+1 {
				t.Fatalf("%+v", m)
			}
		}
	})
}
