package cli

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	v1 "croft.dev/croft/api/v1"
)

// hostFlags registers what crun and calloc describe a job by.
func (o *batchOptions) hostFlags(fs *pflag.FlagSet, c *craneOptions) {
	o.sizeFlags(fs, c, true)
	fs.StringVarP(&o.name, "job-name", "J", "", "name")
	fs.StringVarP(&o.dir, "chdir", "D", "", "working directory")
	fs.StringVar(&o.export, "export", "ALL", "environment: ALL, NONE, NAME or NAME=VALUE, …")
	fs.StringVarP(&o.depends, "dependency", "d", "", "other jobs to wait for")
	o.host = true
}

// hostJob is the job that the options describe, without its command.
func (o *batchOptions) hostJob(a *app) (v1.JobSpec, error) {
	spec := v1.JobSpec{Kind: v1.KindBatch, Name: o.name, Account: o.account, Partition: o.partition, QoS: o.qos, Reservation: o.reservation, Hold: o.hold, After: o.depends}
	o.mail(a, &spec)
	err := o.cconSizes(&spec)
	spec.Workdir, spec.Env = a.hostPath(otherwise(o.dir, a.env.Dir)), o.environment(a)
	return spec, err
}

func (a *app) crunCmd() *cobra.Command {
	var o batchOptions
	var c craneOptions
	cmd := a.batchCmd(&cobra.Command{
		Use:   "crun [flags] COMMAND [ARG…]",
		Short: "Run a program on the machine, as CraneSched's crun does",
		Long: `Run a program on the machine itself, as you. In a job (where CROFT_JOB_ID or
CRANE_JOB_ID is set) it is a step of that job, which shares what the job has or takes
the part that -c, --mem and --gres name. Elsewhere it is a job of its own. Its output
comes here and its exit code is crun's; Ctrl-C stops it, once more kills it.`,
		Example: `  crun hostname
  crun -c 4 --mem 8G --gres gpu:1 ./train.sh
  CROFT_JOB_ID=118 crun nvidia-smi`,
		Args: needArgs(1, -1, "COMMAND"),
		RunE: func(cmd *cobra.Command, args []string) error {
			spec, err := o.hostJob(a)
			if err != nil {
				return err
			}
			c.unused(a, "crun")
			spec.Command = args
			if job, variable := a.inJob(); job != "" {
				return a.runStep(cmd.Context(), job, &o, spec, false, variable)
			}
			job, err := a.submit(cmd.Context(), spec, "")
			if err != nil {
				return err
			}
			return a.follow(cmd.Context(), job, tellTrouble)
		},
	})
	fs := cmd.Flags()
	fs.SetInterspersed(false)
	fs.BoolP("help", "h", false, "print this help")
	craneFlags(cmd)
	o.hostFlags(fs, &c)
	return cmd
}

func (a *app) callocCmd() *cobra.Command {
	var o batchOptions
	var c craneOptions
	cmd := a.batchCmd(&cobra.Command{
		Use:   "calloc [flags] [COMMAND [ARG…]]",
		Short: "Have an allocation while a shell runs, as CraneSched's calloc does",
		Long: `Submit a job that does nothing but have its allocation, wait until it has it, and run
your shell, or COMMAND, here. In it crun and ccon add steps to the job, which have what it
has; the shell itself is outside of it. The job ends when the shell does.`,
		Example: `  calloc --gres gpu:2 -t 1:00:00
  calloc -c 8 make -j8 test`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if job, variable := a.inJob(); job != "" {
				return usage("this is job %s already: crun and ccon add to it; unset %s for another", job, variable)
			}
			spec, err := o.hostJob(a)
			if err != nil {
				return err
			}
			c.unused(a, "calloc")
			spec.Name, spec.Command, spec.Env = otherwise(spec.Name, "calloc"), []string{"sleep", "infinity"}, nil
			return a.allocate(cmd.Context(), spec, args)
		},
	})
	fs := cmd.Flags()
	fs.SetInterspersed(false)
	fs.BoolP("help", "h", false, "print this help")
	craneFlags(cmd)
	o.hostFlags(fs, &c)
	return cmd
}

