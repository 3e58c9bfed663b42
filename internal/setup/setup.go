// Package setup looks at a machine and reports what Croft finds on it: devices
// and who uses them, the container runtime, control groups, file systems, users,
// network, disk, and what to do next. It changes nothing, needs no root for what
// others may see, and always returns a report: a probe that fails or hangs is a
// finding like any other.
package setup

import (
	"context"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"croft.dev/croft/internal/config"
	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/engine/cri/bind"
	"croft.dev/croft/internal/people"
)

// Level says how much a finding matters.
type Level string

// The levels.
const (
	OK   Level = "ok"
	Note Level = "note" // works, but one should know
	Warn Level = "warn" // a part won't work, or not well
	Fail Level = "fail" // the server won't run jobs
)

// Finding is one thing found.
type Finding struct {
	Area  string `json:"area"` // "GPUs", "Runtime"…
	Level Level  `json:"level"`
	Text  string `json:"text"`
	Fix   string `json:"fix,omitempty"`
}

// Report is all that was found, in a fixed order of areas.
type Report struct {
	Findings []Finding `json:"findings"`
	Next     []string  `json:"next"` // commands, in order
}

// Worst returns the highest level in the report.
func (r Report) Worst() Level {
	worst := OK
	for _, f := range r.Findings {
		if rank(f.Level) > rank(worst) {
			worst = f.Level
		}
	}
	return worst
}

func rank(l Level) int {
	switch l {
	case Note:
		return 1
	case Warn:
		return 2
	case Fail:
		return 3
	}
	return 0
}

// Devices are the accelerators of the machine, offered or not. The devices
// package of the CRI engine has them.
type Devices interface {
	Devices(ctx context.Context) ([]engine.Device, error)
}

// Users are the users of the machine; *people.Directory has them.
type Users interface {
	Users(ctx context.Context) ([]people.User, error)
	Source(ctx context.Context) ([]string, error)
}

// Runtime is Croft's own container runtime.
type Runtime interface {
	PID() int // of its process; 0: it doesn't run
}

// Deps is what a report is made of. Config and Users are needed.
type Deps struct {
	Config  config.Config
	Users   Users
	NVIDIA  Devices // nil: the machine has no driver of theirs
	Runtime Runtime // nil: its programs are missing, or it isn't used
	// Subnet returns the network that containers are in or would be given; nil: it
	// is only checked whether the configured one is free.
	Subnet  func() (netip.Prefix, error)
	Machine Machine
}

// Machine is what is read of the machine itself.
type Machine struct {
	Files  fs.FS // its root directory
	Root   bool  // this process is root's
	Statfs func(path string) (FileSystem, error)
	Kernel func() (string, error) // release, "6.1.0-28-amd64"
	Dial   func(ctx context.Context, network, address string) (net.Conn, error)
	// IDMap tries an idmapped mount of a directory, unseen by others; nil: the
	// table of file systems alone answers.
	IDMap func(path string) error
	// Timeout of one probe; asking the devices may take ten times as long.
	Timeout time.Duration
}

// FileSystem is what statfs(2) says.
type FileSystem struct {
	Type          int64 // magic number
	Total, Free   int64 // bytes; free for root
	Inodes, Spare int64 // all and free ones; 0 where there is no fixed number
}

// ThisMachine returns the machine that the process runs on.
func ThisMachine() Machine {
	m := Machine{
		Files:   os.DirFS("/"),
		Root:    os.Geteuid() == 0,
		Statfs:  statfs,
		Kernel:  kernelRelease,
		Dial:    (&net.Dialer{}).DialContext,
		Timeout: 3 * time.Second,
	}
	if m.Root {
		m.IDMap = bind.TryIDMap
	}
	return m
}

func statfs(path string) (FileSystem, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return FileSystem{}, err
	}
	return FileSystem{
		Type:  int64(uint32(st.Type)), // sign-extended on some architectures
		Total: int64(st.Blocks) * st.Bsize, Free: int64(st.Bavail) * st.Bsize,
		Inodes: int64(st.Files), Spare: int64(st.Ffree),
	}, nil
}

func kernelRelease() (string, error) {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "", err
	}
	return unix.ByteSliceToString(u.Release[:]), nil
}

// probe looks at one area.
type probe struct {
	area string
	slow bool
	run  func(context.Context, *Deps) []Finding
}

func probes() []probe {
	return []probe{
		{area: "GPUs", slow: true, run: devices},
		{area: "Runtime", run: runtimes},
		{area: "Cgroup", run: cgroups},
		{area: "Kernel", run: kernel},
		{area: "Homes", run: mountRoots},
		{area: "Users", run: users},
		{area: "Network", run: network},
		{area: "Server", run: server},
		{area: "Disk", run: disk},
		{area: "Billing", run: billing},
	}
}

// Run looks at the machine. It returns within the longest time-out of a probe,
// also when a probe hangs; that one's goroutine is left behind.
func Run(ctx context.Context, d Deps) Report {
	all := probes()
	found := make([]chan []Finding, len(all))
	for i, p := range all {
		found[i] = make(chan []Finding, 1)
		go p.bounded(ctx, &d, found[i])
	}
	var r Report
	for i, p := range all {
		for _, f := range <-found[i] {
			f.Area = p.area
			r.Findings = append(r.Findings, f)
		}
	}
	r.Next = next(r, d.Config)
	return r
}

// bounded runs a probe and sends what it found, or that it didn't answer in time.
func (p probe) bounded(ctx context.Context, d *Deps, out chan<- []Finding) {
	limit := d.Machine.Timeout
	if p.slow {
		limit *= 10
	}
	// The probe's own context ends a little earlier, so that a probe that obeys it
	// can still say what it has.
	inner, cancel := context.WithTimeout(ctx, limit*9/10)
	defer cancel()
	done := make(chan []Finding, 1)
	go func() { done <- guarded(func() []Finding { return p.run(inner, d) }) }()
	after := time.NewTimer(limit)
	defer after.Stop()
	select {
	case f := <-done:
		out <- f
	case <-after.C:
		out <- one(Warn, "no answer within %v", limit)
	}
}

// guarded turns a panic of look into a finding: what a machine's files say is
// beyond all foresight, and the other findings are of use without that one.
func guarded(look func() []Finding) (out []Finding) {
	defer func() {
		if r := recover(); r != nil {
			out = one(Warn, "the probe failed: %v", r)
		}
	}()
	return look()
}

// one is a list of one finding.
func one(l Level, format string, args ...any) []Finding {
	return []Finding{{Level: l, Text: fmt.Sprintf(format, args...)}}
}

// fix adds how to cure the last finding.
func fix(f []Finding, format string, args ...any) []Finding {
	f[len(f)-1].Fix = fmt.Sprintf(format, args...)
	return f
}

func billing(context.Context, *Deps) []Finding {
	return one(OK, "showback, unless an account says otherwise")
}

// next lists the commands that follow from what was found.
func next(r Report, c config.Config) []string {
	if r.Worst() == Fail {
		return []string{"croft setup    # again, once what says fail is fixed"}
	}
	var out []string
	running := false
	for _, f := range r.Findings {
		running = running || f.Area == "Server" && f.Level == OK && f.Text == serverRuns(c)
	}
	if !running {
		out = append(out, "croft server")
	}
	return append(out,
		"croft account add NAME --from-group GROUP    # who pays",
		"croft grant add NAME CREDITS --until DATE    # what with",
		"croft user add NAME                          # who isn't in the group")
}
