package cli

import (
	"encoding/json"
	"strings"
	"testing"

	v1 "croft.dev/croft/api/v1"
)

// audited are three rows that follow each other.
var audited = linked("",
	v1.AuditRow{Seq: 1, At: *at(15, 10), User: 1, Principal: "root", Kind: "account.set", Command: json.RawMessage(`{"Name":"nlp","Weight":2}`), Touched: "account:3",
		Changed: json.RawMessage(`[{"row":"account:3","fields":[{"name":"weight","before":1,"after":2}]}]`), Account: 3, State: "set", Message: "nlp"},
	v1.AuditRow{Seq: 2, At: *at(15, 11), User: 2, Principal: "ada (ci)", Kind: "job.submit", Command: json.RawMessage(`{}`), Touched: "job:118", Job: 118, State: "queued"},
	v1.AuditRow{Seq: 3, At: *at(15, 12), Principal: "system", Kind: "job.start", Command: json.RawMessage(`{"Job":118}`), Touched: "job:118", Job: 118, State: "starting", Message: "on gpu1"})

// forged is a first row that fits together by itself.
var forged = linked("", v1.AuditRow{Seq: 1, At: *at(15, 10), User: 1, Principal: "root", Kind: "account.set", Command: json.RawMessage(`{}`)})[0]

func linked(prev string, rows ...v1.AuditRow) []v1.AuditRow {
	for i := range rows {
		rows[i].Prev = prev
		rows[i].Hash = rows[i].Sum()
		prev = rows[i].Hash
	}
	return rows
}

func exported(rows []v1.AuditRow) string {
	var b strings.Builder
	for _, r := range rows {
		if err := json.NewEncoder(&b).Encode(r); err != nil {
			panic(err)
		}
	}
	return b.String()
}

// Whatever is in a file, it is either whole or refused, and nothing of it is said to be right
// that doesn't follow.
func FuzzAuditFile(f *testing.F) {
	f.Add(exported(audited), "")
	f.Add(exported(audited[1:]), "1:"+audited[0].Hash)
	f.Add(`{"seq":1}`, "")
	f.Add(`{"seq":-9223372036854775808,"at":"9999-12-31T23:59:59Z"}`, "")
	f.Fuzz(func(t *testing.T, text, after string) {
		a := &app{env: Env{Stdin: strings.NewReader(text)}}
		v, err := a.verifyFile("-", after)
		if err != nil {
			return
		}
		if v.first < 1 || v.Seq() < v.first || len(v.Hash()) != 64 {
			t.Errorf("rows %d to %d of %q are right, it says", v.first, v.Seq(), text)
		}
	})
}
