package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// start measures how long the client takes to start: to print its version, and to
// ask a server.
func start(ctx context.Context, s settings) error {
	v, err := serve(ctx, s, "engine: {kind: sim}\nlisten: {http: \"off\"}\n")
	if err != nil {
		return err
	}
	defer v.stop(false)
	for _, args := range [][]string{{"--version"}, {"ls"}} {
		var took []time.Duration
		for range 2 * s.runs {
			d, err := timed(v.croft(ctx, args...))
			if err != nil {
				return err
			}
			took = append(took, d)
		}
		row("croft "+strings.Join(args, " ")+", median", ms(quantile(took, 500)), "30 ms")
	}
	return nil
}

// run measures croft run of /bin/true against crictl on the same runtime, in turn:
// from the command's start until its exit is known.
func run(ctx context.Context, s settings) error {
	runtime := s.runtime
	v, err := serve(ctx, s, "engine: {runtime_dir: "+runtime+", node_name: gpu1, bridge: croftbench0}\ndevices: {simulated: {count: 4, model: sim}}\nlisten: {http: \"off\"}\nlog: {level: warn}\n")
	if err != nil {
		return err
	}
	defer v.stop(true)
	if err := v.people(ctx); err != nil {
		return err
	}
	if err := v.daemon(ctx, "load", filepath.Join(s.images, "tiny.tar")).Run(); err != nil {
		return err
	}
	peer, err := newCrictl(v, runtime)
	if err != nil {
		return err
	}
	i := 0
	return compare("croft run tiny:1 /bin/true, submission to exit seen", "crictl run and inspect of the same", "1.2×", s.runs,
		func() (time.Duration, error) {
			return timed(v.croft(ctx, "run", "-q", "-c", "0.5", "--mem", "64M", "-t", "5m", "tiny:1", "/bin/true"))
		},
		func() (time.Duration, error) {
			i++
			return peer.run(ctx, i)
		})
}

func timed(cmd *exec.Cmd) (time.Duration, error) {
	begun := time.Now()
	out, err := cmd.CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return time.Since(begun), nil
}

// crictl runs the same container on the same runtime by the runtime's own tool.
type crictl struct {
	bin, endpoint, dir string
}

func newCrictl(v *server, runtime string) (*crictl, error) {
	found, err := filepath.Glob("/run/croft/*/containerd.sock")
	if err != nil {
		return nil, err
	}
	// the newest is this benchmark's
	var newest string
	var at time.Time
	for _, f := range found {
		if fi, err := os.Stat(f); err == nil && fi.ModTime().After(at) {
			newest, at = f, fi.ModTime()
		}
	}
	if newest == "" {
		return nil, fmt.Errorf("the runtime's socket isn't there")
	}
	return &crictl{filepath.Join(runtime, "bin", "crictl"), "unix://" + newest, v.dir}, nil
}

// run starts a sandbox with a container, and asks for its state until it exited.
func (c *crictl) run(ctx context.Context, i int) (time.Duration, error) {
	pod := map[string]any{"metadata": map[string]any{"name": fmt.Sprintf("peer-%d", i), "namespace": "bench", "uid": fmt.Sprintf("peer-%d", i), "attempt": 1}, "log_directory": c.dir, "linux": map[string]any{"cgroup_parent": "/croft"}}
	box := map[string]any{
		"metadata": map[string]any{"name": "main"}, "image": map[string]any{"image": "tiny:1"}, "command": []string{"/bin/true"}, "log_path": fmt.Sprintf("peer-%d.log", i),
		"linux": map[string]any{"resources": map[string]any{"memory_limit_in_bytes": 64 << 20}},
	}
	podFile, boxFile := filepath.Join(c.dir, "pod.json"), filepath.Join(c.dir, "box.json")
	if err := errors.Join(writeJSON(podFile, pod), writeJSON(boxFile, box)); err != nil {
		return 0, err
	}
	begun := time.Now()
	id, err := c.line(ctx, "run", "--no-pull", boxFile, podFile)
	if err != nil {
		return 0, err
	}
	for ctx.Err() == nil {
		state, err := c.line(ctx, "inspect", "-o", "go-template", "--template", "{{.status.state}}", id)
		if err != nil {
			return 0, err
		}
		if state == "CONTAINER_EXITED" {
			break
		}
	}
	took := time.Since(begun)
	pods, err := c.line(ctx, "pods", "-q", "--name", fmt.Sprintf("peer-%d", i))
	if err == nil {
		_, err = c.call(ctx, "rmp", "-f", pods)
	}
	return took, err
}

func (c *crictl) call(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, c.bin, append([]string{"-r", c.endpoint}, args...)...)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("crictl %s: %w: %s", args[0], err, errs.String())
	}
	return string(out), nil
}
