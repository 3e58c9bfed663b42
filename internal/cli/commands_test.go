package cli

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"net/http"

	v1 "croft.dev/croft/api/v1"
)

var (
	lines = []v1.PriceLine{
		{Resource: "gpu", Model: "A100-80GB", Amount: "1", Rate: "1.000", Credits: "2.000"},
		{Resource: "cpu", Amount: "8", Rate: "0.010", Credits: "0.160"},
		{Resource: "mem", Amount: "64G", Rate: "0.001", Credits: "0.128"},
	}
	spec    = v1.JobSpec{Name: "train", Image: "train:1", Command: []string{"python", "train.py"}, Account: "nlp", Partition: "gpu", GPU: "1", CPU: "8", Mem: "64G", Time: "2h"}
	deposit = &v1.Receipt{Billing: "enforce", Deposit: "2.288", Charged: "0.000", Returned: "0.000", Lines: lines, Account: "nlp"}
	zero    = 0
	seven   = 7
	uid     = int64(1001)

	queued  = v1.Job{ID: "131", Name: "train", User: "ada", Account: "nlp", State: "queued", Spec: spec, Submitted: *at(15, 0), Window: &v1.Window{Kind: "promised", Start: at(16, 20), Position: 2, Queue: 5}, Receipt: deposit}
	running = v1.Job{ID: "118", Name: "train", User: "ada", Account: "nlp", State: "running", Spec: spec, Submitted: *at(14, 0), Started: at(14, 1), Limit: at(16, 1), Node: "gpu1", Devices: []string{"GPU-0"}, Window: &v1.Window{Kind: "now"}, Receipt: deposit}
	done    = v1.Job{ID: "117", Name: "eval", User: "ada", Account: "nlp", State: "ended", Outcome: "completed", ExitCode: &zero, Spec: spec, Submitted: *at(9, 0), Started: at(9, 1), Ended: at(10, 13), Node: "gpu1", Devices: []string{"GPU-0"}, Receipt: &v1.Receipt{Billing: "enforce", Deposit: "2.288", Charged: "1.373", Returned: "0.915", Lines: lines, Account: "nlp", Grants: []string{"DFG-123"}, Final: true}}
	failed  = v1.Job{ID: "116", Name: "prep\x1b[31m\nx", User: "ada", Account: "nlp", State: "ended", Outcome: "failed", ExitCode: &seven, Spec: v1.JobSpec{CPU: "2", Mem: "4G"}, Submitted: *at(8, 0), Started: at(8, 1), Ended: at(8, 1), Node: "gpu1"}
	later   = v1.Job{ID: "132", Name: "eval", User: "ada", Account: "nlp", State: "held", Waits: "DEPENDENCY", Reasons: []v1.Reason{{Code: "DEPENDENCY", Message: "waits until job 131 has completed"}}, Spec: v1.JobSpec{CPU: "1", Mem: "1G", After: "afterok:131", Begin: "2026-12-02T06:00:00Z"}, Submitted: *at(15, 1)}
	evening = v1.Job{ID: "133", Name: "eval", User: "ada", Account: "nlp", State: "held", Waits: "BEGIN_TIME", Eligible: at(20, 0), Spec: v1.JobSpec{CPU: "1", Mem: "1G"}, Submitted: *at(15, 2), Receipt: deposit}
	sweep   = v1.Job{ID: "140", Name: "sweep", User: "ada", Account: "nlp", State: "running", Spec: v1.JobSpec{CPU: "1", Mem: "1G", Array: "0-99999%50"}, Submitted: *at(15, 1), Array: &v1.Array{Pending: 98_000, Active: 50, Ended: map[string]int64{"completed": 1_940, "failed": 10}, Waiting: "2000-99999", Failed: "7,100-108"}}
	element = v1.Job{ID: "140_7", Number: "163", Name: "sweep", User: "ada", Account: "nlp", State: "ended", Outcome: "failed", ExitCode: &seven, Spec: v1.JobSpec{CPU: "1", Mem: "1G"}, Submitted: *at(15, 1), Started: at(15, 2), Ended: at(15, 3), Node: "gpu1"}
	pulling = v1.Job{ID: "119", Name: "pull", User: "bob", Account: "vision", State: "starting", Progress: "pulling 40 %", Spec: v1.JobSpec{GPU: "2", CPU: "16", Mem: "128G"}, Submitted: *at(15, 9)}

	reasons = []v1.Reason{
		{Code: "DEVICES_NEVER_FIT", Message: "asked for 8 gpu, gpu1 has 4", Field: "gpu", Observed: "8", Bound: "4", Scope: "node gpu1", Never: true},
		{Code: "LIMIT_TIME", Message: "asked for 48h, account nlp allows 24h", Field: "time", Observed: "48h", Bound: "24h", Scope: "account nlp"},
	}
	remedy  = &v1.Remedy{Set: map[string]string{"gpu": "4"}, Flags: "--gpu 4", Start: at(16, 40)}
	refusal = &v1.Problem{Title: "Refused", Status: 422, Code: "refused", Detail: "asked for 8 gpu, gpu1 has 4", ID: "R-7", Reasons: reasons, Remedy: remedy}

	member  = []v1.Member{{User: "ada", Role: "owner", Weight: 2}, {User: "bob", Role: "member", Group: true}}
	monthly = v1.Allowance{Account: "nlp", Name: "month", Amount: "500.000", Per: "month", From: "2026-11-01", Until: "2027-03-31", CarryOver: "100.000", Source: "allowance month", Grant: "2", Next: utc(2026, 12, 1)}
	joining = v1.Request{
		ID: "7", Kind: "join", State: "open", User: "zoe", Asks: "zoe asks to be member of nlp", RequestWish: v1.RequestWish{Join: &v1.JoinWish{Account: "nlp", Role: "member"}}, Message: "my thesis", Created: *at(9, 0), Expires: *day(2026, 12, 15),
		Mine: true, Changes: []v1.RequestChange{{What: "role of zoe in nlp", Before: "none", After: "member"}}, Deciders: []string{"mia", "root"}, Decides: "whoever is at least manager of nlp, or an admin",
	}
	more = v1.Request{
		ID: "8", Kind: "credits", State: "open", User: "ada", Token: &v1.ByToken{ID: "4", Name: "ci"}, Asks: "ada asks for 200.000 credits for nlp", RequestWish: v1.RequestWish{Credits: &v1.CreditsWish{Account: "nlp", Amount: "200.000"}}, Created: *at(10, 0), Expires: *day(2026, 12, 15),
		Reminded: at(12, 0), Failed: "account nlp is over by then", Changes: []v1.RequestChange{{What: "credits of nlp", Before: "187.627", After: "387.627"}}, Decides: "an admin",
	}
	approved  = v1.Request{ID: "7", Kind: "join", State: "approved", User: "zoe", Asks: joining.Asks, RequestWish: joining.RequestWish, Created: *at(9, 0), Expires: *day(2026, 12, 15), Decided: at(15, 0), By: "mia", Words: "welcome"}
	rejected  = v1.Request{ID: "7", Kind: "join", State: "rejected", User: "zoe", Asks: joining.Asks, RequestWish: joining.RequestWish, Created: *at(9, 0), Expires: *day(2026, 12, 15), Decided: at(15, 0), By: "mia", Words: "no room"}
	withdrawn = v1.Request{ID: "7", Kind: "join", State: "withdrawn", User: "zoe", Asks: joining.Asks, RequestWish: joining.RequestWish, Created: *at(9, 0), Expires: *day(2026, 12, 15), Decided: at(15, 0), By: "zoe"}
	grant     = v1.Grant{ID: "1", Account: "nlp", Amount: "500.000", Source: "DFG-123", End: day(2027, 4, 1), Available: "187.627", Deposits: "0.000", Spent: "312.373", State: "open", Used: 62, Lasts: day(2026, 12, 18)}
	limit     = v1.Limit{ID: "3", Account: "nlp", User: "ada", Resource: "gpu", Max: "4"}
	limits    = []v1.LimitUse{
		{Limit: limit, Used: "1", Left: "3", From: "user ada in account nlp", By: "olga", Tightest: true},
		{Limit: v1.Limit{ID: "1", Account: "faculty", Resource: "mem", Max: "512G"}, Used: "640G", Left: "0", Over: "128G", From: "account faculty", By: "root", Tightest: true},
		{Limit: v1.Limit{Partition: "main", Resource: "time", Max: "2d"}, From: "partition main"},
		{
			Limit: v1.Limit{ID: "4", Account: "nlp", Resource: "gpu-hours:a100", Max: "500", Per: "month", CarryOver: "50%"}, Used: "212.5", Left: "337.5", Carried: "50",
			Since: day(2026, 11, 1), Until: day(2026, 12, 1), From: "account nlp", By: "olga", Tightest: true,
		},
	}
	spendCap = v1.LimitUse{
		Limit: v1.Limit{ID: "5", Account: "nlp", User: "ada", Resource: "credits", Max: "100.000", Per: "month"}, Used: "64.288", Spent: "62.000", Left: "35.712",
		Since: day(2026, 11, 1), Until: day(2026, 12, 1), From: "user ada in account nlp", By: "mia", Tightest: true,
	}
	capped = v1.Quote{Admitted: true, Price: quote.Price, Window: v1.Window{Kind: "now"}, Account: "nlp", Billing: "enforce", Balance: "187.627", After: "185.339", Caps: []v1.LimitUse{spendCap}}
	part8  = v1.Share{ID: "2", Account: "nlp", Partition: "gpu", Resource: "gpu", Guaranteed: "8", Limit: "16", Lend: "4", Weight: 2}
	parts  = []v1.ShareUse{
		{Share: v1.Share{ID: "1", Account: "faculty", Partition: "gpu", Resource: "gpu", Guaranteed: "12"}, Used: "9", Free: "7", By: "olga"},
		{Share: part8, Used: "3", Free: "13", By: "olga", Borrowers: []v1.ShareBorrower{{Account: "vision", Borrowed: "2"}, {Borrowed: "1"}}},
	}
	lent    = v1.ShareUse{Share: part8, Used: "20", Borrowed: "12", Over: "4", Free: "0", By: "olga"}
	lowered = v1.LimitUse{Limit: limit, Used: "6", Left: "0", Over: "2", From: "user ada in account nlp", Users: []v1.LimitUser{{User: "ada", Used: "6"}}}
	hours   = limits[3]
	smaller = v1.LimitUse{Limit: limit, From: "user ada in account nlp", Users: []v1.LimitUser{{User: "ada", Jobs: 3}}}
	account = v1.Account{Name: "nlp", Parent: "faculty", Billing: "enforce", Group: "nlp-lab", Members: member, Balance: &v1.AccountMoney{Available: "187.627", Deposits: "2.288", Spent: "312.373"}, Usage: limits, Grants: []v1.Grant{grant}}
	repaid  = v1.Grant{ID: "9", Account: "owing", Amount: "50.000", Source: "DFG-124", Start: day(2026, 11, 1), Available: "38.712", Deposits: "0.000", Spent: "11.288", Repaid: "11.288", Used: 22, State: "open"}
	owing   = v1.Account{
		Name: "owing", Billing: "enforce", OutOfCredit: "overdraft", Overdraft: "50.000", Grants: []v1.Grant{repaid},
		Balance: &v1.AccountMoney{Available: "0.000", Deposits: "2.288", Spent: "512.373", Overdrawn: "14.661", Owed: "12.373"},
	}
	user    = v1.User{Name: "ada", Role: "user", UID: &uid, Accounts: []v1.Membership{{Account: "nlp", Role: "owner"}}}
	me      = v1.Me{User: "ada", Role: "user", Accounts: user.Accounts}
	contact = v1.Contact{Address: "ada@example.org", Mail: "fail,stop", On: true}
	told    = []v1.Notice{
		{ID: "job.118.1.credit.5.u2", At: *at(15, 8), Kind: "stop", User: "ada", Job: "118", Account: "nlp", Subject: "[croft] job 118 train is to be stopped", State: "waiting", Tries: 3, Next: at(15, 16), Message: "the mail server wasn't reached"},
		{ID: "job.117.end.u2", At: *at(10, 13), Kind: "end", User: "ada", Job: "117", Account: "nlp", Subject: "[croft] job 117 eval has ended: completed", State: "delivered", Tries: 1, Done: at(10, 13)},
		{ID: "job.116.end.u2", At: *at(8, 1), Kind: "fail", User: "ada", Job: "116", Account: "nlp", Subject: "[croft] job 116 prep\x1b[31m has failed: exit code 7", State: "given up", Tries: 1, Done: at(8, 2), Message: "the mail server refuses it (550)"},
	}
	price = v1.PriceVersion{ID: "1", From: day(2026, 1, 1), CPU: "0.010", Mem: "0.001", GPU: map[string]string{"A100-80GB": "1.500", "*": "1.000"}, By: "root"}
	node  = v1.Node{Name: "gpu1", State: "ok", Partitions: []string{"gpu"}, CPU: v1.Use{Used: "8", Total: "64"}, Mem: v1.Use{Used: "64G", Total: "512G"},
		Devices:     []v1.Device{{UUID: "GPU-0", Name: "0", Model: "A100-80GB", Memory: "80G", State: "used", Job: "118", User: "ada", Account: "nlp"}, {UUID: "GPU-1", Name: "1", Model: "A100-80GB", State: "free"}, {UUID: "GPU-3", Name: "3", Model: "A100-80GB", State: "foreign", Reason: "pid 8812 (u311), not Croft's"}},
		Maintenance: []v1.Maintenance{{ID: "2", Node: "gpu1", From: *day(2026, 12, 3), To: *day(2026, 12, 4)}}}
	window = v1.Maintenance{ID: "2", Node: "gpu1", From: *day(2026, 12, 3), To: *day(2026, 12, 4), Reason: "new driver"}
	class  = v1.Reservation{
		Name: "ml24", Partition: "gpu", State: "active", Accounts: []string{"nlp"}, Payer: "nlp", Count: 40, GPU: "1", CPU: "4", Mem: "16G", From: *at(9, 0), Length: "2h",
		Join: true, Each: 1, Images: []v1.ReservationImage{{Image: "train:1", State: "ready"}, {Image: "big:1", State: "pulling 40%"}}, Running: 38, Waiting: 1,
		Windows: []v1.ReservationWindow{{ID: "7", From: *at(9, 0), To: *at(11, 0), State: "active", Parts: []v1.ReservationPart{{Node: "gpu1", CPU: "160", Mem: "640G", Models: map[string]int64{"H100": 40}}}}},
	}
	ml24 = v1.Reservation{Name: "ml24", Partition: "gpu", State: "planned", Accounts: []string{"nlp"}, Users: []string{"ada"}, Payer: "nlp", Count: 40, GPU: "1", CPU: "4", Mem: "16G",
		From: *day(2026, 12, 3), Length: "2h", Every: "mon,wed", Until: day(2027, 2, 1), Reason: "course", By: "olga", Running: 1, Waiting: 2, Cost: "120.000",
		Windows: []v1.ReservationWindow{
			{ID: "7", From: *at(9, 0), To: *at(11, 0), State: "active", Parts: []v1.ReservationPart{{Node: "gpu1", CPU: "160", Mem: "640G", Models: map[string]int64{"A100-80GB": 30, "H100": 10}}}},
			{ID: "8", From: *day(2026, 12, 5), To: *day(2026, 12, 6), State: "failed", Reason: "node gpu1 can't be used now"},
		}}
	normal = v1.QoS{Name: "normal", Default: true, Configured: true, Factor: "1", Grace: "30s", MaxGrace: "10m", Busy: "queue", MinRun: "10m", PreemptSignal: "USR1", PreemptGrace: "1m", PreemptMode: "requeue", PreemptMoney: "refund"}
	urgent = v1.QoS{Name: "urgent", Priority: 1000, Factor: "2", MaxTime: "4h", Grace: "30s", MaxGrace: "10m", Restricted: true, Accounts: []string{"nlp"}, Partitions: []string{"gpu"}, Busy: "refuse", Preempts: []string{"normal"}, PreemptSignal: "TERM", PreemptMode: "requeue", PreemptMoney: "refund"}
	part   = v1.Partition{Name: "gpu", Nodes: []string{"gpu1", "gpu2"}, Default: true, Configured: true, MaxTime: "24h", DefaultTime: "1h", Restricted: true, Deny: []string{"guests"}, QoS: []string{"normal", "urgent"}}
	shares = v1.FairShare{At: now, HalfLife: "7d", Points: 1000, Places: 3, Nodes: []v1.ShareNode{
		{Account: "nlp", Weight: 2, Share: "66.66", Use: "50.000", Used: "62.50", Times: "0.93", Rank: 1},
		{Account: "nlp", User: "ben", Depth: 1, Weight: 1, Share: "33.33", Use: "10.000", Used: "20.00", Times: "0.60", Rank: 1, Points: 1000},
		{Account: "nlp", User: "ada", Depth: 1, Weight: 2, Share: "66.66", Use: "40.000", Used: "80.00", Times: "1.20", Rank: 2, Points: 666},
	}}
	agent = v1.Token{
		ID: "7", User: "ada", Name: "ci", Created: *at(15, 10), Scopes: []string{"read", "submit"}, Account: "nlp", Secret: "croft_secret",
		Spend: &v1.TokenSpend{Max: "50.000", Per: "month", Spent: "12.500", Aside: "2.288", Left: "35.212", Until: day(2027, 1, 1)}, Devices: &v1.TokenDevices{Max: "2", InUse: "1"},
	}
	token   = v1.Token{ID: "5", User: "ada", Name: "laptop", Created: *at(15, 10), Expires: day(2027, 3, 1), Secret: "croft_secret"}
	session = v1.Session{ID: "9", User: "ada", Name: "desk", Created: *at(9, 0), Used: *at(15, 0), Ends: *day(2026, 12, 2), Expires: *day(2026, 12, 8), Current: true}
	quote   = v1.Quote{Admitted: true, Price: v1.Price{Total: "2.288", Lines: lines}, Window: v1.Window{Kind: "estimated", Start: at(16, 20), Position: 3, Queue: 5}, Account: "nlp", Billing: "enforce", Balance: "187.627", After: "185.339", Spec: spec}
	event   = v1.Event{Seq: 1204, At: *at(15, 9), Kind: "job.submit", By: "ada", Job: "131", Account: "nlp", State: "queued", Reasons: []v1.Reason{{Code: "DEVICES_BUSY"}}}
	status  = v1.Status{Version: "dev", Instance: "i", Engine: "cri", Runtime: "ok", Nodes: 1, GPU: v1.Use{Used: "1", Total: "4"}, CPU: v1.Use{Used: "8", Total: "64"}, Mem: v1.Use{Used: "64G", Total: "512G"}, Running: 1, Queued: 2, Seq: 1204, Clock: "ok", Started: at(8, 0)}
	verify  = v1.Verification{OK: true, Seq: 1204, Transfers: 12345, Checks: []v1.CheckLine{{Name: "balances equal postings", OK: true, Checked: 12}, {Name: "deposits equal open jobs", OK: true, Checked: 2}}}
	drift   = v1.Verification{Seq: 1204, Transfers: 12345, Checks: []v1.CheckLine{{Name: "balances equal postings", Checked: 12, First: "grant:1: cached 5.000, postings 4.000"}}}
	post    = v1.Transfer{ID: "88", At: *at(15, 9), From: "grant:1", To: "deposit:131:1", Amount: "2.288", Kind: "deposit", Job: "131", Seq: 1204}
	bill    = v1.Statement{Account: "nlp", From: *day(2026, 11, 1), To: *day(2026, 12, 1), Verified: true,
		Total:    v1.StatementTotal{Opening: "0.000", Given: "500.000", Spent: "312.373", Expired: "0.000", Left: "187.627", Charged: "312.373"},
		Grants:   []v1.StatementGrant{{ID: "1", Account: "nlp", Source: "DFG-123", Start: day(2026, 11, 1), State: "open", Opening: "0.000", Given: "500.000", Spent: "312.373", Expired: "0.000", Left: "187.627", Deposits: "0.000", Until: day(2026, 12, 18)}},
		Accounts: []v1.StatementAccount{{Account: "nlp", Below: true, GPUHours: "275.0", Charged: "312.373"}, {Account: "nlp", GPUHours: "275.0", Charged: "312.373"}},
		Users: []v1.StatementUser{
			{Account: "nlp", User: "u017", Jobs: 41, GPUHours: "201.0", Charged: "228.000", Models: []v1.StatementModel{{Model: "a100", GPUHours: "201.0", Charged: "228.000"}}},
			{Account: "nlp", User: "u042", Jobs: 1, GPUHours: "74.0", Charged: "84.373", Models: []v1.StatementModel{{Model: "a100", GPUHours: "74.0", Charged: "84.373"}}}},
		Devices: []v1.StatementNode{gpu1}}
	gpu1 = v1.StatementNode{Node: "gpu1", Total: "2880", By: map[string]string{"maintenance": "16", "idle": "402", "users": "2431", "foreign": "31"},
		Causes: map[string]string{"maintenance": "10", "drained": "6", "idle": "402", "used": "2431", "foreign": "31"},
		Models: []v1.StatementModelTime{{Model: "a100", Total: "2880", By: map[string]string{"maintenance": "16", "idle": "402", "users": "2431", "foreign": "31"}, Causes: map[string]string{"maintenance": "10", "drained": "6", "idle": "402", "used": "2431", "foreign": "31"}}}}
	// deep is of two accounts, by device, with names that mean something to programs.
	deep = v1.Statement{Account: "nlp", From: *day(2026, 11, 1), To: *day(2026, 12, 1), By: "device", Difference: "attempt 131.1 was posted 2.288 and 0.000 beyond its deposit; its metered time costs 2.072",
		Grants: []v1.StatementGrant{
			{ID: "1", Account: "nlp", Source: "=HYPERLINK(\"http://x\")", State: "open", Opening: "100.000", Given: "0.000", Spent: "2.072", Expired: "1.000", Left: "96.928", Deposits: "8.288", End: day(2027, 4, 1)},
			{ID: "2", Account: "faculty", Source: "<b>budget</b>", Part: true, Spent: "0.216"}, {Part: true, Spent: "-0.100"}},
		Accounts: []v1.StatementAccount{{Account: "nlp", Below: true, GPUHours: "2.0", Charged: "2.288"}, {Account: "nlp", GPUHours: "1.0", Charged: "1.144"}, {Account: "seminar", GPUHours: "1.0", Charged: "1.144"}},
		Users: []v1.StatementUser{
			{Account: "nlp", User: "ada", Jobs: 1, GPUHours: "1.0", Charged: "1.144", Models: []v1.StatementModel{{Charged: "0.144", GPUHours: "0.0"}, {Model: "a100", GPUHours: "1.0", Charged: "1.000"}}},
			{Account: "seminar", User: "(others)", Jobs: 1, GPUHours: "1.0", Charged: "1.144", Models: []v1.StatementModel{{Model: "a100", GPUHours: "1.0", Charged: "1.144"}}}},
		Lines: []v1.StatementLine{
			{Grant: "1", Source: "=HYPERLINK(\"http://x\")", Account: "nlp", User: "@ada", Job: "131", Step: "131.1", Device: "-GPU", Node: "+gpu1", Model: "<a100>", From: at(14, 0), To: at(15, 0), GPU: "1", GPUHours: "1.0", Credits: "2.388"},
			{Account: "seminar", User: "(others)", GPUHours: "0.0", Credits: "-0.100"}}}
	november = v1.Period{Period: "2026-11", From: *day(2026, 11, 1), To: *day(2026, 12, 1), State: "closed", Closed: day(2026, 12, 1), By: "olga", Hash: "3f9a0c7b2d1e4f5a6b7c8d9e0f1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c", Verified: true,
		Accounts: []v1.PeriodAccount{{Account: "nlp", Given: "500.000", Spent: "312.373", Expired: "0.000", Hash: "0c7b2d1e4f5a6b7c8d9e0f1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c3f9a"}}}
	sealed = v1.Statement{Account: "nlp", From: *day(2026, 11, 1), To: *day(2026, 12, 1), Verified: true, Grants: bill.Grants, Accounts: bill.Accounts, Users: bill.Users,
		Closed:      []v1.StatementClosed{{Period: "2026-11", At: *day(2026, 12, 1), By: "olga", Hash: november.Hash}},
		Corrections: []v1.StatementCorrection{{Period: "2026-10", Job: "118", Attempt: 1, Credits: "-1.144"}, {Period: "2026-10", Credits: "-0.100"}}}
	balance = v1.MachineStatement{From: *day(2026, 11, 1), To: *day(2026, 12, 1), Total: "2880", By: gpu1.By, Causes: gpu1.Causes, Models: gpu1.Models, Nodes: []v1.StatementNode{gpu1}, Verified: true}
	why     = v1.Why{Job: queued, Summary: "waits for 2 gpu", Window: *queued.Window, Reasons: []v1.Reason{{Code: "DEVICES_BUSY", Message: "needs 2 gpu; 3 of 4 are in use"}},
		Remedy:   &v1.Remedy{Set: map[string]string{"gpu": "1"}, Flags: "--gpu 1", Start: at(15, 10), Exact: true},
		Priority: []v1.Factor{{Name: "fair share", Value: 900}, {Name: "age", Value: 240}, {Name: "QoS", Value: 100}},
		Holders:  []v1.Holder{{Account: "vision", What: "3 gpu in 2 jobs", Until: at(16, 20)}}}
)

