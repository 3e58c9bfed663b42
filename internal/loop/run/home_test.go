package run

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/workload"
)

// What is installed in a workspace lands in the home, if that is mounted to be written to,
// and it begins there.
func TestHomeEnvironment(t *testing.T) {
	in := func(image string) map[string]string {
		return map[string]string{
			"PYTHONUSERBASE": "/home/ada/.local/share/croft/python/" + image, "PIP_CACHE_DIR": "/home/ada/.cache/pip",
			"CONDA_PKGS_DIRS": "/home/ada/.cache/conda/pkgs", "CONDA_ENVS_PATH": "/home/ada/.local/share/croft/conda/" + image,
		}
	}
	home := engine.Mount{Source: "/home/ada", Target: "/home/ada"}
	for name, tc := range map[string]struct {
		kind  workload.Kind
		image string
		mount engine.Mount
		want  map[string]string
	}{
		"home":          {workload.KindWorkspace, "jupyter:1", home, in("jupyter")},
		"a registry's":  {workload.KindWorkspace, "reg.example.org:5000/lab/jupyter@sha256:0", home, in("reg.example.org_5000_lab_jupyter")},
		"all homes":     {workload.KindWorkspace, "jupyter", engine.Mount{Source: "/home", Target: "/home"}, in("jupyter")},
		"a part of it":  {workload.KindWorkspace, "jupyter", engine.Mount{Source: "/home/ada/x", Target: "/home/ada/x"}, nil},
		"to be read":    {workload.KindWorkspace, "jupyter", engine.Mount{Source: "/home/ada", Target: "/home/ada", ReadOnly: true}, nil},
		"in memory":     {workload.KindWorkspace, "jupyter", engine.Mount{Target: "/home/ada", Tmpfs: 1}, nil},
		"another's":     {workload.KindWorkspace, "jupyter", engine.Mount{Source: "/home/ad", Target: "/home/ad"}, nil},
		"a job's":       {workload.KindContainer, "jupyter", home, nil},
		"below a slash": {workload.KindWorkspace, "jupyter", engine.Mount{Source: "/srv", Target: "/"}, in("jupyter")},
	} {
		t.Run(name, func(t *testing.T) {
			got := ofHome(&workload.Job{Spec: workload.Spec{Kind: tc.kind}}, tc.image, []engine.Mount{tc.mount}, engine.User{Home: "/home/ada"})
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			for said, want := range map[string]string{"": "", "/srv": "/srv"} {
				if said == "" && tc.want != nil {
					want = "/home/ada"
				}
				c := &engine.Container{Workdir: said, Mounts: []engine.Mount{tc.mount}}
				if got := workdir(&workload.Job{Spec: workload.Spec{Kind: tc.kind}}, c, engine.User{Home: "/home/ada"}); got != want {
					t.Errorf("begins in %q, want %q", got, want)
				}
			}
		})
	}
}
