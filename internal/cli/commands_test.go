package cli

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
	pulling = v1.Job{ID: "119", Name: "pull", User: "bob", Account: "vision", State: "starting", Progress: "pulling 40 %", Spec: v1.JobSpec{GPU: "2", CPU: "16", Mem: "128G"}, Submitted: *at(15, 9)}

	reasons = []v1.Reason{
		{Code: "DEVICES_NEVER_FIT", Message: "asked for 8 gpu, gpu1 has 4", Field: "gpu", Observed: "8", Bound: "4", Scope: "node gpu1", Never: true},
		{Code: "LIMIT_TIME", Message: "asked for 48h, account nlp allows 24h", Field: "time", Observed: "48h", Bound: "24h", Scope: "account nlp"},
	}
	remedy  = &v1.Remedy{Set: map[string]string{"gpu": "4"}, Flags: "--gpu 4", Start: at(16, 40)}
	refusal = &v1.Problem{Title: "Refused", Status: 422, Code: "refused", Detail: "asked for 8 gpu, gpu1 has 4", ID: "R-7", Reasons: reasons, Remedy: remedy}

	member  = []v1.Member{{User: "ada", Role: "owner"}, {User: "bob", Role: "member", Group: true}}
	grant   = v1.Grant{ID: "1", Account: "nlp", Amount: "500.000", Source: "DFG-123", End: day(2027, 4, 1), Available: "187.627", Deposits: "0.000", Spent: "312.373", State: "open"}
	limit   = v1.Limit{ID: "3", Account: "nlp", User: "ada", Resource: "gpu", Max: "4"}
	limits  = []v1.LimitUse{{Limit: limit, Used: "1", From: "set for ada in nlp"}, {Limit: v1.Limit{ID: "1", Account: "faculty", Resource: "mem", Max: "512G"}, Used: "64G", From: "account faculty, above nlp"}}
	account = v1.Account{Name: "nlp", Parent: "faculty", Billing: "enforce", Group: "nlp-lab", Members: member, Balance: &v1.AccountMoney{Available: "187.627", Deposits: "2.288", Spent: "312.373"}, Usage: limits, Grants: []v1.Grant{grant}}
	user    = v1.User{Name: "ada", Role: "user", UID: &uid, Accounts: []v1.Membership{{Account: "nlp", Role: "owner"}}}
	me      = v1.Me{User: "ada", Role: "user", Accounts: user.Accounts}
	price   = v1.PriceVersion{ID: "1", From: day(2026, 1, 1), CPU: "0.010", Mem: "0.001", GPU: map[string]string{"A100-80GB": "1.500", "*": "1.000"}, By: "root"}
	node    = v1.Node{Name: "gpu1", State: "ok", Partitions: []string{"gpu"}, CPU: v1.Use{Used: "8", Total: "64"}, Mem: v1.Use{Used: "64G", Total: "512G"},
		Devices:     []v1.Device{{UUID: "GPU-0", Name: "0", Model: "A100-80GB", State: "used", Job: "118", User: "ada", Account: "nlp"}, {UUID: "GPU-1", Name: "1", Model: "A100-80GB", State: "free"}, {UUID: "GPU-3", Name: "3", Model: "A100-80GB", State: "foreign", Reason: "pid 8812 (u311), not Croft's"}},
		Maintenance: []v1.Maintenance{{ID: "2", Node: "gpu1", From: *day(2026, 12, 3), To: *day(2026, 12, 4)}}}
	window = v1.Maintenance{ID: "2", Node: "gpu1", From: *day(2026, 12, 3), To: *day(2026, 12, 4), Reason: "new driver"}
	normal = v1.QoS{Name: "normal", Default: true, Configured: true, Factor: "1", Grace: "30s", MaxGrace: "10m", Busy: "queue", MinRun: "10m", PreemptSignal: "USR1", PreemptGrace: "1m", PreemptMode: "requeue", PreemptMoney: "refund"}
	urgent = v1.QoS{Name: "urgent", Priority: 1000, Factor: "2", MaxTime: "4h", Grace: "30s", MaxGrace: "10m", Restricted: true, Accounts: []string{"nlp"}, Partitions: []string{"gpu"}, Busy: "refuse", Preempts: []string{"normal"}, PreemptSignal: "TERM", PreemptMode: "requeue", PreemptMoney: "refund"}
	part   = v1.Partition{Name: "gpu", Nodes: []string{"gpu1", "gpu2"}, Default: true, Configured: true, MaxTime: "24h", DefaultTime: "1h", Restricted: true, Deny: []string{"guests"}, QoS: []string{"normal", "urgent"}}
	token  = v1.Token{ID: "5", User: "ada", Name: "laptop", Created: *at(15, 10), Expires: day(2027, 3, 1), Secret: "croft_secret"}
	quote  = v1.Quote{Admitted: true, Price: v1.Price{Total: "2.288", Lines: lines}, Window: v1.Window{Kind: "estimated", Start: at(16, 20), Position: 3, Queue: 5}, Account: "nlp", Billing: "enforce", Balance: "187.627", After: "185.339", Spec: spec}
	event  = v1.Event{Seq: 1204, At: *at(15, 9), Kind: "job.submit", By: "ada", Job: "131", Account: "nlp", State: "queued", Reasons: []v1.Reason{{Code: "DEVICES_BUSY"}}}
	status = v1.Status{Version: "dev", Instance: "i", Engine: "cri", Runtime: "ok", Nodes: 1, GPU: v1.Use{Used: "1", Total: "4"}, CPU: v1.Use{Used: "8", Total: "64"}, Mem: v1.Use{Used: "64G", Total: "512G"}, Running: 1, Queued: 2, Seq: 1204, Clock: "ok", Started: at(8, 0)}
	verify = v1.Verification{OK: true, Seq: 1204, Transfers: 12345, Checks: []v1.CheckLine{{Name: "balances equal postings", OK: true, Checked: 12}, {Name: "deposits equal open jobs", OK: true, Checked: 2}}}
	drift  = v1.Verification{Seq: 1204, Transfers: 12345, Checks: []v1.CheckLine{{Name: "balances equal postings", Checked: 12, First: "grant:1: cached 5.000, postings 4.000"}}}
	post   = v1.Transfer{ID: "88", At: *at(15, 9), From: "grant:1", To: "deposit:131:1", Amount: "2.288", Kind: "deposit", Job: "131", Seq: 1204}
	bill   = v1.Statement{Account: "nlp", From: *day(2026, 11, 1), To: *day(2026, 12, 1), Grants: []v1.Grant{grant}, Verified: true,
		Users:   []v1.StatementUser{{User: "u017", Jobs: 41, GPUHours: "201.0", Charged: "228.000"}, {User: "u042", Jobs: 1, GPUHours: "74.0", Charged: "84.373"}},
		Devices: []v1.StatementNode{{Node: "gpu1", Total: "2880", By: map[string]string{"maintenance": "16", "idle": "402", "users": "2431", "foreign": "31"}}}}
	why = v1.Why{Job: queued, Summary: "waits for 2 gpu", Window: *queued.Window, Reasons: []v1.Reason{{Code: "DEVICES_BUSY", Message: "needs 2 gpu; 3 of 4 are in use"}},
		Remedy:   &v1.Remedy{Set: map[string]string{"gpu": "1"}, Flags: "--gpu 1", Start: at(15, 10), Exact: true},
		Priority: []v1.Factor{{Name: "fair share", Value: 900}, {Name: "age", Value: 240}, {Name: "QoS", Value: 100}},
		Holders:  []v1.Holder{{Account: "vision", What: "3 gpu in 2 jobs", Until: at(16, 20)}}}
)

