package query

import (
	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/workload"
)

// shared is whom a job's applications are shared with now, as far as the caller may know it:
// of a job that he may not read, what lets himself in.
func (v view) shared(j *workload.Job) []v1.Shared {
	reads := v.may(access.JobRead, j.User, j.Account)
	var out []v1.Shared
	for _, s := range j.Shared {
		if s.Over(v.now) || !reads && !v.w.LetsIn(s, v.p) {
			continue
		}
		w := v1.Shared{Public: s.Public(), Level: s.Level.String(), Until: moment(s.Until)}
		if s.User != 0 {
			w.User = v.user(s.User)
		}
		if s.Account != 0 {
			w.Account = v.account(s.Account)
		}
		out = append(out, w)
	}
	return out
}

// sharedWire is a job as somebody sees it who may come to its applications or terminals, and
// not read it: what it runs, with what, for whose money and how that went is its owner's.
func (r *Reader) sharedWire(v view, j *workload.Job) (v1.Job, error) {
	b, err := r.brief(v, j)
	if err != nil {
		return v1.Job{}, err
	}
	out := v1.Job{
		ID: b.ID, Name: b.Name, User: b.User, State: b.State, Outcome: b.Outcome, Contact: b.Contact, Idle: b.Idle, Progress: b.Progress,
		Submitted: b.Submitted, Started: b.Started, Ended: b.Ended, Stopped: b.Stopped, Ready: ready(j), Shared: v.shared(j), Seq: b.Seq,
	}
	out.Spec = b.Spec
	out.Spec.Kind = j.Spec.Wire().Kind
	for _, app := range j.Spec.Apps {
		out.Spec.Apps = append(out.Spec.Apps, v1.App{Name: app.Name, Port: int(app.Port), Path: app.Path})
	}
	if workload.RulesOf(j.State).Running {
		out.Limit = moment(j.Attempt.Until)
	}
	return out, nil
}

// Apps lists the jobs to whose applications or terminals the caller may come, the newest
// first: his own that have applications or are shared, and those that are shared with him.
func (r *Reader) Apps(p access.Principal, q v1.AppQuery) (v1.Page[v1.AppJob], error) {
	out := v1.Page[v1.AppJob]{Items: []v1.AppJob{}}
	size, err := pageSize(q.Limit)
	if err != nil {
		return out, err
	}
	v := r.view(p)
	filter := filterHash("apps", decimal(p.User))
	from, err := parseCursor(q.Cursor, filter)
	if err != nil {
		return out, err
	}
	before := id.Job(from.ID)
	if before == 0 {
		before = v.w.Workload.NextJob()
	}
	for _, j := range v.w.Workload.Jobs.Back(before) {
		if !v.comesTo(j) {
			continue
		}
		if len(out.Items) == size {
			out.Next = cursor{Filter: filter, ID: int64(before)}.encode()
			break
		}
		before = j.ID
		out.Items = append(out.Items, r.appJob(v, j))
	}
	return out, nil
}

// comesTo reports whether a job has what the caller may come to.
func (v view) comesTo(j *workload.Job) bool {
	switch mine := j.User == v.self(); {
	case !mine && len(j.Shared) == 0:
		return false // nearly all jobs
	case mine && len(j.Spec.Apps) == 0 && len(v.shared(j)) == 0:
		return false
	}
	return v.w.CanApp(v.p, access.AppSee, j)
}

func (r *Reader) appJob(v view, j *workload.Job) v1.AppJob {
	out := v1.AppJob{ID: j.Name(), Name: j.Spec.Name, User: v.user(j.User), State: string(stateOf(j)), Ready: ready(j), Access: "owner", Shared: v.shared(j)}
	if j.User != v.self() {
		out.Access = access.ShareView.String()
		if v.w.CanApp(v.p, access.AppUse, j) {
			out.Access = access.ShareFull.String()
		}
	}
	for i, app := range j.Spec.Apps {
		at := v1.AppAddress{Name: app.Name}
		if r.Server.AppURL != nil {
			name := app.Name
			if i == 0 {
				name = ""
			}
			at.URL = r.Server.AppURL(j.ID, name, app.Path)
		}
		out.Apps = append(out.Apps, at)
	}
	return out
}
