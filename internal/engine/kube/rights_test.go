package kube

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
)

// deployed is how Croft reaches the cluster after deploy, and why it doesn't.
var deployed = sync.OnceValues(func() (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	const dir = "../../../deploy/kubernetes/"
	if err := shared.Apply(ctx, dir+"namespaces.yaml", dir+"rbac.yaml", dir+"sight.yaml", dir+"kueue.yaml", dir+"volcano.yaml", dir+"native.yaml", dir+"admission.yaml", dir+"network.yaml"); err != nil {
		return "", err
	}
	return shared.KubeconfigFor(ctx, "croft", "croft")
})

// deploy installs what deploy/kubernetes has, once, and returns the kubeconfig of the service
// account that is there for Croft.
func deploy(t *testing.T) string {
	t.Helper()
	path, err := deployed()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func client(t *testing.T, kubeconfig string) kubernetes.Interface {
	t.Helper()
	c, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	must(t, err)
	api, err := kubernetes.NewForConfig(c)
	must(t, err)
	return api
}

// TestRights: Croft has no more rights than it needs. That they are enough is shown by
// TestConformance.
func TestRights(t *testing.T) {
	api := client(t, deploy(t))
	ctx := t.Context()
	_, err := client(t, shared.Kubeconfig()).CoreV1().Secrets("default").Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "others"}}, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() {
		must(t, client(t, shared.Kubeconfig()).CoreV1().Secrets("default").Delete(context.WithoutCancel(ctx), "others", metav1.DeleteOptions{}))
	})
	for what, try := range map[string]func() error{
		"list all secrets": func() error { _, err := api.CoreV1().Secrets("").List(ctx, metav1.ListOptions{}); return err },
		"read another's secret": func() error {
			_, err := api.CoreV1().Secrets("default").Get(ctx, "others", metav1.GetOptions{})
			return err
		},
		"list secrets of jobs": func() error {
			_, err := api.CoreV1().Secrets("croft-jobs").List(ctx, metav1.ListOptions{})
			return err
		},
		"change a foreign service": func() error {
			_, err := api.CoreV1().Services("default").Patch(ctx, "kubernetes", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{})
			return err
		},
		"release a foreign claim": func() error {
			return api.ResourceV1().ResourceClaims("default").Delete(ctx, "a", metav1.DeleteOptions{})
		},
		"make a foreign pod": func() error {
			_, err := api.CoreV1().Pods("default").Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{})
			return err
		},
		"delete a foreign pod": func() error { return api.CoreV1().Pods("kube-system").Delete(ctx, "a", metav1.DeleteOptions{}) },
		"change a node": func() error {
			_, err := api.CoreV1().Nodes().Patch(ctx, "node1", types.MergePatchType, []byte(`{"spec": {"unschedulable": true}}`), metav1.PatchOptions{})
			return err
		},
		"act as a kubelet": func() error {
			return api.CoreV1().RESTClient().Get().AbsPath("/api/v1/nodes/node1/proxy/pods").Do(ctx).Error()
		},
		"read a node": func() error { _, err := api.CoreV1().Nodes().Get(ctx, "node1", metav1.GetOptions{}); return err },
		"read one's devices": func() error {
			_, err := api.ResourceV1().ResourceSlices().Get(ctx, "a", metav1.GetOptions{})
			return err
		},
		"read a device class": func() error {
			_, err := api.ResourceV1().DeviceClasses().Get(ctx, "a", metav1.GetOptions{})
			return err
		},
		"read a claim": func() error {
			_, err := api.ResourceV1().ResourceClaims("croft-jobs").Get(ctx, "a", metav1.GetOptions{})
			return err
		},
		"make a namespace": func() error {
			_, err := api.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "mine"}}, metav1.CreateOptions{})
			return err
		},
		"make a claim": func() error {
			_, err := api.CoreV1().PersistentVolumeClaims("croft-jobs").Create(ctx, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "mine"}}, metav1.CreateOptions{})
			return err
		},
		"get a token": func() error {
			return api.CoreV1().RESTClient().Post().AbsPath("/api/v1/namespaces/croft-jobs/serviceaccounts/default/token").Do(ctx).Error()
		},
		"give itself more": func() error {
			_, err := api.RbacV1().Roles("croft-jobs").Create(ctx, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "more"}}, metav1.CreateOptions{})
			return err
		},
	} {
		if err := try(); !apierrors.IsForbidden(err) {
			t.Errorf("Croft may %s: %v", what, err)
		}
	}
	// What the other suites need that run as an administrator.
	for _, may := range []authorizationv1.ResourceAttributes{
		{Verb: "create", Group: "resource.k8s.io", Resource: "resourceclaims", Namespace: "croft-jobs"},
		{Verb: "watch", Group: "resource.k8s.io", Resource: "resourceclaims"}, {Verb: "watch", Group: "resource.k8s.io", Resource: "resourceslices"},
		{Verb: "watch", Group: "resource.k8s.io", Resource: "deviceclasses"}, {Verb: "watch", Resource: "pods"},
	} {
		r, err := api.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &may},
		}, metav1.CreateOptions{})
		must(t, err)
		if !r.Status.Allowed {
			t.Errorf("Croft may not %s %s", may.Verb, may.Resource)
		}
	}
}

