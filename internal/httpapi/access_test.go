package httpapi

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/approval"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/placement"
	"croft.dev/croft/internal/share"
	"croft.dev/croft/internal/tenancy"
)

// Every operation must say which action it needs, and the action must be one that
// somebody may do and a blocked user may not.
func TestOperationsDeclareTheirAction(t *testing.T) {
	names := map[string]bool{}
	for _, op := range operations() {
		if op.action == "" {
			t.Errorf("%s %s declares no access action", op.method, op.path)
		}
		admin := access.Principal{User: 1, Platform: access.Admin}
		if !access.Authorize(admin, op.action, access.Target{Owner: 1, Role: access.Owner}) {
			t.Errorf("%s: nobody may do %s", op.name, op.action)
		}
		admin.Blocked = true
		if access.Authorize(admin, op.action, access.Target{Owner: 1, Role: access.Owner}) {
			t.Errorf("%s: a blocked user may do %s", op.name, op.action)
		}
		if names[op.name] {
			t.Errorf("two operations are named %s", op.name)
		}
		names[op.name] = true
	}
}

// everybody, in rising order: a stranger (zoe), another account's member (ben), the
// member who owns what is asked about (ada), its account's manager (mia), and the
// roles of the platform.
func everybody() []string { return []string{"zoe", "ben", "ada", "mia", "otto", "olga", "root"} }

// attempt is how an operation is tried, and by whom it must succeed, written down
// by hand from what the roles mean.
type attempt struct {
	ask func(h *harness, n int) (path string, body any)
	may []string
}

func fixed(path string, body any) func(*harness, int) (string, any) {
	return func(*harness, int) (string, any) { return path, body }
}

// ofJob is a path with a new job of ada's in it.
func ofHook(what string, body any) func(*harness, int) (string, any) {
	return func(h *harness, _ int) (string, any) {
		unhook(h)
		to := "https://bot.example.org/x"
		h.as("ada", command.HookPut{User: "ada", Name: "w", Create: true, URL: &to, Sealed: "sealed"})
		return "/v1/users/ada/webhooks/w" + what, body
	}
}

// unhook takes ada's hooks away.
func unhook(h *harness) {
	ada, _ := h.seq.World().Tenancy.User("ada")
	for _, hook := range h.seq.World().Notices.HooksOf(ada.ID) {
		h.as("ada", command.HookRemove{User: "ada", Name: hook.Name})
	}
}

func ofJob(format string, body any, prepare ...func(h *harness, job string)) func(*harness, int) (string, any) {
	return func(h *harness, _ int) (string, any) {
		job := h.submit("ada")
		for _, p := range prepare {
			p(h, job)
		}
		return fmt.Sprintf(format, job), body
	}
}

// ofStep is a path with a new job of ada's in it that runs, beside a step.
func ofStep(format string, body any) func(*harness, int) (string, any) {
	return func(h *harness, _ int) (string, any) {
		return fmt.Sprintf(format, h.runWithStep()), body
	}
}

// ofRequest is a path with the one open request of ada's in it, for credits of nlp's for another.
func ofRequest(format string, body ...any) func(*harness, int) (string, any) {
	return func(h *harness, _ int) (string, any) {
		ada, _ := h.seq.World().Tenancy.User("ada")
		for r := range h.seq.World().Approvals.Opened() {
			if r.User == ada.ID {
				h.as("ada", command.RequestWithdraw{Request: r.ID})
			}
		}
		out := h.as("ada", command.RequestMake{Wish: approval.Wish{Transfer: &approval.Transfer{From: "nlp", To: "vision", Amount: 1}}})
		var in any
		if len(body) > 0 {
			in = body[0]
		}
		return fmt.Sprintf(format, out.Result.(approval.Request).ID), in
	}
}

// ofImage is the path of a new image of ada's.
func ofImage(body any) func(*harness, int) (string, any) {
	return func(h *harness, _ int) (string, any) { return h.image(), body }
}

// reserve makes a reservation of next to nothing for an account below nlp, if there is
// none of the name.
func (h *harness) reserve(name string, from time.Time) {
	h.t.Helper()
	if _, ok := h.seq.World().Tenancy.Account("seminar"); !ok {
		h.system(command.AccountPut{Create: true, Name: "seminar", Parent: "nlp"})
	}
	if _, ok := h.seq.World().Placement.Reservation(name); !ok {
		h.system(command.ReservationPut{Name: name, Accounts: []string{"seminar"}, From: from.UnixNano(), Length: 1e9, CPU: 100, Mem: 4 << 20})
	}
}

