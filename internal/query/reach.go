package query

import (
	"context"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

// FindShared returns the row of a job whose applications or terminals the caller may reach as
// action says: his own, or one that is shared with him.
func (r *Reader) FindShared(ctx context.Context, p access.Principal, name string, action access.Action) (*workload.Job, error) {
	v := r.view(p)
	j, err := r.lookUp(ctx, v, name)
	switch {
	case err != nil:
		return nil, err
	case v.w.CanApp(v.p, action, j):
		return j, nil
	case v.w.CanApp(v.p, access.TermView, j):
		return nil, fault.New(codes.Denied, "job %s is shared with you to look at: croft terminal --view %s", name, name)
	case v.may(access.JobRead, j.User, j.Account):
		return nil, fault.New(codes.Denied, "job %s isn't yours to do that with%s", name, world.OnlyItsOwn(v.p, j))
	}
	return nil, fault.NotFound("job", name)
}

// StepOf is a step of a job that the caller was found to reach.
func (r *Reader) StepOf(ctx context.Context, p access.Principal, j *workload.Job, n int32) (*workload.Step, error) {
	return r.step(ctx, r.view(p), j, n)
}
