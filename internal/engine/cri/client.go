package cri

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	containersapi "github.com/containerd/containerd/api/services/containers/v1"
	contentapi "github.com/containerd/containerd/api/services/content/v1"
	diffapi "github.com/containerd/containerd/api/services/diff/v1"
	imagesapi "github.com/containerd/containerd/api/services/images/v1"
	leasesapi "github.com/containerd/containerd/api/services/leases/v1"
	snapshotsapi "github.com/containerd/containerd/api/services/snapshots/v1"
	tasksapi "github.com/containerd/containerd/api/services/tasks/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"croft.dev/croft/internal/engine"
)

// client is the connection to the runtime: its calls have deadlines, and their
// errors say whether the runtime answered at all.
type client struct {
	conn    *grpc.ClientConn
	runtime runtimeapi.RuntimeServiceClient
	image   runtimeapi.ImageServiceClient
	content contentapi.ContentClient
	timeout time.Duration

	// containerd's own, which it has besides the CRI
	objects   containersapi.ContainersClient
	snapshots snapshotsapi.SnapshotsClient
	diff      diffapi.DiffClient
	named     imagesapi.ImagesClient
	leases    leasesapi.LeasesClient
	tasks     tasksapi.TasksClient
}

func dial(endpoint string, timeout time.Duration) (*client, error) {
	if !strings.HasPrefix(endpoint, "unix://") {
		return nil, fmt.Errorf("cri: endpoint %q is no unix:// socket", endpoint)
	}
	conn, err := grpc.NewClient(endpoint,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithNoProxy(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(32<<20)),
		// A runtime that restarts is back within a second; the default would
		// grow to minutes.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
			MinConnectTimeout: 2 * time.Second,
		}))
	if err != nil {
		return nil, fmt.Errorf("cri: %w", err)
	}
	return &client{
		conn:    conn,
		runtime: runtimeapi.NewRuntimeServiceClient(conn),
		image:   runtimeapi.NewImageServiceClient(conn),
		content: contentapi.NewContentClient(conn),
		timeout: timeout,

		objects:   containersapi.NewContainersClient(conn),
		snapshots: snapshotsapi.NewSnapshotsClient(conn),
		diff:      diffapi.NewDiffClient(conn),
		named:     imagesapi.NewImagesClient(conn),
		leases:    leasesapi.NewLeasesClient(conn),
		tasks:     tasksapi.NewTasksClient(conn),
	}, nil
}

func (c *client) close() error { return c.conn.Close() }

// call runs one request within d and classifies its error: the caller's own
// context's, "unavailable" when the runtime gave no answer, or the answer.
func call[T any](ctx context.Context, d time.Duration, f func(context.Context) (T, error)) (T, error) {
	var zero T
	if err := ctx.Err(); err != nil {
		return zero, err
	}
	inner, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	r, err := f(inner)
	if err == nil {
		return r, nil
	}
	if ctx.Err() != nil {
		return zero, ctx.Err()
	}
	return zero, classify(err)
}

func classify(err error) error {
	switch status.Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.ResourceExhausted, codes.Aborted:
		return &engine.UnavailableError{Cause: err}
	}
	return err
}

// ask is call with the deadline for questions.
func ask[T any](ctx context.Context, c *client, f func(context.Context) (T, error)) (T, error) {
	return call(ctx, c.timeout, f)
}

// ofCRI is the context of what is asked of containerd itself about the CRI's objects.
func ofCRI(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "containerd-namespace", "k8s.io")
}

func isNotFound(err error) bool { return status.Code(err) == codes.NotFound }

func (c *client) version(ctx context.Context) (*runtimeapi.VersionResponse, error) {
	r, err := ask(ctx, c, func(ctx context.Context) (*runtimeapi.VersionResponse, error) {
		return c.runtime.Version(ctx, &runtimeapi.VersionRequest{})
	})
	if status.Code(err) == codes.Unimplemented {
		return nil, errors.New("cri: the runtime doesn't offer CRI v1 (containerd: is the cri plugin disabled?)")
	}
	return r, err
}

func (c *client) status(ctx context.Context) (*runtimeapi.StatusResponse, error) {
	return ask(ctx, c, func(ctx context.Context) (*runtimeapi.StatusResponse, error) {
		return c.runtime.Status(ctx, &runtimeapi.StatusRequest{})
	})
}

// systemdCgroups asks for the cgroup driver. A runtime too old to know the
// question is taken to use plain files.
func (c *client) systemdCgroups(ctx context.Context) (bool, error) {
	r, err := ask(ctx, c, func(ctx context.Context) (*runtimeapi.RuntimeConfigResponse, error) {
		return c.runtime.RuntimeConfig(ctx, &runtimeapi.RuntimeConfigRequest{})
	})
	if status.Code(err) == codes.Unimplemented {
		return false, nil
	}
	return r.GetLinux().GetCgroupDriver() == runtimeapi.CgroupDriver_SYSTEMD && err == nil, err
}

func (c *client) sandboxes(ctx context.Context, labels map[string]string) ([]*runtimeapi.PodSandbox, error) {
	r, err := ask(ctx, c, func(ctx context.Context) (*runtimeapi.ListPodSandboxResponse, error) {
		return c.runtime.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{
			Filter: &runtimeapi.PodSandboxFilter{LabelSelector: labels}})
	})
	return r.GetItems(), err
}

func (c *client) containers(ctx context.Context, labels map[string]string) ([]*runtimeapi.Container, error) {
	r, err := ask(ctx, c, func(ctx context.Context) (*runtimeapi.ListContainersResponse, error) {
		return c.runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{
			Filter: &runtimeapi.ContainerFilter{LabelSelector: labels}})
	})
	return r.GetContainers(), err
}

func (c *client) containerStatus(ctx context.Context, id string, verbose bool) (*runtimeapi.ContainerStatusResponse, error) {
	return ask(ctx, c, func(ctx context.Context) (*runtimeapi.ContainerStatusResponse, error) {
		return c.runtime.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: id, Verbose: verbose})
	})
}

// pid returns the process id of the container's first process, which is in the
// verbose part of its status (containerd and CRI-O both give it), or 0.
func (c *client) pid(ctx context.Context, id string) (int, error) {
	r, err := c.containerStatus(ctx, id, true)
	if err != nil {
		return 0, err
	}
	var info struct {
		PID int `json:"pid"`
	}
	if err := json.Unmarshal([]byte(r.GetInfo()["info"]), &info); err != nil {
		return 0, nil
	}
	return info.PID, nil
}
