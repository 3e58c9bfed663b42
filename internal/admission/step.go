package admission

import (
	"fmt"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/workload"
)

// StepRefused says why a step of j can never run: it asks for more than the job has, or
// mounts what may not be mounted by a user with that home. None: it can.
func (v View) StepRefused(j *workload.Job, s workload.StepSpec, home string) []fault.Reason {
	var out []fault.Reason
	if field, asked, has, over := s.Over(j.Spec); over {
		out = append(out, fault.Reason{
			Code: codes.StepBeyond, Field: field, Observed: asked, Bound: has, Scope: "job " + j.Name(), Never: true,
			Message: fmt.Sprintf("asked for %s %s, job %s has %s", field, asked, j.Name(), has),
		})
	}
	if s.Host && !v.HostPrograms {
		out = append(out, hostDenied(true))
	}
	return append(out, v.deniedMounts(s.Mounts, home)...)
}