// dozing is a job that shows no sign of work.
func dozing(j v1.Job) v1.Job {
	j.Idle = &v1.Idle{
		Standing: "idle", Mode: "stop", Text: "idle for 1h45m: device 0 % (< 5 %)", Since: at(13, 24), For: "1h45m", After: "2h", Told: at(15, 9), StopsAt: at(15, 24),
		Signals: []v1.IdleSignal{{Signal: "device", Counts: true, State: "idle", Seen: "device 0 %", Bound: "5 %"}, {Signal: "browser", State: "active", Seen: "1 browser connection"}},
	}
	return j
}

// kept is a job that is declared to be at work.
func kept(j v1.Job) v1.Job {
	j.Idle = &v1.Idle{Standing: "kept", Mode: "stop", Text: "kept for another 6h", For: "0s", After: "2h", Kept: at(21, 10)}
	return j
}

// using is a job of which it is known what it uses, but for one device.
func using(j v1.Job) v1.Job {
	busy := int64(97)
	j.Usage = &v1.UseSample{At: now, CPU: "0.02", Mem: "1200M", Devices: []v1.DeviceUse{{Name: "gpu0", Percent: &busy, Mem: "40G"}, {Name: "gpu1"}}}
	return j
}

func page[T any](items ...T) v1.Page[T] { return v1.Page[T]{Items: items} }

