package cli

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "croft.dev/croft/api/v1"
)

// submititScript is a job file as Python's submitit 1.5 writes it.
const submititScript = `#!/bin/bash

# Parameters
#SBATCH --cpus-per-task=4
#SBATCH --error=/home/ada/log/%j_0_log.err
#SBATCH --gpus-per-node=1
#SBATCH --job-name=submitit
#SBATCH --mem=8GB
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --open-mode=append
#SBATCH --output=/home/ada/log/%j_0_log.out
#SBATCH --signal=USR2@90
#SBATCH --time=5
#SBATCH --wckey=submitit
#SBATCH --container-image=train:1

# command
export SUBMITIT_EXECUTOR=slurm
srun --unbuffered --output /home/ada/log/%j_%t_log.out --error /home/ada/log/%j_%t_log.err python3 -u -m submitit.core._submit /home/ada/log
`

// TestSubmission runs sbatch and srun outside of a job.
func TestSubmission(t *testing.T) {
	tests := map[string]struct{ line, stdin string }{
		"sbatch":             {"sbatch --container-image train:1 -J train -A nlp -p gpu -q high -t 1-2:30 -c 4 -n 2 --mem-per-cpu 512M --gres gpu:a100:2 -o out/%j.txt -", "#!/bin/sh\necho hello\n"},
		"sbatch-submitit":    {"sbatch -", submititScript},
		"sbatch-over-script": {"sbatch -t 10 --parsable - one two", "#!/bin/sh\n#SBATCH -t 5 -c2 --signal=B:USR1 # mine\n#SBATCH --job-name='my job'\n#CROFT --container-image=tiny:1\n\necho $1\n#SBATCH --account=late\n"},
		"sbatch-wrap":        {"sbatch --container-image tiny:1 --export=NONE,SEED=1,LANG --requeue --wrap true", ""},
		"sbatch-mounts":      {"sbatch --container-image tiny:1 --container-mounts /data:/d:ro,scratch:/s -D /srv/work --no-container-mount-home --wrap true", ""},
		"sbatch-test":        {"sbatch --container-image tiny:1 --test-only --wrap true", ""},
		"sbatch-image":       {"sbatch --wrap true", ""},
		"sbatch-no-script":   {"sbatch -", "echo hello\n"},
		"sbatch-later":       {"sbatch --container-image tiny:1 -d afterok:12:13,afterany:14+30 -b now+2hours --deadline 2026-12-24 -H --no-requeue -C nvlink --wrap true", ""},
		"sbatch-begin":       {"sbatch --container-image tiny:1 --begin 07:00 --wrap true", ""},
		"sbatch-array":       {"sbatch --container-image tiny:1 -a 1-5 --wrap true", ""},
		"sbatch-exclusive":   {"sbatch --container-image tiny:1 --exclusive --wrap true", ""},
		"sbatch-nodes":       {"sbatch --container-image tiny:1 -N 2 --wrap true", ""},
		"sbatch-mem-all":     {"sbatch --container-image tiny:1 --mem 0 --wrap true", ""},
		"sbatch-bad-line":    {"sbatch -", "#!/bin/sh\n#SBATCH --frobnicate=1\n"},
		"sbatch-bad-quote":   {"sbatch -", "#!/bin/sh\n\n#SBATCH --job-name='x\n"},
		"sbatch-twice":       {"sbatch --wrap true x.sh", ""},
		"srun-none":          {"srun", ""},

		"cbatch":             {"cbatch -J train -A nlp -p gpu -t 1-2:30 -c 4 --mem 8G --gres gpu:a100:2 -o out/%j.txt --signal R:USR1@120 -d afterok:12 - one two", "#!/bin/bash\necho $1\n"},
		"cbatch-script":      {"cbatch -t 10 -", "#!/bin/bash\n# train\n#CBATCH -t 5\n#CBATCH --pod  # with containers\n#CBATCH --pod-host-network=true\n#CBATCH --requeue\n#CBATCH --job-name='my job'\n#CBATCH -a 1-5%2\n\nccon run train:1\n#CBATCH -c 4\n"},
		"cbatch-pod":         {"cbatch --pod --pod-name web --pod-port 8080:80 --pod-port 9090 --pod-dns 192.0.2.53 -", "#!/bin/sh\n#CBATCH --pod-port 1:1\n#CBATCH --pod-userns\n#CBATCH --pod-user 1001:100\ntrue\n"},
		"cbatch-slurm":       {"cbatch -", "#!/bin/bash\n#SBATCH -J x -c2 --gpu-bind=none --nice 5 --mail-type=ALL --frobnicate=1\n#SBATCH --container-image=train:1\ntrue\n"},
		"cbatch-login":       {"cbatch --get-user-env --export NONE --comment mine --wrap hostname", ""},
		"cbatch-bare":        {"cbatch -", "#CBATCH -c 2\nhostname\n"},
		"cbatch-twice":       {"cbatch --repeat 2 --wrap true", ""},
		"cbatch-crlf":        {"cbatch -", "#!/bin/bash\r\ntrue\r\n"},
		"cbatch-no-pod":      {"cbatch --pod-name web --wrap true", ""},
		"cbatch-two-a-line":  {"cbatch -", "#!/bin/sh\n#CBATCH -N 1 -c 4\n"},
		"cbatch-blank-value": {"cbatch -", "#!/bin/sh\n#CBATCH -J my job\n"},
		"cbatch-unknown":     {"cbatch -", "#!/bin/sh\n#CBATCH --frobnicate\n"},
		"cbatch-no-script":   {"cbatch", ""},
		"cbatch-empty":       {"cbatch -", "\n\n"},
		"cbatch-licenses":    {"cbatch -L matlab:1 --wrap true", ""},
		"cbatch-mounts":      {"cbatch --container-mounts /a:/b --wrap true", ""},
		"crun-none":          {"crun", ""},
		"calloc-refused":     {"calloc -n 2", ""},
	}
	used := map[string]bool{}
	for name, test := range tests {
		used[name+".golden"] = true
		t.Run(name, func(t *testing.T) {
			f := &fake{answers: map[string]any{"POST /v1/jobs": queued, "POST /v1/quotes": quote}}
			b := newBench(t, f)
			b.vars["HOME"] = "/home/ada"
			b.environ = []string{"LANG=C.UTF-8", "SEED=7", "PATH=/usr/bin", "CROFT_TOKEN=secret", "BASH_FUNC_x%%=() {}", "SSH_AUTH_SOCK=/x"}
			b.app.env.Stdin = strings.NewReader(test.stdin)
			words := strings.Split(test.line, " ")
			code := b.runAs(words[0], words[1:]...)
			golden(t, "submit/"+name, strings.Replace(transcript(test.line, b, code, f.requests()), "$ croft ", "$ ", 1))
		})
	}
	noOrphans(t, "testdata/submit", used)
}

