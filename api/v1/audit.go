package v1

import (
	"context"
	"iter"
	"net/url"
	"strconv"
	"time"

	"croft.dev/croft/api/v1/audit"
)

// Rows of the audit log, and what checks them: see package audit.
type (
	AuditRow      = audit.Row
	AuditBreak    = audit.Break
	AuditVerifier = audit.Verifier
)

// AuditAfter is a verifier of what follows a row whose number and hash are known.
func AuditAfter(seq int64, hash string) AuditVerifier { return audit.After(seq, hash) }

// AuditQuery selects rows of the log, the oldest first; what is empty doesn't narrow it.
type AuditQuery struct {
	After   int64 // seq
	From    time.Time
	To      time.Time // before it
	User    string    // name
	Account string    // name
	Job     string
	Kind    string // "account.set", or what it begins with: "account."
	Row     string // one that was put, "account:3"
	Changes bool   // only rows that say what was changed
	Limit   int    // rows in a page; 0: the server's default
}

func (q AuditQuery) values() url.Values {
	v := url.Values{}
	set := func(name, value string) {
		if value != "" {
			v.Set(name, value)
		}
	}
	stamp := func(name string, t time.Time) {
		if !t.IsZero() {
			v.Set(name, t.Format(time.RFC3339Nano))
		}
	}
	if q.After != 0 {
		v.Set("cursor", strconv.FormatInt(q.After, 10))
	}
	if q.Limit != 0 {
		v.Set("limit", strconv.Itoa(q.Limit))
	}
	if q.Changes {
		v.Set("changes", "true")
	}
	stamp("from", q.From)
	stamp("to", q.To)
	set("user", q.User)
	set("account", q.Account)
	set("job", q.Job)
	set("kind", q.Kind)
	set("row", q.Row)
	return v
}

// Audit lists rows of the log, the oldest first, page by page. Operators and auditors may.
func (c *Client) Audit(ctx context.Context, q AuditQuery) iter.Seq2[AuditRow, error] {
	return pages[AuditRow](ctx, c, "/v1/audit", q.values())
}
