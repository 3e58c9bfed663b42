package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
)

// batchOptions are sbatch's options that describe a job, as texts: those in a script
// and those on the command line are put together before they are read.
type batchOptions struct {
	account, partition, qos, name, time      string
	nodes, tasks, tasksPerNode, cpus         string
	cpusPerGPU, mem, memPerCPU, memPerGPU    string
	gres, gpus, gpusPerNode, gpusPerTask     string
	output, errors, input, openMode          string
	dir, export, signal                      string
	image, mounts, workdir                   string
	requeue, noRequeue, noHome               bool
	array, depends, begin, deadline          string
	hold, exclusive                          bool
	constraint, reservation, onNodes, except string
	mailType, mailUser                       string
	host, login                              bool // the script runs on the machine itself; after the user's profile
}

// flags registers them (sbatch(1) and, for the container, the pyxis plugin).
func (o *batchOptions) flags(fs *pflag.FlagSet) {
	fs.StringVarP(&o.account, "account", "A", "", "account that pays")
	fs.StringVarP(&o.partition, "partition", "p", "", "partition")
	fs.StringVarP(&o.qos, "qos", "q", "", "quality of service")
	fs.StringVarP(&o.name, "job-name", "J", "", "name of the job")
	fs.StringVarP(&o.time, "time", "t", "", "longest run: minutes, H:M:S or D-H:M:S")
	fs.StringVarP(&o.nodes, "nodes", "N", "", "1; croft run --nodes has several")
	fs.StringVarP(&o.tasks, "ntasks", "n", "", "tasks that srun starts")
	fs.StringVar(&o.tasksPerNode, "ntasks-per-node", "", "likewise")
	fs.StringVarP(&o.cpus, "cpus-per-task", "c", "", "CPU cores of a task")
	fs.StringVar(&o.cpusPerGPU, "cpus-per-gpu", "", "CPU cores for each device")
	fs.StringVar(&o.mem, "mem", "", "memory, such as 64G; without a unit MB")
	fs.StringVar(&o.memPerCPU, "mem-per-cpu", "", "memory for each core")
	fs.StringVar(&o.memPerGPU, "mem-per-gpu", "", "memory for each device")
	fs.StringVar(&o.gres, "gres", "", "devices, as gpu:2 or gpu:MODEL:2")
	fs.StringVarP(&o.gpus, "gpus", "G", "", "devices, as 2 or MODEL:2")
	fs.StringVar(&o.gpusPerNode, "gpus-per-node", "", "likewise")
	fs.StringVar(&o.gpusPerTask, "gpus-per-task", "", "devices for each task")
	fs.StringVarP(&o.output, "output", "o", "", "file for standard output; %j is the job")
	fs.StringVarP(&o.errors, "error", "e", "", "file for standard error; by default that of --output")
	fs.StringVarP(&o.input, "input", "i", "", "file for standard input")
	fs.StringVar(&o.openMode, "open-mode", "", "append to output files or truncate them")
	fs.StringVarP(&o.dir, "chdir", "D", "", "working directory")
	fs.StringVar(&o.export, "export", "ALL", "environment: ALL, NONE, NAME or NAME=VALUE, …")
	fs.StringVar(&o.signal, "signal", "", "[B:]SIGNAL[@SECONDS] before the time limit; B: to the script alone")
	fs.BoolVar(&o.requeue, "requeue", false, "queue again after a node's failure or preemption")
	fs.BoolVar(&o.noRequeue, "no-requeue", false, "never queue again")
	fs.StringVarP(&o.depends, "dependency", "d", "", "other jobs to wait for: afterok:12:13_7,aftercorr:14, singleton")
	fs.StringVarP(&o.begin, "begin", "b", "", "don't start before: 16:40, 2027-03-31T16:40 or now+2hours")
	fs.StringVar(&o.deadline, "deadline", "", "end by then, or don't start at all")
	fs.BoolVarP(&o.hold, "hold", "H", false, "don't start before scontrol release")
	fs.StringVarP(&o.array, "array", "a", "", "one task for each index: 0-99:2,105%10; %10 is 10 at once")
	fs.StringVarP(&o.constraint, "constraint", "C", "", "labels that the node must have, as nvlink&!old")
	fs.StringVar(&o.image, "container-image", "", "image to run in; by default $CROFT_IMAGE")
	fs.StringVar(&o.mounts, "container-mounts", "", "`SRC[:DST][:ro]` to mount, separated by commas")
	fs.StringVar(&o.workdir, "container-workdir", "", "working directory in the container")
	fs.BoolVar(&o.noHome, "no-container-mount-home", false, "don't mount your home")
	fs.BoolVar(&o.exclusive, "exclusive", false, "")
	fs.StringVar(&o.reservation, "reservation", "", "run in the windows of this reservation")
	o.mailFlags(fs)
	fs.StringVarP(&o.onNodes, "nodelist", "w", "", "")
	fs.StringVarP(&o.except, "exclude", "x", "", "")
	hide(fs, "exclusive", "nodelist", "exclude")
	for _, name := range []string{
		"comment", "wckey", "nice", "time-min", "get-user-env", "hint", "distribution", "threads-per-core",
		"ntasks-per-core", "ntasks-per-socket", "mincpus", "tmp", "propagate", "cpu-bind", "mem-bind", "kill-on-invalid-dep", "profile",
		"acctg-freq", "mpi", "switches", "gpu-bind", "gpu-freq",
	} {
		fs.String(name, "", "")
		fs.Lookup(name).NoOptDefVal = "yes"
		hide(fs, name)
	}
}

