// Package inventory tells the world what nodes and devices an engine offers.
package inventory

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/loop"
	"croft.dev/croft/internal/placement"
)

// Engine is the part of an engine that is asked.
type Engine interface {
	Inventory(ctx context.Context) (engine.Inventory, error)
}

// Loop is the loop.
type Loop struct {
	Port   loop.Port
	Engine Engine
	Period time.Duration
	// Memory is that of each device of a model, in bytes, where the engine doesn't know it.
	Memory map[string]int64
	Log    *slog.Logger
}

// Run reports the inventory until ctx ends.
func (l Loop) Run(ctx context.Context) { loop.Every(ctx, l.Log, "inventory", l.Period, l.Once) }

// Once reports the inventory. An engine that can't be asked changes nothing.
func (l Loop) Once(ctx context.Context) error {
	inv, err := l.Engine.Inventory(ctx)
	if err != nil {
		return err
	}
	_, err = l.Port.Command(ctx, Observed(inv, l.Memory))
	return err
}

// Observed is the command that reports an inventory. memory is that of a model's devices,
// in bytes, where the engine doesn't know it.
func Observed(inv engine.Inventory, memory map[string]int64) command.InventoryObserved {
	var cmd command.InventoryObserved
	for _, n := range inv.Nodes {
		cmd.Nodes = append(cmd.Nodes, placement.Node{
			Name: n.Name, CPU: n.CPU, Memory: n.Memory, Ready: n.Ready, Reason: n.Reason, Labels: n.Labels,
		})
	}
	for _, d := range inv.Devices {
		row := placement.Device{
			UUID: d.UUID, Node: d.Node, Index: d.Index, Name: d.Name, Model: d.Model, Memory: cmp.Or(d.Memory, memory[d.Model]), CDI: d.CDI,
			Healthy: d.Healthy, Reason: d.Reason,
		}
		for _, p := range d.Foreign {
			row.Foreign = append(row.Foreign, placement.Process{PID: p.PID, User: p.User, Command: p.Command})
		}
		cmd.Devices = append(cmd.Devices, row)
	}
	return cmd
}