// TestSbatchFromElsewhere: whoever submits from a folder that can't be mounted hasn't
// asked for a mount, and is told what it's about.
func TestSbatchFromElsewhere(t *testing.T) {
	refused := v1.Problem{Status: 422, Code: "refused", ID: "R-7", Reasons: []v1.Reason{{
		Code: "MOUNT_NOT_ALLOWED", Observed: "/srv/work", Message: "mounting /srv/work isn't allowed here (allowed: your own folders below ~)",
	}}}
	b := newBench(t, &fake{answers: map[string]any{"POST /v1/jobs": &refused}})
	b.vars["HOME"], b.app.env.Dir = "/home/ada", "/srv/work"
	code := b.runAs("sbatch", "--container-image", "tiny:1", "--wrap", "true")
	if want := "it's where you submit: go to a folder that is, or name one by --chdir"; code != 3 || !strings.Contains(b.stderr.String(), want) {
		t.Errorf("exit %d: %s", code, b.stderr)
	}
}

// TestSrunOutside submits a job and stays with it.
func TestSrunOutside(t *testing.T) {
	f := &fake{answers: map[string]any{
		"POST /v1/jobs": done, "GET /v1/jobs/117": done,
		"GET /v1/jobs/117/logs": log(v1.LogFrame{Stream: v1.Stdout, Data: []byte("hello\n")}),
	}}
	b := newBench(t, f)
	if code := b.runAs("srun", "-Q", "--container-image", "tiny:1", "--gpus", "1", "python", "-c", "x"); code != 0 || b.stdout.String() != "hello\n" {
		t.Errorf("exit %d: %s%s", code, b.stdout, b.stderr)
	}
	if len(f.requests()) == 0 || !strings.Contains(f.requests()[0], `"command":["python","-c","x"]`) || !strings.Contains(f.requests()[0], `"gpu":"1"`) {
		t.Errorf("asked %q", f.requests())
	}
}

