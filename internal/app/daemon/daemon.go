// Package daemon is croftd's command line.
package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/app"
	"croft.dev/croft/internal/config"
	"croft.dev/croft/internal/engine/cri/devices"
	"croft.dev/croft/internal/engine/cri/runtimed"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/people"
	"croft.dev/croft/internal/setup"
	"croft.dev/croft/internal/version"
)

// Main runs croftd and returns its exit code.
func Main(args, env []string, stdout, stderr io.Writer) int {
	// what the server makes is its own unless it says otherwise
	unix.Umask(0o022)
	d := &daemon{env: env, out: stdout, err: stderr}
	root := d.root()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.Execute()
	if err == nil {
		return codes.ExitOK
	}
	var f *fault.Error
	if !errors.As(err, &f) {
		fmt.Fprintf(stderr, "croftd: %v\n", err)
		if d.running {
			return codes.ExitInternal
		}
		return codes.ExitUsage
	}
	fmt.Fprintf(stderr, "croftd: %s\n", f.Message)
	if len(f.Fields) > 1 {
		for _, field := range f.Fields {
			fmt.Fprintf(stderr, "  %s: %s\n", field.Path, field.Message)
		}
	}
	return codes.Of(f.Code).Exit
}

type daemon struct {
	env      []string
	out, err io.Writer
	running  bool // past the checks of the command line

	configPath, data, http, socket, engine string
	asJSON                                 string
}

func (d *daemon) root() *cobra.Command {
	root := &cobra.Command{
		Use: "croftd", Short: "The server of Croft", Version: version.Version,
		SilenceUsage: true, SilenceErrors: true, Args: cobra.NoArgs,
	}
	root.PersistentFlags().StringVar(&d.configPath, "config", "", "configuration file (default "+config.DefaultPath+" if it exists)")
	root.PersistentFlags().StringVar(&d.data, "data", "", "data directory, in place of the configuration's")
	server := &cobra.Command{
		Use: "server", Short: "Run the server",
		Long: `Run the server until SIGTERM or SIGINT. Jobs go on running when it stops, and are
picked up when it starts again. SIGHUP confirms the machine's clock after a jump.`,
		Example: "  croft server                          # as the configuration says\n  croft server --data .croft            # everything in one folder\n  croft server --config /etc/croft/croft.yaml\n  croft server --engine kube            # on the cluster that the configuration names",
		Args:    cobra.NoArgs, RunE: func(*cobra.Command, []string) error { return d.server() },
	}
	server.Flags().StringVar(&d.http, "http", "", "loopback address of the HTTP API, or off")
	server.Flags().StringVar(&d.socket, "socket", "", "path of the unix socket")
	server.Flags().StringVar(&d.engine, "engine", "", "what runs the jobs, cri, kube or sim, in place of the configuration's")
	runtime := &cobra.Command{
		Use: "runtime", Short: "Run Croft's own container runtime in the foreground",
		Long:    "Run Croft's own container runtime in the foreground, for a service manager. Without\none there is no need to: the server starts it, and it outlives the server.",
		Example: "  croftd runtime\n  croftd runtime --data .croft stop     # containers run on\n  croftd runtime --data .croft destroy  # ends them and removes all that they left",
		Args:    cobra.MaximumNArgs(1), ValidArgs: []string{"stop", "destroy"},
		RunE: func(_ *cobra.Command, args []string) error { return d.runtime(strings.Join(args, "")) },
	}
	load := &cobra.Command{
		Use: "load FILE...", Short: "Load container images from OCI archives into Croft's own runtime",
		Long:    "Load container images from OCI or Docker archives into Croft's own runtime, so that\nthey need not be pulled. The runtime is started if it doesn't run.",
		Example: "  croftd load --data .croft train.tar\n  docker save train:1 -o train.tar && croftd load train.tar",
		Args:    cobra.MinimumNArgs(1), RunE: func(_ *cobra.Command, args []string) error { return d.load(args) },
	}
	report := &cobra.Command{
		Use: "setup", Short: "Report what Croft finds on this machine",
		Long:    "Report what Croft finds on this machine: devices and who uses them, the runtime,\ncontrol groups, file systems, users. It changes nothing.",
		Example: "  croft setup\n  croft setup -o json",
		Args:    cobra.NoArgs, RunE: func(*cobra.Command, []string) error { return d.setup() },
	}
	report.Flags().StringVarP(&d.asJSON, "output", "o", "text", "text or json")
	root.AddCommand(server, runtime, load, report, d.databaseCmd())
	return root
}

