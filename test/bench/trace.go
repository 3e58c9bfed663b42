package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	v1 "croft.dev/croft/api/v1"
)

// The size of the cluster in Alibaba's openb traces: its nodes with devices.
const (
	clusterNodes   = 1213
	clusterDevices = 6212
)

// nodeKinds are what a made-up cluster of that size is of.
var nodeKinds = []struct {
	count, cpu, memoryGiB, gpu int
	model                      string
}{
	{549, 128, 1024, 8, "G2"}, {387, 96, 384, 2, "T4"}, {132, 64, 256, 2, "P100"}, {49, 96, 384, 4, "V100M16"},
	{70, 96, 768, 8, "V100M32"}, {26, 128, 1024, 1, "A10"},
}

// makeCluster writes a made-up cluster and returns its path.
func makeCluster(dir string) (string, error) {
	var b strings.Builder
	b.WriteString("sn,cpu_milli,memory_mib,gpu,model\n")
	nodes, devices := 0, 0
	for _, k := range nodeKinds {
		for range k.count {
			fmt.Fprintf(&b, "n%04d,%d,%d,%d,%s\n", nodes, k.cpu*1000, k.memoryGiB<<10, k.gpu, k.model)
			nodes, devices = nodes+1, devices+k.gpu
		}
	}
	if nodes != clusterNodes || devices != clusterDevices {
		return "", fmt.Errorf("the cluster that was made up has %d nodes and %d devices", nodes, devices)
	}
	path := filepath.Join(dir, "nodes.csv")
	return path, os.WriteFile(path, []byte(b.String()), 0o600)
}

// mix is jobs to submit again and again.
type mix []v1.JobSpec

// madeUp is a mix like that of the traces: mostly single devices of any or of one
// model, some of several models, a few of eight.
func madeUp() mix {
	rnd := rand.New(rand.NewPCG(3, 4))
	models := []string{"", "", "T4", "G2", "P100", "V100M16|V100M32", "G2|T4|P100"}
	sizes := []int{1, 1, 1, 1, 1, 2, 4, 8}
	var out mix
	for range 8000 {
		model, gpu := models[rnd.IntN(len(models))], sizes[rnd.IntN(len(sizes))]
		if model == "T4" || model == "P100" {
			gpu = min(gpu, 2)
		}
		out = append(out, v1.JobSpec{
			GPU: count(gpu), Model: model, CPU: count((1 + rnd.IntN(4)) * min(gpu, 2)), Mem: count(2+rnd.IntN(6)) + "G",
			Time: count(10+rnd.IntN(2000)) + "m",
		})
	}
	return out
}

func count(n int) v1.Quantity { return v1.Quantity(strconv.Itoa(n)) }

// devices is how the trace asks for them: so many, each of so many thousandths, which
// are fewer than all only of a single one.
func devices(n, milli int64) v1.Quantity {
	if n == 1 && milli > 0 && milli < 1000 {
		return v1.Quantity(fmt.Sprintf("0.%03d", milli))
	}
	return count(int(n))
}

// readMix reads the jobs of an openb trace that ask for devices, or for a part of one.
func readMix(path string) (mix, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := csv.NewReader(f)
	header, err := r.Read()
	if err != nil {
		return nil, err
	}
	at := map[string]int{}
	for i, name := range header {
		at[name] = i
	}
	var out mix
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		n := map[string]int64{}
		for _, column := range []string{"cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "creation_time", "deletion_time"} {
			i, ok := at[column]
			if !ok {
				return nil, fmt.Errorf("%s has no column %s", path, column)
			}
			if n[column], err = strconv.ParseInt(row[i], 10, 64); err != nil && column != "deletion_time" {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
		}
		if n["num_gpu"] == 0 {
			continue
		}
		spec := v1.JobSpec{
			GPU: devices(n["num_gpu"], n["gpu_milli"]), CPU: v1.Quantity(strconv.FormatFloat(float64(max(n["cpu_milli"], 10))/1000, 'f', 3, 64)),
			Mem: count(int(max(n["memory_mib"], 4))) + "M", Time: count(int(min(max(n["deletion_time"]-n["creation_time"], 60), 30*24*3600))) + "s",
		}
		if i, ok := at["gpu_spec"]; ok {
			spec.Model = row[i]
		}
		out = append(out, spec)
	}
}
