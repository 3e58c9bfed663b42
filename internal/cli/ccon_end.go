package cli

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	v1 "croft.dev/croft/api/v1"
)

func (a *app) cconStopCmd() *cobra.Command {
	var grace int
	cmd := &cobra.Command{
		Use:   "stop [flags] CONTAINER…",
		Short: "Stop containers",
		Long: `Stop containers and wait for their end: by SIGTERM and, after the seconds of -t or the
grace that they have, by SIGKILL. To stop JOB.1 is to stop the job.`,
		Example: `  ccon stop 118
  ccon stop -t 60 118.2 118.3
  ccon stop -t 0 118.2`,
		Args:              needArgs(1, -1, "CONTAINER"),
		ValidArgsFunction: a.jobIDs("live"),
		RunE: func(cmd *cobra.Command, args []string) error {
			req := v1.StepStop{}
			switch timed := cmd.Flags().Changed("timeout"); {
			case timed && (grace < 0 || grace > 24*3600):
				return usage("-t %d: want seconds from 0, which kills at once, to a day", grace)
			case timed:
				req.Grace, req.Now = v1.Quantity(strconv.Itoa(grace)+"s"), grace == 0
			}
			return a.stopContainers(cmd.Context(), args, req)
		},
	}
	cmd.Flags().IntVarP(&grace, "timeout", "t", 0, "seconds until SIGKILL; 0 at once; by default the grace of the job")
	return cmd
}

// stopContainers tells all of them to end, and then waits for each.
func (a *app) stopContainers(ctx context.Context, args []string, req v1.StepStop) error {
	told := map[string]*v1.Step{}
	err := a.eachJob(args, func(name string) error {
		s, err := a.oneContainer(name, func(c *v1.Client, job string, n int) (*v1.Step, error) { return c.StopStep(ctx, job, n, req) })
		told[name] = s
		return err
	})
	var ended []v1.Step
	for _, name := range slices.Compact(args) {
		if told[name] == nil {
			continue
		}
		end, werr := a.api.WaitStep(ctx, told[name].Job, told[name].N, v1.Ended, v1.WaitOptions{Window: away})
		if werr != nil {
			return werr
		}
		if ended = append(ended, *end); a.output == "table" {
			fmt.Fprintln(a.env.Stdout, clean(name))
		}
	}
	if a.output != "table" && len(ended) > 0 {
		if perr := a.print(v1.Page[v1.Step]{Items: ended}, nil); perr != nil {
			return perr
		}
	}
	return err
}

// oneContainer does something with the container that is named.
func (a *app) oneContainer(name string, do func(c *v1.Client, job string, n int) (*v1.Step, error)) (*v1.Step, error) {
	job, n, err := container(name)
	if err != nil {
		return nil, err
	}
	c, err := a.client()
	if err != nil {
		return nil, err
	}
	return do(c, job, n)
}

func (a *app) cconWaitCmd() *cobra.Command {
	var interval int
	cmd := &cobra.Command{
		Use:   "wait [CONTAINER…]",
		Short: "Wait for containers to end",
		Long: `Wait for containers to end; in a job, without any named, for all of its further ones.
How each ended goes to standard error. The exit code is that of the first that failed.`,
		Example: `  ccon wait
  ccon wait 118.2 118.3`,
		ValidArgsFunction: a.jobIDs("live"),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch job, _ := a.inJob(); {
			case interval < 0:
				return usage("-t %d: want seconds", interval)
			case len(args) > 0:
				return a.waitFor(cmd.Context(), args)
			case job == "":
				return usage("which containers? In a job ccon wait waits for all of them; elsewhere name them, as ccon wait 118.2")
			default:
				return a.waitForAll(cmd.Context(), job)
			}
		},
	}
	cmd.Flags().IntVarP(&interval, "interval", "t", 0, "not needed: the server says at once when they end")
	return cmd
}

// waiter collects how containers ended.
type waiter struct {
	a      *app
	ended  []v1.Step
	failed error // of the first that did
}

func (w *waiter) wait(ctx context.Context, job string, n int) error {
	end, err := w.a.api.WaitStep(ctx, job, n, v1.Ended, v1.WaitOptions{Window: away})
	if err != nil {
		return err
	}
	w.ended = append(w.ended, *end)
	if err := w.a.finishStep(end, tellAll); err != nil && w.failed == nil {
		w.failed = err
	}
	return nil
}

func (w *waiter) finish() error {
	if w.a.output != "table" {
		if err := w.a.print(v1.Page[v1.Step]{Items: w.ended}, nil); err != nil {
			return err
		}
	}
	return w.failed
}

func (a *app) waitFor(ctx context.Context, names []string) error {
	w := waiter{a: a}
	for _, name := range names {
		_, err := a.oneContainer(name, func(_ *v1.Client, job string, n int) (*v1.Step, error) { return nil, w.wait(ctx, job, n) })
		if err != nil {
			return err
		}
	}
	return w.finish()
}

// waitForAll waits for a job's further steps, also for those that come meanwhile, and not
// for the one that this runs in.
func (a *app) waitForAll(ctx context.Context, job string) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	own, _ := strconv.Atoi(a.env.Getenv("CROFT_STEP_ID")) // none is 0, which is no step's
	w := waiter{a: a}
	seen := map[int]bool{own: true}
	for more := true; more; {
		more = false
		steps, err := v1.Collect(c.Steps(ctx, job, v1.StepQuery{}))
		if err != nil {
			return err
		}
		for _, s := range steps {
			if seen[s.N] {
				continue
			}
			seen[s.N], more = true, true
			if err := w.wait(ctx, job, s.N); err != nil {
				return err
			}
		}
	}
	return w.finish()
}
