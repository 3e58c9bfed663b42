package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	v1 "croft.dev/croft/api/v1"
)

// sshBytes is how much goes through SSH in a measurement.
const (
	sshBytes   = 256 << 20
	sshRepeats = 5
)

// ssh measures what goes through the SSH gate into a job, each in turn with OpenSSH's own
// server on the machine's loopback, by the same client with its own preferences.
func ssh(ctx context.Context, s settings) error {
	v, err := serve(ctx, s, "engine: {runtime_dir: "+s.runtime+", node_name: gpu1, bridge: croftbench0}\ndevices: {simulated: {count: 4, model: sim}}\nlisten: {http: \"off\"}\nlog: {level: warn}\n")
	if err != nil {
		return err
	}
	defer v.stop(true)
	if err := v.people(ctx); err != nil {
		return err
	}
	if err := v.daemon(ctx, "load", filepath.Join(s.images, "tiny.tar")).Run(); err != nil {
		return err
	}
	job, err := v.client.Submit(ctx, v1.JobSpec{Image: "tiny:1", CPU: "2", Mem: "2G", Time: "1h", Command: []string{"sleep", "3600"}})
	if err != nil {
		return err
	}
	if _, err := v.client.Wait(ctx, job.ID, v1.Running, v1.WaitOptions{}); err != nil {
		return err
	}
	both, err := v.sshHosts(ctx, job.ID)
	if err != nil {
		return err
	}
	defer both.stop()
	for _, part := range []struct {
		what string
		run  func(context.Context, string) (time.Duration, error)
	}{
		{"out of a job: ssh JOB dd bs=64k of 256 MiB", both.out}, {"into it: ssh JOB 'cat >/dev/null' of 256 MiB", both.into},
		{"sftp put of 256 MiB", both.put}, {"sftp get of 256 MiB", both.get}, {"a session: ssh JOB true", both.session},
	} {
		if err := both.compare(ctx, part.what, part.run); err != nil {
			return err
		}
	}
	return nil
}

// sshPair is a client's configuration with two hosts: gate, which leads into the job, and
// sshd, which is the machine.
type sshPair struct {
	dir  string
	sshd *exec.Cmd
}

