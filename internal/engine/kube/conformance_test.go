package kube

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http/httptest"
	"os"
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
	"github.com/google/uuid"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/engine/conformance"
	"croft.dev/croft/test/cluster"
)

// shared is the cluster of all tests of this package.
var shared struct {
	*cluster.Cluster
	registry string // host and port
}

// node is its only node.
var node *cluster.Node

func TestMain(m *testing.M) {
	os.Exit(func() int {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		defer cancel()
		c, err := cluster.Open(ctx, cluster.Config{
			Gates: map[string]bool{"PodLogsQuerySplitStreams": true, "GenericWorkload": true}, Groups: []string{"scheduling.k8s.io/v1beta1"},
		})
		defer func() {
			if err := c.Close(); err != nil {
				fmt.Fprintln(os.Stderr, "close:", err)
			}
		}()
		if err == nil {
			node, err = c.AddNode(ctx, "node1")
		}
		s := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
		defer s.Close()
		shared.Cluster, shared.registry = c, strings.TrimPrefix(s.URL, "http://")
		if err == nil {
			err = publish(ctx)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "no cluster for the tests:", err)
			return 1
		}
		flag.Parse()
		if err := flag.Set("test.parallel", atOnce); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return m.Run()
	}())
}

// atOnce is how many tests run beside each other: they mostly wait, for the kubelet.
const atOnce = "8"

// publish puts the images into the registry: tiny, and what Croft itself runs, which is that
// with croft-init.
func publish(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "croft-kube-image")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", filepath.Join(dir, "croft-init"), "croft.dev/croft/cmd/croft-init")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building croft-init: %w: %s", err, out)
	}
	archive := filepath.Join(dir, "layer.tar")
	if out, err := exec.CommandContext(ctx, "tar", "-C", dir, "--owner=0", "--group=0", "-cf", archive, "croft-init").CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	tiny, err := archived(ctx, filepath.Join(dir, "tiny"), filepath.Join(shared.Images(), "tiny.tar"))
	if err != nil {
		return err
	}
	layer, err := tarball.LayerFromFile(archive)
	if err != nil {
		return err
	}
	tools, err := mutate.AppendLayers(tiny, layer)
	if err != nil {
		return err
	}
	own, err := mutate.Config(tiny, v1.Config{Cmd: ownCommand})
	if err != nil {
		return err
	}
	for ref, img := range map[string]v1.Image{"tiny:1": tiny, "tools:1": tools, "own:1": own} {
		at, err := name.ParseReference(shared.registry + "/" + ref)
		if err != nil {
			return err
		}
		if err := remote.Write(at, img, remote.WithContext(ctx)); err != nil {
			return err
		}
	}
	return nil
}

// archived is the image of an OCI archive, which is unpacked in dir and stays there.
func archived(ctx context.Context, dir, archive string) (v1.Image, error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	if out, err := exec.CommandContext(ctx, "tar", "-C", dir, "-xf", archive).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, err
	}
	m, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	img, err := index.Image(m.Manifests[0].Digest)
	if err != nil {
		return nil, err
	}
	return img, nil
}

// open connects as an administrator of the cluster.
func open(t *testing.T, instance, logs string) *Engine {
	t.Helper()
	return connect(t, shared.Kubeconfig(), "croft-test", instance, logs)
}

// objects are any of the cluster, for an administrator.
func objects(t *testing.T) dynamic.Interface {
	t.Helper()
	c, err := clientcmd.BuildConfigFromFlags("", shared.Kubeconfig())
	must(t, err)
	out, err := dynamic.NewForConfig(c)
	must(t, err)
	return out
}

func connect(t *testing.T, kubeconfig, namespace, instance, logs string) *Engine {
	t.Helper()
	e, err := New(t.Context(), Config{
		Kubeconfig: kubeconfig, Instance: instance, Namespace: namespace, Image: shared.registry + "/tools:1",
		LogDir: logs, Logger: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestConformance runs the suite with the rights that deploy/kubernetes gives, and under the
// rules there for what may be in the namespace of jobs.
func TestConformance(t *testing.T) {
	deployed := deploy(t)
	open := func(t *testing.T, instance, logs string) *Engine {
		return connect(t, deployed, "croft-jobs", instance, logs)
	}
	conformance.Run(t, func(t *testing.T) conformance.Fixture {
		instance, logs := uuid.NewString(), t.TempDir()
		e := open(t, instance, logs)
		t.Cleanup(func() {
			if t.Failed() {
				t.Log(shared.Tail())
			}
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		})
		return conformance.Fixture{
			Engine:    e,
			Instance:  instance,
			Reconnect: func(t *testing.T) engine.Engine { return open(t, instance, logs) },
			Other: func(t *testing.T) (engine.Engine, string) {
				other := uuid.NewString()
				return open(t, other, t.TempDir()), other
			},
			ImageOK:      shared.registry + "/tiny:1",
			ImageMissing: shared.registry + "/none:1",
			Node:         "node1",
			User:         engine.User{Name: "alice", UID: 5001, GID: 6001, Home: "/tmp", Shell: "/bin/sh"},
			CPU:          50,
			Memory:       32 << 20,
			Commands:     conformance.ShellCommands(),
			NoListen:     true,
			StepsEnd:     true,
		}
	})
}
