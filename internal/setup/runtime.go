package setup

import (
	"context"
	"io/fs"
	"path"
	"strings"

	"croft.dev/croft/internal/config"
)

// runtimes reports what runs the containers, and what else on the machine does
// and is left alone.
func runtimes(ctx context.Context, d *Deps) []Finding {
	e := d.Config.Engine
	var out []Finding
	switch {
	case e.Kind == config.EngineSim:
		return one(Note, "none: the engine is sim, jobs are only pretended")
	case e.Endpoint != "":
		out = foreign(ctx, d, e.Endpoint)
	default:
		out = own(d)
	}
	others, kubelet := neighbours(d.Machine.Files)
	if len(others) > 0 {
		out[0].Text += "; " + strings.Join(others, ", ") + " untouched"
	}
	if kubelet {
		out = append(out, one(Note, "a kubelet runs here: Kubernetes hands out the same CPUs, memory and devices without knowing of Croft")...)
	}
	return out
}

func foreign(ctx context.Context, d *Deps, endpoint string) []Finding {
	conn, err := d.Machine.Dial(ctx, "unix", strings.TrimPrefix(endpoint, "unix://"))
	if err != nil {
		return fix(one(Fail, "%s doesn't answer", endpoint), "start that runtime, or remove engine.endpoint to use Croft's own")
	}
	defer conn.Close()
	return one(OK, "%s, as the configuration says", endpoint)
}

// own reports on the runtime that Croft brings along.
func own(d *Deps) []Finding {
	dir := string(d.Config.Engine.RuntimeDir)
	var missing []string
	for _, p := range []string{"bin/containerd", "bin/containerd-shim-runc-v2", "bin/ctr", "bin/runc", "cni/bridge", "cni/host-local"} {
		if _, err := fs.Stat(d.Machine.Files, inFS(path.Join(dir, p))); err != nil {
			missing = append(missing, p)
		}
	}
	if len(missing) > 0 {
		return fix(one(Fail, "own containerd isn't in %s: %s missing", dir, list(missing, 3)),
			"build it with make setup, and set engine.runtime_dir to where it is")
	}
	if d.Runtime != nil && d.Runtime.PID() > 0 {
		return one(OK, "own containerd, runs as pid %d", d.Runtime.PID())
	}
	return one(OK, "own containerd, started with the server")
}

// neighbours names other runtimes by their sockets, and says whether a kubelet
// runs.
func neighbours(files fs.FS) (names []string, kubelet bool) {
	for _, n := range []struct{ name, socket string }{
		{"Docker", "run/docker.sock"},
		{"the system's containerd", "run/containerd/containerd.sock"},
		{"CRI-O", "run/crio/crio.sock"},
		{"Podman", "run/podman/podman.sock"},
	} {
		if _, err := fs.Stat(files, n.socket); err == nil {
			names = append(names, n.name)
		}
	}
	comms, err := fs.Glob(files, "proc/[0-9]*/comm")
	if err != nil {
		return names, false
	}
	for _, c := range comms {
		if text, err := fs.ReadFile(files, c); err == nil && strings.TrimSpace(string(text)) == "kubelet" {
			return names, true
		}
	}
	return names, false
}

// inFS is an absolute path as io/fs has it.
func inFS(p string) string {
	if p = strings.TrimPrefix(path.Clean(p), "/"); p == "" {
		return "."
	}
	return p
}
