package httpapi

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/internal/approval"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/money"
)

// secretWord is in every name of what is hidden.
const secretWord = "canary"

// hide furnishes the machine with a lab that the others have nothing to do with:
// its account, its user with a running and a waiting job and a refused request, a
// grant, a limit, a token and a session. All names have the word. It returns the
// running job.
func hide(h *harness) string {
	h.t.Helper()
	enforce := "enforce"
	h.as("root", command.UserPut{Create: true, Name: "canary-user"})
	h.as("root", command.AccountPut{Create: true, Name: "canary-lab", Billing: &enforce})
	h.as("root", command.AccountPut{Create: true, Name: "canary-course", Parent: "canary-lab"})
	h.as("root", command.MemberPut{Account: "canary-lab", User: "canary-user", Role: "member"})
	h.as("root", command.GrantGive{Account: "canary-lab", Amount: 900 * money.Credit, Source: "canary-grant"})
	h.as("root", command.AllowancePut{Account: "canary-lab", Name: "canary-rule", Amount: money.Credit, Per: limits.Month, From: h.now.Load() + 86400e9})
	h.as("root", command.LimitPut{Account: "canary-lab", Resource: limits.GPU, Max: 4000})
	h.as("root", command.SharePut{Account: "canary-lab", Partition: "main", Resource: limits.GPU, Guaranteed: 1000})
	h.as("root", command.SharePut{Account: "nlp", Partition: "main", Resource: limits.GPU, Guaranteed: 2000})
	h.as("root", command.LimitPut{User: "canary-user", Resource: limits.CPU, Max: 60_000})
	h.as("root", command.PartitionPut{Name: "main", Deny: &[]string{"canary-course"}})
	h.as("root", command.ReservationPut{Name: "canary-class", Accounts: []string{"canary-lab"}, GPU: 2000, From: h.now.Load() + 200*hour, Length: hour, Reason: "canary"})
	h.as("canary-user", command.RequestMake{Wish: approval.Wish{Credits: &approval.Credits{Account: "canary-lab", Amount: money.Credit}}, Message: "canary"})
	h.password("canary-user")
	h.as("canary-user", command.SessionOpen{User: "canary-user", Name: "canary-desk", Hash: "s", Verified: kept(h, "canary-user"), Expires: h.now.Load() + 99*hour, Idle: hour})
	h.tokens["canary-user"] = h.token("canary-user", 0)
	spec := example()
	spec.Name, spec.Account, spec.GPU, spec.Env = "canary-job", "canary-lab", "4", map[string]string{"CANARY": "canary"}
	job := get[v1.Job](h, 201, request{method: "POST", path: "/v1/jobs", user: "canary-user", body: spec}).ID
	h.start(job)
	get[v1.Job](h, 201, request{method: "POST", path: "/v1/jobs", user: "canary-user", body: spec})
	spec.GPU = "8"
	get[v1.Problem](h, 422, request{method: "POST", path: "/v1/jobs", user: "canary-user", body: spec})
	return job
}

func kept(h *harness, user string) string {
	u, _ := h.seq.World().Tenancy.User(user)
	row, _ := h.seq.World().Tenancy.Passwords.Get(u.ID)
	return row.Hash
}

// outsiders have nothing to do with the hidden lab.
func outsiders() []string { return []string{"zoe", "ben", "ada", "mia"} }

