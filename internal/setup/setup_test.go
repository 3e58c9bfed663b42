package setup

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"net/netip"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"croft.dev/croft/internal/config"
	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/engine/cri/bind"
	"croft.dev/croft/internal/people"
)

// place is a machine of a test's own.
type place struct {
	files   fstest.MapFS
	mounts  map[string]FileSystem // by path; others don't exist
	listens []string              // addresses that answer
	kernel  string
	idmap   func(string) error
	root    bool
}

func (p place) machine() Machine {
	return Machine{
		Files: p.files,
		Root:  p.root,
		Statfs: func(path string) (FileSystem, error) {
			if st, ok := p.mounts[path]; ok {
				return st, nil
			}
			return FileSystem{}, fs.ErrNotExist
		},
		Kernel: func() (string, error) { return p.kernel, nil },
		Dial: func(_ context.Context, network, address string) (net.Conn, error) {
			for _, l := range p.listens {
				if l == network+" "+address {
					here, there := net.Pipe()
					there.Close()
					return here, nil
				}
			}
			return nil, unix.ECONNREFUSED
		},
		IDMap:   p.idmap,
		Timeout: 3 * time.Second,
	}
}

type crowd struct {
	all     []people.User
	sources []string
	err     error
}

func (c crowd) Users(context.Context) ([]people.User, error) { return c.all, c.err }
func (c crowd) Source(context.Context) ([]string, error)     { return c.sources, nil }

type gpus []engine.Device

func (g gpus) Devices(context.Context) ([]engine.Device, error) { return g, nil }

type process int

func (p process) PID() int { return int(p) }

const ext4, nfs = 0xEF53, 0x6969

func local(free int64) FileSystem { return FileSystem{Type: ext4, Total: 1 << 40, Free: free} }

// lab is a machine as there are many.
func lab() (Deps, place) {
	files := fstest.MapFS{
		"sys/fs/cgroup/cgroup.controllers": text("cpuset cpu io memory pids\n"),
		"proc/self/status":                 text("Name:\tcroftd\nCapEff:\t000001ffffffffff\n"),
		"proc/net/route":                   text("Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\neth0\t00000000\t0102A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"),
		"run/docker.sock":                  text(""),
		"proc/12/comm":                     text("bash\n"),
	}
	for _, p := range []string{"bin/containerd", "bin/containerd-shim-runc-v2", "bin/ctr", "bin/runc", "cni/bridge", "cni/host-local"} {
		files["usr/lib/croft/runtime/"+p] = text("")
	}
	c, err := config.Load("", nil)
	if err != nil {
		panic(err)
	}
	d := Deps{
		Config: c,
		Users: crowd{sources: []string{"files", "sss"}, all: []people.User{
			{Name: "root", Home: "/root"}, {Name: "nobody", UID: 65534, Home: "/nonexistent"},
			{Name: "u311", UID: 5311, Home: "/home/u311"}, {Name: "u312", UID: 5312, Home: "/home/u312"},
		}},
		NVIDIA: gpus{
			{UUID: "GPU-a", Name: "gpu0", Model: "a100-80g", CDI: "nvidia.com/gpu=0", Healthy: true},
			{UUID: "GPU-b", Name: "gpu1", Index: 1, Model: "a100-80g", CDI: "nvidia.com/gpu=1", Healthy: true,
				Foreign: []engine.Process{{PID: 8812, User: "u311", Command: "python\x1b[2J"}}},
		},
		Runtime: process(0),
		Subnet:  func() (netip.Prefix, error) { return netip.MustParsePrefix("10.192.16.0/20"), nil },
	}
	p := place{
		files: files, kernel: "6.1.0-28-amd64", root: true,
		mounts: map[string]FileSystem{"/home": {Type: nfs}, "/": local(200 << 30)},
	}
	return d, p
}

func text(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }

