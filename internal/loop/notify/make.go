package notify

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/notice"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

// sources says which rows of the log, besides those of jobs, make which notices. A new kind
// of row that people are to be told of is a line here, and a text in text.go.
func sources() map[string]func(*maker, world.Entry) {
	return map[string]func(*maker, world.Entry){
		command.CreditWarn{}.Kind(): (*maker).budget,
		command.NoticeTest{}.Kind(): (*maker).test,

		command.RequestMake{}.Kind():    (*maker).asked,
		command.Submit{}.Kind():         (*maker).asked,
		command.RequestRemind{}.Kind():  (*maker).asked,
		command.RequestApprove{}.Kind(): (*maker).answered,
		command.RequestReject{}.Kind():  (*maker).answered,
		command.RequestExpire{}.Kind():  (*maker).answered,
	}
}

func kinds() []string { return slices.Sorted(maps.Keys(sources())) }

// maker makes notices of rows of the log.
type maker struct {
	*Loop
	w   *world.World
	out []notice.Notice
}

// notices makes what is to be told of rows of the log. Of jobs they only say which have
// changed: what is told follows from the job as it is now, under a name that it has once.
func (l *Loop) notices(ctx context.Context, w *world.World, entries []world.Entry) ([]notice.Notice, error) {
	m := &maker{Loop: l, w: w}
	last := map[id.Job]world.Entry{}
	for _, e := range entries {
		if tell := sources()[e.Kind]; tell != nil {
			tell(m, e)
		}
		for _, k := range jobsOf(e.Touched) {
			last[k] = e
		}
	}
	var gone []id.Job
	for _, k := range slices.Sorted(maps.Keys(last)) {
		if j, ok := w.Workload.Jobs.Get(k); ok {
			m.job(j, last[k])
		} else {
			gone = append(gone, k)
		}
	}
	if len(gone) == 0 {
		return m.out, nil
	}
	ended, err := l.Outbox.JobRows(ctx, gone)
	if err != nil {
		return nil, err
	}
	for i := range ended {
		m.job(&ended[i], last[ended[i].ID])
	}
	return m.out, nil
}

// jobsOf lists the jobs among the rows that a command put, "job:118 transfer:55".
func jobsOf(touched string) []id.Job {
	var out []id.Job
	for word := range strings.FieldsSeq(touched) {
		if number, ok := strings.CutPrefix(word, "job:"); ok {
			if n, err := strconv.ParseInt(number, 10, 64); err == nil {
				out = append(out, id.Job(n))
			}
		}
	}
	return out
}

// listener is one that is told of a job: by mail, or by a hook.
type listener struct {
	wants notice.Wants
	to    notice.Notice // its User, Address and Hook
}

// job makes what is to be told of a job to its user, or to whom he has named, and to hooks.
func (m *maker) job(j *workload.Job, e world.Entry) {
	for _, l := range m.listeners(j, e.At) {
		if element := j.Of != 0; element == l.wants.Has(notice.ArrayTasks) || !element && j.Array == nil {
			m.jobTo(l, j, e)
		}
	}
}

// listeners are those who want to know anything of a job.
func (m *maker) listeners(j *workload.Job, now int64) []listener {
	var out []listener
	wants := j.Spec.Mail
	if wants == "" {
		wants = m.w.Notices.Of(j.User).Told()
	}
	if m.Open != nil && wants != notice.None && wants != notice.Usually {
		out = append(out, listener{wants, notice.Notice{User: j.User, Address: j.Spec.MailTo}})
	}
	for _, h := range m.hooks(j.User, j.Account, now) {
		out = append(out, listener{h.Told(), notice.Notice{User: h.User, Hook: h.Name}})
	}
	return out
}

// hooks are a user's own, and those that are told of an account.
func (m *maker) hooks(u id.User, a id.Account, now int64) []notice.Hook {
	if !m.Hooks {
		return nil
	}
	var out []notice.Hook
	for _, h := range m.w.Notices.HooksOf(u) {
		if h.Account == 0 && h.Off == "" {
			out = append(out, h)
		}
	}
	for _, h := range m.w.Notices.HooksOfAccounts() {
		if h.Off == "" && command.HookHears(m.w, h, a, now) {
			out = append(out, h)
		}
	}
	return out
}