// attempts is the oracle.
func attempts() map[string]attempt {
	all, readers := everybody(), []string{"ada", "mia", "otto", "olga", "root"}
	sees, admin, runs := []string{"ada", "mia", "otto", "olga", "root"}, []string{"root"}, []string{"olga", "root"}
	submitters := []string{"ada", "mia"}
	when := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	later := when.AddDate(0, 1, 0) // when no maintenance is
	return map[string]attempt{
		"quote":         {fixed("/v1/quotes", example()), submitters},
		"quoteAccuracy": {fixed("/v1/quotes/accuracy", nil), all},
		"submitJob":     {fixed("/v1/jobs", example()), submitters},
		"listTemplates": {fixed("/v1/templates", nil), all},
		"listJobs":      {fixed("/v1/jobs?user=*", nil), all},
		"getJob":        {ofJob("/v1/jobs/%s", nil), readers},
		"whyJob":        {ofJob("/v1/jobs/%s/why", nil), readers},
		"jobDecisions":  {ofJob("/v1/jobs/%s/decisions", nil), readers},
		"jobUsage":      {ofJob("/v1/jobs/%s/usage", nil), readers},
		"stopJob":       {ofJob("/v1/jobs/%s/stop", v1.StopRequest{}), []string{"ada", "mia", "olga", "root"}},
		// Whoever may start it is refused only because it is no workspace.
		"startJob": {ofJob("/v1/jobs/%s/start", v1.StartRequest{}), []string{"ada", "mia", "olga", "root"}},
		"holdJob":  {ofJob("/v1/jobs/%s/hold", nil), []string{"ada", "mia", "olga", "root"}},
		"releaseJob": {ofJob("/v1/jobs/%s/release", nil, func(h *harness, job string) {
			h.post("ada", "/v1/jobs/"+job+"/hold")
		}), []string{"ada", "mia", "olga", "root"}},
		// Whoever may requeue it is refused only because it hasn't started.
		"keepJob":    {ofJob("/v1/jobs/%s/keep", v1.KeepRequest{For: "1h"}), []string{"ada", "mia", "olga", "root"}},
		"requeueJob": {ofJob("/v1/jobs/%s/requeue", v1.RequeueRequest{}), []string{"ada", "mia", "olga", "root"}},
		// Whoever may extend it is refused only because it hasn't started.
		"extendJob":     {ofJob("/v1/jobs/%s/extend", v1.ExtendRequest{Time: "9h"}), runs},
		"prioritizeJob": {ofJob("/v1/jobs/%s/priority", v1.PriorityRequest{Clear: true}), runs},
		"cloneJob":      {ofJob("/v1/jobs/%s/clone", v1.CloneRequest{}), submitters},
		"jobLogs":       {ofJob("/v1/jobs/%s/logs", nil), readers},
		// Whoever may is refused only because the job has no applications, or isn't shared.
		"listApps":   {fixed("/v1/apps", nil), all},
		"openJob":    {ofJob("/v1/jobs/%s/open", v1.OpenRequest{}), []string{"ada"}},
		"shareJob":   {ofJob("/v1/jobs/%s/share", v1.ShareRequest{User: "ben"}), []string{"ada"}},
		"unshareJob": {ofJob("/v1/jobs/%s/unshare", v1.UnshareRequest{User: "ben"}), []string{"ada", "mia", "olga", "root"}},
		// Whoever may enter is refused only because the job isn't running.
		"execJob":       {ofJob("/v1/jobs/%s/exec?arg=id", nil), []string{"ada"}},
		"attachJob":     {ofJob("/v1/jobs/%s/attach", nil), []string{"ada"}},
		"listTerminals": {ofJob("/v1/jobs/%s/terminals", nil), []string{"ada"}},
		"joinTerminal":  {ofJob("/v1/jobs/%s/terminals/main", nil), []string{"ada"}},
		"endTerminal":   {ofJob("/v1/jobs/%s/terminals/main", nil), []string{"ada"}},
		"openTerminal":  {ofJob("/v1/jobs/%s/terminals/main/open", v1.TerminalOpenRequest{}), []string{"ada"}},
		"addStep":       {ofStep("/v1/jobs/%s/steps", v1.StepSpec{}), []string{"ada"}},
		"listSteps":     {ofJob("/v1/jobs/%s/steps", nil), readers},
		"getStep":       {ofStep("/v1/jobs/%s/steps/2", nil), readers},
		"stopStep":      {ofStep("/v1/jobs/%s/steps/2/stop", v1.StepStop{}), []string{"ada", "mia", "olga", "root"}},

		"listFolders": {fixed("/v1/folders", nil), all},
		"setFolder":   {fixed("/v1/folders", v1.Folder{Account: "nlp", Name: "data", Path: "/srv/nlp"}), runs},
		"removeFolder": {func(h *harness, _ int) (string, any) {
			h.as("root", command.FolderPut{Account: "nlp", Name: "old", Path: "/srv/old"})
			return "/v1/folders/old?account=nlp", nil
		}, runs},

		"listStorage": {fixed("/v1/users/ada/storage", nil), []string{"ada", "otto", "olga", "root"}},
		"limitStorage": {func(h *harness, _ int) (string, any) {
			h.as("root", command.FolderPut{Account: "nlp", Name: "bound", Path: "/srv/bound"})
			return "/v1/storage", v1.StorageLimit{Account: "nlp", Folder: "bound", Limit: "1G"}
		}, runs},

		"saveImage":   {ofJob("/v1/jobs/%s/image", v1.ImageSave{Name: "env:1"}), []string{"ada"}},
		"listImages":  {fixed("/v1/images", nil), all},
		"getImage":    {ofImage(nil), []string{"ada", "otto", "olga", "root"}},
		"shareImage":  {ofImage(v1.ImageShare{}), []string{"ada", "root"}},
		"removeImage": {ofImage(nil), []string{"ada", "root"}},

		"setTemplate": {fixed("/v1/templates", v1.TemplateRequest{Name: "board", Spec: example()}), all},
		"removeTemplate": {func(h *harness, _ int) (string, any) {
			h.as("ada", command.TemplatePut{Name: "board", Spec: v1.JobSpec{Image: "board:1"}})
			return "/v1/templates/ada/board", nil
		}, []string{"ada", "root"}},

		"listEvents":   {fixed("/v1/events", nil), all},
		"streamEvents": {fixed("/v1/events/stream", nil), all},

		"login":        {fixed("/v1/login", v1.LoginRequest{User: "zoe2", Password: secret("zoe2")}), all},
		"logout":       {fixed("/v1/logout", nil), all}, // who is known by a token is told that it is no session
		"setPassword":  {fixed("/v1/users/ada/password", v1.PasswordChange{New: "staple battery"}), []string{"ada", "root"}},
		"listSessions": {fixed("/v1/users/ada/sessions", nil), []string{"ada", "root"}},
		"revokeSession": {func(h *harness, n int) (string, any) {
			return "/v1/users/zoe2/sessions/" + h.login("zoe2", fmt.Sprint("zoe2-", n)).ID, nil
		}, []string{"root"}},
		"revokeSessions": {fixed("/v1/users/ada/sessions", nil), []string{"ada", "root"}},
		"listRegistries": {fixed("/v1/users/ada/registries", nil), []string{"ada", "root"}},
		"loginRegistry":  {fixed("/v1/users/ada/registries/hub.lab", v1.RegistryLogin{Username: "ada-l", Password: "good"}), []string{"ada", "root"}},
		"logoutRegistry": {func(h *harness, _ int) (string, any) {
			h.as("ada", command.RegistryLogin{User: "ada", Registry: "hub.lab", Sealed: "s"})
			return "/v1/users/ada/registries/hub.lab", nil
		}, []string{"ada", "root"}},

		"sshGate":     {fixed("/v1/ssh", nil), all},
		"sshJob":      {ofJob("/v1/jobs/%s/ssh", nil), []string{"ada"}},
		"listSSHKeys": {fixed("/v1/users/ada/ssh-keys", nil), []string{"ada", "root"}},
		"addSSHKey": {func(_ *harness, n int) (string, any) {
			return "/v1/users/ada/ssh-keys", v1.SSHKeyRequest{Key: publicKey(n)}
		}, []string{"ada", "root"}},
		"removeSSHKey": {func(h *harness, _ int) (string, any) {
			h.as("ada", command.SSHKeyAdd{User: "ada", Fingerprint: "SHA256:a/b", Type: "ssh-ed25519", Blob: "AAAA"})
			return "/v1/users/ada/ssh-keys/SHA256:a%2Fb", nil
		}, []string{"ada", "root"}},

		"getContact":  {fixed("/v1/users/ada/contact", nil), []string{"ada", "root"}},
		"setContact":  {fixed("/v1/users/ada/contact", v1.ContactPatch{Address: new("ada@example.org")}), []string{"ada", "root"}},
		"listNotices": {fixed("/v1/notices?user=ada", nil), []string{"ada", "otto", "olga", "root"}},
		"testNotice":  {fixed("/v1/notices/test", nil), all}, // refused only because the site sends no mail

		"listWebhooks": {fixed("/v1/users/ada/webhooks", nil), []string{"ada", "root"}},
		"makeWebhook": {func(h *harness, _ int) (string, any) {
			unhook(h)
			return "/v1/users/ada/webhooks", v1.NewWebhook{Name: "w", URL: "https://bot.example.org/x"}
		}, []string{"ada", "root"}},
		"setWebhook":    {ofHook("", v1.WebhookPatch{On: new(false)}), []string{"ada", "root"}},
		"renewWebhook":  {ofHook("/secret", nil), []string{"ada", "root"}},
		"removeWebhook": {ofHook("", nil), []string{"ada", "root"}},

		"listVolumes": {fixed("/v1/users/ada/volumes", nil), []string{"ada", "root"}},
		"removeVolume": {func(h *harness, _ int) (string, any) {
			uid := int64(5001)
			h.as("root", command.UserPut{Name: "ada", UID: &uid})
			return "/v1/users/ada/volumes/cache", nil
		}, []string{"ada", "root"}},

		"me":            {fixed("/v1/me", nil), all},
		"listAccounts":  {fixed("/v1/accounts", nil), all},
		"createAccount": {func(_ *harness, n int) (string, any) { return "/v1/accounts", v1.Account{Name: fmt.Sprint("new", n)} }, admin},
		"getAccount":    {fixed("/v1/accounts/nlp", nil), sees},
		"setAccount":    {fixed("/v1/accounts/nlp", v1.AccountPatch{}), []string{"mia", "root"}},
		"setMember":     {fixed("/v1/accounts/nlp/members/zoe2", v1.MemberRequest{Role: "viewer"}), []string{"mia", "root"}},
		"removeMember": {func(h *harness, _ int) (string, any) {
			h.as("root", command.MemberPut{Account: "nlp", User: "zoe2", Role: "viewer"})
			return "/v1/accounts/nlp/members/zoe2", nil
		}, []string{"mia", "root"}},
		"importMembers": {fixed("/v1/accounts/nlp/import", v1.ImportRequest{CSV: "name\nzoe2\n"}), []string{"mia", "root"}},
		"moveAccount":   {fixed("/v1/accounts/vision/move", v1.MoveRequest{Under: "nlp"}), admin},
		"removeAccount": {func(h *harness, n int) (string, any) {
			h.system(command.AccountPut{Create: true, Name: fmt.Sprint("empty", n)})
			return fmt.Sprint("/v1/accounts/empty", n), nil
		}, admin},
		"statement":        {fixed("/v1/statements/accounts/nlp?by=device", nil), sees},
		"machineStatement": {fixed("/v1/statements/machine?of=gpu1", nil), []string{"otto", "olga", "root"}},
		"fairShare":        {fixed("/v1/fairshare?of=nlp", nil), sees},
		"listUsers":        {fixed("/v1/users", nil), all},
		"createUser":       {func(_ *harness, n int) (string, any) { return "/v1/users", v1.User{Name: fmt.Sprint("u", n)} }, admin},
		"getUser":          {fixed("/v1/users/ada", nil), []string{"ada", "otto", "olga", "root"}},
		"setUser":          {fixed("/v1/users/zoe2", v1.UserPatch{}), admin},
		"retireUser": {func(h *harness, n int) (string, any) {
			h.system(command.UserPut{Create: true, Name: fmt.Sprint("gone", n)})
			return fmt.Sprintf("/v1/users/gone%d/retire", n), v1.RetireRequest{}
		}, admin},
		"listTokens":  {fixed("/v1/users/ada/tokens", nil), []string{"ada", "root"}},
		"createToken": {fixed("/v1/users/ada/tokens", v1.TokenRequest{Name: "laptop"}), []string{"ada", "root"}},
		"revokeToken": {func(h *harness, _ int) (string, any) {
			row := h.system(command.TokenPut{User: "ada", Name: "x", Hash: "x"}).Result.(tenancy.Token)
			return "/v1/users/ada/tokens/" + strconv.Itoa(int(row.ID)), nil
		}, []string{"ada", "root"}},

		"listGrants":    {fixed("/v1/grants?account=nlp", nil), sees},
		"giveGrant":     {fixed("/v1/grants", v1.Grant{Account: "nlp", Amount: "1", Source: "gift"}), admin},
		"transferGrant": {fixed("/v1/grants/transfer", v1.GrantTransfer{From: "nlp", To: "nlp", Amount: "1"}), []string{"mia", "root"}}, // to itself it can't be
		"listRequests":  {fixed("/v1/requests", nil), all},
		"makeRequest": {func(_ *harness, n int) (string, any) {
			return "/v1/requests", v1.NewRequest{RequestWish: v1.RequestWish{Join: &v1.JoinWish{Account: fmt.Sprint("any", n)}}}
		}, all},
		"getRequest":      {ofRequest("/v1/requests/%d"), []string{"ada", "mia", "otto", "olga", "root"}},
		"approveRequest":  {ofRequest("/v1/requests/%d/approve", v1.RequestApproval{}), []string{"mia", "root"}},
		"rejectRequest":   {ofRequest("/v1/requests/%d/reject", v1.RequestDecision{}), []string{"mia", "root"}},
		"withdrawRequest": {ofRequest("/v1/requests/%d/withdraw"), []string{"ada"}},
		"remindRequest":   {ofRequest("/v1/requests/%d/remind"), []string{"ada"}}, // so soon she is told to wait
		"listAllowances":  {fixed("/v1/allowances?account=nlp", nil), sees},
		"setAllowance":    {fixed("/v1/allowances", v1.Allowance{Account: "nlp", Amount: "1", Per: "month"}), admin},
		"removeAllowance": {func(h *harness, n int) (string, any) {
			name := "x" + strconv.Itoa(n)
			h.as("root", command.AllowancePut{Account: "nlp", Name: name, Amount: 1, Per: limits.Month})
			return "/v1/allowances/nlp/" + name, nil
		}, admin},
		"listPrices": {fixed("/v1/prices", nil), all},
		"setPrice":   {fixed("/v1/prices", v1.PriceVersion{CPU: "0.01", Mem: "0.001", GPU: map[string]string{"a100": "1"}}), admin},
		"listLimits": {fixed("/v1/limits?account=nlp", nil), sees},
		"setLimit":   {fixed("/v1/limits", v1.Limit{Account: "nlp", Resource: "gpu", Max: "100"}), runs},
		"removeLimit": {func(h *harness, _ int) (string, any) {
			row := h.system(command.LimitPut{Account: "vision", Resource: limits.GPU, Max: 9000}).Result.(limits.Limit)
			return "/v1/limits/" + strconv.Itoa(int(row.ID)), nil
		}, runs},
		"listShares": {fixed("/v1/shares?account=nlp", nil), sees},
		"setShare":   {fixed("/v1/shares", v1.Share{Account: "nlp", Partition: "main", Resource: "gpu", Guaranteed: "2"}), runs},
		"removeShare": {func(h *harness, _ int) (string, any) {
			row := h.system(command.SharePut{Account: "vision", Partition: "main", Resource: limits.GPU, Guaranteed: 1000}).Result.(share.Share)
			return "/v1/shares/" + strconv.Itoa(int(row.ID)), nil
		}, runs},
		"listPeriods": {fixed("/v1/periods", nil), []string{"otto", "olga", "root"}},
		"getPeriod":   {fixed("/v1/periods/2026-10", nil), []string{"otto", "olga", "root"}},
		// Nobody can close a day that another closed: each has one of his own, of the past.
		"closePeriod": {func(_ *harness, n int) (string, any) {
			return "/v1/periods/" + time.Date(2020, 1, 1+n, 0, 0, 0, 0, time.UTC).Format(time.DateOnly) + "/close", nil
		}, runs},
		"verifyLedger":  {fixed("/v1/ledger/verify", nil), []string{"otto", "olga", "root"}},
		"listAudit":     {fixed("/v1/audit", nil), []string{"otto", "olga", "root"}},
		"listTransfers": {ofJob("/v1/ledger/transfers?job=%s", nil), readers},

		"status":          {fixed("/v1/status", nil), all},
		"listNodes":       {fixed("/v1/nodes", nil), all},
		"labelNode":       {fixed("/v1/nodes/gpu1/labels", v1.NodeLabels{Set: map[string]string{"nvlink": ""}}), runs},
		"planQueues":      {fixed("/v1/queues/plan", nil), runs},
		"drainNode":       {fixed("/v1/nodes/gpu1/drain", v1.DrainRequest{Reason: "fan"}), runs},
		"resumeNode":      {fixed("/v1/nodes/gpu1/resume", nil), runs},
		"listMaintenance": {fixed("/v1/maintenance", nil), all},
		"planMaintenance": {fixed("/v1/maintenance", v1.Maintenance{Node: "*", From: when, To: when.Add(time.Hour)}), runs},
		"cancelMaintenance": {func(h *harness, _ int) (string, any) {
			row := h.system(command.MaintenancePut{Node: "*", From: when.UnixNano(), To: when.UnixNano() + hour}).Result.(placement.Maintenance)
			return "/v1/maintenance/" + strconv.Itoa(int(row.ID)), nil
		}, runs},
		"listReservations": {fixed("/v1/reservations", nil), all},
		"getReservation": {func(h *harness, n int) (string, any) {
			h.reserve(fmt.Sprint("r", n), later)
			return fmt.Sprint("/v1/reservations/r", n), nil
		}, sees},
		"createReservation": {func(_ *harness, n int) (string, any) {
			return "/v1/reservations", v1.NewReservation{Name: fmt.Sprint("new", n), Accounts: []string{"nlp"}, From: &later, Length: "1s", CPU: "0.1", Mem: "4M"}
		}, runs},
		"cancelReservation": {func(h *harness, n int) (string, any) {
			h.reserve(fmt.Sprint("gone", n), later)
			return fmt.Sprint("/v1/reservations/gone", n), nil
		}, runs},
		"listPartitions": {fixed("/v1/partitions", nil), all},
		"getPartition":   {fixed("/v1/partitions/main", nil), all},
		"createPartition": {func(_ *harness, n int) (string, any) {
			return "/v1/partitions", v1.NewPartition{Name: fmt.Sprint("p", n)}
		}, runs},
		"setPartition": {fixed("/v1/partitions/main", v1.PartitionPatch{}), runs},
		"removePartition": {func(h *harness, n int) (string, any) {
			h.system(command.PartitionPut{Create: true, Name: fmt.Sprint("gone", n)})
			return fmt.Sprint("/v1/partitions/gone", n), nil
		}, runs},
		"listQoS": {fixed("/v1/qos", nil), all},
		"getQoS":  {fixed("/v1/qos/normal", nil), all},
		"createQoS": {func(_ *harness, n int) (string, any) {
			return "/v1/qos", v1.NewQoS{Name: fmt.Sprint("q", n)}
		}, runs},
		"setQoS": {fixed("/v1/qos/normal", v1.QoSPatch{}), runs},
		"removeQoS": {func(h *harness, n int) (string, any) {
			h.system(command.QoSPut{Create: true, Name: fmt.Sprint("gone", n)})
			return fmt.Sprint("/v1/qos/gone", n), nil
		}, runs},
	}
}