// Whatever an outsider asks for, nothing of the hidden lab is in the answer: not in
// lists, counts by name, reasons for waiting, who has the devices, or errors.
func TestNothingLeaks(t *testing.T) {
	h := newHarness(t)
	running := hide(h)
	waiting := h.submit("ada") // for what the hidden job has
	oracle := attempts()
	for _, user := range outsiders() {
		for _, op := range operations() {
			paths := []string{}
			if try, ok := oracle[op.name]; ok && op.method == http.MethodGet && op.stream == "" && op.answer != nil {
				path, _ := try.ask(h, 0)
				paths = append(paths, path)
			}
			switch op.name {
			case "listJobs":
				paths = append(paths, "/v1/jobs?user=*&state=all", "/v1/jobs?user=*&state=refused", "/v1/jobs?user=*&node=gpu1", "/v1/jobs?state=all&user=*&partition=main&id="+running)
			case "whyJob", "getJob":
				paths = append(paths, strings.ReplaceAll(op.path, "{id}", waiting))
			case "listLimits", "listShares", "listGrants", "listAllowances", "fairShare":
				paths = append(paths, op.path)
			case "listEvents":
				paths = append(paths, "/v1/events?limit=1000")
			case "listAudit":
				paths = append(paths, "/v1/audit?limit=1000")
			}
			for _, path := range paths {
				a := h.send(request{method: "GET", path: path, user: user})
				if bytes.Contains(bytes.ToLower(a.body), []byte(secretWord)) {
					t.Errorf("GET %s as %s: %s", path, user, a.body)
				}
				if a.status == 500 {
					t.Errorf("GET %s as %s: %s", path, user, a.body)
				}
			}
		}
		for name, spec := range map[string]func(*v1.JobSpec){
			"devices that are busy": func(s *v1.JobSpec) { s.GPU = "4" },
			"too many":              func(s *v1.JobSpec) { s.GPU = "9" },
			"no account":            func(s *v1.JobSpec) { s.Account = "" },
			"another's account":     func(s *v1.JobSpec) { s.Account = "nlp" },
		} {
			s := example()
			spec(&s)
			if a := h.send(request{method: "POST", path: "/v1/quotes", user: user, body: s}); bytes.Contains(bytes.ToLower(a.body), []byte(secretWord)) {
				t.Errorf("a quote for %s as %s: %s", name, user, a.body)
			}
		}
	}
	if a := h.send(request{method: "GET", path: "/v1/jobs?user=*", user: "otto"}); !bytes.Contains(a.body, []byte(secretWord)) {
		t.Errorf("an auditor doesn't see it either, so the test shows nothing: %s", a.body)
	}
}

// probe asks for something by its name or number.
type probe struct {
	method, path string
	body         func(name string) any
}

