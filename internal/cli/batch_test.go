package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	v1 "croft.dev/croft/api/v1"
)

var (
	waiting  = withWaits(queued, "DEVICES_BUSY")
	held     = v1.Job{ID: "132", Name: "later", User: "bob", Account: "vision", State: "held", Waits: "JOB_HELD", Spec: v1.JobSpec{Partition: "cpu", CPU: "0.5", Mem: "4G", Time: "1d2h"}, Submitted: *at(15, 5)}
	timedOut = v1.Job{ID: "115", Name: "a-rather-long-name", User: "ada", Account: "nlp", State: "ended", Outcome: "timed_out", ExitCode: &byTerm, Spec: spec, Submitted: *at(7, 0), Started: at(7, 1), Ended: at(9, 1), Node: "gpu1"}
	byTerm   = 143
	pools    = []v1.Partition{{Name: "cpu", Nodes: []string{"n1", "n2", "n10"}, MaxTime: "7d"}, {Name: "gpu", Nodes: []string{"gpu1"}, Default: true}}
	nodes    = []v1.Node{node, {Name: "n1", State: "ok", CPU: v1.Use{Used: "0", Total: "32"}, Mem: v1.Use{Used: "0", Total: "128G"}}, {Name: "n2", State: "ok", CPU: v1.Use{Used: "0", Total: "32"}, Mem: v1.Use{Used: "0", Total: "128G"}}, {Name: "n10", State: "drained", Reason: "new disk", CPU: v1.Use{Used: "0", Total: "64"}, Mem: v1.Use{Used: "0", Total: "256G"}}}
)

func withWaits(j v1.Job, code string) v1.Job {
	j.Waits = code
	return j
}

// dropped is an array that was cancelled before most of it had started.
var dropped = v1.Job{ID: "140", Name: "sweep", User: "ada", Account: "nlp", State: "ended", Outcome: "failed", Spec: v1.JobSpec{CPU: "1", Mem: "1G", Array: "0-110:2"}, Submitted: *at(15, 1), Ended: at(15, 4), Array: &v1.Array{Ended: map[string]int64{"completed": 48, "failed": 1, "cancelled": 6}, Failed: "7,100-108:2,110"}}

func withID(j v1.Job, id string) v1.Job {
	j.ID = id
	return j
}

// many is a job with two further programs, one of which has ended.
var (
	many       = func() v1.Job { j := running; j.Steps = 2; return j }()
	evaluation = v1.Step{ID: "118.2", Job: "118", N: 2, State: "ended", Outcome: "failed", ExitCode: &three, Spec: v1.StepSpec{Name: "eval.py", CPU: "2"}, Submitted: *at(15, 1), Started: at(15, 1), Ended: at(15, 3)}
	board      = v1.Step{ID: "118.3", Job: "118", N: 3, State: "running", Spec: v1.StepSpec{Name: "tensorboard"}, Submitted: *at(15, 2), Started: at(15, 2)}
	stepping   = map[string]any{"GET /v1/jobs": page(many), "GET /v1/jobs/118/steps": page(evaluation, board)}
)

