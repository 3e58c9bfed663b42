package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	v1 "croft.dev/croft/api/v1"
)

// cbatchOptions are cbatch's options, in a script and on the command line: sbatch's, and
// those for the containers that its steps may be.
type cbatchOptions struct {
	batchOptions
	licenses, extraAttr string
	repeat              int
	pod                 bool
	podName, podUser    string
	podPorts, podDNS    []string
	podUserns           string
	podHost             bool
}

// flags registers them; letters are CraneSched's where Slurm's differ.
func (o *cbatchOptions) flags(fs *pflag.FlagSet) {
	slurm := pflag.NewFlagSet("", pflag.ContinueOnError)
	o.batchOptions.flags(slurm)
	slurm.VisitAll(func(f *pflag.Flag) {
		switch f.Name {
		case "reservation":
			f.Shorthand = "r"
		case "constraint": // -C is CraneSched's configuration file
			f.Shorthand = ""
		case "container-image":
			f.Usage = "image of the steps that are containers and name none"
		case "get-user-env":
			return
		case "container-mounts", "container-workdir", "no-container-mount-home":
			f.Hidden = true
		}
		fs.AddFlag(f)
	})
	fs.BoolVar(&o.login, "get-user-env", false, "run the script as a login shell does, with your profile")
	fs.StringVarP(&o.licenses, "licenses", "L", "", "")
	fs.StringVar(&o.extraAttr, "extra-attr", "", "")
	fs.IntVar(&o.repeat, "repeat", 1, "submit it so many times")
	fs.BoolVar(&o.pod, "pod", false, "the script adds containers to the job, by ccon")
	fs.StringVar(&o.podName, "pod-name", "", "host name of its containers")
	fs.StringSliceVar(&o.podPorts, "pod-port", nil, "port of the machine that leads to them, `HOST[:CONTAINER]`")
	fs.BoolVar(&o.podHost, "pod-host-network", false, "they are in the machine's network")
	fs.StringSliceVar(&o.podDNS, "pod-dns", nil, "address of a name server for them")
	fs.StringVar(&o.podUser, "pod-user", "", "whom they run as inside, `UID[:GID]`")
	fs.Var((*usernsFlag)(&o.podUserns), "pod-userns", "fake root in them; auto: where it can be, else as you")
	fs.Lookup("pod-userns").NoOptDefVal = "on"
	hide(fs, "licenses", "extra-attr")
}

// withScript puts the options of a script under those of the command line, and says what
// is passed over.
func (o *cbatchOptions) withScript(a *app, cmd *cobra.Command, script batchScript) error {
	var all cbatchOptions
	fs := pflag.NewFlagSet("script", pflag.ContinueOnError)
	fs.Usage = func() {}
	all.flags(fs)
	in, err := script.directives(fs)
	if err != nil {
		return err
	}
	if err := fs.Parse(in.options); err != nil {
		return usage("%s: %v", script.name, err)
	}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		own := fs.Lookup(f.Name)
		if own == nil || err != nil {
			return
		}
		list, ok := f.Value.(pflag.SliceValue)
		if !ok {
			err = fs.Set(f.Name, f.Value.String())
			return
		}
		if err = fs.Set(f.Name, ""); err == nil { // marks it as given
			err = own.Value.(pflag.SliceValue).Replace(list.GetSlice())
		}
	})
	if err != nil {
		return err
	}
	all.host = true
	*o = all
	for _, warning := range in.warnings(script.name) {
		fmt.Fprintf(a.env.Stderr, "cbatch: %s\n", clean(warning))
	}
	return o.passedOver(a, fs)
}

