package sim

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"

	"croft.dev/croft/internal/engine"
)

// Bounds of a fleet that is read.
const (
	maxNodes   = 100_000
	maxDevices = 1_000_000
	maxOnNode  = 1024
	maxCPU     = 1 << 30 // milli-cores
	maxMiB     = 1 << 40
)

var label = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$`)

// ReadNodes reads a fleet: comma-separated values whose first line names the columns
// sn (the node's name), cpu_milli, memory_mib, gpu (how many devices) and model, in
// any order, and perhaps gpu_memory_mib (of each device), others being ignored. It is
// the format of Alibaba's openb traces. An error names the line.
func ReadNodes(in io.Reader) ([]engine.Node, []engine.Device, error) {
	r := csv.NewReader(in)
	r.ReuseRecord = true
	header, err := r.Read()
	if err != nil {
		return nil, nil, fmt.Errorf("fleet: the line with the columns: %w", err)
	}
	at := map[string]int{}
	for i, name := range header {
		at[name] = i
	}
	for _, name := range []string{"sn", "cpu_milli", "memory_mib", "gpu", "model"} {
		if _, ok := at[name]; !ok {
			return nil, nil, fmt.Errorf("fleet: the first line has no column %s", name)
		}
	}
	var nodes []engine.Node
	var devices []engine.Device
	seen := map[string]bool{}
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, nil, fmt.Errorf("fleet: %w", err)
		}
		n, d, err := readNode(func(column string) string {
			if i, ok := at[column]; ok {
				return row[i]
			}
			return ""
		})
		if err == nil && seen[n.Name] {
			err = fmt.Errorf("node %s is there twice", n.Name)
		}
		if nodes, devices = append(nodes, n), append(devices, d...); err == nil && (len(nodes) > maxNodes || len(devices) > maxDevices) {
			err = fmt.Errorf("more than %d nodes or %d devices", maxNodes, maxDevices)
		}
		if err != nil {
			line, _ := r.FieldPos(0)
			return nil, nil, fmt.Errorf("fleet: line %d: %w", line, err)
		}
		seen[n.Name] = true
	}
	if len(nodes) == 0 {
		return nil, nil, errors.New("fleet: it has no nodes")
	}
	return nodes, devices, nil
}

func readNode(field func(string) string) (engine.Node, []engine.Device, error) {
	n := engine.Node{Name: field("sn"), Ready: true}
	if !label.MatchString(n.Name) {
		return n, nil, fmt.Errorf("%q isn't a node's name", n.Name)
	}
	var mib, gpu, each int64
	for _, f := range []struct {
		column string
		to     *int64
		most   int64
	}{{"cpu_milli", &n.CPU, maxCPU}, {"memory_mib", &mib, maxMiB}, {"gpu", &gpu, maxOnNode}, {"gpu_memory_mib", &each, maxMiB}} {
		if f.to == &each && field(f.column) == "" {
			continue // it isn't known
		}
		v, err := strconv.ParseInt(field(f.column), 10, 64)
		if err != nil || v < 0 || v > f.most {
			return n, nil, fmt.Errorf("%s %q isn't a number from 0 to %d", f.column, field(f.column), f.most)
		}
		*f.to = v
	}
	n.Memory = mib << 20
	model := field("model")
	if gpu > 0 && !label.MatchString(model) {
		return n, nil, fmt.Errorf("%q isn't a model's name", model)
	}
	var devices []engine.Device
	for i := range int(gpu) {
		devices = append(devices, engine.Device{
			UUID: fmt.Sprintf("SIM-%s-%d", n.Name, i), Node: n.Name, Index: i, Name: fmt.Sprintf("gpu%d", i), Model: model, Memory: each << 20, Healthy: true,
		})
	}
	return n, devices, nil
}