// eventPages are n events, so many a page.
func eventPages(size, n int64) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		after, _ := strconv.ParseInt(r.URL.Query().Get("after"), 10, 64)
		var out v1.Page[v1.Event]
		for seq := after + 1; seq <= min(after+size, n); seq++ {
			out.Items = append(out.Items, v1.Event{Seq: seq, At: event.At, Kind: "job.keep", By: "ada", Job: "131"})
		}
		if after+size < n {
			out.Next = strconv.FormatInt(after+size, 10)
		}
		reply(w, http.StatusOK, out)
	}
}

// log is a job's whole log.
func log(frames ...v1.LogFrame) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for _, f := range frames {
			_, _ = w.Write(v1.AppendLogFrame(nil, f))
		}
	}
}

// Steps of job 118: one waits, one runs, one has ended.
var (
	stepWaits = v1.Step{ID: "118.4", Job: "118", N: 4, State: "queued", Message: "waits for what other steps have: 118.3", Spec: v1.StepSpec{Name: "eval.py", Image: "train:1", GPU: "1"}, Attempt: 1, Submitted: *at(15, 0)}
	stepRuns  = v1.Step{ID: "118.3", Job: "118", N: 3, State: "running", Spec: v1.StepSpec{Name: "tensorboard", Image: "tool:1", Command: []string{"tensorboard", "--logdir", "/logs"}, CPU: "2", Mem: "4G", GPU: "1"}, Attempt: 1, Devices: []string{"gpu0"}, Submitted: *at(14, 0), Started: at(14, 2)}
	stepEnded = v1.Step{ID: "118.2", Job: "118", N: 2, State: "ended", Outcome: "failed", ExitCode: &seven, Spec: v1.StepSpec{Name: "prep\x1b[31m", Image: "train:1"}, Attempt: 1, Submitted: *at(14, 0), Started: at(14, 1), Ended: at(14, 2)}
)

