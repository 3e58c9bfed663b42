package cli

import (
	"maps"
	"os/exec"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

func (a *app) srunCmd() *cobra.Command {
	var o batchOptions
	var quiet bool
	cmd := a.batchCmd(&cobra.Command{
		Use:   "srun [flags] COMMAND [ARG…]",
		Short: "Run a command as tasks of a job, as Slurm's srun does",
		Long: `In a job: run a command as the job's tasks, --ntasks of them, with the job's
resources. Elsewhere: submit it as a job in a container and stay with it, as croft run
does.`,
		Example: `  srun -n 4 ./simulate
  srun --output %j_%t.log python train.py
  srun --container-image train:1 --gpus 1 python train.py`,
		Args: needArgs(1, -1, "COMMAND"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if a.env.Getenv("CROFT_JOB_ID") != "" {
				return a.runTasks(&o, args)
			}
			spec, _, err := o.spec(a)
			if err != nil {
				return err
			}
			o.signals(&spec)
			spec.Command = args
			job, err := a.submit(cmd.Context(), spec, "")
			if err != nil {
				return err
			}
			return a.follow(cmd.Context(), job, quietly(quiet))
		},
	})
	slurmFlags(cmd, "h")
	fs := cmd.Flags()
	fs.SetInterspersed(false)
	o.flags(fs)
	fs.BoolVarP(&quiet, "quiet", "Q", false, "no quote, progress and receipt")
	ignored(fs, "unbuffered", "u", "label", "l", "exact", "", "overlap", "", "pty", "", "overcommit", "O", "oversubscribe", "s")
	fs.StringP("kill-on-bad-exit", "K", "", "")
	fs.Lookup("kill-on-bad-exit").NoOptDefVal = "1"
	hide(fs, "kill-on-bad-exit")
	return cmd
}

// runTasks runs a command as the tasks of the job that this runs in.
func (a *app) runTasks(o *batchOptions, args []string) error {
	if o.image != "" {
		return usage("--container-image: inside a job the tasks run in the job's container")
	}
	env := a.jobEnvironment()
	text := otherwise(o.tasks, otherwise(o.tasksPerNode, env["SLURM_NTASKS"]))
	n, err := o.count("ntasks", text, 1)
	if err != nil {
		return err
	}
	program, err := lookIn(env["PATH"], args[0])
	if err != nil {
		return notInImage(args[0])
	}
	files := streams{o.output, o.errors, o.input, otherwise(o.openMode, env["SLURM_OPEN_MODE"])}
	var cmds []*exec.Cmd
	for i := range n {
		task := strconv.FormatInt(i, 10)
		own := maps.Clone(env)
		own["SLURM_PROCID"], own["SLURM_LOCALID"], own["SLURM_STEP_ID"], own["SLURM_STEPID"] = task, task, "0", "0"
		own["SLURM_NTASKS"], own["SLURM_NPROCS"], own["SLURM_STEP_NUM_TASKS"] = strconv.FormatInt(n, 10), strconv.FormatInt(n, 10), strconv.FormatInt(n, 10)
		cmd := &exec.Cmd{Path: program, Args: args, Env: assignments(own)}
		if o.dir != "" {
			cmd.Dir = a.hostPath(o.dir)
		}
		if i == 0 || strings.Contains(o.input, "%t") {
			cmd.Stdin = a.env.Stdin
		}
		done, err := files.open(a, cmd, own, task)
		if err != nil {
			return err
		}
		defer done()
		if i > 0 && !strings.Contains(files.output, "%t") {
			files.openMode = "append" // one file of all tasks isn't emptied by each
		}
		cmds = append(cmds, cmd)
	}
	code, err := a.supervise(cmds, func(sig syscall.Signal, pid int) { _ = syscall.Kill(-pid, sig) })
	if err != nil || code == 0 {
		return err
	}
	return exitStatus(code)
}
