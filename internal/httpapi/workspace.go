package httpapi

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/admission"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/workload"
)

// spec reads a request for a job, with the caller's home on the machine in place of ~ in
// what is to be mounted.
func (c *call) spec(in v1.JobSpec) (workload.Spec, error) {
	below := func(m v1.Mount) bool {
		return (m.Type == "" || m.Type == "bind") && (m.Source == workload.Home || strings.HasPrefix(m.Source, workload.Home+"/"))
	}
	if slices.ContainsFunc(in.Mounts, below) {
		who, known, err := c.person(c.p.Name)
		if err != nil {
			return workload.Spec{}, err
		}
		if !known || who.Home == "" {
			return workload.Spec{}, fault.Invalid("mounts", "%s has no home on this machine: leave ~ out (croft: --no-home)", c.p.Name)
		}
		in.Mounts = slices.Clone(in.Mounts)
		for i, m := range in.Mounts {
			if below(m) {
				in.Mounts[i].Source = who.Home + strings.TrimPrefix(m.Source, workload.Home)
			}
		}
	}
	return workload.Parse(in, c.Reader.Defaults())
}

// start starts a stopped workspace, with changes to how it runs or as it was.
func (c *call) start(in v1.StartRequest) (v1.Job, error) {
	name := c.path("id")
	j, err := c.live(name, ": croft clone submits it anew")
	if err != nil {
		return v1.Job{}, err
	}
	if !j.Spec.Workspace() {
		return v1.Job{}, fault.New(codes.Conflict, "job %s isn't a workspace: it starts by itself", j.Name())
	}
	cmd := command.WorkspaceStart{Job: j.ID}
	spec := j.Spec
	if len(in.Set) > 0 {
		wire, err := c.Reader.SpecOf(c.r.Context(), c.p, name)
		if err != nil {
			return v1.Job{}, err
		}
		if wire, err = changed(wire, in.Set); err != nil {
			return v1.Job{}, err
		}
		if spec, err = workload.Parse(wire, c.Reader.Defaults()); err != nil {
			return v1.Job{}, err
		}
		sum := sha256.Sum256(c.body)
		cmd.Spec, cmd.Digest = &spec, hex.EncodeToString(sum[:])
	}
	owner, _ := c.Sequencer.World().Tenancy.Users.Get(j.User)
	if cmd.Home, err = c.home(owner.Name, spec); err != nil {
		return v1.Job{}, err
	}
	got, err := c.do(cmd)
	if err != nil {
		return v1.Job{}, err
	}
	if accepted, ok := got.Result.(admission.Accepted); ok {
		return c.Reader.Accepted(c.p, accepted)
	}
	return c.Reader.Job(c.r.Context(), c.p, name) // it was started already
}