var answers = map[string]any{
	"POST /v1/jobs/118/steps":        stepWaits,
	"GET /v1/jobs/118/steps":         page(stepEnded, stepRuns, stepWaits),
	"GET /v1/jobs/118/steps/2":       stepEnded,
	"GET /v1/jobs/118/steps/3":       stepRuns,
	"POST /v1/jobs/118/steps/3/stop": v1.Step{ID: "118.3", Job: "118", N: 3, State: "stopping"},
	"GET /v1/me":                     me,
	"GET /v1/status":                 status,
	"POST /v1/quotes":                quote,
	"POST /v1/jobs":                  queued,
	"GET /v1/jobs":                   page(queued, running, done, failed, pulling),
	"GET /v1/jobs/131":               queued,
	"GET /v1/jobs/118":               running,
	"GET /v1/jobs/117":               done,
	"GET /v1/jobs/131/why":           why,
	"POST /v1/jobs/131/extend":       queued,
	"POST /v1/jobs/131/priority":     queued,
	"GET /v1/fairshare":              shares,
	"POST /v1/jobs/118/stop":         v1.Job{ID: "118", State: "stopping"},
	"POST /v1/jobs/R-7/clone":        queued,
	"GET /v1/jobs/117/logs":          log(v1.LogFrame{Stream: 1, At: now, Data: []byte("epoch 1\n")}, v1.LogFrame{Stream: 2, At: now, Data: []byte("warning\n")}),
	"GET /v1/events":                 page(event),
	"GET /v1/accounts":               page(account, v1.Account{Name: "faculty", Closed: true}),
	"POST /v1/accounts":              account,
	"GET /v1/accounts/nlp":           account,
	"PATCH /v1/accounts/nlp":         account,
	"GET /v1/accounts/owing":         owing,
	"PATCH /v1/accounts/owing":       owing,
	"POST /v1/accounts/nlp/import": v1.Import{Account: "nlp", Created: 1, Added: 1, Changed: 1, Removed: 1, Kept: 20, Ignored: []string{"matrikel"}, Warnings: []string{"line 2: user bea has no uid on this machine"},
		Changes: []v1.ImportChange{{Line: 2, User: "bea", Created: true, Role: "member"}, {Line: 3, User: "cem", Was: "viewer", Role: "member"}, {Line: 4, User: "eve", Was: "member", Role: "member"}, {User: "dan", Was: "member"}}},
	"POST /v1/accounts/nlp/move":          v1.Moved{Account: account, Jobs: 2},
	"DELETE /v1/accounts/nlp":             struct{}{},
	"POST /v1/users/ada/retire":           v1.Retired{User: "ada", Jobs: 1, Tokens: 2, Members: 1},
	"POST /v1/jobs/131/hold":              v1.Job{ID: "131", State: "held"},
	"POST /v1/jobs/118/keep":              kept(running),
	"POST /v1/jobs/118/open":              v1.Opened{URL: "http://118.apps.localhost:7370/.croft/open?ticket=x"},
	"POST /v1/jobs/118/share":             v1.Job{ID: "118", State: "running", Shared: []v1.Shared{{User: "ben", Level: "view", Until: at(17, 0)}, {Account: "nlp", Level: "full"}, {Public: true, Level: "view"}}},
	"POST /v1/jobs/118/unshare":           v1.Job{ID: "118", State: "running"},
	"POST /v1/jobs/131/release":           v1.Job{ID: "131", State: "queued"},
	"POST /v1/jobs/118/requeue":           v1.Job{ID: "118", State: "stopping"},
	"PUT /v1/accounts/nlp/members/ada":    member[0],
	"DELETE /v1/accounts/nlp/members/ada": struct{}{},
	"GET /v1/statements/accounts/nlp":     bill,
	"GET /v1/statements/machine":          balance,
	"GET /v1/periods":                     v1.Page[v1.Period]{Items: []v1.Period{{Period: "2026-12", From: *day(2026, 12, 1), To: *day(2027, 1, 1), State: "current"}, november}},
	"GET /v1/periods/2026-11":             november,
	"POST /v1/periods/2026-11/close":      november,
	"GET /v1/users":                       page(user, v1.User{Name: "eve", Role: "user", Blocked: true, Warning: "uid 1002 is mallory now"}),
	"POST /v1/users":                      user,
	"GET /v1/users/ada":                   user,
	"PATCH /v1/users/ada":                 user,
	"POST /v1/users/ada/tokens":           token,
	"GET /v1/users/ada/contact":           contact,
	"PATCH /v1/users/ada/contact":         contact,
	"POST /v1/notices/test":               contact,
	"GET /v1/notices":                     page(told...),
	"GET /v1/users/ada/tokens":            page(v1.Token{ID: "5", User: "ada", Name: "laptop", Created: *at(15, 10)}),
	"DELETE /v1/users/ada/tokens/5":       struct{}{},
	"PUT /v1/users/ada/password":          v1.PasswordChanged{Sessions: 2},
	"PUT /v1/users/eve/password":          v1.PasswordChanged{Sessions: 1},
	"GET /v1/users/ada/sessions":          page(session),
	"DELETE /v1/users/ada/sessions":       struct{}{},
	"DELETE /v1/users/ada/sessions/9":     struct{}{},
	"GET /v1/grants":                      page(grant),
	"GET /v1/allowances":                  page(monthly),
	"POST /v1/allowances":                 monthly,
	"DELETE /v1/allowances/nlp/month":     struct{}{},
	"GET /v1/requests":                    page(joining, more),
	"POST /v1/requests":                   joining,
	"GET /v1/requests/7":                  joining,
	"GET /v1/requests/8":                  more,
	"POST /v1/requests/7/approve":         approved,
	"POST /v1/requests/7/reject":          rejected,
	"POST /v1/requests/7/withdraw":        withdrawn,
	"POST /v1/requests/7/remind":          joining,
	"POST /v1/grants/transfer":            page(v1.Grant{ID: "5", Account: "nlp", Amount: "50.000", Source: "DFG-9", End: day(2027, 4, 1)}),
	"POST /v1/grants":                     grant,
	"GET /v1/prices":                      page(price),
	"POST /v1/prices":                     price,
	"GET /v1/limits":                      page(limits...),
	"POST /v1/limits":                     lowered,
	"DELETE /v1/limits/3":                 struct{}{},
	"GET /v1/shares":                      page(parts...),
	"POST /v1/shares":                     lent,
	"DELETE /v1/shares/2":                 struct{}{},
	"GET /v1/ledger/verify":               verify,
	"GET /v1/ledger/transfers":            page(post),
	"GET /v1/audit":                       page(audited...),
	"GET /v1/nodes":                       page(node),
	"POST /v1/nodes/gpu1/labels":          v1.Node{Name: "gpu1", State: "ok", Labels: map[string]string{"nvlink": "", "zone": "a"}},
	"POST /v1/nodes/gpu1/drain":           v1.Node{Name: "gpu1", State: "drained", Reason: "new driver"},
	"POST /v1/nodes/gpu1/resume":          node,
	"GET /v1/maintenance":                 page(window),
	"GET /v1/reservations":                page(ml24, v1.Reservation{Name: "whole", State: "planned", Nodes: []string{"gpu1"}, From: *day(2026, 12, 3)}),
	"GET /v1/reservations/ml24":           ml24,
	"POST /v1/reservations":               ml24,
	"DELETE /v1/reservations/ml24":        struct{}{},
	"GET /v1/qos":                         page(normal, urgent),
	"GET /v1/qos/normal":                  normal,
	"GET /v1/qos/urgent":                  urgent,
	"POST /v1/qos":                        urgent,
	"PATCH /v1/qos/urgent":                urgent,
	"DELETE /v1/qos/urgent":               struct{}{},
	"GET /v1/partitions":                  page(part),
	"GET /v1/partitions/gpu":              part,
	"POST /v1/partitions":                 part,
	"PATCH /v1/partitions/gpu":            part,
	"DELETE /v1/partitions/gpu":           struct{}{},
	"POST /v1/maintenance":                window,
	"DELETE /v1/maintenance/2":            struct{}{},
}

// in is so many seconds from now.
func in(seconds int) *time.Time {
	t := now.Add(time.Duration(seconds) * time.Second)
	return &t
}

