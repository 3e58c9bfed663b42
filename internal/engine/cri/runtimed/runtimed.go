// Package runtimed runs Croft's own container runtime: a containerd with its own
// directories, socket, network bridge and configuration, which shares nothing
// with another container runtime on the machine.
//
// It is a process of its own and outlives the server: Ensure finds it again.
// Containers in turn outlive it, so that it may be restarted at any time.
package runtimed

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Config says where the runtime lives and how it reaches registries.
type Config struct {
	Dir       string   // persistent data: images, containers' file systems, configuration
	RunDir    string   // sockets and volatile state, lost at reboot; default /run/croft/<digest of Dir>
	BinDir    string   // containerd, containerd-shim-runc-v2, ctr, runc
	CNIBinDir string   // bridge, host-local, portmap
	InitPath  string   // the croft-init binary, of which the sandbox's image is made
	CDIDirs   []string // directories of CDI files; /etc/cdi and /var/run/cdi are added
	Bridge    string   // name of the bridge, default croft0; at most 15 bytes
	Subnet    string   // IPv4 prefix of the bridge; empty: a free one is chosen and remembered
	Registry  Registry
	Logger    *slog.Logger
}

// Registry says how images are pulled.
type Registry struct {
	Mirrors map[string][]string // registry host → URLs that are asked first
	CAFile  string              // PEM file of the site's own certificate authority
	// Proxy variables for the runtime's process.
	HTTPProxy, HTTPSProxy, NoProxy string
}

// Runtime is the runtime of one data directory.
type Runtime struct {
	cfg Config
	log *slog.Logger
}

// maxSocket is the longest path that a Unix socket address holds; containerd
// also listens on the path with ".ttrpc" after it.
const maxSocket = 107 - len(".ttrpc")

// New checks cfg and fills in what it leaves open. It starts nothing.
func New(cfg Config) (*Runtime, error) {
	if cfg.Dir == "" || cfg.BinDir == "" || cfg.CNIBinDir == "" || cfg.InitPath == "" {
		return nil, errors.New("runtimed: Dir, BinDir, CNIBinDir and InitPath are needed")
	}
	for _, p := range []*string{&cfg.Dir, &cfg.BinDir, &cfg.CNIBinDir, &cfg.InitPath} {
		abs, err := filepath.Abs(*p)
		if err != nil {
			return nil, err
		}
		*p = abs
	}
	if cfg.RunDir == "" {
		sum := sha256.Sum256([]byte(cfg.Dir))
		cfg.RunDir = "/run/croft/" + hex.EncodeToString(sum[:4])
	}
	if cfg.Bridge == "" {
		cfg.Bridge = "croft0"
	}
	if len(cfg.Bridge) >= unix.IFNAMSIZ {
		return nil, fmt.Errorf("runtimed: bridge name %q is longer than %d bytes", cfg.Bridge, unix.IFNAMSIZ-1)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	r := &Runtime{cfg: cfg, log: cfg.Logger}
	if len(r.Socket()) > maxSocket {
		return nil, fmt.Errorf("runtimed: socket path %s is longer than %d bytes", r.Socket(), maxSocket)
	}
	for _, bin := range []string{"containerd", "containerd-shim-runc-v2", "ctr", "runc"} {
		if _, err := exec.LookPath(r.bin(bin)); err != nil {
			return nil, fmt.Errorf("runtimed: %w", err)
		}
	}
	return r, nil
}

// Socket returns the path of the runtime's socket.
func (r *Runtime) Socket() string { return filepath.Join(r.cfg.RunDir, "containerd.sock") }

// Endpoint returns the socket as cri.Config takes it.
func (r *Runtime) Endpoint() string { return "unix://" + r.Socket() }

// LogPath returns the path of the runtime's own log.
func (r *Runtime) LogPath() string { return filepath.Join(r.cfg.Dir, "containerd.log") }

func (r *Runtime) bin(name string) string { return filepath.Join(r.cfg.BinDir, name) }
func (r *Runtime) configPath() string     { return filepath.Join(r.cfg.Dir, "config.toml") }
func (r *Runtime) path(parts ...string) string {
	return filepath.Join(append([]string{r.cfg.Dir}, parts...)...)
}

// Ensure makes sure that the runtime runs with the present configuration and
// has the sandbox's image. One that already runs is kept; if its configuration
// differs it is restarted, which no container notices, unless a service manager
// runs it (Foreground).
func (r *Runtime) Ensure(ctx context.Context) error {
	unlock, err := r.lock()
	if err != nil {
		return err
	}
	defer unlock()
	digest, err := r.prepare(ctx)
	if err != nil {
		return err
	}
	if err := r.ensureProcess(ctx, digest); err != nil {
		return err
	}
	return r.ensurePause(ctx)
}

func (r *Runtime) ensureProcess(ctx context.Context, digest string) error {
	state, running := r.running()
	switch {
	case running && state.Digest == digest:
		return r.waitReady(ctx, nil)
	case running && state.Foreground:
		r.log.Warn("container runtime runs with an older configuration; restart its service", "pid", state.PID)
		return r.waitReady(ctx, nil)
	case running:
		r.log.Info("restarting the container runtime: its configuration has changed", "pid", state.PID)
		if err := r.terminate(ctx, state.PID); err != nil {
			return err
		}
	}
	return r.start(ctx, digest)
}

// start starts the runtime in a session of its own, so that no signal to the
// server's group or terminal reaches it.
func (r *Runtime) start(ctx context.Context, digest string) error {
	logFile, err := r.openLog()
	if err != nil {
		return err
	}
	defer logFile.Close()
	cmd := exec.Command(r.bin("containerd"), r.args()...)
	cmd.Env = r.env()
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = logFile, logFile
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("runtimed: %w", err)
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	if err := r.save(processState{PID: cmd.Process.Pid, Digest: digest}); err != nil {
		return err
	}
	r.log.Info("container runtime started", "pid", cmd.Process.Pid, "socket", r.Socket())
	return r.waitReady(ctx, exited)
}

// Foreground prepares the configuration and becomes the runtime: it returns only
// if that fails. For a unit of a service manager.
func (r *Runtime) Foreground(ctx context.Context) error {
	unlock, err := r.lock()
	if err != nil {
		return err
	}
	digest, err := r.prepare(ctx)
	if err == nil {
		err = r.save(processState{PID: os.Getpid(), Digest: digest, Foreground: true})
	}
	unlock()
	if err != nil {
		return err
	}
	env := r.env()
	if s := os.Getenv("NOTIFY_SOCKET"); s != "" { // here it is for us: the unit is Type=notify
		env = append(env, "NOTIFY_SOCKET="+s)
	}
	bin := r.bin("containerd")
	return syscall.Exec(bin, append([]string{bin}, r.args()...), env)
}

func (r *Runtime) args() []string { return []string{"--config", r.configPath(), "--log-level", "warn"} }

// env is the server's environment with the proxy's variables and a PATH on which
// the network plugins find the firewall's tools.
func (r *Runtime) env() []string {
	var env []string
	set := map[string]string{
		"PATH": r.cfg.BinDir + ":" + os.Getenv("PATH") + ":/usr/local/sbin:/usr/sbin:/sbin",
	}
	for name, value := range map[string]string{
		"HTTP_PROXY": r.cfg.Registry.HTTPProxy, "HTTPS_PROXY": r.cfg.Registry.HTTPSProxy, "NO_PROXY": r.cfg.Registry.NoProxy,
	} {
		if value != "" {
			set[name], set[strings.ToLower(name)] = value, value
		}
	}
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		// The service manager's socket and watchdog are the server's, not the
		// runtime's that it starts.
		if _, ours := set[name]; ours || name == "NOTIFY_SOCKET" || name == "WATCHDOG_USEC" || name == "WATCHDOG_PID" {
			continue
		}
		env = append(env, kv)
	}
	for name, value := range set {
		env = append(env, name+"="+value)
	}
	return env
}

