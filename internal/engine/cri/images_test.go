package cri

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"croft.dev/croft/internal/engine"
)

const registryPassword = "s3cret-of-the-registry"

// privateRegistry is a registry with basic authentication that holds one image
// of a few MiB, handed out slowly enough to see progress.
func privateRegistry(t *testing.T) (ref string) {
	t.Helper()
	blobs := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, pass, _ := r.BasicAuth(); user != "alice" || pass != registryPassword {
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			http.Error(w, `{"errors":[{"code":"UNAUTHORIZED","message":"authentication required"}]}`, http.StatusUnauthorized)
			return
		}
		if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/blobs/") {
			w = slowWriter{w}
		}
		blobs.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	img, err := random.Image(4<<20, 1)
	if err == nil {
		img, err = mutate.Config(img, v1.Config{User: "app", Cmd: []string{"/x"}, Labels: map[string]string{"a": "b"}})
	}
	if err != nil {
		t.Fatal(err)
	}
	push(t, blobs, "lab/big", "1", img)
	return strings.TrimPrefix(s.URL, "http://") + "/lab/big:1"
}

// push uploads an image by the registry's own handler, past the credentials.
func push(t *testing.T, h http.Handler, repository, tag string, img v1.Image) {
	t.Helper()
	put := func(method, path, mediaType string, body []byte) {
		t.Helper()
		r := httptest.NewRequest(method, "/v2/"+repository+path, bytes.NewReader(body))
		r.Header.Set("Content-Type", mediaType)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != http.StatusCreated {
			t.Fatalf("%s %s: %d %s", method, path, w.Code, w.Body)
		}
	}
	blob := func(body []byte) {
		t.Helper()
		put(http.MethodPost, fmt.Sprintf("/blobs/uploads/?digest=sha256:%x", sha256.Sum256(body)), "application/octet-stream", body)
	}
	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range layers {
		rc, err := l.Compressed()
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(rc)
		if err != nil {
			t.Fatal(err)
		}
		blob(body)
	}
	config, err := img.RawConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	blob(config)
	manifest, err := img.RawManifest()
	if err != nil {
		t.Fatal(err)
	}
	mediaType, err := img.MediaType()
	if err != nil {
		t.Fatal(err)
	}
	put(http.MethodPut, "/manifests/"+tag, string(mediaType), manifest)
}

// slowWriter takes about a second for 4 MiB.
type slowWriter struct{ http.ResponseWriter }

func (s slowWriter) Write(p []byte) (int, error) {
	for done := 0; done < len(p); {
		n, err := s.ResponseWriter.Write(p[done:min(len(p), done+(64<<10))])
		done += n
		if err != nil {
			return done, err
		}
		<-time.After(15 * time.Millisecond)
	}
	return len(p), nil
}

// TestPullAndCollect pulls from a registry that wants credentials, and collects
// the image again when it is the one that nobody needs.
func TestPullAndCollect(t *testing.T) {
	ref := privateRegistry(t)
	e := newEngine(t, func(c *Config) { c.Images = ImagePolicy{High: 1, Low: 1} })

	var denied *engine.PullError
	if _, err := e.Pull(t.Context(), engine.PullRequest{Ref: ref, Username: "alice", Password: "wrong"}, nil); !errors.As(err, &denied) || !denied.Denied {
		t.Fatalf("Pull with a wrong password: %v", err)
	}
	var seen []engine.Progress
	img, err := e.Pull(t.Context(), engine.PullRequest{Ref: ref, Username: "alice", Password: registryPassword},
		func(p engine.Progress) { seen = append(seen, p) })
	if err != nil {
		t.Fatal(err)
	}
	if img.Ref != ref || img.User != "app" || img.Labels["a"] != "b" || img.Size < 4<<20 {
		t.Errorf("image %+v", img)
	}
	if len(seen) == 0 || seen[len(seen)-1].Total < 4<<20 {
		t.Errorf("progress %+v", seen)
	}
	for i, p := range seen {
		if p.Done > p.Total || i > 0 && p.Done < seen[i-1].Done {
			t.Errorf("progress goes wrong at %d: %+v", i, seen)
		}
	}

	// Just pulled, it is kept; unused for long, it goes; what is named stays.
	e.collect("tiny:1")
	e.wantImage(ref, true)
	old := time.Now().Add(-2 * recentUse)
	if err := os.Chtimes(e.usedFile(img.ID), old, old); err != nil {
		t.Fatal(err)
	}
	e.collect("tiny:1", ref)
	e.wantImage(ref, true)
	e.collect("tiny:1")
	e.wantImage(ref, false)
	e.wantImage("tiny:1", true)
	// A new sandbox shows that its image was left alone.
	if got := e.run(e.allocation(1, "true")); got.status.ExitCode != 0 {
		t.Errorf("after collection: %+v", got.status)
	}
}

func (e *testEngine) collect(keep ...string) {
	e.t.Helper()
	if err := e.Maintain(e.t.Context(), keep...); err != nil {
		e.t.Fatal(err)
	}
}

func (e *testEngine) wantImage(ref string, want bool) {
	e.t.Helper()
	if _, ok, err := e.Image(e.t.Context(), ref); err != nil || ok != want {
		e.t.Errorf("image %s: there %v, error %v; want %v", ref, ok, err, want)
	}
}

// TestKubeletRefused finds a pod as a kubelet makes them.
func TestKubeletRefused(t *testing.T) {
	e := newEngine(t)
	r, err := e.rt.runtime.RunPodSandbox(t.Context(), &runtimeapi.RunPodSandboxRequest{Config: &runtimeapi.PodSandboxConfig{
		Metadata:    &runtimeapi.PodSandboxMetadata{Name: "web", Namespace: "prod", Uid: "u1"},
		Labels:      map[string]string{"io.kubernetes.pod.uid": "u1", "io.kubernetes.pod.name": "web"},
		Annotations: map[string]string{"kubernetes.io/config.source": "api"},
		Linux:       &runtimeapi.LinuxPodSandboxConfig{CgroupParent: "/" + e.cfg.CgroupParent},
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := e.removeSandbox(t.Context(), r.GetPodSandboxId()); err != nil {
			t.Error(err)
		}
	}()
	if got, err := New(t.Context(), e.cfg); err == nil {
		got.Close()
		t.Fatal("New on a kubelet's runtime: no error")
	} else if !strings.Contains(err.Error(), "prod/web") {
		t.Errorf("error %v doesn't say by what it knows", err)
	}
}
