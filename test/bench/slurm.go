package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	v1 "croft.dev/croft/api/v1"
)

// slurmPending is how many eligible jobs wait while the two are compared.
const slurmPending = 20_000

// slurm measures submissions and listings against Debian's Slurm in the same state:
// limits enforced, accounting on, everything taken and 20,000 eligible jobs waiting.
// The two take turns, and the one that isn't measured is stopped meanwhile.
func slurm(ctx context.Context, s settings) error {
	peer, err := startSlurm(ctx)
	if err != nil {
		return err
	}
	defer peer.stop()
	if err := peer.block(ctx); err != nil {
		return err
	}
	n, took, err := peer.submit(ctx, 8, slurmPending, 0)
	if err != nil {
		return err
	}
	row(fmt.Sprintf("Slurm by libslurm, 8 clients, filling its queue to %d", n), rate(n, took), "")
	peer.signal(syscall.SIGSTOP)
	ours, err := slurmOurs(ctx, s)
	if err != nil {
		return err
	}
	defer ours.stop(false)
	defer func() { _ = ours.cmd.Process.Signal(syscall.SIGCONT) }()
	if n, took, err = ours.admit(ctx, 8, slurmPending, 0); err != nil {
		return err
	}
	row(fmt.Sprintf("Croft by its Go client, 8 clients, filling its queue to %d", n), rate(n, took), "")
	d := duel{s, peer, ours}
	if err := d.listings(ctx); err != nil {
		return err
	}
	api := func() (int64, time.Duration, error) { return ours.admit(ctx, 8, 0, s.span/2) }
	lib := func() (int64, time.Duration, error) { return peer.submit(ctx, 8, 0, s.span/2) }
	if err := d.rates(ctx, "the Go client and libslurm, 8 clients; Slurm defers", "", api, lib); err != nil {
		return err
	}
	d.peerRuns()
	if err := peer.undefer(ctx); err != nil {
		return err
	}
	if err := d.rates(ctx, "the Go client and libslurm, 8 clients", "10×", api, lib); err != nil {
		return err
	}
	return d.rates(ctx, "processes of croft submit and sbatch, 8 at a time", "",
		func() (int64, time.Duration, error) {
			return processes(8, s.span/2, func() *exec.Cmd {
				return ours.asNobody(ctx, "submit", "-A", "bench", "--gpu", "1", "-c", "0.1", "--mem", "1G", "-t", "2h", "train:1", "true")
			})
		},
		func() (int64, time.Duration, error) {
			return processes(8, s.span/2, func() *exec.Cmd {
				return asNobody(peer.command(ctx, "sbatch", "-Q", "-o", "/dev/null", "-D", "/", "-t", "120", "--wrap", "true"))
			})
		})
}

// block takes the node, so that all that follows waits.
func (c *slurmCluster) block(ctx context.Context) error {
	if err := c.compile(ctx); err != nil {
		return err
	}
	cmd := asNobody(c.command(ctx, "sbatch", "-Q", "-o", "/dev/null", "-D", "/", "-n", "4", "-t", "1-0", "--wrap", "sleep 86400"))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("sbatch: %w: %s", err, out)
	}
	return c.until(ctx, "sh", "-c", "squeue -h -t R | grep -q .")
}

// slurmOurs is a server in the state that Slurm is in: an account below another,
// limits on each and on the user, all devices taken.
func slurmOurs(ctx context.Context, s settings) (*server, error) {
	v, err := serve(ctx, s, "engine: {kind: sim, node_name: gpu1}\ndevices: {simulated: {count: 4, model: sim}}\nlisten: {http: \"off\"}\nlog: {level: warn}\n")
	if err != nil {
		return nil, err
	}
	if err := v.people(ctx); err != nil {
		return v, err
	}
	if _, err := v.client.AddUser(ctx, v1.User{Name: "nobody"}); err != nil {
		return v, err
	}
	if _, err := v.client.SetMember(ctx, "bench", "nobody", v1.MemberRequest{Role: "member"}); err != nil {
		return v, err
	}
	for _, l := range []v1.Limit{
		{Account: "faculty", Resource: "cpu", Max: "128"}, {Account: "bench", Resource: "running", Max: "1000"},
		{User: "nobody", Resource: "running", Max: "200"}, {User: "nobody", Resource: "submitted", Max: "1000000"},
		{User: "root", Resource: "running", Max: "200"}, {User: "root", Resource: "submitted", Max: "1000000"},
	} {
		if _, err := v.client.SetLimit(ctx, l); err != nil {
			return v, err
		}
	}
	_, err = v.submit(ctx, 4)
	return v, err
}