// reported is what reports are made of: two accounts, one below the other, and jobs of
// several sizes, one of which the caller may not look at.
var reported = map[string]any{
	"GET /v1/accounts": page(v1.Account{Name: "nlp"}, v1.Account{Name: "seminar", Parent: "nlp"}),
	"GET /v1/statements/accounts/nlp": v1.Statement{
		Account: "nlp",
		Users: []v1.StatementUser{
			{Account: "nlp", User: "u042", Jobs: 2, GPUHours: "74.001", Charged: "84.3734"}, {Account: "nlp", User: "u017", Jobs: 41, GPUHours: "201.0", Charged: "228.000"},
			{Account: "seminar", User: "u042", Jobs: 1, GPUHours: "200.0", Charged: "200.000"},
		},
		Lines: []v1.StatementLine{
			{Grant: "1", Account: "nlp", User: "u042", Job: "7", GPUHours: "70.0", Credits: "80.0004"}, {Grant: "2", Account: "nlp", User: "u042", Job: "7", GPUHours: "4.001", Credits: "4.373"},
			{Account: "nlp", User: "u017", Job: "8", GPUHours: "200.0", Credits: "227.000"}, {Account: "nlp", User: "(others)", GPUHours: "1.0", Credits: "1.000"},
			{Account: "seminar", User: "u042", Job: "9_3", GPUHours: "200.0", Credits: "200.000"},
		},
	},
	"GET /v1/jobs": page(
		v1.Job{ID: "7", Spec: v1.JobSpec{QoS: "normal", GPU: "0.5"}}, v1.Job{ID: "8", Spec: v1.JobSpec{QoS: "urgent", GPU: "4", Nodes: 4}},
		v1.Job{ID: "9_3", Number: "12", Spec: v1.JobSpec{QoS: "normal"}},
	),
}

