package run

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"croft.dev/croft/internal/asset"
	"croft.dev/croft/internal/engine"
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
	Mounts                         []engine.Mount // what every container is given
	Socket                         string         // host path of the server's; empty: none
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
	if c.Host {
		s.applyHost(c)
	}
}

// applyHost tells a program on the machine where there is what containers are given by
// mounts, and where to ask the server.
func (s Site) applyHost(c *engine.Container) {
	for _, m := range c.Mounts {
		if len(c.Command) > 0 && c.Command[0] == m.Target {
			c.Command = append([]string{m.Source}, c.Command[1:]...)
		}
		for name, v := range c.Env {
			if v == m.Target {
				c.Env[name] = m.Source
			}
		}
	}
	c.Mounts = nil
	if s.Socket != "" {
		c.Env["CROFT_SOCKET"] = s.Socket
	}
}

// allocation is what the engine is given for a rank of a job's current attempt.
func (r *Runner) allocation(ctx context.Context, w *world.World, j *workload.Job, rank int) (engine.Allocation, error) {
	a, err := r.place(ctx, w, j, rank)
	if err != nil {
		return a, err
	}
	a.Container = engine.Container{Host: j.Spec.Host(), Image: j.Spec.Image, ImageID: j.Attempt.Image, Command: j.Spec.Command, Args: j.Spec.Args, Pause: j.Spec.Pause, Workdir: j.Spec.Workdir}
	stream(&a.Container, j.Spec.Streams)
	r.fill(w, j, a, &a.Container, a.Primary(), j.Spec.Mounts, j.Spec.Env)
	return a, nil
}

// stepAllocation is what the engine is given for a further step: where it runs, and what.
func (r *Runner) stepAllocation(ctx context.Context, w *world.World, j *workload.Job, s *workload.Step) (engine.Allocation, engine.Step, error) {
	a, err := r.place(ctx, w, j, 0)
	if err != nil {
		return a, engine.Step{}, err
	}
	out := engine.Step{
		N: int(s.N), Container: engine.Container{Host: s.Spec.Host, Image: s.Spec.Image, ImageID: s.Image, Command: s.Spec.Command, Args: s.Spec.Args, Workdir: s.Spec.Workdir},
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

// place is where a rank of a job's current attempt runs, and as whom.
func (r *Runner) place(ctx context.Context, w *world.World, j *workload.Job, rank int) (engine.Allocation, error) {
	row, _ := w.Tenancy.Users.Get(j.User)
	user, err := r.cfg.People.Resolve(ctx, row.Name, row.UID)
	if err != nil {
		return engine.Allocation{}, err
	}
	account, _ := w.Tenancy.Accounts.Get(j.Account)
	names, on := r.ranks(j), j.Attempt.Ranks()[rank]
	a := engine.Allocation{
		Attempt: names[rank], Job: int64(j.ID), N: int(j.Attempt.N), Node: on.Node,
		Instance: r.cfg.Instance, Account: account.Name, SpecDigest: Digest(j.Spec),
		Queue: engine.QueueName{Partition: j.Spec.Partition}, Name: j.Spec.Name, User: user, Pod: podOf(j.Spec.Pod, len(j.Spec.Apps) > 0), CPU: j.Spec.CPU, Memory: j.Spec.Mem, Part: j.Attempt.Part(),
	}
	if row, ok := w.Tenancy.Accounts.Get(w.Queues.Nearest(j.Path, j.Spec.Partition)); ok {
		a.Queue.Account = row.Name
	}
	if a.Userns, err = r.cfg.Subids.userns(j.Spec.Pod, user); err != nil {
		return a, err
	}
	if len(names) > 1 {
		a.Gang = &engine.Gang{Name: "croft-" + string(names[0]), Rank: rank, Size: len(names)}
	}
	for _, uuid := range on.Devices {
		d, ok := w.Placement.Devices.Get(uuid)
		if !ok {
			return a, &engine.StartError{Message: "device " + uuid + " is gone"}
		}
		a.Devices = append(a.Devices, engine.Device{UUID: d.UUID, Node: d.Node, Index: d.Index, Name: d.Name, Model: d.Model, Memory: d.Memory, CDI: d.CDI})
	}
	return a, nil
}

func podOf(p workload.Pod, apps bool) engine.Pod {
	out := engine.Pod{Hostname: p.Name, HostNetwork: p.HostNetwork, DNS: p.DNS, SharePID: p.SharePID, Closed: apps}
	for _, port := range p.Ports {
		out.Ports = append(out.Ports, engine.Port(port))
	}
	return out
}

// fill gives a container of the attempt a, which runs step s, its mounts and environment.
func (r *Runner) fill(w *world.World, j *workload.Job, a engine.Allocation, c *engine.Container, s engine.Step, mounts []workload.Mount, env map[string]string) {
	c.Mounts = mountsOf(mounts, w.Site.MountRoots, a.User, s.Memory)
	if j.Spec.HasData() && !c.Host {
		c.Mounts = withFolders(c.Mounts, w.Assets.FoldersOf(append(j.Path[:len(j.Path):len(j.Path)], 0)))
	}
	c.Env = environment(j, a, s)
	if array, ok := w.Workload.Jobs.Get(j.Of); ok {
		maps.Copy(c.Env, ofArray(array.Spec.Array.Elements, j))
	}
	r.cfg.Site.apply(c)
	if !c.Host {
		maps.Copy(c.Env, ofApps(j, r.cfg.Address))
		maps.Copy(c.Env, ofHome(j, c.Image, c.Mounts, a.User))
		c.Workdir = workdir(j, c, a.User)
	}
	maps.Copy(c.Env, env)
}

// mountsOf are the mounts that the user asked for a step with mem bytes of memory, and where
// sources have to lie ("~" is his home). The engine looks where they lead, as him, at the moment in which it
// binds them.
func mountsOf(ask []workload.Mount, roots []string, u engine.User, mem int64) []engine.Mount {
	within := make([]string, 0, len(roots))
	for _, root := range roots {
		if root == "~" {
			root = u.Home
		}
		within = append(within, root)
	}
	var out []engine.Mount
	for _, m := range ask {
		switch m.Type {
		case workload.MountTmpfs:
			out = append(out, engine.Mount{Target: m.Target, Tmpfs: cmp.Or(m.Size, mem/2)})
		case workload.MountVolume:
			out = append(out, engine.Mount{Volume: m.Source, Target: m.Target, ReadOnly: m.ReadOnly})
		default:
			out = append(out, engine.Mount{Source: m.Source, Target: m.Target, ReadOnly: m.ReadOnly, Within: within})
		}
	}
	return out
}

// withFolders adds the folders of a job's accounts, the nearest account's where two are to be
// at one place, and none where the job has something of its own.
func withFolders(mounts []engine.Mount, folders []asset.Folder) []engine.Mount {
	taken := map[string]bool{}
	for _, m := range mounts {
		taken[path.Clean(m.Target)] = true
	}
	for _, f := range slices.Backward(folders) {
		if taken[f.Target] {
			continue
		}
		taken[f.Target] = true
		mounts = append(mounts, engine.Mount{Source: f.Path, Target: f.Target, ReadOnly: f.ReadOnly, Within: []string{f.Path}, Optional: f.Title(), Env: f.Env})
	}
	return mounts
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
