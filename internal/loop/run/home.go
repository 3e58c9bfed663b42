package run

import (
	"path"
	"strings"

	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/workload"
)

// ofHome has what is installed in a workspace outlast it, where the user's home is mounted:
// python's packages apart for each image, since they are built for what that has, and
// downloads for all of them.
func ofHome(j *workload.Job, image string, mounts []engine.Mount, u engine.User) map[string]string {
	if !j.Spec.Workspace() || !covered(u.Home, mounts) {
		return nil
	}
	return map[string]string{
		"PYTHONUSERBASE":  path.Join(u.Home, ".local/share/croft/python", imageKey(image)),
		"PIP_CACHE_DIR":   path.Join(u.Home, ".cache/pip"),
		"CONDA_PKGS_DIRS": path.Join(u.Home, ".cache/conda/pkgs"),
		"CONDA_ENVS_PATH": path.Join(u.Home, ".local/share/croft/conda", imageKey(image)),
	}
}

// workdir is where a container's program begins, and so the shells beside it: in a workspace
// that doesn't say, the user's home, where that is mounted.
func workdir(j *workload.Job, c *engine.Container, u engine.User) string {
	if c.Workdir == "" && j.Spec.Workspace() && covered(u.Home, c.Mounts) {
		return u.Home
	}
	return c.Workdir
}

// covered reports whether a folder is in what is mounted to be written to.
func covered(folder string, mounts []engine.Mount) bool {
	for _, m := range mounts {
		if !m.ReadOnly && m.Tmpfs == 0 && folder != "" && (m.Target == folder || strings.HasPrefix(folder, strings.TrimSuffix(m.Target, "/")+"/")) {
			return true
		}
	}
	return false
}

// imageKey is a folder's name for an image, whatever its tag and digest: its versions share
// what was installed, which python keeps apart by its own version.
func imageKey(ref string) string {
	ref, _, _ = strings.Cut(ref, "@")
	if slash := strings.LastIndexByte(ref, '/'); strings.LastIndexByte(ref, ':') > slash {
		ref = ref[:strings.LastIndexByte(ref, ':')]
	}
	return strings.NewReplacer("/", "_", ":", "_").Replace(ref)
}
