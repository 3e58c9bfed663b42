package kube

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/engine/kube/files"
	"croft.dev/croft/internal/engine/record"
)

var (
	alice = engine.User{Name: "alice", UID: 5001, GID: 6001, Groups: []engine.Group{{Name: "lab", GID: 7001}}, Home: "/home/alice", Shell: "/bin/sh"}
	bob   = engine.User{Name: "bob", UID: 5002, GID: 6002, Home: "/home/bob", Shell: "/bin/sh"}
)

// furnished are folders with files of several users: homes, and data that is for reading.
func furnished(t *testing.T) (homes, data string) {
	t.Helper()
	homes, data = t.TempDir(), t.TempDir()
	for _, d := range []struct {
		path     string
		uid, gid int
		mode     os.FileMode
	}{
		{homes, 0, 0, 0o755}, {homes + "/alice", 5001, 6001, 0o700}, {homes + "/bob", 5002, 6002, 0o700}, {homes + "/bob/open", 5002, 6002, 0o755},
		{data, 0, 0, 0o755}, {data + "/lab", 0, 7001, 0o770}, {data + "/set", 0, 0, 0o777},
	} {
		must(t, errors.Join(os.MkdirAll(d.path, 0o700), os.Chmod(d.path, d.mode), os.Chown(d.path, d.uid, d.gid)))
	}
	must(t, errors.Join(os.WriteFile(homes+"/bob/open/secret", []byte("bob's\n"), 0o644), os.Symlink("../bob/open", homes+"/alice/link"),
		os.WriteFile(data+"/set/numbers", []byte("1 2 3\n"), 0o644), os.WriteFile(data+"/lab/notes", []byte("noted\n"), 0o644)))
	return homes, data
}

