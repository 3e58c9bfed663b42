package runtimed

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// PauseRepository is the name of the sandbox's image, without its tag. It is
// made here and in no registry; image collection leaves it alone.
const PauseRepository = "croft.dev/pause"

// Import loads the images of a tar file (OCI layout or docker save) into the
// runtime.
func (r *Runtime) Import(ctx context.Context, path string) error {
	cmd := exec.CommandContext(ctx, r.bin("ctr"), "--address", r.Socket(), "--namespace", "k8s.io", "images", "import", path)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("runtimed: import %s: %w: %s", path, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// pauseName names the sandbox's image after the binary that it holds.
func (r *Runtime) pauseName() (string, error) {
	f, err := os.Open(r.cfg.InitPath)
	if err != nil {
		return "", fmt.Errorf("runtimed: croft-init: %w", err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("runtimed: croft-init: %w", err)
	}
	return PauseRepository + ":" + hex.EncodeToString(h.Sum(nil)[:6]), nil
}

// ensurePause imports the sandbox's image unless the runtime has it.
func (r *Runtime) ensurePause(ctx context.Context) error {
	ref, err := r.pauseName()
	if err != nil {
		return err
	}
	has := false
	err = r.call(func(conn *grpc.ClientConn) error {
		resp, err := runtimeapi.NewImageServiceClient(conn).ImageStatus(ctx,
			&runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: ref}})
		has = resp.GetImage() != nil
		return err
	})
	if err != nil {
		return fmt.Errorf("runtimed: %w", err)
	}
	if has {
		return nil
	}
	path := r.path("pause.tar")
	if err := writePause(r.cfg.InitPath, ref, path); err != nil {
		return err
	}
	defer os.Remove(path)
	return r.Import(ctx, path)
}

// writePause writes an image that holds nothing but croft-init to path.
func writePause(initPath, ref, path string) error {
	bin, err := os.ReadFile(initPath)
	if err != nil {
		return fmt.Errorf("runtimed: %w", err)
	}
	var layer bytes.Buffer
	tw := tar.NewWriter(&layer)
	if err := tw.WriteHeader(&tar.Header{Name: "pause", Mode: 0o755, Size: int64(len(bin))}); err != nil {
		return err
	}
	if _, err := tw.Write(bin); err != nil {
		return err
	}
	if err := tw.Close(); err != nil {
		return err
	}
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(layer.Bytes())), nil
	})
	if err != nil {
		return fmt.Errorf("runtimed: pause image: %w", err)
	}
	img, err := mutate.AppendLayers(empty.Image, l)
	if err != nil {
		return fmt.Errorf("runtimed: pause image: %w", err)
	}
	img, err = mutate.ConfigFile(img, pauseConfig(img))
	if err != nil {
		return fmt.Errorf("runtimed: pause image: %w", err)
	}
	tag, err := name.NewTag(ref, name.StrictValidation)
	if err != nil {
		return fmt.Errorf("runtimed: pause image: %w", err)
	}
	if err := tarball.WriteToFile(path, tag, img); err != nil {
		return fmt.Errorf("runtimed: pause image: %w", err)
	}
	return nil
}

func pauseConfig(img v1.Image) *v1.ConfigFile {
	cfg, err := img.ConfigFile()
	if err != nil || cfg == nil {
		cfg = &v1.ConfigFile{}
	}
	cfg = cfg.DeepCopy()
	cfg.Architecture, cfg.OS = runtime.GOARCH, "linux"
	cfg.Config.Entrypoint = []string{"/pause", "--pause"}
	return cfg
}

// call runs f with a connection to the runtime.
func (r *Runtime) call(f func(*grpc.ClientConn) error) error {
	conn, err := grpc.NewClient(r.Endpoint(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	return f(conn)
}

// ready asks the runtime whether it and its network are ready.
func (r *Runtime) ready(ctx context.Context) error {
	return r.call(func(conn *grpc.ClientConn) error {
		resp, err := runtimeapi.NewRuntimeServiceClient(conn).Status(ctx, &runtimeapi.StatusRequest{})
		if err != nil {
			return err
		}
		for _, c := range resp.GetStatus().GetConditions() {
			required := c.Type == runtimeapi.RuntimeReady || c.Type == runtimeapi.NetworkReady
			if required && !c.Status {
				return fmt.Errorf("%s: %s: %s", c.Type, c.Reason, c.Message)
			}
		}
		return nil
	})
}

func (r *Runtime) removeSandboxes(ctx context.Context) error {
	return r.call(func(conn *grpc.ClientConn) error {
		c := runtimeapi.NewRuntimeServiceClient(conn)
		list, err := c.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{})
		if err != nil {
			return err
		}
		for _, s := range list.Items {
			if _, err := c.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: s.Id}); err != nil {
				return err
			}
			if _, err := c.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: s.Id}); err != nil {
				return err
			}
		}
		return nil
	})
}
