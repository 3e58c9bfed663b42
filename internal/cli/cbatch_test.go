package cli

import (
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	v1 "croft.dev/croft/api/v1"
)

// TestCrunInJob adds a step to the job that it runs in, and ends as that does.
func TestCrunInJob(t *testing.T) {
	three := 3
	end := v1.Step{ID: "118.2", Job: "118", N: 2, State: "ended", Outcome: "failed", ExitCode: &three}
	f := &fake{answers: map[string]any{
		"POST /v1/jobs/118/steps": v1.Step{ID: "118.2", Job: "118", N: 2, State: "starting"}, "GET /v1/jobs/118/steps/2": end,
		"GET /v1/jobs/118/logs": log(v1.LogFrame{Stream: v1.Stdout, Data: []byte("gpu1\n")}),
	}}
	b := newBench(t, f)
	b.vars["CRANE_JOB_ID"], b.app.env.Dir = "118", "/srv/work"
	if code := b.runAs("crun", "-c", "2", "--gres", "gpu:1", "--export", "SEED=1", "hostname", "-s"); code != 3 || b.stdout.String() != "gpu1\n" {
		t.Errorf("exit %d: %s%s", code, b.stdout, b.stderr)
	}
	for _, want := range []string{`"host":true`, `"command":["hostname","-s"]`, `"cpu":"2"`, `"gpu":"1"`, `"workdir":"/srv/work"`, `"SEED":"1"`} {
		if !strings.Contains(f.requests()[0], want) {
			t.Errorf("asked %q, without %s", f.requests()[0], want)
		}
	}
	if code := b.runAs("crun", "-A", "nlp", "hostname"); code != 2 || !strings.Contains(b.stderr.String(), "job 118 has that already") {
		t.Errorf("exit %d: %s", code, b.stderr)
	}
	if code := b.runAs("calloc"); code != 2 || !strings.Contains(b.stderr.String(), "unset CRANE_JOB_ID") {
		t.Errorf("calloc in a job: exit %d: %s", code, b.stderr)
	}
}

// TestCalloc runs a command while a job runs, and ends the job with it.
func TestCalloc(t *testing.T) {
	running := v1.Job{ID: "118", Name: "calloc", State: "running", Node: "gpu1", Devices: []string{"gpu0", "gpu1"}}
	f := &fake{answers: map[string]any{"POST /v1/jobs": running, "GET /v1/jobs/118": running, "POST /v1/jobs/118/stop": running}}
	b := newBench(t, f)
	b.app.env.Dir = t.TempDir()
	code := b.runAs("calloc", "-c", "2", "sh", "-c", "echo $CROFT_JOB_ID $CRANE_JOB_ID $CROFT_DEVICES; exit 4")
	if code != 4 || b.stdout.String() != "118 118 gpu0,gpu1\n" || !strings.Contains(b.stderr.String(), "has its allocation on gpu1 gpu0 gpu1") {
		t.Errorf("exit %d: %s%s", code, b.stdout, b.stderr)
	}
	all := strings.Join(f.requests(), "\n")
	if !strings.Contains(all, `"kind":"batch"`) || !strings.Contains(all, `["sleep","infinity"]`) || !strings.Contains(all, "/stop") {
		t.Errorf("asked %s", all)
	}
	ended := running
	ended.State, ended.Message = "ended", "no such partition"
	b = newBench(t, &fake{answers: map[string]any{"POST /v1/jobs": running, "GET /v1/jobs/118": ended, "POST /v1/jobs/118/stop": ended}})
	if code := b.runAs("calloc", "true"); code != 2 || !strings.Contains(b.stderr.String(), "no such partition") {
		t.Errorf("a job that never ran: exit %d: %s", code, b.stderr)
	}
}

// TestScriptOnTheMachine runs a script that is in the environment: it isn't there for the
// script itself, and the commands for steps are on its PATH.
func TestScriptOnTheMachine(t *testing.T) {
	b, dir := job(t, scriptVariable+"=#!/bin/sh\necho $1 ${"+scriptVariable+"-unset}; echo $(ls ${PATH%%:*}); exit 6\n")
	if code := b.run("script", "--host", "--output", "%j.out", "--", "one"); code != 6 {
		t.Errorf("exit %d: %s", code, b.stderr)
	}
	lines := strings.Split(read(t, dir+"/118.out"), "\n")
	if len(lines) != 3 || lines[0] != "one unset" || !strings.Contains(lines[1], " croft crun") || strings.Contains(lines[1], "sbatch") {
		t.Errorf("output %q", lines)
	}
	b, dir = job(t, scriptVariable+"=#!/bin/sh\necho $FROM_PROFILE $(ls ${PATH%%:*})\n", "SHELL=/bin/sh", "HOME="+t.TempDir())
	home := b.environ[len(b.environ)-1][len("HOME="):]
	if err := os.WriteFile(home+"/.profile", []byte("FROM_PROFILE=yes; export FROM_PROFILE; PATH=/usr/bin:/bin\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if code := b.run("script", "--host", "--login", "--output", "out", "--"); code != 0 {
		t.Errorf("exit %d: %s", code, b.stderr)
	}
	if got := read(t, dir+"/out"); !strings.HasPrefix(got, "yes cacct ") {
		t.Errorf("after the profile: %q", got)
	}
	b, _ = job(t, scriptVariable+"=#!/no/such/program\n")
	if code := b.run("script", "--host", "--"); code == 0 || !strings.Contains(b.stderr.String(), "isn't on this machine") {
		t.Errorf("exit %d: %s", code, b.stderr)
	}
	b = newBench(t, http.NotFoundHandler())
	if code := b.run("script"); code != 2 {
		t.Errorf("no script: exit %d: %s", code, b.stderr)
	}
}

// FuzzDirectives reads any script: it is refused with a reason, or its options are ones that
// there are.
func FuzzDirectives(f *testing.F) {
	for _, s := range []string{
		"#!/bin/sh\n#CBATCH --pod\n#SBATCH -N 1 --x=y z\ntrue\n#CBATCH -c 1", "#CBATCH -J 'a b'\r\n", "#!/bin/sh\n#CBATCH\t-c4 # four\n#SBATCH -", "#SBATCH --",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := batchScript{name: "x", text: text}.checked()
		if err != nil {
			return
		}
		var o cbatchOptions
		fs := pflag.NewFlagSet("script", pflag.ContinueOnError)
		fs.Usage = func() {}
		o.flags(fs)
		d, err := s.directives(fs)
		if err != nil {
			return
		}
		_ = d.warnings(s.name)
		if err := fs.Parse(d.options); err != nil && strings.Contains(err.Error(), "unknown") {
			t.Errorf("%q: %v", d.options, err)
		}
	})
}
