package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/internal/command"
)

// What must not work, and how it is answered.
func TestAttacks(t *testing.T) {
	h := newHarness(t)
	job := h.submit("ada")
	h.start(job)
	h.tokens["old"] = h.token("ada", h.now.Load()+hour)
	h.tokens["forged"] = tokenPrefix + strings.Repeat("A", 48)
	h.tokens["blocked"] = h.token("zoe", 0)
	yes := true
	h.as("root", command.UserPut{Name: "zoe", Blocked: &yes})
	h.pass(2 * 3600e9)
	spec := func(change func(*v1.JobSpec)) v1.JobSpec {
		s := example()
		change(&s)
		return s
	}
	tests := map[string]struct {
		request
		status int
		code   string
		field  string
	}{
		"another's job":                 {request: request{path: "/v1/jobs/" + job, user: "ben"}, status: 404, code: "not_found"},
		"another's job, why":            {request: request{path: "/v1/jobs/" + job + "/why", user: "ben"}, status: 404, code: "not_found"},
		"another's log":                 {request: request{path: "/v1/jobs/" + job + "/logs", user: "ben"}, status: 404, code: "not_found"},
		"another's job, wait":           {request: request{path: "/v1/jobs/" + job + "?wait=ended", user: "ben"}, status: 404, code: "not_found"},
		"another's job, stop":           {request: request{method: "POST", path: "/v1/jobs/" + job + "/stop", user: "ben", body: "{}"}, status: 404, code: "not_found"},
		"another's job, clone":          {request: request{method: "POST", path: "/v1/jobs/" + job + "/clone", user: "ben", body: "{}"}, status: 404, code: "not_found"},
		"another's job, exec":           {request: request{path: "/v1/jobs/" + job + "/exec?arg=id", user: "ben"}, status: 404, code: "not_found"},
		"a manager isn't let in":        {request: request{path: "/v1/jobs/" + job + "/exec?arg=id", user: "mia"}, status: 403, code: "denied"},
		"not even root is let in":       {request: request{path: "/v1/jobs/" + job + "/exec?arg=id", user: "root"}, status: 403, code: "denied"},
		"another's events":              {request: request{path: "/v1/events?job=" + job, user: "ben"}, status: 404, code: "not_found"},
		"another's postings":            {request: request{path: "/v1/ledger/transfers?job=" + job, user: "ben"}, status: 404, code: "not_found"},
		"another's grant's postings":    {request: request{path: "/v1/ledger/transfers?ledger=grant:1", user: "ben"}, status: 403, code: "denied"},
		"the whole ledger":              {request: request{path: "/v1/ledger/transfers", user: "ada"}, status: 403, code: "denied"},
		"a job that never was":          {request: request{path: "/v1/jobs/999", user: "root"}, status: 404, code: "not_found"},
		"a job with an odd name":        {request: request{path: "/v1/jobs/..%2f..%2fetc", user: "root"}, status: 404, code: "not_found"},
		"a refusal that never was":      {request: request{path: "/v1/jobs/R-9", user: "root"}, status: 404, code: "not_found"},
		"token of a blocked user":       {request: request{path: "/v1/me", user: "blocked"}, status: 403, code: "denied"},
		"token that has ended":          {request: request{path: "/v1/me", user: "old"}, status: 401, code: "unauthenticated"},
		"token that was made up":        {request: request{path: "/v1/me", user: "forged"}, status: 401, code: "unauthenticated"},
		"no token":                      {request: request{path: "/v1/me"}, status: 401, code: "unauthenticated"},
		"basic authentication":          {request: request{path: "/v1/me", header: map[string]string{"Authorization": "Basic cm9vdDpyb290"}}, status: 401, code: "unauthenticated"},
		"rebinding":                     {request: request{path: "/v1/me", user: "root", header: map[string]string{"Host": "evil.example"}}, status: 403, code: "denied"},
		"10 MB":                         {request: request{method: "POST", path: "/v1/jobs", user: "ada", body: `{"image":"` + strings.Repeat("a", 10<<20) + `"}`}, status: 413, code: "too_large"},
		"unknown field":                 {request: request{method: "POST", path: "/v1/jobs", user: "ada", body: `{"image":"a:1","gpus":2}`}, status: 422, code: "invalid", field: "gpus"},
		"no body":                       {request: request{method: "POST", path: "/v1/jobs", user: "ada"}, status: 422, code: "invalid", field: "body"},
		"two bodies":                    {request: request{method: "POST", path: "/v1/jobs", user: "ada", body: `{"image":"a:1"}{}`}, status: 422, code: "invalid", field: "body"},
		"not UTF-8":                     {request: request{method: "POST", path: "/v1/jobs", user: "ada", body: "{\"image\":\"a\xff\"}"}, status: 422, code: "invalid", field: "body"},
		"deep nesting":                  {request: request{method: "POST", path: "/v1/jobs", user: "ada", body: strings.Repeat("[", 100_000)}, status: 422, code: "invalid", field: "body"},
		"wrong type":                    {request: request{method: "POST", path: "/v1/jobs", user: "ada", body: `{"image":["s3cret"]}`}, status: 422, code: "invalid", field: "image"},
		"newline in name":               {request: request{method: "POST", path: "/v1/jobs", user: "ada", body: spec(func(s *v1.JobSpec) { s.Name = "a\nb" })}, status: 422, code: "invalid", field: "name"},
		"negative amount":               {request: request{method: "POST", path: "/v1/jobs", user: "ada", body: spec(func(s *v1.JobSpec) { s.GPU = "-1" })}, status: 422, code: "invalid", field: "gpu"},
		"amount as a huge number":       {request: request{method: "POST", path: "/v1/jobs", user: "ada", body: `{"image":"a:1","gpu":1e999}`}, status: 422, code: "invalid", field: "gpu"},
		"another's account":             {request: request{method: "POST", path: "/v1/jobs", user: "ben", body: example()}, status: 422, code: "invalid", field: "account"},
		"a cursor made up":              {request: request{path: "/v1/jobs?cursor=AAAA", user: "ada"}, status: 422, code: "invalid", field: "cursor"},
		"a page that is too long":       {request: request{path: "/v1/jobs?limit=100000", user: "ada"}, status: 422, code: "invalid", field: "limit"},
		"a key with a newline's escape": {request: request{method: "POST", path: "/v1/jobs", user: "ada", body: example(), header: map[string]string{"Idempotency-Key": strings.Repeat("k", 201)}}, status: 422, code: "invalid", field: "Idempotency-Key"},
		"a path that isn't":             {request: request{path: "/v2/jobs", user: "root"}, status: 404, code: "not_found"},
		"a method that isn't":           {request: request{method: "DELETE", path: "/v1/jobs", user: "root"}, status: 404, code: "not_found"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if tt.method == "" {
				tt.method = "GET"
			}
			a := h.send(tt.request)
			var p v1.Problem
			if err := json.Unmarshal(a.body, &p); err != nil {
				t.Fatalf("status %d, no problem: %s", a.status, a.body)
			}
			if a.status != tt.status || p.Code != tt.code || p.Status != tt.status {
				t.Errorf("status %d, code %q, want %d, %q: %s", a.status, p.Code, tt.status, tt.code, a.body)
			}
			if got := a.header.Get("Content-Type"); got != "application/problem+json" {
				t.Errorf("content type %q", got)
			}
			if tt.field != "" && (len(p.Fields) == 0 || p.Fields[0].Path != tt.field) {
				t.Errorf("fields %v, want %s", p.Fields, tt.field)
			}
			if bytes.Contains(a.body, []byte("s3cret")) {
				t.Errorf("the answer has what was sent: %s", a.body)
			}
		})
	}
}