// TestCommands runs command lines against canned answers. A golden file has what
// was printed, the exit code and what was asked of the server.
func TestCommands(t *testing.T) {
	tests := map[string]struct {
		args  string
		stdin string
		with  map[string]any // answers other than the usual
	}{
		"quote":        {args: "quote --gpu 1 -c 8 --mem 64G -t 2h -A nlp train:1 python train.py -c x"},
		"quote-json":   {args: "quote train:1 -o json"},
		"quote-o-json": {args: "quote -o json train:1"},
		"quote-accuracy": {args: "quote accuracy 2026-11", with: map[string]any{"GET /v1/quotes/accuracy": v1.Accuracy{
			Period: "2026-11",
			Starts: []v1.StartAccuracy{
				{Partition: "main", Said: "now", Jobs: 812, Started: 811, OnTime: 809, Late: 2, P50: "2s", P90: "9s", Latest: "1m4s"},
				{Partition: "main", Said: "estimated", Jobs: 96, Started: 90, Early: 61, OnTime: 12, Late: 20, P50: "11m40s", P90: "1h12m", Latest: "2h5m"},
				{Partition: "main", Said: "unknown", Jobs: 3, Started: 3},
			},
			Costs: []v1.CostAccuracy{{Partition: "main", Jobs: 902, P50: "41.7", P90: "93.0"}},
		}}},
		"quote-accuracy-none": {args: "quote accuracy", with: map[string]any{"GET /v1/quotes/accuracy": v1.Accuracy{Period: "2026-11"}}},
		"show-quoted":         {args: "show 118", with: map[string]any{"GET /v1/jobs/118": v1.Job{ID: "118", State: "ended", Outcome: "completed", Submitted: *at(14, 0), Started: at(16, 25), Ended: at(17, 0), Quoted: &v1.Quoted{Kind: "estimated", Start: at(16, 20), Cost: "2.288"}}}},
		"quote-refused":       {args: "quote --gpu 8 train:1", with: map[string]any{"POST /v1/quotes": v1.Quote{Reasons: reasons, Remedy: remedy}}},
		"quote-free":          {args: "quote train:1", with: map[string]any{"POST /v1/quotes": v1.Quote{Admitted: true, Billing: "off", Window: v1.Window{Kind: "now"}}}},
		"quote-unknown-start": {args: "quote train:1", with: map[string]any{"POST /v1/quotes": v1.Quote{Admitted: true, Account: "nlp", Billing: "showback", Price: quote.Price, Window: v1.Window{Kind: "unknown", Position: 11}}}},
		"submit":              {args: "submit --gpu 2 --model A100-80GB -e SEED=1 -e HOME -v data:/data:ro -v /scratch -w /w --signal USR1@120 --grace 1m --requeue node,preempt --priority -5 --pull always --qos high -n train -p gpu train:1"},
		"submit-json":         {args: "submit -o json train:1"},
		"submit-data":         {args: "submit --data train:1"},
		"submit-file":         {args: "submit -f - --gpu 2", stdin: "image: train:1\ngpu: 1\ncpu: 0.50\ncommand: [python, train.py]\nmounts:\n- {source: /data, read_only: true}\n"},
		"submit-file-unknown": {args: "submit -f -", stdin: "image: train:1\n\ngpus: 1\n"},
		"submit-refused":      {args: "submit --gpu 8 train:1", with: map[string]any{"POST /v1/jobs": refusal}},
		"submit-refused-json": {args: "submit -o json --gpu 8 train:1", with: map[string]any{"POST /v1/jobs": refusal}},
		"submit-invalid": {args: "submit --gpu -1 --mem x train:1", with: map[string]any{"POST /v1/jobs": &v1.Problem{Title: "Invalid", Status: 422, Code: "invalid", Detail: "spec.gpu: must not be negative (and 1 more)",
			Fields: []v1.Field{{Path: "gpu", Message: "must not be negative"}, {Path: "mem", Message: "want an amount such as 64G"}}}}},
		"submit-invalid-one": {args: "submit --gpu -1 train:1", with: map[string]any{"POST /v1/jobs": &v1.Problem{Status: 422, Code: "invalid", Detail: "gpu: must not be negative", Fields: []v1.Field{{Path: "gpu", Message: "must not be negative"}}}}},
		"submit-no-image":    {args: "submit --gpu 1"},
		"submit-bad-mount":   {args: "submit -v a:b:c train:1"},
		"submit-bad-env":     {args: "submit -e NOT_HERE train:1"},
		"ls":                 {args: "ls"},
		"ls-json":            {args: "ps -a -u * -A nlp -n 2 -o json"},
		"ls-none":            {args: "ls", with: map[string]any{"GET /v1/jobs": page[v1.Job]()}},
		"ls-none-json":       {args: "ls -o json", with: map[string]any{"GET /v1/jobs": page[v1.Job]()}},
		"ls-arg":             {args: "ls 118"},
		"ls-bad-output":      {args: "ls -o xml"},
		"ls-denied":          {args: "ls", with: map[string]any{"GET /v1/jobs": &v1.Problem{Status: 403, Code: "denied", Detail: "you may not see the jobs of bob"}}},
		"ls-internal":        {args: "ls", with: map[string]any{"GET /v1/jobs": &v1.Problem{Status: 500, Code: "internal", Title: "Internal error"}}},
		"show":               {args: "show 118"},
		"show-usage":         {args: "show 118", with: map[string]any{"GET /v1/jobs/118": using(running)}},
		"show-idle":          {args: "show 118", with: map[string]any{"GET /v1/jobs/118": dozing(running)}},
		"show-kept":          {args: "show 118", with: map[string]any{"GET /v1/jobs/118": kept(running)}},
		"ls-idle":            {args: "ls", with: map[string]any{"GET /v1/jobs": page(dozing(running), running)}},
		"idle":               {args: "idle -A nlp", with: map[string]any{"GET /v1/jobs": page(dozing(running), kept(running), element)}},
		"top":                {args: "top -A nlp", with: map[string]any{"GET /v1/jobs": page(using(running), running, sweep)}},
		"top-json":           {args: "top -o json", with: map[string]any{"GET /v1/jobs": page(using(running))}},
		"top-none":           {args: "top", with: map[string]any{"GET /v1/jobs": page[v1.Job]()}},
		"idle-none":          {args: "idle", with: map[string]any{"GET /v1/jobs": page[v1.Job]()}},
		"keep":               {args: "keep 6h 118 9"},
		"keep-none":          {args: "keep 6h"},
		"keep-no-time":       {args: "keep jupyter"},
		"app-unshare-whom":   {args: "app unshare 118"},
		"app-ls": {args: "app ls", with: map[string]any{"GET /v1/apps": page(
			v1.AppJob{ID: "119", Name: "jupyter", User: "ada", State: "running", Ready: &now, Access: "owner", Shared: []v1.Shared{{User: "ben", Level: "view"}},
				Apps: []v1.AppAddress{{Name: "web", URL: "http://localhost:7370/open/119"}, {Name: "board", URL: "http://localhost:7370/open/119-board"}}},
			v1.AppJob{ID: "118", User: "carl", State: "queued", Access: "full", Shared: []v1.Shared{{Account: "nlp", Level: "full"}}})}},
		"app-ls-none":  {args: "app ls", with: map[string]any{"GET /v1/apps": page[v1.AppJob]()}},
		"show-ended":   {args: "show 117"},
		"show-refused": {args: "show R-7", with: map[string]any{"GET /v1/jobs/R-7": v1.Job{ID: "R-7", State: "refused", Spec: v1.JobSpec{GPU: "8", Model: "A100-80GB"}, Submitted: now, Reasons: reasons, Remedy: remedy}}},
		"show-json":    {args: "show 117 -o json"},
		"show-yaml":    {args: "show 117 -o yaml"},
		"show-missing": {args: "show 9"},
		"show-none":    {args: "show"},
		"why":          {args: "why 131"},
		"why-json":     {args: "why 131 -o json"},
		"why-at": {args: "why 131 --at 14:03", with: map[string]any{"GET /v1/jobs/131/decisions": v1.Page[v1.Decision]{Items: []v1.Decision{
			{At: *at(13, 58), Kind: "job.submit", By: "ada", State: "queued"},
			{At: *at(14, 2), Kind: "waits", State: "queued", Message: "waits as number 3 of 5", Window: &v1.Window{Kind: "estimated", Start: at(16, 20), Position: 3, Queue: 5}, Reasons: reasons},
		}}}},
		"why-at-unseen":  {args: "why 131 --at 14:03", with: map[string]any{"GET /v1/jobs/131/decisions": v1.Page[v1.Decision]{Items: []v1.Decision{{At: *at(13, 58), Kind: "job.submit", By: "ada", State: "queued"}}}}},
		"why-at-running": {args: "why 131 --at 23:59", with: map[string]any{"GET /v1/jobs/131/decisions": v1.Page[v1.Decision]{Items: []v1.Decision{{At: *at(13, 58), Kind: "job.start", By: "system", State: "running", Message: "on gpu1"}}}}},
		"why-at-never":   {args: "why 131 --at never"},
		"why-history": {args: "why 131 --history", with: map[string]any{"GET /v1/jobs/131/decisions": v1.Page[v1.Decision]{Items: []v1.Decision{
			{At: *at(13, 58), Kind: "job.submit", By: "ada", State: "queued"},
			{At: *at(14, 2), Kind: "waits", State: "queued", Message: "waits as number 3 of 5: all 8 devices are busy", Window: &v1.Window{Kind: "estimated", Start: at(16, 20), Position: 3, Queue: 5}},
		}}}},
		"why-refused":            {args: "why R-7", with: map[string]any{"GET /v1/jobs/R-7/why": v1.Why{Job: v1.Job{ID: "R-7", State: "refused"}, Summary: "R-7 was refused", Reasons: reasons, Remedy: remedy}}},
		"why-next":               {args: "why 131", with: map[string]any{"GET /v1/jobs/131/why": v1.Why{Job: queued, Summary: "waits as number 1 of 2: what it needs is free", Window: v1.Window{Kind: "unknown", Position: 1}, Priority: []v1.Factor{{Name: "own", Value: 0}}}}},
		"why-running":            {args: "why 118", with: map[string]any{"GET /v1/jobs/118/why": v1.Why{Job: running, Summary: "runs on gpu1 since 13:01"}}},
		"logs":                   {args: "logs 117"},
		"logs-follow":            {args: "logs -f -n 5 --since 10m --attempt 1 117"},
		"stop":                   {args: "stop --now 118"},
		"stop-several":           {args: "stop 9 118"},
		"stop-missing":           {args: "stop 9"},
		"hold":                   {args: "hold 131 9"},
		"app-open":               {args: "app open 118"},
		"app-open-json":          {args: "app open 118 --app web --path /x -o json"},
		"app-share":              {args: "app share 118 --with ben --view --until +2h"},
		"workspace-share":        {args: "workspace share jupyter --with ben", with: map[string]any{"GET /v1/jobs/jupyter": v1.Job{ID: "119", Name: "jupyter", State: "running", Spec: v1.JobSpec{Kind: "workspace"}}, "POST /v1/jobs/119/share": v1.Job{ID: "119", Shared: []v1.Shared{{User: "ben", Level: "full"}}}}},
		"workspace-unshare":      {args: "workspace unshare nosuch --with ben"},
		"app-share-whom":         {args: "app share 118 --view"},
		"app-share-both":         {args: "app share 118 --public --account nlp"},
		"app-unshare":            {args: "app unshare 118 --with ben"},
		"release":                {args: "release 131"},
		"requeue":                {args: "requeue --hold 118"},
		"requeue-json":           {args: "requeue 118 -o json"},
		"ls-array":               {args: "ls", with: map[string]any{"GET /v1/jobs": page(sweep)}},
		"ls-elements":            {args: "ls -a --elements", with: map[string]any{"GET /v1/jobs": page(element, sweep)}},
		"show-array":             {args: "show 140", with: map[string]any{"GET /v1/jobs/140": sweep}},
		"show-element":           {args: "show 140_7", with: map[string]any{"GET /v1/jobs/140_7": element}},
		"stop-elements":          {args: "stop 140_[0-9] 140_12", with: map[string]any{"POST /v1/jobs/140_[0-9]/stop": sweep, "POST /v1/jobs/140_12/stop": v1.Job{ID: "140_12", State: "stopping"}}},
		"submit-array":           {args: "submit --array 0-99999:2%50 train:1"},
		"run-array":              {args: "run --array 0-9 train:1"},
		"ls-held":                {args: "ls -s held", with: map[string]any{"GET /v1/jobs": page(later, evening)}},
		"show-held":              {args: "show 132", with: map[string]any{"GET /v1/jobs/132": later}},
		"why-held":               {args: "why 132", with: map[string]any{"GET /v1/jobs/132/why": v1.Why{Job: later, Window: v1.Window{Kind: "unknown"}, Reasons: later.Reasons}}},
		"submit-later":           {args: "submit --begin 20:00 --deadline 2026-12-24 --after afterok:131?afterany:118+30m --hold --max-requeues 2 train:1", with: map[string]any{"POST /v1/jobs": evening}},
		"submit-later-file":      {args: "submit -f - --deadline +2h", stdin: "image: train:1\nbegin: \"2026-12-02 06:00\"\nhold: true\n"},
		"submit-begin-bad":       {args: "submit --begin soon train:1"},
		"clone-later":            {args: "clone R-7 --begin 20:00 --max-requeues 1 --after afterok:131"},
		"clone":                  {args: "clone R-7 --gpu 4 --set env.SEED=2 --set time=1h --requeue node,timeout"},
		"extend":                 {args: "extend 131 36h"},
		"extend-denied":          {args: "extend 131 36h", with: map[string]any{"POST /v1/jobs/131/extend": &v1.Problem{Status: 403, Code: "denied", Detail: "this needs the role operator or admin; yours is user"}}},
		"prioritize":             {args: "prioritize 131 5000"},
		"prioritize-below":       {args: "prioritize 131 -- -100"},
		"prioritize-clear":       {args: "prioritize 131 --clear"},
		"prioritize-both":        {args: "prioritize 131 5 --clear"},
		"prioritize-neither":     {args: "prioritize 131"},
		"prioritize-word":        {args: "prioritize 131 high"},
		"fairshare":              {args: "fairshare"},
		"fairshare-json":         {args: "fairshare -o json"},
		"fairshare-of":           {args: "fairshare ada", with: map[string]any{"GET /v1/fairshare": v1.FairShare{Nodes: []v1.ShareNode{}}}},
		"clone-bad-set":          {args: "clone R-7 --set gpu"},
		"events":                 {args: "events -n 10"},
		"events-job":             {args: "events -n 3 --job 131", with: map[string]any{"GET /v1/events": eventPages(2, 5)}},
		"events-json":            {args: "events --after 1200 -j 131 -o json"},
		"account":                {args: "account"},
		"account-bogus":          {args: "account frobnicate"},
		"account-add":            {args: "account add nlp --from-group nlp-lab --parent faculty --billing enforce"},
		"account-ls":             {args: "account ls"},
		"account-ls-json":        {args: "account ls -o json"},
		"account-show":           {args: "account show nlp"},
		"account-show-json":      {args: "account show nlp -o json"},
		"account-set":            {args: "account set nlp --billing enforce --closed=false"},
		"account-set-overdraft":  {args: "account set owing --out-of-credit overdraft --overdraft 50"},
		"account-show-overdraft": {args: "account show owing"},
		"account-set-weight":     {args: "account set nlp --weight 3"},
		"account-add-ends":       {args: "account add course --ends 2027-03-31"},
		"account-set-ends":       {args: "account set nlp --ends never"},
		"account-import":         {args: "account import nlp - --prune --ends 2027-03-31", stdin: "name\nada\n"},
		"account-import-dry":     {args: "account import nlp - --dry-run", stdin: "name\nada\n", with: map[string]any{"POST /v1/accounts/nlp/import": v1.Import{Account: "nlp", DryRun: true, Kept: 1}}},
		"account-import-bad": {args: "account import nlp -", stdin: "name\nAda\n", with: map[string]any{"POST /v1/accounts/nlp/import": &v1.Problem{Status: 422, Code: "invalid", Detail: "line 2: …",
			Fields: []v1.Field{{Path: "line 2", Message: "name: \"Ada\" must be 1 to 63 of a-z"}, {Path: "line 7", Message: "role: \"king\" must be viewer, member, manager or owner"}}}}},
		"account-import-gone": {args: "account import nlp /no/such/file"},
		"account-import-utf8": {args: "account import nlp -", stdin: "name\nM\xfcller\n"},
		"account-move":        {args: "account move nlp --under faculty"},
		"account-move-where":  {args: "account move nlp"},
		"account-rm":          {args: "account rm nlp --expire-grants"},
		"account-rm-in-use":   {args: "account rm faculty", with: map[string]any{"DELETE /v1/accounts/faculty": &v1.Problem{Status: 409, Code: "conflict", Detail: "account faculty is in use: account nlp is below it"}}},
		"member-add-ends":     {args: "account member add nlp ada --ends +14d"},
		"user-retire":         {args: "user retire ada --stop"},
		"user-set-ends":       {args: "user set ada --ends 2027-03-31"},
		"account-set-none":    {args: "account set nlp"},
		"member-add":          {args: "account member add nlp ada --role owner"},
		"member-weight":       {args: "account member add nlp ada --weight 2"},
		"member-rm":           {args: "account member rm nlp ada"},
		"user-add":            {args: "user add ada --uid 0 --role user"},
		"user-ls":             {args: "user ls"},
		"user-ls-json":        {args: "user ls -o json"},
		"user-show":           {args: "user show"},
		"user-set":            {args: "user set ada --blocked --role operator"},
		"user-set-none":       {args: "user set ada"},
		"token-create":        {args: "user token create laptop --expires 2027-02-28"},
		"token-create-json":   {args: "user token create laptop -o json"},
		"notice-show":         {args: "notice show"},
		"notice-show-none":    {args: "notice show -u ada", with: map[string]any{"GET /v1/users/ada/contact": v1.Contact{Mail: "budget"}}},
		"notice-address":      {args: "notice address ada@example.org"},
		"notice-address-none": {args: "notice address none", with: map[string]any{"PATCH /v1/users/ada/contact": v1.Contact{Mail: "budget", On: true}}},
		"notice-set":          {args: "notice set fail,stop"},
		"notice-ls":           {args: "notice ls -u * --state waiting,given_up -j 116"},
		"notice-ls-json":      {args: "notice ls -n 1 -o json"},
		"notice-test":         {args: "notice test"},
		"token-ls":            {args: "user token ls"},
		"token-capped":        {args: "user token create ci -A nlp --spend 50 --spend-per month --devices 2", with: map[string]any{"POST /v1/users/ada/tokens": agent}},
		"token-ls-capped":     {args: "user token ls", with: map[string]any{"GET /v1/users/ada/tokens": page(agent)}},
		"token-show":          {args: "user token show 7", with: map[string]any{"GET /v1/users/ada/tokens": page(agent)}},
		"token-show-none":     {args: "user token show 8", with: map[string]any{"GET /v1/users/ada/tokens": page(agent)}},
		"token-asks":          {args: "user token create agent --spend 50 --ask-above 5", with: map[string]any{"POST /v1/users/ada/tokens": agent}},
		"token-revoke":        {args: "user token revoke 5 -u ada"},
		"token-narrowed":      {args: "user token create agent --scope read,submit -A nlp"},
		"passwd":              {args: "passwd --stdin", stdin: "correct horse\r\n"},
		"passwd-own":          {args: "passwd --stdin", stdin: "correct horse\nbattery staple", with: map[string]any{"GET /v1/me": v1.Me{User: "ada", Role: "user", Password: true}}},
		"passwd-own-short":    {args: "passwd --stdin", stdin: "correct horse", with: map[string]any{"GET /v1/me": v1.Me{User: "ada", Role: "user", Password: true}}},
		"passwd-other":        {args: "passwd eve --stdin", stdin: "correct horse\n"},
		"passwd-remove":       {args: "passwd eve --remove"},
		"passwd-no-terminal":  {args: "passwd"},
		"login-socket":        {args: "login"},
		"login-clear":         {args: "login http://croft.example.org"},
		"login-secret":        {args: "login https://ada:secret@croft.example.org"},
		"logout-none":         {args: "logout"},
		"session-ls":          {args: "session ls"},
		"session-ls-json":     {args: "session ls -o json"},
		"session-revoke":      {args: "session revoke 9"},
		"session-revoke-all":  {args: "session revoke --all -u ada"},
		"session-which":       {args: "session revoke"},
		"grant-add":           {args: "grant add nlp 500 --source DFG-123 --start 2026-12-01 --until 2027-03-31 --subtree"},
		"grant-add-nosource":  {args: "grant add nlp 500"},
		"grant-add-bad-date":  {args: "grant add nlp 500 --source x --until 31.3.2027"},
		"grant-ls":            {args: "grant ls -A nlp"},
		"grant-ls-carried": {args: "grant ls", with: map[string]any{"GET /v1/grants": page(
			v1.Grant{ID: "2", Account: "nlp", Amount: "500.000", Source: "allowance month 2026-10", End: utc(2026, 11, 1), Available: "0.000", Deposits: "0.000", Spent: "400.000", State: "ended", Used: 80, Allowance: "month", Carried: "100.000"})}},
		"request-join":          {args: "request join nlp --until 2027-03-31 -m my-thesis --expires +3d"},
		"request-credits":       {args: "request credits nlp 200 --source DFG-123 --until 2027-03-31 --subtree"},
		"request-transfer":      {args: "request transfer vision nlp 50 --grant 12"},
		"request-limit":         {args: "request limit gpu-hours 800 -A nlp --per month"},
		"request-limit-whose":   {args: "request limit gpu 8"},
		"request-wall":          {args: "request wall 131 36h -m slower"},
		"request-reservation":   {args: "request reservation visit -A nlp --gpu 2 --from 2026-12-02T09:00 --for 2h"},
		"request-asset-image":   {args: "request asset nlp --image croft.local/ben/env:v2"},
		"request-asset-folder":  {args: "request asset nlp --folder imagenet --of vision"},
		"request-asset-neither": {args: "request asset nlp"},
		"request-ls":            {args: "request ls"},
		"request-ls-inbox":      {args: "request ls --inbox --kind join -A nlp"},
		"request-ls-both":       {args: "request ls --inbox --mine"},
		"request-ls-all-json":   {args: "request ls -a -o json"},
		"request-show":          {args: "request show 7"},
		"request-show-failed":   {args: "request show 8"},
		"request-approve":       {args: "request approve 7 -m welcome"},
		"request-approve-json":  {args: "request approve 7 --source DFG-123 -o json"},
		"request-reject":        {args: "request reject 7 -m no-room"},
		"request-withdraw":      {args: "request withdraw 7"},
		"request-remind":        {args: "request remind 7"},
		"grant-transfer":        {args: "grant transfer vision nlp 50 --grant 12 --subtree"},
		"allowance-set":         {args: "allowance set nlp 500 --per month --carry-over 100 --from 2026-11-01 --until 2027-03-31 --source DFG-123 --subtree"},
		"allowance-set-no-per":  {args: "allowance set nlp 500"},
		"allowance-ls":          {args: "allowance ls nlp"},
		"allowance-ls-json":     {args: "allowance ls -o json"},
		"allowance-rm":          {args: "allowance rm nlp/month"},
		"allowance-rm-no-name":  {args: "allowance rm nlp"},
		"grant-ls-json":         {args: "grant ls -o json"},
		"price-set":             {args: "price set --gpu A100-80GB=1.5 --gpu *=1 --cpu 0.01 --mem 0.001 -p gpu --from 2027-01-01"},
		"price-set-none":        {args: "price set"},
		"price-ls":              {args: "price ls"},
		"price-ls-json":         {args: "price ls -o json"},
		"limit-set":             {args: "limit set gpu 4 -A nlp -u ada"},
		"limit-set-noscope":     {args: "limit set gpu 4"},
		"limit-ls":              {args: "limit ls"},
		"limit-ls-json":         {args: "limit ls -o json"},
		"limit-show":            {args: "limit show"},
		"limit-set-jobs":        {args: "limit set job.gpu 1 -q normal", with: map[string]any{"POST /v1/limits": smaller}},
		"limit-set-hours":       {args: "limit set gpu-hours:a100 500 -A nlp --per month --carry-over 50%", with: map[string]any{"POST /v1/limits": hours}},
		"limit-set-credits":     {args: "limit set credits 100 -A nlp -u ada --per month", with: map[string]any{"POST /v1/limits": spendCap}},
		"limit-show-credits":    {args: "limit show --who ada", with: map[string]any{"GET /v1/limits": v1.Page[v1.LimitUse]{Items: []v1.LimitUse{spendCap}}}},
		"quote-capped":          {args: "quote train:1", with: map[string]any{"POST /v1/quotes": capped}},
		"limit-show-who":        {args: "limit show --who ada -p main -q normal"},
		"limit-rm":              {args: "limit rm 3"},
		"limit-rm-scope":        {args: "limit rm gpu -A nlp -u ada"},
		"limit-rm-no-such":      {args: "limit rm cpu -A nlp -u ada"},
		"account-move-dry":      {args: "account move nlp --under faculty --dry-run"},
		"reservation-now":       {args: "reservation add ml24 -A course --from now --for 2h --gpu 1"},
		"quote-stops":           {args: "quote train:1", with: map[string]any{"POST /v1/quotes": v1.Quote{Admitted: true, Billing: "off", Window: v1.Window{Kind: "promised", Start: in(90), Position: 1, Stops: 2}}}},
		"quote-stops-now":       {args: "quote train:1", with: map[string]any{"POST /v1/quotes": v1.Quote{Admitted: true, Billing: "off", Window: v1.Window{Kind: "now", Start: in(0), Position: 1, Stops: 1}}}},
		"share-set":             {args: "share set nlp gpu 8 -p gpu --limit 16 --lend 4 --weight 2"},
		"share-set-nowhere":     {args: "share set nlp gpu 8"},
		"share-ls":              {args: "share ls -p gpu"},
		"share-ls-json":         {args: "share ls -o json"},
		"share-show":            {args: "share show nlp"},
		"share-show-none":       {args: "share show nlp", with: map[string]any{"GET /v1/shares": page[v1.ShareUse]()}},
		"share-rm":              {args: "share rm 2"},
		"ledger-verify":         {args: "ledger verify"},
		"ledger-verify-json":    {args: "ledger verify -o json"},
		"ledger-drift":          {args: "ledger verify", with: map[string]any{"GET /v1/ledger/verify": drift}},
		"ledger-show":           {args: "ledger show -j 131"},
		"ledger-show-json":      {args: "ledger show -o json"},
		"statement":             {args: "statement nlp 2026-11"},
		"statement-json":        {args: "statement nlp -o json"},
		"statement-closed":      {args: "statement nlp 2026-11", with: map[string]any{"GET /v1/statements/accounts/nlp": sealed}},
		"statement-closed-html": {args: "statement nlp 2026-11 -o html", with: map[string]any{"GET /v1/statements/accounts/nlp": sealed}},
		"grant-ls-warned": {args: "grant ls", with: map[string]any{"GET /v1/grants": page(
			v1.Grant{ID: "1", Account: "nlp", Amount: "500.000", Source: "DFG-123", Available: "90.000", Deposits: "10.000", Spent: "400.000", State: "open", Used: 82, Warning: "90.000 are left", Lasts: day(2026, 12, 18)},
			v1.Grant{ID: "2", Account: "nlp", Amount: "10.000", Source: "gift", Available: "0.100", Deposits: "0.000", Spent: "9.900", State: "open", Used: 99, Warning: "nearly used up: 0.100 are left"})}},
		"audit-ls":                   {args: "audit ls"},
		"audit-ls-json":              {args: "audit ls --changes -o json"},
		"audit-ls-none":              {args: "audit ls --row account:9", with: map[string]any{"GET /v1/audit": page[v1.AuditRow]()}},
		"audit-show":                 {args: "audit show 1"},
		"audit-show-none":            {args: "audit show 9"},
		"audit-show-what":            {args: "audit show last"},
		"audit-export":               {args: "audit export"},
		"audit-verify":               {args: "audit verify -", stdin: exported(audited), with: map[string]any{"GET /v1/audit": page(audited[2])}},
		"audit-verify-offline":       {args: "audit verify --offline -", stdin: exported(audited[1:])},
		"audit-verify-tampered":      {args: "audit verify -", stdin: strings.Replace(exported(audited), "weight", "height", 1)},
		"audit-verify-missing":       {args: "audit verify -", stdin: exported([]v1.AuditRow{audited[0], audited[2]})},
		"audit-verify-another":       {args: "audit verify -", stdin: exported(audited[:1]), with: map[string]any{"GET /v1/audit": page(forged)}},
		"audit-verify-nothing":       {args: "audit verify -"},
		"audit-verify-text":          {args: "audit verify -", stdin: "seq,at\n"},
		"audit-verify-after":         {args: "audit verify --after 7 -", stdin: exported(audited)},
		"period-ls":                  {args: "period ls"},
		"period-show":                {args: "period show 2026-11"},
		"period-show-tampered":       {args: "period show 2026-11", with: map[string]any{"GET /v1/periods/2026-11": v1.Period{Period: "2026-11", State: "closed", Closed: day(2026, 12, 1), Hash: november.Hash, Difference: "what is kept of account nlp isn't what it was"}}},
		"period-show-open":           {args: "period show 2026-11", with: map[string]any{"GET /v1/periods/2026-11": v1.Period{Period: "2026-11", State: "open", Open: []string{"job 118 is out of contact: wait until its node answers again"}}}},
		"period-close":               {args: "period close 2026-11"},
		"period-close-nothing":       {args: "period close"},
		"statement-csv":              {args: "statement nlp 2026-11 -o csv", with: map[string]any{"GET /v1/statements/accounts/nlp": deep}},
		"statement-focus":            {args: "statement nlp 2026-11 -o focus", with: map[string]any{"GET /v1/statements/accounts/nlp": deep}},
		"statement-html":             {args: "statement nlp 2026-11 -o html", with: map[string]any{"GET /v1/statements/accounts/nlp": deep}},
		"statement-device":           {args: "statement nlp 2026-11 --by device", with: map[string]any{"GET /v1/statements/accounts/nlp": deep}},
		"statement-machine":          {args: "statement --machine 2026-11"},
		"statement-node":             {args: "statement --machine gpu1 2026-11 -o csv"},
		"statement-of-nobody":        {args: "statement"},
		"statement-focus-of-machine": {args: "statement --machine gpu1 -o focus"},
		"ls-csv":                     {args: "ls -o csv"},
		"node-ls":                    {args: "node ls"},
		"node-ls-json":               {args: "node ls -o json"},
		"node-label":                 {args: "node label gpu1 nvlink zone=a old-"},
		"node-label-show":            {args: "node label gpu1"},
		"node-drain":                 {args: "node drain gpu1 --reason driver"},
		"node-resume":                {args: "node resume gpu1"},
		"maintenance-add":            {args: "node maintenance add gpu1 --from 2026-12-03 --to 2026-12-03 --reason driver"},
		"maintenance-for":            {args: "node maintenance add gpu1 --from +1h --for 1d2h"},
		"maintenance-until":          {args: "node maintenance add gpu1"},
		"maintenance-ls":             {args: "node maintenance ls"},
		"maintenance-rm":             {args: "node maintenance rm 2"},
		"reservation-add":            {args: "reservation add ml24 -A nlp --user ada --payer nlp -p gpu --count 40 --gpu 1 --model A100-80GB -c 4 --mem 16G -C nvlink --from 09:00 --for 1d2h --every mon,wed --until 2027-01-31 --reason course --dry-run"},
		"reservation-nodes":          {args: "reservation add whole --account nlp --node gpu1 --to 2026-12-03"},
		"reservation-when":           {args: "reservation add ml24 --account nlp"},
		"reservation-taken":          {args: "reservation add ml24 --account nlp --for 2h", with: map[string]any{"POST /v1/reservations": &v1.Problem{Status: 409, Code: "conflict", Detail: "not free from 2026-12-01 09:00:00 UTC until 2026-12-01 11:00:00 UTC: job 118 until 2026-12-01 10:00:00 UTC; free from 2026-12-01 10:00:00 UTC", Reasons: []v1.Reason{{Code: "RESERVATION_CONFLICT", Scope: "job 118", Message: "job 118 of ada (nlp) on gpu1 until 2026-12-01 10:00:00 UTC"}}}}},
		"reservation-ls":             {args: "reservation ls"},
		"step-run-detached":          {args: "step run -d --image tool:1 -c 2 --mem 4G --gpu 0 -t 1h --grace 5s -n x -w /w --pull never -e A=b -v /data:/d:ro 118 -- eval -x"},
		"step-run-refused":           {args: "step run --gpu 9 118 -- eval", with: map[string]any{"POST /v1/jobs/118/steps": &v1.Problem{Status: 422, Code: "refused", Detail: "asked for gpu 9, job 118 has 1", Reasons: []v1.Reason{{Code: "STEP_RES_BEYOND", Field: "gpu", Observed: "9", Bound: "1", Message: "asked for gpu 9, job 118 has 1", Never: true}}}}},
		"step-run": {args: "step run 118", with: map[string]any{
			"POST /v1/jobs/118/steps": v1.Step{ID: "118.2", Job: "118", N: 2, State: "queued", Message: "waits for its image"},
			"GET /v1/jobs/118/logs":   log(v1.LogFrame{Stream: 1, At: now, Data: []byte("epoch 1\n")}, v1.LogFrame{Stream: 2, At: now, Data: []byte("warning\n")}),
		}},
		"step-ls":             {args: "step ls 118"},
		"step-ls-none":        {args: "step ls --live 118", with: map[string]any{"GET /v1/jobs/118/steps": page[v1.Step]()}},
		"step-show":           {args: "step show 118.3"},
		"step-show-json":      {args: "step show 118.3 -o json"},
		"step-show-ended":     {args: "step show 118.2"},
		"step-no-name":        {args: "step show 118"},
		"step-wait":           {args: "step wait 118.2"},
		"step-stop":           {args: "step stop --grace 5s 118.3"},
		"step-stop-now":       {args: "step stop --now 118.3"},
		"logs-step":           {args: "logs -n 1 118.2", with: map[string]any{"GET /v1/jobs/118/logs": log(v1.LogFrame{Stream: 1, At: now, Data: []byte("epoch 1\n")})}},
		"reservation-ls-json": {args: "reservation ls -o json"},
		"reservation-show":    {args: "reservation show ml24"},
		"class-open":          {args: "class open nlp --at 09:00 --for 2h --seats 40 --image train:1 -c 4 --mem 16G --model A100-80GB --name ml24 --every mon,wed --until 2027-01-31", with: map[string]any{"POST /v1/reservations": class}},
		"class-open-seats":    {args: "class open nlp --for 2h"},
		"class-open-when":     {args: "class open nlp --seats 40"},
		"class-ls":            {args: "class ls", with: map[string]any{"GET /v1/reservations": page(ml24, class)}},
		"class-ls-none":       {args: "class ls"},
		"class-ls-json":       {args: "class ls -o json", with: map[string]any{"GET /v1/reservations": page(ml24, class)}},
		"class-show":          {args: "class show ml24", with: map[string]any{"GET /v1/reservations/ml24": class}},
		"class-close":         {args: "class close ml24"},
		"reservation-rm":      {args: "reservation rm ml24"},
		"reservation-rm-one":  {args: "reservation rm ml24 --window 8"},
		"qos-add":             {args: "qos add urgent --priority 1000 --factor 2 --max-time 4h --accounts nlp --partitions gpu --busy refuse --preempts normal"},
		"qos-set":             {args: "qos set urgent --preempts  --min-run 10m --preempt-signal USR1 --exempt=false"},
		"qos-set-none":        {args: "qos set urgent"},
		"qos-ls":              {args: "qos ls"},
		"qos-ls-json":         {args: "qos ls -o json"},
		"qos-show":            {args: "qos show urgent"},
		"qos-show-normal":     {args: "qos show normal"},
		"qos-rm":              {args: "qos rm urgent"},
		"partition-add":       {args: "partition add gpu --nodes gpu1,gpu2 --deny guests --qos normal,urgent"},
		"partition-set":       {args: "partition set gpu --max-time 24h --accounts "},
		"partition-set-none":  {args: "partition set gpu"},
		"partition-ls":        {args: "partition ls"},
		"partition-show":      {args: "partition show gpu"},
		"partition-rm":        {args: "partition rm gpu"},
		"complete-qos":        {args: "__complete run --qos "},
		"status":              {args: "status"},
		"storage": {args: "storage ls", with: map[string]any{"GET /v1/users/ada/storage": page(
			v1.Storage{User: "ada", Path: "/home/ada", FileSystem: "xfs", By: "user", Used: "12M", Limit: "1G", Files: 41, MaxFiles: 100_000, Free: "5.1T"},
			v1.Storage{Account: "nlp", Folder: "corpora", Path: "/srv/nlp/corpora", FileSystem: "ext4", By: "project", Used: "1.5G", Files: 3, Free: "300G"},
			v1.Storage{Folder: "hub", Path: "/srv/\x1b[31mhub", FileSystem: "tmpfs", Free: "3M", Note: "no quotas: mount it with pquota"},
		)}},
		"storage-set": {args: "storage set --account nlp --folder corpora 2T --files 5000", with: map[string]any{
			"POST /v1/storage": v1.Storage{Account: "nlp", Folder: "corpora", Path: "/srv/nlp/corpora", By: "project", Used: "1.5G", Limit: "2T", Files: 3, MaxFiles: 5000},
		}},
		"storage-set-nothing": {args: "storage set 2T"},
		"kube-plan": {args: "kube plan", with: map[string]any{"GET /v1/queues/plan": v1.QueuePlan{Scheduler: "kueue", Applies: true, Changes: []v1.QueueChange{
			{Action: "create", Kind: "LocalQueue", Namespace: "croft-jobs", Name: "croft.gpu.nlp"},
			{Action: "update", Kind: "ClusterQueue", Name: "croft.gpu.nlp", Fields: []v1.QueueField{{Path: "spec.cohortName", From: `"\x1b[31mx"`, To: `"croft.gpu"`}}},
			{Action: "conflict", Kind: "Cohort", Name: "croft.gpu", Error: "this Cohort isn't Croft's"},
		}, Notes: []string{"account nlp in partition gpu: the bounds of gpu are kept by Croft alone"}}}},
		"kube-plan-same":   {args: "kube plan --exit-code", with: map[string]any{"GET /v1/queues/plan": v1.QueuePlan{Scheduler: "volcano"}}},
		"kube-plan-status": {args: "kube plan --exit-code -o json", with: map[string]any{"GET /v1/queues/plan": v1.QueuePlan{Scheduler: "volcano", Changes: []v1.QueueChange{{Action: "delete", Kind: "Queue", Name: "croft.gpu"}}}}},
		"status-json":      {args: "status -o json"},
		"server":           {args: "server --data x"},
		"setup":            {args: "setup --check"},
		"version":          {args: "--version"},
		"unknown-command":  {args: "frobnicate"},
		"unknown-flag":     {args: "ls --frobnicate"},
		"missing-value":    {args: "ls -A"},
		"complete-job":     {args: "__complete stop 1"},
		"complete-account": {args: "__complete run -A "},
		"complete-user":    {args: "__complete ls -u "},
		"complete-model":   {args: "__complete quote --model "},
		"complete-member":  {args: "__complete account member add nlp "},
		"completion-bogus": {args: "completion tcsh"},
	}
	used := map[string]bool{}
	for name, test := range tests {
		used[name+".golden"] = true
		t.Run(name, func(t *testing.T) {
			f := &fake{answers: map[string]any{}}
			for k, v := range answers {
				f.answers[k] = v
			}
			for k, v := range test.with {
				f.answers[k] = v
			}
			b := newBench(t, f)
			b.vars["HOME"] = "/home/ada"
			b.app.env.Stdin = strings.NewReader(test.stdin)
			code := b.run(strings.Split(test.args, " ")...)
			golden(t, "commands/"+name, transcript(test.args, b, code, f.requests()))
		})
	}
	noOrphans(t, "testdata/commands", used)
}

