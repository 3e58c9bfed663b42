package query

import (
	"context"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/admission"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/placement"
	"croft.dev/croft/internal/tenancy"
	"croft.dev/croft/internal/workload"
)

// Defaults is what a spec gets that leaves an amount out.
func (r *Reader) Defaults() workload.Defaults {
	s := r.Worlds.World().Site
	return workload.Defaults{CPU: s.DefCPU, Mem: s.DefMem, MaxGrace: s.MaxGrace, Now: r.Now()}
}

// quote decides on a request that isn't submitted.
func (r *Reader) quote(ctx context.Context, v view, by admission.View, spec workload.Spec, home string) (req admission.Request, verdict admission.Verdict, err error) {
	subject, spec, err := by.Resolve(v.p, spec)
	if err != nil {
		return req, verdict, err
	}
	if !v.may(access.JobSubmit, subject.User.ID, subject.Account.ID) {
		return req, verdict, fault.Invalid("account", "you may not submit to %s", subject.Account.Name)
	}
	subject.Home = home
	past, err := r.Past(ctx, spec.After)
	if err != nil {
		return req, verdict, err
	}
	met, array, err := by.Dependencies(v.p, spec, past)
	if err != nil {
		return req, verdict, err
	}
	req = admission.Request{Subject: subject, Spec: spec, Met: met, Array: array, Gate: admission.Accept}
	verdict, err = admission.Quote(by, req)
	return req, verdict, err
}

// Said is when a job that is about to be submitted starts, as its user is told and it is
// kept with the job. Of one that can't be submitted it says nothing: the submission does.
func (r *Reader) Said(ctx context.Context, p access.Principal, spec workload.Spec, home string) placement.Window {
	v := r.view(p)
	_, verdict, err := r.quote(ctx, v, v.decides(), spec, home)
	if err != nil || !verdict.Admit {
		return placement.Window{}
	}
	return verdict.Window
}

// Quote says what a job would cost and when it would start. home is the host path
// of the caller's home, for mounts; empty: unknown.
func (r *Reader) Quote(ctx context.Context, p access.Principal, spec workload.Spec, home string) (v1.Quote, error) {
	v := r.view(p)
	view := v.decides()
	req, verdict, err := r.quote(ctx, v, view, spec, home)
	if err != nil {
		return v1.Quote{}, err
	}
	spec, subject := req.Spec, req.Subject
	out := v1.Quote{
		Admitted: verdict.Admit, Price: v1.Price{Total: verdict.Cost.Total.String(), Lines: lines(verdict.Cost.Lines)}, Window: window(verdict.Window),
		Account: subject.Account.Name, Billing: string(subject.Account.Billing), Spec: spec.Wire(), Reasons: Reasons(verdict.Reasons),
		Priority: v.priority(view, view.FactorsOf(req), req.Lane(), 0),
	}
	if subject.Account.Billing != tenancy.BillingOff {
		before := money.Micros(verdict.Before)
		out.Balance, out.After = before.String(), max(before-verdict.Need, 0).String()
		if spec.Rolling() && verdict.Need > 0 {
			out.Deposit, out.Hour = verdict.Need.String(), verdict.Hour.String()
		}
	}
	for _, b := range verdict.Caps {
		out.Caps = append(out.Caps, v.limitWire(b))
	}
	if !verdict.Admit {
		out.After = out.Balance
		out.Remedy = Remedy(admission.Remedy(view, req, verdict))
	}
	return out, nil
}
