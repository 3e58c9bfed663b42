package cli

import (
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	v1 "croft.dev/croft/api/v1"
)

// specFlags are the flags that describe a job. What isn't given stays unset:
// defaults are the server's.
type specFlags struct {
	v1.JobSpec
	file   string
	env    []string
	mounts []string
	tmpfs  []string
	apps   []string
	pod    v1.Pod
	host   bool
}

// amounts registers the flags that a clone may change too.
func (f *specFlags) amounts(a *app, cmd *cobra.Command) {
	fs := cmd.Flags()
	quantity := func(p *v1.Quantity, name, short, usage string) {
		fs.StringVarP((*string)(p), name, short, "", usage)
	}
	quantity(&f.GPU, "gpu", "G", "number of accelerators, or a part of one such as 0.5")
	quantity(&f.GPUMem, "gpu-mem", "", "memory of each accelerator, or of a part: 10G")
	fs.StringVar(&f.Model, "model", "", "accelerator model, or any of several: 'a100|h100'")
	fs.StringVarP(&f.Constraint, "constraint", "C", "", "labels that the node must have: 'nvlink&!old'")
	fs.StringVar(&f.Reservation, "reservation", "", "run in the windows of this reservation `NAME`")
	quantity(&f.CPU, "cpu", "c", "CPU cores, such as 8 or 0.5")
	quantity(&f.Mem, "mem", "", "memory, such as 64G")
	quantity(&f.Time, "time", "t", "longest run, such as 2h or 1h30m")
	fs.StringVarP(&f.Account, "account", "A", "", "account that pays")
	fs.StringVarP(&f.Partition, "partition", "p", "", "partition")
	fs.StringVar(&f.QoS, "qos", "", "quality of service")
	fs.StringVarP(&f.Name, "name", "n", "", "name of the job")
	fs.StringVarP(&f.Workdir, "workdir", "w", "", "working directory in the container")
	fs.StringVar(&f.Signal, "signal", "", "signal before the time limit, as USR1@120 (seconds)")
	quantity(&f.Grace, "grace", "", "time between SIGTERM and SIGKILL")
	fs.StringSliceVar(&f.Requeue, "requeue", nil, "queue again after: node, preempt, timeout; or never")
	fs.IntVar(&f.MaxRequeues, "max-requeues", 0, "queue again so often at most, up to 5")
	fs.BoolVar(&f.Hold, "hold", false, "don't start before croft release")
	fs.StringVar(&f.Begin, "begin", "", "don't start before this `TIME`: 16:40, 2027-03-31, +2h")
	fs.StringVar(&f.Deadline, "deadline", "", "end by this `TIME`, or don't start at all")
	fs.StringVar(&f.After, "after", "", "start after other `JOBS`: afterok:12:13_7,afterany:14+30m, singleton")
	fs.Int64Var(&f.Priority, "priority", 0, "priority among the account's own jobs, at most 0")
	fs.StringVar(&f.Pull, "pull", "", "pull the image: missing, always or never")
	fs.StringVar(&f.Deposit, "deposit", "", "set aside full, for all of its time, or rolling, for a window")
	fs.StringVar(&f.MailType, "mail-type", "", "mail when: begin, end, fail, requeue, time_limit, stop; all or none")
	fs.StringVar(&f.MailUser, "mail-user", "", "`ADDRESS` that it goes to, by default your own")
	fs.StringVar(&f.Array, "array", "", "one element for each `INDEX`: 0-99:2,105%10; %10 is 10 at once")
	a.completeFlag(cmd, "account", a.accountNames)
	a.completeFlag(cmd, "partition", a.partitionNames)
	a.completeFlag(cmd, "qos", a.qosNames)
	a.completeFlag(cmd, "requeue", fixed("node", "preempt", "timeout", "never"))
	a.completeFlag(cmd, "deposit", fixed("full", "rolling"))
	a.completeFlag(cmd, "pull", fixed("missing", "always", "never"))
	a.completeFlag(cmd, "model", a.modelNames)
	a.completeFlag(cmd, "reservation", a.reservationNames)
}

