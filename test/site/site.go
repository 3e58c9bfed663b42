package site

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	v1 "croft.dev/croft/api/v1"
)

// Config describes a site.
type Config struct {
	Name   string   // of the site: short, unique among those that may run at once
	Users  []string // Unix users to make, without the site's prefix
	Images []string // archives to load, such as tiny.tar; none for the sim engine
	Extra  string   // more of the configuration file, YAML
	Sim    bool     // no containers: the sim engine
	Engine string   // the configuration's section engine, where containers aren't this machine's; $SITE is Dir
	// Tmpfs, if set, is the size of a file system of its own for the data directory.
	Tmpfs string
}

// Site is a Croft of its own. Dir may be entered by every user.
type Site struct {
	Dir  string
	Data string

	cfg    Config
	http   string // host and port
	source source
	client *v1.Client

	mu     sync.Mutex
	server *process
}

// source is where the programs and images come from.
type source struct{ bin, runtime, images string }

// Open makes a site; its server isn't started yet. Close it whatever it returns.
func Open(ctx context.Context, cfg Config) (*Site, error) {
	s := &Site{cfg: cfg}
	if os.Geteuid() != 0 {
		return s, errors.New("needs root: it starts containers and makes Unix users")
	}
	var err error
	if s.source, err = find(); err != nil {
		return s, err
	}
	if err := sweep(ctx, cfg); err != nil {
		return s, fmt.Errorf("removing what an earlier run left: %w", err)
	}
	if s.Dir, err = os.MkdirTemp("", prefix(cfg.Name)); err != nil {
		return s, err
	}
	s.Data = s.in("data")
	if s.http, err = freePort(); err != nil {
		return s, err
	}
	if err := s.furnish(); err != nil {
		return s, err
	}
	if s.client, err = v1.New(v1.Config{Server: "unix://" + s.Socket()}); err != nil {
		return s, err
	}
	return s, s.load(ctx)
}

func prefix(name string) string { return "croft-" + name + "-" }