func (d *daemon) config() (config.Config, error) {
	path := d.configPath
	if path == "" {
		if _, err := os.Stat(config.DefaultPath); err == nil {
			path = config.DefaultPath
		}
	}
	var flags []config.Setting
	for _, f := range []struct{ key, value, flag string }{{"data", d.data, "--data"}, {"listen.http", d.http, "--http"}, {"listen.socket", d.socket, "--socket"}, {"engine.kind", d.engine, "--engine"}} {
		if f.value != "" {
			flags = append(flags, config.Setting{Key: f.key, Value: f.value, From: f.flag})
		}
	}
	return config.Load(path, d.env, flags...)
}

func (d *daemon) logger(c config.Log) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.Level)); err != nil {
		level = slog.LevelInfo
	}
	opts := &slog.HandlerOptions{Level: level}
	if c.Format == "json" {
		return slog.New(slog.NewJSONHandler(d.err, opts))
	}
	return slog.New(slog.NewTextHandler(d.err, opts))
}

// initPath is croft-init, which is installed beside croftd.
func initPath() (string, error) {
	exe, err := os.Executable()
	if err != nil {
		return "", err
	}
	if exe, err = filepath.EvalSymlinks(exe); err != nil {
		return "", err
	}
	path := filepath.Join(filepath.Dir(exe), "croft-init")
	if _, err := os.Stat(path); err != nil {
		return "", fault.New(codes.Conflict, "croft-init is missing: it belongs beside croftd, in %s", filepath.Dir(exe))
	}
	return path, nil
}

func (d *daemon) server() error {
	cfg, err := d.config()
	if err != nil {
		return err
	}
	init, err := initPath()
	if err != nil {
		return err
	}
	d.running = true
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	return app.Run(ctx, app.Options{Config: cfg, InitPath: init, Confirm: hup, Log: d.logger(cfg.Log)})
}

// ownRuntime is Croft's own container runtime, as the configuration describes it.
func (d *daemon) ownRuntime() (*runtimed.Runtime, error) {
	cfg, err := d.config()
	if err != nil {
		return nil, err
	}
	init, err := initPath()
	if err != nil {
		return nil, err
	}
	return app.Runtime(cfg, init, d.logger(cfg.Log))
}

func (d *daemon) runtime(verb string) error {
	rt, err := d.ownRuntime()
	if err != nil {
		return err
	}
	d.running = true
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	switch verb {
	case "stop":
		return rt.Stop(ctx)
	case "destroy":
		if err := rt.Destroy(ctx); err != nil {
			return err
		}
		return d.clear()
	case "":
		return rt.Foreground(ctx)
	}
	return fault.Invalid("runtime", "%q isn't stop or destroy", verb)
}

// clear takes away what jobs left outside of the runtime.
func (d *daemon) clear() error {
	cfg, err := d.config()
	if err != nil {
		return err
	}
	return app.Clear(cfg)
}

func (d *daemon) load(files []string) error {
	rt, err := d.ownRuntime()
	if err != nil {
		return err
	}
	d.running = true
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := rt.Ensure(ctx); err != nil {
		return err
	}
	for _, f := range files {
		if err := rt.Import(ctx, f); err != nil {
			return fmt.Errorf("%s: %w", f, err)
		}
	}
	return nil
}

func (d *daemon) setup() error {
	if d.asJSON != "text" && d.asJSON != "json" {
		return fault.Invalid("--output", "must be text or json")
	}
	cfg, err := d.config()
	if err != nil {
		return err
	}
	d.running = true
	deps := setup.Deps{Config: cfg, Users: people.New(people.Config{}), Machine: setup.ThisMachine()}
	if devices.HasNVIDIA() {
		deps.NVIDIA = devices.NewNVIDIA(devices.NVIDIAConfig{})
	}
	if init, err := initPath(); err == nil {
		if rt, err := app.Runtime(cfg, init, slog.New(slog.DiscardHandler)); err == nil {
			deps.Runtime = rt
			deps.Subnet = rt.Subnet
		}
	}
	r := setup.Run(context.Background(), deps)
	if d.asJSON == "json" {
		enc := json.NewEncoder(d.out)
		enc.SetIndent("", "  ")
		return enc.Encode(r)
	}
	return r.WriteText(d.out)
}