func page[T any](items ...T) v1.Page[T] { return v1.Page[T]{Items: items} }

// log is a job's whole log.
func log(frames ...v1.LogFrame) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for _, f := range frames {
			_, _ = w.Write(v1.AppendLogFrame(nil, f))
		}
	}
}

var answers = map[string]any{
	"GET /v1/me":                          me,
	"GET /v1/status":                      status,
	"POST /v1/quotes":                     quote,
	"POST /v1/jobs":                       queued,
	"GET /v1/jobs":                        page(queued, running, done, failed, pulling),
	"GET /v1/jobs/131":                    queued,
	"GET /v1/jobs/118":                    running,
	"GET /v1/jobs/117":                    done,
	"GET /v1/jobs/131/why":                why,
	"POST /v1/jobs/118/stop":              v1.Job{ID: "118", State: "stopping"},
	"POST /v1/jobs/R-7/clone":             queued,
	"GET /v1/jobs/117/logs":               log(v1.LogFrame{Stream: 1, At: now, Data: []byte("epoch 1\n")}, v1.LogFrame{Stream: 2, At: now, Data: []byte("warning\n")}),
	"GET /v1/events":                      page(event),
	"GET /v1/accounts":                    page(account, v1.Account{Name: "faculty", Closed: true}),
	"POST /v1/accounts":                   account,
	"GET /v1/accounts/nlp":                account,
	"PATCH /v1/accounts/nlp":              account,
	"PUT /v1/accounts/nlp/members/ada":    member[0],
	"DELETE /v1/accounts/nlp/members/ada": struct{}{},
	"GET /v1/accounts/nlp/statement":      bill,
	"GET /v1/users":                       page(user, v1.User{Name: "eve", Role: "user", Blocked: true, Warning: "uid 1002 is mallory now"}),
	"POST /v1/users":                      user,
	"GET /v1/users/ada":                   user,
	"PATCH /v1/users/ada":                 user,
	"POST /v1/users/ada/tokens":           token,
	"GET /v1/users/ada/tokens":            page(v1.Token{ID: "5", User: "ada", Name: "laptop", Created: *at(15, 10)}),
	"DELETE /v1/users/ada/tokens/5":       struct{}{},
	"GET /v1/grants":                      page(grant),
	"POST /v1/grants":                     grant,
	"GET /v1/prices":                      page(price),
	"POST /v1/prices":                     price,
	"GET /v1/limits":                      page(limits...),
	"POST /v1/limits":                     limit,
	"DELETE /v1/limits/3":                 struct{}{},
	"GET /v1/ledger/verify":               verify,
	"GET /v1/ledger/transfers":            page(post),
	"GET /v1/nodes":                       page(node),
	"POST /v1/nodes/gpu1/labels":          v1.Node{Name: "gpu1", State: "ok", Labels: map[string]string{"nvlink": "", "zone": "a"}},
	"POST /v1/nodes/gpu1/drain":           v1.Node{Name: "gpu1", State: "drained", Reason: "new driver"},
	"POST /v1/nodes/gpu1/resume":          node,
	"GET /v1/maintenance":                 page(window),
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

// TestCommands runs command lines against canned answers. A golden file has what
// was printed, the exit code and what was asked of the server.
func TestCommands(t *testing.T) {
	tests := map[string]struct {
		args  string
		stdin string
		with  map[string]any // answers other than the usual
	}{
		"quote":               {args: "quote --gpu 1 -c 8 --mem 64G -t 2h -A nlp train:1 python train.py -c x"},
		"quote-json":          {args: "quote train:1 -o json"},
		"quote-o-json":        {args: "quote -o json train:1"},
		"quote-refused":       {args: "quote --gpu 8 train:1", with: map[string]any{"POST /v1/quotes": v1.Quote{Reasons: reasons, Remedy: remedy}}},
		"quote-free":          {args: "quote train:1", with: map[string]any{"POST /v1/quotes": v1.Quote{Admitted: true, Billing: "off", Window: v1.Window{Kind: "now"}}}},
		"quote-unknown-start": {args: "quote train:1", with: map[string]any{"POST /v1/quotes": v1.Quote{Admitted: true, Account: "nlp", Billing: "showback", Price: quote.Price, Window: v1.Window{Kind: "unknown", Position: 11}}}},
		"submit":              {args: "submit --gpu 2 --model A100-80GB -e SEED=1 -e HOME -v data:/data:ro -v /scratch -w /w --signal USR1@120 --grace 1m --requeue node,preempt --priority -5 --pull always --qos high -n train -p gpu train:1"},
		"submit-json":         {args: "submit -o json train:1"},
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
		"show-ended":         {args: "show 117"},
		"show-refused":       {args: "show R-7", with: map[string]any{"GET /v1/jobs/R-7": v1.Job{ID: "R-7", State: "refused", Spec: v1.JobSpec{GPU: "8", Model: "A100-80GB"}, Submitted: now, Reasons: reasons, Remedy: remedy}}},
		"show-json":          {args: "show 117 -o json"},
		"show-yaml":          {args: "show 117 -o yaml"},
		"show-missing":       {args: "show 9"},
		"show-none":          {args: "show"},
		"why":                {args: "why 131"},
		"why-json":           {args: "why 131 -o json"},
		"why-refused":        {args: "why R-7", with: map[string]any{"GET /v1/jobs/R-7/why": v1.Why{Job: v1.Job{ID: "R-7", State: "refused"}, Summary: "R-7 was refused", Reasons: reasons, Remedy: remedy}}},
		"why-next":           {args: "why 131", with: map[string]any{"GET /v1/jobs/131/why": v1.Why{Job: queued, Summary: "waits as number 1 of 2: what it needs is free", Window: v1.Window{Kind: "unknown", Position: 1}, Priority: []v1.Factor{{Name: "own", Value: 0}}}}},
		"why-running":        {args: "why 118", with: map[string]any{"GET /v1/jobs/118/why": v1.Why{Job: running, Summary: "runs on gpu1 since 13:01"}}},
		"logs":               {args: "logs 117"},
		"logs-follow":        {args: "logs -f -n 5 --since 10m --attempt 1 117"},
		"stop":               {args: "stop --now 118"},
		"stop-several":       {args: "stop 9 118"},
		"stop-missing":       {args: "stop 9"},
		"clone":              {args: "clone R-7 --gpu 4 --set env.SEED=2 --set time=1h --requeue node,timeout"},
		"clone-bad-set":      {args: "clone R-7 --set gpu"},
		"events":             {args: "events -n 10"},
		"events-json":        {args: "events --after 1200 -j 131 -o json"},
		"account":            {args: "account"},
		"account-bogus":      {args: "account frobnicate"},
		"account-add":        {args: "account add nlp --from-group nlp-lab --parent faculty --billing enforce"},
		"account-ls":         {args: "account ls"},
		"account-ls-json":    {args: "account ls -o json"},
		"account-show":       {args: "account show nlp"},
		"account-show-json":  {args: "account show nlp -o json"},
		"account-set":        {args: "account set nlp --billing enforce --closed=false"},
		"account-set-none":   {args: "account set nlp"},
		"member-add":         {args: "account member add nlp ada --role owner"},
		"member-rm":          {args: "account member rm nlp ada"},
		"user-add":           {args: "user add ada --uid 0 --role user"},
		"user-ls":            {args: "user ls"},
		"user-ls-json":       {args: "user ls -o json"},
		"user-show":          {args: "user show"},
		"user-set":           {args: "user set ada --blocked --role operator"},
		"user-set-none":      {args: "user set ada"},
		"token-create":       {args: "user token create laptop --expires 2027-02-28"},
		"token-create-json":  {args: "user token create laptop -o json"},
		"token-ls":           {args: "user token ls"},
		"token-revoke":       {args: "user token revoke 5 -u ada"},
		"grant-add":          {args: "grant add nlp 500 --source DFG-123 --start 2026-12-01 --until 2027-03-31 --subtree"},
		"grant-add-nosource": {args: "grant add nlp 500"},
		"grant-add-bad-date": {args: "grant add nlp 500 --source x --until 31.3.2027"},
		"grant-ls":           {args: "grant ls -A nlp"},
		"grant-ls-json":      {args: "grant ls -o json"},
		"price-set":          {args: "price set --gpu A100-80GB=1.5 --gpu *=1 --cpu 0.01 --mem 0.001 -p gpu --from 2027-01-01"},
		"price-set-none":     {args: "price set"},
		"price-ls":           {args: "price ls"},
		"price-ls-json":      {args: "price ls -o json"},
		"limit-set":          {args: "limit set gpu 4 -A nlp -u ada"},
		"limit-set-noscope":  {args: "limit set gpu 4"},
		"limit-ls":           {args: "limit ls"},
		"limit-ls-json":      {args: "limit ls -o json"},
		"limit-show":         {args: "limit show"},
		"limit-rm":           {args: "limit rm 3"},
		"ledger-verify":      {args: "ledger verify"},
		"ledger-verify-json": {args: "ledger verify -o json"},
		"ledger-drift":       {args: "ledger verify", with: map[string]any{"GET /v1/ledger/verify": drift}},
		"ledger-show":        {args: "ledger show -j 131"},
		"ledger-show-json":   {args: "ledger show -o json"},
		"statement":          {args: "statement nlp 2026-11"},
		"statement-json":     {args: "statement nlp -o json"},
		"node-ls":            {args: "node ls"},
		"node-ls-json":       {args: "node ls -o json"},
		"node-label":         {args: "node label gpu1 nvlink zone=a old-"},
		"node-label-show":    {args: "node label gpu1"},
		"node-drain":         {args: "node drain gpu1 --reason driver"},
		"node-resume":        {args: "node resume gpu1"},
		"maintenance-add":    {args: "node maintenance add gpu1 --from 2026-12-03 --to 2026-12-03 --reason driver"},
		"maintenance-for":    {args: "node maintenance add gpu1 --from +1h --for 1d2h"},
		"maintenance-until":  {args: "node maintenance add gpu1"},
		"maintenance-ls":     {args: "node maintenance ls"},
		"maintenance-rm":     {args: "node maintenance rm 2"},
		"qos-add":            {args: "qos add urgent --priority 1000 --factor 2 --max-time 4h --accounts nlp --partitions gpu --busy refuse --preempts normal"},
		"qos-set":            {args: "qos set urgent --preempts  --min-run 10m --preempt-signal USR1 --exempt=false"},
		"qos-set-none":       {args: "qos set urgent"},
		"qos-ls":             {args: "qos ls"},
		"qos-ls-json":        {args: "qos ls -o json"},
		"qos-show":           {args: "qos show urgent"},
		"qos-show-normal":    {args: "qos show normal"},
		"qos-rm":             {args: "qos rm urgent"},
		"partition-add":      {args: "partition add gpu --nodes gpu1,gpu2 --deny guests --qos normal,urgent"},
		"partition-set":      {args: "partition set gpu --max-time 24h --accounts "},
		"partition-set-none": {args: "partition set gpu"},
		"partition-ls":       {args: "partition ls"},
		"partition-show":     {args: "partition show gpu"},
		"partition-rm":       {args: "partition rm gpu"},
		"complete-qos":       {args: "__complete run --qos "},
		"status":             {args: "status"},
		"status-json":        {args: "status -o json"},
		"server":             {args: "server --data x"},
		"setup":              {args: "setup --check"},
		"version":            {args: "--version"},
		"unknown-command":    {args: "frobnicate"},
		"unknown-flag":       {args: "ls --frobnicate"},
		"missing-value":      {args: "ls -A"},
		"complete-job":       {args: "__complete stop 1"},
		"complete-account":   {args: "__complete run -A "},
		"complete-user":      {args: "__complete ls -u "},
		"complete-model":     {args: "__complete quote --model "},
		"complete-member":    {args: "__complete account member add nlp "},
		"completion-bogus":   {args: "completion tcsh"},
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
			golden(t, "commands/"+name, transcript(test.args, b, code, f.asked))
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
		"GET /v1/jobs":             page(v1.Job{ID: "100000", Name: long, User: long, Account: long, State: "out_of_memory", Node: long, Started: at(1, 0), Spec: v1.JobSpec{GPU: "1000", CPU: "100000", Mem: "100000G"}, Contact: long}),
		"GET /v1/accounts":         page(v1.Account{Name: long, Parent: long, Group: long, Billing: "showback", Balance: &v1.AccountMoney{Available: "1000000000.000", Deposits: "1000000000.000", Spent: "1000000000.000"}}),
		"GET /v1/users":            page(v1.User{Name: long, Role: "operator", UID: &uid, Warning: long, Accounts: []v1.Membership{{Account: long, Role: "owner"}}}),
		"GET /v1/users/ada/tokens": page(v1.Token{ID: "1", Name: long, User: long}),
		"GET /v1/me":               me,
		"GET /v1/status":           status,
		"GET /v1/grants":           page(v1.Grant{ID: "1", Account: long, Source: long, Amount: "1000000000.000", Available: "1000000000.000", Deposits: "1000000000.000", Spent: "1000000000.000", End: day(2027, 1, 1), State: "expired"}),
		"GET /v1/prices":           page(v1.PriceVersion{ID: "1", Partition: long, GPU: map[string]string{long: "1.000", "b": "2.000"}, CPU: "1.000", Mem: "1.000", By: long}),
		"GET /v1/limits":           page(v1.LimitUse{Limit: v1.Limit{ID: "1", Account: long, User: long, Resource: "gpu:" + long, Max: "100"}, Used: "5", From: long}),
		"GET /v1/ledger/transfers": page(v1.Transfer{ID: "1", From: long, To: long, Amount: "1000000000.000", Kind: "deposit", Job: "100000"}),
		"GET /v1/nodes":            page(v1.Node{Name: long, State: "drained", Reason: long, Devices: []v1.Device{{Name: long, Model: long, State: "foreign", Reason: long, User: long}}}),
		"GET /v1/maintenance":      page(v1.Maintenance{ID: "1", Node: long, Reason: long}),
		"GET /v1/qos":              page(v1.QoS{Name: long, Factor: "1000", Priority: -1_000_000, MaxTime: "1000d", Busy: "refuse", Preempts: []string{long}, Restricted: true, Accounts: []string{long}, Default: true, Configured: true}),
		"GET /v1/partitions":       page(v1.Partition{Name: long, Nodes: []string{long}, MaxTime: "1000d", DefaultTime: "1000d", Priority: -1_000_000, Restricted: true, Accounts: []string{long}, Default: true, Configured: true}),
		"GET /v1/events":           page(v1.Event{Seq: 1 << 40, Kind: "job.submit", By: long, Job: "1", State: "queued", Message: long}),
	}}
	for _, args := range []string{"ls", "account ls", "user ls", "user token ls", "grant ls", "price ls", "limit ls", "ledger show", "node ls", "node maintenance ls", "qos ls", "partition ls", "events"} {
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
