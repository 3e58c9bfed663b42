package notify

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"croft.dev/croft/internal/approval"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/notice"
	"croft.dev/croft/internal/world"
)

// asked tells those who may decide a request that it was made, or that it still waits.
func (m *maker) asked(e world.Entry) {
	r, ok := m.request(e)
	if !ok || !r.Pending(e.At) {
		return
	}
	for _, who := range m.w.Deciders(r, e.At) {
		m.ofRequest(e, r, who, m.toDecide(r))
	}
}

// answered tells whoever asked what has become of his request. Of a job that a token has asked
// for he knows: he has answered himself.
func (m *maker) answered(e world.Entry) {
	if r, ok := m.request(e); ok && r.State != approval.Open && (r.Kind != approval.KindJob || r.State == approval.Expired) {
		m.ofRequest(e, r, r.User, m.answer(r))
	}
}

func (m *maker) ofRequest(e world.Entry, r approval.Request, who id.User, t text) {
	t.event = "request." + string(r.State)
	t.request = &eventRequest{ID: strconv.FormatInt(int64(r.ID), 10), Asks: m.w.Asks(r), Said: r.Said, Expires: rfc(r.Expires)}
	m.tell(e, notice.Notice{Name: fmt.Sprintf("request.%d.%d", r.ID, e.Seq), Kind: notice.Request, Account: r.Account}, who, t)
}

// request is the request that a row of the log is about.
func (m *maker) request(e world.Entry) (approval.Request, bool) {
	words := strings.Fields(e.Touched)
	i := slices.IndexFunc(words, func(w string) bool { return strings.HasPrefix(w, "request:") })
	if i < 0 {
		return approval.Request{}, false
	}
	n, err := strconv.ParseInt(strings.TrimPrefix(words[i], "request:"), 10, 64)
	if err != nil {
		return approval.Request{}, false
	}
	return m.w.Approvals.Requests.Get(id.Request(n))
}

func (m *maker) toDecide(r approval.Request) text {
	asks := line(m.w.Asks(r))
	if r.Token.ID != 0 {
		asks += " (token " + r.Token.String() + ")"
	}
	return text{
		subject: fmt.Sprintf("[croft] request %d: %s", r.ID, asks), head: asks, why: r.Message,
		body: m.page(asks+".", r.Message, [][2]string{{"request", strconv.FormatInt(int64(r.ID), 10)}, {"asked", m.clock(r.Created)}, {"until", m.clock(r.Expires)}},
			fmt.Sprintf("croft request show %d; then croft request approve %d, or reject", r.ID, r.ID)),
	}
}

func (m *maker) answer(r approval.Request) text {
	head := fmt.Sprintf("request %d %s: it was %s", r.ID, answers()[r.State], line(r.Words()))
	return text{
		subject: "[croft] " + head, head: "Your " + head, why: r.Said,
		body: m.page("Your "+head+".", r.Said, [][2]string{{"request", strconv.FormatInt(int64(r.ID), 10)}, {"asked", m.clock(r.Created)}},
			fmt.Sprintf("croft request show %d", r.ID)),
	}
}

func answers() map[approval.Stage]string {
	return map[approval.Stage]string{
		approval.Approved: "is approved, and done", approval.Rejected: "is rejected", approval.Withdrawn: "is withdrawn",
		approval.Expired: "has expired: nobody decided it in time",
	}
}
