package kube

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"croft.dev/croft/internal/engine"
)

// emptied is a namespace of a test's own, as Croft makes it.
func emptied(t *testing.T, name string) *Engine {
	t.Helper()
	e := connect(t, shared.Kubeconfig(), name, uuid.NewString(), t.TempDir())
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		must(t, e.api.CoreV1().Namespaces().Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{}))
	})
	return e
}

// How a refusal is read, in the words of the API server's own plugins.
func TestLasting(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	forbidden := func(text string) error { return apierrors.NewForbidden(pods, "croft-a-1-1", errors.New(text)) }
	for name, c := range map[string]struct {
		err     error
		lasting bool
		want    string // of what the user is told
	}{
		"Pod Security": {forbidden(`violates PodSecurity "restricted:latest": host namespaces (hostNetwork=true)`), true, `violates PodSecurity "restricted:latest": host namespaces (hostNetwork=true)`},
		"policy":       {forbidden("ValidatingAdmissionPolicy 'p' with binding 'b' denied request: not here"), true, "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: not here"},
		"webhook":      {forbidden(`admission webhook "w" denied the request: no`), true, `admission webhook "w" denied the request: no`},
		"LimitRange":   {forbidden("maximum cpu usage per Container is 1, but limit is 2"), true, "maximum cpu usage per Container is 1, but limit is 2"},
		"malformed":    {apierrors.NewBadRequest("no such field"), true, "no such field"},
		"quota":        {forbidden("exceeded quota: jobs, requested: pods=1, used: pods=1, limited: pods=1"), false, "exceeded quota: jobs, requested: pods=1, used: pods=1, limited: pods=1"},
		"right":        {forbidden(`User "system:serviceaccount:croft:croft" cannot create resource "pods" in API group "" in the namespace "croft-jobs"`), false, "Croft lacks a right there, which its log names"},
		"others":       {apierrors.NewConflict(schema.GroupResource{Resource: "resourcequotas"}, "jobs", errors.New("it was modified")), false, `Operation cannot be fulfilled on resourcequotas "jobs": it was modified`},
		"namespace":    {apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "croft-jobs"), false, `namespaces "croft-jobs" not found`},
	} {
		t.Run(name, func(t *testing.T) {
			if lasting(c.err) != c.lasting || refusal(c.err) != c.want {
				t.Errorf("lasting %t, want %t: %q", lasting(c.err), c.lasting, refusal(c.err))
			}
		})
	}
}

// What the API server refuses for what a Pod is, it refuses for ever, and what it refuses for
// how the cluster is, for now: that is told by its own words.
func TestRefusals(t *testing.T) {
	e := emptied(t, "croft-refusals")
	policed := client(t, deploy(t))
	api := e.api.CoreV1()
	dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	create := func(api kubernetes.Interface, namespace string, change func(*corev1.Pod)) func() error {
		return func() error {
			p, err := e.pod(t.Context(), job(e, 1, "true"))
			must(t, err)
			p.Namespace = namespace
			change(p)
			_, err = api.CoreV1().Pods(namespace).Create(t.Context(), p, dry)
			return err
		}
	}
	same := func(*corev1.Pod) {}
	weak, err := shared.KubeconfigFor(t.Context(), "croft-refusals", "default")
	must(t, err)

	_, err = e.api.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(t.Context(), denier(t), metav1.CreateOptions{})
	must(t, err)
	_, err = api.LimitRanges("croft-refusals").Create(t.Context(), &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Name: "small"}, Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
		Type: corev1.LimitTypeContainer, Max: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")},
	}}}}, metav1.CreateOptions{})
	must(t, err)
	_, err = api.ResourceQuotas("croft-refusals").Create(t.Context(), &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "devices"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{
		"requests.x.y/gpu": resource.MustParse("1"),
	}}}, metav1.CreateOptions{})
	must(t, err)
	ending(t, e.api)
	large := func(name corev1.ResourceName, much string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			r := &p.Spec.Containers[0].Resources
			r.Limits[name], r.Requests[name] = resource.MustParse(much), resource.MustParse(much)
			if name == corev1.ResourceCPU {
				p.Spec.Resources = nil
			}
		}
	}

	for name, c := range map[string]struct {
		try     func() error
		lasting bool
		want    string // in what the user is told
	}{
		"invalid":      {create(e.api, "croft-refusals", func(p *corev1.Pod) { p.Spec.Containers[0].Image = "" }), true, "spec.containers[0].image"},
		"Pod Security": {create(e.api, "croft-refusals", func(p *corev1.Pod) { p.Spec.HostNetwork = true }), true, `violates PodSecurity "restricted`},
		"a policy":     {create(policed, "croft-jobs", func(p *corev1.Pod) { p.Labels = nil }), true, "of which job it is"},
		"a webhook":    {create(e.api, "croft-refusals", func(p *corev1.Pod) { p.Labels["deny"] = "yes" }), true, "not on Mondays"},
		"a LimitRange": {create(e.api, "croft-refusals", large(corev1.ResourceCPU, "2")), true, "maximum cpu usage per Container is 1"},

		"a quota":             {create(e.api, "croft-refusals", large("x.y/gpu", "2")), false, "exceeded quota: devices"},
		"no right":            {create(client(t, weak), "croft-refusals", same), false, "Croft lacks a right there"},
		"no class":            {create(e.api, "croft-refusals", func(p *corev1.Pod) { p.Spec.PriorityClassName = "none" }), false, "no PriorityClass with name none"},
		"no namespace":        {create(e.api, "croft-nowhere", same), false, "croft-nowhere"},
		"an ending namespace": {create(e.api, "croft-ending", same), false, "being terminated"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			err := c.try()
			for ; err == nil || strings.Contains(err.Error(), "status unknown for quota"); err = c.try() {
				pause(ctx) // what was made for it counts a moment later
				must(t, ctx.Err())
			}
			if !isRefusal(err) || lasting(err) != c.lasting || !strings.Contains(refusal(err), c.want) {
				t.Errorf("refused %t, lasting %t, want %t: %q of %v", isRefusal(err), lasting(err), c.lasting, refusal(err), err)
			}
		})
	}
}

