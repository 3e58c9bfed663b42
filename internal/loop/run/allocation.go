package run

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

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
func (s Site) apply(a *engine.Allocation, env map[string]string) {
	for name, v := range map[string]string{"HTTP_PROXY": s.HTTPProxy, "HTTPS_PROXY": s.HTTPSProxy, "NO_PROXY": s.NoProxy} {
		if v != "" {
			env[name], env[strings.ToLower(name)] = v, v
		}
	}
	a.Mounts = append(a.Mounts, s.Mounts...)
	if s.CAFile != "" {
		a.Mounts = append(a.Mounts, engine.Mount{Source: s.CAFile, Target: caFile, ReadOnly: true})
		env["CROFT_CA_FILE"], env["NODE_EXTRA_CA_CERTS"] = caFile, caFile
	}
}

// Paths looks at the machine's files.
type Paths interface {
	// Real is what path leads to for u, links resolved. The error is a
	// *engine.StartError when u may not get there or read it.
	Real(ctx context.Context, u engine.User, path string) (string, error)
}

// allocation is what the engine is given for a job's current attempt.
func (r *Runner) allocation(ctx context.Context, w *world.World, j *workload.Job) (engine.Allocation, error) {
	row, _ := w.Tenancy.Users.Get(j.User)
	user, err := r.cfg.People.Resolve(ctx, row.Name, row.UID)
	if err != nil {
		return engine.Allocation{}, err
	}
	account, _ := w.Tenancy.Accounts.Get(j.Account)
	a := engine.Allocation{
		Attempt: r.attempt(j), Job: int64(j.ID), N: int(j.Attempt.N), Node: j.Attempt.Node,
		Instance: r.cfg.Instance, Account: account.Name, SpecDigest: Digest(j.Spec),
		Name: j.Spec.Name, Image: j.Spec.Image, ImageID: j.Attempt.Image, Command: j.Spec.Command, Workdir: j.Spec.Workdir,
		User: user, CPU: j.Spec.CPU, Memory: j.Spec.Mem,
	}
	if a.Mounts, err = r.mounts(ctx, j.Spec.Mounts, w.Site.MountRoots, user); err != nil {
		return a, err
	}
	for _, uuid := range j.Attempt.Devices {
		d, ok := w.Placement.Devices.Get(uuid)
		if !ok {
			return a, &engine.StartError{Message: "device " + uuid + " is gone"}
		}
		a.Devices = append(a.Devices, engine.Device{UUID: d.UUID, Node: d.Node, Index: d.Index, Name: d.Name, Model: d.Model, CDI: d.CDI})
	}
	a.Env = environment(j, a, account.Name)
	r.cfg.Site.apply(&a, a.Env)
	maps.Copy(a.Env, j.Spec.Env)
	return a, nil
}

// mounts resolves what the job asked to bind as its user sees it, and checks where
// that really leads: a link out of the allowed folders is refused, whoever made it.
func (r *Runner) mounts(ctx context.Context, ask []workload.Mount, roots []string, u engine.User) ([]engine.Mount, error) {
	var out []engine.Mount
	for _, m := range ask {
		real, err := r.cfg.Paths.Real(ctx, u, m.Source)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(roots, func(root string) bool { return r.under(ctx, real, root, u) }) {
			return nil, &engine.StartError{Message: "mount " + m.Source + " leads out of the folders that may be mounted here"}
		}
		out = append(out, engine.Mount{Source: real, Target: m.Target, ReadOnly: m.ReadOnly})
	}
	return out, nil
}

// under reports whether path is root ("~": the user's home) or below it.
func (r *Runner) under(ctx context.Context, path, root string, u engine.User) bool {
	if root == "~" {
		root = u.Home
	}
	real, err := r.cfg.Paths.Real(ctx, u, root)
	return err == nil && real != "/" && (path == real || strings.HasPrefix(path, real+"/"))
}

// environment is what Croft tells the program.
func environment(j *workload.Job, a engine.Allocation, account string) map[string]string {
	var names, uuids []string
	for _, d := range a.Devices {
		names, uuids = append(names, d.Name), append(uuids, d.UUID)
	}
	env := map[string]string{
		"CROFT_JOB_ID":       strconv.FormatInt(int64(j.ID), 10),
		"CROFT_JOB_NAME":     j.Spec.Name,
		"CROFT_ATTEMPT":      strconv.Itoa(a.N),
		"CROFT_ACCOUNT":      account,
		"CROFT_PARTITION":    j.Spec.Partition,
		"CROFT_QOS":          j.Spec.QoS,
		"CROFT_NODE":         a.Node,
		"CROFT_CPUS":         quantity.FormatCPU(j.Spec.CPU),
		"CROFT_MEM":          strconv.FormatInt(j.Spec.Mem, 10),
		"CROFT_TIME_LIMIT":   strconv.FormatInt(j.Spec.Time/1e9, 10),
		"CROFT_DEVICES":      strings.Join(names, ","),
		"CROFT_DEVICE_UUIDS": strings.Join(uuids, ","),
		"OMP_NUM_THREADS":    strconv.FormatInt(max(j.Spec.CPU/1000, 1), 10),
	}
	if len(uuids) > 0 {
		env["CUDA_VISIBLE_DEVICES"] = strings.Join(uuids, ",")
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
