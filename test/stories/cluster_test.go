package stories

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/rogpeppe/go-internal/testscript"

	"croft.dev/croft/test/cluster"
	"croft.dev/croft/test/site"
)

// onACluster are stories that are the same on a cluster. Of the others,
//   - books, limits, steps, ccon need devices, which this cluster hasn't,
//   - mounts, folders and packages need volumes or fake root, identity and cbatch the machine's
//     programs, storage its quotas,
//   - host is about programs on the machine, fake-root about its ids,
//   - registry needs private images, save-image the node's image store,
//   - stop has a program killed that must not see SIGTERM, which a kubelet sends.
var onACluster = []string{
	"attach", "bad-input", "billing", "course", "exit-codes", "home", "job-file", "once", "operators-mistakes", "out-of-memory", "strangers", "time-limit", "tokens", "watch-and-enter",
}

// TestOnACluster runs the stories that don't depend on a machine on a Kubernetes cluster with
// one node, with the rights that deploy/kubernetes gives.
func TestOnACluster(t *testing.T) {
	s := openOnACluster(t)
	var files []string
	for _, name := range onACluster {
		files = append(files, "../scripts/"+name+".txtar")
	}
	p := params(s, "", office{}, "")
	p.Files = files
	testscript.Run(t, p)
}

// openOnACluster sets up a cluster, and a site whose jobs are there.
func openOnACluster(t *testing.T) *site.Site {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	mirror := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(mirror.Close)
	c, err := cluster.Open(ctx, cluster.Config{
		Gates: map[string]bool{"PodLogsQuerySplitStreams": true}, Mirrors: map[string]string{"docker.io": mirror.URL},
	})
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(c.Tail())
		}
		if err := c.Close(); err != nil {
			t.Errorf("taking the cluster away: %v", err)
		}
	})
	check(err)
	const deployed = "../../deploy/kubernetes/"
	check(c.Apply(ctx, deployed+"namespaces.yaml", deployed+"rbac.yaml", deployed+"admission.yaml", deployed+"network.yaml"))
	kubeconfig, err := c.KubeconfigFor(ctx, "croft", "croft")
	check(err)
	_, err = c.AddNode(ctx, "gpu1")
	check(err)
	s, err := site.Open(ctx, site.Config{
		Name: "onkube", Users: []string{"ada", "ben", "cyn", "eve"},
		Engine: fmt.Sprintf("{kind: kube, host: {programs: true}, mirrors: {docker.io: [%q]}, kube: {kubeconfig: %s, image: \"tools:1\", claims: [{path: $SITE/home, claim: homes, here: $SITE/home}]}}", mirror.URL, kubeconfig),
		Extra:  "qos: [{name: normal, grace: 2s}]\ndefaults: {cpu: 0.1, mem: 64M, time: 10m, user_workspaces: 3}\n",
	})
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of the server's log:\n%s", s.Tail())
		}
		if err := s.Close(); err != nil {
			t.Errorf("taking the site away: %v", err)
		}
	})
	check(err)
	check(c.Share(ctx, "croft-jobs", "homes", filepath.Join(s.Dir, "home"), "ReadWriteMany"))
	publish(t, s, strings.TrimPrefix(mirror.URL, "http://"))
	check(s.Start(ctx))
	check(populate(ctx, s))
	return s
}

// publish puts the images of the stories where the cluster finds them, and tools:1, which has
// Croft's own programs.
func publish(t *testing.T, s *site.Site, host string) {
	t.Helper()
	write := func(image string, img v1.Image) {
		ref, err := name.ParseReference(host + "/library/" + image)
		if err == nil {
			err = remote.Write(ref, img)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	tiny := archived(t, filepath.Join(s.Images(), "tiny.tar"))
	write("tiny:1", tiny)
	write("train:1", archived(t, filepath.Join(s.Images(), "train.tar")))
	programs := filepath.Join(t.TempDir(), "programs.tar")
	if out, err := exec.Command("tar", "-C", s.Bin(), "--owner=0", "--group=0", "-cf", programs, "croft", "croft-init").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	layer, err := tarball.LayerFromFile(programs)
	if err != nil {
		t.Fatal(err)
	}
	tools, err := mutate.AppendLayers(tiny, layer)
	if err != nil {
		t.Fatal(err)
	}
	write("tools:1", tools)
}

// archived is the only image of an OCI archive.
func archived(t *testing.T, path string) v1.Image {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.Command("tar", "-C", dir, "-xf", path).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	m, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	img, err := index.Image(m.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	return img
}
