package query

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/admission"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/metering"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/quantity"
	"croft.dev/croft/internal/store"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

// Job returns a job that the caller may read, what somebody sees of it with whom it is
// shared, or what is kept of a refused request
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
	j, err := r.see(ctx, v, name)
	switch {
	case err != nil:
		return v1.Job{}, err
	case !v.may(access.JobRead, j.User, j.Account):
		return r.sharedWire(v, j)
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
	if got.Job.Spec.Rolling() && got.Verdict.Need > 0 {
		out.Receipt.Hour, out.Receipt.Whole = got.Verdict.Hour.String(), got.Verdict.Cost.Total.String()
	}
	start := got.Verdict.Window
	if start.Kind == "" { // a workspace's further run
		view := v.decides()
		req := admission.Request{Subject: view.SubjectOf(got.Job), Spec: got.Job.Spec, Gate: admission.Start, Job: got.Job}
		start = admission.StartWindow(view, req, got.Verdict)
	}
	win := window(start)
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
	if !v.w.CanJob(v.p, action, j) {
		return nil, fault.New(codes.Denied, "job %s isn't yours to do that with%s", name, world.OnlyItsOwn(v.p, j))
	}
	return j, nil
}

func (r *Reader) find(ctx context.Context, v view, name string) (*workload.Job, error) {
	j, err := r.lookUp(ctx, v, name)
	if err != nil {
		return nil, err
	}
	switch {
	case v.may(access.JobRead, j.User, j.Account):
		return j, nil
	case v.w.CanApp(v.p, access.AppSee, j):
		return nil, fault.New(codes.Denied, "job %s is shared with you, and isn't yours to do that with", name)
	}
	return nil, fault.NotFound("job", name)
}

// see finds a job that the caller may read, or whose applications or terminals are shared
// with him.
func (r *Reader) see(ctx context.Context, v view, name string) (*workload.Job, error) {
	j, err := r.lookUp(ctx, v, name)
	if err != nil {
		return nil, err
	}
	if !v.may(access.JobRead, j.User, j.Account) && !v.w.CanApp(v.p, access.AppSee, j) {
		return nil, fault.NotFound("job", name)
	}
	return j, nil
}

// lookUp finds a job by its number, a workspace of the caller's own by its name, or an
// element of an array by its name: one that waits as the job that it would become.
func (r *Reader) lookUp(ctx context.Context, v view, name string) (*workload.Job, error) {
	state := &v.w.Workload
	jobs := &state.Jobs
	if array, index, ok := id.ParseElement(name); ok {
		if e, live := v.w.Workload.Element(array, index); live {
			return e, nil
		}
		if j, live := jobs.Get(array); live && j.Array != nil && j.Array.Pending.Has(index) {
			e := j.Element(id.Element(array, index), index)
			e.State = j.State
			if j.First().ID != e.ID {
				e.Promise = 0
			}
			return e, nil
		}
		e, err := r.History.Element(ctx, array, index)
		return e, readErr(err, "job", clip(name))
	}
	if own, ok := state.Workspace(id.User(v.p.User), name); ok {
		return own, nil
	}
	k, ok := id.ParseJob(name)
	if !ok {
		return nil, fault.NotFound("job", clip(name))
	}
	if j, live := jobs.Get(k); live {
		return j, nil
	}
	j, err := r.History.Job(ctx, k)
	return j, readErr(err, "job", name)
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

// Past looks up those of the jobs that a new one is to wait for which have left the
// world.
func (r *Reader) Past(ctx context.Context, deps workload.Dependencies) ([]admission.Past, error) {
	state := &r.Worlds.World().Workload
	var out []admission.Past
	for _, d := range deps.Of {
		if d.Event == workload.Singleton || state.Stands(d.Job) || slices.ContainsFunc(out, func(p admission.Past) bool { return p.Job == d.Job }) {
			continue
		}
		switch p, err := r.past(ctx, state, d.Job); {
		case errors.Is(err, store.ErrNotFound):
		case err != nil:
			return nil, readErr(err, "job", d.Job.Name())
		case p.Ended != 0 || p.Absent:
			out = append(out, p)
		}
	}
	return out, nil
}

// past is what became of a job, or of an element of an array. One that was never started
// left no row: its array says that it was there, and it has ended with that at the latest.
func (r *Reader) past(ctx context.Context, live *workload.State, k id.Job) (admission.Past, error) {
	number, index, element := k.Array()
	if !element {
		j, err := r.History.Job(ctx, k)
		if err != nil {
			return admission.Past{}, err
		}
		return admission.Past{Fate: j.Fate(), User: j.User, Account: j.Account, Elements: j.Spec.Array.Elements, Array: j.Array}, nil
	}
	e, err := r.History.Element(ctx, number, index)
	if err == nil {
		f := e.Fate()
		f.Job = k
		return admission.Past{Fate: f, User: e.User, Account: e.Account}, nil
	}
	if !errors.Is(err, store.ErrNotFound) {
		return admission.Past{}, err
	}
	array, ok := live.Jobs.Get(number)
	if !ok {
		if array, err = r.History.Job(ctx, number); err != nil {
			return admission.Past{}, err
		}
	}
	f := workload.Fate{Job: k, Ended: cmp.Or(array.Ended, r.Now()), Outcome: codes.Cancelled}
	return admission.Past{Fate: f, User: array.User, Account: array.Account, Absent: !array.Spec.Array.Elements.Has(index)}, nil
}

// SpecOf returns the spec of a job or of a refused request, for a clone. That it was
// held says nothing of the clone.
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
	again := *j
	again.OwnTime()
	spec := again.Spec
	spec.Hold = false
	return spec.Wire(), nil
}

