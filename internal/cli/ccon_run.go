package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
)

// containerFlags describe a container, as docker run's do.
type containerFlags struct {
	specFlags
	entrypoint, pull string
	detach           bool
}

func (f *containerFlags) register(fs *pflag.FlagSet) {
	fs.SetInterspersed(false)
	fs.SetNormalizeFunc(dockerNames)
	fs.StringVar(&f.Name, "name", "", "name of the job, or of the step")
	fs.StringArrayVarP(&f.env, "env", "e", nil, "environment `K=V`, or K for its value here (repeatable)")
	fs.StringArrayVarP(&f.mounts, "volume", "v", nil, "folder or volume `SRC[:DST][:ro]` (repeatable)")
	fs.StringArrayVar(&f.tmpfs, "tmpfs", nil, "empty folder in the job's memory, `PATH[:SIZE]` (repeatable)")
	fs.StringVarP(&f.Workdir, "workdir", "w", "", "working directory in the container")
	fs.StringVar(&f.entrypoint, "entrypoint", "", "program in place of the image's entry point; CMD are its arguments")
	fs.StringVar(&f.pull, "pull-policy", "", "Always, IfNotPresent or Never; by default Always for :latest")
	fs.BoolVarP(&f.detach, "detach", "d", false, "print the container's name and leave")
	fs.BoolVarP(&f.Stdin, "interactive", "i", false, "give it an input, which comes from here or who attaches")
	fs.BoolVarP(&f.TTY, "tty", "t", false, "give it a terminal")
	fs.StringArrayVarP(&f.pod.Ports, "publish", "p", nil, "port of the machine that leads into the job, `HOST[:CONTAINER]` (repeatable)")
	f.usernsFlags(fs, "u")
	fs.StringVar(&f.pod.Network, "network", "", "network: default, or host for the machine's own")
	fs.StringVar(&f.pod.PID, "pid", "", "processes that each container sees: private, or shared")
	fs.StringArrayVar(&f.pod.DNS, "dns", nil, "address of a name server, before the site's (repeatable)")
	fs.String("cpus", "", "")
	fs.String("memory", "", "")
	fs.String("gpus", "", "")
	hide(fs, "cpus", "memory", "gpus")
}

// dockerNames are other names by which people know flags.
func dockerNames(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	if other, ok := map[string]string{"ports": "publish", "pull": "pull-policy", "net": "network", "volumes": "volume", "mount": "volume"}[name]; ok {
		name = other
	}
	return pflag.NormalizedName(name)
}

// refused says of flags that can't be fulfilled what to do instead: to pass over them
// would run another container than was meant.
func (f *containerFlags) refused(cmd *cobra.Command) error {
	given := cmd.Flags().Changed
	switch {
	case given("cpus"):
		return usage("--cpus: give -c before run, as in ccon -c 4 run")
	case given("memory"):
		return usage("--memory: give --mem before run, as in ccon --mem 8G run")
	case given("gpus"):
		return usage("--gpus: give --gres before run, as in ccon --gres gpu:1 run")
	}
	return nil
}

// podOnly names flags of the job's pod, which a further container can't choose.
func podOnly(cmd *cobra.Command, job string) error {
	for _, name := range []string{"user", "publish", "userns", "network", "dns", "pid"} {
		if cmd.Flags().Changed(name) {
			return usage("--%s: job %s has its network, its ports and its user already, for all its containers: leave it out", name, job)
		}
	}
	return nil
}

// read is the container that the flags and the words after run describe.
func (f *containerFlags) read(a *app, cmd *cobra.Command, args []string) (v1.JobSpec, error) {
	spec := v1.JobSpec{Name: f.Name, Image: args[0], Args: args[1:], Workdir: f.Workdir, Stdin: f.Stdin, TTY: f.TTY}
	if len(spec.Args) == 0 {
		spec.Args = nil
	}
	switch {
	case f.entrypoint != "":
		spec.Command = []string{f.entrypoint}
	case cmd.Flags().Changed("entrypoint"):
		// As with docker, an empty one takes the image's away.
		if spec.Command, spec.Args = spec.Args, nil; len(spec.Command) == 0 {
			return spec, usage(`--entrypoint "" takes the image's entry point away: say what to run after the image`)
		}
	}
	var err error
	if spec.Stdin && !f.detach {
		if err := a.comeAlong(spec.TTY); err != nil {
			return spec, err
		}
		spec.AwaitAttach = true
	}
	if spec.Pull, err = pullPolicy(f.pull, spec.Image); err != nil {
		return spec, err
	}
	return spec, f.readParts(a, &spec)
}

// pullPolicy reads Kubernetes' words and Croft's. By default what can change under its
// name is looked up anew.
func pullPolicy(s, image string) (string, error) {
	switch strings.ToLower(s) {
	case "always":
		return "always", nil
	case "ifnotpresent", "missing":
		return "missing", nil
	case "never":
		return "never", nil
	case "":
		last := image[strings.LastIndex(image, "/")+1:]
		if _, tag, tagged := strings.Cut(last, ":"); !strings.Contains(last, "@") && (!tagged || tag == "latest") {
			return "always", nil
		}
		return "", nil
	}
	return "", usage("--pull-policy %s: want Always, IfNotPresent or Never", s)
}