// machines registers the flags for a job on several.
func (f *specFlags) machines(a *app, cmd *cobra.Command) {
	cmd.Flags().IntVarP(&f.Nodes, "nodes", "N", 0, "machines at once, with all amounts on each; one program on each")
	cmd.Flags().StringVar(&f.Success, "success", "", "of several machines: all must end well, primary, or any")
	a.completeFlag(cmd, "success", fixed("all", "primary", "any"))
}

// containers registers the flags for what a container has besides its amounts.
func (f *specFlags) containers(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringArrayVarP(&f.env, "env", "e", nil, "environment `K=V`, or K for its value here (repeatable)")
	fs.StringArrayVarP(&f.mounts, "mount", "v", nil, "folder or volume `SRC[:DST][:ro]` (repeatable)")
	fs.StringArrayVar(&f.tmpfs, "tmpfs", nil, "empty folder in the job's memory, `PATH[:SIZE]` (repeatable)")
	fs.StringArrayVar(&f.apps, "app", nil, "web program in the job, `[NAME=]PORT[/PATH]`, such as 6006 (repeatable)")
	fs.Var((*onOff)(&f.Data), "data", "the folders of the account: croft folder ls")
	fs.Lookup("data").NoOptDefVal = "on"
}

// register registers all flags. After the image everything belongs to the job.
func (f *specFlags) register(a *app, cmd *cobra.Command) {
	f.amounts(a, cmd)
	f.machines(a, cmd)
	f.containers(cmd)
	fs := cmd.Flags()
	fs.BoolVarP(&f.Stdin, "stdin", "i", false, "give the program an input")
	fs.BoolVar(&f.TTY, "tty", false, "give the program a terminal, and so an input")
	fs.StringVar(&f.pod.Name, "hostname", "", "host name in the containers")
	fs.StringVar(&f.pod.Network, "network", "", "network: default, or host for the machine's own")
	fs.StringArrayVar(&f.pod.Ports, "publish", nil, "port of the machine that leads into the job, `HOST[:CONTAINER]` (repeatable)")
	fs.StringArrayVar(&f.pod.DNS, "dns", nil, "address of a name server, before the site's (repeatable)")
	fs.StringVar(&f.pod.PID, "pid", "", "processes that each container sees: private, or shared")
	a.completeFlag(cmd, "pid", fixed("private", "shared"))
	fs.BoolVar(&f.host, "host", false, "on the machine itself: after -- comes the command")
	f.usernsFlags(fs, "")
	f.noUserns(cmd)
	a.completeFlag(cmd, "network", fixed("default", "host"))
	a.completeFlag(cmd, "userns", fixed("on", "auto", "off"))
	fs.StringVarP(&f.file, "file", "f", "", "job `FILE` in YAML or JSON, - is standard input; flags override it")
	fs.SetInterspersed(false)
}

// read returns the spec of a command line: the file's, changed by the flags.
func (f *specFlags) read(a *app, cmd *cobra.Command, args []string) (v1.JobSpec, error) {
	spec := v1.JobSpec{}
	if f.file != "" {
		var err error
		if spec, err = a.readSpecFile(f.file); err != nil {
			return spec, err
		}
	}
	f.override(cmd, &spec)
	spec.Data = otherwise(f.Data, spec.Data)
	if err := readStreams(&spec.Stdin, &spec.TTY, f.Stdin, f.TTY, spec.Time); err != nil {
		return spec, err
	}
	if err := f.words(a, cmd, &spec, args); err != nil {
		return spec, err
	}
	if err := a.readTimes(&spec); err != nil {
		return spec, err
	}
	return spec, f.readParts(a, &spec)
}