// denier is a webhook that denies Pods with the label deny.
func denier(t *testing.T) *registrationv1.ValidatingWebhookConfiguration {
	t.Helper()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.Request == nil {
			http.Error(w, "what?", http.StatusBadRequest)
			return
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Result: &metav1.Status{Message: "not on Mondays"}}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(review)
	}))
	t.Cleanup(s.Close)
	api := client(t, shared.Kubeconfig())
	t.Cleanup(func() {
		must(t, api.AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(context.WithoutCancel(t.Context()), "mondays", metav1.DeleteOptions{}))
	})
	return &registrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "mondays"}, Webhooks: []registrationv1.ValidatingWebhook{{
		Name: "mondays.example.com", SideEffects: ptr.To(registrationv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
		ClientConfig: registrationv1.WebhookClientConfig{
			URL: &s.URL, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}),
		},
		ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"deny": "yes"}},
		Rules: []registrationv1.RuleWithOperations{{
			Operations: []registrationv1.OperationType{registrationv1.Create}, Rule: registrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
		}},
	}}}
}

// ending makes a namespace that is being deleted as long as the test takes.
func ending(t *testing.T, api kubernetes.Interface) {
	t.Helper()
	const name = "croft-ending"
	_, err := api.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	must(t, err)
	keeps := api.CoreV1().ConfigMaps(name)
	have, err := keeps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "keeps", Finalizers: []string{"example.com/keep"}}}, metav1.CreateOptions{})
	must(t, err)
	must(t, api.CoreV1().Namespaces().Delete(t.Context(), name, metav1.DeleteOptions{}))
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		have, err = keeps.Get(ctx, "keeps", metav1.GetOptions{})
		must(t, err)
		have.Finalizers = nil
		_, err = keeps.Update(ctx, have, metav1.UpdateOptions{})
		must(t, err)
	})
}

// A quota that is used up, and a right that Croft lacks, keep a job waiting with the reason,
// and it starts when that is over.
func TestRefusedForNow(t *testing.T) {
	e := emptied(t, "croft-full")
	quotas := e.api.CoreV1().ResourceQuotas("croft-full")
	_, err := quotas.Create(t.Context(), &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "jobs"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{
		corev1.ResourcePods: resource.MustParse("1"),
	}}}, metav1.CreateOptions{})
	must(t, err)
	first, second := job(e, 1, "sh", "-c", sleep), job(e, 2, "true")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for err = e.Start(ctx, first); err != nil; err = e.Start(ctx, first) {
		if wait := new(engine.WaitError); !errors.As(err, &wait) || wait.Wait.For != engine.WaitForCluster {
			t.Fatalf("while the quota's use isn't known: %v", err)
		}
		pause(ctx)
	}
	run(t, e, first)
	err = e.Start(ctx, second)
	if wait := new(engine.WaitError); !errors.As(err, &wait) || !strings.Contains(wait.Wait.Message, "exceeded quota: jobs") {
		t.Errorf("beyond the quota: %v", err)
	}
	// A server that comes back must see what runs, whatever the quota says.
	cfg := e.cfg
	cfg.Scheduler = SchedulerNative
	again, err := New(ctx, cfg)
	must(t, err)
	must(t, again.Close())

	must(t, quotas.Delete(ctx, "jobs", metav1.DeleteOptions{}))
	for e.Start(ctx, second) != nil && ctx.Err() == nil {
		pause(ctx)
	}
	run(t, e, second)
	await(t, e, second, "ended", phase(engine.PhaseExited))

	weak, err := shared.KubeconfigFor(ctx, "croft-full", "default")
	must(t, err)
	e.api = client(t, weak)
	err = e.Start(ctx, job(e, 3, "true"))
	e.api = client(t, shared.Kubeconfig())
	if wait := new(engine.WaitError); !errors.As(err, &wait) || !strings.Contains(wait.Wait.Message, "Croft lacks a right") {
		t.Errorf("without the right: %v", err)
	}
}
