package devices

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"tags.cncf.io/container-device-interface/pkg/cdi"

	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/engine/cri/cgroup"
)

const instanceID = "3f2a9c1e-0000-4000-8000-000000000001"

func TestSimulated(t *testing.T) {
	dir := t.TempDir()
	cfg := SimulatedConfig{Instance: instanceID, Count: 2, Model: "a100-80g", CDIDir: filepath.Join(dir, "cdi"), Dir: dir}
	s, err := NewSimulated(cfg)
	if err != nil {
		t.Fatal(err)
	}
	first, err := s.Devices(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	again, err := NewSimulated(cfg)
	if err != nil {
		t.Fatal(err)
	}
	second, err := again.Devices(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first, second); diff != "" {
		t.Errorf("devices after a restart (-first +second):\n%s", diff)
	}
	// The file is one that a runtime's own reader accepts.
	cache, err := cdi.NewCache(cdi.WithSpecDirs(cfg.CDIDir), cdi.WithAutoRefresh(false))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{first[0].CDI, first[1].CDI}, sorted(cache.ListDevices())); diff != "" && first[0].CDI < first[1].CDI {
		t.Errorf("CDI names (-want +got):\n%s", diff)
	}
	for _, d := range first {
		dev := cache.GetDevice(d.CDI)
		if dev == nil || len(dev.ContainerEdits.DeviceNodes) != 1 || len(dev.ContainerEdits.Env) != 0 {
			t.Errorf("%s: CDI device %+v", d.Name, dev)
		}
	}
}

func sorted(s []string) []string { return s } // the cache returns them sorted

func TestSimulatedFaults(t *testing.T) {
	dir := t.TempDir()
	s, err := NewSimulated(SimulatedConfig{Instance: instanceID, Count: 4, Model: "m", CDIDir: dir, Dir: dir, Subset: []string{"0", "2", "gpu3"}})
	if err != nil {
		t.Fatal(err)
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, FaultsFile), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(`{"devices":{
		"0":{"foreign":[{"PID":4711,"User":"bob","Command":"python"}]},
		"2":{"leftover":1073741824},
		"3":{"error":"Xid 79: GPU has fallen off the bus"}}}`)
	got, err := s.Devices(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	type view struct {
		Name, Reason string
		Healthy      bool
		Foreign      []engine.Process
	}
	var views []view
	for _, d := range got {
		views = append(views, view{d.Name, d.Reason, d.Healthy, d.Foreign})
	}
	want := []view{
		{"gpu0", "", true, []engine.Process{{PID: 4711, User: "bob", Command: "python"}}},
		{"gpu2", "1024 MiB of its memory are in use by no process", false, nil},
		{"gpu3", "fatal error: Xid 79: GPU has fallen off the bus", false, nil},
	}
	if diff := cmp.Diff(want, views); diff != "" {
		t.Errorf("devices (-want +got):\n%s", diff)
	}
	write(`{"devices":`)
	if _, err := s.Devices(t.Context()); err == nil {
		t.Error("a broken file is no error")
	}
}

func TestSimulatedRefusals(t *testing.T) {
	dir := t.TempDir()
	for name, cfg := range map[string]SimulatedConfig{
		"negative count":  {Instance: instanceID, Count: -1, CDIDir: dir},
		"absurd count":    {Instance: instanceID, Count: 1000, CDIDir: dir},
		"instance":        {Instance: "x", Count: 1, CDIDir: dir},
		"unknown subset":  {Instance: instanceID, Count: 1, CDIDir: dir, Subset: []string{"7"}},
		"subset of typos": {Instance: instanceID, Count: 1, CDIDir: dir, Subset: []string{"0", "GPU-1"}},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := NewSimulated(cfg); err == nil {
				t.Error("no error")
			}
		})
	}
}

// fakeSMI answers nvidia-smi's questions from texts by what the first argument
// begins with; a question without one fails as nvidia-smi does.
type fakeSMI map[string]string

func (f fakeSMI) query(_ context.Context, args ...string) ([]byte, error) {
	best := ""
	for prefix := range f {
		if strings.HasPrefix(args[0], prefix) && len(prefix) > len(best) {
			best = prefix
		}
	}
	if best == "" {
		return nil, errors.New("nvidia-smi: exit status 2: Field is not a valid field to query.")
	}
	return []byte(f[best]), nil
}

