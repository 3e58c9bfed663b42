package run

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/quantity"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

// People resolves a user as the machine does. An unknown name is a
// *engine.StartError; a directory that doesn't answer is unavailable.
type People interface {
	Resolve(ctx context.Context, name string, uid int64) (engine.User, error)
}

// Site is what the machine's network asks of every program.
type Site struct {
	HTTPProxy, HTTPSProxy, NoProxy string
	CAFile                         string         // host path of the site's own authority; empty: none
	Mounts                         []engine.Mount // what every job is given
}

// caFile is where a job finds the site's certificate authority.
const caFile = "/etc/croft-ca.pem"

// apply adds the site's variables; both spellings of the proxies' are in use.
func (s Site) apply(c *engine.Container) {
	for name, v := range map[string]string{"HTTP_PROXY": s.HTTPProxy, "HTTPS_PROXY": s.HTTPSProxy, "NO_PROXY": s.NoProxy} {
		if v != "" {
			c.Env[name], c.Env[strings.ToLower(name)] = v, v
		}
	}
	c.Mounts = append(c.Mounts, s.Mounts...)
	if s.CAFile != "" {
		c.Mounts = append(c.Mounts, engine.Mount{Source: s.CAFile, Target: caFile, ReadOnly: true, Site: true})
		c.Env["CROFT_CA_FILE"], c.Env["NODE_EXTRA_CA_CERTS"] = caFile, caFile
	}
}

// allocation is what the engine is given for a job's current attempt.
func (r *Runner) allocation(ctx context.Context, w *world.World, j *workload.Job) (engine.Allocation, error) {
	a, err := r.place(ctx, w, j)
	if err != nil {
		return a, err
	}
	a.Container = engine.Container{Image: j.Spec.Image, ImageID: j.Attempt.Image, Command: j.Spec.Command, Args: j.Spec.Args, Workdir: j.Spec.Workdir}
	stream(&a.Container, j.Spec.Streams)
	r.fill(w, j, a, &a.Container, a.Primary(), j.Spec.Mounts, j.Spec.Env)
	return a, nil
}

// stepAllocation is what the engine is given for a further step: where it runs, and what.
func (r *Runner) stepAllocation(ctx context.Context, w *world.World, j *workload.Job, s *workload.Step) (engine.Allocation, engine.Step, error) {
	a, err := r.place(ctx, w, j)
	if err != nil {
		return a, engine.Step{}, err
	}
	out := engine.Step{
		N: int(s.N), Container: engine.Container{Image: s.Spec.Image, ImageID: s.Image, Command: s.Spec.Command, Args: s.Spec.Args, Workdir: s.Spec.Workdir},
		CPU: cmp.Or(s.Spec.CPU, a.CPU), Memory: cmp.Or(s.Spec.Mem, a.Memory),
	}
	stream(&out.Container, s.Spec.Streams)
	for _, d := range a.Devices {
		if slices.Contains(s.Devices, d.UUID) {
			out.Devices = append(out.Devices, d)
		}
	}
	r.fill(w, j, a, &out.Container, out, s.Spec.Mounts, s.Spec.Env)
	return a, out, nil
}

// stream gives a container the streams that were asked for.
func stream(c *engine.Container, s workload.Streams) {
	c.Stdin, c.TTY, c.AwaitAttach = s.Stdin, s.TTY, s.AwaitAttach
}

// place is where a job's current attempt runs, and as whom.
func (r *Runner) place(ctx context.Context, w *world.World, j *workload.Job) (engine.Allocation, error) {
	row, _ := w.Tenancy.Users.Get(j.User)
	user, err := r.cfg.People.Resolve(ctx, row.Name, row.UID)
	if err != nil {
		return engine.Allocation{}, err
	}
	account, _ := w.Tenancy.Accounts.Get(j.Account)
	a := engine.Allocation{
		Attempt: r.attempt(j), Job: int64(j.ID), N: int(j.Attempt.N), Node: j.Attempt.Node,
		Instance: r.cfg.Instance, Account: account.Name, SpecDigest: Digest(j.Spec),
		Name: j.Spec.Name, User: user, Pod: podOf(j.Spec.Pod), CPU: j.Spec.CPU, Memory: j.Spec.Mem, Part: j.Attempt.Part(),
	}
	for _, uuid := range j.Attempt.Devices {
		d, ok := w.Placement.Devices.Get(uuid)
		if !ok {
			return a, &engine.StartError{Message: "device " + uuid + " is gone"}
		}
		a.Devices = append(a.Devices, engine.Device{UUID: d.UUID, Node: d.Node, Index: d.Index, Name: d.Name, Model: d.Model, Memory: d.Memory, CDI: d.CDI})
	}
	return a, nil
}

func podOf(p workload.Pod) engine.Pod {
	out := engine.Pod{Hostname: p.Name, HostNetwork: p.HostNetwork, DNS: p.DNS}
	for _, port := range p.Ports {
		out.Ports = append(out.Ports, engine.Port(port))
	}
	return out
}

