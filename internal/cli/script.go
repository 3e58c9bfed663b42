package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
)

// scriptCmd runs a batch script inside its job. It isn't for people: sbatch makes it
// the job's command.
func (a *app) scriptCmd() *cobra.Command {
	var r scriptRun
	cmd := &cobra.Command{
		Use:     "script [flags] -- SCRIPT [ARG…]",
		Short:   "Run a batch script inside its job",
		Long:    "Run the text of a batch script inside its job. sbatch makes this a job's command.",
		Hidden:  true,
		Example: `  croft script --name train --output slurm-%j.out -- "#!/bin/true"`,
		RunE: func(_ *cobra.Command, args []string) error {
			r.env = a.jobEnvironment()
			script := r.env[scriptVariable]
			delete(r.env, scriptVariable)
			if !r.host && len(args) == 0 {
				return usage("which script?")
			}
			if !r.host {
				script, args = args[0], args[1:]
			}
			code, err := r.run(a, script, args)
			if err != nil || code == 0 {
				return err
			}
			return exitStatus(code)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&r.name, "name", "script", "name of the job")
	fs.StringVar(&r.output, "output", "", "file for standard output")
	fs.StringVar(&r.errors, "error", "", "file for standard error")
	fs.StringVar(&r.input, "input", "", "file for standard input")
	fs.StringVar(&r.openMode, "open-mode", "", "append or truncate")
	fs.BoolVar(&r.toScript, "signal-script", false, "signals ahead of the time limit go to the script alone, not to what it runs")
	fs.BoolVar(&r.host, "host", false, "on the machine itself: the script is in "+scriptVariable)
	fs.BoolVar(&r.login, "login", false, "after the user's profile")
	fs.SetInterspersed(false)
	return cmd
}

// scriptVariable holds a script that runs on the machine itself.
const scriptVariable = "CROFT_SCRIPT"

// streams are the files of a script or a task, as patterns.
type streams struct{ output, errors, input, openMode string }

// scriptRun is a script in its job.
type scriptRun struct {
	streams
	name     string
	toScript bool
	host     bool // on the machine itself
	login    bool // after the user's profile
	env      map[string]string
}

// run runs the script and returns its exit code, 128 and more for a signal.
func (r *scriptRun) run(a *app, script string, args []string) (int, error) {
	dir, err := scratchDir()
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir) // it goes with the container anyway
	path, links := filepath.Join(dir, "slurm_script"), filepath.Join(dir, "bin")
	if err := os.WriteFile(path, []byte(script), 0o700); err != nil {
		return 0, fmt.Errorf("keeping the script: %w", err)
	}
	if err := makeLinks(links, a.env.Args[0], r.linkNames(a)); err != nil {
		return 0, err
	}
	r.env["PATH"] = links + ":" + otherwise(r.env["PATH"], "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
	interpreter := strings.Fields(strings.TrimPrefix(firstLineOf(script), "#!"))
	if len(interpreter) == 0 {
		return 0, usage("the script's first line doesn't say what runs it, as #!/bin/bash does")
	}
	program, err := lookIn(r.env["PATH"], interpreter[0])
	if err != nil {
		return 0, r.notFound(interpreter[0])
	}
	words := append(append(interpreter, path), args...)
	if r.login {
		program, words = r.afterProfile(links, program, words)
	}
	cmd := &exec.Cmd{Path: program, Args: words, Env: assignments(r.env)}
	done, err := r.streams.open(a, cmd, r.env, "0")
	if err != nil {
		return 0, err
	}
	defer done()
	return a.supervise([]*exec.Cmd{cmd}, func(sig syscall.Signal, pid int) {
		switch sig {
		case syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGCONT:
			_ = syscall.Kill(-pid, sig) // it may have ended
			return
		}
		// What a job asks for ahead of its limit is for the program that can use it: a
		// shell that has no handler would die of it.
		if r.toScript {
			_ = syscall.Kill(pid, sig)
			return
		}
		for _, member := range members(pid) {
			if member != pid {
				_ = syscall.Kill(member, sig)
			}
		}
	})
}

// linkNames are the commands that the script finds. On the machine itself Slurm's names may
// be Slurm's own.
func (r *scriptRun) linkNames(a *app) []string {
	if r.host {
		return append(a.linkNames(false), "croft")
	}
	return a.linkNames(true)
}

func (r *scriptRun) notFound(program string) error {
	if r.host {
		return &v1.Problem{Code: string(codes.NotFound), Detail: program + " isn't on this machine: use another interpreter"}
	}
	return notInImage(program)
}

// afterProfile has a login shell run a program: the user's, if it is one that reads its
// options as sh does.
func (r *scriptRun) afterProfile(links, program string, words []string) (shell string, all []string) {
	shell = "/bin/sh"
	if own := r.env["SHELL"]; slices.Contains([]string{"bash", "zsh", "ksh", "dash", "sh"}, filepath.Base(own)) {
		shell = own
	}
	return shell, append([]string{shell, "-l", "-c", `PATH="$0:$PATH"; export PATH; exec "$@"`, links, program}, words[1:]...)
}

func firstLineOf(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

func notInImage(program string) error {
	return &v1.Problem{Code: string(codes.NotFound), Detail: program + " isn't in the image: use another interpreter or another image"}
}

// scratchDir makes a folder for the script and the links: where an image has no /tmp,
// there is /dev/shm.
func scratchDir() (dir string, err error) {
	for _, parent := range []string{os.TempDir(), "/dev/shm"} {
		if dir, err = os.MkdirTemp(parent, "job-"); err == nil {
			return dir, nil
		}
	}
	return "", fmt.Errorf("keeping the script: %w", err)
}

// lookIn finds a program on a PATH that isn't this process's own.
func lookIn(path, name string) (string, error) {
	if strings.Contains(name, "/") {
		return exec.LookPath(name)
	}
	for dir := range strings.SplitSeq(path, ":") {
		if p, err := exec.LookPath(filepath.Join(dir, name)); err == nil && filepath.IsAbs(p) {
			return p, nil
		}
	}
	return "", exec.ErrNotFound
}

// open opens the files of a task and returns a function that closes them. Standard
// error goes where standard output goes unless it has a file of its own.
func (s streams) open(a *app, cmd *exec.Cmd, env map[string]string, task string) (closeAll func(), err error) {
	values := map[byte]string{
		'j': env["SLURM_JOB_ID"], 'J': env["SLURM_JOB_ID"], 'A': otherwise(env["SLURM_ARRAY_JOB_ID"], env["SLURM_JOB_ID"]),
		'a': otherwise(env["SLURM_ARRAY_TASK_ID"], "4294967294"), 't': task, 'n': "0", 'N': env["SLURMD_NODENAME"], 's': "batch",
		'u': env["SLURM_JOB_USER"], 'x': env["SLURM_JOB_NAME"],
	}
	mode := os.O_TRUNC
	if strings.HasPrefix(s.openMode, "a") {
		mode = 0
	}
	var files []*os.File
	closeAll = func() {
		for _, f := range files {
			_ = f.Close() // written through already
		}
	}
	get := func(name string, flags int) (*os.File, error) {
		f, err := os.OpenFile(a.hostPath(pattern(name, values)), flags, 0o666)
		if err != nil {
			closeAll()
			return nil, usage("%v", err)
		}
		files = append(files, f)
		return f, nil
	}
	cmd.Stdout, cmd.Stderr = a.env.Stdout, a.env.Stderr
	if s.output != "" && s.output != "-" {
		f, err := get(s.output, os.O_CREATE|os.O_WRONLY|os.O_APPEND|mode)
		if err != nil {
			return nil, err
		}
		cmd.Stdout, cmd.Stderr = f, f
	}
	if s.errors != "" && pattern(s.errors, values) != pattern(s.output, values) {
		f, err := get(s.errors, os.O_CREATE|os.O_WRONLY|os.O_APPEND|mode)
		if err != nil {
			return nil, err
		}
		cmd.Stderr = f
	}
	if s.input != "" && s.input != "none" {
		f, err := get(s.input, os.O_RDONLY)
		if err != nil {
			return nil, err
		}
		cmd.Stdin = f
	}
	return closeAll, nil
}

// supervise starts commands, each in a process group of its own, passes on the signals
// that come, and returns the greatest exit code.
func (a *app) supervise(cmds []*exec.Cmd, deliver func(sig syscall.Signal, pid int)) (int, error) {
	signals, stop := a.env.Signals()
	defer stop()
	ended := make(chan int)
	for _, cmd := range cmds {
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := cmd.Start(); err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return 0, notInImage(cmd.Path)
			}
			return 0, usage("%v", err)
		}
		go func() { ended <- waitCode(cmd) }()
	}
	worst := 0
	for left := len(cmds); left > 0; {
		select {
		case code := <-ended:
			worst = max(worst, code)
			left--
		case s := <-signals:
			sig, ok := s.(syscall.Signal)
			if !ok || sig == syscall.SIGCHLD || sig == syscall.SIGURG || sig == syscall.SIGPIPE {
				continue
			}
			for _, cmd := range cmds {
				deliver(sig, cmd.Process.Pid)
			}
		}
	}
	return worst, nil
}

