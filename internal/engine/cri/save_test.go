package cri

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	contentapi "github.com/containerd/containerd/api/services/content/v1"
	leasesapi "github.com/containerd/containerd/api/services/leases/v1"
	snapshotsapi "github.com/containerd/containerd/api/services/snapshots/v1"
	"github.com/google/go-cmp/cmp"

	"croft.dev/croft/internal/engine"
)

// saved is a request for an image of the instance's own.
func (e *testEngine) saveRequest(name string) engine.SaveRequest {
	return engine.SaveRequest{Ref: "croft.local/" + e.instance[:8] + "/" + name, Author: "alice", Comment: "with tools", At: time.Unix(1_800_000_000, 0)}
}

// TestSaveImage saves what root in a user namespace has changed while it runs, uses the
// image as root and as the user, and saves from that once more.
func TestSaveImage(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	dir := t.TempDir()
	for _, d := range []string{dir, filepath.Dir(dir)} {
		if err := os.Chmod(d, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "secret"), []byte("s3cret-data"), 0o644); err != nil {
		t.Fatal(err)
	}
	const site = "/opt/env/lib/python3.12/site-packages"
	a := mounting(withUserns(e.script(1, `
		mkdir -p /opt/tool /run/agent /tmp/keys /var/lib/dpkg /shared-by-all `+site+`/six-1.17.dist-info
		echo 'echo tool works' >/opt/tool/run; chmod 4755 /opt/tool/run
		echo of-42 >/opt/tool/of-42; chown 42:43 /opt/tool/of-42
		ln -s /opt/tool/run /bin/tool; ln /opt/tool/of-42 /opt/tool/again
		echo six >`+site+`/six-1.17.dist-info/METADATA
		printf 'Package: git\nStatus: install ok installed\nVersion: 2.4\n' >/var/lib/dpkg/status
		echo s3cret-agent >/run/agent/key; echo s3cret-tmp >/tmp/keys/key; echo s3cret-run >/.croft/run/x
		echo kept >/data/new; echo changed >>/etc/motd
		echo ready; exec sleep 600`), 0, 0), dir)
	if err := e.Start(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	e.awaitOutput(a.Attempt.Primary(), "ready")

	req := e.saveRequest("env:v1")
	last := engine.Progress{}
	got, err := e.SaveImage(t.Context(), a.Attempt.Primary(), req, func(p engine.Progress) { last = p })
	if err != nil {
		t.Fatal(err)
	}
	if got.Ref != req.Ref || got.Added == 0 || !strings.HasPrefix(got.ID, "sha256:") || got.Base == "" || last.Done == 0 {
		t.Errorf("%+v, %+v", got, last)
	}
	want := []engine.Package{{Manager: "apt", Name: "git", Version: "2.4"}, {Manager: "pip", Name: "six", Version: "1.17"}}
	if diff := cmp.Diff(want, got.Packages); diff != "" {
		t.Errorf("packages (-want +got)\n%s", diff)
	}
	again, err := e.SaveImage(t.Context(), a.Attempt.Primary(), req, nil)
	if diff := cmp.Diff(got, again); diff != "" || err != nil {
		t.Errorf("asked for again: %v\n%s", err, diff)
	}
	if got := e.status(a.Attempt.Primary()); got.Phase != engine.PhaseRunning {
		t.Errorf("the step was disturbed: %+v", got)
	}
	e.nothingLeft(req)

	use := `/bin/sh /bin/tool; stat -c '%u:%g %a %n' /opt/tool/*; ls -A /run/agent /tmp/keys /data 2>/dev/null; grep -rl s3cret /opt /etc /run /tmp /data /.croft/run /shared-by-all 2>/dev/null; tail -1 /etc/motd; true`
	in := func(a engine.Allocation) engine.Allocation {
		a.Image = req.Ref
		return a
	}
	files := "tool works\n42:43 644 /opt/tool/again\n42:43 644 /opt/tool/of-42\n0:0 4755 /opt/tool/run\n"
	if got := e.run(in(withUserns(e.script(2, use), 0, 0))); got.stdout != files+"changed\n" {
		t.Errorf("as root: %q, %q, %+v", got.stdout, got.stderr, got.status)
	}
	if got := e.run(in(e.script(3, use))); got.stdout != files+"changed\n" {
		t.Errorf("as the user: %q, %q, %+v", got.stdout, got.stderr, got.status)
	}

	next := in(withUserns(e.script(4, "rm -r /opt/tool /bin/tool "+site+"/six-1.17.dist-info; echo ready; exec sleep 600"), 0, 0))
	if err := e.Start(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	e.awaitOutput(next.Attempt.Primary(), "ready")
	second := e.saveRequest("env:v2")
	then, err := e.SaveImage(t.Context(), next.Attempt.Primary(), second, nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]engine.Package{{Manager: "pip", Name: "six", Was: "1.17"}}, then.Packages); diff != "" || then.Base != got.ID {
		t.Errorf("packages (-want +got)\n%s, base %s", diff, then.Base)
	}
	last5 := e.script(5, "ls /opt; cat /etc/motd")
	last5.Image = second.Ref
	if got := e.run(last5); got.stdout != "env\nchanged\n" {
		t.Errorf("the second: %q, %q", got.stdout, got.stderr)
	}

	list, err := e.SavedImages(t.Context(), "croft.local/"+e.instance[:8]+"/")
	if err != nil || len(list) != 2 {
		t.Errorf("%v, %v", list, err)
	}
	e.discardAll()
	for range 2 {
		if err := errors.Join(e.RemoveImage(t.Context(), req.Ref), e.RemoveImage(t.Context(), second.Ref)); err != nil {
			t.Error(err)
		}
	}
	if list, err := e.SavedImages(t.Context(), "croft.local/"+e.instance[:8]+"/"); err != nil || len(list) != 0 {
		t.Errorf("left: %v, %v", list, err)
	}
}

// nothingLeft checks that nothing is left of how an image was made.
func (e *testEngine) nothingLeft(req engine.SaveRequest) {
	e.t.Helper()
	ctx := ofCRI(e.t.Context())
	leases, err := e.rt.leases.List(ctx, &leasesapi.ListRequest{})
	for _, l := range leases.GetLeases() {
		if strings.Contains(l.GetID(), e.instance[:8]) {
			e.t.Errorf("lease %s is left", l.GetID())
		}
	}
	writing, err2 := e.rt.content.ListStatuses(ctx, &contentapi.ListStatusesRequest{})
	for _, s := range writing.GetStatuses() {
		if strings.Contains(s.GetRef(), e.instance[:8]) {
			e.t.Errorf("%s is left half written", s.GetRef())
		}
	}
	if err := errors.Join(err, err2); err != nil {
		e.t.Error(err)
	}
	views := map[string]bool{}
	list, err := e.rt.snapshots.List(ctx, &snapshotsapi.ListSnapshotsRequest{Snapshotter: "overlayfs"})
	for err == nil {
		var m *snapshotsapi.ListSnapshotsResponse
		if m, err = list.Recv(); err == nil {
			for _, s := range m.GetInfo() {
				views[s.GetName()] = strings.HasPrefix(s.GetName(), "croft-save-"+e.instance[:8])
			}
		}
	}
	for name, ours := range views {
		if ours {
			e.t.Errorf("snapshot %s is left", name)
		}
	}
}

// TestSaveImageRefused has requests that can't be met.
func TestSaveImageRefused(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	a := withUserns(e.script(1, "head -c 3000000 /dev/urandom >/opt-big; echo x >/tmp/x; ln /opt-big /opt-again; echo ready; exec sleep 600"), 0, 0)
	idle := e.script(2, "echo ready; exec sleep 600")
	link := withUserns(e.script(3, "echo x >/tmp/x; ln /tmp/x /var/x; echo ready; exec sleep 600"), 0, 0)
	for _, a := range []engine.Allocation{a, idle, link} {
		if err := e.Start(t.Context(), a); err != nil {
			t.Fatal(err)
		}
		e.awaitOutput(a.Attempt.Primary(), "ready")
	}
	foreign := &testEngine{Engine: &Engine{}, t: t, instance: e.instance}
	tests := map[string]struct {
		e    *testEngine
		step engine.StepID
		max  int64
		want string
	}{
		"another's runtime":   {foreign, a.Attempt.Primary(), 0, "images can only be saved with Croft's own container runtime; this site uses another one"},
		"no such step":        {e, engine.StepID{Attempt: a.Attempt, N: 7}, 0, "its container is gone: what it had written outside of mounts went with it"},
		"too much":            {e, a.Attempt.Primary(), 2_900_000, "it has written more than may be saved"},
		"nothing":             {e, idle.Attempt.Primary(), 0, "it has written nothing outside of what it mounts and of /tmp and /run: there is nothing to save"},
		"a link to the lost":  {e, link.Attempt.Primary(), 0, "/var/x is a hard link to /tmp/x, which isn't kept: copy it"},
		"as much as there is": {e, a.Attempt.Primary(), 3_100_000, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			req := e.saveRequest("none:" + strings.ReplaceAll(strings.ReplaceAll(name, " ", "-"), "'", ""))
			req.Max = tt.max
			_, err := tt.e.SaveImage(t.Context(), tt.step, req, nil)
			got, never := "", new(engine.SaveError)
			if errors.As(err, &never) {
				got, err = never.Message, nil
			}
			if got != tt.want || err != nil {
				t.Errorf("%q, %v, want %q", got, err, tt.want)
			}
			if _, there, err := e.Image(t.Context(), req.Ref); there != (tt.want == "") || err != nil {
				t.Errorf("there: %v, %v", there, err)
			}
			if err := e.RemoveImage(t.Context(), req.Ref); err != nil {
				t.Error(err)
			}
		})
	}
}