func TestReport(t *testing.T) {
	d, p := lab()
	d.Machine = p.machine()
	var b strings.Builder
	if err := Run(t.Context(), d).WriteText(&b); err != nil {
		t.Fatal(err)
	}
	want := `GPUs     2× a100-80g; CDI fresh
         gpu0 a100-80g GPU-a
         gpu1 a100-80g GPU-b busy: pid 8812 (u311, python?[2J), no jobs while that runs
Runtime  own containerd, started with the server; Docker untouched
Cgroup   version 2
Kernel   6.1.0-28-amd64
Homes    /home NFS, no idmap: jobs use their owner's ids
Users    2 through files, sssd
         sssd may list fewer than it knows; others are found by name
Network  containers get 10.192.16.0/20 on bridge croft0
Server   doesn't run; will listen at /run/croft/croft.sock and http://127.0.0.1:7370 and ssh://127.0.0.1:2222
Disk     /var/lib/croft on ext4, 200G free of 1T
Billing  showback, unless an account says otherwise

next
  croft server
  croft account add NAME --from-group GROUP    # who pays
  croft grant add NAME CREDITS --until DATE    # what with
  croft user add NAME                          # who isn't in the group
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestFindings(t *testing.T) {
	tests := map[string]struct {
		change func(*Deps, *place)
		area   string
		want   []Finding // of that area; Area left out
	}{
		"no driver": {
			func(d *Deps, _ *place) { d.NVIDIA = nil }, "GPUs",
			[]Finding{{Level: Note, Text: "none: no nvidia-smi on PATH", Fix: "install NVIDIA's driver, or set devices.simulated.count to try Croft out"}},
		},
		"simulated": {
			func(d *Deps, _ *place) { d.NVIDIA, d.Config.Devices.Simulated.Count = nil, 4 }, "GPUs",
			[]Finding{{Level: Note, Text: "4× sim, simulated"}},
		},
		"left alone": {
			func(d *Deps, _ *place) { d.Config.Devices.NVIDIA = config.NVIDIAOff }, "GPUs",
			[]Finding{{Level: Note, Text: "NVIDIA's are left alone (devices.nvidia is off)"}},
		},
		"stale, broken and not offered": {
			func(d *Deps, _ *place) {
				d.Config.Devices.Offer = []string{"gpu-B"}
				d.NVIDIA = gpus{
					{UUID: "GPU-a", Name: "gpu0", Model: "t4", Reason: "not in a CDI file"},
					{UUID: "GPU-b", Name: "gpu1", Index: 1, Model: "t4", CDI: "x", Reason: "Xid 79"},
				}
			}, "GPUs",
			[]Finding{
				{Level: Warn, Text: "2× t4; CDI stale: it lacks gpu0", Fix: "nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"},
				{Level: Note, Text: "gpu0 t4 GPU-a, not offered (devices.offer)"},
				{Level: Warn, Text: "gpu1 t4 GPU-b: Xid 79"},
			},
		},
		"runtime's programs missing": {
			func(_ *Deps, p *place) {
				delete(p.files, "usr/lib/croft/runtime/bin/runc")
				delete(p.files, "run/docker.sock")
				p.files["proc/99/comm"] = text("kubelet\n")
			}, "Runtime",
			[]Finding{
				{Level: Fail, Text: "own containerd isn't in /usr/lib/croft/runtime: bin/runc missing", Fix: "build it with make setup, and set engine.runtime_dir to where it is"},
				{Level: Note, Text: "a kubelet runs here: Kubernetes hands out the same CPUs, memory and devices without knowing of Croft"},
			},
		},
		"runtime runs": {
			func(d *Deps, _ *place) { d.Runtime = process(77) }, "Runtime",
			[]Finding{{Level: OK, Text: "own containerd, runs as pid 77; Docker untouched"}},
		},
		"other endpoint": {
			func(d *Deps, p *place) {
				d.Config.Engine.Endpoint = "unix:///run/x.sock"
				p.listens = []string{"unix /run/x.sock"}
			}, "Runtime",
			[]Finding{{Level: OK, Text: "unix:///run/x.sock, as the configuration says; Docker untouched"}},
		},
		"other endpoint is down": {
			func(d *Deps, _ *place) { d.Config.Engine.Endpoint = "unix:///run/x.sock" }, "Runtime",
			[]Finding{{Level: Fail, Text: "unix:///run/x.sock doesn't answer; Docker untouched", Fix: "start that runtime, or remove engine.endpoint to use Croft's own"}},
		},
		"cgroup v1": {
			func(_ *Deps, p *place) {
				delete(p.files, "sys/fs/cgroup/cgroup.controllers")
				p.files["proc/self/mountinfo"] = text("30 29 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n31 29 0:27 / /x rw - cgroup cgroup rw,memory\n32 1 0:1 / / rw - ext4 /dev/vda rw\n")
			}, "Cgroup",
			[]Finding{{Level: Fail, Text: "version 1 without cpuset, devices, freezer, pids", Fix: "mount them below /sys/fs/cgroup, or boot with version 2"}},
		},
		"cgroup v2 without a controller": {
			func(_ *Deps, p *place) { p.files["sys/fs/cgroup/cgroup.controllers"] = text("cpu pids\n") }, "Cgroup",
			[]Finding{{Level: Fail, Text: "version 2 without cpuset, memory: limits can't be enforced", Fix: "boot without cgroup_disable=; in a container or unit, delegate the controllers (Delegate=yes)"}},
		},
		"old kernel in a container": {
			func(_ *Deps, p *place) {
				p.kernel = "5.10.0-9-amd64"
				p.files["proc/self/status"] = text("CapEff:\t00000000fe3ffffb\n")
			}, "Kernel",
			[]Finding{
				{Level: Warn, Text: "5.10.0-9-amd64 is too old for jobs to mount folders", Fix: "Linux 5.12 or later can"},
				{Level: Note, Text: "no CAP_SYS_RESOURCE: the limit on locked memory stays as it is (RDMA, pinned buffers)", Fix: "run Croft outside of a container, or give that one the capability"},
			},
		},
		"a kernel too old for fake root": {
			func(_ *Deps, p *place) { p.kernel = "5.14.0-503.el9.x86_64" }, "Kernel",
			[]Finding{{Level: Note, Text: "5.14.0-503.el9.x86_64 is too old for fake root: containers run as their user", Fix: "Linux 5.19 or later can"}},
		},
		"not root": {
			func(_ *Deps, p *place) { p.root = false }, "Kernel",
			[]Finding{
				{Level: OK, Text: "6.1.0-28-amd64"},
				{Level: Note, Text: "not run by root: devices' users, capabilities and idmapped mounts weren't looked at"},
			},
		},
		"roots": {
			func(d *Deps, p *place) {
				d.Config.Mounts = []string{"/scratch", "~", "/none", "/tmp"}
				p.mounts["/scratch"], p.mounts["/home"], p.mounts["/tmp"] = FileSystem{Type: 0x58465342}, local(0), FileSystem{Type: 0x01021994}
			}, "Homes",
			[]Finding{
				{Level: OK, Text: "/scratch xfs, idmap"},
				{Level: OK, Text: "/home ext4, idmap"},
				{Level: Note, Text: "/none doesn't exist"},
				{Level: Note, Text: "/tmp tmpfs, no idmap: jobs use their owner's ids"}, // from Linux 6.3 on
			},
		},
		"trying beats the table": {
			func(d *Deps, p *place) {
				d.Config.Mounts = []string{"/a", "/b", "/c"}
				p.mounts["/a"], p.mounts["/b"], p.mounts["/c"] = local(0), FileSystem{Type: 0x2FC12FC1}, local(0)
				p.idmap = func(path string) error {
					return map[string]error{"/a": bind.ErrNoIDMap, "/c": errors.New("no user namespaces")}[path]
				}
			}, "Homes",
			[]Finding{
				{Level: Note, Text: "/a ext4, no idmap: jobs use their owner's ids"},
				{Level: OK, Text: "/b ZFS, idmap"},
				{Level: OK, Text: "/c ext4, idmap"},
			},
		},
		"no roots": {
			func(d *Deps, _ *place) { d.Config.Mounts = nil }, "Homes",
			[]Finding{{Level: Note, Text: "jobs may mount nothing (mounts is empty)"}},
		},
		"directory is down": {
			func(d *Deps, _ *place) { d.Users = crowd{sources: []string{"ldap"}, err: errors.New("no answer")} }, "Users",
			[]Finding{{Level: Warn, Text: "through ldap, which doesn't answer: no answer", Fix: "see what getent passwd says"}},
		},
		"shared uid": {
			func(d *Deps, _ *place) {
				d.Users = crowd{sources: []string{"files", "systemd"}, all: []people.User{{Name: "a", UID: 1000}, {Name: "b", UID: 1000}, {Name: "toor"}, {Name: "root"}}}
			}, "Users",
			[]Finding{
				{Level: OK, Text: "2 through files"},
				{Level: Warn, Text: "one uid with several names: 1000 (a, b)", Fix: "Croft tells users apart by uid: give each their own"},
			},
		},
		"subnet in use": {
			func(d *Deps, p *place) {
				p.files["proc/net/route"] = text("h\ntun0\t0000C00A\t0\t1\t0\t0\t0\t0000C0FF\t0\t0\t0\ncroft0\t0010C00A\t0\t1\t0\t0\t0\t00F0FFFF\t0\t0\t0\n")
			}, "Network",
			[]Finding{
				{Level: OK, Text: "containers get 10.192.16.0/20 on bridge croft0"},
				{Level: Warn, Text: "10.192.0.0/10 is already reached through tun0", Fix: "set engine.subnet to a free network"},
			},
		},
		"no subnet yet": {
			func(d *Deps, _ *place) { d.Subnet = nil }, "Network",
			[]Finding{{Level: OK, Text: "containers' is chosen at the first start: a free one of 10.192.0.0/10"}},
		},
		"no subnet free": {
			func(d *Deps, _ *place) {
				d.Subnet = func() (netip.Prefix, error) { return netip.Prefix{}, errors.New("no free subnet") }
			}, "Network",
			[]Finding{{Level: Fail, Text: "no free subnet", Fix: "set engine.subnet to a free network"}},
		},
		"server runs": {
			func(_ *Deps, p *place) { p.listens = []string{"unix /run/croft/croft.sock", "tcp 127.0.0.1:7370"} }, "Server",
			[]Finding{{Level: OK, Text: "runs, at /run/croft/croft.sock"}},
		},
		"port taken": {
			func(_ *Deps, p *place) { p.listens = []string{"tcp 127.0.0.1:7370"} }, "Server",
			[]Finding{
				{Level: OK, Text: "doesn't run; will listen at /run/croft/croft.sock and ssh://127.0.0.1:2222"},
				{Level: Fail, Text: "127.0.0.1:7370 is in use by another program", Fix: "set listen.http to another port, or off"},
			},
		},
		"disk nearly full": {
			func(_ *Deps, p *place) { p.mounts["/var/lib"] = local(500 << 20) }, "Disk",
			[]Finding{{Level: Fail, Text: "/var/lib/croft on ext4, 500M free", Fix: "make room, or set data to a larger disk"}},
		},
		"disk is small and out of inodes": {
			func(_ *Deps, p *place) {
				p.mounts["/var/lib"] = FileSystem{Type: ext4, Total: 30 << 30, Free: 10 << 30, Inodes: 1000, Spare: 7}
			}, "Disk",
			[]Finding{
				{Level: Warn, Text: "/var/lib/croft on ext4, 10G free of 30G: images and logs need more", Fix: "make room, or set data to a larger disk"},
				{Level: Warn, Text: "only 7 files more can be made there", Fix: "make room, or set data to a larger disk"},
			},
		},
		"data on NFS": {
			func(_ *Deps, p *place) { p.mounts["/var/lib"] = FileSystem{Type: nfs, Total: 1 << 40, Free: 1 << 40} }, "Disk",
			[]Finding{{Level: Fail, Text: "/var/lib/croft on NFS, 1T free of 1T: SQLite and the runtime need a local disk", Fix: "set data to a local disk"}},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			d, p := lab()
			tt.change(&d, &p)
			d.Machine = p.machine()
			var got []Finding
			for _, f := range Run(t.Context(), d).Findings {
				if f.Area == tt.area {
					f.Area = ""
					got = append(got, f)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// TestNothingStopsAReport holds that a probe that hangs or panics costs its own
// finding only, and no more time than its limit.
func TestNothingStopsAReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, p := lab()
		d.Machine = p.machine()
		hung := make(chan struct{})
		d.Machine.Statfs = func(path string) (FileSystem, error) {
			if path == "/home" {
				<-hung
			}
			return local(1 << 40), nil
		}
		d.Machine.Kernel = func() (string, error) { panic("boom") }
		d.Config.Mounts = []string{"~", "/scratch"}
		d.NVIDIA = stuck(hung)
		start := time.Now()
		r := Run(t.Context(), d)
		if took := time.Since(start); took > 31*time.Second {
			t.Errorf("took %v", took)
		}
		close(hung)
		got := make(map[string][]string)
		for _, f := range r.Findings {
			got[f.Area] = append(got[f.Area], f.Text)
		}
		want := map[string]string{
			"GPUs":   "no answer within 30s",
			"Kernel": "the probe failed: boom",
			"Homes":  "/home doesn't answer",
			"Disk":   "/var/lib/croft on ext4, 1T free of 1T",
		}
		if homes := got["Homes"]; len(homes) != 2 || homes[1] != "the probe failed: boom" { // for its table
			t.Errorf("Homes: %q", homes)
		}
		for area, text := range want {
			if len(got[area]) == 0 || got[area][0] != text {
				t.Errorf("%s: %q, want %q", area, got[area], text)
			}
		}
	})
}

type stuck chan struct{}

func (s stuck) Devices(context.Context) ([]engine.Device, error) {
	<-s
	return nil, nil
}

func TestNextAfterFailure(t *testing.T) {
	d, p := lab()
	delete(p.files, "usr/lib/croft/runtime/bin/runc")
	d.Machine = p.machine()
	r := Run(t.Context(), d)
	if r.Worst() != Fail || len(r.Next) != 1 || !strings.HasPrefix(r.Next[0], "croft setup") {
		t.Errorf("%s: next %q", r.Worst(), r.Next)
	}
	var b strings.Builder
	if err := r.WriteText(&b); err != nil || !strings.Contains(b.String(), "Runtime  fail: own containerd isn't in") {
		t.Errorf("%v\n%s", err, b.String())
	}
	text, err := json.Marshal(r)
	if err != nil || !strings.Contains(string(text), `{"area":"Runtime","level":"fail","text":"own containerd`) {
		t.Errorf("%v: %s", err, text)
	}
}

