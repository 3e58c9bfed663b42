package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"embed"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"text/template"
	"time"
)

//go:embed slurm
var slurmFiles embed.FS

// slurmCluster is Debian's Slurm with accounting in MariaDB, in a directory of its
// own and on ports of its own. Its daemons are this process's children.
type slurmCluster struct {
	dir                                 string
	Host                                string
	Controller, Node, Database, MariaDB int // ports
	Secret                              string
	Defer                               bool // jobs are tried in turns, not as they come
	daemons                             []*exec.Cmd
}

// Dir is for the templates of the configuration.
func (c *slurmCluster) Dir() string { return c.dir }

// startSlurm configures and starts everything and waits until the node is up.
func startSlurm(ctx context.Context) (*slurmCluster, error) {
	c := &slurmCluster{Secret: rand.Text(), Defer: true}
	var err error
	if c.dir, err = os.MkdirTemp("", "croft-bench-slurm-"); err != nil {
		return nil, err
	}
	if err = c.start(ctx); err != nil {
		c.stop()
		return nil, fmt.Errorf("%w (logs: %s)", err, c.dir)
	}
	return c, nil
}

func (c *slurmCluster) start(ctx context.Context) error {
	if err := c.configure(); err != nil {
		return err
	}
	if err := c.munge(ctx); err != nil {
		return err
	}
	if err := c.mariadb(ctx); err != nil {
		return err
	}
	for _, step := range []struct {
		daemon []string
		ready  []string
		then   [][]string
	}{
		{[]string{"slurmdbd", "-D"}, []string{"sacctmgr", "-n", "show", "cluster"}, [][]string{
			{"sacctmgr", "-i", "add", "cluster", "bench"},
		}},
		{[]string{"slurmctld", "-D"}, []string{"scontrol", "show", "partition"}, [][]string{
			{"sacctmgr", "-i", "modify", "qos", "normal", "set", "MaxTRESPerUser=cpu=64", "MaxSubmitJobsPU=1000000", "Priority=10"},
			{"sacctmgr", "-i", "add", "account", "faculty", "GrpTRES=cpu=128"},
			{"sacctmgr", "-i", "add", "account", "bench", "parent=faculty", "GrpJobs=1000"},
			{"sacctmgr", "-i", "add", "user", "nobody", "account=bench", "MaxJobs=200"},
		}},
		{[]string{"slurmd", "-D", "-N", c.Host}, []string{"sh", "-c", "sinfo -h -o %T | grep -q -e idle -e alloc"}, nil},
	} {
		if err := c.daemon(ctx, step.daemon...); err != nil {
			return err
		}
		if err := c.until(ctx, step.ready...); err != nil {
			return err
		}
		for _, args := range step.then {
			if out, err := c.command(ctx, args...).CombinedOutput(); err != nil {
				return fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, out)
			}
		}
	}
	return nil
}

// configure writes the configuration.
func (c *slurmCluster) configure() error {
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	c.Host, _, _ = strings.Cut(host, ".")
	for _, port := range []*int{&c.Controller, &c.Node, &c.Database, &c.MariaDB} {
		if *port, err = freePort(); err != nil {
			return err
		}
	}
	if err := os.Chmod(c.dir, 0o711); err != nil {
		return err
	}
	for _, d := range []string{"munge", "state", "spool", "mariadb"} {
		if err := os.Mkdir(filepath.Join(c.dir, d), 0o755); err != nil {
			return err
		}
	}
	return c.write()
}

// write writes the files of the configuration.
func (c *slurmCluster) write() error {
	all, err := template.ParseFS(slurmFiles, "slurm/*.conf", "slurm/*.cnf")
	if err != nil {
		return err
	}
	for _, t := range all.Templates() {
		mode := os.FileMode(0o644)
		if t.Name() == "slurmdbd.conf" { // holds the password
			mode = 0o600
		}
		var b bytes.Buffer
		if err := t.Execute(&b, c); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(c.dir, t.Name()), b.Bytes(), mode); err != nil {
			return err
		}
	}
	return nil
}

