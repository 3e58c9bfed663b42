package httpapi

import (
	"crypto/rand"
	"net/http"
	"slices"
	"strings"
	"testing"

	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/money"
)

// scopes is the oracle of what a narrowed token may do, by operation: the scopes of
// which it needs one; "any" for what every token may, and nothing for what no
// narrowed token may.
func scopes() map[string][]string {
	out := map[string][]string{}
	for scope, ops := range map[string][]string{
		"any": {
			"me", "status", "listFolders", "listNodes", "listMaintenance", "listReservations", "listPartitions", "getPartition", "listQoS", "getQoS", "listPrices", "listTemplates", "login", "logout", "sshGate",
		},
		"": {"setPassword", "listSessions", "revokeSession", "revokeSessions", "listRegistries", "loginRegistry", "logoutRegistry", "listSSHKeys", "addSSHKey", "removeSSHKey", "getContact", "setContact", "testNotice", "listWebhooks", "makeWebhook", "setWebhook", "renewWebhook", "removeWebhook", "listVolumes", "removeVolume", "shareImage", "removeImage", "setTemplate", "removeTemplate", "listTokens", "createToken", "revokeToken"},
		"read": {
			"listJobs", "getJob", "quoteAccuracy", "listApps", "whyJob", "jobDecisions", "jobUsage", "jobLogs", "listSteps", "getStep", "listImages", "getImage", "listEvents", "streamEvents", "listAccounts", "getAccount", "statement", "listUsers", "getUser", "listStorage", "listNotices",
			"listGrants", "listAllowances", "listRequests", "getRequest", "listLimits", "listShares", "verifyLedger", "listAudit", "listPeriods", "getPeriod", "machineStatement", "listTransfers", "fairShare", "getReservation",
		},
		"submit": {"listRequests", "makeRequest", "quote", "quoteAccuracy", "submitJob", "listJobs", "listApps", "listImages", "listEvents", "streamEvents"},
		"manage": {
			"listJobs", "quoteAccuracy", "getJob", "whyJob", "jobDecisions", "jobUsage", "jobLogs", "listSteps", "getStep", "listImages", "getImage", "stopStep", "listEvents", "streamEvents", "listAccounts", "getAccount", "statement",
			"listGrants", "listAllowances", "listLimits", "listShares", "listTransfers", "fairShare", "stopJob", "startJob", "holdJob", "releaseJob", "requeueJob", "keepJob", "extendJob", "prioritizeJob", "unshareJob",
			"transferGrant", "listRequests", "getRequest", "makeRequest", "approveRequest", "rejectRequest",
			"setAccount", "setMember", "removeMember", "importMembers", "setLimit", "removeLimit", "setShare", "removeShare", "planQueues", "drainNode", "resumeNode", "labelNode",
			"setFolder", "removeFolder", "limitStorage",
			"planMaintenance", "cancelMaintenance", "getReservation", "createReservation", "cancelReservation", "createPartition", "setPartition", "removePartition", "createQoS", "setQoS", "removeQoS",
		},
		"admin": {
			"listAccounts", "getAccount", "statement", "listUsers", "getUser", "listStorage", "listNotices", "listGrants", "listAllowances", "listLimits", "listShares", "fairShare", "getReservation",
			"transferGrant", "listRequests", "getRequest", "approveRequest", "rejectRequest",
			"createAccount", "giveGrant", "setAllowance", "removeAllowance", "closePeriod", "setPrice", "createUser", "setUser", "retireUser", "moveAccount", "removeAccount",
		},
	} {
		for _, op := range ops {
			out[op] = append(out[op], scope)
		}
	}
	return out
}

// combined are the operations that need several scopes: each of these in one of its
// ways.
func combined() map[string][][]string {
	return map[string][][]string{
		"cloneJob":      {{"read", "manage"}, {"submit"}}, // of another's job
		"execJob":       {{}},                             // of another's job: never
		"attachJob":     {{}},                             // likewise
		"listTerminals": {{}},                             // likewise
		"joinTerminal":  {{}},                             // likewise
		"endTerminal":   {{}},                             // likewise
		"openTerminal":  {{}},                             // likewise
		"addStep":       {{}},                             // likewise
		"saveImage":     {{}},                             // likewise
		"sshJob":        {{}},                             // likewise
		"openJob":       {{}},                             // likewise
		"shareJob":      {{}},                             // likewise

		"withdrawRequest": {{}}, // another's: never
		"remindRequest":   {{}}, // likewise
	}
}