// openLog opens the runtime's log, starting a new one when it has grown.
func (r *Runtime) openLog() (*os.File, error) {
	const limit = 16 << 20
	if st, err := os.Stat(r.LogPath()); err == nil && st.Size() > limit {
		if err := os.Rename(r.LogPath(), r.LogPath()+".1"); err != nil {
			return nil, fmt.Errorf("runtimed: %w", err)
		}
	}
	f, err := os.OpenFile(r.LogPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
	if err != nil {
		return nil, fmt.Errorf("runtimed: %w", err)
	}
	return f, nil
}

// lock keeps two starts of one runtime apart, over processes.
func (r *Runtime) lock() (unlock func(), err error) {
	if err := os.MkdirAll(r.cfg.Dir, 0o711); err != nil {
		return nil, fmt.Errorf("runtimed: %w", err)
	}
	f, err := os.OpenFile(r.path("lock"), os.O_CREATE|os.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("runtimed: %w", err)
	}
	for {
		if err = unix.Flock(int(f.Fd()), unix.LOCK_EX); err != unix.EINTR {
			break
		}
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("runtimed: lock: %w", err)
	}
	return func() { f.Close() }, nil
}

// startTimeout bounds how long the runtime may take until it answers.
const startTimeout = 30 * time.Second

// waitReady returns once the runtime answers and is ready, or early when its
// process ends (exited gets a value).
func (r *Runtime) waitReady(ctx context.Context, exited <-chan error) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		err := r.ready(ctx)
		if err == nil {
			return nil
		}
		t := time.NewTimer(20 * time.Millisecond)
		select {
		case <-ctx.Done():
			t.Stop()
			return fmt.Errorf("runtimed: the container runtime doesn't become ready (see %s): %w", r.LogPath(), err)
		case werr := <-exited:
			t.Stop()
			return fmt.Errorf("runtimed: the container runtime ended at once (%v): %s", werr, r.lastLog())
		case <-t.C:
		}
	}
}

// lastLog returns the last lines of the runtime's log.
func (r *Runtime) lastLog() string {
	text, err := os.ReadFile(r.LogPath())
	if err != nil {
		return err.Error()
	}
	const most = 1000
	return strings.TrimSpace(string(text[max(0, len(text)-most):]))
}
