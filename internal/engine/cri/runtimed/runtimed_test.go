package runtimed

import (
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/pelletier/go-toml/v2"
	"pgregory.net/rapid"
)

// newRuntime is a runtime whose binaries are empty files: nothing is started.
func newRuntime(t *testing.T, change func(*Config)) (*Runtime, error) {
	t.Helper()
	dir := t.TempDir()
	bin := filepath.Join(dir, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"containerd", "containerd-shim-runc-v2", "ctr", "runc", "croft-init"} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte(name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cfg := Config{
		Dir: filepath.Join(dir, "data"), RunDir: filepath.Join(dir, "run"),
		BinDir: bin, CNIBinDir: bin, InitPath: filepath.Join(bin, "croft-init"),
		CDIDirs: []string{"/data/cdi"},
	}
	if change != nil {
		change(&cfg)
	}
	return New(cfg)
}

func TestNewRefuses(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"no directory":     func(c *Config) { c.Dir = "" },
		"missing binaries": func(c *Config) { c.BinDir = c.Dir },
		"long bridge name": func(c *Config) { c.Bridge = "a-bridge-of-croft" },
		"long socket path": func(c *Config) { c.RunDir = "/" + strings.Repeat("x", 100) },
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := newRuntime(t, change); err == nil {
				t.Error("no error")
			}
		})
	}
}

