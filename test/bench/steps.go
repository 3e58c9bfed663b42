package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	v1 "croft.dev/croft/api/v1"
)

// The sizes of what steps measures.
const (
	appended   = 200 // steps of one job
	logLines   = 400_000
	logRepeats = 5
)

// steps measures what happens in a running job: a further program, an exec and the
// stream of a log, each in turn with crictl in a pod of the same runtime.
func steps(ctx context.Context, s settings) error {
	v, err := serve(ctx, s, "engine: {runtime_dir: "+s.runtime+", node_name: gpu1, bridge: croftbench0}\ndevices: {simulated: {count: 4, model: sim}}\nlisten: {http: \"off\"}\nlog: {level: warn}\n")
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
	job, err := v.client.Submit(ctx, v1.JobSpec{Image: "tiny:1", CPU: "0.5", Mem: "256M", Time: "1h", Command: []string{"sleep", "3600"}})
	if err != nil {
		return err
	}
	if _, err := v.client.Wait(ctx, job.ID, v1.Running, v1.WaitOptions{}); err != nil {
		return err
	}
	tool, err := newCrictl(v, s.runtime)
	if err != nil {
		return err
	}
	peer, err := tool.pod(ctx)
	if err != nil {
		return err
	}
	for _, part := range []func(context.Context, settings, string, *crictlPod) error{v.append, v.exec, v.logs} {
		if err := part(ctx, s, job.ID, peer); err != nil {
			return err
		}
	}
	return v.many(ctx, job.ID)
}

// append runs a further program until its exit is seen.
func (v *server) append(ctx context.Context, s settings, job string, peer *crictlPod) error {
	return compare("croft step run JOB -- /bin/true, until its exit is seen", "crictl create, start and inspect of the same", "1.2×", s.runs,
		func() (time.Duration, error) {
			return timed(v.croft(ctx, "step", "run", "-q", job, "--", "/bin/true"))
		},
		func() (time.Duration, error) {
			begun := time.Now()
			_, err := peer.run(ctx, "/bin/true")
			return time.Since(begun), err
		})
}

// exec runs a command in a container that is there.
func (v *server) exec(ctx context.Context, s settings, job string, peer *crictlPod) error {
	return compare("croft exec JOB -- /bin/true", "crictl exec of the same", "1.2×", 2*s.runs,
		func() (time.Duration, error) { return timed(v.croft(ctx, "exec", job, "--", "/bin/true")) },
		func() (time.Duration, error) {
			begun := time.Now()
			_, err := peer.crictl.call(ctx, "exec", peer.main, "/bin/true")
			return time.Since(begun), err
		})
}

// logs follows what a program writes as fast as it can, until it has ended.
func (v *server) logs(ctx context.Context, _ settings, job string, peer *crictlPod) error {
	script := []string{"sh", "-c", "seq -w 100000000 " + strconv.Itoa(100_000_000+logLines-1)}
	size := int64(logLines * 10)
	follow := func(cmd *exec.Cmd) error {
		n := new(counter)
		cmd.Stdout = n
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("%s: %w", strings.Join(cmd.Args, " "), err)
		}
		if int64(*n) != size {
			return fmt.Errorf("%s: %d bytes of %d", strings.Join(cmd.Args, " "), int64(*n), size)
		}
		return nil
	}
	return compare(fmt.Sprintf("croft logs -f of a step that writes %d MB of short lines", size/1_000_000), "crictl logs -f of the same", "1.25×", logRepeats,
		func() (time.Duration, error) {
			begun := time.Now()
			step, err := v.client.AddStep(ctx, job, v1.StepSpec{Command: script})
			if err != nil {
				return 0, err
			}
			err = follow(v.croft(ctx, "logs", "-f", step.ID))
			return time.Since(begun), err
		},
		func() (time.Duration, error) {
			begun := time.Now()
			id, err := peer.start(ctx, script...)
			if err != nil {
				return 0, err
			}
			err = follow(exec.CommandContext(ctx, peer.crictl.bin, "-r", peer.crictl.endpoint, "logs", "-f", id))
			return time.Since(begun), err
		})
}

// counter counts what is written to it.
type counter int64

func (c *counter) Write(b []byte) (int, error) {
	*c += counter(len(b))
	return len(b), nil
}