// narrow makes a token of a user and lets requests of the name as be sent with it.
func (h *harness) narrow(user, as string, scopes access.Scope, account string) {
	h.t.Helper()
	secret, err := newToken(rand.Reader)
	if err != nil {
		h.t.Fatal(err)
	}
	h.system(command.TokenPut{User: user, Name: as, Hash: hashToken(secret), Scopes: scopes, Account: account})
	h.tokens[as] = secret
}

func (h *harness) refused(op operation, path string, body any, user string) bool {
	h.t.Helper()
	a := h.send(request{method: op.method, path: path, user: user, body: body})
	if a.status == 500 || a.status == 401 {
		h.t.Errorf("%s as %s: %d %s", op.name, user, a.status, a.body)
	}
	return slices.Contains([]int{403, 404}, a.status) || a.status == 422 && slices.Contains([]string{"quote", "submitJob", "cloneJob"}, op.name)
}

// Every operation × every set of scopes, of somebody who may everything: an admin
// who owns the account. It goes through for exactly those scopes that the table
// names; a new operation has to be put there.
func TestEveryOperationByScope(t *testing.T) {
	h := newHarness(t)
	h.system(command.UserPut{Create: true, Name: "zoe2"})
	h.password("zoe2")
	h.as("root", command.MemberPut{Account: "nlp", User: "root", Role: "owner"})
	h.as("root", command.GrantGive{Account: "nlp", Amount: 10_000 * money.Credit, Source: "a job for each attempt"})
	for set := range access.Scope(1 << len(access.ScopeNames())) {
		if set != 0 {
			h.narrow("root", set.String(), set, "")
		}
	}
	one, both, oracle, n := scopes(), combined(), attempts(), 1000
	for _, op := range operations() {
		need, listed := one[op.name]
		all, several := both[op.name]
		if listed == several {
			t.Errorf("%s has to be in one of the tables of scopes", op.name)
			continue
		}
		for set := access.Scope(1); set < 1<<len(access.ScopeNames()); set++ {
			n++
			path, body := oracle[op.name].ask(h, n)
			may := slices.Contains(need, "any") || slices.ContainsFunc(need, func(s string) bool { return slices.Contains(set.Names(), s) })
			if several {
				may = !slices.ContainsFunc(all, func(any []string) bool {
					return !slices.ContainsFunc(any, func(s string) bool { return slices.Contains(set.Names(), s) })
				})
			}
			if got := !h.refused(op, path, body, set.String()); got != may {
				t.Errorf("%s with the scopes %s: goes through %v, the table says %v", op.name, set, got, may)
			}
		}
	}
}

// A token for one account does nothing to and shows nothing of another, whoever made
// it.
func TestEveryOperationByAccount(t *testing.T) {
	h := newHarness(t)
	h.system(command.UserPut{Create: true, Name: "zoe2"})
	h.password("zoe2")
	h.as("root", command.AccountPut{Create: true, Name: "other"})
	h.as("root", command.MemberPut{Account: "nlp", User: "root", Role: "owner"})
	h.narrow("root", "elsewhere", 0, "other")
	open, n := scopes(), 2000
	for _, op := range operations() {
		n++
		path, body := attempts()[op.name].ask(h, n)
		refused := h.refused(op, path, body, "elsewhere")
		lists := slices.Contains([]string{"listJobs", "quoteAccuracy", "listApps", "listImages", "listAccounts", "listUsers", "listEvents", "streamEvents", "listGrants", "listRequests"}, op.name)
		if op.name == "listGrants" || op.name == "listAllowances" || op.name == "listLimits" || op.name == "listShares" {
			continue // of nlp by name: hidden; in general: below
		}
		if want := !slices.Contains(open[op.name], "any") && !lists; refused != want {
			t.Errorf("%s: refused %v, want %v", op.name, refused, want)
		}
	}
	for _, path := range []string{"/v1/jobs?user=*&state=all", "/v1/quotes/accuracy", "/v1/apps", "/v1/accounts", "/v1/users", "/v1/events", "/v1/grants", "/v1/allowances", "/v1/requests?whose=all&state=all"} {
		for _, word := range []string{"nlp", "vision", "DFG-123", "ada"} {
			if a := h.send(request{method: http.MethodGet, path: path, user: "elsewhere"}); strings.Contains(string(a.body), `"`+word+`"`) {
				t.Errorf("%s shows %s: %s", path, word, a.body)
			}
		}
	}
}
