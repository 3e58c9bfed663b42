package notify

import (
	"cmp"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/notice"
	"croft.dev/croft/internal/tenancy"
	"croft.dev/croft/internal/workload"
)

// event is what is posted to a hook: api/v1 has it for who reads it.
type event struct {
	Type      string    `json:"type"`
	Timestamp string    `json:"timestamp"` // RFC 3339
	Data      eventData `json:"data"`
}

type eventData struct {
	Message string        `json:"message"` // one line for people
	Reason  string        `json:"reason,omitempty"`
	User    string        `json:"user"` // whose hook it is
	Account string        `json:"account,omitempty"`
	Job     *eventJob     `json:"job,omitempty"`
	Request *eventRequest `json:"request,omitempty"`
	Credits *eventCredits `json:"credits,omitempty"`
	Server  string        `json:"server,omitempty"` // public URL
}

// eventJob is a job as it was, with what croft show says of it to those who see it.
type eventJob struct {
	ID        string        `json:"id"`
	Name      string        `json:"name,omitempty"`
	Kind      string        `json:"kind"`
	User      string        `json:"user"`
	Account   string        `json:"account"`
	State     string        `json:"state"`
	Outcome   codes.Outcome `json:"outcome,omitempty"`
	ExitCode  *int32        `json:"exit_code,omitempty"`
	Attempt   int32         `json:"attempt,omitempty"`
	Nodes     []string      `json:"nodes,omitempty"`
	Submitted string        `json:"submitted"`
	Started   string        `json:"started,omitempty"`
	Ended     string        `json:"ended,omitempty"`
	Charged   string        `json:"charged,omitempty"` // credits so far
	Refunded  string        `json:"refunded,omitempty"`
}

type eventRequest struct {
	ID      string `json:"id"`
	Asks    string `json:"asks"`
	Said    string `json:"said,omitempty"` // by who decided
	Expires string `json:"expires"`
}

type eventCredits struct {
	Percent int64  `json:"percent"` // of the credits that is used up or set aside
	Account string `json:"account"`
}

// event is the text of a notice as a hook is given it.
func (m *maker) event(n notice.Notice, t text) string {
	user, _ := m.w.Tenancy.Users.Get(n.User)
	account, _ := m.w.Tenancy.Accounts.Get(n.Account)
	kind := t.event
	if n.Job != 0 {
		kind = "job." + n.Kind
	}
	out, err := json.Marshal(event{
		Type: kind, Timestamp: rfc(n.At),
		Data: eventData{
			Message: line(t.head), Reason: line(strings.ReplaceAll(t.why, "\n", " ")), User: user.Name, Account: account.Name,
			Job: t.job, Request: t.request, Credits: t.credits, Server: m.Server,
		},
	})
	if err != nil {
		return "{}" // of text and numbers it always can be made
	}
	return string(out)
}

func (m *maker) eventJob(j *workload.Job, a workload.Attempt) *eventJob {
	user, _ := m.w.Tenancy.Users.Get(j.User)
	account, _ := m.w.Tenancy.Accounts.Get(j.Account)
	out := &eventJob{
		ID: j.Name(), Name: line(j.Spec.Name), Kind: string(cmp.Or(j.Spec.Kind, workload.KindContainer)), User: user.Name, Account: account.Name,
		State: string(j.State), Outcome: j.Outcome, Attempt: a.N, Nodes: a.Nodes(), Submitted: rfc(j.Submitted), Started: rfc(a.Started), Ended: rfc(a.Ended),
	}
	if j.State == workload.Ended && j.Array == nil && (j.Outcome == codes.Failed || j.Outcome == codes.Completed) {
		out.ExitCode = &j.ExitCode
	}
	if j.Billing != string(tenancy.BillingOff) && (j.State == workload.Ended || a.Started != 0) {
		out.Charged = j.Charged.String()
		if j.Refunded > 0 {
			out.Refunded = j.Refunded.String()
		}
	}
	return out
}

// rfc is a time as programs read it; "" for none.
func rfc(ns int64) string {
	if ns == 0 {
		return ""
	}
	return time.Unix(0, ns).UTC().Format(time.RFC3339Nano)
}

func percent(state string) int64 {
	if state == command.CreditsOver {
		return 100
	}
	n, _ := strconv.ParseInt(state, 10, 64) // as CreditWarn has written it
	return n
}
