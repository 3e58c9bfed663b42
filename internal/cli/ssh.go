package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
)

func (a *app) sshCmd() *cobra.Command {
	var o sshOptions
	cmd := &cobra.Command{
		Use:   "ssh [flags] JOB[.STEP] [-- COMMAND…]",
		Short: "Log in to a running job by SSH",
		Long: `Log in to a running job, or to a further step, with this machine's own ssh, or run a
command there by the user's shell. JOB is its number, or the name of one of yours. It
needs neither a key nor a port of the server's: it comes as whoever croft knows you as.
For scp, rsync and editors see croft ssh-config.`,
		Example: `  croft ssh 118
  croft ssh train -- nvidia-smi -L
  croft ssh -N -L 8888:localhost:8888 118`,
		Args:              needArgs(1, -1, "JOB"),
		ValidArgsFunction: a.jobIDs("running"),
		RunE: func(cmd *cobra.Command, args []string) error {
			job, command := jobAndCommand(args)
			if o.stdio {
				return a.sshStdio(cmd.Context(), jobOfHost(job))
			}
			if !sshName.MatchString(job) {
				return usage("%s isn't a job: give its number, or the name of one of yours", clean(job))
			}
			return a.ssh(cmd.Context(), job, command, o)
		},
	}
	fs := cmd.Flags()
	fs.SetInterspersed(false)
	fs.StringArrayVarP(&o.local, "local", "L", nil, "`[BIND:]PORT:localhost:PORT`: a port here leads to one of the job's")
	fs.StringArrayVarP(&o.remote, "remote", "R", nil, "`PORT:HOST:PORT`: a port in the job leads to one here")
	fs.StringArrayVarP(&o.dynamic, "dynamic", "D", nil, "`[BIND:]PORT`: a SOCKS proxy here for the job's ports")
	fs.BoolVarP(&o.none, "no-command", "N", false, "run nothing: only ports")
	fs.BoolVarP(&o.tty, "tty", "t", false, "a terminal for the command, too")
	fs.BoolVar(&o.stdio, "stdio", false, "speak SSH on standard input and output, as ssh's ProxyCommand")
	return cmd
}

type sshOptions struct {
	local, remote, dynamic []string
	none, tty, stdio       bool
}

// flags are ssh's own.
func (o sshOptions) flags() []string {
	var out []string
	for _, f := range []struct {
		flag   string
		values []string
	}{{"-L", o.local}, {"-R", o.remote}, {"-D", o.dynamic}} {
		for _, v := range f.values {
			out = append(out, f.flag, v)
		}
	}
	if o.none {
		out = append(out, "-N")
	}
	if o.tty {
		out = append(out, "-t")
	}
	return out
}

// sshName is a job as a host's name: ssh hands it to a shell.
var sshName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,199}$`)

// sshDomain ends the names by which ssh knows jobs.
const sshDomain = ".croft"

// jobOfHost is the job that a host's name stands for.
func jobOfHost(host string) string { return strings.TrimSuffix(host, sshDomain) }

// ssh becomes this machine's ssh.
func (a *app) ssh(ctx context.Context, job string, command []string, o sshOptions) error {
	path, err := a.env.Program("ssh")
	if err != nil {
		return &v1.Problem{Code: string(codes.Unavailable), Detail: "ssh isn't installed on this machine: install it (apt-get install openssh-client), or use croft exec -it " + clean(job) + " -- bash"}
	}
	h, err := a.sshHost(ctx)
	if err != nil {
		return err
	}
	args := []string{path}
	for _, l := range h.lines() {
		args = append(args, "-o", l)
	}
	args = append(append(args, o.flags()...), job+sshDomain)
	err = a.env.Exec(path, append(args, command...))
	return fmt.Errorf("%s: %w", path, err)
}

// sshStdio carries SSH between the gate and whoever runs this.
func (a *app) sshStdio(ctx context.Context, job string) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	nc, err := c.SSH(ctx, job)
	if err != nil {
		return err
	}
	defer nc.Close()
	go func() {
		_, _ = io.Copy(nc, a.env.Stdin)
		nc.Close() // ssh has gone
	}()
	_, _ = io.Copy(a.env.Stdout, nc) // how it ended is said in what was carried
	return nil
}

// sshHost is what ssh must know in order to reach jobs.
type sshHost struct {
	proxy, alias, known string
}

// sshHost asks the server, and keeps its keys where ssh finds them: they come by a way
// that is trusted already, so that ssh needs to ask nobody about them.
func (a *app) sshHost(ctx context.Context) (sshHost, error) {
	var h sshHost
	c, err := a.client()
	if err != nil {
		return h, err
	}
	gate, err := c.SSHGate(ctx)
	if err != nil {
		return h, err
	}
	program, err := a.env.Program("croft")
	if err != nil {
		return h, &v1.Problem{Code: string(codes.Unavailable), Detail: "croft, this program, isn't on PATH for ssh to run"}
	}
	words := []string{program}
	if a.server != "" {
		words = append(words, "--server", a.server)
	}
	for i, w := range words {
		words[i] = strings.ReplaceAll(shellQuoted(w), "%", "%%")
	}
	h.proxy = strings.Join(words, " ") + " ssh --stdio '%n'"
	h.alias = gate.Alias
	h.known, err = a.keepHostKeys(gate)
	return h, err
}

// lines are ssh's settings for a job.
func (h sshHost) lines() []string {
	return []string{
		"ProxyCommand " + h.proxy,
		"HostKeyAlias " + h.alias,
		`UserKnownHostsFile "` + h.known + `"`,
		"GlobalKnownHostsFile /dev/null",
		"StrictHostKeyChecking yes",
		"User croft",
		"ServerAliveInterval 30",
	}
}

func shellQuoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// keepHostKeys writes the server's keys to a file of croft's own and returns its name.
func (a *app) keepHostKeys(gate *v1.SSHGate) (string, error) {
	dir := v1.ConfigDir(a.env.Getenv)
	if dir == "" {
		return "", usage("HOME isn't set: there is no place for the server's keys")
	}
	path := filepath.Join(dir, "ssh_known_hosts")
	var text strings.Builder
	for _, k := range gate.HostKeys {
		fmt.Fprintf(&text, "%s %s\n", gate.Alias, k)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", &v1.Problem{Code: string(codes.Unavailable), Detail: err.Error()}
	}
	// Those of other servers stay.
	if old, err := os.ReadFile(path); err == nil {
		for line := range strings.Lines(string(old)) {
			if !strings.HasPrefix(line, gate.Alias+" ") {
				text.WriteString(line)
			}
		}
	}
	if err := replaceFile(path, text.String(), 0o600); err != nil {
		return "", &v1.Problem{Code: string(codes.Unavailable), Detail: "the server's keys can't be kept: " + err.Error()}
	}
	return path, nil
}

// replaceFile writes a file whole or not at all; what it says already isn't written again.
func replaceFile(path, text string, mode os.FileMode) error {
	if old, err := os.ReadFile(path); err == nil && string(old) == text {
		return nil
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".croft-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(text)
	if cerr := f.Chmod(mode); err == nil {
		err = cerr
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
