package httpapi

import (
	"net/http"
	"slices"

	"croft.dev/croft/internal/access"
)

const (
	ok      = http.StatusOK
	created = http.StatusCreated
)

// operations is everything that the API does. The action is what access must allow
// at all; whether it allows it on the thing in question is decided where that is
// found: in a command or in query.
func operations() []operation {
	return slices.Concat(jobOperations(), appOperations(), stepOperations(), terminalOperations(), loginOperations(), registryOperations(), sshKeyOperations(), noticeOperations(), webhookOperations(), sshOperations(), volumeOperations(), imageOperations(), templateOperations(), folderOperations(), storageOperations(), queueOperations(), peopleOperations(), moneyOperations(), allowanceOperations(), requestOperations(), machineOperations(), reservationOperations(), catalogOperations())
}

func jobOperations() []operation {
	return []operation{
		tell("quote", "POST /v1/quotes", "What a job would cost and when it would start", access.JobSubmit, ok, (*call).quote),
		ask("quoteAccuracy", "GET /v1/quotes/accuracy", "What was said of jobs as they were submitted, against what became of those that you may read", access.JobSee, (*call).quoteAccuracy, periodParam()),
		tell("submitJob", "POST /v1/jobs", "Submit a job", access.JobSubmit, created, (*call).submit),
		pages("listJobs", "GET /v1/jobs", "Jobs that you may read, the newest first", access.JobSee, (*call).jobs,
			param{"id", "only these, separated by commas, as are all the following"}, param{"account", "only these accounts'"},
			param{"user", "names, or * for everybody's that you may read; by default your own"},
			param{"state", "states; live (default) is all that haven't ended; or all"},
			param{"name", "only jobs with one of these names"}, param{"partition", "only in these partitions"}, param{"qos", "only of these QoS"},
			param{"node", "only those whose last attempt was on one of these nodes"},
			param{"from", "only those that hadn't ended by then, RFC 3339"}, param{"to", "only those submitted before then, RFC 3339"},
			param{"elements", "true: elements of arrays that have started, too"},
			param{"view", "brief: only what a list shows; of the spec cpu, mem and gpu, no receipt, devices or limit, and eligible only of held ones"}),
		ask("getJob", "GET /v1/jobs/{id}", "A job, or a refused request (R-7)", access.JobSee, (*call).job,
			param{"wait", "running, ready (all its apps answer) or ended: answer when the job has come so far, or comes no further by itself"}, param{"timeout", "answer then in any case, e.g. 60s (default)"}),
		ask("whyJob", "GET /v1/jobs/{id}/why", "Why a job is where it is, by the decision that starts jobs", access.JobSee, (*call).why),
		ask("jobDecisions", "GET /v1/jobs/{id}/decisions", "What was decided of a job, the oldest first, and why it waited", access.JobSee, (*call).decisions,
			param{"at", "only what held at this time, RFC 3339"}),
		ask("jobUsage", "GET /v1/jobs/{id}/usage", "What a job uses of the machine, now and in the last hour", access.JobSee, (*call).usage),
		tell("stopJob", "POST /v1/jobs/{id}/stop", "Stop a job; a workspace stays, and can be started again", access.JobControl, ok, (*call).stop),
		tell("startJob", "POST /v1/jobs/{id}/start", "Start a stopped workspace, at today's price", access.JobControl, ok, (*call).start),
		ask("holdJob", "POST /v1/jobs/{id}/hold", "Keep a waiting job from starting", access.JobControl, (*call).hold),
		ask("releaseJob", "POST /v1/jobs/{id}/release", "Take a hold off a job", access.JobControl, (*call).release),
		tell("requeueJob", "POST /v1/jobs/{id}/requeue", "Stop a running job and queue it again", access.JobControl, ok, (*call).requeue),
		tell("keepJob", "POST /v1/jobs/{id}/keep", "Declare a running job to be at work, so that it isn't stopped for being idle", access.JobControl, ok, (*call).keep),
		tell("extendJob", "POST /v1/jobs/{id}/extend", "Give a running job a longer time limit, and set aside what that costs", access.JobRaise, ok, (*call).extend),
		tell("prioritizeJob", "POST /v1/jobs/{id}/priority", "Fix a job's priority", access.JobRaise, ok, (*call).prioritize),
		tell("cloneJob", "POST /v1/jobs/{id}/clone", "Submit a job or a refused request again, with changes", access.JobSubmit, created, (*call).clone),
		stream("jobLogs", "GET /v1/jobs/{id}/logs", "A job's output, as frames", access.JobSee, logType, (*call).logs,
			param{"follow", "true: go on until the job has ended"}, param{"tail", "only so many last lines"},
			param{"since", "only from this time on, RFC 3339"}, param{"attempt", "only of this attempt"}, param{"step", "a further step's, by its number"}, rankParam()),
		stream("execJob", "GET /v1/jobs/{id}/exec", "Run a command in a running job (WebSocket)", access.JobEnter, "", (*call).exec,
			param{"step", "in a further step, by its number"}, rankParam(), param{"arg", "a word of the command; repeat it"}, param{"tty", "true: with a terminal"}, param{"cols", "its width"}, param{"rows", "its height"}),
		stream("attachJob", "GET /v1/jobs/{id}/attach", "Join the streams of what a job runs (WebSocket, as exec)", access.JobEnter, "", (*call).attach,
			param{"step", "of a further step, by its number"}, param{"stdin", "true: and give it its input"}, param{"cols", "of the terminal"}, param{"rows", "of the terminal"}),
		ask("listEvents", "GET /v1/events", "What happened, the oldest first", access.JobSee, (*call).events,
			param{"after", "only with a greater seq"}, param{"job", "only of this job"}, limitParam()),
		stream("streamEvents", "GET /v1/events/stream", "What happens, as it happens (WebSocket, an Event in each message)", access.JobSee, "", (*call).eventStream,
			param{"after", "begin after this seq; by default with what comes now"}, param{"job", "only of this job"}),
		pages("listAudit", "GET /v1/audit", "The log as it was written, the oldest row first: who did what, what it changed, and the hash of each row", access.EventsAll, (*call).audit,
			param{"from", "only those at or after it, RFC 3339"}, param{"to", "only those before it, RFC 3339"}, param{"user", "only what this user did, by whichever token"},
			param{"account", "only what concerns this account"}, param{"job", "only of this job"}, param{"kind", "only this command, account.set for example, or with a dot at its end what begins so"},
			param{"row", "only what put this row, account:3 for example"}, param{"changes", "true: only rows that say what was changed"}),
	}
}