func transcript(args string, b *bench, code int, asked []string) string {
	var s strings.Builder
	fmt.Fprintf(&s, "$ croft %s\n%s", args, b.stdout)
	if e := b.stderr.String(); e != "" {
		fmt.Fprintf(&s, "--- stderr\n%s", e)
	}
	fmt.Fprintf(&s, "--- exit %d\n", code)
	for _, r := range asked {
		fmt.Fprintln(&s, r)
	}
	return s.String()
}

// noOrphans fails for golden files of tests that are no more.
func noOrphans(t *testing.T, dir string, used map[string]bool) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !used[filepath.Base(path)] {
			t.Errorf("%s belongs to no test", path)
			if *update {
				err = os.Remove(path)
			}
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestTablesFit runs every listing with absurdly long content.
func TestTablesFit(t *testing.T) {
	long := strings.Repeat("very-long-näme-世界-", 20)
	f := &fake{answers: map[string]any{
		"GET /v1/jobs":               page(v1.Job{ID: "100000", Name: long, User: long, Account: long, State: "out_of_memory", Node: long, Started: at(1, 0), Spec: v1.JobSpec{GPU: "1000", CPU: "100000", Mem: "100000G"}, Contact: long}),
		"GET /v1/accounts":           page(v1.Account{Name: long, Parent: long, Group: long, Billing: "showback", Balance: &v1.AccountMoney{Available: "1000000000.000", Deposits: "1000000000.000", Spent: "1000000000.000"}}),
		"GET /v1/users":              page(v1.User{Name: long, Role: "operator", UID: &uid, Warning: long, Accounts: []v1.Membership{{Account: long, Role: "owner"}}}),
		"GET /v1/users/ada/tokens":   page(v1.Token{ID: "1", Name: long, User: long}),
		"GET /v1/users/ada/sessions": page(v1.Session{ID: "1", Name: long, User: long}),
		"GET /v1/me":                 me,
		"GET /v1/status":             status,
		"GET /v1/grants":             page(v1.Grant{ID: "1", Account: long, Source: long, Amount: "1000000000.000", Available: "1000000000.000", Deposits: "1000000000.000", Spent: "1000000000.000", End: day(2027, 1, 1), State: "expired"}),
		"GET /v1/requests":           page(v1.Request{ID: "100000", State: "withdrawn", User: long, Asks: long + " asks for 1000000000.000 credits of " + long + " for " + long, Created: *day(2026, 11, 1), Expires: *day(2027, 1, 1), Mine: true}),
		"GET /v1/allowances":         page(v1.Allowance{Account: long, Name: "month", Amount: "1000000000.000", Per: "quarter", CarryOver: "1000000000.000", Source: long, From: "2026-11-01", Until: "2027-03-31", Grant: "100000", Next: day(2027, 1, 1)}),
		"GET /v1/prices":             page(v1.PriceVersion{ID: "1", Partition: long, GPU: map[string]string{long: "1.000", "b": "2.000"}, CPU: "1.000", Mem: "1.000", By: long}),
		"GET /v1/limits":             page(v1.LimitUse{Limit: v1.Limit{ID: "1", Account: long, User: long, Resource: "gpu:" + long, Max: "100"}, Used: "5", From: long}),
		"GET /v1/shares":             page(v1.ShareUse{Share: v1.Share{ID: "1", Account: long, Partition: long, Resource: "gpu:" + long, Guaranteed: "100", Limit: "1000", Borrow: "1000", Lend: "100"}, Used: "1000", Borrowed: "900", Free: "0"}),
		"GET /v1/ledger/transfers":   page(v1.Transfer{ID: "1", From: long, To: long, Amount: "1000000000.000", Kind: "deposit", Job: "100000"}),
		"GET /v1/nodes":              page(v1.Node{Name: long, State: "drained", Reason: long, Devices: []v1.Device{{Name: long, Model: long, State: "foreign", Reason: long, User: long}}}),
		"GET /v1/maintenance":        page(v1.Maintenance{ID: "1", Node: long, Reason: long}),
		"GET /v1/reservations":       page(v1.Reservation{Name: long, State: "planned", Accounts: []string{long}, Users: []string{long}, Count: 1000, GPU: "8", Model: long, CPU: "1000", Mem: "1000G", Where: long, Every: "mon,tue,wed,thu,sat,sun", Running: 100000}),
		"GET /v1/jobs/1/steps":       page(v1.Step{ID: "140_99999.1000", State: "stopping", Spec: v1.StepSpec{Name: long, Image: long}, Devices: []string{"gpu0", "gpu1", "gpu2"}, Message: long}),
		"GET /v1/qos":                page(v1.QoS{Name: long, Factor: "1000", Priority: -1_000_000, MaxTime: "1000d", Busy: "refuse", Preempts: []string{long}, Restricted: true, Accounts: []string{long}, Default: true, Configured: true}),
		"GET /v1/partitions":         page(v1.Partition{Name: long, Nodes: []string{long}, MaxTime: "1000d", DefaultTime: "1000d", Priority: -1_000_000, Restricted: true, Accounts: []string{long}, Default: true, Configured: true}),
		"GET /v1/events":             page(v1.Event{Seq: 1 << 40, Kind: "job.submit", By: long, Job: "1", State: "queued", Message: long}),
	}}
	for _, args := range []string{"ls", "account ls", "user ls", "user token ls", "session ls", "grant ls", "allowance ls", "request ls", "price ls", "limit ls", "share ls", "ledger show", "node ls", "node maintenance ls", "reservation ls", "qos ls", "partition ls", "events", "step ls 1"} {
		t.Run(args, func(t *testing.T) {
			b := newBench(t, f)
			if code := b.run(strings.Fields(args)...); code != 0 {
				t.Fatalf("exit %d: %s", code, b.stderr)
			}
			lines := strings.Split(strings.TrimSuffix(b.stdout.String(), "\n"), "\n")
			if len(lines) < 2 {
				t.Fatalf("no rows: %q", lines)
			}
			for _, l := range lines {
				if w := displayWidth(l); w > 100 {
					t.Errorf("%d cells: %s", w, l)
				}
			}
			if !strings.Contains(lines[1], "…") {
				t.Errorf("nothing was cut: %s", lines[1])
			}
		})
	}
}

// TestColour: colours on a terminal only, and not with NO_COLOR.
func TestColour(t *testing.T) {
	tests := map[string]struct {
		terminal bool
		vars     map[string]string
		want     bool
	}{
		"terminal": {true, nil, true},
		"pipe":     {false, nil, false},
		"NO_COLOR": {true, map[string]string{"NO_COLOR": "1"}, false},
		"dumb":     {true, map[string]string{"TERM": "dumb"}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, &fake{answers: map[string]any{"GET /v1/jobs": page(running, failed)}})
			b.vars = test.vars
			b.app.env.Term.Out = test.terminal
			b.run("ls")
			out := b.stdout.String()
			if got := strings.Contains(out, "\x1b[32mrunning"); got != test.want {
				t.Errorf("colour is %v in %q", got, out)
			}
			if strings.Contains(out, "prep\x1b") {
				t.Errorf("a name drives the terminal: %q", out)
			}
		})
	}
}