// fill gives a container of the attempt a, which runs step s, its mounts and environment.
func (r *Runner) fill(w *world.World, j *workload.Job, a engine.Allocation, c *engine.Container, s engine.Step, mounts []workload.Mount, env map[string]string) {
	c.Mounts = mountsOf(mounts, w.Site.MountRoots, a.User)
	c.Env = environment(j, a, s)
	if array, ok := w.Workload.Jobs.Get(j.Of); ok {
		maps.Copy(c.Env, ofArray(array.Spec.Array.Elements, j))
	}
	r.cfg.Site.apply(c)
	maps.Copy(c.Env, env)
}

// mountsOf are the binds that the user asked for, and where their sources have to lie
// ("~" is his home). The engine looks where they lead, as him, at the moment in which it
// binds them.
func mountsOf(ask []workload.Mount, roots []string, u engine.User) []engine.Mount {
	within := make([]string, 0, len(roots))
	for _, root := range roots {
		if root == "~" {
			root = u.Home
		}
		within = append(within, root)
	}
	var out []engine.Mount
	for _, m := range ask {
		out = append(out, engine.Mount{Source: m.Source, Target: m.Target, ReadOnly: m.ReadOnly, Within: within})
	}
	return out
}

// environment is what Croft tells the program.
func environment(j *workload.Job, a engine.Allocation, s engine.Step) map[string]string {
	var names, uuids []string
	for _, d := range s.Devices {
		names, uuids = append(names, d.Name), append(uuids, d.UUID)
	}
	env := map[string]string{
		"CROFT_JOB_ID":       strconv.FormatInt(int64(j.ID), 10),
		"CROFT_JOB_NAME":     j.Spec.Name,
		"CROFT_ATTEMPT":      strconv.Itoa(a.N),
		"CROFT_STEP_ID":      strconv.Itoa(s.N),
		"CROFT_ACCOUNT":      a.Account,
		"CROFT_PARTITION":    j.Spec.Partition,
		"CROFT_QOS":          j.Spec.QoS,
		"CROFT_NODE":         a.Node,
		"CROFT_CPUS":         quantity.FormatCPU(s.CPU),
		"CROFT_MEM":          strconv.FormatInt(s.Memory, 10),
		"CROFT_TIME_LIMIT":   strconv.FormatInt(j.Spec.Time/1e9, 10),
		"CROFT_DEVICES":      strings.Join(names, ","),
		"CROFT_DEVICE_UUIDS": strings.Join(uuids, ","),
		"OMP_NUM_THREADS":    strconv.FormatInt(max(s.CPU/1000, 1), 10),
	}
	if len(uuids) > 0 {
		if n := memoryOfEach(s.Devices, a.Part); n > 0 {
			env["CROFT_GPU_MEMORY"] = strconv.FormatInt(n, 10)
		}
		n := catalog.Counted(j.Attempt.Models)
		if len(s.Devices) < len(a.Devices) {
			n = int64(len(s.Devices)) * quantity.Device
		}
		env["CROFT_GPU"] = quantity.FormatDevices(n)
		env["CUDA_VISIBLE_DEVICES"] = strings.Join(uuids, ",")
	}
	return env
}

// memoryOfEach is how much of each device's memory is the job's, in bytes: its part's
// worth, of the device that has least; 0 if that isn't known.
func memoryOfEach(devices []engine.Device, part int64) int64 {
	least := int64(math.MaxInt64)
	for _, d := range devices {
		least = min(least, d.Memory)
	}
	if part == 0 {
		return least
	}
	hi, lo := bits.Mul64(uint64(least), uint64(part))
	n, _ := bits.Div64(hi, lo, uint64(quantity.Device))
	return int64(n)
}

// ofArray is what an element is told of its array, in Slurm's words too.
func ofArray(all workload.Elements, e *workload.Job) map[string]string {
	least, most := all[0].First, all[0].Last
	for _, r := range all {
		least, most = min(least, r.First), max(most, r.Last)
	}
	step := int64(1)
	if len(all) == 1 {
		step = all[0].Step
	}
	env := map[string]string{}
	for name, n := range map[string]int64{
		"ARRAY_ID": int64(e.Of), "ARRAY_INDEX": e.Index, "ARRAY_COUNT": all.Len(), "ARRAY_MIN": least, "ARRAY_MAX": most, "ARRAY_STEP": step,
	} {
		env["CROFT_"+name] = strconv.FormatInt(n, 10)
	}
	for name, croft := range map[string]string{"JOB_ID": "ID", "TASK_ID": "INDEX", "TASK_COUNT": "COUNT", "TASK_MIN": "MIN", "TASK_MAX": "MAX", "TASK_STEP": "STEP"} {
		env["SLURM_ARRAY_"+name] = env["CROFT_ARRAY_"+croft]
	}
	return env
}

// Digest identifies a spec, so that a container can be matched with its record.
func Digest(s workload.Spec) string {
	b, err := json.Marshal(s)
	if err != nil {
		return fmt.Sprintf("unencodable:%v", err)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8])
}