func loginOperations() []operation {
	return []operation{
		tell("login", "POST /v1/login", "Open a session by a password; its secret is in this answer only", access.NodeSee, created, (*call).login).open(),
		drop("logout", "POST /v1/logout", "End the session that this is sent with", access.NodeSee, (*call).logout),
		tell("setPassword", "PUT /v1/users/{name}/password", "Set or remove a password, and end the user's other sessions", access.TokenRun, ok, (*call).setPassword),
		ask("listSessions", "GET /v1/users/{name}/sessions", "A user's open sessions", access.TokenRun, (*call).sessions),
		drop("revokeSession", "DELETE /v1/users/{name}/sessions/{id}", "End a session", access.TokenRun, (*call).revokeSession),
		drop("revokeSessions", "DELETE /v1/users/{name}/sessions", "End all of a user's sessions but the one that this is sent with", access.TokenRun, (*call).revokeSessions),
	}
}

func peopleOperations() []operation {
	return []operation{
		ask("me", "GET /v1/me", "Who you are", access.NodeSee, (*call).me),
		ask("listAccounts", "GET /v1/accounts", "Accounts that you may see", access.AccountSee, (*call).accounts),
		tell("createAccount", "POST /v1/accounts", "Make an account", access.AccountRun, created, (*call).createAccount).alsoBy(access.AccountMake),
		ask("getAccount", "GET /v1/accounts/{name}", "An account with its members, use and grants", access.AccountSee, (*call).account),
		tell("setAccount", "PATCH /v1/accounts/{name}", "Change an account", access.AccountRun, ok, (*call).setAccount),
		tell("moveAccount", "POST /v1/accounts/{name}/move", "Put an account, with all below it, under another one", access.AccountMake, ok, (*call).moveAccount),
		drop("removeAccount", "DELETE /v1/accounts/{name}", "Remove an account that nothing needs any more; its books stay", access.AccountMake, (*call).removeAccount).
			with(param{"expire", "true: what is left of its grants goes with it"}),
		tell("setMember", "PUT /v1/accounts/{name}/members/{user}", "Give a user a role in an account", access.AccountRun, ok, (*call).setMember),
		drop("removeMember", "DELETE /v1/accounts/{name}/members/{user}", "Take a user out of an account", access.AccountRun, (*call).removeMember),
		tell("importMembers", "POST /v1/accounts/{name}/import", "Make the members of an account those of a table, all or nothing", access.AccountRun, ok, (*call).importMembers),
		ask("statement", "GET /v1/statements/accounts/{name}", "Where the money of an account and of those below it went", access.AccountRead, (*call).statement,
			periodParam(), param{"by", "member, token, job, step, device or day: lines that go so deep, each of one grant"}),
		ask("machineStatement", "GET /v1/statements/machine", "Where the device time of the inventory went: each device-second has one payer", access.LedgerAll, (*call).machineStatement,
			periodParam(), param{"of", "a node or a partition; by default everything"}),
		ask("fairShare", "GET /v1/fairshare", "The tree of shares as far as you may see it", access.NodeSee, (*call).fairShare,
			param{"of", "only this account with what is below it, or only this user"}),
		ask("listUsers", "GET /v1/users", "Users that you may see", access.UserSee, (*call).users),
		tell("createUser", "POST /v1/users", "Make a user; without a uid, the one that the name has on this machine", access.UserRun, created, (*call).createUser),
		ask("getUser", "GET /v1/users/{name}", "A user", access.UserSee, (*call).user),
		tell("setUser", "PATCH /v1/users/{name}", "Change a user", access.UserRun, ok, (*call).setUser),
		tell("retireUser", "POST /v1/users/{name}/retire", "Let a user go for good; what the user did stays in the books", access.UserRun, ok, (*call).retireUser),
		ask("listTokens", "GET /v1/users/{name}/tokens", "A user's personal tokens, without their secrets", access.TokenRun, (*call).tokens),
		tell("createToken", "POST /v1/users/{name}/tokens", "Make a personal token; its secret is in this answer only", access.TokenRun, created, (*call).createToken),
		drop("revokeToken", "DELETE /v1/users/{name}/tokens/{id}", "End a token", access.TokenRun, (*call).revokeToken),
	}
}