func hide(fs *pflag.FlagSet, names ...string) {
	for _, name := range names {
		fs.Lookup(name).Hidden = true
	}
}

// unsupported says which options Croft can't fulfil: to pass over them would run
// another job than was meant.
func (o *batchOptions) unsupported() error {
	for _, f := range []struct{ value, flag, say string }{
		{truth(o.exclusive, "yes", ""), "exclusive", "nodes are shared: ask for the CPUs, memory and devices that the job needs"},
		{o.onNodes, "nodelist", "a job can't choose its node"},
		{o.except, "exclude", "a job can't choose its node"},
	} {
		if f.value != "" {
			return usage("--%s: %s", f.flag, f.say)
		}
	}
	return nil
}

// count reads a whole number of at least 1; otherwise for none.
func (o *batchOptions) count(flag, value string, otherwise int64) (int64, error) {
	if value == "" {
		return otherwise, nil
	}
	n, err := strconv.ParseInt(value, 10, 20)
	if err != nil || n < 1 {
		return 0, usage("--%s %s: want a whole number from 1", flag, value)
	}
	return n, nil
}

func (o *batchOptions) oneNode() bool { return o.nodes == "" || o.nodes == "1" || o.nodes == "1-1" }

// sizes sets what the job needs.
func (o *batchOptions) sizes(spec *v1.JobSpec) (tasks int64, err error) {
	if !o.oneNode() {
		return 0, usage("--nodes %s: a script runs on one node here; croft run --nodes runs a program on several", o.nodes)
	}
	if tasks, err = o.count("ntasks-per-node", o.tasksPerNode, 1); err != nil {
		return 0, err
	}
	if tasks, err = o.count("ntasks", o.tasks, tasks); err != nil {
		return 0, err
	}
	gpus, err := o.devices(spec, tasks)
	if err != nil {
		return 0, err
	}
	perTask, err := o.count("cpus-per-task", o.cpus, 1)
	if err != nil {
		return 0, err
	}
	cpus := tasks * perTask
	if o.cpusPerGPU != "" && o.cpus == "" {
		n, err := o.count("cpus-per-gpu", o.cpusPerGPU, 1)
		if err != nil {
			return 0, err
		}
		cpus = max(cpus, n*gpus)
	}
	if cpus > 1 || o.cpus != "" || o.tasks != "" || o.tasksPerNode != "" {
		spec.CPU = v1.Quantity(strconv.FormatInt(cpus, 10))
	}
	for _, m := range []struct {
		value string
		times int64
	}{{o.mem, 1}, {o.memPerCPU, cpus}, {o.memPerGPU, gpus}} {
		if m.value == "" {
			continue
		}
		n, err := slurmMegabytes(m.value)
		if err != nil {
			return 0, err
		}
		spec.Mem = v1.Quantity(strconv.FormatInt(n*max(m.times, 1), 10) + "M")
	}
	if o.time != "" {
		d, err := slurmSpan(o.time)
		if err != nil {
			return 0, err
		}
		spec.Time = v1.Quantity(strconv.FormatInt(int64(d/time.Second), 10) + "s")
	}
	return tasks, nil
}