// passedOver says which of the options that were given do nothing, and refuses those that
// another job would come of.
func (o *cbatchOptions) passedOver(a *app, fs *pflag.FlagSet) error {
	var names []string
	var err error
	fs.Visit(func(f *pflag.Flag) {
		switch {
		case f.Changed && slices.Contains([]string{"comment", "wckey", "extra-attr"}, f.Name):
			names = append(names, "--"+f.Name)
		case f.Changed && strings.HasPrefix(f.Name, "pod-") && !o.pod && err == nil:
			err = usage("--%s is for jobs with containers: give --pod too", f.Name)
		case f.Changed && strings.HasPrefix(f.Name, "container-") && f.Hidden, f.Changed && f.Name == "no-container-mount-home":
			err = usage("--%s: the script runs on the machine itself, and sees its files; what a container sees ccon says", f.Name)
		}
	})
	switch {
	case err != nil:
		return err
	case o.licenses != "":
		return usage("--licenses: nothing counts licenses here")
	case o.repeat < 1 || o.repeat > maxRepeat:
		return usage("--repeat %d: want a number from 1 to %d", o.repeat, maxRepeat)
	}
	if len(names) > 0 {
		fmt.Fprintf(a.env.Stderr, "cbatch: not used here: %s\n", strings.Join(names, " "))
	}
	return nil
}

// maxRepeat bounds --repeat: an array is what many alike are.
const maxRepeat = 1000

// job is what the options and the script ask for.
func (o *cbatchOptions) job(a *app, script batchScript, args []string) (v1.JobSpec, error) {
	part := ""
	if strings.Contains(o.cpus, ".") { // of a core, which CraneSched knows and Slurm doesn't
		part, o.cpus = o.cpus, ""
	}
	spec, tasks, err := o.spec(a)
	if err != nil {
		return spec, err
	}
	if part != "" && tasks > 1 {
		return spec, usage("--cpus-per-task %s: a part of a core is for one task, and there are %d", part, tasks)
	}
	spec.CPU = v1.Quantity(otherwise(part, string(spec.CPU)))
	spec.Name = otherwise(spec.Name, script.job)
	if o.pod {
		spec.Pod = &v1.Pod{Name: o.podName, Ports: o.podPorts, DNS: o.podDNS, Network: truth(o.podHost, "host", ""), Userns: o.podUserns, User: o.podUser}
	}
	o.command(a, &spec, tasks, script.text, args)
	spec.Env["CRANE_SUBMIT_DIR"], spec.Env["CRANE_SUBMIT_HOST"] = a.env.Dir, a.env.Host
	return spec, nil
}

func (a *app) cbatchCmd() *cobra.Command {
	var o cbatchOptions
	var wrap string
	var test bool
	cmd := a.batchCmd(&cobra.Command{
		Use:   "cbatch [flags] SCRIPT [ARG…]",
		Short: "Submit a batch script, as CraneSched's cbatch does",
		Long: `Submit a script, from a file or with - from standard input. It runs on the machine
itself, as you, in the folder where it was submitted and within the job's limits; in it
crun and ccon add steps to the job, programs on the machine and containers. Options may
stand in the script, one on each line that begins with #CBATCH, before its first
command; #SBATCH lines are read as well. Those given here come first. Output goes to
Crane-JOB.out in that folder.`,
		Example: `  cbatch --gres gpu:1 -t 2:00:00 train.sh
  cbatch --pod --pod-port 8080:80 serve.sh
  cbatch -J eval --wrap "ccon run train:1 python eval.py"`,
		RunE: func(cmd *cobra.Command, args []string) error {
			script, err := a.batchScript("cbatch", args, wrap)
			if err != nil {
				return err
			}
			if err := o.withScript(a, cmd, script); err != nil {
				return err
			}
			spec, err := o.job(a, script, args)
			if err != nil {
				return err
			}
			if test {
				return a.testOnly(cmd, spec)
			}
			for range o.repeat {
				job, err := a.submit(cmd.Context(), spec, "")
				if err != nil {
					return err
				}
				if err := a.print(job, func(w io.Writer) { fmt.Fprintf(w, "Job id allocated: %s\n", clean(job.ID)) }); err != nil {
					return err
				}
			}
			return nil
		},
	})
	fs := cmd.Flags()
	fs.SetInterspersed(false)
	fs.BoolP("help", "h", false, "print this help")
	craneFlags(cmd)
	o.flags(fs)
	fs.StringVar(&wrap, "wrap", "", "a command line instead of a script")
	fs.BoolVar(&test, "test-only", false, "say when the job would start, and don't submit it")
	a.completeFlag(cmd, "account", a.accountNames)
	a.completeFlag(cmd, "partition", a.partitionNames)
	return cmd
}