// A flood of wrong tokens is slowed down, and the right one still gets through.
func TestWrongTokensAreSlowed(t *testing.T) {
	h := newHarness(t)
	h.tokens["forged"] = tokenPrefix + strings.Repeat("A", 48)
	last := 0
	for range failuresPerSecond + 1 {
		last = h.send(request{method: "GET", path: "/v1/me", user: "forged"}).status
	}
	if last != http.StatusTooManyRequests {
		t.Errorf("after many wrong tokens: status %d, want 429", last)
	}
	get[v1.Me](h, 200, request{method: "GET", path: "/v1/me", user: "ada"})
	h.pass(1e9)
	if got := h.send(request{method: "GET", path: "/v1/me", user: "forged"}).status; got != 401 {
		t.Errorf("a second later: status %d, want 401", got)
	}
}

// The same key and body are one submission; the same key with another body is a
// conflict, also when the other body is for another job.
func TestIdempotency(t *testing.T) {
	h := newHarness(t)
	key := map[string]string{"Idempotency-Key": "k1"}
	first := get[v1.Job](h, 201, request{method: "POST", path: "/v1/jobs", user: "ada", body: example(), header: key})
	again := get[v1.Job](h, 201, request{method: "POST", path: "/v1/jobs", user: "ada", body: example(), header: key})
	if first.ID != again.ID {
		t.Errorf("the repeated submission is job %s, the first was %s", again.ID, first.ID)
	}
	other := example()
	other.GPU = "2"
	get[v1.Problem](h, 409, request{method: "POST", path: "/v1/jobs", user: "ada", body: other, header: key})
	if mia := get[v1.Job](h, 201, request{method: "POST", path: "/v1/jobs", user: "mia", body: example(), header: key}); mia.ID == first.ID {
		t.Error("another's key gave another's job")
	}
	second := h.submit("ada")
	stop := map[string]string{"Idempotency-Key": "stop"}
	get[v1.Job](h, 200, request{method: "POST", path: "/v1/jobs/" + first.ID + "/stop", user: "ada", body: "{}", header: stop})
	get[v1.Problem](h, 409, request{method: "POST", path: "/v1/jobs/" + second + "/stop", user: "ada", body: "{}", header: stop})

	never := example()
	never.GPU = "8"
	refusal := map[string]string{"Idempotency-Key": "k2"}
	r1 := get[v1.Problem](h, 422, request{method: "POST", path: "/v1/jobs", user: "ada", body: never, header: refusal})
	r2 := get[v1.Problem](h, 422, request{method: "POST", path: "/v1/jobs", user: "ada", body: never, header: refusal})
	if r1.ID == "" || fmt.Sprint(r1) != fmt.Sprint(r2) && (r1.ID != r2.ID || r1.Detail != r2.Detail) {
		t.Errorf("the repeated refusal is %v, the first was %v", r2, r1)
	}
	grant := map[string]string{"Idempotency-Key": "g"}
	body := v1.Grant{Account: "nlp", Amount: "5", Source: "gift"}
	g1 := get[v1.Grant](h, 201, request{method: "POST", path: "/v1/grants", user: "root", body: body, header: grant})
	g2 := get[v1.Grant](h, 201, request{method: "POST", path: "/v1/grants", user: "root", body: body, header: grant})
	if g1.ID != g2.ID {
		t.Errorf("the repeated grant is %s, the first was %s", g2.ID, g1.ID)
	}
}
