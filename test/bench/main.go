// Command bench measures Croft as its users meet it: through the real binaries,
// the API and real containers. What has a peer is measured beside it in the same
// run and given as a ratio, since machines are shared and noisy. It prints a
// Markdown table; hack/bench runs it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"time"
)

type settings struct {
	bin, runtime, images string
	chp                  string
	pending              int
	span                 time.Duration // of each measurement of a rate
	runs                 int           // of each command
	only                 string
	nodes, pods          string // of an openb trace; empty: made up
}

func main() {
	var s settings
	flag.StringVar(&s.bin, "bin", "bin", "directory of croft and croftd")
	flag.StringVar(&s.runtime, "runtime", ".tools/runtime", "directory of the container runtime, with crictl")
	flag.StringVar(&s.images, "images", ".tools/images", "directory of the test images")
	flag.StringVar(&s.chp, "chp", ".tools/configurable-http-proxy", "directory of configurable-http-proxy")
	flag.IntVar(&s.pending, "pending", 100_000, "jobs that wait while admissions are measured")
	flag.DurationVar(&s.span, "span", 10*time.Second, "how long each rate is measured")
	flag.IntVar(&s.runs, "runs", 15, "how often each command is run")
	flag.StringVar(&s.only, "only", "", "start, run, steps, terminals, gateway, ssh, notebook, admission, slurm or cluster")
	flag.StringVar(&s.nodes, "nodes", "", "node list of an openb trace for cluster; without it, a cluster of that size is made up")
	flag.StringVar(&s.pods, "pods", "", "pod list of an openb trace for cluster")
	flag.Parse()
	for _, dir := range []*string{&s.bin, &s.runtime, &s.images, &s.chp} {
		abs, err := filepath.Abs(*dir)
		if err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		*dir = abs
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	fmt.Printf("| measured | result | aim |\n|---|---|---|\n")
	for _, part := range []struct {
		name string
		run  func(context.Context, settings) error
	}{{"start", start}, {"run", run}, {"steps", steps}, {"terminals", terminals}, {"gateway", gateway}, {"ssh", ssh}, {"notebook", notebook}, {"admission", admission}, {"slurm", slurm}, {"cluster", cluster}} {
		if s.only != "" && s.only != part.name {
			continue
		}
		if err := part.run(ctx, s); err != nil {
			fmt.Fprintf(os.Stderr, "bench %s: %v\n", part.name, err)
			os.Exit(1)
		}
	}
}

func row(measured, result, aim string) { fmt.Printf("| %s | %s | %s |\n", measured, result, aim) }

// quantile returns the q-th thousandth of ds, which it sorts.
func quantile(ds []time.Duration, q int) time.Duration {
	slices.Sort(ds)
	return ds[min(len(ds)*q/1000, len(ds)-1)]
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d)/1e6) }