// probes ask in every way that takes the name of an account (A), a user (U), a job
// (J), a refused request (R), a grant's ledger account (G) or a reservation (V).
func probes() map[string]probe {
	spec := func(change func(s *v1.JobSpec, name string)) func(string) any {
		return func(name string) any { s := example(); change(&s, name); return s }
	}
	account := spec(func(s *v1.JobSpec, name string) { s.Account = name })
	fixedBody := func(v any) func(string) any { return func(string) any { return v } }
	after := func(name string) any { return v1.AccountPatch{} }
	dependent := spec(func(s *v1.JobSpec, name string) { s.Account, s.After = "", "afterany:"+name })
	return map[string]probe{
		"submit after J": {"POST", "/v1/jobs", dependent}, "quote after J": {"POST", "/v1/quotes", dependent},
		"quote A": {"POST", "/v1/quotes", account}, "submit A": {"POST", "/v1/jobs", account},
		"jobs of A": {"GET", "/v1/jobs?user=*&account=NAME", nil}, "ended jobs of A": {"GET", "/v1/jobs?user=*&state=ended&account=NAME", nil},
		"jobs of U": {"GET", "/v1/jobs?user=NAME", nil}, "jobs of U and me": {"GET", "/v1/jobs?state=all&user=NAME,ada", nil},
		"refusals of U": {"GET", "/v1/jobs?state=refused&user=NAME", nil},
		"job J":         {"GET", "/v1/jobs/NAME", nil}, "waiting for J": {"GET", "/v1/jobs/NAME?wait=ended&timeout=1ms", nil},
		"listed J": {"GET", "/v1/jobs?state=all&id=NAME", nil}, "why J": {"GET", "/v1/jobs/NAME/why", nil}, "decisions of J": {"GET", "/v1/jobs/NAME/decisions", nil}, "decisions of R": {"GET", "/v1/jobs/NAME/decisions", nil}, "usage J": {"GET", "/v1/jobs/NAME/usage", nil}, "keep J": {"POST", "/v1/jobs/NAME/keep", fixedBody(v1.KeepRequest{For: "1h"})},
		"hold J": {"POST", "/v1/jobs/NAME/hold", nil}, "release J": {"POST", "/v1/jobs/NAME/release", nil},
		"open J": {"POST", "/v1/jobs/NAME/open", fixedBody(v1.OpenRequest{})}, "share J": {"POST", "/v1/jobs/NAME/share", fixedBody(v1.ShareRequest{User: "zoe"})},
		"unshare J": {"POST", "/v1/jobs/NAME/unshare", fixedBody(v1.UnshareRequest{User: "zoe"})},
		"requeue J": {"POST", "/v1/jobs/NAME/requeue", fixedBody(v1.RequeueRequest{})},
		"after J":   {"POST", "/v1/jobs", spec(func(s *v1.JobSpec, name string) { s.After = "afterany:" + name })},
		"start J":   {"POST", "/v1/jobs/NAME/start", fixedBody(v1.StartRequest{})},
		"stop J":    {"POST", "/v1/jobs/NAME/stop", fixedBody(v1.StopRequest{})}, "clone J": {"POST", "/v1/jobs/NAME/clone", fixedBody(v1.CloneRequest{})},
		"log of J": {"GET", "/v1/jobs/NAME/logs", nil}, "into J": {"GET", "/v1/jobs/NAME/exec?arg=id", nil},
		"steps of J": {"GET", "/v1/jobs/NAME/steps", nil}, "step of J": {"GET", "/v1/jobs/NAME/steps/2", nil},
		"waiting for a step of J": {"GET", "/v1/jobs/NAME/steps/2?wait=ended&timeout=1ms", nil}, "log of a step of J": {"GET", "/v1/jobs/NAME/logs?step=2", nil},
		"attach to J": {"GET", "/v1/jobs/NAME/attach", nil}, "attach to a step of J": {"GET", "/v1/jobs/NAME/attach?step=2", nil},
		"into J by SSH": {"GET", "/v1/jobs/NAME/ssh", nil}, "into a step of J by SSH": {"GET", "/v1/jobs/NAME.2/ssh", nil},
		"into a step of J": {"GET", "/v1/jobs/NAME/exec?arg=id&step=2", nil},
		"terminals of J":   {"GET", "/v1/jobs/NAME/terminals", nil}, "terminal of J": {"GET", "/v1/jobs/NAME/terminals/main", nil},
		"terminal of a step of J": {"GET", "/v1/jobs/NAME/terminals/main?step=2", nil}, "end a terminal of J": {"DELETE", "/v1/jobs/NAME/terminals/main", nil},
		"page of a terminal of J": {"POST", "/v1/jobs/NAME/terminals/main/open", fixedBody(v1.TerminalOpenRequest{})},
		"add to J":                {"POST", "/v1/jobs/NAME/steps", fixedBody(v1.StepSpec{})}, "stop a step of J": {"POST", "/v1/jobs/NAME/steps/2/stop", fixedBody(v1.StepStop{})},
		"extend J":     {"POST", "/v1/jobs/NAME/extend", fixedBody(v1.ExtendRequest{Time: "9h"})},
		"prioritize J": {"POST", "/v1/jobs/NAME/priority", fixedBody(v1.PriorityRequest{Clear: true})},
		"share of A":   {"GET", "/v1/fairshare?of=NAME", nil}, "share of U": {"GET", "/v1/fairshare?of=NAME", nil},
		"events of J": {"GET", "/v1/events?job=NAME", nil}, "stream of J": {"GET", "/v1/events/stream?job=NAME", nil},
		"postings of J": {"GET", "/v1/ledger/transfers?job=NAME", nil},
		"refusal R":     {"GET", "/v1/jobs/NAME", nil}, "why R": {"GET", "/v1/jobs/NAME/why", nil}, "clone R": {"POST", "/v1/jobs/NAME/clone", fixedBody(v1.CloneRequest{})},
		"log of R":  {"GET", "/v1/jobs/NAME/logs", nil},
		"account A": {"GET", "/v1/accounts/NAME", nil}, "statement A": {"GET", "/v1/statements/accounts/NAME?by=job", nil},
		"set A": {"PATCH", "/v1/accounts/NAME", after}, "below A": {"POST", "/v1/accounts", func(name string) any { return v1.Account{Name: "below", Parent: name} }},
		"member of A": {"PUT", "/v1/accounts/NAME/members/zoe", fixedBody(v1.MemberRequest{Role: "member"})}, "out of A": {"DELETE", "/v1/accounts/NAME/members/zoe", nil},
		"import into A": {"POST", "/v1/accounts/NAME/import", fixedBody(v1.ImportRequest{CSV: "name\nzoe\n"})},
		"move A":        {"POST", "/v1/accounts/NAME/move", fixedBody(v1.MoveRequest{})}, "remove A": {"DELETE", "/v1/accounts/NAME", nil},
		"grants of A": {"GET", "/v1/grants?account=NAME", nil}, "limits of A": {"GET", "/v1/limits?account=NAME", nil}, "limits of U": {"GET", "/v1/limits?user=NAME", nil},
		"token for A":       {"POST", "/v1/users/USER/tokens", func(name string) any { return v1.TokenRequest{Name: "x", Account: name} }},
		"give A":            {"POST", "/v1/grants", func(name string) any { return v1.Grant{Account: name, Amount: "1", Source: "x"} }},
		"limit A":           {"POST", "/v1/limits", func(name string) any { return v1.Limit{Account: name, Resource: "gpu", Max: "1"} }},
		"allowances of A":   {"GET", "/v1/allowances?account=NAME", nil},
		"allowance for A":   {"POST", "/v1/allowances", func(name string) any { return v1.Allowance{Account: name, Amount: "1", Per: "month"} }},
		"no allowance of A": {"DELETE", "/v1/allowances/NAME/month", nil},
		"shares of A":       {"GET", "/v1/shares?account=NAME", nil},
		"share for A": {"POST", "/v1/shares", func(name string) any {
			return v1.Share{Account: name, Partition: "main", Resource: "gpu", Guaranteed: "1"}
		}},
		"request Q": {"GET", "/v1/requests/NAME", nil}, "approve Q": {"POST", "/v1/requests/NAME/approve", fixedBody(v1.RequestApproval{})},
		"reject Q": {"POST", "/v1/requests/NAME/reject", fixedBody(v1.RequestDecision{})}, "withdraw Q": {"POST", "/v1/requests/NAME/withdraw", nil}, "remind of Q": {"POST", "/v1/requests/NAME/remind", nil},
		"requests about A": {"GET", "/v1/requests?account=NAME", nil},
		"ask for credits of A": {"POST", "/v1/requests", func(name string) any {
			return v1.NewRequest{RequestWish: v1.RequestWish{Credits: &v1.CreditsWish{Account: name, Amount: "1"}}}
		}},
		"ask for a time limit of J": {"POST", "/v1/requests", func(name string) any {
			return v1.NewRequest{RequestWish: v1.RequestWish{Wall: &v1.WallWish{Job: name, Time: "9h"}}}
		}},
		"ask for a window of A": {"POST", "/v1/requests", func(name string) any {
			return v1.NewRequest{RequestWish: v1.RequestWish{Reservation: &v1.NewReservation{Name: "x", Accounts: []string{name}, Length: "1h"}}}
		}},
		"ask for a window that A pays": {"POST", "/v1/requests", func(name string) any {
			return v1.NewRequest{RequestWish: v1.RequestWish{Reservation: &v1.NewReservation{Name: "x", Accounts: []string{"nlp"}, Payer: name, Length: "1h"}}}
		}},
		"ask for a window for U": {"POST", "/v1/requests", func(name string) any {
			return v1.NewRequest{RequestWish: v1.RequestWish{Reservation: &v1.NewReservation{Name: "x", Users: []string{name}, Payer: "nlp", Length: "1h"}}}
		}},
		"ask for an asset for A": {"POST", "/v1/requests", func(name string) any {
			return v1.NewRequest{RequestWish: v1.RequestWish{Asset: &v1.AssetWish{Account: name, Image: "croft.local/x/y:z"}}}
		}},
		"ask for a limit of A": {"POST", "/v1/requests", func(name string) any {
			return v1.NewRequest{RequestWish: v1.RequestWish{Limit: &v1.Limit{Account: name, Resource: "gpu", Max: "1"}}}
		}},
		"ask for money from A": {"POST", "/v1/requests", func(name string) any {
			return v1.NewRequest{RequestWish: v1.RequestWish{Transfer: &v1.TransferWish{From: name, To: "absent-too", Amount: "1"}}}
		}},
		"give of A": {"POST", "/v1/grants/transfer", func(name string) any { return v1.GrantTransfer{From: name, To: "nlp", Amount: "1"} }},
		"give to A": {"POST", "/v1/grants/transfer", func(name string) any { return v1.GrantTransfer{From: "nlp", To: name, Amount: "1"} }},
		"user U":    {"GET", "/v1/users/NAME", nil}, "set U": {"PATCH", "/v1/users/NAME", fixedBody(v1.UserPatch{})},
		"retire U":    {"POST", "/v1/users/NAME/retire", fixedBody(v1.RetireRequest{})},
		"tokens of U": {"GET", "/v1/users/NAME/tokens", nil}, "token for U": {"POST", "/v1/users/NAME/tokens", fixedBody(v1.TokenRequest{Name: "x"})},
		"revoke of U":   {"DELETE", "/v1/users/NAME/tokens/8", nil},
		"sessions of U": {"GET", "/v1/users/NAME/sessions", nil}, "session of U": {"DELETE", "/v1/users/NAME/sessions/9", nil}, "all sessions of U": {"DELETE", "/v1/users/NAME/sessions", nil},
		"password of U":   {"PUT", "/v1/users/NAME/password", fixedBody(v1.PasswordChange{New: "staple battery"})},
		"registries of U": {"GET", "/v1/users/NAME/registries", nil}, "registry of U": {"DELETE", "/v1/users/NAME/registries/hub.lab", nil},
		"SSH keys of U": {"GET", "/v1/users/NAME/ssh-keys", nil}, "SSH key of U": {"DELETE", "/v1/users/NAME/ssh-keys/SHA256:x", nil},
		"SSH key for U": {"POST", "/v1/users/NAME/ssh-keys", fixedBody(v1.SSHKeyRequest{Key: publicKey(7)})},
		"contact of U":  {"GET", "/v1/users/NAME/contact", nil}, "address of U": {"PATCH", "/v1/users/NAME/contact", fixedBody(v1.ContactPatch{Address: new("x@example.org")})},
		"webhooks of U": {"GET", "/v1/users/NAME/webhooks", nil}, "webhook for U": {"POST", "/v1/users/NAME/webhooks", fixedBody(v1.NewWebhook{Name: "x", URL: "https://bot.example.org/x"})},
		"webhook of U": {"PATCH", "/v1/users/NAME/webhooks/x", fixedBody(v1.WebhookPatch{})}, "no webhook of U": {"DELETE", "/v1/users/NAME/webhooks/x", nil}, "secret of U": {"POST", "/v1/users/NAME/webhooks/x/secret", nil},
		"webhook of A": {"POST", "/v1/users/zoe/webhooks", func(name string) any {
			return v1.NewWebhook{Name: "x", URL: "https://bot.example.org/x", Account: name}
		}},
		"notices of U": {"GET", "/v1/notices?user=NAME", nil}, "notices of J": {"GET", "/v1/notices?job=NAME", nil},
		"volumes of U": {"GET", "/v1/users/NAME/volumes", nil}, "volume of U": {"DELETE", "/v1/users/NAME/volumes/cache", nil},
		"folder of A":    {"POST", "/v1/folders", func(name string) any { return v1.Folder{Account: name, Name: "x", Path: "/srv/x"} }},
		"no folder of A": {"DELETE", "/v1/folders/x?account=NAME", nil},
		"image of U":     {"GET", "/v1/images/NAME/env:1", nil}, "remove an image of U": {"DELETE", "/v1/images/NAME/env:1", nil},
		"storage of U":           {"GET", "/v1/users/NAME/storage", nil},
		"limit storage of U":     {"POST", "/v1/storage", func(name string) any { return v1.StorageLimit{User: name, Limit: "1G"} }},
		"limit storage of A":     {"POST", "/v1/storage", func(name string) any { return v1.StorageLimit{Account: name, Limit: "1G"} }},
		"remove a template of U": {"DELETE", "/v1/templates/NAME/board", nil},
		"share a template with A": {"POST", "/v1/templates", func(name string) any {
			return v1.TemplateRequest{Name: "board", Account: &name, Spec: v1.JobSpec{Image: "board:1"}}
		}},
		"share an image of U": {"PATCH", "/v1/images/NAME/env:1", fixedBody(v1.ImageShare{})}, "save J": {"POST", "/v1/jobs/NAME/image", fixedBody(v1.ImageSave{Name: "env:1"})},
		"login of U to a registry": {"PUT", "/v1/users/NAME/registries/hub.lab", fixedBody(v1.RegistryLogin{Username: "x", Password: "good"})},
		"reservation V":            {"GET", "/v1/reservations/NAME", nil}, "cancel V": {"DELETE", "/v1/reservations/NAME", nil},
		"submit in V":   {"POST", "/v1/jobs", spec(func(s *v1.JobSpec, name string) { s.Account, s.Reservation = "", name })},
		"postings of G": {"GET", "/v1/ledger/transfers?ledger=NAME", nil},
	}
}