// undefer goes back to what Slurm does by default.
func (c *slurmCluster) undefer(ctx context.Context) error {
	c.Defer = false
	if err := c.write(); err != nil {
		return err
	}
	if out, err := c.command(ctx, "scontrol", "reconfigure").CombinedOutput(); err != nil {
		return fmt.Errorf("scontrol reconfigure: %w: %s", err, out)
	}
	return nil
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

func (c *slurmCluster) munge(ctx context.Context) error {
	key := make([]byte, 1024)
	_, _ = rand.Read(key) // never fails
	if err := os.WriteFile(filepath.Join(c.dir, "munge.key"), key, 0o600); err != nil {
		return err
	}
	socket := filepath.Join(c.dir, "munge", "socket")
	if err := c.daemon(ctx, "munged", "--foreground", "--force", "--key-file="+filepath.Join(c.dir, "munge.key"), "--socket="+socket,
		"--pid-file="+filepath.Join(c.dir, "munged.pid"), "--seed-file="+filepath.Join(c.dir, "munge.seed"), "--num-threads=4"); err != nil {
		return err
	}
	return c.until(ctx, "munge", "--no-input", "--socket="+socket)
}

func (c *slurmCluster) mariadb(ctx context.Context) error {
	defaults := "--defaults-file=" + filepath.Join(c.dir, "mariadb.cnf")
	if out, err := c.command(ctx, "mariadb-install-db", defaults, "--user=root", "--skip-test-db").CombinedOutput(); err != nil {
		return fmt.Errorf("mariadb-install-db: %w: %s", err, out)
	}
	if err := c.daemon(ctx, "mariadbd", defaults); err != nil {
		return err
	}
	if err := c.until(ctx, "mariadb-admin", defaults, "ping"); err != nil {
		return err
	}
	sql := c.command(ctx, "mariadb", defaults)
	sql.Stdin = strings.NewReader("create database slurm_acct_db; create user slurm@localhost identified by '" + c.Secret + "'; grant all on slurm_acct_db.* to slurm@localhost;")
	if out, err := sql.CombinedOutput(); err != nil {
		return fmt.Errorf("mariadb: %w: %s", err, out)
	}
	return nil
}

// command is a command in the cluster's environment.
func (c *slurmCluster) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = c.dir
	cmd.Env = []string{
		"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "SLURM_CONF=" + filepath.Join(c.dir, "slurm.conf"),
		"MYSQL_UNIX_PORT=" + filepath.Join(c.dir, "mariadb.socket"),
	}
	return cmd
}

// asNobody makes a command one of the user that the accounting knows.
func asNobody(cmd *exec.Cmd) *exec.Cmd {
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nogroup}}
	return cmd
}

// Debian's nobody and nogroup.
const nobody, nogroup = 65534, 65534

// daemon starts a daemon in the foreground; what it says goes to a file.
func (c *slurmCluster) daemon(ctx context.Context, args ...string) error {
	cmd := c.command(ctx, args...)
	out, err := os.Create(filepath.Join(c.dir, args[0]+".out"))
	if err != nil {
		return err
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("%w: run hack/setup --bench", err)
	}
	c.daemons = append(c.daemons, cmd)
	return nil
}

// until waits until a command succeeds.
func (c *slurmCluster) until(ctx context.Context, args ...string) error {
	var out []byte
	var err error
	for range 150 {
		if out, err = c.command(ctx, args...).CombinedOutput(); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
	return fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, out)
}

// signal sends a signal to all daemons: to pause them while another is measured.
func (c *slurmCluster) signal(s syscall.Signal) {
	for _, d := range c.daemons {
		_ = d.Process.Signal(s) // one that has ended shows when it is asked
	}
}

// stop ends what runs, then the daemons, the last first, and removes the directory.
func (c *slurmCluster) stop() {
	c.signal(syscall.SIGCONT)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := c.command(ctx, "scancel", "--state=running", "--user=nobody").Run(); err == nil {
		_ = c.until(ctx, "sh", "-c", "! squeue -h -t R,CG | grep -q .") // what is left is left behind
	}
	for i := len(c.daemons) - 1; i >= 0; i-- {
		_ = c.daemons[i].Process.Signal(syscall.SIGTERM)
		_ = c.daemons[i].Wait()
	}
	_ = os.RemoveAll(c.dir)
}

// compile builds the client that submits through libslurm.
func (c *slurmCluster) compile(ctx context.Context) error {
	source, err := slurmFiles.ReadFile("slurm/submit.c")
	if err != nil {
		return err
	}
	cc := c.command(ctx, "gcc", "-O2", "-Wall", "-Werror", "-x", "c", "-o", "submit", "-", "-lslurm", "-lpthread")
	cc.Stdin = strings.NewReader(string(source))
	if out, err := cc.CombinedOutput(); err != nil {
		return fmt.Errorf("gcc: %w: %s", err, out)
	}
	return nil
}

// submit submits through libslurm by so many threads of one process, until most
// jobs are accepted (0: no bound) or span is over (0: no bound).
func (c *slurmCluster) submit(ctx context.Context, clients int, most int64, span time.Duration) (n int64, took time.Duration, err error) {
	cmd := asNobody(c.command(ctx, filepath.Join(c.dir, "submit"), strconv.Itoa(clients), strconv.FormatInt(most, 10), strconv.Itoa(int(span.Seconds()))))
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return 0, 0, fmt.Errorf("submit: %w: %s", err, &errs)
	}
	var refused int64
	if _, err := fmt.Sscan(string(out), &n, &refused, (*int64)(&took)); err != nil {
		return 0, 0, err
	}
	if refused > 0 {
		return 0, 0, fmt.Errorf("refused by Slurm were %d of %d: %s", refused, n+refused, &errs)
	}
	return n, took, nil
}
