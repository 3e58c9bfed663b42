package cri

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/engine/cri/devices"
	"croft.dev/croft/internal/engine/cri/runtimed"
)

// testRuntime is the container runtime that all tests of this package share. It
// is started once, in a directory of its own.
type testRuntime struct {
	dir      string
	initPath string
	cdi      string
	bridge   string
	runtime  *runtimed.Runtime
}

var shared *testRuntime

// foregroundDir, in the environment, makes the test binary become the runtime of
// that directory, as a service manager's unit does.
const foregroundDir = "CROFT_TEST_FOREGROUND"

func TestMain(m *testing.M) {
	if dir := os.Getenv(foregroundDir); dir != "" {
		r, err := newRuntime(dir)
		if err == nil {
			err = r.runtime.Foreground(context.Background())
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "croft-cri")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		shared, err = startRuntime(ctx, dir)
		if shared != nil {
			defer func() {
				if err := shared.runtime.Destroy(context.Background()); err != nil {
					fmt.Fprintln(os.Stderr, "destroy:", err)
				}
			}()
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "no container runtime for the tests:", err)
			return 1
		}
		return m.Run()
	}())
}

// startRuntime builds croft-init, starts a runtime in dir and loads the test
// images.
func startRuntime(ctx context.Context, dir string) (*testRuntime, error) {
	images, err := toolDir("CROFT_TEST_IMAGES", "images")
	if err != nil {
		return nil, err
	}
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w",
		"-o", filepath.Join(dir, "croft-init"), "croft.dev/croft/cmd/croft-init")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build croft-init: %w\n%s", err, out)
	}
	if err := os.Chmod(dir, 0o711); err != nil {
		return nil, err
	}
	r, err := newRuntime(dir)
	if err != nil {
		return nil, err
	}
	if err := r.runtime.Ensure(ctx); err != nil {
		return r, err
	}
	return r, r.runtime.Import(ctx, filepath.Join(images, "tiny.tar"))
}

// newRuntime describes the runtime in dir, where croft-init is already.
func newRuntime(dir string, change ...func(*runtimed.Config)) (*testRuntime, error) {
	bin, err := toolDir("CROFT_RUNTIME_DIR", "runtime")
	if err != nil {
		return nil, err
	}
	r := &testRuntime{dir: dir, initPath: filepath.Join(dir, "croft-init"), cdi: filepath.Join(dir, "cdi")}
	cfg := runtimed.Config{
		Dir:       filepath.Join(dir, "runtime"),
		RunDir:    filepath.Join(dir, "run"),
		BinDir:    filepath.Join(bin, "bin"),
		CNIBinDir: filepath.Join(bin, "cni"),
		InitPath:  r.initPath,
		CDIDirs:   []string{r.cdi},
		// Unique among test runs, and the same in each process of one.
		Bridge: "crt" + strings.TrimPrefix(filepath.Base(dir), "croft-cri"),
	}
	cfg.Bridge = cfg.Bridge[:min(len(cfg.Bridge), 15)]
	for _, f := range change {
		f(&cfg)
	}
	r.bridge = cfg.Bridge
	r.runtime, err = runtimed.New(cfg)
	return r, err
}

// toolDir returns the directory named by the environment variable, or the one
// that make setup fills in this checkout.
func toolDir(variable, name string) (string, error) {
	if dir := os.Getenv(variable); dir != "" {
		return dir, nil
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; dir != "/"; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err != nil {
			continue
		}
		tools := filepath.Join(dir, ".tools", name)
		if _, err := os.Stat(tools); err != nil {
			return "", fmt.Errorf("%w: run make setup", err)
		}
		return tools, nil
	}
	return "", fmt.Errorf("no go.mod above the working directory")
}

// testEngine is an engine of a new instance with directories of its own.
type testEngine struct {
	*Engine
	t        testing.TB
	instance string
}

func newEngine(t testing.TB, change ...func(*Config)) *testEngine {
	t.Helper()
	instance := uuid.NewString()
	// Directories that need room for tmpfs mounts and are cleared after them.
	dir, err := os.MkdirTemp(shared.dir, "engine")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	cfg := Config{
		Endpoint: shared.runtime.Endpoint(), Own: true,
		Instance: instance,
		NodeName: "node1",
		StateDir: filepath.Join(dir, "state"),
		LogDir:   filepath.Join(dir, "logs"),
		InitPath: shared.initPath,
		// One parent for each instance, so that its removal can be checked.
		CgroupParent: "croft-test-" + instance[:8],
		Logger:       slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	sim, err := devices.NewSimulated(devices.SimulatedConfig{
		Instance: instance, Count: 4, Model: "a100-80g", CDIDir: shared.cdi, Dir: dir,
	})
	if err != nil {
		t.Fatal(err)
	}
	cfg.Devices = sim
	for _, f := range change {
		f(&cfg)
	}
	e := open(t, cfg)
	t.Cleanup(func() { e.discardAll() })
	return &testEngine{Engine: e.Engine, t: t, instance: instance}
}

func open(t testing.TB, cfg Config) *testEngine {
	t.Helper()
	e, err := New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return &testEngine{Engine: e, t: t, instance: cfg.Instance}
}

// discardAll stops and removes every attempt of the instance and checks that
// nothing is left of them.
func (e *testEngine) discardAll() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	all, err := e.List(ctx)
	if err != nil {
		e.t.Errorf("clean up: %v", err)
		return
	}
	for _, st := range all {
		if err := e.Stop(ctx, st.Attempt); err != nil {
			e.t.Errorf("clean up: %v", err)
		}
		if err := e.Remove(ctx, st.Attempt); err != nil {
			e.t.Errorf("clean up: %v", err)
		}
	}
	left, err := os.ReadDir(filepath.Join(e.cfg.StateDir, "attempts"))
	if err != nil || len(left) > 0 {
		e.t.Errorf("scratch left behind: %v, %v", left, err)
	}
	if err := e.cg.Remove("/" + e.cfg.CgroupParent); err != nil {
		e.t.Errorf("clean up: %v", err)
	}
}

// testWriter writes log lines into a test's log.
type testWriter struct{ t testing.TB }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Logf("%s", p)
	return len(p), nil
}

// allocation is an attempt of the tiny image.
func (e *testEngine) allocation(job int64, command ...string) engine.Allocation {
	return engine.Allocation{
		Attempt: engine.AttemptID(fmt.Sprintf("%.8s-%d-1", e.instance, job)),
		Job:     job, N: 1, Node: "node1",
		Instance: e.instance, Account: "lab", SpecDigest: "sha256:0",
		Name: "Test Job", Container: engine.Container{Image: "tiny:1", Command: command},
		User: engine.User{
			Name: "alice", UID: 5001, GID: 6001, Home: "/home/alice", Shell: "/bin/sh",
			Groups: []engine.Group{{Name: "lab", GID: 7001}, {Name: "gpu", GID: 7002}},
		},
		CPU: 500, Memory: 64 << 20,
	}
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
