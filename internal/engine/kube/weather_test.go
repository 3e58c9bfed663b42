package kube

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"

	"croft.dev/croft/internal/engine"
)

// front stands between an engine and the API server, and has moods.
type front struct {
	mu      sync.Mutex
	busy    map[string]int // of a method: how many times more it answers 429
	refused int            // how often it has
	expired bool           // watches are told that what they ask from is too old, once each
	watches map[context.Context]context.CancelFunc
	told    int
}

// behind is an engine that reaches the API server by f.
func behind(t *testing.T, f *front) *Engine {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", shared.Kubeconfig())
	must(t, err)
	transport, err := rest.TransportFor(config)
	must(t, err)
	target, err := url.Parse(config.Host)
	must(t, err)
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.Transport, proxy.FlushInterval = transport, -1
	f.busy, f.watches = map[string]int{}, map[context.Context]context.CancelFunc{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f.refuses(w, r) {
			return
		}
		if r.URL.Query().Get("watch") != "" {
			ctx, cancel := context.WithCancel(r.Context())
			defer cancel()
			f.mu.Lock()
			f.watches[ctx] = cancel
			f.mu.Unlock()
			r = r.WithContext(ctx)
		}
		defer func() { _ = recover() }() // a watch that is cut off
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, os.WriteFile(file, fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q}}]
users: [{name: u, user: {}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
current-context: c
`, s.URL), 0o600))
	e, err := New(t.Context(), Config{Kubeconfig: file, Instance: uuid.NewString(), Namespace: "croft-test", Image: shared.registry + "/tools:1", LogDir: t.TempDir()})
	must(t, err)
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// refuses answers in the API server's place, if f is in the mood.
func (f *front) refuses(w http.ResponseWriter, r *http.Request) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.busy[r.Method] > 0:
		f.busy[r.Method]--
		f.refused++
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
		return true
	case f.expired && r.URL.Query().Get("watch") != "" && f.told < 2:
		f.told++
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusGone)
		_, _ = w.Write([]byte(`{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Expired", "code": 410, "message": "too old resource version"}`))
		return true
	}
	return false
}

// The API server has too much to do: everything comes to pass, later.
func TestBusyAPIServer(t *testing.T) {
	f := &front{}
	e := behind(t, f)
	f.mu.Lock()
	f.busy[http.MethodPost], f.busy[http.MethodGet], f.busy[http.MethodDelete] = 2, 2, 1
	f.mu.Unlock()
	a := job(e, 1, "true")
	run(t, e, a)
	if s := await(t, e, a, "ended", phase(engine.PhaseExited)); s.ExitCode != 0 {
		t.Errorf("%+v", s)
	}
	must(t, e.Stop(t.Context(), a.Attempt))
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refused != 5 {
		t.Errorf("refused %d times", f.refused)
	}
}

// What a watch asks from is too old for the API server by the time it asks again: what has
// happened meanwhile is seen all the same.
func TestWatchExpires(t *testing.T) {
	f := &front{}
	e := behind(t, f)
	a := job(e, 1, "sh", "-c", sleep)
	run(t, e, a)
	await(t, e, a, "running", phase(engine.PhaseRunning))
	events, err := e.Watch(t.Context())
	must(t, err)
	f.mu.Lock()
	f.expired = true
	for _, cut := range f.watches {
		cut()
	}
	f.mu.Unlock()
	must(t, e.Signal(t.Context(), a.Attempt.Primary(), "TERM"))
	late := time.After(time.Minute)
	for {
		select {
		case s := <-events:
			if s.Phase != engine.PhaseExited {
				continue
			}
		case <-late:
			t.Error("its end isn't seen")
		}
		break
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.told == 0 {
		t.Error("no watch was told that it is too late")
	}
}

// A webhook that everything has to pass is down: nothing is refused by that, it only takes
// until it is back.
func TestWebhookIsDown(t *testing.T) {
	e := knowing(t)
	hooks := e.api.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	_, err := hooks.Create(t.Context(), &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "down"}, Webhooks: []admissionv1.ValidatingWebhook{{
		Name: "down.example.com", FailurePolicy: ptr.To(admissionv1.Fail), SideEffects: ptr.To(admissionv1.SideEffectClassNone),
		AdmissionReviewVersions: []string{"v1"}, TimeoutSeconds: ptr.To(int32(1)), ClientConfig: admissionv1.WebhookClientConfig{URL: ptr.To("https://127.0.0.1:1/")},
		ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{labelInstance: e.cfg.Instance}},
		Rules:          []admissionv1.RuleWithOperations{{Operations: []admissionv1.OperationType{admissionv1.Create}, Rule: admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}}}},
	}}}, metav1.CreateOptions{})
	must(t, err)
	remove := func() { _ = hooks.Delete(context.WithoutCancel(t.Context()), "down", metav1.DeleteOptions{}) }
	t.Cleanup(remove)
	a := job(e, 1, "true")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for err = e.Start(ctx, a); err == nil && ctx.Err() == nil; err = e.Start(ctx, a) {
		// the API server learns of the webhook a little later
		must(t, e.Stop(ctx, a.Attempt))
		for e.Remove(ctx, a.Attempt) != nil && ctx.Err() == nil {
			pause(ctx)
		}
	}
	if !engine.IsUnavailable(err) {
		t.Errorf("Start: %v", err)
	}
	remove()
	for e.Start(ctx, a) != nil && ctx.Err() == nil {
		pause(ctx)
	}
	run(t, e, a)
	await(t, e, a, "ended", phase(engine.PhaseExited))
}
