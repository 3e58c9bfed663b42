package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
)

func (a *app) sshConfigCmd() *cobra.Command {
	var write bool
	cmd := &cobra.Command{
		Use:   "ssh-config",
		Short: "Let ssh, scp, rsync and editors reach jobs as JOB.croft",
		Long: `Print what ~/.ssh/config needs so that ssh reaches running jobs as JOB.croft, where JOB
is a number or the name of one of yours; so do scp, sftp, rsync and editors that work over
SSH then: rsync -a data/ train.croft:data/. --write puts it there, or renews it.`,
		Example: `  croft ssh-config --write
  croft ssh-config >> ~/.ssh/config`,
		Args: needArgs(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			h, err := a.sshHost(cmd.Context())
			if err != nil {
				return err
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			gate, err := c.SSHGate(cmd.Context())
			if err != nil {
				return err
			}
			block := h.block() + a.direct(gate)
			if !write {
				return a.print(map[string]string{"config": block}, func(w io.Writer) { fmt.Fprint(w, block) })
			}
			path, err := a.writeSSHConfig(block)
			if err != nil {
				return err
			}
			return a.done("%s: ssh JOB.croft reaches your jobs", path)
		},
	}
	cmd.Flags().BoolVar(&write, "write", false, "put it into ~/.ssh/config, in place of what was put there before")
	return cmd
}

// Lines around what is Croft's in a configuration of ssh.
const (
	sshBegin = "# >>> croft ssh-config >>>"
	sshEnd   = "# <<< croft ssh-config <<<"
)

// block is what ssh's configuration needs.
func (h sshHost) block() string {
	var b strings.Builder
	b.WriteString("# ssh JOB.croft logs in to a running job; so do scp, sftp, rsync and editors.\nHost *" + sshDomain + "\n")
	for _, l := range h.lines() {
		b.WriteString("  " + l + "\n")
	}
	return b.String()
}

// direct says how a job is reached without this program: by a registered key.
func (a *app) direct(gate *v1.SSHGate) string {
	if !gate.Listens {
		return ""
	}
	host := gate.Host
	if u, err := url.Parse(v1.Discover(a.env.Getenv, a.env.Dir)); host == "" && err == nil {
		host = u.Hostname()
	}
	host = cmp.Or(host, a.env.Host)
	var b strings.Builder
	fmt.Fprintf(&b, "# Without croft, with a registered key (croft ssh-key add): ssh -p %d JOB@%s\n# The server's keys, for known_hosts:\n", gate.Port, clean(host))
	at := net.JoinHostPort(host, strconv.Itoa(gate.Port))
	if !strings.HasPrefix(at, "[") {
		at = fmt.Sprintf("[%s]:%d", host, gate.Port)
	}
	for _, k := range gate.HostKeys {
		fmt.Fprintf(&b, "#   %s %s\n", clean(at), clean(k))
	}
	return b.String()
}

// writeSSHConfig puts a block at the top of the user's configuration, where nothing comes
// before it, or in the place of the one that is there.
func (a *app) writeSSHConfig(block string) (string, error) {
	home := a.env.Getenv("HOME")
	if home == "" {
		return "", usage("HOME isn't set: where is .ssh/config?")
	}
	path := filepath.Join(home, ".ssh", "config")
	failed := func(err error) (string, error) {
		return "", &v1.Problem{Code: string(codes.Unavailable), Detail: path + " can't be written: " + err.Error()}
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return failed(err)
	}
	real, mode := path, fs.FileMode(0o600)
	old, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return failed(err)
	default:
		if real, err = filepath.EvalSymlinks(path); err != nil { // it may be kept elsewhere
			return failed(err)
		}
		info, err := os.Stat(real)
		if err != nil {
			return failed(err)
		}
		mode = info.Mode().Perm()
	}
	text, err := withBlock(string(old), block)
	if err != nil {
		return failed(err)
	}
	if err := replaceFile(real, text, mode); err != nil {
		return failed(err)
	}
	return path, nil
}

// withBlock is a configuration with a block of Croft's in it once.
func withBlock(text, block string) (string, error) {
	block = sshBegin + "\n" + block + sshEnd + "\n"
	before, rest, has := strings.Cut(text, sshBegin+"\n")
	if !has {
		if text != "" {
			block += "\n"
		}
		return block + text, nil
	}
	_, after, ends := strings.Cut(rest, sshEnd+"\n")
	if !ends {
		return "", errors.New("the line " + sshEnd + " is missing in it")
	}
	return before + block + after, nil
}