// jobTo makes what is to be told of a job to one listener.
func (m *maker) jobTo(l listener, j *workload.Job, e world.Entry) {
	tell := func(word, what string, t text) {
		if l.wants.Has(word) {
			n := l.to
			n.Name, n.Kind, n.Account, n.Job = "job."+strconv.FormatInt(int64(j.ID), 10)+"."+what, word, j.Account, j.ID
			m.add(e, n, t)
		}
	}
	for _, a := range append(j.Past[:len(j.Past):len(j.Past)], j.Attempt) {
		if a.N == 0 {
			continue
		}
		n := strconv.Itoa(int(a.N))
		over := a.N != j.Attempt.N || a.Ended != 0
		if a.Started != 0 && e.At-a.Started < dayNs {
			tell(notice.Begin, n+".begin", m.began(j, a))
		}
		switch waits := j.State == workload.Queued || j.State == workload.Held; {
		case over && !j.Spec.Workspace() && (a.N != j.Attempt.N || waits) && e.At-a.Ended < dayNs:
			tell(notice.Requeue, n+".requeue", m.again(j, a))
		case !over:
			m.stopping(j, a, func(word, what string, t text) { tell(word, n+"."+what, t) })
		}
	}
	switch {
	case j.State == workload.Ended:
		tell(m.endWord(j, l.wants), "end", m.ended(j))
	case j.State == workload.Stopped && j.Attempt.N != 0:
		tell(m.endWord(j, l.wants), strconv.Itoa(int(j.Attempt.N))+".end", m.ended(j))
	}
}

// stopping makes what is told of an attempt that runs and is stopped, or is to be, by
// somebody else than its user.
func (m *maker) stopping(j *workload.Job, a workload.Attempt, tell func(word, what string, t text)) {
	switch {
	case a.StopAt == 0 && a.Short != 0:
		tell(notice.Stop, fmt.Sprintf("credit.%d", a.Short), m.toStop(j))
	case a.StopAt == 0 && a.Idle.Told != 0:
		tell(notice.Stop, fmt.Sprintf("idle.%d", a.Idle.Told), m.idle(j))
	case a.StopAt == 0:
	case a.Cause == codes.TimedOut || a.Cause == codes.Deadline:
		tell(notice.TimeLimit, "limit", m.toStop(j))
	case a.Cause == codes.Preempted || a.Cause == codes.OutOfCredit || a.Idle.Why != "":
		tell(notice.Stop, "stop", m.toStop(j))
	}
}

// endWord is by which word a job's end is told: each end is, to who wants to know of ends,
// and failures to who wants to know of those.
func (m *maker) endWord(j *workload.Job, wants notice.Wants) string {
	if failed(j.Outcome) && wants.Has(notice.Fail) {
		return notice.Fail
	}
	return notice.End
}

// failed reports whether an outcome is one that nobody wanted.
func failed(o codes.Outcome) bool {
	switch o {
	case codes.Completed, codes.Cancelled, codes.Stopped:
		return false
	}
	return true
}

// budget tells an account's managers that most of its credits are used up; of an account
// that has none those of the account above it.
func (m *maker) budget(e world.Entry) {
	if e.Event.State == "0" {
		return // there are credits again
	}
	about := notice.Notice{Name: fmt.Sprintf("credit.%d", e.Seq), Kind: notice.Budget, Account: e.Event.Account}
	for _, h := range m.hooks(0, e.Event.Account, e.At) {
		m.post(e, about, h, m.low(e))
	}
	for _, a := range m.w.Tenancy.Path(e.Event.Account) {
		told := false
		for _, who := range m.w.Tenancy.Members(a) {
			if m.w.Tenancy.Role(who.User, a, e.At) < access.Manager {
				continue
			}
			told = true
			m.tell(e, about, who.User, m.low(e))
		}
		if told {
			return
		}
	}
}

// test tells whoever asked to be told something.
func (m *maker) test(e world.Entry) {
	about := notice.Notice{Name: fmt.Sprintf("test.%d", e.Seq), Kind: notice.Test, User: e.User}
	m.add(e, about, m.tested())
	for _, h := range m.w.Notices.HooksOf(e.User) {
		about.Hook = h.Name
		m.add(e, about, m.tested())
	}
}

// tell tells a user something, in each of the ways in which he wants to know of it.
func (m *maker) tell(e world.Entry, about notice.Notice, who id.User, t text) {
	about.User = who
	if m.w.Notices.Of(who).Told().Has(about.Kind) {
		m.add(e, about, t)
	}
	for _, h := range m.hooks(who, 0, e.At) {
		m.post(e, about, h, t)
	}
}

// post tells a hook something, if it wants to know of it.
func (m *maker) post(e world.Entry, about notice.Notice, h notice.Hook, t text) {
	if h.Told().Has(about.Kind) {
		about.User, about.Hook = h.User, h.Name
		m.add(e, about, t)
	}
}

// add adds a notice to a user, if he can be told anything that way.
func (m *maker) add(e world.Entry, n notice.Notice, t text) {
	n.Name += ".u" + strconv.FormatInt(int64(n.User), 10)
	n.Seq, n.At, n.State, n.Due = e.Seq, e.At, notice.Waiting, e.At
	n.Subject, n.Body = t.subject, t.body
	if n.Hook != "" {
		n.Name += "." + n.Hook
		n.Body = m.event(n, t)
		if _, why := hookOf(m.w, n, e.At); why != "" || !m.Hooks {
			return
		}
	} else if _, why := recipient(m.w, n, e.At); why != "" || m.Open == nil {
		return
	}
	m.out = append(m.out, n)
}
