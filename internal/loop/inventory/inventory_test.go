package inventory_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/loop/inventory"
	"croft.dev/croft/internal/loop/looptest"
)

// What is as it was makes no row, what changes makes one; an engine that doesn't
// answer changes nothing.
func TestOnlyChangesAreRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fleet := looptest.NewFleet(t)
		p := looptest.New(t, fleet)
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() {
			defer close(done)
			inventory.Loop{Port: p, Engine: fleet.Connect(), Period: 5 * time.Second, Log: looptest.Log()}.Run(ctx)
		}()
		for _, step := range []struct {
			name string
			do   func() error
			rows int
			tile ledger.Cause
		}{
			{"as it was", func() error { return nil }, 1, ledger.CauseIdle},
			{"a process of somebody's", func() error { return fleet.SetForeign("SIM-0", engine.Process{PID: 9, User: "eve", Command: "python"}) }, 2, ledger.CauseForeign},
			{"the same", func() error { return nil }, 2, ledger.CauseForeign},
			{"it is gone", func() error { return fleet.SetForeign("SIM-0") }, 3, ledger.CauseIdle},
			{"no answer", func() error { fleet.SetDown(true); return fleet.SetHealth("SIM-0", false, "Xid 79") }, 3, ledger.CauseIdle},
			{"an answer", func() error { fleet.SetDown(false); return nil }, 4, ledger.CauseDown},
		} {
			if err := step.do(); err != nil {
				t.Fatal(err)
			}
			<-time.After(11 * time.Second)
			synctest.Wait()
			tile := p.World().Ledger.OpenTiles("SIM-0")[0]
			if n := len(p.Done("node.observed")); n != step.rows || tile.Cause != step.tile {
				t.Errorf("%s: %d rows, the device is %s; want %d, %s", step.name, n, tile.Cause, step.rows, step.tile)
			}
		}
		cancel()
		<-done
	})
}

// The configuration says how much memory a model's devices have that don't say it.
func TestMemoryIsFilledIn(t *testing.T) {
	inv := engine.Inventory{Devices: []engine.Device{
		{UUID: "a", Model: "a100", Memory: 80 << 30}, {UUID: "b", Model: "b200"}, {UUID: "c", Model: "c1"},
	}}
	var got []int64
	for _, d := range inventory.Observed(inv, map[string]int64{"a100": 40 << 30, "b200": 180 << 30}).Devices {
		got = append(got, d.Memory)
	}
	if want := []int64{80 << 30, 180 << 30, 0}; !slices.Equal(got, want) {
		t.Errorf("memory %v, want %v", got, want)
	}
}