// many appends steps by several clients at once and waits for the end of all.
func (v *server) many(ctx context.Context, job string) error {
	const clients = 8
	begun := time.Now()
	var left atomic.Int64
	left.Store(appended)
	errs := make(chan error, clients)
	for range clients {
		go func() {
			for left.Add(-1) >= 0 {
				step, err := v.client.AddStep(ctx, job, v1.StepSpec{Command: []string{"/bin/true"}})
				if err == nil {
					step, err = v.client.WaitStep(ctx, job, step.N, v1.Ended, v1.WaitOptions{})
				}
				if err == nil && step.Outcome != "completed" {
					err = fmt.Errorf("step %s: %s: %s", step.ID, step.Outcome, step.Message)
				}
				if err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	var err error
	for range clients {
		err = errors.Join(err, <-errs)
	}
	took := time.Since(begun)
	row(fmt.Sprintf("%d steps appended to a job by %d clients, until all have ended", appended, clients), fmt.Sprintf("%.1f s, %.1f/s", took.Seconds(), appended/took.Seconds()), "")
	return err
}

// compare runs two commands in turn and reports both medians and that of their ratios.
func compare(ours, theirs, aim string, runs int, a, b func() (time.Duration, error)) error {
	var as, bs, ratios []time.Duration
	for i := range runs + 1 {
		at, err := a()
		if err != nil {
			return err
		}
		bt, err := b()
		if err != nil {
			return err
		}
		if i > 0 { // the first is the warm-up
			as, bs, ratios = append(as, at), append(bs, bt), append(ratios, at*1000/bt)
		}
	}
	row(ours+", median", ms(quantile(as, 500)), "")
	row(theirs+", median", ms(quantile(bs, 500)), "")
	row("ratio, median of the pairs", fmt.Sprintf("%.2f×", float64(quantile(ratios, 500))/1000), aim)
	return nil
}

func (v *server) croft(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(v.s.bin, "croft"), args...)
	cmd.Env = append(os.Environ(), "CROFT_SOCKET="+filepath.Join(v.data(), "croft.sock"))
	return cmd
}

// crictlPod is a pod of crictl's with a container that sleeps.
type crictlPod struct {
	crictl  *crictl
	id      string
	main    string
	podFile string
	n       int
}

func (c *crictl) pod(ctx context.Context) (*crictlPod, error) {
	p := &crictlPod{crictl: c, podFile: filepath.Join(c.dir, "steps.json")}
	err := writeJSON(p.podFile, map[string]any{
		"metadata": map[string]any{"name": "steps", "namespace": "bench", "uid": "steps", "attempt": 1}, "log_directory": c.dir,
		"linux": map[string]any{"cgroup_parent": "/croft"},
	})
	if err != nil {
		return nil, err
	}
	if p.id, err = c.line(ctx, "runp", p.podFile); err != nil {
		return nil, err
	}
	p.main, err = p.start(ctx, "sleep", "3600")
	return p, err
}

// start creates and starts a container in the pod.
func (p *crictlPod) start(ctx context.Context, command ...string) (string, error) {
	p.n++
	box := filepath.Join(p.crictl.dir, "step.json")
	err := writeJSON(box, map[string]any{
		"metadata": map[string]any{"name": fmt.Sprintf("step-%d", p.n)}, "image": map[string]any{"image": "tiny:1"}, "command": command,
		"log_path": fmt.Sprintf("step-%d.log", p.n), "linux": map[string]any{"resources": map[string]any{"memory_limit_in_bytes": 256 << 20}},
	})
	if err != nil {
		return "", err
	}
	id, err := p.crictl.line(ctx, "create", "--no-pull", p.id, box, p.podFile)
	if err != nil {
		return "", err
	}
	return p.crictl.line(ctx, "start", id)
}

// run is start, and waiting for the end.
func (p *crictlPod) run(ctx context.Context, command ...string) (string, error) {
	id, err := p.start(ctx, command...)
	for err == nil && ctx.Err() == nil {
		var state string
		if state, err = p.crictl.line(ctx, "inspect", "-o", "go-template", "--template", "{{.status.state}}", id); state == "CONTAINER_EXITED" {
			break
		}
	}
	return id, errors.Join(err, ctx.Err())
}

// line is what a command printed, without the end of the line.
func (c *crictl) line(ctx context.Context, args ...string) (string, error) {
	out, err := c.call(ctx, args...)
	return strings.TrimSpace(out), err
}

func writeJSON(file string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o600)
}
