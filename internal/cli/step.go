package cli

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	v1 "croft.dev/croft/api/v1"
)

func (a *app) stepCmd() *cobra.Command {
	return group("step", "Further programs in a running job", `  croft step run 118 -- python eval.py
  croft step ls 118
  croft step stop 118.2`,
		a.stepRunCmd(), a.stepLsCmd(), a.stepShowCmd(), a.stepWaitCmd(), a.stepStopCmd())
}

// stepFlags describe a step.
type stepFlags struct {
	v1.StepSpec
	env, mounts, tmpfs []string
}

func (f *stepFlags) register(cmd *cobra.Command) {
	fs := cmd.Flags()
	quantity := func(p *v1.Quantity, name, short, usage string) { fs.StringVarP((*string)(p), name, short, "", usage) }
	fs.StringVar(&f.Image, "image", "", "image; by default the job's")
	fs.BoolVar(&f.Host, "host", false, "on the machine itself, in no container")
	quantity(&f.CPU, "cpu", "c", "so many of the job's CPU cores for itself")
	quantity(&f.Mem, "mem", "", "so much of the job's memory for itself")
	quantity(&f.GPU, "gpu", "G", "so many of the job's accelerators for itself; 0: none of them")
	quantity(&f.Time, "time", "t", "longest run; by default as long as the job")
	quantity(&f.Grace, "grace", "", "time between SIGTERM and SIGKILL; by default the job's")
	fs.StringVarP(&f.Name, "name", "n", "", "name of the step")
	fs.StringVarP(&f.Workdir, "workdir", "w", "", "working directory in the container")
	fs.StringVar(&f.Pull, "pull", "", "pull the image: missing, always or never")
	fs.BoolVarP(&f.Stdin, "stdin", "i", false, "pass standard input on")
	fs.BoolVar(&f.TTY, "tty", false, "give the program a terminal, and so an input")
	fs.StringArrayVarP(&f.env, "env", "e", nil, "environment `K=V`, or K for its value here (repeatable)")
	fs.StringArrayVarP(&f.mounts, "mount", "v", nil, "folder or volume `SRC[:DST][:ro]` (repeatable)")
	fs.StringArrayVar(&f.tmpfs, "tmpfs", nil, "empty folder in the job's memory, `PATH[:SIZE]` (repeatable)")
}

// read is the step that the flags and the words after the job describe.
func (f *stepFlags) read(a *app, command []string) (v1.StepSpec, error) {
	of, parts := specFlags{env: f.env, mounts: f.mounts, tmpfs: f.tmpfs}, v1.JobSpec{}
	err := of.readParts(a, &parts)
	spec := f.StepSpec
	spec.Env, spec.Mounts, spec.Command = parts.Env, parts.Mounts, command
	if err == nil {
		err = readStreams(&spec.Stdin, &spec.TTY, f.Stdin, f.TTY, f.Time)
	}
	if spec.Host {
		spec.Workdir = a.hostPath(otherwise(spec.Workdir, a.env.Dir))
	}
	return spec, err
}

func (a *app) stepRunCmd() *cobra.Command {
	var f stepFlags
	var detach, quiet bool
	cmd := &cobra.Command{
		Use:   "run [flags] JOB [-- COMMAND…]",
		Short: "Run a further program in a running job",
		Long: `Run a further program in a running job: a container of its own, beside the job's,
with the same network, IPC and /dev/shm; or with --host a program on the machine itself,
in the folder where croft runs. It shares what the job has, or has the part for
itself that it names; then it waits until no other such step has that. Its output comes
here, and its exit code is croft's; with -d croft prints its number and leaves. Ctrl-C
stops it, once more kills it. The end of the job's own program ends its steps.`,
		Example: `  croft step run 118 -- python eval.py
  croft step run 118 --image tensorboard:1 -d -- tensorboard --logdir /logs
  croft step run 118 --gpu 1 -c 4 -v ./out:/out -- python eval.py`,
		Args:              needArgs(1, -1, "JOB"),
		ValidArgsFunction: a.jobIDs("running"),
		RunE: func(cmd *cobra.Command, args []string) error {
			job, command := jobAndCommand(args)
			spec, err := f.read(a, command)
			if err != nil {
				return err
			}
			if !detach && spec.Stdin {
				if err := a.comeAlong(spec.TTY); err != nil {
					return err
				}
				spec.AwaitAttach = true
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			step, err := once(cmd.Context(), "", func(key v1.Option) (*v1.Step, error) { return c.AddStep(cmd.Context(), job, spec, key) })
			switch {
			case err != nil:
				return err
			case detach:
				return a.print(step, func(w io.Writer) { fmt.Fprintln(w, clean(step.ID)) })
			}
			return a.followStep(cmd.Context(), c, step, quietly(quiet))
		},
	}
	f.register(cmd)
	cmd.Flags().BoolVarP(&detach, "detach", "d", false, "print the step's number and leave")
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "only the program's output")
	a.completeFlag(cmd, "pull", fixed("missing", "always", "never"))
	return cmd
}