func moneyOperations() []operation {
	account := param{"account", "only of this account"}
	return []operation{
		ask("listGrants", "GET /v1/grants", "Grants of accounts that you may look into", access.AccountRead, (*call).grants, account),
		tell("giveGrant", "POST /v1/grants", "Give an account credits", access.MoneyGive, created, (*call).giveGrant),
		tell("transferGrant", "POST /v1/grants/transfer", "Give credits of one account's grants to another account, up to the end that they have", access.AccountRun, created, (*call).transferGrant).alsoBy(access.MoneyGive),
		ask("listPrices", "GET /v1/prices", "The price book", access.NodeSee, (*call).prices),
		tell("setPrice", "POST /v1/prices", "Publish a version of the price book", access.PriceSet, created, (*call).setPrice),
		ask("listLimits", "GET /v1/limits", "Limits with what is used of them", access.NodeSee, (*call).limits,
			param{"account", "those that bind this account, its ancestors' among them"}, param{"user", "those that bind this user; without an account, in all of his"},
			param{"partition", "those that bind in this partition"}, param{"qos", "those that bind jobs of this QoS"}),
		tell("setLimit", "POST /v1/limits", "Set a limit; the same scope, resource and period replace the one before. Nothing is stopped by it", access.LimitSet, ok, (*call).setLimit).alsoBy(access.AccountRun),
		drop("removeLimit", "DELETE /v1/limits/{id}", "Remove a limit", access.LimitSet, (*call).removeLimit).alsoBy(access.AccountRun),
		ask("listShares", "GET /v1/shares", "Accounts' shares of partitions with what is in use of them", access.NodeSee, (*call).shares,
			param{"account", "those of this account, above and below it"}, param{"partition", "only in this partition"}),
		tell("setShare", "POST /v1/shares", "Set an account's share of a partition; it replaces the one before. Nothing is stopped by it", access.LimitSet, ok, (*call).setShare),
		drop("removeShare", "DELETE /v1/shares/{id}", "Remove a share", access.LimitSet, (*call).removeShare),
		ask("listPeriods", "GET /v1/periods", "Closed periods, and the months that aren't closed", access.LedgerAll, (*call).periods),
		ask("getPeriod", "GET /v1/periods/{period}", "A closed period with its sums, or what keeps one from being closed", access.LedgerAll, (*call).period),
		ask("closePeriod", "POST /v1/periods/{period}/close", "Close the books of a period for good: its statements never change any more", access.PeriodClose, (*call).closePeriod),
		ask("verifyLedger", "GET /v1/ledger/verify", "Check the ledger against everything that was recorded", access.LedgerAll, (*call).verify),
		pages("listTransfers", "GET /v1/ledger/transfers", "Postings, the oldest first", access.AccountRead, (*call).transfers,
			param{"ledger", "only of this ledger account, e.g. grant:3"}, param{"job", "only of this job"}),
	}
}

