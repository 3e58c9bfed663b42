package query

import (
	"context"
	"strconv"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/store"
	"croft.dev/croft/internal/store/chain"
)

// AuditQuery selects rows of the log; what is zero doesn't narrow it.
type AuditQuery struct {
	Cursor   string // after this seq
	From, To int64  // ns: those at [From, To)
	User     string
	Account  string
	Job      string
	Kind     string
	Row      string
	Changes  bool
	Limit    int
}

// Audit lists rows of the log as they were written, the oldest first. Errors: Denied to all but
// operators and auditors; Invalid; NotFound for an account or a job that isn't there.
func (r *Reader) Audit(ctx context.Context, p access.Principal, q AuditQuery) (v1.Page[v1.AuditRow], error) {
	out := v1.Page[v1.AuditRow]{Items: []v1.AuditRow{}}
	v := r.view(p)
	if !v.may(access.EventsAll, 0, 0) {
		return out, fault.New(codes.Denied, "the audit log is for operators and auditors: croft events shows what concerns you")
	}
	size, err := pageSize(q.Limit)
	if err != nil {
		return out, err
	}
	f, err := r.auditFilter(ctx, v, q)
	if err != nil {
		return out, err
	}
	rows, err := r.History.Log(ctx, f, size+1)
	if err != nil {
		return out, readErr(err, "", "")
	}
	if len(rows) > size {
		rows = rows[:size]
		out.Next = strconv.FormatInt(rows[size-1].Seq, 10)
	}
	for _, e := range rows {
		row, err := chain.Row(e)
		if err != nil {
			return out, err
		}
		out.Items = append(out.Items, row)
	}
	return out, nil
}

func (r *Reader) auditFilter(ctx context.Context, v view, q AuditQuery) (store.LogFilter, error) {
	f := store.LogFilter{By: q.User, From: q.From, To: q.To, Kind: q.Kind, Row: q.Row, Changes: q.Changes}
	if q.Cursor != "" {
		n, err := strconv.ParseInt(q.Cursor, 10, 64)
		if err != nil || n < 0 {
			return f, fault.Invalid("cursor", "must be the number of a row")
		}
		f.After = n
	}
	if q.Account != "" {
		a, ok := v.w.Tenancy.Account(q.Account)
		if !ok {
			return f, fault.New(codes.NotFound, "no account %q", q.Account)
		}
		f.Account = a.ID
	}
	if q.Job != "" {
		j, err := r.find(ctx, v, q.Job)
		if err != nil {
			return f, err
		}
		f.Job = j.ID
	}
	return f, nil
}
