package query_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/query"
	"croft.dev/croft/internal/store/chain"
)

// auditAll are all rows that a query chooses, read in pages.
func (b *bench) auditAll(t *testing.T, q query.AuditQuery) []v1.AuditRow {
	t.Helper()
	var all []v1.AuditRow
	for q.Limit = 7; ; {
		got, err := b.reader(b.db).Audit(t.Context(), root, q)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, got.Items...)
		if q.Cursor = got.Next; q.Cursor == "" {
			return all
		}
	}
}

// audited: the export hangs together, and what a row of the rules was before a change is what
// it was made by the change before.
func (l *life) audited(t *testing.T) {
	t.Helper()
	var v chain.Verifier
	is := map[string]string{}
	for _, r := range l.auditAll(t, query.AuditQuery{}) {
		if err := v.Verifier.Next(r); err != nil {
			t.Fatal(err)
		}
		changes, err := r.Changes()
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range changes {
			if kind, _, _ := strings.Cut(c.Row, ":"); slices.Contains([]string{"job", "step", "node", "device", "booking"}, kind) {
				continue // what these become by themselves is in their own rows
			}
			for _, f := range c.Fields {
				name := c.Row + " " + f.Name
				if was, ok := is[name]; ok && was != string(f.Before) || !ok && string(f.Before) != "null" {
					t.Errorf("row %d: %s was %s, and %q before", r.Seq, name, f.Before, was)
				}
				is[name] = string(f.After)
			}
		}
	}
	if v.Seq() != l.seq.World().Seq || len(is) == 0 {
		t.Errorf("%d rows of %d, %d fields", v.Seq(), l.seq.World().Seq, len(is))
	}
}

func TestAudit(t *testing.T) {
	b := newBench(t)
	weight, off := int64(3), "off"
	b.do(1, command.AccountPut{Name: "nlp", Weight: &weight})
	b.do(1, command.AccountPut{Create: true, Name: "vision", Billing: &off})
	job := b.run(time.Hour)
	if _, err := b.reader(b.db).Audit(t.Context(), access.Principal{User: 2}, query.AuditQuery{}); fault.Of(err) != codes.Denied {
		t.Errorf("ada: %v", err)
	}
	all := b.auditAll(t, query.AuditQuery{})
	if int64(len(all)) != b.seq.World().Seq {
		t.Fatalf("%d rows of %d", len(all), b.seq.World().Seq)
	}
	for what, tc := range map[string]struct {
		q    query.AuditQuery
		want func(v1.AuditRow) bool
	}{
		"a user":         {query.AuditQuery{User: "ada"}, func(r v1.AuditRow) bool { return r.Principal == "ada" }},
		"the server":     {query.AuditQuery{User: "system"}, func(r v1.AuditRow) bool { return r.Principal == "system" }},
		"a job":          {query.AuditQuery{Job: strconv.FormatInt(int64(job), 10)}, func(r v1.AuditRow) bool { return r.Job == int64(job) }},
		"an account":     {query.AuditQuery{Account: "nlp"}, func(r v1.AuditRow) bool { return r.Account == 1 }},
		"a kind":         {query.AuditQuery{Kind: "job.submit"}, func(r v1.AuditRow) bool { return r.Kind == "job.submit" }},
		"kinds":          {query.AuditQuery{Kind: "job."}, func(r v1.AuditRow) bool { return strings.HasPrefix(r.Kind, "job.") }},
		"no kind at all": {query.AuditQuery{Kind: "%"}, func(v1.AuditRow) bool { return false }},
		"a row":          {query.AuditQuery{Row: "account:1"}, func(r v1.AuditRow) bool { return slices.Contains(strings.Fields(r.Touched), "account:1") }},
		"changes":        {query.AuditQuery{Changes: true}, func(r v1.AuditRow) bool { return len(r.Changed) > 0 }},
		"later":          {query.AuditQuery{From: all[9].At.UnixNano()}, func(r v1.AuditRow) bool { return !r.At.Before(all[9].At) }},
		"earlier":        {query.AuditQuery{To: all[9].At.UnixNano()}, func(r v1.AuditRow) bool { return r.At.Before(all[9].At) }},
	} {
		var want []int64
		for _, r := range all {
			if tc.want(r) {
				want = append(want, r.Seq)
			}
		}
		var got []int64
		for _, r := range b.auditAll(t, tc.q) {
			got = append(got, r.Seq)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: rows %d, want %d", what, got, want)
		}
	}
	for what, q := range map[string]query.AuditQuery{"cursor": {Cursor: "x"}, "limit": {Limit: -1}, "account": {Account: "gone"}, "job": {Job: "999"}} {
		if _, err := b.reader(b.db).Audit(t.Context(), root, q); fault.Of(err) != codes.Invalid && fault.Of(err) != codes.NotFound {
			t.Errorf("a bad %s: %v", what, err)
		}
	}
}
