package query

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/admission"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/metering"
	"croft.dev/croft/internal/workload"
)

// Job returns a job that the caller may read, or what is kept of a refused request
// ("R-7").
func (r *Reader) Job(ctx context.Context, p access.Principal, name string) (v1.Job, error) {
	v := r.view(p)
	if k, ok := id.ParseRefusal(name); ok {
		row, err := r.refusal(ctx, v, k)
		if err != nil {
			return v1.Job{}, err
		}
		return r.refusedWire(v, row)
	}
	j, err := r.find(ctx, v, name)
	if err != nil {
		return v1.Job{}, err
	}
	return r.jobWire(v, j, true)
}

// Accepted is the answer to a submission that was accepted just now: the job with
// its deposit and the window in which it starts.
func (r *Reader) Accepted(p access.Principal, got admission.Accepted) (v1.Job, error) {
	v := r.view(p)
	out, err := r.jobWire(v, got.Job, false)
	if err != nil {
		return out, err
	}
	out.Receipt.Lines = lines(got.Verdict.Cost.Lines)
	view := v.w.View(v.now)
	req := admission.Request{Subject: view.SubjectOf(got.Job), Spec: got.Job.Spec, Gate: admission.Start, Job: got.Job}
	win := window(admission.StartWindow(view, req, got.Verdict))
	out.Window = &win
	return out, nil
}

// Find returns the job's row, if the caller may do to it what action says. Whoever
// may not even read it is told that there is none.
func (r *Reader) Find(ctx context.Context, p access.Principal, name string, action access.Action) (*workload.Job, error) {
	v := r.view(p)
	j, err := r.find(ctx, v, name)
	if err != nil {
		return nil, err
	}
	if !v.may(action, j.User, j.Account) {
		return nil, fault.New(codes.Denied, "job %s isn't yours to do that with", name)
	}
	return j, nil
}

func (r *Reader) find(ctx context.Context, v view, name string) (*workload.Job, error) {
	k, ok := id.ParseJob(name)
	if !ok {
		return nil, fault.NotFound("job", clip(name))
	}
	j, ok := v.w.Workload.Jobs.Get(k)
	if !ok {
		var err error
		if j, err = r.History.Job(ctx, k); err != nil {
			return nil, readErr(err, "job", name)
		}
	}
	if !v.may(access.JobRead, j.User, j.Account) {
		return nil, fault.NotFound("job", name)
	}
	return j, nil
}

func (r *Reader) refusal(ctx context.Context, v view, k id.Refusal) (*workload.Refusal, error) {
	row, err := r.History.Refusal(ctx, k)
	if err != nil {
		return nil, readErr(err, "job", k.String())
	}
	if !v.may(access.JobRead, row.User, row.Account) {
		return nil, fault.NotFound("job", k.String())
	}
	return row, nil
}

// Refused rebuilds the error that a refused request was answered with.
func (r *Reader) Refused(ctx context.Context, p access.Principal, k id.Refusal) error {
	row, err := r.refusal(ctx, r.view(p), k)
	if err != nil {
		return err
	}
	kept, err := keptOf(row)
	if err != nil {
		return err
	}
	f := &fault.Error{Code: codes.Refused, Message: "refused " + k.String(), Reasons: kept.Reasons, Remedy: kept.Remedy, ID: k.String()}
	if len(kept.Reasons) > 0 {
		f.Message += ": " + kept.Reasons[0].Message
	}
	return f
}

func keptOf(row *workload.Refusal) (admission.Kept, error) {
	var kept admission.Kept
	err := json.Unmarshal(row.Verdict, &kept)
	return kept, err
}

// SpecOf returns the spec of a job or of a refused request, for a clone.
func (r *Reader) SpecOf(ctx context.Context, p access.Principal, name string) (v1.JobSpec, error) {
	v := r.view(p)
	if k, ok := id.ParseRefusal(name); ok {
		row, err := r.refusal(ctx, v, k)
		if err != nil {
			return v1.JobSpec{}, err
		}
		return row.Spec.Wire(), nil
	}
	j, err := r.find(ctx, v, name)
	if err != nil {
		return v1.JobSpec{}, err
	}
	return j.Spec.Wire(), nil
}

// Reached reports whether a job has reached or passed a state, "running" or
// "ended". It is cheap: waiting asks it whenever anything has changed.
func (r *Reader) Reached(ctx context.Context, p access.Principal, name, until string) (bool, error) {
	v := r.view(p)
	if _, ok := id.ParseRefusal(name); ok {
		return true, nil
	}
	j, err := r.find(ctx, v, name)
	if err != nil {
		return false, err
	}
	switch j.State {
	case workload.Ended:
		return true, nil
	case workload.Running, workload.Stopping:
		return until == "running", nil
	}
	return false, nil
}

func (r *Reader) refusedWire(v view, row *workload.Refusal) (v1.Job, error) {
	kept, err := keptOf(row)
	if err != nil {
		return v1.Job{}, err
	}
	out := v1.Job{
		ID: row.ID.String(), Name: row.Spec.Name, User: v.user(row.User), Account: v.account(row.Account), State: "refused",
		Spec: row.Spec.Wire(), Submitted: at(row.At), Seq: row.Seq, Reasons: Reasons(kept.Reasons), Remedy: Remedy(kept.Remedy),
	}
	if len(kept.Reasons) > 0 {
		out.Message = kept.Reasons[0].Message
	}
	return out, nil
}

