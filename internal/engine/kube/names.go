package kube

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"croft.dev/croft/internal/engine"
)

// Labels select; annotations say what labels can't.
const (
	labelInstance = "croft.dev/instance"
	labelAttempt  = "croft.dev/attempt"
	labelJob      = "croft.dev/job"
	labelGang     = "croft.dev/gang" // of several Pods that are one attempt of a job
	labelManager  = "app.kubernetes.io/managed-by"
	// labelClosed is on Pods into which nobody may come from outside; the policies of the
	// namespace's network say so of it.
	labelClosed = "croft.dev/closed"

	annotationN       = "croft.dev/n"
	annotationAccount = "croft.dev/account"
	annotationDigest  = "croft.dev/spec-digest"
	annotationDevices = "croft.dev/devices" // Croft's names of those that the attempt has

	// finalizer keeps a Pod until Croft has seen how it ended.
	finalizer = "croft.dev/attempt"

	manager = "croft"
)

// podName is the name of an attempt's Pod.
func podName(id engine.AttemptID) string { return "croft-" + string(id) }

// containerName is unique in its Pod.
func containerName(n int) string {
	if n == engine.PrimaryStep {
		return "primary"
	}
	return "step-" + strconv.Itoa(n)
}

// stepOf is the number of the step that a container is of; ok is false for others'.
func stepOf(container string) (n int, ok bool) {
	if container == "primary" {
		return engine.PrimaryStep, true
	}
	if len(container) < len("step-1") || container[:len("step-")] != "step-" {
		return 0, false
	}
	n, err := strconv.Atoi(container[len("step-"):])
	return n, err == nil && n > engine.PrimaryStep
}

// identity are the labels and annotations of an attempt's objects.
func identity(a engine.Allocation) (labels, annotations map[string]string) {
	labels = map[string]string{
		labelInstance: a.Instance, labelAttempt: string(a.Attempt), labelJob: strconv.FormatInt(a.Job, 10), labelManager: manager,
	}
	if a.Pod.Closed {
		labels[labelClosed] = "true"
	}
	annotations = map[string]string{
		annotationN: strconv.Itoa(a.N), annotationAccount: a.Account, annotationDigest: a.SpecDigest,
	}
	return labels, annotations
}

// own reports whether an object is this instance's, by all that makes it so: anybody can give
// his own the same labels, elsewhere or by another name.
func (c Config) own(o metav1.Object) bool {
	l := o.GetLabels()
	return o.GetNamespace() == c.Namespace && l[labelInstance] == c.Instance && o.GetName() == podName(engine.AttemptID(l[labelAttempt]))
}

// statusOf is what a Pod's labels say of each of its steps. Labels that aren't as this
// package writes them make ok false, and so does a name that isn't the attempt's: the Pod is
// somebody else's. So does that it was let go, and is only kept by others, as Kueue.
func statusOf(p *corev1.Pod) (s engine.Status, ok bool) {
	attempt := engine.AttemptID(p.Labels[labelAttempt])
	job, err := strconv.ParseInt(p.Labels[labelJob], 10, 64)
	released := p.DeletionTimestamp != nil && !slices.Contains(p.Finalizers, finalizer)
	if err != nil || attempt == "" || p.Name != podName(attempt) || released {
		return engine.Status{}, false
	}
	n, err := strconv.Atoi(p.Annotations[annotationN])
	if err != nil {
		return engine.Status{}, false
	}
	return engine.Status{
		Attempt: attempt, Instance: p.Labels[labelInstance], Job: job, N: n,
		Account: p.Annotations[annotationAccount], SpecDigest: p.Annotations[annotationDigest], Node: p.Spec.NodeName,
	}, true
}