// furnish fills the directory: programs, configuration, users.
func (s *Site) furnish() error {
	if err := os.WriteFile(s.in("owner"), []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
		return err
	}
	if err := os.Chmod(s.Dir, 0o711); err != nil {
		return err
	}
	for _, d := range []string{"bin", "home", "work"} {
		if err := os.MkdirAll(s.in(d), 0o755); err != nil {
			return err
		}
	}
	// copied, so that a build meanwhile doesn't matter, and where every user gets at them
	for _, name := range []string{"croft", "croftd", "croft-init"} {
		if err := install(filepath.Join(s.source.bin, name), s.in("bin", name)); err != nil {
			return err
		}
	}
	if err := os.WriteFile(s.in("bin", "as"), []byte(s.as()), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(s.in("croft.yaml"), []byte(s.yaml()), 0o644); err != nil {
		return err
	}
	if s.cfg.Tmpfs != "" {
		if err := os.Mkdir(s.Data, 0o711); err != nil {
			return err
		}
		if err := unix.Mount("tmpfs", s.Data, "tmpfs", 0, "mode=711,size="+s.cfg.Tmpfs); err != nil {
			return fmt.Errorf("mounting a tmpfs: %w", err)
		}
	}
	for _, u := range s.cfg.Users {
		if err := s.addUser(u); err != nil {
			return err
		}
	}
	return nil
}

func (s *Site) yaml() string {
	text := fmt.Sprintf("listen: {socket: %s, http: %q, ssh: \"127.0.0.1:0\"}\n", s.Socket(), s.http)
	if s.cfg.Engine != "" {
		return text + "engine: " + strings.ReplaceAll(s.cfg.Engine, "$SITE", s.Dir) + "\n" + s.cfg.Extra
	}
	if s.cfg.Sim {
		text += "engine: {kind: sim, node_name: gpu1, host: {programs: true}}\n"
	} else {
		// Images that tests brought are kept however full the machine is.
		text += fmt.Sprintf("engine: {runtime_dir: %s, node_name: gpu1, reserve: {mem: 1G}, host: {programs: true}, image_high: 99, image_low: 98, bridge: %s, cgroup_parent: croft-%s}\n",
			s.source.runtime, s.Bridge(), s.cfg.Name)
	}
	return text + "devices: {simulated: {count: 4, model: sim}, memory: {sim: 16G}}\n" + s.cfg.Extra
}

// as is the program that runs a command as a user of the site, or as a uid.
func (s *Site) as() string {
	return fmt.Sprintf(`#!/bin/sh
# as USER COMMAND...
who=$1
shift
case $who in
*[!0-9]*) set -- --reuid "%[1]s$who" --regid "%[1]s$who" --init-groups --reset-env env CROFT_SOCKET=%[2]s PATH=%[3]s:/usr/bin:/bin "$@" ;;
*) set -- --reuid "$who" --regid "$who" --clear-groups --reset-env env CROFT_SOCKET=%[2]s PATH=%[3]s:/usr/bin:/bin "$@" ;;
esac
exec setpriv "$@"
`, s.User(""), s.Socket(), s.in("bin"))
}

// Bridge is the name of the containers' bridge.
func (s *Site) Bridge() string { return "croft" + s.cfg.Name[:1] + "0" }

// User is the Unix name of a user of the site.
func (s *Site) User(name string) string { return "croft-" + s.cfg.Name[:1] + "-" + name }

// Home is the home of a user of the site.
func (s *Site) Home(name string) string { return s.in("home", s.User(name)) }

// Images is the directory of the image archives.
func (s *Site) Images() string { return s.source.images }

// Bin is the directory of the programs croft, croftd and as.
func (s *Site) Bin() string { return s.in("bin") }

// Socket is the path of the server's socket.
func (s *Site) Socket() string { return s.in("croft.sock") }

// HTTP is the address of the server for clients with a token.
func (s *Site) HTTP() string { return "http://" + s.http }

// Config is the path of the configuration file.
func (s *Site) Config() string { return s.in("croft.yaml") }

// Log is the path of the server's log.
func (s *Site) Log() string { return s.in("server.log") }

// Work is a directory for the test's own files that every user may read.
func (s *Site) Work() string { return s.in("work") }

// Client is root's client of the server.
func (s *Site) Client() *v1.Client { return s.client }

func (s *Site) in(parts ...string) string {
	return filepath.Join(append([]string{s.Dir}, parts...)...)
}

func (s *Site) addUser(name string) error {
	return run("useradd", "-m", "-b", s.in("home"), "-s", "/bin/sh", "-G", "users", s.User(name))
}

func (s *Site) load(ctx context.Context) error {
	if s.cfg.Sim || s.cfg.Engine != "" || len(s.cfg.Images) == 0 {
		return nil
	}
	args := []string{}
	for _, name := range s.cfg.Images {
		args = append(args, filepath.Join(s.source.images, name))
	}
	return output(s.Daemon(ctx, "load", args...))
}

// Daemon is a croftd command on the site's configuration and data.
func (s *Site) Daemon(ctx context.Context, verb string, args ...string) *exec.Cmd {
	args = append([]string{verb, "--config", s.Config(), "--data", s.Data}, args...)
	return exec.CommandContext(ctx, s.in("bin", "croftd"), args...)
}

// Close stops the server and takes away everything.
func (s *Site) Close() error {
	if s.Dir == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if s.client != nil {
		s.client.Close()
	}
	err := s.Kill()
	if !s.cfg.Sim && s.cfg.Engine == "" {
		err = errors.Join(err, output(s.Daemon(ctx, "runtime", "destroy")))
	}
	if s.cfg.Tmpfs != "" {
		if uerr := unix.Unmount(s.Data, unix.MNT_DETACH); !errors.Is(uerr, unix.EINVAL) && !errors.Is(uerr, os.ErrNotExist) {
			err = errors.Join(err, uerr)
		}
	}
	for _, u := range s.cfg.Users {
		err = errors.Join(err, removeUser(s.User(u)))
	}
	if err != nil {
		return fmt.Errorf("%w (left: %s)", err, s.Dir)
	}
	return os.RemoveAll(s.Dir)
}

// removeUser ends what still runs as the user, and removes it.
func removeUser(name string) error {
	if exec.Command("id", name).Run() != nil {
		return nil
	}
	return run("userdel", name)
}

// sweep takes away what sites of this name left whose owner is gone.
func sweep(ctx context.Context, cfg Config) error {
	dirs, err := filepath.Glob(filepath.Join(os.TempDir(), prefix(cfg.Name)+"*"))
	if err != nil {
		return err
	}
	var errs []error
	for _, dir := range dirs {
		s := &Site{cfg: cfg, Dir: dir, Data: filepath.Join(dir, "data")}
		owner, err := os.ReadFile(s.in("owner"))
		if err != nil {
			continue // not ours
		}
		if _, err := os.Stat("/proc/" + string(owner)); err == nil {
			return fmt.Errorf("process %s uses %s", owner, dir)
		}
		s.adopt()
		errs = append(errs, s.Close())
	}
	for _, u := range cfg.Users {
		errs = append(errs, removeUser((&Site{cfg: cfg}).User(u)))
	}
	return errors.Join(errs...)
}

// find returns the built programs and images: where the environment says, else in
// the checkout above the working directory.
func find() (source, error) {
	root, err := os.Getwd()
	if err != nil {
		return source{}, err
	}
	for {
		if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil || root == "/" {
			break
		}
		root = filepath.Dir(root)
	}
	at := func(name, path string) string {
		if v := os.Getenv(name); v != "" {
			return v
		}
		return filepath.Join(root, path)
	}
	src := source{bin: at("CROFT_BIN", "bin"), runtime: at("CROFT_RUNTIME_DIR", ".tools/runtime"), images: at("CROFT_TEST_IMAGES", ".tools/images")}
	for _, need := range []string{src.bin + "/croft", src.bin + "/croftd", src.bin + "/croft-init", src.runtime + "/bin/containerd", src.images + "/tiny.tar"} {
		if _, err := os.Stat(need); err != nil {
			return src, fmt.Errorf("%s is missing: run make build images", need)
		}
	}
	return src, nil
}

// freePort is a loopback address that nobody listens on now.
func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

func install(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o755)
}

func run(name string, args ...string) error { return output(exec.Command(name, args...)) }

// output runs a command; its output is part of the error.
func output(cmd *exec.Cmd) error {
	text, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, text)
	}
	return nil
}

// Croft is a croft command of root's.
func (s *Site) Croft(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, s.in("bin", "croft"), args...)
	cmd.Env = append(os.Environ(), "CROFT_SOCKET="+s.Socket())
	return cmd
}