// waitCode waits for a command and returns its exit code as a shell gives it.
func waitCode(cmd *exec.Cmd) int {
	err := cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		if err != nil {
			return codes.ExitInternal
		}
		return 0
	}
	if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return exit.ExitCode()
}

// members are the processes of a process group (proc_pid_stat(5)).
func members(group int) []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var out []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		text, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue // it ended meanwhile
		}
		// after the name, which may hold anything: state, parent, group
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		if len(fields) > 2 && fields[2] == strconv.Itoa(group) {
			out = append(out, pid)
		}
	}
	return out
}

// jobEnvironment is the environment inside a job, with Slurm's variables.
func (a *app) jobEnvironment() map[string]string {
	env := map[string]string{}
	for _, kv := range a.env.Environ() {
		if k, v, ok := strings.Cut(kv, "="); ok {
			env[k] = v
		}
	}
	cpus := wholeCPUs(env["CROFT_CPUS"])
	mem, _ := strconv.ParseInt(env["CROFT_MEM"], 10, 64)             // none is 0
	attempt, _ := strconv.Atoi(otherwise(env["CROFT_ATTEMPT"], "1")) // likewise
	gpus := 0
	if d := env["CROFT_DEVICES"]; d != "" {
		gpus = strings.Count(d, ",") + 1
	}
	for k, v := range map[string]string{
		"SLURM_JOB_ID": env["CROFT_JOB_ID"], "SLURM_JOBID": env["CROFT_JOB_ID"], "SLURM_JOB_NAME": env["CROFT_JOB_NAME"],
		"SLURM_JOB_ACCOUNT": env["CROFT_ACCOUNT"], "SLURM_JOB_PARTITION": env["CROFT_PARTITION"], "SLURM_JOB_QOS": env["CROFT_QOS"],
		"SLURM_JOB_NODELIST": env["CROFT_NODE"], "SLURM_NODELIST": env["CROFT_NODE"], "SLURMD_NODENAME": env["CROFT_NODE"],
		"SLURM_JOB_NUM_NODES": "1", "SLURM_NNODES": "1", "SLURM_NODEID": "0", "SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NTASKS": "1",
		"SLURM_CPUS_ON_NODE": cpus, "SLURM_JOB_CPUS_PER_NODE": cpus, "SLURM_MEM_PER_NODE": strconv.FormatInt(mem>>20, 10),
		"SLURM_JOB_GPUS": env["CROFT_DEVICES"], "SLURM_GPUS_ON_NODE": strconv.Itoa(gpus), "SLURM_RESTART_COUNT": strconv.Itoa(attempt - 1),
		"SLURM_JOB_USER": env["USER"], "SLURM_CLUSTER_NAME": "croft",
		"SLURM_ARRAY_JOB_ID": env["CROFT_ARRAY_JOB_ID"], "SLURM_ARRAY_TASK_ID": env["CROFT_ARRAY_TASK_ID"],
	} {
		if env[k] == "" && v != "" {
			env[k] = v
		}
	}
	return env
}

// assignments is env as programs are given it.
func assignments(env map[string]string) []string {
	out := make([]string, 0, len(env))
	for k, v := range env {
		out = append(out, k+"="+v)
	}
	return out
}
