package inventory_test

import (
	"context"
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
			tile, _ := p.World().Ledger.Tiles.Get("SIM-0")
			if n := len(p.Done("node.observed")); n != step.rows || tile.Cause != step.tile {
				t.Errorf("%s: %d rows, the device is %s; want %d, %s", step.name, n, tile.Cause, step.rows, step.tile)
			}
		}
		cancel()
		<-done
	})
}