// TestBatchCommands runs the commands of batch systems against canned answers, as
// TestCommands does croft's.
func TestBatchCommands(t *testing.T) {
	usual := map[string]any{
		"GET /v1/jobs":              page(held, waiting, pulling, running, done, failed, timedOut),
		"GET /v1/jobs/131":          waiting,
		"GET /v1/partitions":        page(pools...),
		"GET /v1/reservations":      page(ml24),
		"GET /v1/reservations/ml24": ml24,
		"GET /v1/nodes":             page(nodes...),
		"POST /v1/jobs/118/stop":    running,
		"POST /v1/jobs/131/stop":    waiting,
		"GET /v1/me":                me,
		"GET /v1/jobs/118":          running,
		"GET /v1/status":            status,
		"GET /v1/qos":               page(normal, urgent),
		"GET /v1/users/ada":         v1.User{Name: "ada", Role: "user"},

		"POST /v1/nodes/gpu1/drain":        node,
		"PUT /v1/accounts/nlp/members/ada": member[0],
		"POST /v1/jobs/118/hold":           v1.Job{ID: "118", State: "held"},
		"POST /v1/jobs/118/release":        v1.Job{ID: "118", State: "queued"},
		"POST /v1/jobs/118/requeue":        v1.Job{ID: "118", State: "stopping"},
	}
	tests := map[string]struct {
		line string
		with map[string]any // answers other than the usual
	}{
		"squeue":              {line: "squeue"},
		"squeue-long":         {line: "squeue -l"},
		"squeue-me":           {line: "squeue --me"},
		"squeue-start":        {line: "squeue --start"},
		"squeue-state":        {line: "squeue -h -j 118 -o %T"},
		"squeue-all-letters":  {line: "squeue -o A=%A|a=%a|B=%B|b=%b|C=%C|D=%D|e=%e|F=%F|i=%i|j=%j|l=%l|L=%L|m=%m|M=%M|N=%N|P=%P|q=%q|r=%r|S=%S|t=%t|T=%T|u=%u|V=%V|Z=%Z"},
		"squeue-names":        {line: "squeue -O jobid,name:30,state:.12,reasonlist"},
		"squeue-filters":      {line: "squeue -u ada,bob -A nlp -p gpu -q normal -n train -w gpu[1-2] -t PD,R -S -i"},
		"squeue-ended":        {line: "squeue -t CD"},
		"squeue-json":         {line: "squeue --json", with: map[string]any{"GET /v1/jobs": page(running)}},
		"squeue-bad-format":   {line: "squeue -o %5?"},
		"squeue-bad-column":   {line: "squeue -O jobid,colour"},
		"squeue-bad-state":    {line: "squeue -t SLEEPING"},
		"squeue-bad-sort":     {line: "squeue -S ?"},
		"squeue-bad-nodes":    {line: "squeue -w gpu[3-1]"},
		"squeue-unknown-flag": {line: "squeue --frobnicate"},
		"squeue-denied":       {line: "squeue", with: map[string]any{"GET /v1/jobs": &v1.Problem{Status: 403, Code: "denied", Detail: "no"}}},
		"squeue-array":        {line: "squeue -o %i|%F|%K|%T", with: map[string]any{"GET /v1/jobs": page(sweep, element)}},
		"sacct-array":         {line: "sacct -n -P -o JobID,JobIDRaw,State -j 140", with: map[string]any{"GET /v1/jobs": page(element, sweep)}},
		"sacct-dropped":       {line: "sacct -n -P -o JobID,State -j 140", with: map[string]any{"GET /v1/jobs": page(withID(element, "140_100"), element, dropped)}},
		"sacct-dropped-today": {line: "sacct -n -P -o JobID,State", with: map[string]any{"GET /v1/jobs": page(element, dropped)}},
		"sacct-element":       {line: "sacct -n -P -o JobID,State -j 140_7", with: map[string]any{"GET /v1/jobs": page(element, withID(element, "140_8"))}},
		"scontrol-hold":       {line: "scontrol hold 118,119"},
		"scontrol-release":    {line: "scontrol release 118"},
		"scontrol-requeue":    {line: "scontrol requeuehold 118"},
		"scontrol-none":       {line: "scontrol"},
		"ccontrol-hold":       {line: "ccontrol hold 118"},
		"sacct":               {line: "sacct"},
		"sacct-submitit":      {line: "sacct -o JobID,State,NodeList --parsable2 -j 118 -j 119", with: map[string]any{"GET /v1/jobs": page(pulling, running)}},
		"sacct-steps":         {line: "sacct -n -X -P -j 118.batch,117.0,117 -o jobid"},
		"sacct-with-steps":    {line: "sacct -n -P -o JobID,JobName,AllocCPUS,State,ExitCode,Elapsed -j 118", with: stepping},
		"sacct-one-step":      {line: "sacct -n -P -o JobID,State -j 118.3", with: stepping},
		"sacct-no-steps":      {line: "sacct -n -X -P -o JobID,State -j 118", with: stepping},
		"cacct-one-step":      {line: "cacct -j 118.2,117", with: map[string]any{"GET /v1/jobs": page(done, many), "GET /v1/jobs/118/steps": page(evaluation, board)}},
		"cqueue-steps":        {line: "cqueue -s", with: stepping},
		"scancel-step":        {line: "scancel 118.3", with: map[string]any{"POST /v1/jobs/118/steps/3/stop": board}},
		"scancel-batch":       {line: "scancel 118.batch"},
		"ccancel-step":        {line: "ccancel 118.3,118", with: map[string]any{"POST /v1/jobs/118/steps/3/stop": board}},
		"ccancel-no-step":     {line: "ccancel 118.9", with: map[string]any{"POST /v1/jobs/118/steps/9/stop": &v1.Problem{Status: 404, Code: "not_found", Detail: "there is no step 118.9"}}},
		"sacct-period":        {line: "sacct -a -S 2026-11-01 -E now-1hour -s CD,F"},
		"sacct-root":          {line: "sacct -b -p"},
		"sacct-long":          {line: "sacct -l -P"},
		"sacct-widths":        {line: "sacct -j 117 -o jobname%5,jobid%-4,elapsed,timelimit,cputime,reqtres%60"},
		"sacct-fields":        {line: "sacct --helpformat"},
		"sacct-bad-field":     {line: "sacct -o jobid,colour"},
		"sacct-bad-time":      {line: "sacct -S someday"},
		"sinfo":               {line: "sinfo"},
		"sinfo-nodes":         {line: "sinfo -N -l"},
		"sinfo-summary":       {line: "sinfo -s -p cpu"},
		"sinfo-reasons":       {line: "sinfo -R"},
		"sinfo-letters":       {line: "sinfo -h -o %P|%a|%A|%c|%C|%D|%E|%F|%G|%l|%m|%n|%N|%R|%t|%T"},
		"sinfo-states":        {line: "sinfo -h -t idle,drained -n n[1-2,10],gpu1"},
		"sinfo-json":          {line: "sinfo --json -n n1"},
		"scancel":             {line: "scancel 118"},
		"scancel-several":     {line: "scancel 118 9 131"},
		"scancel-missing":     {line: "scancel 9"},
		"scancel-quiet":       {line: "scancel -Q 9"},
		"scancel-none":        {line: "scancel"},
		"scancel-choose":      {line: "scancel -n train -t PENDING", with: map[string]any{"GET /v1/jobs": page(waiting)}},
		"scancel-kill":        {line: "scancel -s SIGKILL 118"},
		"scancel-signal":      {line: "scancel --signal USR2 118"},
		"scancel-ended":       {line: "scancel --me -t CD"},
		"cqueue":              {line: "cqueue"},
		"cqueue-self":         {line: "cqueue --self -t p -m 1"},
		"cqueue-start":        {line: "cqueue -S"},
		"cqueue-format":       {line: "cqueue -N -o ID:%8j|%.15n|%State|%C|%c|%e|%l|%R|%q|%h"},
		"cqueue-json":         {line: "cqueue --json -j 118", with: map[string]any{"GET /v1/jobs": page(running)}},
		"cacct":               {line: "cacct"},
		"cacct-failed":        {line: "cacct -t f,x -F -m 2", with: map[string]any{"GET /v1/jobs": page(done, failed, timedOut)}},
		"cacct-ranges":        {line: "cacct -E 2026-12-01T08:30:00~2026-12-01T12:00:00 -s ~2026-12-01T08:30:00"},
		"cacct-format":        {line: "cacct -o %j|%UserName|%D|%E|%e|%S|%T -j 117"},
		"cacct-bad-range":     {line: "cacct -S 2026-12-01"},
		"cacct-type":          {line: "cacct --type Batch"},
		"cinfo":               {line: "cinfo"},
		"cinfo-format":        {line: "cinfo -N -p gpu -o %.10partition|%a|%.6n|%s|%l"},
		"cinfo-reasons":       {line: "cinfo -R"},
		"ccancel":             {line: "ccancel 118,131"},
		"ccancel-choose":      {line: "ccancel -t r -u ada", with: map[string]any{"GET /v1/jobs": page(running)}},
		"ccancel-json":        {line: "ccancel --json 118"},
		"scontrol-job":        {line: "scontrol show job 118"},
		"scontrol-jobs":       {line: "scontrol -o show jobs"},
		"scontrol-nodes":      {line: "scontrol show node gpu1,n10"},
		"scontrol-no-node":    {line: "scontrol show node gpu9"},
		"scontrol-partition":  {line: "scontrol show partition"},
		"scontrol-json":       {line: "scontrol --json show node n1"},
		"scontrol-hostnames":  {line: "scontrol show hostnames gpu[01-03],login"},
		"scontrol-hostlist":   {line: "scontrol show hostlist gpu1,gpu2,n7"},
		"scontrol-drain":      {line: "scontrol update NodeName=gpu1 State=DRAIN Reason=driver"},
		"scontrol-resume-dry": {line: "scontrol update --dry-run nodename=gpu[1-2] state=resume"},
		"scontrol-bad-state":  {line: "scontrol update NodeName=gpu1 State=REBOOT"},
		"scontrol-bad-key":    {line: "scontrol update NodeName=gpu1 Weight=5"},
		"scontrol-reserve":    {line: "scontrol show reservation"},
		"scontrol-reserve-1":  {line: "scontrol -o show res ml24"},
		"ccontrol-reserve":    {line: "ccontrol show reservation ml24"},
		"scontrol-bad-show":   {line: "scontrol show licenses"},
		"scontrol-bad":        {line: "scontrol reboot gpu1"},
		"scontrol-ping":       {line: "scontrol ping"},
		"ccontrol-job":        {line: "ccontrol show job 131"},
		"scontrol-priority":   {line: "scontrol update --dry-run JobId=118,119 Priority=-5"},
		"scontrol-prio-json":  {line: "scontrol --json update JobId=118 Priority=-5", with: map[string]any{"POST /v1/jobs/118/priority": running}},
		"scontrol-limit":      {line: "scontrol update --dry-run PartitionName=gpu AllowAccounts=nlp,vision MaxTime=2-0"},
		"scontrol-time":       {line: "scontrol update JobId=118 TimeLimit=60"},
		"scontrol-no-prio":    {line: "scontrol update job 118 Priority=high"},
		"scontrol-nothing":    {line: "scontrol update PartitionName=gpu"},
		"scontrol-update":     {line: "scontrol update"},
		"ccontrol-drain":      {line: "ccontrol update node gpu1 state=drain reason=driver"},
		"ccontrol-dry":        {line: "ccontrol update --dry-run nodename gpu1 state drain reason driver"},
		"creport-top":         {line: "creport user topusage -S 2026-11-01 -E 2026-12-01", with: reported},
		"creport-top-group":   {line: "creport user topusage --group --topcount 1", with: reported},
		"creport-by-user":     {line: "creport cluster AccountUtilizationByUser -A nlp", with: reported},
		"creport-by-account":  {line: "creport cluster userutilizationbyaccount -u u042", with: reported},
		"creport-json":        {line: "creport cluster userutilizationbyaccount -u u042 --json", with: reported},
		"creport-by-qos":      {line: "creport cluster accountutilizationbyqos", with: reported},
		"creport-one-qos":     {line: "creport cluster accountutilizationbyqos -q urgent", with: reported},
		"creport-sizes":       {line: "creport job sizesbyaccount", with: reported},
		"creport-counts":      {line: "creport job sizesbyaccount --print-job-count --grouping 2,16", with: reported},
		"creport-nothing":     {line: "creport user topusage -u nobody", with: reported},
		"creport-no-report":   {line: "creport user bottomusage"},
		"creport-bad-times":   {line: "creport user topusage -S 2026-12-01 -E 2026-11-01"},
		"creport-bad-groups":  {line: "creport job sizesbyaccount --grouping 4,2"},
		"creport-denied":      {line: "creport user topusage -A vision", with: map[string]any{"GET /v1/statements/accounts/vision": &v1.Problem{Status: 404, Code: "not_found", Detail: "no such account: vision"}}},
		"cacctmgr-show":       {line: "cacctmgr show qos"},
		"cacctmgr-json":       {line: "cacctmgr --json show qos"},
		"cacctmgr-add":        {line: "cacctmgr --dry-run add account nlp set Parent=faculty"},
		"cacctmgr-user":       {line: "cacctmgr --dry-run add user ada Account=nlp AdminLevel=Operator Coordinator=true"},
		"cacctmgr-user-there": {line: "cacctmgr add user ada Account=nlp"},
		"cacctmgr-qos":        {line: "cacctmgr --dry-run modify qos where Name=normal set Priority=100 MaxTimeLimit=2-0"},
		"cacctmgr-limits":     {line: "cacctmgr --dry-run modify qos where Name=normal set MaxTRESPU=cpu=8,mem=64G,gres/gpu:a100=2 MaxTRESPJ=gres/gpu=4 MaxJobsPU=3 GrpSubmitJobs=500"},
		"cacctmgr-no-limit":   {line: "cacctmgr --dry-run modify qos normal set GrpTRES=gres/gpu=-1,mem=-1 MaxJobsPU=-1"},
		"cacctmgr-bad-limit":  {line: "cacctmgr modify qos normal set GrpTRES=mem=-2"},
		"cacctmgr-bad-tres":   {line: "cacctmgr modify qos normal set GrpTRES=node=4"},
		"cacctmgr-bad-jobs":   {line: "cacctmgr modify qos normal set MaxJobsPU=many"},
		"cacctmgr-move":       {line: "cacctmgr --dry-run modify account where Name=nlp set parent=faculty"},
		"cacctmgr-delete":     {line: "cacctmgr --dry-run delete user ada Account=nlp"},
		"cacctmgr-retire":     {line: "cacctmgr --dry-run delete user ada"},
		"cacctmgr-block":      {line: "cacctmgr --dry-run block account nlp"},
		"cacctmgr-unblock":    {line: "cacctmgr --dry-run unblock user ada"},
		"cacctmgr-bad-level":  {line: "cacctmgr modify user ada set AdminLevel=root"},
		"cacctmgr-bad-key":    {line: "cacctmgr add account nlp Description=x"},
		"cacctmgr-add-to":     {line: "cacctmgr modify user ada set Account+=nlp"},
		"cacctmgr-flag":       {line: "cacctmgr delete user Name=--stop"},
		"scontrol-flag":       {line: "scontrol update NodeName=--help State=RESUME"},
		"cacctmgr-nothing":    {line: "cacctmgr modify qos normal"},
		"cacctmgr-bad-what":   {line: "cacctmgr show transaction"},
		"cacctmgr-bad-verb":   {line: "cacctmgr reset user ada"},
		"cacctmgr-nameless":   {line: "cacctmgr delete user"},
		"complete-squeue-j":   {line: "squeue __complete -j "},
		"version":             {line: "squeue -V"},
	}
	used := map[string]bool{}
	for name, test := range tests {
		used[name+".golden"] = true
		t.Run(name, func(t *testing.T) {
			f := &fake{answers: map[string]any{}}
			for k, v := range usual {
				f.answers[k] = v
			}
			for k, v := range test.with {
				f.answers[k] = v
			}
			b := newBench(t, f)
			if strings.HasSuffix(name, "-root") {
				b.app.env.UID = 0
			}
			words := strings.Split(test.line, " ")
			code := b.runAs(words[0], words[1:]...)
			golden(t, "batch/"+name, strings.Replace(transcript(test.line, b, code, f.requests()), "$ croft ", "$ ", 1))
		})
	}
	noOrphans(t, "testdata/batch", used)
}