// Reached reports whether a job has reached or passed a state, "running", "ready" or
// "ended". It is cheap: waiting asks it whenever anything has changed.
func (r *Reader) Reached(ctx context.Context, p access.Principal, name, until string) (bool, error) {
	v := r.view(p)
	if _, ok := id.ParseRefusal(name); ok {
		return true, nil
	}
	j, err := r.see(ctx, v, name)
	if err != nil {
		return false, err
	}
	switch {
	case j.State == workload.Ended, j.State == workload.Stopped:
		return true, nil // whatever it is waited for comes about no more by itself
	case j.State == workload.Running && until == "ready":
		return len(j.Spec.Apps) == 0 || j.Attempt.Ready != 0, nil
	case j.State == workload.Stopping:
		return until != "ended", nil
	case j.State == workload.Running, j.Array != nil && j.Array.Active+int64(len(j.Array.Ended)) > 0:
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

// brief is what a list shows of a job: where it stands, and nothing that needs much
// looking up or room.
func (r *Reader) brief(v view, j *workload.Job) (v1.Job, error) {
	a := j.Attempt
	out := v1.Job{
		ID: j.Name(), Name: j.Spec.Name, User: v.user(j.User), Token: byToken(j.Token), Account: v.account(j.Account), State: string(stateOf(j)),
		Outcome: string(j.Outcome), Message: j.Message, Spec: j.Spec.Amounts(), Submitted: at(j.Submitted), Started: moment(a.Started),
		Ended: moment(j.Ended), Node: a.Node, Attempt: int(a.N), Seq: j.Seq,
	}
	if len(a.Others) > 0 {
		out.Nodes = a.Nodes()
	}
	if part := a.Part(); part > 0 && !waiting(j) && j.State != workload.Stopped {
		out.Part = v1.Quantity(quantity.FormatDevices(part))
	}
	switch {
	case j.State == workload.Ended:
		code := int(j.ExitCode)
		out.ExitCode = &code
	case j.State == workload.Stopped:
		// What is told of its last run is how that ended; it may have had none.
		out.Started, out.Node, out.Nodes, out.Stopped = nil, "", nil, moment(j.Rested)
		if a.N > 0 && a.Ended != 0 {
			code := int(j.ExitCode)
			out.ExitCode = &code
		}
	case workload.RulesOf(j.State).Running:
		out.Contact = contact(a)
		out.Idle = r.idleBrief(v, j)
		if why := r.keptBack(j); why != nil {
			out.Waits = string(why.Code)
		}
		out.Progress = r.Server.Progress(j.ID)
	default:
		// A requeued job waits again: its last attempt is history.
		out.Started, out.Node, out.Nodes = nil, "", nil
		out.Progress = r.Server.Progress(j.ID)
	}
	reasons, err := v.waits(j)
	if err != nil {
		return out, err
	}
	switch {
	case len(reasons) > 0:
		out.Waits = string(reasons[0].Code)
	case j.State == workload.Queued:
		out.Waits = string(codes.Priority)
	}
	if j.State == workload.Held {
		out.Reasons, out.Eligible = Reasons(reasons), eligible(j)
	}
	if j.Steps > workload.PrimaryStep {
		out.Steps = int(j.Steps - workload.PrimaryStep)
	}
	if j.Of != 0 && j.ID > 0 {
		out.Number = decimal(j.ID)
	}
	out.Array = arrayWire(j.Array, false)
	return out, nil
}

// jobWire is a job as its reader may see it. In detail it also says when a waiting
// job starts and what keeps it, and itemizes the receipt.
func (r *Reader) jobWire(v view, j *workload.Job, detail bool) (v1.Job, error) {
	out, err := r.brief(v, j)
	if err != nil {
		return out, err
	}
	out.Spec, out.Eligible, out.Ready, out.Shared = j.Spec.Wire(), eligible(j), ready(j), v.shared(j)
	if !waiting(j) && j.State != workload.Stopped {
		out.Devices, out.Given, out.Image = v.devicesOf(j.Attempt), j.Attempt.Given, j.Attempt.Image
	}
	if workload.RulesOf(j.State).Running {
		out.Limit = moment(j.Attempt.Until)
	}
	if detail && waiting(j) {
		verdict, _, err := admission.Why(v.decides(), j)
		if err != nil {
			return out, err
		}
		win := window(verdict.Window)
		out.Window, out.Reasons = &win, Reasons(verdict.Reasons)
	}
	out.Usage, out.Idle = r.usageNow(v, j), r.idleWire(v, j)
	out.Array = arrayWire(j.Array, true)
	if detail {
		out.Quoted = quotedWire(j.Quoted)
	}
	out.Receipt, err = v.receipt(j, detail)
	return out, err
}

// ready is when all apps of a job that runs were first seen to answer.
func ready(j *workload.Job) *time.Time {
	if !workload.RulesOf(j.State).Running {
		return nil
	}
	return moment(j.Attempt.Ready)
}

// stateOf is the state that people know a job by: an array runs while an element does.
func stateOf(j *workload.Job) workload.JobState {
	if j.Array != nil && j.Array.Active > 0 {
		return workload.Running
	}
	return j.State
}

// arrayWire is how far an array is, with the indices or without.
func arrayWire(a *workload.Array, indices bool) *v1.Array {
	if a == nil {
		return nil
	}
	out := &v1.Array{Pending: a.Pending.Len(), Active: a.Active, More: a.More}
	for _, t := range a.Ended {
		if out.Ended == nil {
			out.Ended = map[string]int64{}
		}
		out.Ended[string(t.Outcome)] = t.Count
	}
	if indices {
		out.Waiting, out.Failed = a.Pending.String(), a.Failed.String()
	}
	return out
}

// waiting reports whether a job holds no allocation and may have one yet.
func waiting(j *workload.Job) bool { return j.State == workload.Held || j.State == workload.Queued }

// eligible is when a job came to compete with others, or will.
func eligible(j *workload.Job) *time.Time {
	if j.State == workload.Stopped {
		return nil
	}
	if j.State != workload.Held {
		return moment(j.Since())
	}
	if opens, known, _ := j.Opens(); known && j.Hold == workload.NoHold {
		return moment(opens)
	}
	return nil
}

// waits is what keeps a waiting job, in brief, so that lists can say it of thousands:
// a hold, a limit or the like, by the decision that starts jobs; for the first of a
// partition what it lacks; none where it is those before it.
func (v view) waits(j *workload.Job) ([]fault.Reason, error) {
	if !waiting(j) {
		return nil, nil
	}
	reasons, err := v.keeper().Kept(j)
	if err == nil && len(reasons) == 0 && v.first(j) {
		view := v.decides()
		var verdict admission.Verdict
		verdict, err = admission.Decide(view, admission.Request{Subject: view.SubjectOf(j), Spec: j.Spec, Gate: admission.Start, Job: j})
		reasons = verdict.Reasons
	}
	return reasons, err
}

// keptBack is what keeps a job from beginning where it was placed; nil: nothing does.
func (r *Reader) keptBack(j *workload.Job) *fault.Reason {
	if j.State != workload.Starting {
		return nil
	}
	return r.Server.Kept(attemptOf(j))
}

// first reports whether a waiting job is the next of its partition.
func (v view) first(j *workload.Job) bool {
	queue := workload.QueueOf(j.Spec.Partition, j.In)
	next, known := v.next[queue]
	if !known {
		for first := range v.w.Workload.Queue(v.decides().Order(), queue) {
			next = first.Row()
			break
		}
		v.next[queue] = next
	}
	return next == j.Row()
}

func contact(a workload.Attempt) string {
	if a.Lost == 0 {
		return "ok"
	}
	return "lost since " + at(a.Lost).Format(time.RFC3339)
}

// devicesOf names what an attempt has; of several machines, with their names.
func (v view) devicesOf(a workload.Attempt) []string {
	if len(a.Others) == 0 {
		return v.devices(a.Devices)
	}
	var out []string
	for _, r := range a.Ranks() {
		for _, d := range v.devices(r.Devices) {
			out = append(out, r.Node+"/"+d)
		}
	}
	return out
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
		Billing: j.Billing, Deposit: j.Deposit.String(), Charged: j.Charged.String(), Returned: (j.Returned + j.Refunded).String(),
		Account: v.account(j.Account), Final: j.State == workload.Ended,
	}
	if j.Array != nil {
		out.Charged, out.Returned = j.Array.Charged.String(), (j.Returned + j.Array.Returned).String()
	}
	var left money.Micros
	for _, s := range j.Sources {
		out.Grants = append(out.Grants, v.sourceName(s.Source))
		left += s.Left // parts of what the deposit is the sum of
	}
	if !out.Final {
		out.Left = left.String()
	}
	if a := j.Attempt; a.Rolls() && workload.RulesOf(j.State).Running {
		out.Paid, out.Short = moment(a.Paid), moment(a.Short)
	}
	if j.Attempt.N == 0 || out.Final && !detail {
		return out, nil
	}
	accrued, err := metering.Receipt(&v.w.Catalog, j, v.now)
	if err != nil {
		return nil, err
	}
	if !out.Final && j.State != workload.Stopped {
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
