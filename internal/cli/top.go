package cli

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	v1 "croft.dev/croft/api/v1"
)

// topEvery is how often what jobs use is shown anew: the server looks no oftener.
const topEvery = 5 * time.Second

func (a *app) topCmd() *cobra.Command {
	q := v1.JobQuery{User: "*", State: "running", Elements: true}
	once := false
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show what running jobs use now: CPU, memory, devices",
		Long: `Show what the running jobs that you may see use of what they have: cores, on average over
the last minute, memory, and how busy their devices are. On a terminal it goes on until
^C; elsewhere, and with -o json, it is shown once. What isn't known is a question mark.`,
		Example: `  croft top
  croft top -u ada -A nlp
  croft top -o json`,
		Args: needArgs(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			show := func(ctx context.Context) error { return a.topOnce(ctx, c, q) }
			if once || !a.env.Term.Out || a.output != "table" {
				return show(cmd.Context())
			}
			tick := time.NewTicker(topEvery)
			defer tick.Stop()
			return a.topOn(cmd.Context(), show, tick.C)
		},
	}
	fs := cmd.Flags()
	fs.StringVarP(&q.Account, "account", "A", "", "only of this account")
	fs.StringVarP(&q.User, "user", "u", "*", "only of this user")
	fs.BoolVar(&once, "no-stream", false, "show it once, on a terminal too")
	a.completeFlag(cmd, "account", a.accountNames)
	a.completeFlag(cmd, "user", a.userNames)
	return cmd
}

// topOn shows it again at each tick, in place of what was there.
func (a *app) topOn(ctx context.Context, show func(context.Context) error, tick <-chan time.Time) error {
	screen := a.env.Stdout
	defer func() { a.env.Stdout = screen }()
	for {
		var b bytes.Buffer // whole, so that nothing flickers
		a.env.Stdout = &b
		if err := show(ctx); err != nil {
			return err
		}
		a.env.Stdout = screen
		if _, err := fmt.Fprintf(screen, "\x1b[H\x1b[2J%s", b.Bytes()); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case _, more := <-tick:
			if !more {
				return nil
			}
		}
	}
}

func (a *app) topOnce(ctx context.Context, c *v1.Client, q v1.JobQuery) error {
	jobs, err := v1.Collect(firstJobs(ctx, c, q))
	if err != nil {
		return err
	}
	// Of an array, only elements that run have something to show.
	jobs = slices.DeleteFunc(jobs, func(j v1.Job) bool { return j.Array != nil })
	t := newTable("ID", "USER", "~NAME", ">CPU", ">MEM", "~DEVICES", ">TIME")
	for _, j := range jobs {
		cpu, mem := "?", "?"
		if u := j.Usage; u != nil {
			cpu, mem = cmp.Or(string(u.CPU), "?"), cmp.Or(string(u.Mem), "?")
		}
		t.row(j.ID, j.User, j.Name, cpu+" / "+string(j.Spec.CPU), mem+" / "+string(j.Spec.Mem), busyDevices(&j), a.jobTime(&j))
	}
	return printList(a, jobs, "no running jobs", t)
}

// busyDevices is "gpu0 97 % 40G, gpu1 ?" of what a job has.
func busyDevices(j *v1.Job) string {
	if j.Usage == nil {
		return devices(j)
	}
	var out []string
	for _, d := range j.Usage.Devices {
		text := d.Name + " ?"
		if d.Percent != nil {
			text = d.Name + " " + strconv.FormatInt(*d.Percent, 10) + " %"
		}
		if d.Mem != "" {
			text += " " + string(d.Mem)
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}
