package cri

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"croft.dev/croft/internal/engine"
)

// Inventory implements engine.Engine.
func (e *Engine) Inventory(ctx context.Context) (engine.Inventory, error) {
	if err := ctx.Err(); err != nil {
		return engine.Inventory{}, err
	}
	status, err := e.rt.status(ctx)
	if err != nil {
		return engine.Inventory{}, err
	}
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return engine.Inventory{}, fmt.Errorf("cri: %w", err)
	}
	memory, err := parseMemTotal(string(text))
	if err != nil {
		return engine.Inventory{}, err
	}
	ready, reason := readiness(status.GetStatus())
	inv := engine.Inventory{Nodes: []engine.Node{{
		Name:   e.cfg.NodeName,
		CPU:    max(int64(runtime.NumCPU())*1000-e.cfg.ReserveCPU, 0),
		Memory: offered(memory - e.cfg.ReserveMemory),
		Ready:  ready,
		Reason: reason,
		Labels: map[string]string{
			"kernel":  kernel(),
			"cgroup":  "v" + strconv.Itoa(e.facts.CgroupVersion),
			"runtime": e.facts.Runtime + " " + e.facts.RuntimeVersion,
		},
	}}}
	if e.cfg.Devices == nil {
		return inv, nil
	}
	inv.Devices, err = e.cfg.Devices.Devices(ctx)
	if err != nil {
		return engine.Inventory{}, fmt.Errorf("cri: devices: %w", err)
	}
	for i := range inv.Devices {
		inv.Devices[i].Node = e.cfg.NodeName
	}
	return inv, nil
}

// step is what offered memory is a multiple of: amounts that people can read, and
// that don't change with every kernel.
const step = 512 << 20

// offered rounds memory down to whole steps.
func offered(bytes int64) int64 {
	if bytes < step {
		return max(bytes, 0)
	}
	return bytes - bytes%step
}

// readiness sums up the runtime's conditions.
func readiness(s *runtimeapi.RuntimeStatus) (ready bool, reason string) {
	for _, c := range s.GetConditions() {
		required := c.GetType() == runtimeapi.RuntimeReady || c.GetType() == runtimeapi.NetworkReady
		if required && !c.GetStatus() {
			return false, strings.TrimSpace(c.GetType() + " is false: " + c.GetMessage())
		}
	}
	return true, ""
}

// parseMemTotal returns the machine's memory in bytes from /proc/meminfo's text.
func parseMemTotal(text string) (int64, error) {
	for line := range strings.Lines(text) {
		v, ok := strings.CutPrefix(line, "MemTotal:")
		if !ok {
			continue
		}
		kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(v), "kB")), 10, 64)
		if err != nil || kib <= 0 || kib > 1<<50 {
			return 0, fmt.Errorf("cri: /proc/meminfo: bad MemTotal %q", strings.TrimSpace(v))
		}
		return kib << 10, nil
	}
	return 0, fmt.Errorf("cri: /proc/meminfo has no MemTotal")
}

func kernel() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Release[:])
}