func (v *server) sshHosts(ctx context.Context, job string) (*sshPair, error) {
	sshd, err := exec.LookPath("/usr/sbin/sshd")
	if err != nil {
		return nil, errors.New("sshd isn't installed: run hack/setup --bench")
	}
	p := &sshPair{dir: filepath.Join(v.dir, "ssh")}
	if err := os.Mkdir(p.dir, 0o700); err != nil {
		return nil, err
	}
	for _, name := range []string{"id", "host"} {
		if err := exec.CommandContext(ctx, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", p.in(name)).Run(); err != nil {
			return nil, err
		}
	}
	key, err := os.ReadFile(p.in("id.pub"))
	if err != nil {
		return nil, err
	}
	me, err := v.client.Me(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := v.client.AddSSHKey(ctx, me.User, v1.SSHKeyRequest{Key: string(key)}); err != nil {
		return nil, err
	}
	gate, err := v.client.SSHGate(ctx)
	if err != nil {
		return nil, err
	}
	port, err := p.start(ctx, sshd)
	if err != nil {
		return nil, err
	}
	config := fmt.Sprintf(`Host *
  HostName 127.0.0.1
  IdentityFile %[1]s/id
  IdentitiesOnly yes
  StrictHostKeyChecking no
  UserKnownHostsFile /dev/null
  LogLevel ERROR
Host gate
  Port %[2]d
  User %[3]s
Host sshd
  Port %[4]s
`, p.dir, gate.Port, job, port)
	return p, os.WriteFile(p.in("config"), []byte(config), 0o600)
}

func (p *sshPair) in(name string) string { return filepath.Join(p.dir, name) }

// start starts OpenSSH's server with keys and a port of its own.
func (p *sshPair) start(ctx context.Context, sshd string) (port string, err error) {
	if err := os.MkdirAll("/run/sshd", 0o755); err != nil { // where it separates its privileges
		return "", err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	port = strconv.Itoa(ln.Addr().(*net.TCPAddr).Port)
	ln.Close()
	text := fmt.Sprintf("ListenAddress 127.0.0.1:%[2]s\nHostKey %[1]s/host\nAuthorizedKeysFile %[1]s/id.pub\nStrictModes no\nUsePAM no\nPermitRootLogin yes\nPidFile none\nSubsystem sftp internal-sftp\n", p.dir, port)
	if err := os.WriteFile(p.in("sshd_config"), []byte(text), 0o600); err != nil {
		return "", err
	}
	p.sshd = exec.CommandContext(ctx, sshd, "-D", "-e", "-f", p.in("sshd_config"))
	if err := p.sshd.Start(); err != nil {
		return "", err
	}
	for range 100 {
		if nc, err := net.Dial("tcp", "127.0.0.1:"+port); err == nil {
			nc.Close()
			return port, nil
		}
		<-time.After(50 * time.Millisecond)
	}
	return "", errors.New("sshd doesn't answer")
}

func (p *sshPair) stop() {
	_ = p.sshd.Process.Kill()
	_ = p.sshd.Wait()
}

// compare measures one thing through both in turn, and says the gate's share.
func (p *sshPair) compare(ctx context.Context, what string, run func(context.Context, string) (time.Duration, error)) error {
	var ours, theirs []time.Duration
	for range sshRepeats {
		for host, into := range map[string]*[]time.Duration{"gate": &ours, "sshd": &theirs} {
			took, err := run(ctx, host)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", what, host, err)
			}
			*into = append(*into, took)
		}
	}
	mine, other := quantile(ours, 500), quantile(theirs, 500)
	text := func(d time.Duration) string { return fmt.Sprintf("%.0f MB/s", sshBytes/1e6/d.Seconds()) }
	if strings.Contains(what, "session") {
		text = ms
	}
	row(what+", beside OpenSSH's server", fmt.Sprintf("%s against %s, %.2f×", text(mine), text(other), other.Seconds()/mine.Seconds()), "0.5×")
	return nil
}

func (p *sshPair) call(ctx context.Context, stdin io.Reader, stdout io.Writer, program string, args ...string) (time.Duration, error) {
	cmd := exec.CommandContext(ctx, program, append([]string{"-F", p.in("config")}, args...)...)
	var stderr strings.Builder
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, &stderr
	begun := time.Now()
	if err := cmd.Run(); err != nil {
		return 0, fmt.Errorf("%w: %s", err, stderr.String())
	}
	return time.Since(begun), nil
}

func (p *sshPair) out(ctx context.Context, host string) (time.Duration, error) {
	n := new(counter)
	took, err := p.call(ctx, nil, n, "ssh", host, "dd if=/dev/zero bs=64k count="+strconv.Itoa(sshBytes>>16)+" 2>/dev/null")
	if err == nil && int64(*n) != sshBytes {
		err = fmt.Errorf("%d bytes came", int64(*n))
	}
	return took, err
}

func (p *sshPair) into(ctx context.Context, host string) (time.Duration, error) {
	return p.call(ctx, io.LimitReader(zeros{}, sshBytes), nil, "ssh", host, "cat >/dev/null")
}

func (p *sshPair) session(ctx context.Context, host string) (time.Duration, error) {
	return p.call(ctx, nil, nil, "ssh", host, "true")
}

// zeros are any number of them.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

func (p *sshPair) put(ctx context.Context, host string) (time.Duration, error) {
	if _, err := os.Stat(p.in("big")); err != nil {
		if err := os.WriteFile(p.in("big"), make([]byte, sshBytes), 0o600); err != nil {
			return 0, err
		}
	}
	return p.call(ctx, strings.NewReader("put "+p.in("big")+" /tmp/croft-bench-"+host+"\n"), nil, "sftp", "-q", "-b", "-", host)
}

func (p *sshPair) get(ctx context.Context, host string) (time.Duration, error) {
	return p.call(ctx, strings.NewReader("get /tmp/croft-bench-"+host+" "+p.in("back")+"\n"), nil, "sftp", "-q", "-b", "-", host)
}
