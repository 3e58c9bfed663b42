package workload_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/internal/workload"
)

func TestApps(t *testing.T) {
	no := false
	for name, tc := range map[string]struct {
		in   v1.JobSpec
		want []workload.App
		bad  string // a part of the error
	}{
		"none":           {},
		"the least":      {v1.JobSpec{Apps: []v1.App{{Port: 80}}}, []workload.App{{Name: "web", Port: 80, Path: "/", Strip: true}}, ""},
		"all":            {v1.JobSpec{Apps: []v1.App{{Name: "lab-2", Port: 65535, Path: "/lab/tree?x=%20", Health: "/api", ViewSafe: true, Strip: &no}}}, []workload.App{{Name: "lab-2", Port: 65535, Path: "/lab/tree?x=%20", Health: "/api", ViewSafe: true}}, ""},
		"two":            {v1.JobSpec{Apps: []v1.App{{Port: 80}, {Name: "b", Port: 80}}}, []workload.App{{Name: "web", Port: 80, Path: "/", Strip: true}, {Name: "b", Port: 80, Path: "/", Strip: true}}, ""},
		"a name twice":   {v1.JobSpec{Apps: []v1.App{{Port: 80}, {Name: "web", Port: 81}}}, nil, "apps[1].name"},
		"no host's name": {v1.JobSpec{Apps: []v1.App{{Name: "a.b", Port: 80}}}, nil, "apps[0].name"},
		"a dash first":   {v1.JobSpec{Apps: []v1.App{{Name: "-a", Port: 80}}}, nil, "apps[0].name"},
		"a long name":    {v1.JobSpec{Apps: []v1.App{{Name: strings.Repeat("a", 33), Port: 80}}}, nil, "apps[0].name"},
		"no port":        {v1.JobSpec{Apps: []v1.App{{Name: "a"}}}, nil, "apps[0].port"},
		"a large port":   {v1.JobSpec{Apps: []v1.App{{Port: 65536}}}, nil, "65536 isn't a TCP port"},
		"elsewhere":      {v1.JobSpec{Apps: []v1.App{{Port: 80, Path: "//evil.example/"}}}, nil, "apps[0].path"},
		"a URL":          {v1.JobSpec{Apps: []v1.App{{Port: 80, Path: "https://evil.example/"}}}, nil, "apps[0].path"},
		"a backslash":    {v1.JobSpec{Apps: []v1.App{{Port: 80, Path: "/\\evil.example/"}}}, nil, "apps[0].path"},
		"above":          {v1.JobSpec{Apps: []v1.App{{Port: 80, Path: "/a/%2e%2e/b"}}}, nil, "apps[0].path"},
		"jupyter":        {v1.JobSpec{Apps: []v1.App{{Name: "lab", Port: 80, Activity: "jupyter"}}}, []workload.App{{Name: "lab", Port: 80, Path: "/", Strip: true, Activity: "jupyter"}}, ""},
		"its own way":    {v1.JobSpec{Apps: []v1.App{{Name: "lab", Port: 80, Activity: "/busy?x=1"}}}, []workload.App{{Name: "lab", Port: 80, Path: "/", Strip: true, Activity: "/busy?x=1"}}, ""},
		"no way":         {v1.JobSpec{Apps: []v1.App{{Port: 80, Activity: "kernels"}}}, nil, "apps[0].activity"},
		"a way out":      {v1.JobSpec{Apps: []v1.App{{Port: 80, Activity: "/../busy"}}}, nil, "apps[0].activity"},
		"a line":         {v1.JobSpec{Apps: []v1.App{{Port: 80, Health: "/a\nb"}}}, nil, "apps[0].health"},
		"a long path":    {v1.JobSpec{Apps: []v1.App{{Port: 80, Health: "/" + strings.Repeat("a", 1024)}}}, nil, "apps[0].health"},
		"many":           {v1.JobSpec{Apps: make([]v1.App, 9)}, nil, "more than 8"},
		"on the machine": {v1.JobSpec{Kind: "batch", Command: []string{"x"}, Apps: []v1.App{{Port: 80}}}, nil, "are for containers"},
		"in its network": {v1.JobSpec{Pod: &v1.Pod{Network: "host"}, Apps: []v1.App{{Port: 80}}}, nil, "need the job's own network"},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.in.Kind == "" {
				tc.in.Image = "a:1"
			}
			got, err := workload.Parse(tc.in, defaults)
			if tc.bad != "" {
				if err == nil || !strings.Contains(err.Error(), tc.bad) {
					t.Fatalf("error %v, want one with %q", err, tc.bad)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got.Apps); diff != "" {
				t.Error(diff)
			}
			again, err := workload.Parse(got.Wire(), defaults)
			if diff := cmp.Diff(got, again); err != nil || diff != "" {
				t.Errorf("not read again: %v\n%s", err, diff)
			}
			if first, ok := got.App(""); ok != (len(tc.want) > 0) || ok && first.Name != tc.want[0].Name {
				t.Errorf("the first is %+v", first)
			}
		})
	}
}

func TestWorkspaceSpec(t *testing.T) {
	for name, tc := range map[string]struct {
		in   v1.JobSpec
		name string
		bad  string // a part of the error
	}{
		"named":              {v1.JobSpec{Name: "nb-2"}, "nb-2", ""},
		"by its image":       {v1.JobSpec{Image: "docker.io/library/Jupyter_lab:1.2"}, "jupyter-lab-1-2", ""},
		"by its program":     {v1.JobSpec{Command: []string{"/usr/bin/jupyter-notebook"}}, "jupyter-notebook", ""},
		"by nothing":         {v1.JobSpec{Command: []string{"_"}}, "workspace", ""},
		"by a number":        {v1.JobSpec{Command: []string{"7"}}, "workspace", ""},
		"by something long":  {v1.JobSpec{Command: []string{strings.Repeat("é", 62) + "b"}}, "workspace", ""},
		"with a pause":       {v1.JobSpec{Name: "shell", Pause: true}, "shell", ""},
		"a number":           {v1.JobSpec{Name: "118"}, "", "not digits alone"},
		"a phrase":           {v1.JobSpec{Name: "My notebook"}, "", "can't be a workspace's"},
		"an array":           {v1.JobSpec{Array: "1-2"}, "", "array"},
		"a deadline":         {v1.JobSpec{Deadline: "+2h"}, "", "deadline"},
		"after another":      {v1.JobSpec{After: "afterok:12"}, "", "after"},
		"a paused program":   {v1.JobSpec{Pause: true, Command: []string{"x"}}, "", "pause"},
		"a paused terminal":  {v1.JobSpec{Pause: true, TTY: true}, "", "pause"},
		"a pause of a batch": {v1.JobSpec{Kind: "batch", Pause: true, Command: []string{"x"}}, "", "pause"},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.in.Kind == "" {
				tc.in.Kind = v1.KindWorkspace
			}
			if tc.in.Image == "" {
				tc.in.Image = "a:1"
			}
			got, err := workload.Parse(tc.in, defaults)
			if tc.bad != "" {
				if err == nil || !strings.Contains(err.Error(), tc.bad) {
					t.Fatalf("error %v, want one with %q", err, tc.bad)
				}
				return
			}
			if err != nil || got.Name != tc.name || got.Host() {
				t.Fatalf("name %q, %v", got.Name, err)
			}
			again, err := workload.Parse(got.Wire(), defaults)
			if diff := cmp.Diff(got, again); err != nil || diff != "" {
				t.Errorf("not read again: %v\n%s", err, diff)
			}
		})
	}
}