func machineOperations() []operation {
	return []operation{
		ask("status", "GET /v1/status", "The server in brief", access.NodeSee, (*call).status),
		ask("listNodes", "GET /v1/nodes", "Nodes with their devices", access.NodeSee, (*call).nodes),
		tell("drainNode", "POST /v1/nodes/{name}/drain", "Let nothing new start on a node", access.NodeRun, ok, (*call).drain),
		ask("resumeNode", "POST /v1/nodes/{name}/resume", "Put a drained node to use again", access.NodeRun, (*call).resume),
		tell("labelNode", "POST /v1/nodes/{name}/labels", "Change a node's labels", access.NodeRun, ok, (*call).labelNode),
		ask("listMaintenance", "GET /v1/maintenance", "Maintenance windows that aren't over", access.NodeSee, (*call).maintenances),
		tell("planMaintenance", "POST /v1/maintenance", "Plan a maintenance window", access.NodeRun, created, (*call).planMaintenance),
		drop("cancelMaintenance", "DELETE /v1/maintenance/{id}", "Cancel a maintenance window", access.NodeRun, (*call).cancelMaintenance),
	}
}

func reservationOperations() []operation {
	return []operation{
		ask("listReservations", "GET /v1/reservations", "Reservations that are for you, or that you may see", access.NodeSee, (*call).reservations),
		ask("getReservation", "GET /v1/reservations/{name}", "A reservation with its windows", access.NodeSee, (*call).reservation),
		tell("createReservation", "POST /v1/reservations", "Set resources aside for accounts and users over a window, or one that comes again", access.NodeRun, created, (*call).createReservation),
		drop("cancelReservation", "DELETE /v1/reservations/{name}", "Cancel a reservation; jobs that wait in it end", access.NodeRun, (*call).cancelReservation).
			with(param{"window", "only this window"}),
	}
}

func catalogOperations() []operation {
	return []operation{
		ask("listPartitions", "GET /v1/partitions", "Partitions with their nodes", access.NodeSee, (*call).partitions),
		ask("getPartition", "GET /v1/partitions/{name}", "A partition", access.NodeSee, (*call).partition),
		tell("createPartition", "POST /v1/partitions", "Make a partition", access.CatalogSet, created, (*call).createPartition),
		tell("setPartition", "PATCH /v1/partitions/{name}", "Change a partition", access.CatalogSet, ok, (*call).setPartition),
		drop("removePartition", "DELETE /v1/partitions/{name}", "Remove a partition that nothing uses", access.CatalogSet, (*call).removePartition),
		ask("listQoS", "GET /v1/qos", "Qualities of service", access.NodeSee, (*call).qosList),
		ask("getQoS", "GET /v1/qos/{name}", "A quality of service", access.NodeSee, (*call).qos),
		tell("createQoS", "POST /v1/qos", "Make a quality of service", access.CatalogSet, created, (*call).createQoS),
		tell("setQoS", "PATCH /v1/qos/{name}", "Change a quality of service", access.CatalogSet, ok, (*call).setQoS),
		drop("removeQoS", "DELETE /v1/qos/{name}", "Remove a quality of service that nothing uses", access.CatalogSet, (*call).removeQoS),
	}
}

func limitParam() param { return param{"limit", "items per page, at most 1000; by default 100"} }
func periodParam() param {
	return param{"period", "a month, 2026-11 (default: this one), a day, or from one to another, 2026-11-01..2026-11-15; UTC"}
}
func rankParam() param   { return param{"rank", "on which of a job's machines; by default 0, the first"} }
func cursorParam() param { return param{"cursor", "next of the page before"} }