func (o *batchOptions) devices(spec *v1.JobSpec, tasks int64) (int64, error) {
	var sum int64
	for _, g := range []struct {
		value string
		gres  bool
		times int64
	}{{o.gres, true, 1}, {o.gpus, false, 1}, {o.gpusPerNode, false, 1}, {o.gpusPerTask, false, tasks}} {
		if g.value == "" {
			continue
		}
		model, n, err := gpuAmount(g.value, g.gres)
		if err != nil {
			return 0, err
		}
		if model != "" {
			spec.Model = model
		}
		sum = n * g.times
		spec.GPU = v1.Quantity(strconv.FormatInt(sum, 10))
	}
	return sum, nil
}

// signals reads [B:]SIG[@SECONDS].
func (o *batchOptions) signals(spec *v1.JobSpec) (toScript bool) {
	rest, toScript := strings.CutPrefix(o.signal, "B:")
	rest = strings.TrimPrefix(rest, "R:")
	if name, at, ok := strings.Cut(rest, "@"); ok {
		spec.Signal = strings.TrimPrefix(name, "SIG") + "@" + at
	} else if rest != "" {
		spec.Signal = strings.TrimPrefix(rest, "SIG") + "@60"
	}
	return toScript
}

// spec is the job without its command, and the number of its tasks.
func (o *batchOptions) spec(a *app) (v1.JobSpec, int64, error) {
	spec := v1.JobSpec{
		Account: o.account, Partition: o.partition, QoS: o.qos, Name: o.name, Image: otherwise(o.image, a.env.Getenv("CROFT_IMAGE")),
	}
	if err := o.unsupported(); err != nil {
		return spec, 0, err
	}
	tasks, err := o.sizes(&spec)
	if err != nil {
		return spec, 0, err
	}
	if spec.Image == "" && !o.host {
		return spec, 0, usage("which image? a job runs in a container: give --container-image, a line #SBATCH --container-image=IMAGE in the script, or set CROFT_IMAGE")
	}
	switch {
	case o.noRequeue:
		spec.Requeue = []string{"never"}
	case o.requeue:
		spec.Requeue = []string{"node", "preempt"}
	}
	o.mail(a, &spec)
	spec.Hold, spec.After, spec.Constraint, spec.Array, spec.Reservation = o.hold, o.depends, o.constraint, o.array, o.reservation
	if spec.Begin, err = a.slurmInstant(o.begin); err != nil {
		return spec, 0, err
	}
	if spec.Deadline, err = a.slurmInstant(o.deadline); err != nil {
		return spec, 0, err
	}
	if o.host {
		spec.Kind, spec.Workdir = v1.KindBatch, a.hostPath(otherwise(o.dir, a.env.Dir))
	} else if err := o.places(a, &spec); err != nil {
		return spec, 0, err
	}
	spec.Env = o.environment(a)
	return spec, tasks, nil
}