func TestLinks(t *testing.T) {
	dir := t.TempDir()
	b := newBench(t, &fake{})
	b.app.env.Dir = dir
	if code := b.run("setup", "links", "links"); code != 0 {
		t.Fatalf("exit %d: %s", code, b.stderr)
	}
	if code := b.run("setup", "links", "--slurm", filepath.Join(dir, "links")); code != 0 {
		t.Fatalf("the second time: exit %d: %s", code, b.stderr)
	}
	entries, err := os.ReadDir(filepath.Join(dir, "links"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		to, err := os.Readlink(filepath.Join(dir, "links", e.Name()))
		if err != nil || to != "/opt/croft/croft" {
			t.Errorf("%s leads to %q, %v", e.Name(), to, err)
		}
		names = append(names, e.Name())
	}
	if diff := cmp.Diff(b.app.linkNames(true), names); diff != "" {
		t.Error(diff)
	}
	// somebody's own program isn't replaced
	if err := os.WriteFile(filepath.Join(dir, "squeue"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if code := b.run("setup", "links", "--slurm", dir); code != 2 || !strings.Contains(b.stderr.String(), "isn't a link") {
		t.Errorf("exit %d: %s", code, b.stderr)
	}
}

func TestHosts(t *testing.T) {
	tests := map[string]struct {
		list string
		want []string
		fold string
	}{
		"one":      {"gpu1", []string{"gpu1"}, "gpu1"},
		"range":    {"gpu[1-3,7]", []string{"gpu1", "gpu2", "gpu3", "gpu7"}, "gpu[1-3,7]"},
		"zeros":    {"n[08-11]", []string{"n08", "n09", "n10", "n11"}, "n[08-11]"},
		"several":  {"a[1-2],b,c[5]", []string{"a1", "a2", "b", "c5"}, "a[1-2],c5,b"},
		"suffix":   {"r[1-2]n", []string{"r1n", "r2n"}, "r1n,r2n"},
		"nothing":  {"", nil, ""},
		"backward": {list: "gpu[3-1]"},
		"open":     {list: "gpu[1-"},
		"many":     {list: "gpu[0-99999999]"},
		"words":    {list: "gpu[a-b]"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := expandHosts(tt.list)
			if (err != nil) != (tt.want == nil && tt.list != "") {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
			if err == nil && foldHosts(got) != tt.fold {
				t.Errorf("folded %s", foldHosts(got))
			}
		})
	}
}

// TestFoldedHostsExpand: whatever is folded unfolds to the same names.
func TestFoldedHostsExpand(t *testing.T) {
	name := rapid.StringMatching(`[a-c]{0,1}(0|[0-9]{1,3}|[x-z])`)
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfN(name, 1, 20).Draw(t, "names")
		got, err := expandHosts(foldHosts(names))
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(names)
		slices.Sort(got)
		if diff := cmp.Diff(slices.Compact(names), got); diff != "" {
			t.Errorf("%s: %s", foldHosts(names), diff)
		}
	})
}

func FuzzHosts(f *testing.F) {
	for _, s := range []string{"gpu[1-3,7]", "a,b[01-02]c", "[", "]", "a[1-2],,"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if names, err := expandHosts(s); err == nil && len(names) > 2*maxHosts {
			t.Errorf("%d hosts", len(names))
		}
	})
}

