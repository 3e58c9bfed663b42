package cri

import (
	"io"
	"log"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"croft.dev/croft/internal/engine"
)

// entryImage is the tiny image with an entry point and a command of its own, in a
// registry.
func entryImage(t *testing.T) (ref string) {
	t.Helper()
	images, err := toolDir("CROFT_TEST_IMAGES", "images")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if out, err := exec.Command("tar", "-C", dir, "-xf", filepath.Join(images, "tiny.tar")).CombinedOutput(); err != nil {
		t.Fatalf("unpacking the tiny image: %v: %s", err, out)
	}
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	all, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	img, err := index.Image(all.Manifests[0].Digest)
	if err == nil {
		img, err = mutate.Config(img, v1.Config{Entrypoint: []string{"/bin/echo", "entry"}, Cmd: []string{"its", "own"}, Env: []string{"PATH=/bin"}})
	}
	if err != nil {
		t.Fatal(err)
	}
	blobs := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	s := httptest.NewServer(blobs)
	t.Cleanup(s.Close)
	push(t, blobs, "lab/entry", "1", img)
	return strings.TrimPrefix(s.URL, "http://") + "/lab/entry:1"
}

// TestEntryPoint: a command takes the place of the image's entry point and command,
// arguments only that of the latter; for the primary and for a further step.
func TestEntryPoint(t *testing.T) {
	t.Parallel()
	ref := entryImage(t)
	e := newEngine(t)
	if _, err := e.Pull(t.Context(), engine.PullRequest{Ref: ref}, nil); err != nil {
		t.Fatal(err)
	}
	host := e.script(100, "sleep 600")
	if err := e.Start(t.Context(), host); err != nil {
		t.Fatal(err)
	}
	n := 1
	for name, tc := range map[string]struct {
		command, args []string
		want          string
	}{
		"the image's own": {want: "entry its own\n"},
		"arguments":       {args: []string{"a b", "", "c"}, want: "entry a b  c\n"},
		"a command":       {command: []string{"echo", "mine"}, want: "mine\n"},
		"both":            {command: []string{"echo", "mine"}, args: []string{"too"}, want: "mine too\n"},
	} {
		n++
		t.Run(name, func(t *testing.T) {
			a := e.allocation(int64(n))
			a.Container = engine.Container{Image: ref, Command: tc.command, Args: tc.args}
			if got := e.run(a); got.stdout != tc.want || got.status.ExitCode != 0 {
				t.Errorf("the primary printed %q, %+v; want %q", got.stdout, got.status, tc.want)
			}
			s := host.Primary()
			s.N, s.Container = n, a.Container
			if err := e.StartStep(t.Context(), host, s); err != nil {
				t.Fatal(err)
			}
			if got := e.wait(t.Context(), engine.StepID{Attempt: host.Attempt, N: n}); got.stdout != tc.want {
				t.Errorf("the step printed %q, want %q", got.stdout, tc.want)
			}
		})
	}
}