// places sets the working directory and the mounts: the caller's home and the
// working directory are where they are outside, as users of batch systems expect.
func (o *batchOptions) places(a *app, spec *v1.JobSpec) error {
	dir := a.hostPath(otherwise(o.dir, a.env.Dir))
	spec.Workdir = otherwise(o.workdir, dir)
	for m := range strings.SplitSeq(o.mounts, ",") {
		if m == "" {
			continue
		}
		mount, err := parseMount(m)
		if err != nil {
			return err
		}
		mount.Source = a.hostPath(mount.Source)
		spec.Mounts = append(spec.Mounts, mount)
	}
	home := a.env.Getenv("HOME")
	if filepath.IsAbs(home) && home != "/" && !o.noHome {
		spec.Mounts = append(spec.Mounts, v1.Mount{Source: home})
	}
	if !slices.ContainsFunc(spec.Mounts, func(m v1.Mount) bool { return below(dir, otherwise(m.Target, m.Source)) }) {
		spec.Mounts = append(spec.Mounts, v1.Mount{Source: dir})
	}
	return nil
}

// submittedFrom says in a refusal of the folder where a job was submitted that it's that:
// nobody asked for it to be mounted.
func (o *batchOptions) submittedFrom(a *app, err error) error {
	var p *v1.Problem
	if !errors.As(err, &p) {
		return err
	}
	for i, r := range p.Reasons {
		if r.Code == string(codes.MountNotAllowed) && r.Observed == a.hostPath(otherwise(o.dir, a.env.Dir)) {
			p.Reasons[i].Message += "; it's where you submit: go to a folder that is, or name one by --chdir"
		}
	}
	return err
}

func below(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// maxScript bounds a script: it travels as one word of the job's command.
const maxScript = 128 << 10

func (a *app) sbatchCmd() *cobra.Command {
	var o batchOptions
	var wrap string
	var parsable, wait, test, quiet bool
	cmd := a.batchCmd(&cobra.Command{
		Use:   "sbatch [flags] [SCRIPT [ARG…]]",
		Short: "Submit a batch script, as Slurm's sbatch does",
		Long: `Submit a script, from a file or standard input, as Slurm's sbatch does. Options may
stand in the script on lines that begin with #SBATCH or #CROFT; those given here
come first. The job runs in a container, in the folder where it was submitted, which
is mounted with your home. Its output goes to slurm-JOB.out there.`,
		Example: `  sbatch --container-image train:1 --gpus 1 -t 2:00:00 train.sh
  sbatch --parsable -J eval --wrap "python eval.py"
  sbatch --test-only train.sh`,
		RunE: func(cmd *cobra.Command, args []string) error {
			name, script, err := a.readScript(args, wrap)
			if err != nil {
				return err
			}
			if err := o.withScript(cmd, script); err != nil {
				return err
			}
			spec, tasks, err := o.spec(a)
			if err != nil {
				return err
			}
			spec.Name = otherwise(spec.Name, name)
			o.command(a, &spec, tasks, script, args)
			if test {
				return a.testOnly(cmd, spec)
			}
			job, err := a.submit(cmd.Context(), spec, "")
			if err != nil {
				return o.submittedFrom(a, err)
			}
			err = a.print(job, func(w io.Writer) {
				switch {
				case parsable:
					fmt.Fprintln(w, clean(job.ID))
				case !quiet:
					fmt.Fprintf(w, "Submitted batch job %s\n", clean(job.ID))
				}
			})
			if err != nil || !wait {
				return err
			}
			job, err = a.api.Wait(cmd.Context(), job.ID, v1.Ended, v1.WaitOptions{Window: away})
			if err != nil {
				return err
			}
			if code := exitCode(job); code != 0 {
				return exitStatus(code)
			}
			return nil
		},
	})
	slurmFlags(cmd, "h")
	fs := cmd.Flags()
	fs.SetInterspersed(false)
	o.flags(fs)
	fs.StringVar(&wrap, "wrap", "", "a command line instead of a script")
	fs.BoolVar(&parsable, "parsable", false, "print the job's number alone")
	fs.BoolVarP(&wait, "wait", "W", false, "wait for the end, and end with the job's exit code")
	fs.BoolVar(&test, "test-only", false, "say when the job would start, and don't submit it")
	fs.BoolVarP(&quiet, "quiet", "Q", false, "print nothing")
	a.completeFlag(cmd, "account", a.accountNames)
	a.completeFlag(cmd, "partition", a.partitionNames)
	return cmd
}

// readScript returns a script and its name.
func (a *app) readScript(args []string, wrap string) (name, script string, err error) {
	if wrap != "" {
		if len(args) > 0 {
			return "", "", usage("--wrap and a script: give one of them")
		}
		return "wrap", "#!/bin/sh\n" + wrap + "\n", nil
	}
	var text []byte
	if len(args) == 0 || args[0] == "-" {
		name = "sbatch"
		text, err = io.ReadAll(io.LimitReader(a.env.Stdin, maxScript+1))
	} else {
		name = filepath.Base(args[0])
		text, err = os.ReadFile(a.hostPath(args[0]))
	}
	switch {
	case err != nil:
		return "", "", usage("%v", err)
	case !strings.HasPrefix(string(text), "#!"):
		return "", "", usage("%s isn't a batch script: its first line must say what runs it, as #!/bin/bash", name)
	case len(text) > maxScript:
		return "", "", usage("%s is longer than %d KiB", name, maxScript>>10)
	}
	return name, string(text), nil
}

// withScript puts the options of a script under those of the command line.
func (o *batchOptions) withScript(cmd *cobra.Command, script string) error {
	args, err := scriptOptions(script)
	if err != nil {
		return err
	}
	var all batchOptions
	fs := pflag.NewFlagSet("script", pflag.ContinueOnError)
	fs.Usage = func() {}
	all.flags(fs)
	fs.BoolP("quiet", "Q", false, "")
	fs.BoolP("wait", "W", false, "")
	fs.BoolP("verbose", "v", false, "")
	if err := fs.Parse(args); err != nil {
		return usage("in the script: %v", err)
	}
	if fs.NArg() > 0 {
		return usage("in the script: %q isn't an option", fs.Arg(0))
	}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if fs.Lookup(f.Name) != nil {
			err = fs.Set(f.Name, f.Value.String())
		}
	})
	*o = all
	return err
}