const (
	gpuA = "GPU-5c89852c-d268-c3f3-1b07-005d5ae1dc3f"
	gpuB = "GPU-a1b2c3d4-1111-2222-3333-444455556666"
	migA = "MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f"
	migB = "MIG-d7e5f2ff-42e4-5de3-91c7-45d71c87eb40"

	driver = "535.129.03"

	cdiText = `{"cdiVersion":"0.5.0","kind":"nvidia.com/gpu",
		"devices":[{"name":"0","containerEdits":{"deviceNodes":[{"path":"/dev/nvidia0"}]}},
			{"name":"` + gpuA + `","containerEdits":{"deviceNodes":[{"path":"/dev/nvidia0"}]}},
			{"name":"1:0","containerEdits":{"deviceNodes":[{"path":"/dev/nvidia1"}]}},
			{"name":"1:1","containerEdits":{"deviceNodes":[{"path":"/dev/nvidia1"}]}}],
		"containerEdits":{"mounts":[{"hostPath":"/usr/lib/x86_64-linux-gnu/libcuda.so.` + driver + `",
			"containerPath":"/usr/lib/x86_64-linux-gnu/libcuda.so.` + driver + `"}]}}`
)

func writeCDI(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	if text != "" {
		if err := os.WriteFile(filepath.Join(dir, "nvidia.json"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestNVIDIA(t *testing.T) {
	const (
		one  = "0, " + gpuA + ", NVIDIA A100-SXM4-80GB, 81920, 4, " + driver + ", Disabled\n"
		two  = "1, " + gpuB + ", NVIDIA A100-SXM4-80GB, 81920, 4, " + driver + ", Enabled\n"
		list = "GPU 0: NVIDIA A100-SXM4-80GB (UUID: " + gpuA + ")\n" +
			"GPU 1: NVIDIA A100-SXM4-80GB (UUID: " + gpuB + ")\n" +
			"  MIG 1g.10gb     Device  0: (UUID: " + migA + ")\n" +
			"  MIG 3g.40gb     Device  1: (UUID: " + migB + ")\n"
	)
	whole := engine.Device{UUID: gpuA, Index: 0, Name: "gpu0", Model: "a100-80g", Memory: 80 << 30, CDI: "nvidia.com/gpu=" + gpuA, Healthy: true}
	sick := func(reason string) []engine.Device {
		d := whole
		d.Healthy, d.Reason = false, reason
		return []engine.Device{d}
	}
	lost := sick("the driver reports [GPU is lost]")
	lost[0].Memory = 0
	noCDI := func(reason string) []engine.Device {
		d := sick(reason)
		d[0].CDI = ""
		return d
	}
	for name, tc := range map[string]struct {
		smi    fakeSMI
		cdi    string
		subset []string
		want   []engine.Device
	}{
		"one": {smi: fakeSMI{"--query-gpu=index": one}, cdi: cdiText, want: []engine.Device{whole}},
		"MIG": {
			smi: fakeSMI{"--query-gpu=index": one + two, "-L": list}, cdi: cdiText,
			want: []engine.Device{
				whole,
				{UUID: migA, Index: 1, Name: "gpu1.0", Model: "a100-80g.1g.10gb", CDI: "nvidia.com/gpu=1:0", Healthy: true},
				{UUID: migB, Index: 1, Name: "gpu1.1", Model: "a100-80g.3g.40gb", CDI: "nvidia.com/gpu=1:1", Healthy: true},
			},
		},
		"subset": {smi: fakeSMI{"--query-gpu=index": one + two, "-L": list}, cdi: cdiText, subset: []string{strings.ToLower(gpuA)}, want: []engine.Device{whole}},
		"uncorrected errors, old driver": {
			smi:  fakeSMI{"--query-gpu=index": one, "--query-gpu=uuid,ecc.errors.uncorrected.volatile.total": gpuA + ", 3\n"},
			cdi:  cdiText,
			want: sick("3 uncorrected memory errors since the driver was loaded: reset it"),
		},
		"recovery asked for": {
			smi:  fakeSMI{"--query-gpu=index": one, "--query-gpu=uuid,ecc.errors.uncorrected.volatile.total,remapped_rows.failure,gpu_recovery_action": gpuA + ", 0, No, Reset\n"},
			cdi:  cdiText,
			want: sick("the driver asks for Reset"),
		},
		"driver lost it": {
			smi:  fakeSMI{"--query-gpu=index": "0, " + gpuA + ", NVIDIA A100-SXM4-80GB, [GPU is lost], [GPU is lost], " + driver + ", [N/A]\n"},
			cdi:  cdiText,
			want: lost,
		},
		"no CDI file": {smi: fakeSMI{"--query-gpu=index": one},
			want: noCDI("no CDI file lists NVIDIA's devices: run nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml")},
		"CDI file of another driver": {smi: fakeSMI{"--query-gpu=index": one}, cdi: strings.ReplaceAll(cdiText, driver, "470.1.2"),
			want: noCDI("the CDI file is of another driver than " + driver + ": run nvidia-ctk cdi generate again")},
		"CDI file of other devices": {smi: fakeSMI{"--query-gpu=index": one}, cdi: strings.ReplaceAll(strings.ReplaceAll(cdiText, gpuA, gpuB), `"0"`, `"7"`),
			want: noCDI("the CDI file doesn't list it: run nvidia-ctk cdi generate again")},
		"no devices": {smi: fakeSMI{"--query-gpu=index": "No devices were found\n"}, cdi: cdiText},
	} {
		t.Run(name, func(t *testing.T) {
			if _, ok := tc.smi["--query-compute-apps"]; !ok {
				tc.smi["--query-compute-apps"] = ""
			}
			n := NewNVIDIA(NVIDIAConfig{CDIDirs: []string{writeCDI(t, tc.cdi)}, Subset: tc.subset, Query: tc.smi.query})
			got, err := n.Devices(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("devices (-want +got):\n%s", diff)
			}
		})
	}
}

// TestForeign runs a process and has nvidia-smi report it on a device, once
// within Croft's control group and once outside of it.
func TestForeign(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	pid := cmd.Process.Pid
	smi := fakeSMI{
		"--query-gpu=index":    "0, " + gpuA + ", NVIDIA H200, 143771, 2000, " + driver + ", [N/A]\n",
		"--query-compute-apps": gpuA + ", " + strconv.Itoa(pid) + ", 1900\n" + gpuA + ", 999999999, 100\n",
	}
	// A copy of the process's directory that says it is in Croft's group.
	ours := t.TempDir()
	if err := os.Mkdir(filepath.Join(ours, strconv.Itoa(pid)), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(ours, strconv.Itoa(pid), "cgroup"), []byte("0::/croft/job-1/x\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		processes Processes
		want      []engine.Process
	}{
		"outside": {Processes{UserName: func(uid uint32) string { return "user" + strconv.Itoa(int(uid)) }},
			[]engine.Process{{PID: pid, User: "user" + strconv.Itoa(os.Getuid()), Command: "sleep"}}},
		"number for a name": {Processes{}, []engine.Process{{PID: pid, User: strconv.Itoa(os.Getuid()), Command: "sleep"}}},
		"ours":              {Processes{Root: ours}, nil},
		"ours, other group": {Processes{Root: ours, CgroupParent: "other"}, []engine.Process{{PID: pid, User: strconv.Itoa(os.Getuid()), Command: "unknown"}}},
	} {
		t.Run(name, func(t *testing.T) {
			n := NewNVIDIA(NVIDIAConfig{CDIDirs: []string{t.TempDir()}, Processes: tc.processes, Query: smi.query})
			got, err := n.Devices(t.Context())
			if err != nil || len(got) != 1 {
				t.Fatalf("devices %+v, %v", got, err)
			}
			if diff := cmp.Diff(tc.want, got[0].Foreign); diff != "" {
				t.Errorf("foreign (-want +got):\n%s", diff)
			}
		})
	}
}

// TestLeftover: memory in use by no process counts only once it stays.
func TestLeftover(t *testing.T) {
	smi := fakeSMI{"--query-compute-apps": ""}
	now := time.Unix(1000, 0)
	n := NewNVIDIA(NVIDIAConfig{CDIDirs: []string{writeCDI(t, cdiText)}, Query: smi.query, Now: func() time.Time { return now }})
	for _, step := range []struct {
		used    string
		after   time.Duration
		healthy bool
	}{
		{"40000", 0, true},
		{"40000", 29 * time.Second, true},
		{"300", time.Second, true}, // freed: the time starts anew
		{"40000", time.Second, true},
		{"40000", 31 * time.Second, false},
		{"300", time.Second, true},
	} {
		now = now.Add(step.after)
		smi["--query-gpu=index"] = "0, " + gpuA + ", NVIDIA A100-SXM4-80GB, 81920, " + step.used + ", " + driver + ", Disabled\n"
		got, err := n.Devices(t.Context())
		if err != nil || len(got) != 1 {
			t.Fatalf("devices %+v, %v", got, err)
		}
		if got[0].Healthy != step.healthy {
			t.Errorf("%s MiB at %v: healthy %v (%s)", step.used, now.Unix(), got[0].Healthy, got[0].Reason)
		}
	}
}

func FuzzParsers(f *testing.F) {
	f.Add("0, " + gpuA + ", NVIDIA A100-SXM4-80GB, 81920, 4, " + driver + ", Disabled\n")
	f.Add(gpuA + ", 4711, 1900\n")
	f.Add(gpuA + ", [N/A], Yes, Reboot\n")
	f.Add("GPU 0: X (UUID: " + gpuA + ")\n  MIG 1g.10gb     Device  0: (UUID: " + migA + ")\n")
	f.Add("\"unclosed, quote\n")
	f.Fuzz(func(t *testing.T, text string) {
		gpus, err := parseGPUs(text)
		for _, g := range gpus {
			if err == nil && (g.uuid == "" || g.index < 0 || g.used < 0 || g.total < 0) {
				t.Errorf("gpu %+v", g)
			}
		}
		apps, err := parseApps(text)
		for _, a := range apps {
			if err == nil && a.pid <= 0 {
				t.Errorf("app %+v", a)
			}
		}
		for uuid, reason := range parseHealth(text) {
			if uuid == "" || reason == "" {
				t.Errorf("health %q %q", uuid, reason)
			}
		}
		for uuid, parts := range parseList(text) {
			if uuid == "" || len(parts) == 0 {
				t.Errorf("list %q %v", uuid, parts)
			}
		}
	})
}

func FuzzFaults(f *testing.F) {
	f.Add([]byte(`{"devices":{"0":{"leftover":1}}}`))
	f.Fuzz(func(t *testing.T, text []byte) { _, _ = parseFaults(text) })
}

// TestNodes reads the device nodes of devices: their own, those of all of their kind, those
// whose numbers only the machine knows.
func TestNodes(t *testing.T) {
	const text = `{"cdiVersion": "0.6.0", "kind": "nvidia.com/gpu",
		"containerEdits": {"deviceNodes": [{"path": "/dev/nvidiactl", "hostPath": "/dev/zero"}]},
		"devices": [
			{"name": "GPU-a", "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia0", "type": "c", "major": 195, "minor": 0}]}},
			{"name": "GPU-b", "containerEdits": {"deviceNodes": [{"path": "/dev/null"}]}},
			{"name": "GPU-c", "containerEdits": {"deviceNodes": [{"path": "/no/such/node"}]}}]}`
	n := NewNVIDIA(NVIDIAConfig{CDIDirs: []string{writeCDI(t, text)}})
	zero, null := cgroup.Device{Major: 1, Minor: 5}, cgroup.Device{Major: 1, Minor: 3}
	for name, tc := range map[string]struct {
		cdi  []string
		want []cgroup.Device
		err  string
	}{
		"numbers in the file": {[]string{"nvidia.com/gpu=GPU-a"}, []cgroup.Device{{Major: 195}, zero}, ""},
		"numbers of the node": {[]string{"nvidia.com/gpu=GPU-b"}, []cgroup.Device{null, zero}, ""},
		"a node that is gone": {[]string{"nvidia.com/gpu=GPU-c"}, nil, "devices: nvidia.com/gpu=GPU-c: /no/such/node: no such file or directory"},
		"not listed":          {[]string{"nvidia.com/gpu=GPU-d"}, nil, "the device nvidia.com/gpu=GPU-d is gone: no CDI file lists it"},
	} {
		t.Run(name, func(t *testing.T) {
			var given []engine.Device
			for _, id := range tc.cdi {
				given = append(given, engine.Device{CDI: id})
			}
			got, err := n.Nodes(given)
			if diff := cmp.Diff(tc.want, got); diff != "" || (err == nil) != (tc.err == "") || err != nil && err.Error() != tc.err {
				t.Errorf("error %v, nodes (-want +got):\n%s", err, diff)
			}
		})
	}
	if _, err := Node("/etc/passwd"); err == nil {
		t.Error("a file is taken for a device node")
	}
}