// Every operation is tried by everybody, and succeeds for exactly those for whom it
// must. A refusal is 401, 403 or 404, or 422 where a spec names an account that
// isn't the caller's; success may also be a conflict or a missing upgrade.
func TestEveryOperationAsEverybody(t *testing.T) {
	h := newHarness(t)
	h.system(command.UserPut{Create: true, Name: "zoe2"})
	h.password("zoe2")
	oracle := attempts()
	n := 0
	for _, op := range operations() {
		try, ok := oracle[op.name]
		if !ok {
			t.Errorf("%s is in the table and not in the test", op.name)
			continue
		}
		for _, user := range append([]string{""}, everybody()...) {
			n++
			path, body := try.ask(h, n)
			a := h.send(request{method: op.method, path: path, user: user, body: body})
			denied := slices.Contains([]int{401, 403, 404}, a.status) || a.status == 422 && slices.Contains([]string{"quote", "submitJob", "cloneJob"}, op.name)
			if user == "" && (a.status != 401) != op.anybody {
				t.Errorf("%s without a token: status %d, want 401", op.name, a.status)
			}
			if want := slices.Contains(try.may, user); user != "" && want == denied {
				t.Errorf("%s as %s: status %d, may=%v: %s", op.name, user, a.status, want, a.body)
			}
			if a.status == 500 {
				t.Errorf("%s as %s: %s", op.name, user, a.body)
			}
		}
	}
}