// What is hidden is answered word for word as what isn't there, to everybody whom it
// is hidden from, in every way to ask.
func TestHiddenIsAbsent(t *testing.T) {
	h := newHarness(t)
	running := hide(h)
	names := map[string][2]string{ // the hidden one, and one that isn't
		"A": {"canary-lab", "absent-lab"}, "U": {"canary-user", "absent-user"}, "J": {running, "999"}, "R": {"R-1", "R-999"}, "G": {"grant:2", "grant:999"}, "V": {"canary-class", "absent-class"}, "Q": {"1", "999"},
	}
	asked := map[string]bool{}
	for what, p := range probes() {
		words := strings.Fields(what)
		kind := words[slices.IndexFunc(words, func(w string) bool { return names[w][0] != "" })]
		for _, user := range outsiders() {
			var got [2]string
			for i, name := range names[kind] {
				var body any
				if p.body != nil {
					body = p.body(name)
				}
				path := strings.ReplaceAll(strings.ReplaceAll(p.path, "NAME", name), "USER", user)
				a := h.send(request{method: p.method, path: path, user: user, body: body})
				text := strings.ReplaceAll(string(a.body), name, "NAME")
				got[i] = fmt.Sprint(a.status, " ", strings.ReplaceAll(text, strings.TrimPrefix(name, "R-"), "NAME"))
				if h.seq.World().Tenancy.Users.Len() > 9 || a.status == 500 {
					t.Fatalf("%s as %s: %d %s", what, user, a.status, a.body)
				}
			}
			if got[0] != got[1] {
				t.Errorf("%s as %s:\nhidden %s\nabsent %s", what, user, got[0], got[1])
			}
		}
		for _, op := range operations() {
			if op.method == p.method && matchesPath(op.path, strings.Split(p.path, "?")[0]) {
				asked[op.name] = true
			}
		}
	}
	for _, op := range operations() {
		if strings.Contains(op.path, "{") && !asked[op.name] && !slices.Contains(public(), op.name) {
			t.Errorf("nobody asks whether %s tells what is hidden from what isn't there", op.name)
		}
	}
}

