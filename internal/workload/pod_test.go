package workload_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/internal/workload"
)

func TestPod(t *testing.T) {
	for name, tc := range map[string]struct {
		in   v1.Pod
		want workload.Pod
		bad  string // a part of the error
	}{
		"nothing":         {},
		"processes":       {v1.Pod{PID: "shared"}, workload.Pod{SharePID: true}, ""},
		"no processes":    {v1.Pod{PID: "host"}, workload.Pod{}, "pod.pid"},
		"all":             {v1.Pod{Name: "web-1", Network: "default", Ports: []string{"9000", "8080:80"}, DNS: []string{"192.0.2.1", "2001:db8:0::1"}}, workload.Pod{Name: "web-1", Ports: []workload.Port{{Host: 8080, Container: 80}, {Host: 9000, Container: 9000}}, DNS: []string{"192.0.2.1", "2001:db8::1"}}, ""},
		"host":            {v1.Pod{Network: "host"}, workload.Pod{HostNetwork: true}, ""},
		"fake root":       {v1.Pod{Userns: "auto", User: "01000:0"}, workload.Pod{Userns: workload.UsernsAuto, User: "1000:0"}, ""},
		"no fake root":    {v1.Pod{Userns: "off", User: "5001"}, workload.Pod{Userns: workload.UsernsOff, User: "5001"}, ""},
		"perhaps":         {v1.Pod{Userns: "maybe"}, workload.Pod{}, "must be on, auto or off"},
		"a name":          {v1.Pod{User: "ada"}, workload.Pod{}, "pod.user"},
		"no group":        {v1.Pod{User: "0:"}, workload.Pod{}, "pod.user"},
		"no number":       {v1.Pod{User: "-1"}, workload.Pod{}, "pod.user"},
		"nobody at all":   {v1.Pod{User: "4294967295"}, workload.Pod{}, "pod.user"},
		"host with ports": {v1.Pod{Network: "host", Ports: []string{"80"}}, workload.Pod{}, "pod.ports"},
		"host with name":  {v1.Pod{Network: "host", Name: "a"}, workload.Pod{}, "pod.name"},
		"no network":      {v1.Pod{Network: "bridge"}, workload.Pod{}, `"bridge" must be default or host`},
		"no name":         {v1.Pod{Name: "Web_1"}, workload.Pod{}, "pod.name"},
		"a long name":     {v1.Pod{Name: strings.Repeat("a", 64)}, workload.Pod{}, "pod.name"},
		"a name's dash":   {v1.Pod{Name: "a-"}, workload.Pod{}, "pod.name"},
		"a port twice":    {v1.Pod{Ports: []string{"80:1", "80:2"}}, workload.Pod{}, "named twice"},
		"port 0":          {v1.Pod{Ports: []string{"0"}}, workload.Pod{}, "pod.ports"},
		"a large port":    {v1.Pod{Ports: []string{"65536"}}, workload.Pod{}, "pod.ports"},
		"a port's sign":   {v1.Pod{Ports: []string{"+80"}}, workload.Pod{}, "pod.ports"},
		"an address":      {v1.Pod{Ports: []string{"127.0.0.1:80:80"}}, workload.Pod{}, "pod.ports"},
		"half a port":     {v1.Pod{Ports: []string{"80:"}}, workload.Pod{}, "pod.ports"},
		"many ports":      {v1.Pod{Ports: make([]string, 65)}, workload.Pod{}, "more than 64"},
		"no address":      {v1.Pod{DNS: []string{"ns.example.org"}}, workload.Pod{}, "pod.dns"},
		"a zone":          {v1.Pod{DNS: []string{"fe80::1%eth0"}}, workload.Pod{}, "pod.dns"},
		"many servers":    {v1.Pod{DNS: []string{"192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"}}, workload.Pod{}, "more than 3"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := workload.Parse(v1.JobSpec{Image: "a:1", Pod: &tc.in}, workload.Defaults{CPU: 1000, Mem: 1 << 30, Time: 1e9})
			if tc.bad != "" {
				if err == nil || !strings.Contains(err.Error(), tc.bad) {
					t.Fatalf("error %v, want one with %q", err, tc.bad)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got.Pod); diff != "" {
				t.Error(diff)
			}
			again, err := workload.Parse(got.Wire(), workload.Defaults{})
			if diff := cmp.Diff(got.Pod, again.Pod); err != nil || diff != "" {
				t.Errorf("not read again: %v\n%s", err, diff)
			}
		})
	}
}

func FuzzParsePort(f *testing.F) {
	for _, s := range []string{"8080:80", "80", ":", "65536", "1:2:3"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		port, ok := workload.ParsePort(s)
		if !ok {
			return
		}
		if again, ok := workload.ParsePort(port.String()); !ok || again != port || port.Host == 0 || port.Container == 0 {
			t.Errorf("%q is %v, which is read as %v", s, port, again)
		}
	})
}