// TestThisMachine looks at the real one, whatever it is: every area answers.
func TestThisMachine(t *testing.T) {
	c, err := config.Load("", nil, config.Setting{Key: "data", Value: t.TempDir(), From: "test"})
	if err != nil {
		t.Fatal(err)
	}
	c.Mounts = []string{"~", "/", "/proc"}
	r := Run(t.Context(), Deps{Config: c, Users: people.New(people.Config{}), Machine: ThisMachine()})
	areas := make(map[string]bool)
	for _, f := range r.Findings {
		areas[f.Area] = true
		if f.Text == "" || strings.HasPrefix(f.Text, "the probe failed") {
			t.Errorf("%+v", f)
		}
		if f.Area == "Homes" && strings.HasPrefix(f.Text, "/proc ") && f.Level != Note {
			t.Errorf("procfs is said to be idmapped: %+v", f)
		}
	}
	if len(areas) != len(probes()) {
		t.Errorf("areas %v", areas)
	}
}

func TestParseRelease(t *testing.T) {
	for s, want := range map[string]version{
		"6.1.0-28-amd64": {6, 1}, "5.15.167.4-microsoft-standard-WSL2": {5, 15}, "6.18-rc1": {6, 18}, "6": {}, "": {}, "x.y": {},
	} {
		if got := parseRelease(s); got != want {
			t.Errorf("%q: %v, want %v", s, got, want)
		}
	}
	for _, tt := range []struct {
		v, w version
		want bool
	}{{version{5, 12}, version{5, 12}, true}, {version{6, 0}, version{5, 12}, true}, {version{5, 11}, version{5, 12}, false}, {version{4, 19}, version{5, 12}, false}} {
		if got := tt.v.atLeast(tt.w); got != tt.want {
			t.Errorf("%v at least %v: %v", tt.v, tt.w, got)
		}
	}
}

func FuzzParseRoutes(f *testing.F) {
	f.Add("h\ntun0\t0000C00A\t0\t1\t0\t0\t0\t0000C0FF\t0\t0\t0\n")
	f.Add("a b c d e f g 00FF00FF")
	f.Fuzz(func(t *testing.T, s string) {
		for _, r := range parseRoutes(s) {
			if !r.to.IsValid() || r.to.Bits() == 0 {
				t.Errorf("%q gave %v", s, r)
			}
		}
	})
}

func FuzzProc(f *testing.F) {
	f.Add("CapEff:\t000001ffffffffff\n")
	f.Add("30 29 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n")
	f.Fuzz(func(t *testing.T, s string) {
		effective(s)
		for _, c := range v1Controllers(s) {
			if strings.ContainsAny(c, " ,\n") {
				t.Errorf("%q gave %q", s, c)
			}
		}
	})
}