func FuzzFormats(f *testing.F) {
	for _, s := range []string{squeueShort, squeueLong, "%j %.10n %State", "%", "%%", "%.", "%999999999i", "a%ib", sacctWide, "jobid,name:.30"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		jobs := []batchJob{{Job: running, now: now, zone: zone}}
		for _, parse := range []func() (format[batchJob], error){
			func() (format[batchJob], error) { return squeueFormat(s, "", false, false) },
			func() (format[batchJob], error) { return squeueFormat("", s, false, false) },
			func() (format[batchJob], error) { return sacctFormat(s) },
			func() (format[batchJob], error) {
				return (&craneTable{format: s}).formatOf("%j", cqueueColumns(), cqueueWords)
			},
		} {
			if got, err := parse(); err == nil {
				got.write(&buffer{}, jobs, true)
				got.delimited(&buffer{}, jobs, true, "|", false)
			}
		}
	})
}

// FuzzAdminWords: whatever words come, what they stand for is a command of croft's
// whose names aren't taken for flags.
func FuzzAdminWords(f *testing.F) {
	for _, line := range []string{"add user ada Account=nlp Coordinator=true", "modify qos where Name=x set Priority=1", "delete user Name=--stop", "block account nlp", "modify account a Parent=-b"} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		words := strings.Split(line, " ")
		if len(words) < 2 {
			return
		}
		lines, err := acctLines(words[0], words[1], words[2:])
		if err == nil && len(lines) == 0 {
			t.Fatal("neither commands nor an error")
		}
		for _, l := range lines {
			cmd, rest, err := newBench(t, &fake{}).app.root().Find(l)
			if err != nil || cmd.HasSubCommands() {
				t.Fatalf("%q: %v: %v", l, cmd.Name(), err)
			}
			if err := cmd.ParseFlags(rest); err != nil {
				return // a value that isn't of its flag's kind
			}
			for _, name := range []string{"help", "stop", "expire-grants", "top"} {
				if cmd.Flags().Changed(name) {
					t.Fatalf("%q gives --%s", l, name)
				}
			}
		}
	})
}