func (a *app) cconRunCmd(o *batchOptions, c *craneOptions) *cobra.Command {
	var f containerFlags
	cmd := &cobra.Command{
		Use:   "run [flags] IMAGE [CMD…]",
		Short: "Run a container",
		Long: `Run a container. In a job (where CROFT_JOB_ID or CRANE_JOB_ID is set) it is a step of
that job, beside what runs there, and shares what the job has or takes the part that
-c, --mem and --gres name. Elsewhere it is a job of its own.

CMD are arguments of the image's entry point, or take the place of its own command. The
container's output comes here and its exit code is ccon's; Ctrl-C stops it. With -d,
ccon prints its name, JOB.STEP, and leaves. With -it every key is the container's;
ctrl-p and then ctrl-q detach from it, and ccon attach comes back.`,
		Example: `  ccon --gres gpu:1 run -v ./data:/data:ro train:1 python train.py
  ccon -t 1:00:00 run -it debian:12 bash
  CROFT_JOB_ID=118 ccon run -e SEED=1 train:1 python eval.py`,
		Args: needArgs(1, -1, "IMAGE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			job, variable := a.inJob()
			if job != "" {
				if err := podOnly(cmd, job); err != nil {
					return err
				}
			}
			if err := f.refused(cmd); err != nil {
				return err
			}
			if job == "" && f.pod.Userns == "" {
				f.pod.Userns = "auto"
			}
			spec, err := f.read(a, cmd, args)
			if err != nil {
				return err
			}
			if err := o.cconSizes(&spec); err != nil {
				return err
			}
			c.unused(a, "ccon")
			if job != "" {
				return a.runStep(cmd.Context(), job, o, spec, f.detach, variable)
			}
			if spec.AwaitAttach && !spec.TTY {
				spec.Requeue = []string{"never"} // the input can't be given again
			}
			spec.Account, spec.Partition, spec.QoS, spec.Reservation, spec.Hold = o.account, o.partition, o.qos, o.reservation, o.hold
			o.mail(a, &spec)
			return a.runContainer(cmd.Context(), spec, f.detach)
		},
	}
	f.register(cmd.Flags())
	o.sizeFlags(cmd.Flags(), c, false)
	a.completeFlag(cmd, "network", fixed("default", "host"))
	a.completeFlag(cmd, "pid", fixed("private", "shared"))
	a.completeFlag(cmd, "userns", fixed("on", "auto", "off"))
	a.completeFlag(cmd, "pull-policy", fixed("Always", "IfNotPresent", "Never"))
	return cmd
}

// runContainer submits a job and stays with it, or with detach says its name.
func (a *app) runContainer(ctx context.Context, spec v1.JobSpec, detach bool) error {
	job, err := a.submit(ctx, spec, "")
	if err != nil {
		return err
	}
	if !detach {
		return a.follow(ctx, job, tellTrouble)
	}
	step, err := a.api.Step(ctx, job.ID, 1)
	if err != nil {
		return err
	}
	return a.printDetached(step)
}

// runStep gives a job a further container.
func (a *app) runStep(ctx context.Context, job string, o *batchOptions, s v1.JobSpec, detach bool, variable string) error {
	for _, f := range [][2]string{
		{"account", o.account}, {"partition", o.partition}, {"qos", o.qos}, {"reservation", o.reservation}, {"hold", truth(o.hold, "yes", "")},
	} {
		if f[1] != "" {
			return usage("--%s: job %s has that already, and this is a step of it: leave it out, or unset %s for a job of its own", f[0], job, variable)
		}
	}
	if s.Model != "" {
		return usage("--gres %s: job %s has its devices already: give their number alone, as gpu:1", o.gres, job)
	}
	c, err := a.client()
	if err != nil {
		return err
	}
	spec := v1.StepSpec{
		Name: s.Name, Host: s.Kind == v1.KindBatch, Image: s.Image, Command: s.Command, Args: s.Args, Env: s.Env, Workdir: s.Workdir, Mounts: s.Mounts, Pull: s.Pull, Stdin: s.Stdin, TTY: s.TTY, AwaitAttach: s.AwaitAttach,
		CPU: s.CPU, Mem: s.Mem, GPU: s.GPU, Time: s.Time,
	}
	step, err := once(ctx, "", func(key v1.Option) (*v1.Step, error) { return c.AddStep(ctx, job, spec, key) })
	if code := v1.CodeOf(err); code == codes.NotFound || code == codes.Conflict {
		var p *v1.Problem
		if errors.As(err, &p) {
			p.Detail += "; unset " + variable + " to run a job of its own"
		}
	}
	switch {
	case err != nil:
		return err
	case detach:
		return a.printDetached(step)
	}
	return a.followStep(ctx, c, step, tellTrouble)
}

// printDetached names a container that was left: for scripts by its name alone, as
// docker does.
func (a *app) printDetached(s *v1.Step) error {
	return a.print(s, func(w io.Writer) {
		if a.env.Term.Err && a.env.Term.Out {
			fmt.Fprintf(a.env.Stderr, "Job ID: %s  Step ID: %d\n", clean(s.Job), s.N)
		}
		fmt.Fprintln(w, clean(s.ID))
	})
}