// words sets what the words after the flags say: the image and the command, or for a
// program on the machine the command alone, which runs where croft does.
func (f *specFlags) words(a *app, cmd *cobra.Command, spec *v1.JobSpec, args []string) error {
	if f.host {
		if spec.Kind = v1.KindBatch; len(args) > 0 {
			spec.Command = args
		}
		if len(spec.Command) == 0 {
			return usage("which program? %s --host [flags] -- COMMAND [ARG…]", cmd.CommandPath())
		}
		spec.Workdir = a.hostPath(otherwise(spec.Workdir, a.env.Dir))
		return nil
	}
	if spec.Kind == v1.KindBatch && len(args) > 0 {
		return usage("the file's job is a program on the machine: give --host, and its command after that")
	}
	if len(args) > 0 {
		spec.Image = args[0]
	}
	if len(args) > 1 {
		spec.Command = args[1:]
	}
	if spec.Image == "" && spec.Kind != v1.KindBatch {
		return usage("which image? %s [flags] IMAGE [COMMAND…], or -f FILE with an image", cmd.CommandPath())
	}
	return nil
}

// readStreams sets what the flags for the program's streams say. Docker's -it, where -t takes
// a time, would come to nothing.
func readStreams(stdin, tty *bool, i, t bool, time v1.Quantity) error {
	if i && time != "" && (time[0] < '0' || time[0] > '9') {
		return usage("-t is the time limit here, and %q isn't one: for a terminal write --tty", string(time))
	}
	*tty = *tty || t
	*stdin = *stdin || i || t
	return nil
}

// readParts reads the flags for the environment and the mounts.
func (f *specFlags) readParts(a *app, spec *v1.JobSpec) error {
	if err := f.readEnv(a, spec); err != nil {
		return err
	}
	if err := f.readMounts(spec); err != nil {
		return err
	}
	f.readPod(spec)
	if err := f.readApps(spec); err != nil {
		return err
	}
	for i, m := range spec.Mounts {
		if m.Type == "" || m.Type == "bind" {
			spec.Mounts[i].Source = a.hostPath(m.Source)
		}
	}
	return nil
}

// readTimes makes times of day, as people write them, points in time. A span from now
// is left to the server, so that the same text is the same job.
func (a *app) readTimes(spec *v1.JobSpec) error {
	for _, f := range []struct {
		flag string
		text *string
	}{{"begin", &spec.Begin}, {"deadline", &spec.Deadline}} {
		if *f.text == "" || strings.HasPrefix(*f.text, "+") {
			continue
		}
		t, err := a.parseWhen(*f.text, f.flag == "deadline")
		if err != nil {
			return usage("--%s %v", f.flag, err)
		}
		*f.text = t.UTC().Format(time.RFC3339)
	}
	return nil
}

// hostPath makes a mount's source absolute: ~ is the caller's home, and what isn't
// absolute is below the folder where croft runs.
func (a *app) hostPath(path string) string {
	switch rest, home := strings.CutPrefix(path, "~"); {
	case home && (rest == "" || rest[0] == '/') && filepath.IsAbs(a.env.Getenv("HOME")):
		return filepath.Join(a.env.Getenv("HOME"), rest)
	case path == "" || filepath.IsAbs(path):
		return path
	}
	return filepath.Join(a.env.Dir, path)
}

// fields pairs the flags with the fields of a spec.
func (f *specFlags) fields(spec *v1.JobSpec) map[string]func() {
	return map[string]func(){
		"gpu":          func() { spec.GPU = f.GPU },
		"gpu-mem":      func() { spec.GPUMem = f.GPUMem },
		"nodes":        func() { spec.Nodes = f.Nodes },
		"success":      func() { spec.Success = f.Success },
		"model":        func() { spec.Model = f.Model },
		"constraint":   func() { spec.Constraint = f.Constraint },
		"reservation":  func() { spec.Reservation = f.Reservation },
		"cpu":          func() { spec.CPU = f.CPU },
		"mem":          func() { spec.Mem = f.Mem },
		"time":         func() { spec.Time = f.Time },
		"account":      func() { spec.Account = f.Account },
		"partition":    func() { spec.Partition = f.Partition },
		"qos":          func() { spec.QoS = f.QoS },
		"name":         func() { spec.Name = f.Name },
		"workdir":      func() { spec.Workdir = f.Workdir },
		"signal":       func() { spec.Signal = f.Signal },
		"grace":        func() { spec.Grace = f.Grace },
		"requeue":      func() { spec.Requeue = f.Requeue },
		"max-requeues": func() { spec.MaxRequeues = f.MaxRequeues },
		"hold":         func() { spec.Hold = f.Hold },
		"begin":        func() { spec.Begin = f.Begin },
		"deadline":     func() { spec.Deadline = f.Deadline },
		"after":        func() { spec.After = f.After },
		"array":        func() { spec.Array = f.Array },
		"priority":     func() { spec.Priority = f.Priority },
		"pull":         func() { spec.Pull = f.Pull },
		"deposit":      func() { spec.Deposit = f.Deposit },
		"mail-type":    func() { spec.MailType = f.MailType },
		"mail-user":    func() { spec.MailUser = f.MailUser },
	}
}