func TestContainerdConfig(t *testing.T) {
	r, err := newRuntime(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(r.cfg.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, raise := range map[string]bool{"may raise limits": true, "may not": false} {
		t.Run(name, func(t *testing.T) {
			text, err := toml.Marshal(r.containerdConfig("croft.dev/pause:1", raise))
			if err != nil {
				t.Fatal(err)
			}
			var got struct {
				Root, State string
				OOMScore    int `toml:"oom_score"`
				Plugins     map[string]struct {
					RestrictOOM bool              `toml:"restrict_oom_score_adj"`
					CDI         []string          `toml:"cdi_spec_dirs"`
					Pinned      map[string]string `toml:"pinned_images"`
					Address     string            `toml:"stream_server_address"`
				}
			}
			if err := toml.Unmarshal(text, &got); err != nil {
				t.Fatal(err)
			}
			rt := got.Plugins["io.containerd.cri.v1.runtime"]
			if got.Root != r.path("root") || !strings.HasPrefix(got.State, r.cfg.RunDir) || rt.RestrictOOM == raise || (got.OOMScore < 0) != raise {
				t.Errorf("configuration:\n%s", text)
			}
			if diff := cmp.Diff([]string{"/data/cdi", "/etc/cdi", "/var/run/cdi"}, rt.CDI); diff != "" {
				t.Errorf("CDI directories (-want +got):\n%s", diff)
			}
			if got.Plugins["io.containerd.cri.v1.images"].Pinned["sandbox"] != "croft.dev/pause:1" {
				t.Error("the sandbox's image isn't pinned")
			}
			if got.Plugins["io.containerd.grpc.v1.cri"].Address != "127.0.0.1" {
				t.Error("the streaming server isn't on loopback")
			}
		})
	}
}

func TestHostsFiles(t *testing.T) {
	reg := Registry{CAFile: "/etc/ca.pem", Mirrors: map[string][]string{
		"docker.io": {"https://mirror.lab"}, "ghcr.io": {"http://10.0.0.1:5000"},
	}}
	part := hostPart{Capabilities: []string{"pull", "resolve"}, CA: "/etc/ca.pem"}
	want := map[string]hostsFile{
		"_default":  {CA: "/etc/ca.pem"},
		"docker.io": {Server: "https://registry-1.docker.io", CA: "/etc/ca.pem", Host: map[string]hostPart{"https://mirror.lab": part}},
		"ghcr.io":   {Server: "https://ghcr.io", CA: "/etc/ca.pem", Host: map[string]hostPart{"http://10.0.0.1:5000": part}},
	}
	if diff := cmp.Diff(want, hostsFiles(reg)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if got := hostsFiles(Registry{}); len(got) != 0 {
		t.Errorf("files without configuration: %v", got)
	}
}

// TestWriteHostsForgets takes the files of a registry away that is no longer named.
func TestWriteHostsForgets(t *testing.T) {
	r, err := newRuntime(t, func(c *Config) { c.Registry.Mirrors = map[string][]string{"a.io": {"https://m"}} })
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(r.path("certs.d"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, mirrors := range []map[string][]string{{"a.io": {"https://m"}}, {"b.io": {"https://m"}}} {
		r.cfg.Registry.Mirrors = mirrors
		if err := r.writeHosts(); err != nil {
			t.Fatal(err)
		}
	}
	got, err := filepath.Glob(r.path("certs.d", "*", "hosts.toml"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{r.path("certs.d", "b.io", "hosts.toml")}, got); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestEnvironment(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "/run/notify")
	t.Setenv("HTTPS_PROXY", "http://old")
	r, err := newRuntime(t, func(c *Config) { c.Registry.HTTPSProxy = "http://new:3128" })
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]string)
	for _, kv := range r.env() {
		k, v, _ := strings.Cut(kv, "=")
		if _, twice := got[k]; twice {
			t.Errorf("%s is set twice", k)
		}
		got[k] = v
	}
	if got["HTTPS_PROXY"] != "http://new:3128" || got["https_proxy"] != "http://new:3128" || got["NOTIFY_SOCKET"] != "" {
		t.Errorf("environment %v", got)
	}
	if !strings.HasPrefix(got["PATH"], r.cfg.BinDir+":") || !strings.Contains(got["PATH"], "/usr/sbin") {
		t.Errorf("PATH %s", got["PATH"])
	}
}

func TestParseRoutes(t *testing.T) {
	const text = `Iface	Destination	Gateway 	Flags	RefCnt	Use	Metric	Mask		MTU	Window	IRTT
eth0	00000000	010200C0	0003	0	0	0	00000000	0	0	0
eth0	000200C0	00000000	0001	0	0	0	00FFFFFF	0	0	0
docker0	000011AC	00000000	0001	0	0	0	0000FFFF	0	0	0
odd	000011AC	00000000	0001	0	0	0	FF00FF00	0	0	0
short	0011	0
`
	want := []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("172.17.0.0/16")}
	if diff := cmp.Diff(want, parseRoutes(text), cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
		t.Errorf("routes (-want +got):\n%s", diff)
	}
}

func TestFreeSubnet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		used := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) netip.Prefix {
			addr := netip.AddrFrom4([4]byte{10, byte(rapid.IntRange(190, 255).Draw(t, "b")), byte(rapid.IntRange(0, 255).Draw(t, "c")), 0})
			return netip.PrefixFrom(addr, rapid.IntRange(12, 28).Draw(t, "bits")).Masked()
		}), 0, 20).Draw(t, "used")
		got, err := freeSubnet(used, rapid.Uint32().Draw(t, "seed"))
		if err != nil {
			return // full: nothing to check
		}
		if got.Bits() != 20 || !netip.MustParsePrefix("10.192.0.0/10").Contains(got.Addr()) || got != got.Masked() {
			t.Fatalf("subnet %v", got)
		}
		for _, u := range used {
			if u.Overlaps(got) {
				t.Fatalf("subnet %v overlaps %v", got, u)
			}
		}
	})
	if _, err := freeSubnet([]netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, 0); err == nil {
		t.Error("a subnet where none is free")
	}
}