// followStep stays with a step until its end and returns its exit code as an error.
func (a *app) followStep(ctx context.Context, c *v1.Client, step *v1.Step, tell telling) error {
	signals, stop := a.env.Signals(os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if why := otherwise(step.Progress, step.Message); why != "" && (tell == tellAll || tell == tellTrouble && a.env.Term.Err) {
		fmt.Fprintf(a.env.Stderr, "%s %s\n", clean(step.ID), clean(why))
	}
	go a.stopOn(ctx, c, step, signals)
	if step.Spec.AwaitAttach {
		switch left, err := a.joinStep(ctx, c, step); {
		case err != nil:
			return err
		case left:
			return nil
		}
	} else if err := a.copyStepLog(ctx, c, step); err != nil {
		return err
	}
	end, err := c.WaitStep(ctx, step.Job, step.N, v1.Ended, v1.WaitOptions{Window: away})
	if err != nil {
		return err
	}
	return a.finishStep(end, tell)
}

func (a *app) copyStepLog(ctx context.Context, c *v1.Client, step *v1.Step) error {
	for frame, err := range c.FollowLogs(ctx, step.Job, v1.LogQuery{Step: step.N, Window: away}) {
		if err != nil {
			return err
		}
		if err := a.writeFrame(frame); err != nil {
			return err
		}
	}
	return nil
}

// stopOn stops the step at the first signal, and kills it at the next.
func (a *app) stopOn(ctx context.Context, c *v1.Client, step *v1.Step, signals <-chan os.Signal) {
	for kill := false; ; kill = true {
		select {
		case <-ctx.Done():
			return
		case <-signals:
		}
		fmt.Fprintf(a.env.Stderr, "stopping %s\n", clean(step.ID))
		if _, err := c.StopStep(ctx, step.Job, step.N, v1.StepStop{Now: kill}); err != nil {
			fmt.Fprintf(a.env.Stderr, "%s couldn't be stopped: %s\n", clean(step.ID), clean(err.Error()))
		}
	}
}

// finishStep says how a step ended and returns its exit code as an error.
func (a *app) finishStep(s *v1.Step, tell telling) error {
	j := stepAsJob(s)
	if tell == tellAll || tell == tellTrouble && trouble(s.Outcome, s.Message) {
		line := clean(s.ID) + " " + clean(strings.ReplaceAll(jobState(j), "_", " "))
		if s.ExitCode != nil && *s.ExitCode != 0 {
			line += " (exit " + strconv.Itoa(*s.ExitCode) + ")"
		}
		if s.Message != "" && s.Outcome != "completed" {
			line += ": " + clean(s.Message)
		}
		fmt.Fprintln(a.env.Stderr, line)
	}
	if code := exitCode(j); code != 0 {
		return exitStatus(code)
	}
	return nil
}

// stepAsJob is a step as far as it is like a job.
func stepAsJob(s *v1.Step) *v1.Job {
	return &v1.Job{ID: s.ID, State: s.State, Outcome: s.Outcome, ExitCode: s.ExitCode, Started: s.Started, Ended: s.Ended}
}

func (a *app) stepLsCmd() *cobra.Command {
	var live bool
	cmd := &cobra.Command{
		Use:   "ls JOB",
		Short: "List the further programs of a job",
		Example: `  croft step ls 118
  croft step ls --live 118`,
		Args:              needArgs(1, 1, "JOB"),
		ValidArgsFunction: a.jobIDs("all"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			q := v1.StepQuery{}
			if live {
				q.State = "live"
			}
			list, err := v1.Collect(c.Steps(cmd.Context(), args[0], q))
			if err != nil {
				return err
			}
			t := newTable("STEP", "~NAME", "~IMAGE", "STATE", ">TIME", "DEVICES", "~WHY")
			for i := range list {
				s := &list[i]
				j := stepAsJob(s)
				t.row(s.ID, s.Spec.Name, ranIn(s.Spec), jobState(j), otherwise(a.jobTime(j), "-"), otherwise(strings.Join(s.Devices, " "), "-"), otherwise(s.Progress, s.Message))
			}
			return printList(a, list, "no steps", t)
		},
	}
	cmd.Flags().BoolVar(&live, "live", false, "only those that haven't ended")
	return cmd
}

// stepName splits JOB.STEP.
func stepName(s string) (job string, n int, err error) {
	job, number, ok := strings.Cut(s, ".")
	if n, err = strconv.Atoi(number); !ok || err != nil || n < 1 || n > math.MaxInt32 || strconv.Itoa(n) != number || job == "" {
		return "", 0, usage("%q isn't a step: give the job's number, a dot and the step's, such as 118.2", s)
	}
	return job, n, nil
}

// jobOrStep splits JOB or JOB.STEP; the step is 0 where none is named.
func jobOrStep(s string) (job string, n int, err error) {
	if !strings.Contains(s, ".") {
		return s, 0, nil
	}
	return stepName(s)
}

// oneStep does something with the step that is named.
func (a *app) oneStep(name string, do func(c *v1.Client, job string, n int) (*v1.Step, error)) (*v1.Step, error) {
	job, n, err := stepName(name)
	if err != nil {
		return nil, err
	}
	c, err := a.client()
	if err != nil {
		return nil, err
	}
	return do(c, job, n)
}

func (a *app) stepShowCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "show JOB.STEP",
		Short:   "Show a step; 1 is the job's own program",
		Example: "  croft step show 118.2",
		Args:    needArgs(1, 1, "JOB.STEP"),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := a.oneStep(args[0], func(c *v1.Client, job string, n int) (*v1.Step, error) { return c.Step(cmd.Context(), job, n) })
			if err != nil {
				return err
			}
			return a.print(s, func(w io.Writer) { a.writeStep(w, s) })
		},
	}
}