func (f *specFlags) override(cmd *cobra.Command, spec *v1.JobSpec) {
	for name, set := range f.fields(spec) {
		if cmd.Flags().Changed(name) {
			set()
		}
	}
}

// changes returns the given flags as fields of a clone.
func (f *specFlags) changes(a *app, cmd *cobra.Command) (map[string]string, error) {
	if err := a.readTimes(&f.JobSpec); err != nil {
		return nil, err
	}
	set := map[string]string{}
	for name := range f.fields(&v1.JobSpec{}) {
		flag := cmd.Flags().Lookup(name)
		switch {
		case flag == nil, !flag.Changed:
		case name == "requeue":
			set[name] = strings.Join(f.Requeue, ",")
		case name == "priority":
			set[name] = strconv.FormatInt(f.Priority, 10)
		default:
			set[strings.ReplaceAll(name, "-", "_")] = flag.Value.String()
		}
	}
	return set, nil
}

func (f *specFlags) readEnv(a *app, spec *v1.JobSpec) error {
	for _, e := range f.env {
		k, v, given := strings.Cut(e, "=")
		if k == "" {
			return usage("-e %s: want K=V or K", e)
		}
		if !given {
			if v = a.env.Getenv(k); v == "" {
				return usage("-e %s: it has no value here; give one as -e %s=VALUE", k, k)
			}
		}
		if spec.Env == nil {
			spec.Env = map[string]string{}
		}
		spec.Env[k] = v
	}
	return nil
}

// readPod lays the flags for the pod over what a file says of it.
func (f *specFlags) readPod(spec *v1.JobSpec) {
	pod := v1.Pod{}
	if spec.Pod != nil {
		pod = *spec.Pod
	}
	pod.Name, pod.Network = otherwise(f.pod.Name, pod.Name), otherwise(f.pod.Network, pod.Network)
	pod.PID, pod.Userns, pod.User = otherwise(f.pod.PID, pod.PID), otherwise(f.pod.Userns, pod.Userns), otherwise(f.pod.User, pod.User)
	pod.Ports, pod.DNS = append(pod.Ports, f.pod.Ports...), append(pod.DNS, f.pod.DNS...)
	if spec.Pod != nil || !reflect.ValueOf(pod).IsZero() {
		spec.Pod = &pod
	}
}

// readSpecFile reads a job file.
func (a *app) readSpecFile(name string) (v1.JobSpec, error) {
	var in io.Reader = a.env.Stdin
	if name == "-" {
		name = "standard input"
	} else {
		path := name
		if !filepath.IsAbs(path) {
			path = filepath.Join(a.env.Dir, path)
		}
		file, err := os.Open(path)
		if err != nil {
			return v1.JobSpec{}, usage("%v", err)
		}
		defer file.Close()
		in = file
	}
	b, err := io.ReadAll(io.LimitReader(in, maxSpecFile+1))
	if err != nil {
		return v1.JobSpec{}, usage("%s: %v", name, err)
	}
	spec, err := parseSpec(b)
	if err != nil {
		return v1.JobSpec{}, usage("%s: %v", name, err)
	}
	return spec, nil
}

// parseSets reads the K=V of --set.
func parseSets(list []string) (map[string]string, error) {
	set := map[string]string{}
	for _, s := range list {
		k, v, ok := strings.Cut(s, "=")
		if !ok || k == "" {
			return nil, usage("--set %s: want FIELD=VALUE, such as gpu=2", s)
		}
		if _, twice := set[k]; twice {
			return nil, usage("--set %s: %s is set twice", s, k)
		}
		set[k] = v
	}
	return set, nil
}
