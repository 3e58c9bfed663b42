package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	v1 "croft.dev/croft/api/v1"
)

// server is a croftd of the benchmark's own, in a directory of its own.
type server struct {
	dir    string
	cmd    *exec.Cmd
	client *v1.Client
	s      settings
}

// serve starts a server with a configuration and waits until it answers.
func serve(ctx context.Context, s settings, config string) (*server, error) {
	dir, err := os.MkdirTemp("", "croft-bench-")
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o711); err != nil {
		return nil, err
	}
	v := &server{dir: dir, s: s}
	if err := os.WriteFile(v.config(), []byte(config), 0o600); err != nil {
		return nil, err
	}
	v.cmd = v.daemon(ctx, "server")
	v.cmd.Env = append(v.cmd.Environ(), "CROFT_LISTEN_SSH=127.0.0.1:0") // beside whatever runs already
	log, err := os.Create(filepath.Join(dir, "server.log"))
	if err != nil {
		return nil, err
	}
	v.cmd.Stdout, v.cmd.Stderr = log, log
	if err := v.cmd.Start(); err != nil {
		return nil, err
	}
	if v.client, err = v1.New(v1.Config{Server: v.socket()}); err != nil {
		return nil, err
	}
	for range 200 {
		st, err := v.client.Status(ctx)
		if err == nil && st.Runtime == "ok" && st.Nodes > 0 {
			return v, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
	return nil, fmt.Errorf("the server isn't ready: see %s", log.Name())
}

func (v *server) config() string { return filepath.Join(v.dir, "croft.yaml") }
func (v *server) data() string   { return filepath.Join(v.dir, "data") }
func (v *server) socket() string { return "unix://" + filepath.Join(v.data(), "croft.sock") }

// daemon is a croftd command on this server's data.
func (v *server) daemon(ctx context.Context, args ...string) *exec.Cmd {
	args = append([]string{args[0], "--config", v.config(), "--data", v.data()}, args[1:]...)
	cmd := exec.CommandContext(ctx, filepath.Join(v.s.bin, "croftd"), args...)
	cmd.Stderr = os.Stderr
	return cmd
}

// stop ends the server and removes what it left.
func (v *server) stop(containers bool) {
	_ = v.cmd.Process.Signal(syscall.SIGTERM) // it may be gone
	_ = v.cmd.Wait()
	if containers {
		if err := v.daemon(context.Background(), "runtime", "destroy").Run(); err != nil {
			fmt.Fprintln(os.Stderr, "bench: removing the runtime:", err)
			return
		}
	}
	_ = os.RemoveAll(v.dir)
}

// people makes an account, below another, that the benchmark submits under.
func (v *server) people(ctx context.Context) error {
	if _, err := v.client.AddAccount(ctx, v1.Account{Name: "faculty"}); err != nil {
		return err
	}
	if _, err := v.client.AddAccount(ctx, v1.Account{Name: "bench", Parent: "faculty", Billing: "enforce"}); err != nil {
		return err
	}
	if _, err := v.client.SetMember(ctx, "bench", "root", v1.MemberRequest{Role: "member"}); err != nil {
		return err
	}
	if _, err := v.client.SetPrice(ctx, v1.PriceVersion{CPU: "0.01", Mem: "0.001", GPU: map[string]string{"*": "1"}}); err != nil {
		return err
	}
	parts, err := v1.Collect(v.client.Partitions(ctx))
	if err != nil {
		return err
	}
	share := true
	for _, p := range parts {
		if _, err := v.client.SetPartition(ctx, p.Name, v1.PartitionPatch{ShareDevices: &share}); err != nil {
			return err
		}
	}
	_, err = v.client.AddGrant(ctx, v1.Grant{Account: "bench", Amount: "100000000", Source: "bench"})
	return err
}

// metrics is what the server tells Prometheus.
func (v *server) metrics(ctx context.Context) (string, error) {
	socket := filepath.Join(v.data(), "croft.sock")
	web := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}}
	defer web.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/metrics", nil)
	if err != nil {
		return "", err
	}
	answer, err := web.Do(req)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return string(text), err
}

// memory is the server's resident set in bytes (proc_pid_status(5)).
func (v *server) memory() (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", v.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return kb << 10, err
		}
	}
	return 0, fmt.Errorf("no VmRSS")
}