// TestNetworkIsRemembered keeps the subnet over restarts and changes it when told.
func TestNetworkIsRemembered(t *testing.T) {
	r, err := newRuntime(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(r.cfg.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	first, err := r.network()
	if err != nil {
		t.Fatal(err)
	}
	if again, err := r.network(); err != nil || again != first {
		t.Errorf("network %v, %v; was %v", again, err, first)
	}
	r.cfg.Subnet = "10.9.0.0/24"
	if got, err := r.network(); err != nil || got.Subnet.String() != "10.9.0.0/24" {
		t.Errorf("network %v, %v; want the one configured", got, err)
	}
	for _, bad := range []string{"10.9.0.0/30", "fd00::/64", "x"} {
		r.cfg.Subnet = bad
		if got, err := r.network(); err == nil {
			t.Errorf("subnet %q gives %v", bad, got)
		}
	}
}

func TestHasCapability(t *testing.T) {
	for status, want := range map[string]bool{
		"Name:\tx\nCapEff:\t000001ffffffffff\n": true,
		"CapEff:\t000001fffeffffff\n":           false,
		"CapEff:\tnonsense\n":                   false,
		"":                                      false,
	} {
		if got := hasCapability(status, 24); got != want {
			t.Errorf("hasCapability(%q) = %v, want %v", status, got, want)
		}
	}
}

func TestMemlockUnlimited(t *testing.T) {
	const head = "Limit                     Soft Limit           Hard Limit           Units\n"
	for text, want := range map[string]bool{
		head + "Max locked memory         8388608              unlimited            bytes\n": true,
		head + "Max locked memory         unlimited            8388608              bytes\n": false,
		head: false,
	} {
		if got := memlockUnlimited(text); got != want {
			t.Errorf("memlockUnlimited(%q) = %v, want %v", text, got, want)
		}
	}
}

func TestWithLimits(t *testing.T) {
	got, err := withLimits([]byte(`{"ociVersion":"1.2.1","process":{"cwd":"/","rlimits":[{"type":"RLIMIT_NOFILE","hard":1024,"soft":1024}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	var spec struct {
		Version string `json:"ociVersion"`
		Process struct {
			Cwd     string
			Rlimits []struct {
				Type       string
				Soft, Hard uint64
			}
		}
	}
	if err := json.Unmarshal(got, &spec); err != nil {
		t.Fatal(err)
	}
	lim := spec.Process.Rlimits
	if spec.Version != "1.2.1" || spec.Process.Cwd != "/" || len(lim) != 2 || lim[0].Type != "RLIMIT_MEMLOCK" || lim[0].Hard != ^uint64(0) {
		t.Errorf("specification %s", got)
	}
	if _, err := withLimits([]byte("{")); err == nil {
		t.Error("a broken specification is no error")
	}
}

// TestPauseImage makes the image and reads it with the registry library.
func TestPauseImage(t *testing.T) {
	r, err := newRuntime(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	ref, err := r.pauseName()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "pause.tar")
	if err := writePause(r.cfg.InitPath, ref, path); err != nil {
		t.Fatal(err)
	}
	img, err := tarball.ImageFromPath(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := img.ConfigFile()
	if err != nil || cfg.OS != "linux" || len(cfg.RootFS.DiffIDs) != 1 {
		t.Fatalf("configuration %+v, %v", cfg, err)
	}
	if diff := cmp.Diff([]string{"/pause", "--pause"}, cfg.Config.Entrypoint); diff != "" {
		t.Errorf("entry point (-want +got):\n%s", diff)
	}
}

// TestRunningKnowsItsProcess: a process id that another program has now is not
// the runtime.
func TestRunningKnowsItsProcess(t *testing.T) {
	r, err := newRuntime(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.save(processState{PID: os.Getpid(), Digest: "x"}); err != nil {
		t.Fatal(err)
	}
	if s, ok := r.running(); ok {
		t.Errorf("this test is taken for the runtime: %+v", s)
	}
	if err := r.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

func FuzzParseRoutes(f *testing.F) {
	f.Add("eth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, p := range parseRoutes(text) {
			if !p.IsValid() || p.Bits() == 0 {
				t.Errorf("prefix %v", p)
			}
		}
	})
}
