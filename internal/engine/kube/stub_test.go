package kube

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"croft.dev/croft/internal/engine"
)

// stubbed is an engine with a server of the test's in the API server's place, and node1.
func stubbed(t *testing.T, h http.HandlerFunc) *Engine {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	c := &rest.Config{Host: s.URL, QPS: -1}
	api, err := kubernetes.NewForConfig(c)
	must(t, err)
	e := &Engine{
		cfg:  Config{Instance: "3f2a9c1e", Namespace: "ns", Image: "tools:1", LogDir: t.TempDir(), LogMax: 1 << 20},
		rest: c, api: api, log: slog.New(slog.DiscardHandler), scheduler: none{},
		pods:  cache.NewSharedIndexInformer(&cache.ListWatch{}, &corev1.Pod{}, 0, cache.Indexers{}),
		nodes: cache.NewSharedIndexInformer(&cache.ListWatch{}, &corev1.Node{}, 0, cache.Indexers{}),
	}
	setNode(t, e, corev1.ConditionTrue)
	return e
}

// setNode has node1 seen as ready or not.
func setNode(t *testing.T, e *Engine, ready corev1.ConditionStatus) {
	t.Helper()
	n := node1()
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}
	must(t, e.nodes.GetStore().Add(n))
}

func node1() *corev1.Node {
	n := nodeWith(nil)
	n.Name = "node1"
	return n
}

// attemptPod is the Pod of an attempt, whose primary is in a state.
func attemptPod(t *testing.T, e *Engine, a engine.Allocation, state corev1.ContainerState) *corev1.Pod {
	t.Helper()
	p, err := e.pod(t.Context(), a)
	must(t, err)
	p.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	p.Spec.NodeName = "node1"
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: containerName(engine.PrimaryStep), State: state}}
	return p
}

func runningState() corev1.ContainerState {
	return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}
}

// answer writes an object as the API server does.
func answer(t *testing.T, w http.ResponseWriter, o any) {
	t.Helper()
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(o); err != nil {
		t.Error(err)
	}
}

// A program may have put anything in croft-init's place: who is to tell it something through
// that doesn't wait for ever.
func TestKillHangs(t *testing.T) {
	t.Parallel()
	var p *corev1.Pod
	e := stubbed(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/exec") {
			<-r.Context().Done()
			return
		}
		answer(t, w, p)
	})
	a := job(e, 1, "true")
	p = attemptPod(t, e, a, runningState())
	begun := time.Now()
	err := e.Signal(t.Context(), a.Attempt.Primary(), "TERM")
	if !engine.IsUnavailable(err) || time.Since(begun) > 2*killTimeout {
		t.Errorf("%v after %v", err, time.Since(begun))
	}
}
