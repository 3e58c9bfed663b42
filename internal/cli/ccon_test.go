package cli

import (
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "croft.dev/croft/api/v1"
)

var (
	harbour = v1.Job{ID: "118", Name: "harbour", User: "ada", Account: "nlp", State: "running", Spec: v1.JobSpec{Image: "train:1", Args: []string{"python", "train.py", "--epochs", "100"}, Partition: "gpu"}, Submitted: *at(14, 0), Started: at(14, 5), Node: "gpu1", Image: "sha256:1", Steps: 2}
	second  = v1.Step{ID: "118.2", Job: "118", N: 2, State: "running", Spec: v1.StepSpec{Image: "tool:1", Command: []string{"serve"}}, Submitted: *at(15, 9), Started: at(15, 9)}
	third   = v1.Step{ID: "118.3", Job: "118", N: 3, State: "ended", Outcome: "failed", ExitCode: &three, Message: "it \x1b[31mfell", Spec: v1.StepSpec{Image: "tool:1"}, Submitted: *at(15, 0), Started: at(15, 1), Ended: at(15, 8)}
	three   = 3
	primary = v1.Step{ID: "118.1", Job: "118", N: 1, State: "ended", Outcome: "completed", ExitCode: &zero, Spec: v1.StepSpec{Image: "train:1"}, Started: at(14, 5), Ended: at(15, 8)}
)