// jobWire is a job as its reader may see it. In detail it also says when a waiting
// job starts and what keeps it, and itemizes the receipt.
func (r *Reader) jobWire(v view, j *workload.Job, detail bool) (v1.Job, error) {
	a := j.Attempt
	out := v1.Job{
		ID: decimal(j.ID), Name: j.Spec.Name, User: v.user(j.User), Account: v.account(j.Account), State: string(j.State),
		Outcome: string(j.Outcome), Message: j.Message, Spec: j.Spec.Wire(), Submitted: at(j.Submitted), Started: moment(a.Started),
		Ended: moment(j.Ended), Node: a.Node, Devices: v.devices(a.Devices), Attempt: int(a.N), Seq: j.Seq,
	}
	switch {
	case j.State == workload.Ended:
		code := int(j.ExitCode)
		out.ExitCode = &code
	case workload.RulesOf(j.State).Running:
		out.Contact, out.Limit = contact(a), moment(a.Until)
		out.Progress = r.Server.Progress(j.ID)
	default:
		// A requeued job waits again: its last attempt is history.
		out.Started, out.Node, out.Devices = nil, "", nil
		out.Progress = r.Server.Progress(j.ID)
	}
	var err error
	if out.Waits, err = v.waits(j); err != nil {
		return out, err
	}
	if detail && j.State == workload.Queued {
		verdict, _, err := admission.Why(v.w.View(v.now), j)
		if err != nil {
			return out, err
		}
		win := window(verdict.Window)
		out.Window, out.Reasons = &win, Reasons(verdict.Reasons)
	}
	out.Receipt, err = v.receipt(j, detail)
	return out, err
}

// waits is what keeps a waiting job, in brief, so that lists can say it of thousands:
// a limit or the like, by the decision that starts jobs; for the first of a partition
// what it lacks; else those before it.
func (v view) waits(j *workload.Job) (string, error) {
	switch j.State {
	case workload.Held:
		return string(codes.JobHeld), nil
	case workload.Queued:
	default:
		return "", nil
	}
	view := v.w.View(v.now)
	reasons, err := view.Kept(j)
	if err == nil && len(reasons) == 0 && v.first(j) {
		var verdict admission.Verdict
		verdict, err = admission.Decide(view, admission.Request{Subject: view.SubjectOf(j), Spec: j.Spec, Gate: admission.Start, Job: j})
		reasons = verdict.Reasons
	}
	if len(reasons) == 0 {
		return string(codes.Priority), err
	}
	return string(reasons[0].Code), err
}

// first reports whether a waiting job is the next of its partition.
func (v view) first(j *workload.Job) bool {
	next, known := v.next[j.Spec.Partition]
	if !known {
		for first := range v.w.Workload.Queue(v.w.View(v.now).Order(), j.Spec.Partition) {
			next = first.ID
			break
		}
		v.next[j.Spec.Partition] = next
	}
	return next == j.ID
}

func contact(a workload.Attempt) string {
	if a.Lost == 0 {
		return "ok"
	}
	return "lost since " + at(a.Lost).Format(time.RFC3339)
}

// devices names devices as people know them.
func (v view) devices(uuids []string) []string {
	var out []string
	for _, u := range uuids {
		name := u
		if d, ok := v.w.Placement.Devices.Get(u); ok && d.Name != "" {
			name = d.Name
		}
		out = append(out, name)
	}
	return out
}

// receipt is a job's money. While it runs, what has accrued counts as charged,
// though it is posted later.
func (v view) receipt(j *workload.Job, detail bool) (*v1.Receipt, error) {
	out := &v1.Receipt{
		Billing: j.Billing, Deposit: j.Deposit.String(), Charged: j.Charged.String(), Returned: j.Returned.String(),
		Account: v.account(j.Account), Final: j.State == workload.Ended,
	}
	for _, s := range j.Sources {
		out.Grants = append(out.Grants, v.sourceName(s.Source))
	}
	if j.Attempt.N == 0 || out.Final && !detail {
		return out, nil
	}
	accrued, err := metering.Receipt(&v.w.Catalog, j, v.now)
	if err != nil {
		return nil, err
	}
	if !out.Final {
		out.Charged = max(accrued.Total, j.Charged).String()
	}
	if detail {
		out.Lines = lines(accrued.Lines)
	}
	return out, nil
}

// sourceName says where a deposit's money came from: "DFG-123 (grant 3)".
func (v view) sourceName(source string) string {
	n, ok := strings.CutPrefix(source, "grant:")
	if !ok {
		return "showback"
	}
	k, _ := id.ParseJob(n) // the same form: a positive number
	g, _ := v.w.Ledger.Grants.Get(id.Grant(k))
	return g.Source + " (grant " + n + ")"
}

func clip(s string) string {
	if len(s) <= 40 {
		return s
	}
	return strings.ToValidUTF8(s[:40], "") + "…"
}