// command sets what the job runs: croft itself, which is in every container, with the
// script.
func (o *batchOptions) command(a *app, spec *v1.JobSpec, tasks int64, script string, args []string) {
	toScript := o.signals(spec)
	spec.Command = []string{v1.JobClient, "script", "--name", spec.Name}
	output, of := o.output, "slurm-"
	if o.host {
		of = "Crane-"
	}
	switch {
	case output == "" && o.array != "":
		output = of + "%A_%a.out"
	case output == "":
		output = of + "%j.out"
	}
	for _, f := range []struct{ flag, value string }{{"--output", output}, {"--error", o.errors}, {"--input", o.input}, {"--open-mode", o.openMode}} {
		if f.value != "" {
			spec.Command = append(spec.Command, f.flag, f.value)
		}
	}
	if toScript {
		spec.Command = append(spec.Command, "--signal-script")
	}
	if o.login {
		spec.Command = append(spec.Command, "--login")
	}
	if o.host {
		// Others see the words of a command on the machine, and not its environment.
		spec.Env[scriptVariable] = script
		spec.Command = append(spec.Command, "--host", "--")
	} else {
		spec.Command = append(spec.Command, "--", script)
	}
	if len(args) > 1 {
		spec.Command = append(spec.Command, args[1:]...)
	}
	n := strconv.FormatInt(tasks, 10)
	for k, v := range map[string]string{
		"SLURM_SUBMIT_DIR": a.env.Dir, "SLURM_JOB_NAME": spec.Name, "SLURM_NTASKS": n, "SLURM_NPROCS": n, "SLURM_TASKS_PER_NODE": n,
		"SLURM_JOB_NUM_NODES": "1", "SLURM_NNODES": "1", "SLURM_CPUS_PER_TASK": o.cpus, "SLURM_OPEN_MODE": o.openMode,
	} {
		if v != "" {
			spec.Env[k] = v
		}
	}
}

// testOnly says when a job would start, as sbatch --test-only does.
func (a *app) testOnly(cmd *cobra.Command, spec v1.JobSpec) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	q, err := c.Quote(cmd.Context(), spec)
	if err != nil {
		return err
	}
	return a.printQuote(q)
}