// asNobody is a croft command of the user nobody.
func (v *server) asNobody(ctx context.Context, args ...string) *exec.Cmd {
	cmd := asNobody(exec.CommandContext(ctx, filepath.Join(v.s.bin, "croft"), args...))
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=/nonexistent", "CROFT_SOCKET=" + filepath.Join(v.data(), "croft.sock")}
	return cmd
}

// processes runs a command again and again, so many at a time, until span is over.
func processes(clients int, span time.Duration, command func() *exec.Cmd) (n int64, took time.Duration, err error) {
	var done atomic.Int64
	var failed atomic.Pointer[error]
	var wg sync.WaitGroup
	begun := time.Now()
	for range clients {
		wg.Go(func() {
			for failed.Load() == nil && time.Since(begun) < span {
				if _, err := timed(command()); err != nil {
					failed.Store(&err)
					return
				}
				done.Add(1)
			}
		})
	}
	wg.Wait()
	if e := failed.Load(); e != nil {
		return 0, 0, *e
	}
	return done.Load(), time.Since(begun), nil
}

// duel is the two in turn.
type duel struct {
	s    settings
	peer *slurmCluster
	ours *server
}

// turns is how often each rate is measured.
const turns = 5

func (d duel) oursRuns() {
	d.peer.signal(syscall.SIGSTOP)
	_ = d.ours.cmd.Process.Signal(syscall.SIGCONT)
}

func (d duel) peerRuns() {
	_ = d.ours.cmd.Process.Signal(syscall.SIGSTOP)
	d.peer.signal(syscall.SIGCONT)
}

// rates measures what the two admit a second, and the ratio of each pair.
func (d duel) rates(ctx context.Context, by, aim string, ours, theirs func() (int64, time.Duration, error)) error {
	var a, b, ratios []time.Duration // per mille of one a second
	for range turns {
		if err := ctx.Err(); err != nil {
			return err
		}
		d.oursRuns()
		x, err := perSecond(ours())
		if err != nil {
			return err
		}
		d.peerRuns()
		y, err := perSecond(theirs())
		if err != nil {
			return err
		}
		a, b, ratios = append(a, x), append(b, y), append(ratios, x*1000/max(y, 1))
	}
	row(fmt.Sprintf("submissions by %s, %d waiting, medians", by, slurmPending),
		fmt.Sprintf("Croft %d/s, Slurm %d/s", quantile(a, 500)/1000, quantile(b, 500)/1000), "")
	row("**Croft / Slurm, median of the pairs**", fmt.Sprintf("**%.1f×**", float64(quantile(ratios, 500))/1000), aim)
	return nil
}

func perSecond(n int64, took time.Duration, err error) (time.Duration, error) {
	if err != nil {
		return 0, err
	}
	return time.Duration(float64(n) * 1000 / took.Seconds()), nil
}

// listings measures a list of all waiting jobs, as text.
func (d duel) listings(ctx context.Context) error {
	var ours, theirs, ratios []time.Duration
	for range d.s.runs {
		d.oursRuns()
		a, err := timed(d.ours.asRoot(ctx, "ls", "-u", "*"))
		if err != nil {
			return err
		}
		d.peerRuns()
		b, err := timed(d.peer.command(ctx, "squeue"))
		if err != nil {
			return err
		}
		ours, theirs, ratios = append(ours, a), append(theirs, b), append(ratios, a*1000/b)
	}
	row(fmt.Sprintf("croft ls of all, %d waiting, median", slurmPending), ms(quantile(ours, 500)), "")
	row("squeue in the same state, median", ms(quantile(theirs, 500)), "")
	row("**croft ls / squeue, median of the pairs**", fmt.Sprintf("**%.2f×**", float64(quantile(ratios, 500))/1000), "1×")
	return nil
}

func (v *server) asRoot(ctx context.Context, args ...string) *exec.Cmd {
	cmd := v.asNobody(ctx, args...)
	cmd.SysProcAttr = nil
	return cmd
}
