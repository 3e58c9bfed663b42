package notify

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/notice"
	"croft.dev/croft/internal/quantity"
	"croft.dev/croft/internal/tenancy"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

// text is what a notice says. It has what its recipient may see, in the words of croft show:
// never a command, its arguments, its environment or what it wrote.
type text struct {
	subject, body string

	event   string // type of the event that it is for hooks
	head    string // what happened, without what it is about
	why     string
	job     *eventJob
	request *eventRequest
	credits *eventCredits
}

func (m *maker) began(j *workload.Job, a workload.Attempt) text {
	if a.Ended != 0 { // meanwhile
		return m.ofJob(j, a, "has begun", "", "croft show "+j.Name())
	}
	return m.ofJob(j, a, "has begun", "It runs until "+m.clock(a.Until)+" at the latest.", "croft logs -f "+j.Name())
}

func (m *maker) again(j *workload.Job, a workload.Attempt) text {
	why := ""
	if a.N == j.Attempt.N {
		why = j.Message
	}
	if a.Outcome == codes.Preempted && a.Preempt.Refund {
		why = strings.TrimSpace(why + "\nWhat it cost is given back.")
	}
	return m.ofJob(j, a, "waits again: attempt "+fmt.Sprint(a.N)+" "+words(a.Outcome), why, "croft why "+j.Name())
}

func (m *maker) toStop(j *workload.Job) text {
	head := "is being stopped"
	if j.State == workload.Running {
		head = "is to be stopped"
	}
	if m.stopsByTime(j) {
		head = "has used up its time"
	}
	return m.ofJob(j, j.Attempt, head, j.Message, "croft why "+j.Name())
}

func (m *maker) stopsByTime(j *workload.Job) bool {
	return j.Attempt.Cause == codes.TimedOut || j.Attempt.Cause == codes.Deadline
}

func (m *maker) idle(j *workload.Job) text {
	policy := m.w.IdlePolicy(j)
	stop := m.clock(j.Attempt.Idle.Told + policy.Notice)
	return m.ofJob(j, j.Attempt, "is idle, and is to be stopped", "It has been seen to be idle for "+quantity.FormatDuration(j.Attempt.Idle.Idle)+", and is stopped at "+stop+" unless it works.", "croft keep 6h "+j.Name())
}

func (m *maker) ended(j *workload.Job) text {
	head := "has ended: " + words(j.Outcome)
	if failed(j.Outcome) {
		head = "has failed: " + words(j.Outcome)
		if j.Outcome == codes.Failed {
			head = fmt.Sprintf("has failed: exit code %d", j.ExitCode)
		}
	}
	if j.State == workload.Stopped {
		head = strings.Replace(head, "has ended", "has stopped", 1)
	}
	do := "croft show " + j.Name()
	if failed(j.Outcome) && j.Array == nil {
		do = "croft logs " + j.Name()
	}
	return m.ofJob(j, j.Attempt, head, j.Message, do)
}

// ofJob is a text about a job: what happened, why, the job in brief, and what to do next.
func (m *maker) ofJob(j *workload.Job, a workload.Attempt, head, why, do string) text {
	name := line(strings.TrimSpace(j.Name() + " " + j.Spec.Name))
	what := "Job "
	if j.Spec.Workspace() {
		what = "Workspace "
	}
	account, _ := m.w.Tenancy.Accounts.Get(j.Account)
	facts := [][2]string{
		{"job", name}, {"account", account.Name}, {"node", strings.Join(a.Nodes(), ",")}, {"submitted", m.clock(j.Submitted)}, {"started", m.clock(a.Started)}, {"ended", m.clock(a.Ended)},
	}
	if a.Started != 0 && a.Ended > a.Started {
		facts = append(facts, [2]string{"ran", quantity.FormatDuration((a.Ended - a.Started) / second * second)})
	}
	if j.State == workload.Ended && j.Array == nil && j.Outcome == codes.Failed {
		facts = append(facts, [2]string{"exit code", fmt.Sprint(j.ExitCode)})
	}
	if j.Billing != string(tenancy.BillingOff) && (j.State == workload.Ended || a.Started != 0) {
		cost := j.Charged.String() + " credits"
		if j.Refunded > 0 {
			cost += ", of which " + j.Refunded.String() + " were given back"
		}
		if j.State != workload.Ended {
			cost += " so far"
		}
		facts = append(facts, [2]string{"cost", cost})
	}
	return text{
		subject: "[croft] " + strings.ToLower(what) + name + " " + line(head),
		body:    m.page(what+name+" "+line(head)+".", why, facts, do),
		head:    what + name + " " + line(head), why: why, job: m.eventJob(j, a),
	}
}

func (m *maker) low(e world.Entry) text {
	account, _ := m.w.Tenancy.Accounts.Get(e.Event.Account)
	used, then := e.Event.State+" % of its credits are used up", "Once they are used up, its jobs don't start any more where its billing is enforced."
	if e.Event.State == command.CreditsOver {
		used, then = "its overdraft is used", "What is spent of the overdraft the next credits repay. Once it is used up, what runs is stopped and nothing starts."
	}
	return text{
		subject: "[croft] " + line(account.Name) + ": " + used,
		body: m.page(line(e.Event.Message)+".", then,
			[][2]string{{"account", account.Name}, {"at", m.clock(e.At)}}, "croft statement "+account.Name),
		event: "account.budget", head: e.Event.Message, credits: &eventCredits{Percent: percent(e.Event.State), Account: account.Name},
	}
}

func (m *maker) tested() text {
	head := "This is what croft notice test has asked for"
	return text{subject: "[croft] notices arrive", body: m.page(head+".", "", nil, "croft notice show"), event: "test", head: head}
}

// page puts a text together: what happened, why, what about, and what to do next.
func (m *maker) page(head, why string, facts [][2]string, do string) string {
	var b strings.Builder
	b.WriteString(head + "\n")
	for part := range strings.SplitSeq(why, "\n") {
		if part = line(part); part != "" {
			b.WriteString(part + "\n")
		}
	}
	b.WriteString("\n")
	for _, f := range facts {
		if f[1] != "" {
			fmt.Fprintf(&b, "  %-10s %s\n", f[0], line(f[1]))
		}
	}
	b.WriteString("\nMore: " + line(do) + "\n")
	if m.Server != "" {
		b.WriteString(m.Server + "\n")
	}
	b.WriteString("\n-- \nWhat you are told of: croft notice show; nothing any more: croft notice set " + notice.None + "\n")
	return b.String()
}

// clock is a time of the site's; "" for none.
func (m *maker) clock(ns int64) string {
	if ns == 0 {
		return ""
	}
	return time.Unix(0, ns).In(m.Zone).Format("2006-01-02 15:04 MST")
}

const second = int64(time.Second)

func words(o codes.Outcome) string { return strings.ReplaceAll(string(o), "_", " ") }

// maxLine bounds what of a text of others' making is told, in bytes.
const maxLine = 300

// line is text on one line, and not too long.
func line(s string) string {
	s = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(s, "\uFFFD"), func(r rune) bool {
		return unicode.IsControl(r) || unicode.In(r, unicode.Zl, unicode.Zp, unicode.Bidi_Control)
	}), " ")
	if len(s) > maxLine {
		s = strings.ToValidUTF8(s[:maxLine], "") + "…"
	}
	return strings.TrimSpace(s)
}
