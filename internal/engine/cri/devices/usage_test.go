package devices

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"croft.dev/croft/internal/engine"
)

func TestNVIDIAUsage(t *testing.T) {
	noon := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	const a, b = "GPU-aaaaaaaa-0000-4000-8000-000000000000", "GPU-bbbbbbbb-0000-4000-8000-000000000000"
	tests := map[string]struct {
		text string
		want []engine.DeviceUsage
	}{
		"two":              {a + ", 97, 40536\n" + b + ", 0, 3\n", []engine.DeviceUsage{{UUID: a, At: noon, Busy: 970, Memory: 40536 << 20}, {UUID: b, At: noon, Memory: 3 << 20}}},
		"one in MIG mode":  {a + ", [N/A], 40536\n" + b + ", 5, 0\n", []engine.DeviceUsage{{UUID: b, At: noon, Busy: 50}}},
		"one in trouble":   {a + ", [Unknown Error], [Unknown Error]\n", nil},
		"none":             {"No devices were found\n", nil},
		"more than all":    {a + ", 101, 0\n", nil},
		"less than none":   {a + ", -1, 0\n", nil},
		"not a device":     {"MIG-1, 5, 0\n", nil},
		"memory not known": {a + ", 5, [N/A]\n", []engine.DeviceUsage{{UUID: a, At: noon, Busy: 50}}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			n := NewNVIDIA(NVIDIAConfig{Now: func() time.Time { return noon }, Query: func(context.Context, ...string) ([]byte, error) { return []byte(tt.text), nil }})
			got, err := n.Usage(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	n := NewNVIDIA(NVIDIAConfig{Query: func(context.Context, ...string) ([]byte, error) { return nil, errors.New("it hangs") }})
	if got, err := n.Usage(t.Context()); err == nil {
		t.Errorf("a driver that doesn't answer: %+v", got)
	}
}

func FuzzParseUsage(f *testing.F) {
	f.Add("GPU-a, 97, 40536\nGPU-b, [N/A], 3\n")
	f.Add("\"GPU-a, 5, 6")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := parseUsage(text, time.Time{})
		if err != nil {
			return
		}
		for _, d := range got {
			if d.Busy < 0 || d.Busy > 1000 || d.Memory < 0 || d.UUID == "" {
				t.Errorf("%q: %+v", text, d)
			}
		}
	})
}

func TestSimulatedUsage(t *testing.T) {
	dir := t.TempDir()
	s, err := NewSimulated(SimulatedConfig{Instance: instanceID, Count: 3, Model: "m", CDIDir: dir, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	busy := func() map[string]int64 {
		t.Helper()
		got, err := s.Usage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]int64{}
		for _, d := range got {
			out[d.UUID] = d.Busy
		}
		return out
	}
	if diff := cmp.Diff(map[string]int64{s.devices[0].UUID: 0, s.devices[1].UUID: 0, s.devices[2].UUID: 0}, busy()); diff != "" {
		t.Errorf("without a file (-want +got):\n%s", diff)
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, UsageFile), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(`{"devices":{"0":{"percent":80},"1":{"unknown":true},"2":{"percent":900}}}`)
	if diff := cmp.Diff(map[string]int64{s.devices[0].UUID: 800, s.devices[2].UUID: 1000}, busy()); diff != "" {
		t.Errorf("as played (-want +got):\n%s", diff)
	}
	write(`{`)
	if _, err := s.Usage(t.Context()); err == nil {
		t.Error("a broken file is no error")
	}
}