// TestCcon runs ccon against canned answers.
func TestCcon(t *testing.T) {
	usual := map[string]any{
		"GET /v1/me":                      me,
		"GET /v1/jobs":                    page(harbour, waiting, pulling),
		"GET /v1/jobs/118":                harbour,
		"GET /v1/jobs/118/steps":          page(second, third),
		"GET /v1/jobs/118/steps/1":        primary,
		"GET /v1/jobs/118/steps/2":        second,
		"GET /v1/jobs/118/steps/3":        third,
		"POST /v1/jobs/118/steps/1/stop":  primary,
		"POST /v1/jobs/118/steps/3/stop":  third,
		"POST /v1/jobs":                   harbour,
		"POST /v1/jobs/118/steps":         second,
		"GET /v1/jobs/118/logs":           logOf(v1.LogFrame{Stream: v1.Stdout, At: *at(15, 0), Data: []byte("one\ntw")}, v1.LogFrame{Stream: v1.Stdout, At: *at(15, 1), Data: []byte("o\nthree\n")}),
		"POST /v1/jobs/119/steps/1/stop":  &v1.Problem{Status: 404, Code: "not_found", Detail: "no such job: 119"},
		"POST /v1/jobs/131/steps":         &v1.Problem{Status: 409, Code: "conflict", Detail: "job 131 isn't running: it is queued"},
		"GET /v1/jobs/119":                &v1.Problem{Status: 404, Code: "not_found", Detail: "no such job: 119"},
		"GET /v1/jobs/119/steps/1":        &v1.Problem{Status: 404, Code: "not_found", Detail: "no such job: 119"},
		"POST /v1/jobs/118/steps/99/stop": &v1.Problem{Status: 404, Code: "not_found", Detail: "no such step: 118.99"},
	}
	operator := me
	operator.Role = "operator"
	tests := map[string]struct {
		line string
		job  string // that it is called in
		with map[string]any
	}{
		"ps":          {line: "ccon ps"},
		"ps-all":      {line: "ccon ps -a -n 2", with: map[string]any{"GET /v1/jobs": page(withSteps(done, 0), withSteps(failed, 0), cancelledEarly)}},
		"ps-quiet":    {line: "ccon ps -q"},
		"ps-operator": {line: "ccon ps -q", with: map[string]any{"GET /v1/me": operator}},
		"ps-none":     {line: "ccon ps", with: map[string]any{"GET /v1/jobs": page[v1.Job]()}},
		"ps-json":     {line: "ccon ps --json", with: map[string]any{"GET /v1/jobs": page[v1.Job]()}},
		"ps-array":    {line: "ccon ps -q", with: map[string]any{"GET /v1/jobs": page(sweep, element)}},
		"ps-negative": {line: "ccon ps -n -1"},
		"pods":        {line: "ccon pods"},
		"pods-ports": {line: "ccon pods", with: map[string]any{"GET /v1/jobs": page(v1.Job{
			ID: "118", Name: "harbour", State: "running", Spec: v1.JobSpec{Pod: &v1.Pod{Name: "quay", Ports: []string{"8080:80", "9000"}}}, Submitted: *at(14, 0), Started: at(14, 5),
		})}},
		"run-pod":          {line: "ccon run -d -p 8080:80 -p 9000 --network host --dns 192.0.2.53 httpd:1"},
		"pods-quiet":       {line: "ccon pods -a -q"},
		"run-detached":     {line: "ccon -c 4 --mem 8G --gres gpu:a100:2 -p gpu -A nlp -q high -t 1-0 -r ml24 -H run -d --name x -e A=b -v /data:/d:ro -w /w --entrypoint py train:1 a -b"},
		"run-after":        {line: "ccon run -d -c 0.5 --partition gpu --time 30 -A nlp train:1"},
		"run-json":         {line: "ccon run -d --json train:1"},
		"run-latest":       {line: "ccon run -d train"},
		"run-digest":       {line: "ccon run -d hub.example:5000/train@sha256:1"},
		"run-pull":         {line: "ccon run -d --pull-policy ifnotpresent train:latest"},
		"run-no-entry":     {line: "ccon run -d --entrypoint= train:1 sh -c true"},
		"run-interactive":  {line: "ccon run -dit train:1 bash"},
		"run-step-input":   {line: "ccon run -d -i tool:1 cat", job: "118"},
		"run-no-terminal":  {line: "ccon run -it train:1 bash"},
		"run-pid":          {line: "ccon run -d --pid shared train:1"},
		"attach-keys":      {line: "ccon attach --detach-keys ctrl 118"},
		"attach-bad":       {line: "ccon attach 118.x"},
		"attach-node":      {line: "ccon attach -n gpu2 118"},
		"run-own-ids":      {line: "ccon run -d --userns=false -u 1001:100 --network default train:1"},
		"run-root":         {line: "ccon run -d --userns -u 0:0 train:1"},
		"run-userns-word":  {line: "ccon run -d --userns=maybe train:1"},
		"run-unused":       {line: "ccon --mail-type END --comment hi run -d train:1"},
		"run-none":         {line: "ccon run"},
		"run-empty-entry":  {line: "ccon run --entrypoint= train:1"},
		"run-bad-pull":     {line: "ccon run --pull-policy sometimes train:1"},
		"run-nodes":        {line: "ccon -N 4 -n 4 run train:1"},
		"run-tasks":        {line: "ccon -n 4 run train:1"},
		"run-exclusive":    {line: "ccon --exclusive run train:1"},
		"run-nodelist":     {line: "ccon -w gpu1 run train:1"},
		"run-cpus":         {line: "ccon run --cpus 2 train:1"},
		"run-gpus":         {line: "ccon run --gpus all train:1"},
		"run-volume":       {line: "ccon run -d -v data:/data train:1"},
		"run-time-twice":   {line: "ccon -t soon run train:1"},
		"run-step":         {line: "ccon -c 2 --gres gpu:1 --mem 1G -t 10 run -d -e A=b tool:1 serve", job: "118"},
		"run-step-network": {line: "ccon run --network host tool:1", job: "118"},
		"run-step-account": {line: "ccon -A nlp run tool:1", job: "118"},
		"run-step-model":   {line: "ccon --gres gpu:a100:1 run tool:1", job: "118"},
		"run-step-waiting": {line: "ccon run tool:1", job: "131"},
		"flags-elsewhere":  {line: "ccon -N 1 ps"},
		"stop":             {line: "ccon stop 118"},
		"stop-several":     {line: "ccon stop -t 5 118.1 119 118.3"},
		"stop-at-once":     {line: "ccon stop -t 0 118.1"},
		"stop-negative":    {line: "ccon stop -t -1 118"},
		"stop-no-step":     {line: "ccon stop 118.99"},
		"stop-bad":         {line: "ccon stop ../../me"},
		"stop-zero":        {line: "ccon stop 118.0"},
		"wait":             {line: "ccon wait 118.1 118.3"},
		"wait-json":        {line: "ccon wait --json 118.1"},
		"wait-in-job":      {line: "ccon wait", job: "118", with: map[string]any{"GET /v1/jobs/118/steps": page(third)}},
		"wait-nowhere":     {line: "ccon wait"},
		"logs":             {line: "ccon logs --tail 5 --since 10m 118"},
		"logs-times":       {line: "ccon logs -t 118.2"},
		"logs-until":       {line: "ccon logs --since 1764597600 --until 15:00 118.1"},
		"logs-none":        {line: "ccon logs --tail 0 118"},
		"logs-bad-tail":    {line: "ccon logs --tail many 118"},
		"logs-bad-since":   {line: "ccon logs --since someday 118"},
		"logs-node":        {line: "ccon logs -n gpu2 118"},
		"logs-gone":        {line: "ccon logs -n gpu2 119"},
		"exec-none":        {line: "ccon exec 118"},
		"exec-tty":         {line: "ccon exec -it 118 sh"},
		"inspect":          {line: "ccon inspect 118.3"},
		"inspect-primary":  {line: "ccon inspect 119"},
		"inspectp":         {line: "ccon inspectp 118"},
		"inspectp-path":    {line: "ccon inspectp /"},
		"stop-odd":         {line: "ccon stop 118.02"},
		"stop-huge":        {line: "ccon stop 118.99999999999"},
		"run-bad-cpus":     {line: "ccon -c many run -d train:1"},
		"inspectp-step":    {line: "ccon inspectp 118.2"},
		"rm":               {line: "ccon rm -f 118.2"},
		"unknown":          {line: "ccon images"},
		"nothing":          {line: "ccon"},
		"version":          {line: "ccon -v"},
	}
	used := map[string]bool{}
	for name, test := range tests {
		used[name+".golden"] = true
		t.Run(name, func(t *testing.T) {
			f := &fake{answers: maps.Clone(usual)}
			maps.Copy(f.answers, test.with)
			b := newBench(t, f)
			if test.job != "" {
				b.vars["CRANE_JOB_ID"] = test.job
			}
			words := strings.Split(test.line, " ")
			code := b.runAs(words[0], words[1:]...)
			golden(t, "ccon/"+name, strings.Replace(transcript(test.line, b, code, f.requests()), "$ croft ", "$ ", 1))
		})
	}
	noOrphans(t, "testdata/ccon", used)
}