// allocate submits a job, runs a command beside it once it runs, and ends it then.
func (a *app) allocate(ctx context.Context, spec v1.JobSpec, command []string) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	// A signal that comes while it waits ends the job; later they are the command's.
	signals, stop := a.env.Signals(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	job, err := a.submit(ctx, spec, "")
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), away)
		defer cancel()
		if _, err := c.Stop(ctx, job.ID, v1.StopRequest{}); err != nil {
			a.complain("job "+job.ID+" couldn't be ended", err)
		}
	}()
	fmt.Fprintf(a.env.Stderr, "calloc: job %s waits for its allocation\n", clean(job.ID))
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-signals:
			cancel()
		case <-waiting.Done():
		}
	}()
	running, err := c.Wait(waiting, job.ID, v1.Running, v1.WaitOptions{Window: away})
	switch {
	case waiting.Err() != nil:
		return exitStatus(exitInterrupted)
	case err != nil:
		return err
	case running.State == "ended":
		return usage("job %s has ended: %s", running.ID, otherwise(running.Message, running.Outcome))
	}
	cancel()
	fmt.Fprintf(a.env.Stderr, "calloc: job %s has its allocation on %s\n", clean(running.ID), clean(strings.Join(append([]string{running.Node}, running.Devices...), " ")))
	return a.beside(ctx, c, running, command, signals)
}

// beside runs a command in this terminal while a job runs.
func (a *app) beside(ctx context.Context, c *v1.Client, job *v1.Job, command []string, signals <-chan os.Signal) error {
	if len(command) == 0 {
		command = []string{otherwise(a.env.Getenv("SHELL"), "/bin/sh")}
	}
	path, err := exec.LookPath(command[0])
	if err != nil {
		return usage("%v", err)
	}
	cmd := &exec.Cmd{
		Path: path, Args: command, Dir: a.env.Dir, Stdin: a.env.Stdin, Stdout: a.env.Stdout, Stderr: a.env.Stderr,
		Env: append(a.env.Environ(), allocated(job)...),
	}
	if err := cmd.Start(); err != nil {
		return usage("%v", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		end, err := c.Wait(ctx, job.ID, v1.Ended, v1.WaitOptions{Window: away})
		if err != nil || ctx.Err() != nil {
			return
		}
		a.complain("calloc", fmt.Errorf("job %s has ended: %s", end.ID, otherwise(end.Message, end.Outcome)))
		_ = cmd.Process.Signal(syscall.SIGHUP) // it may have ended
	}()
	go func() {
		for {
			select {
			case s := <-signals:
				if s != os.Interrupt { // which the terminal gives to the command as well
					_ = cmd.Process.Signal(s)
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	if code := waitCode(cmd); code != 0 {
		return exitStatus(code)
	}
	return nil
}

// allocated is what a command is told of the job that it runs beside.
func allocated(j *v1.Job) []string {
	var out []string
	for name, v := range map[string]string{
		"JOB_ID": j.ID, "JOB_NAME": j.Name, "JOB_ACCOUNT": j.Account, "JOB_PARTITION": j.Spec.Partition, "JOB_QOS": j.Spec.QoS,
		"JOB_NODELIST": j.Node, "JOB_NUM_NODES": "1", "GPUS": strconv.Itoa(len(j.Devices)),
	} {
		out = append(out, "CRANE_"+name+"="+v)
	}
	for name, v := range map[string]string{
		"JOB_ID": j.ID, "JOB_NAME": j.Name, "ACCOUNT": j.Account, "PARTITION": j.Spec.Partition, "QOS": j.Spec.QoS,
		"NODE": j.Node, "CPUS": string(j.Spec.CPU), "DEVICES": strings.Join(j.Devices, ","),
	} {
		out = append(out, "CROFT_"+name+"="+v)
	}
	return out
}