// sharing connects with the rights that deploy/kubernetes gives, as somebody whose jobs have
// files.
func sharing(t *testing.T, claims ...files.Claim) *Engine {
	t.Helper()
	e, err := New(t.Context(), Config{
		Kubeconfig: deploy(t), Instance: uuid.NewString(), Namespace: "croft-jobs", Image: shared.registry + "/tools:1", Claims: files.Claims{List: claims, MakeHomes: true},
		LogDir: t.TempDir(), Logger: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	must(t, err)
	t.Cleanup(func() { must(t, e.Close()) })
	return e
}

// shown runs a script as a job's only program and returns what it says.
func shown(t *testing.T, e *Engine, a engine.Allocation, script string) string {
	t.Helper()
	a.Command = []string{"sh", "-c", script}
	run(t, e, a)
	await(t, e, a, "ended", phase(engine.PhaseExited))
	return logOf(t, e, a)
}

// at is a mount of what lies at a path.
func at(path, target string) engine.Mount {
	return engine.Mount{Source: path, Target: target, Within: []string{"/home", "/data"}}
}

func linesOf(all ...string) string { return strings.Join(all, "\n") }

// TestClaims: a job finds its files as its user, and nobody else's.
func TestClaims(t *testing.T) {
	deploy(t)
	homes, data := furnished(t)
	must(t, shared.Share(t.Context(), "croft-jobs", "homes", homes, "ReadWriteMany"))
	must(t, shared.Share(t.Context(), "croft-jobs", "data", data, "ReadOnlyMany"))
	e := sharing(t, files.Claim{Path: "/home", Name: "homes", Here: homes}, files.Claim{Path: "/data", Name: "data", Here: data, ReadOnly: true})
	blind := sharing(t, files.Claim{Path: "/home", Name: "homes"}, files.Claim{Path: "/data", Name: "data", ReadOnly: true})

	t.Run("a home, and data for reading", func(t *testing.T) {
		a := job(e, 1)
		a.User, a.Workdir = alice, "/home/alice"
		gone := at("/data/gone", "/shared/gone")
		gone.Optional = "folder /shared/gone"
		a.Mounts = []engine.Mount{at("/home/alice", "/home/alice"), at("/data/set", "/d"), at("/data/lab", "/lab"), gone}
		got := shown(t, e, a, `pwd; echo $HOME; ls /home; cat /d/numbers /lab/notes; touch /d/new 2>/dev/null || echo cannot; cat ~/link/secret 2>/dev/null || echo closed; echo made >~/made`)
		want := linesOf("croft: folder /shared/gone isn't mounted: it isn't there, or alice may not read it", "/home/alice", "/home/alice", "alice", "1 2 3", "noted", "cannot", "closed")
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
		owned(t, homes+"/alice/made", 5001, 6001)
	})
	t.Run("a further step", func(t *testing.T) {
		a := job(e, 2, "sh", "-c", sleep)
		a.User, a.Mounts = alice, []engine.Mount{at("/home/alice", "/w")}
		run(t, e, a)
		await(t, e, a, "running", phase(engine.PhaseRunning))
		s := engine.Step{N: 2, CPU: a.CPU, Memory: a.Memory, Container: engine.Container{
			Image: a.Image, Workdir: "/home/alice", Mounts: []engine.Mount{at("/home/alice", "/home/alice")},
			Command: []string{"sh", "-c", "pwd; id -u; cat /home/bob/open/secret 2>/dev/null || echo closed; touch /home/mine 2>/dev/null || echo cannot; echo step >~/step"},
		}}
		must(t, e.StartStep(t.Context(), a, s))
		if d := cmp.Diff(linesOf("/home/alice", "5001", "closed", "cannot"), stepLog(t, e, a, 2)); d != "" {
			t.Error(d)
		}
		owned(t, homes+"/alice/step", 5001, 6001)
		for want, m := range map[string]engine.Mount{
			"it can only be at its own path, since a further step has all that is in /home": at("/home/alice", "/x"),
			"nothing of the claim data": at("/data/set", "/data/set"),
		} {
			s.N, s.Mounts = 3, []engine.Mount{m}
			var never *engine.StartError
			if err := e.StartStep(t.Context(), a, s); !errors.As(err, &never) || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
		}
	})
	t.Run("a program outside of containers", func(t *testing.T) {
		a := job(blind, 3)
		a.User, a.Host, a.Image = alice, true, ""
		got := shown(t, blind, a, `pwd; echo $HOME; cat /data/set/numbers; ls /home/bob 2>/dev/null || echo closed; touch /data/set/new 2>/dev/null || echo cannot`)
		if d := cmp.Diff(linesOf("/home/alice", "/home/alice", "1 2 3", "closed", "cannot"), got); d != "" {
			t.Error(d)
		}
	})
	t.Run("where the server doesn't look", func(t *testing.T) {
		a := job(blind, 4)
		a.User, a.Workdir, a.Mounts = alice, "/home/alice", []engine.Mount{at("/home/alice", "/home/alice")}
		got := shown(t, blind, a, `pwd; echo $HOME; cat /home/bob/open/secret 2>/dev/null || echo closed; mkdir /home/new 2>/dev/null || echo cannot`)
		if d := cmp.Diff(linesOf("/home/alice", "/home/alice", "closed", "cannot"), got); d != "" {
			t.Error(d)
		}
	})
	t.Run("a home that nobody has made", func(t *testing.T) {
		a := job(e, 5)
		a.User = engine.User{Name: "carol", UID: 5003, GID: 6003, Home: "/home/carol", Shell: "/bin/sh"}
		a.Mounts = []engine.Mount{at("/home/carol", "/home/carol")}
		if got := shown(t, e, a, "echo mine >~/x; cat ~/x"); got != "mine" {
			t.Errorf("%q", got)
		}
		owned(t, homes+"/carol", 5003, 6003)
	})
	t.Run("refused", func(t *testing.T) {
		for want, m := range map[string]engine.Mount{
			"it isn't there, or bob may not read it":               at("/home/alice", "/w"),
			"it isn't on this cluster, which has /home, /data":     at("/srv", "/srv"),
			"since others could make what leads there":             at("/home/bob/open", "/w"),
			"it leads out of the folders that may be mounted here": {Source: "/data/set", Target: "/d", Within: []string{"/home/bob"}},
			"on this cluster there are no named volumes":           {Volume: "keep", Target: "/v"},
		} {
			a := job(e, 6, "true")
			a.User, a.Mounts = bob, []engine.Mount{m}
			var never *engine.StartError
			if err := e.Start(t.Context(), a); !errors.As(err, &never) || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
		}
		a := job(blind, 7)
		a.User, a.Workdir, a.Mounts = bob, "/home/bob/new", []engine.Mount{at("/home/bob", "/home/bob")}
		if err := blind.Start(t.Context(), a); err == nil || !strings.Contains(err.Error(), "needs a command") {
			t.Errorf("a folder that the node would make: %v", err)
		}
	})
}

// owned fails if a file isn't somebody's.
func owned(t *testing.T, path string, uid, gid uint32) {
	t.Helper()
	info, err := os.Lstat(path)
	must(t, err)
	if st := info.Sys().(*syscall.Stat_t); st.Uid != uid || st.Gid != gid {
		t.Errorf("%s is %d:%d's, want %d:%d", filepath.Base(path), st.Uid, st.Gid, uid, gid)
	}
}

// stepLog is what a further step has written by its end.
func stepLog(t *testing.T, e *Engine, a engine.Allocation, n int) string {
	t.Helper()
	var w logText
	must(t, e.Logs(t.Context(), engine.StepID{Attempt: a.Attempt, N: n}, engine.LogOptions{Tail: -1, Follow: true}, &w))
	return strings.TrimSpace(w.String())
}

// A claim that isn't there keeps a job from beginning, which says so, and is no reason not to
// start the server.
func TestNoClaim(t *testing.T) {
	e := open(t, uuid.NewString(), t.TempDir())
	t.Cleanup(func() { must(t, e.Close()) })
	e.cfg.Claims = files.Claims{List: []files.Claim{{Path: "/home", Name: "none"}}}
	must(t, e.lookAtClaims(t.Context()))
	a := job(e, 1, "true")
	a.User, a.Mounts = alice, []engine.Mount{at("/home/alice", "/home/alice")}
	run(t, e, a)
	s := await(t, e, a, "kept from starting", func(s engine.Status) bool { return s.Waits.For != "" })
	if s.Phase != engine.PhaseCreated || s.Waits.Message != `the claim "none" isn't there` {
		t.Errorf("%+v", s)
	}
}

func TestLackOf(t *testing.T) {
	claim := func(phase corev1.PersistentVolumeClaimPhase, mode corev1.PersistentVolumeAccessMode) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{Status: corev1.PersistentVolumeClaimStatus{Phase: phase, AccessModes: []corev1.PersistentVolumeAccessMode{mode}}}
	}
	none := schema.GroupResource{Resource: "persistentvolumeclaims"}
	for name, c := range map[string]struct {
		have     *corev1.PersistentVolumeClaim
		readOnly bool
		err      error
		want     string
	}{
		"as it should be":      {have: claim(corev1.ClaimBound, corev1.ReadWriteMany)},
		"for reading":          {have: claim(corev1.ClaimBound, corev1.ReadOnlyMany), readOnly: true},
		"for reading alone":    {have: claim(corev1.ClaimBound, corev1.ReadOnlyMany), want: "its access mode is [ReadOnlyMany]"},
		"one node":             {have: claim(corev1.ClaimBound, corev1.ReadWriteOnce), readOnly: true, want: "run on one node at a time"},
		"not bound":            {have: claim(corev1.ClaimPending, ""), want: "isn't bound"},
		"lost":                 {have: claim(corev1.ClaimLost, ""), want: "its volume is gone"},
		"not there":            {err: apierrors.NewNotFound(none, "homes"), want: "it isn't there"},
		"not for Croft to see": {err: apierrors.NewForbidden(none, "homes", errors.New("no")), want: "it can't be looked at"},
	} {
		t.Run(name, func(t *testing.T) {
			got := lackOf(files.Claim{Name: "homes", ReadOnly: c.readOnly}, c.have, c.err)
			if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// What a Pod of claims is like: one volume of each, parts of them by subPath alone where those
// are fixed, and where the node isn't to make a folder its user goes there.
func TestPodWithClaims(t *testing.T) {
	homes, data := furnished(t)
	e := &Engine{log: slog.New(slog.DiscardHandler), cfg: Config{Instance: "i", Namespace: "n", Image: "tools:1", Claims: files.Claims{List: []files.Claim{
		{Path: "/home", Name: "homes", Here: homes}, {Path: "/data", Name: "data", Here: data, ReadOnly: true},
	}}}}
	a := job(e, 1, "true")
	a.Attempt, a.User, a.Workdir = "a-1-1", alice, "/home/alice/work"
	a.Mounts = []engine.Mount{at("/home/alice/work", "/home/alice/work"), at("/data/lab", "/lab"), at("/data/set", "/data/set"), {Target: "/scratch", Tmpfs: 1 << 20}}
	p, err := e.pod(t.Context(), a)
	must(t, err)
	var claims, mounts []string
	for _, v := range p.Spec.Volumes {
		if c := v.PersistentVolumeClaim; c != nil {
			claims = append(claims, v.Name+"="+c.ClaimName)
		}
	}
	c := p.Spec.Containers[0]
	for _, m := range c.VolumeMounts {
		if m.Name == volumeCroft || m.Name == volumeShm {
			continue
		}
		one := m.Name + ":" + m.SubPath + " at " + m.MountPath
		if m.ReadOnly && *m.RecursiveReadOnly == corev1.RecursiveReadOnlyIfPossible {
			one += " ro"
		}
		mounts = append(mounts, one)
	}
	if d := cmp.Diff([]string{"files-0=homes", "files-1=data"}, claims); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"files-0:alice at /home/alice", "files-1:lab at /lab ro", "files-1:set at /data/set ro", "tmp-3: at /scratch"}, mounts); d != "" {
		t.Error(d)
	}
	env := map[string]string{}
	for _, v := range c.Env {
		env[v.Name] = v.Value
	}
	if c.WorkingDir != "" || env[record.Workdir] != "/home/alice/work" || env["HOME"] != "/tmp" {
		t.Errorf("it begins in %q, %v", c.WorkingDir, env)
	}
}
