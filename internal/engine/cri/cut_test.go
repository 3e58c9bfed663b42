package cri

import (
	"testing"

	snapshotsapi "github.com/containerd/containerd/api/services/snapshots/v1"
	tasksapi "github.com/containerd/containerd/api/services/tasks/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"croft.dev/croft/internal/engine"
)

// A start that is cut short while containerd makes the task leaves one that the CRI doesn't
// know of: the container that it keeps is removed all the same.
func TestTaskLeftByCutStart(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	a := e.script(1, "sleep 600")
	for name, remove := range map[string]func(container, sandbox string) error{
		"container": func(container, _ string) error {
			return e.rt.removeContainer(t.Context(), container, e.cfg.StartTimeout)
		},
		"sandbox": func(_, sandbox string) error { return e.removeSandbox(t.Context(), sandbox) },
	} {
		for _, started := range []bool{false, true} {
			sandbox, container := e.leaveTask(a, started)
			_, err := e.rt.runtime.RemoveContainer(t.Context(), &runtimeapi.RemoveContainerRequest{ContainerId: container})
			if !hasTask(err) {
				t.Fatalf("%s: without help, removing ends with %v", name, err)
			}
			if err := remove(container, sandbox); err != nil {
				t.Errorf("%s, started %v: %v", name, started, err)
			}
			if _, err := e.rt.containerStatus(t.Context(), container, false); !isNotFound(err) {
				t.Errorf("%s, started %v: afterwards %v", name, started, err)
			}
			must(t, e.Remove(t.Context(), a.Attempt))
		}
	}
}

// leaveTask makes a container that the CRI holds for one that wasn't started, with a task.
func (e *testEngine) leaveTask(a engine.Allocation, started bool) (sandbox, container string) {
	e.t.Helper()
	ctx, cfg := e.t.Context(), e.sandboxConfig(a, "")
	image, err := e.imageOf(ctx, a.Container)
	must(e.t, err)
	must(e.t, e.prepare(a))
	sandbox, err = e.ensureSandbox(ctx, a, objects{}, cfg)
	must(e.t, err)
	container, err = e.createContainer(ctx, a, a.Primary(), sandbox, cfg, image, nil)
	must(e.t, err)

	ctx = ofCRI(ctx)
	files, err := e.rt.snapshots.Mounts(ctx, &snapshotsapi.MountsRequest{Snapshotter: "overlayfs", Key: container})
	must(e.t, err)
	_, err = e.rt.tasks.Create(ctx, &tasksapi.CreateTaskRequest{ContainerID: container, Rootfs: files.GetMounts()})
	must(e.t, err)
	if started {
		_, err = e.rt.tasks.Start(ctx, &tasksapi.StartRequest{ContainerID: container})
		must(e.t, err)
	}
	return sandbox, container
}