// cancelledEarly never began.
var cancelledEarly = v1.Job{ID: "120", State: "ended", Outcome: "cancelled", ExitCode: &interrupted, Spec: v1.JobSpec{Image: "train:1"}, Submitted: *at(10, 0), Ended: at(10, 30)}

var interrupted = 130

func withSteps(j v1.Job, n int) v1.Job {
	j.Steps = n
	return j
}

// logOf answers with a log.
func logOf(frames ...v1.LogFrame) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		var b []byte
		for _, f := range frames {
			b = v1.AppendLogFrame(b, f)
		}
		_, _ = w.Write(b)
	}
}

func TestHumanSpan(t *testing.T) {
	const day = 24 * time.Hour
	for d, want := range map[time.Duration]string{
		-time.Second: "Less than a second", 999 * time.Millisecond: "Less than a second", time.Second: "1 second", 59 * time.Second: "59 seconds",
		time.Minute: "About a minute", 2 * time.Minute: "2 minutes", 59 * time.Minute: "59 minutes", time.Hour: "About an hour",
		100 * time.Minute: "2 hours", 47 * time.Hour: "47 hours", 2 * day: "2 days", 13 * day: "13 days", 14 * day: "2 weeks",
		59 * day: "8 weeks", 60 * day: "2 months", 729 * day: "24 months", 730 * day: "2 years",
	} {
		if got := humanSpan(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}

// Of an end that its exit code says all about nothing more is said.
func TestTrouble(t *testing.T) {
	for name, tt := range map[string]struct {
		outcome, message string
		want             bool
	}{
		"completed":     {"completed", "", false},
		"failed":        {"failed", "", false},
		"never began":   {"failed", "no such image", true},
		"timed out":     {"timed_out", "", true},
		"out of memory": {"out_of_memory", "", true},
	} {
		if got := trouble(tt.outcome, tt.message); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// FuzzContainer: what is a container's name leads to no other path of the API.
func FuzzContainer(f *testing.F) {
	for _, s := range []string{"118", "118.2", "12_7.3", "R-7", "118.", ".2", "../me", "118.2.3", "118.+1", "a b.1", "118.99999999999999999999"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		job, n, err := container(s)
		if err == nil && (job == "" || n < 1 || strings.ContainsAny(job, "/ ")) {
			t.Errorf("%q is %q, %d", s, job, n)
		}
	})
}

// FuzzDockerTime: no panic, and what is read as seconds is that.
func FuzzDockerTime(f *testing.F) {
	for _, s := range []string{"10m", "1764597600", "1764597600.25", "2026-12-01T15:00:00", "16:40", "99999999999999999999", "1.", "123456789.", "123456789.0123456789"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a := newBench(t, &fake{}).app
		if at, err := a.dockerTime(s); err == nil && s == "1764597600" && !at.Equal(time.Unix(1764597600, 0)) {
			t.Errorf("%s is %v", s, at)
		}
	})
}

func TestStampedLines(t *testing.T) {
	b := newBench(t, &fake{})
	s := stamped{a: b.app, on: true}
	for i, data := range []string{"a", "b\nc\n", "", "d"} {
		if err := s.write(v1.LogFrame{Stream: v1.Stdout, At: time.Unix(int64(i), 5), Data: []byte(data)}); err != nil {
			t.Fatal(err)
		}
	}
	want := "1970-01-01T00:00:00.000000005Z ab\n1970-01-01T00:00:01.000000005Z c\n1970-01-01T00:00:03.000000005Z d"
	if diff := cmp.Diff(want, b.stdout.String()); diff != "" {
		t.Error(diff)
	}
}

// TestRegistryLogin: where the password comes from, and what is said of it.
func TestRegistryLogin(t *testing.T) {
	tests := map[string]struct {
		line, stdin string
		secret      string // typed on the terminal
		with        map[string]any
	}{
		"login":           {line: "ccon login -u ada-l --password-stdin hub.lab:5000", stdin: "s3cret\n"},
		"login-key-file":  {line: "croft registry login -u _json_key --password-stdin hub.lab:5000", stdin: "{\n \"key\": 1\n}\n"},
		"login-typed":     {line: "croft registry login -u ada-l hub.lab:5000", secret: "s3cret"},
		"login-argument":  {line: "ccon login -u ada-l -p s3cret hub.lab:5000"},
		"login-both":      {line: "ccon login -u ada-l -p s3cret --password-stdin hub.lab:5000"},
		"login-nobody":    {line: "ccon login hub.lab:5000"},
		"login-nowhere":   {line: "ccon login"},
		"login-empty":     {line: "ccon login -u ada-l --password-stdin hub.lab:5000", stdin: "\n"},
		"login-terminal":  {line: "ccon login -u ada-l hub.lab:5000"},
		"login-wrong":     {line: "ccon login -u ada-l --password-stdin hub.lab:5000", stdin: "bad", with: map[string]any{"PUT /v1/users/ada/registries/hub.lab:5000": &v1.Problem{Status: 422, Code: "invalid", Fields: []v1.Field{{Path: "password", Message: "registry hub.lab:5000 doesn't take this name with this password"}}}}},
		"logout":          {line: "ccon logout hub.lab:5000"},
		"logout-never":    {line: "croft registry logout ghcr.io"},
		"registries":      {line: "croft registry ls"},
		"registries-json": {line: "croft registry ls -o json"},
	}
	used := map[string]bool{}
	for name, test := range tests {
		used[name+".golden"] = true
		t.Run(name, func(t *testing.T) {
			hub := v1.Registry{Registry: "hub.lab:5000", Username: "ada-l", Changed: *at(14, 0)}
			f := &fake{answers: map[string]any{
				"GET /v1/me": me, "PUT /v1/users/ada/registries/hub.lab:5000": hub, "GET /v1/users/ada/registries": page(hub),
				"DELETE /v1/users/ada/registries/hub.lab:5000": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }),
			}}
			maps.Copy(f.answers, test.with)
			b := newBench(t, f)
			b.app.env.Stdin = strings.NewReader(test.stdin)
			if test.secret != "" {
				b.app.env.Term.In, b.app.env.Term.Secret = true, func() (string, error) { return test.secret, nil }
			}
			words := strings.Split(test.line, " ")
			code := b.runAs(words[0], words[1:]...)
			golden(t, "registry/"+name, strings.Replace(transcript(test.line, b, code, f.requests()), "$ croft ", "$ ", 1))
			if strings.Contains(b.stdout.String()+b.stderr.String(), "s3cret") {
				t.Error("the password is printed")
			}
		})
	}
	noOrphans(t, "testdata/registry", used)
}