func (a *app) writeStep(w io.Writer, s *v1.Step) {
	j := stepAsJob(s)
	state := jobState(j)
	if s.ExitCode != nil && *s.ExitCode != 0 {
		state += " (exit " + strconv.Itoa(*s.ExitCode) + ")"
	}
	size := ""
	for _, part := range []struct{ n, unit string }{{string(s.Spec.GPU), "gpu"}, {string(s.Spec.CPU), "cpu"}, {string(s.Spec.Mem), "mem"}} {
		if part.n != "" {
			size += "  " + part.n + " " + part.unit
		}
	}
	for _, line := range [][2]string{
		{"step", s.ID}, {"name", s.Spec.Name}, {"state", state}, {"image", ranIn(s.Spec)}, {"command", strings.Join(s.Spec.Command, " ")},
		{"digest", s.Image}, {"args", strings.Join(s.Spec.Args, " ")},
		{"for itself", strings.TrimSpace(size)}, {"devices", strings.Join(s.Devices, " ")}, {"time", a.jobTime(j)}, {"progress", s.Progress}, {"message", s.Message},
	} {
		if line[1] != "" {
			fmt.Fprintf(w, "%-11s %s\n", line[0], clean(line[1]))
		}
	}
}

func (a *app) stepWaitCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "wait JOB[.STEP]…",
		Short: "Wait for steps to end",
		Long: `Wait for steps, or for all of a job's, to end. The exit code is that of the first of
them that failed.`,
		Example: `  croft step wait 118.2 118.3
  croft step wait 118`,
		Args: needArgs(1, -1, "JOB[.STEP]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			var failed error
			for _, name := range args {
				steps, err := a.stepsOf(cmd.Context(), c, name)
				if err != nil {
					return err
				}
				for _, s := range steps {
					end, err := c.WaitStep(cmd.Context(), s.Job, s.N, v1.Ended, v1.WaitOptions{Window: away})
					if err != nil {
						return err
					}
					if err := a.finishStep(end, tellAll); err != nil && failed == nil {
						failed = err
					}
				}
			}
			return failed
		},
	}
}

// stepsOf is a step by its name, or those of a job.
func (a *app) stepsOf(ctx context.Context, c *v1.Client, name string) ([]v1.Step, error) {
	if !strings.Contains(name, ".") {
		return v1.Collect(c.Steps(ctx, name, v1.StepQuery{}))
	}
	job, n, err := stepName(name)
	return []v1.Step{{Job: job, N: n}}, err
}

func (a *app) stepStopCmd() *cobra.Command {
	var req v1.StepStop
	cmd := &cobra.Command{
		Use:   "stop JOB.STEP…",
		Short: "Stop steps",
		Long: `Stop steps: by SIGTERM and, after their grace or the --grace given here, by SIGKILL.
The job and its other steps go on.`,
		Example: `  croft step stop 118.2
  croft step stop --grace 5s 118.2 118.3`,
		Args: needArgs(1, -1, "JOB.STEP"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.eachJob(args, func(name string) error {
				s, err := a.oneStep(name, func(c *v1.Client, job string, n int) (*v1.Step, error) {
					return c.StopStep(cmd.Context(), job, n, req)
				})
				if err != nil {
					return err
				}
				return a.print(s, func(w io.Writer) { fmt.Fprintf(w, "%s %s\n", clean(s.ID), clean(jobState(stepAsJob(s)))) })
			})
		},
	}
	cmd.Flags().StringVar((*string)(&req.Grace), "grace", "", "time between SIGTERM and SIGKILL; by default the step's")
	cmd.Flags().BoolVar(&req.Now, "now", false, "SIGKILL at once")
	return cmd
}