// TestAdmission: nothing is in the namespace of jobs but Pods that Croft has made and that
// have nothing of a node, whatever Croft itself would ask for.
func TestAdmission(t *testing.T) {
	e := connect(t, deploy(t), "croft-jobs", uuid.NewString(), t.TempDir())
	t.Cleanup(func() { must(t, e.Close()) })
	a := job(e, 1, "true")
	good, err := e.pod(t.Context(), a)
	must(t, err)
	croft, admin := e.api, client(t, shared.Kubeconfig())
	// Pod Security would refuse most of it by itself: what is left without it is the policy's.
	_, err = admin.CoreV1().Namespaces().Patch(t.Context(), "croft-jobs", types.MergePatchType,
		[]byte(`{"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}}`), metav1.PatchOptions{})
	must(t, err)
	t.Cleanup(func() {
		_, err := admin.CoreV1().Namespaces().Patch(context.Background(), "croft-jobs", types.MergePatchType,
			[]byte(`{"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}`), metav1.PatchOptions{})
		must(t, err)
	})
	create := func(api kubernetes.Interface, change func(*corev1.Pod)) error {
		p := good.DeepCopy()
		change(p)
		_, err := api.CoreV1().Pods("croft-jobs").Create(t.Context(), p, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	// a policy counts a moment after it was made
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for ; create(admin, func(*corev1.Pod) {}) == nil; pause(ctx) {
		must(t, ctx.Err())
	}
	must(t, create(croft, func(*corev1.Pod) {}))
	for name, test := range map[string]struct {
		api    kubernetes.Interface
		change func(*corev1.Pod)
		want   string
	}{
		"somebody else's": {admin, func(*corev1.Pod) {}, "only Croft makes Pods"},
		"no labels":       {croft, func(p *corev1.Pod) { p.Labels = nil }, "of which job it is"},
		"a node's files": {croft, func(p *corev1.Pod) {
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "h", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}})
		}, "nothing of a node's file system"},
		"another's secrets": {croft, func(p *corev1.Pod) {
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "s", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s"}}})
		}, "no volumes but those that Croft makes"},
		"root": {croft, func(p *corev1.Pod) {
			p.Spec.SecurityContext.RunAsUser, p.Spec.SecurityContext.RunAsNonRoot = ptr.To(int64(0)), nil
		}, "nobody runs as root"},
		"root within": {croft, func(p *corev1.Pod) { p.Spec.Containers[0].SecurityContext.RunAsUser = ptr.To(int64(0)) }, "nobody runs as root"},
		"a capability": {croft, func(p *corev1.Pod) {
			p.Spec.Containers[0].SecurityContext.Capabilities.Add = []corev1.Capability{"NET_ADMIN"}
		}, "no privileges"},
		"somebody's claim": {croft, func(p *corev1.Pod) {
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "c", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "database"}}})
		}, "only claims that are for jobs"},
		"a node's network":   {croft, func(p *corev1.Pod) { p.Spec.HostNetwork = true }, "none of a node's namespaces"},
		"a node's processes": {croft, func(p *corev1.Pod) { p.Spec.HostPID, p.Spec.ShareProcessNamespace = true, nil }, "none of a node's namespaces"},
		"privileged": {croft, func(p *corev1.Pod) {
			p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: ptr.To(true)}
		}, "no privileges"},
		"privileged before": {croft, func(p *corev1.Pod) { p.Spec.InitContainers[0].SecurityContext = nil }, "no privileges"},
		"a token":           {croft, func(p *corev1.Pod) { p.Spec.AutomountServiceAccountToken = nil }, "isn't known to the cluster"},
	} {
		if err := create(test.api, test.change); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want it refused since %q", name, err, test.want)
		}
	}

	// Once it is there it stays what it is, and others may note on it what is theirs.
	a.Node = "nowhere"
	run(t, e, a)
	pods := admin.CoreV1().Pods("croft-jobs")
	for name, test := range map[string]struct{ patch, want string }{
		"another image":        {`{"spec": {"containers": [{"name": "primary", "image": "example.com/miner:1"}]}}`, "image stays as it is"},
		"another image before": {`{"spec": {"initContainers": [{"name": "croft", "image": "example.com/miner:1"}]}}`, "image stays as it is"},
		"another job":          {`{"metadata": {"labels": {"croft.dev/job": "2"}}}`, "of its job stays as it is"},
		"no job":               {`{"metadata": {"labels": {"croft.dev/job": null}}}`, "of its job stays as it is"},
		"open to others":       {`{"metadata": {"labels": {"croft.dev/closed": "true"}}}`, "of its job stays as it is"},
		"another's account":    {`{"metadata": {"annotations": {"croft.dev/account": "theirs"}}}`, "of its job stays as it is"},
		"no account":           {`{"metadata": {"annotations": {"croft.dev/account": null}}}`, "of its job stays as it is"},
		"notes":                {`{"metadata": {"labels": {"team": "blue"}, "annotations": {"note": "x"}}}`, ""},
	} {
		change := func() error {
			_, err := pods.Patch(t.Context(), podName(a.Attempt), types.StrategicMergePatchType, []byte(test.patch), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		}
		err := change()
		for ; test.want != "" && err == nil && ctx.Err() == nil; err = change() {
			pause(ctx)
		}
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want it refused since %q", name, err, test.want)
		}
	}
}