// public are the operations on things by name that everybody may know of.
func public() []string {
	return []string{
		"drainNode", "resumeNode", "labelNode", "cancelMaintenance", "removeLimit", "removeShare", "getPeriod", "closePeriod",
		"getPartition", "setPartition", "removePartition", "getQoS", "setQoS", "removeQoS",
	}
}

// matchesPath reports whether a probe's path is one of an operation's.
func matchesPath(pattern, path string) bool {
	a, b := strings.Split(pattern, "/"), strings.Split(path, "/")
	return slices.EqualFunc(a, b, func(want, got string) bool { return want == got || strings.HasPrefix(want, "{") })
}

// Members' own things are theirs to see again, and a manager's account is his:
// hiding isn't all that is done.
func TestWhatIsSeen(t *testing.T) {
	h := newHarness(t)
	hide(h)
	h.as("root", command.MemberPut{Account: "canary-lab", User: "zoe", Role: "manager"})
	list := get[v1.Page[v1.Job]](h, 200, request{method: "GET", path: "/v1/jobs?user=*&state=all", user: "zoe"}).Items
	if len(list) != 2 || list[0].Name != "canary-job" || list[0].User != "canary-user" {
		t.Errorf("a manager sees %+v", list)
	}
	if a := h.send(request{method: "GET", path: "/v1/nodes", user: "zoe"}); !bytes.Contains(a.body, []byte("canary-user")) {
		t.Errorf("a manager isn't told who has the devices: %s", a.body)
	}
	h.as("root", command.MemberPut{Account: "canary-lab", User: "zoe", Role: "member"})
	list = get[v1.Page[v1.Job]](h, 200, request{method: "GET", path: "/v1/jobs?user=*&state=all", user: "zoe"}).Items
	if len(list) != 0 {
		t.Errorf("a member sees others' jobs: %+v", list)
	}
	if a := get[v1.Account](h, 200, request{method: "GET", path: "/v1/accounts/canary-course", user: "zoe"}); a.Parent != "canary-lab" {
		t.Errorf("%+v", a)
	}
}