// job makes a bench whose program runs inside a job, in a folder of its own.
func job(t *testing.T, env ...string) (*bench, string) {
	t.Helper()
	b := newBench(t, http.NotFoundHandler())
	dir := t.TempDir()
	b.app.env.Dir = dir
	b.environ = append([]string{"PATH=/usr/bin:/bin", "CROFT_JOB_ID=118", "CROFT_JOB_NAME=train", "CROFT_NODE=gpu1", "CROFT_CPUS=1.5", "CROFT_MEM=1073741824"}, env...)
	b.vars["CROFT_JOB_ID"] = "118"
	return b, dir
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestScriptInJob(t *testing.T) {
	tests := map[string]struct {
		args []string
		file string // where the output is, and what
		want string
		code int
	}{
		"environment": {[]string{"--output", "%x-%5j.out", "--", "#!/bin/sh\necho $SLURM_JOB_ID $SLURM_NODELIST $SLURM_CPUS_ON_NODE $SLURM_MEM_PER_NODE $1 $2", "a b", "c"}, "train-00118.out", "118 gpu1 2 1024 a b c\n", 0},
		"exit code":   {[]string{"--output", "o", "--", "#!/bin/sh\nexit 7"}, "o", "", 7},
		"signal":      {[]string{"--output", "o", "--", "#!/bin/sh\nkill -KILL $$"}, "o", "", 137},
		"both":        {[]string{"--output", "o", "--", "#!/bin/sh\necho out; echo err >&2"}, "o", "out\nerr\n", 0},
		"apart":       {[]string{"--output", "o", "--error", "e", "--", "#!/bin/sh\necho out; echo err >&2"}, "e", "err\n", 0},
		"interpreter": {[]string{"--output", "o", "--", "#!/usr/bin/env cat\nhello\n"}, "o", "#!/usr/bin/env cat\nhello\n", 0},
		"links":       {[]string{"--output", "o", "--", "#!/bin/sh\nreadlink ${PATH%%:*}/srun"}, "o", "/usr/local/lib/croft/bin/croft\n", 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b, dir := job(t)
			if code := b.run(append([]string{"script", "--name", "train"}, tt.args...)...); code != tt.code {
				t.Fatalf("exit %d: %s", code, b.stderr)
			}
			if diff := cmp.Diff(tt.want, read(t, filepath.Join(dir, tt.file))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestScriptWithoutInterpreter(t *testing.T) {
	b, _ := job(t)
	if code := b.run("script", "--", "#!/no/such/shell\n"); code != 2 || !strings.Contains(b.stderr.String(), "/no/such/shell isn't in the image") {
		t.Errorf("exit %d: %s", code, b.stderr)
	}
}

// TestSignalsPassTheShellBy: the signal ahead of the time limit reaches the program and
// not the shell that waits for it, which would die of it; SIGTERM reaches both.
func TestSignalsPassTheShellBy(t *testing.T) {
	b, dir := job(t)
	script := "#!/bin/sh\n" + `sh -c 'trap "echo program got it; exit 3" USR2; echo ready > ready; while :; do sleep 0.05; done'
echo it ended with $?; exit 9
`
	t.Chdir(dir)
	code := make(chan int)
	go func() { code <- b.run("script", "--output", "o", "--", script) }()
	for {
		if _, err := os.Stat(filepath.Join(dir, "ready")); err == nil {
			break
		}
		<-time.After(10 * time.Millisecond)
	}
	b.signals <- syscall.SIGUSR2
	if got := <-code; got != 9 {
		t.Errorf("exit %d: %s", got, b.stderr)
	}
	if got := read(t, filepath.Join(dir, "o")); !strings.Contains(got, "program got it\nit ended with 3\n") {
		t.Errorf("output %q", got)
	}
}

func TestTasksInJob(t *testing.T) {
	b, dir := job(t, "SLURM_NTASKS=3")
	if code := b.runAs("srun", "-u", "--output", "%j_%t.out", "sh", "-c", "echo task $SLURM_PROCID of $SLURM_NTASKS; exit $SLURM_PROCID"); code != 2 {
		t.Fatalf("exit %d: %s", code, b.stderr)
	}
	for i, want := range []string{"task 0 of 3\n", "task 1 of 3\n", "task 2 of 3\n"} {
		if got := read(t, filepath.Join(dir, "118_"+string(rune('0'+i))+".out")); got != want {
			t.Errorf("task %d wrote %q", i, got)
		}
	}
	if code := b.runAs("srun", "-n", "1", "no-such-program"); code != 2 {
		t.Errorf("exit %d", code)
	}
}

func TestSizes(t *testing.T) {
	spans := map[string]string{
		"90": "1h30m0s", "1:30": "1m30s", "2:00:00": "2h0m0s", "1-12": "36h0m0s", "1-12:30": "36h30m0s", "0-0:0:5": "5s",
		"": "", "0": "", "x": "", "1:2:3:4": "", "-5": "", "1-": "", "99999999999": "",
	}
	for in, want := range spans {
		d, err := slurmSpan(in)
		if got := d.String(); (err != nil) != (want == "") || err == nil && got != want {
			t.Errorf("time %q is %s, %v; want %s", in, got, err, want)
		}
	}
	sizes := map[string]int64{"64": 64, "64M": 64, "64MB": 64, "2G": 2048, "2gb": 2048, "1T": 1 << 20, "1K": 1, "0": -1, "G": -1, "4X": -1, "": -1, "4GG": -1}
	for in, want := range sizes {
		if n, err := slurmMegabytes(in); (err != nil) != (want < 0) || err == nil && n != want {
			t.Errorf("memory %q is %d, %v; want %d", in, n, err, want)
		}
	}
	for in, want := range map[string]string{"%j.out": "118.out", "%5j": "00118", "%%j": "%j", "%q": "%q", "a%": "a%", `\%j`: "%j", "%": "%", "%12": "%12"} {
		if got := pattern(in, map[byte]string{'j': "118"}); got != want {
			t.Errorf("pattern %q is %q, want %q", in, got, want)
		}
	}
}

func FuzzScriptOptions(f *testing.F) {
	for _, s := range []string{submititScript, "#!/bin/sh\n#SBATCH -J 'a b' --mem=1G #x\n", "#SBATCH \"", "\\", "#SBATCH\\"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		args, err := scriptOptions(s)
		if err == nil && len(strings.Join(args, "")) > len(s) {
			t.Error("more than there was")
		}
		_ = pattern(s, map[byte]string{'j': "1"})
		_, _ = slurmSpan(s)
		_, _ = slurmMegabytes(s)
		_, _, _ = gpuAmount(s, true)
	})
}
