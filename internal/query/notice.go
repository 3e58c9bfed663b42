package query

import (
	"context"
	"slices"
	"strings"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/notice"
	"croft.dev/croft/internal/store"
)

// Contact says where a user is told things, and which.
func (r *Reader) Contact(p access.Principal, name string) (v1.Contact, error) {
	v := r.view(p)
	u, ok := v.w.Tenancy.User(name)
	if !ok || !v.may(access.TokenRun, u.ID, 0) {
		return v1.Contact{}, fault.NotFound("user", clip(name))
	}
	c := v.w.Notices.Of(u.ID)
	return v1.Contact{Address: c.Address, Mail: string(c.Told()), On: v.w.Site.Mail.On}, nil
}

// Webhooks lists a user's, without their secrets.
func (r *Reader) Webhooks(p access.Principal, name string) ([]v1.Webhook, error) {
	v := r.view(p)
	u, ok := v.w.Tenancy.User(name)
	if !ok || !v.may(access.TokenRun, u.ID, 0) {
		return nil, fault.NotFound("user", clip(name))
	}
	out := []v1.Webhook{}
	for _, h := range v.w.Notices.HooksOf(u.ID) {
		out = append(out, v.webhookWire(h))
	}
	return out, nil
}

// Webhook is one as the API shows it to its user.
func (r *Reader) Webhook(p access.Principal, h notice.Hook) v1.Webhook {
	return r.view(p).webhookWire(h)
}

func (v view) webhookWire(h notice.Hook) v1.Webhook {
	out := v1.Webhook{
		Name: h.Name, User: v.user(h.User), URL: h.URL, Words: string(h.Told()), Account: v.account(h.Account), On: h.Off == "", Off: h.Off, Changed: at(h.Changed),
	}
	if h.FormerAt(v.w.Now) != "" {
		out.FormerUntil = moment(h.Until)
	}
	return out
}

// NoticeQuery selects notices.
type NoticeQuery struct {
	User   string // a name, or * for everybody; "": the caller's
	State  string // states with commas between them
	Job    string
	Limit  int // items per page; 0: the default
	Cursor string
}

// Notices lists what users are told, the newest first.
func (r *Reader) Notices(ctx context.Context, p access.Principal, q NoticeQuery) (v1.Page[v1.Notice], error) {
	out := v1.Page[v1.Notice]{Items: []v1.Notice{}}
	v := r.view(p)
	size, err := pageSize(q.Limit)
	if err != nil {
		return out, err
	}
	filter := filterHash("notices", decimal(p.User), q.User, q.State, q.Job)
	from, err := parseCursor(q.Cursor, filter)
	if err != nil {
		return out, err
	}
	f := store.NoticeFilter{User: v.self(), Before: store.Place{Seq: from.ID, Name: from.Key}}
	switch q.User {
	case "":
	case "*":
		if f.User = 0; !v.may(access.EventsAll, 0, 0) {
			return out, fault.Invalid("user", "only operators, auditors and admins see everybody's: name a user, or leave it out for your own")
		}
	default:
		u, ok := v.w.Tenancy.User(q.User)
		if !ok || !v.may(access.UserSee, u.ID, 0) {
			return out, fault.NotFound("user", clip(q.User))
		}
		f.User = u.ID
	}
	if q.User != "*" && !v.may(access.UserSee, f.User, 0) {
		return out, nil // by a token that is for an account
	}
	if f.States, err = noticeStates(q.State); err != nil {
		return out, err
	}
	if q.Job != "" {
		j, err := r.find(ctx, v, q.Job)
		if err != nil {
			return out, err
		}
		f.Job = j.ID
	}
	rows, err := r.History.Notices(ctx, f, size+1)
	if err != nil {
		return out, readErr(err, "", "")
	}
	if len(rows) > size {
		rows = rows[:size]
		out.Next = cursor{Filter: filter, ID: rows[size-1].Seq, Key: rows[size-1].Name}.encode()
	}
	for _, n := range rows {
		out.Items = append(out.Items, v.noticeWire(n))
	}
	return out, nil
}

func noticeStates(in string) ([]notice.State, error) {
	if in == "" {
		return nil, nil
	}
	var out []notice.State
	for word := range strings.SplitSeq(in, ",") {
		s := notice.State(strings.ReplaceAll(strings.TrimSpace(word), "_", " "))
		if !slices.Contains([]notice.State{notice.Waiting, notice.Delivered, notice.GivenUp}, s) {
			return nil, fault.Invalid("state", "%q must be waiting, delivered or given_up", clip(word))
		}
		out = append(out, s)
	}
	return out, nil
}

func (v view) noticeWire(n notice.Notice) v1.Notice {
	out := v1.Notice{
		ID: n.Name, At: at(n.At), Kind: n.Kind, User: v.user(n.User), Account: v.account(n.Account), Address: n.Address, Webhook: n.Hook, Subject: n.Subject,
		State: string(n.State), Tries: n.Tries, Done: moment(n.Done), Message: n.Why,
	}
	if n.Job != 0 {
		out.Job = decimal(n.Job)
	}
	if n.State == notice.Waiting {
		out.Next = moment(n.Due)
	}
	return out
}
