package kube

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/engine/record"
)

var attemptName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,50}$`)

// Start implements engine.Engine. The Pod's name is the attempt's: it can't be made twice.
func (e *Engine) Start(ctx context.Context, a engine.Allocation) error {
	if err := check(a, a.Primary()); err != nil {
		return err
	}
	p, err := e.pod(ctx, a)
	if err != nil {
		return err
	}
	e.scheduler.bind(a, p)
	if err := fits(p, p.Spec.Containers[0]); err != nil {
		return err
	}
	claim, err := e.claim(ctx, a)
	if err != nil {
		return err
	}
	made, err := ask(ctx, func(ctx context.Context) (*corev1.Pod, error) {
		return e.api.CoreV1().Pods(p.Namespace).Create(ctx, p, metav1.CreateOptions{})
	})
	if isRefusal(err) {
		made, err = e.already(ctx, a, err)
	}
	if err != nil {
		return e.refused(a.Attempt, "its Pod", err)
	}
	if err := e.claimFor(ctx, made, claim); err != nil {
		return err
	}
	return e.ensureBeside(ctx, a, made)
}

// already is the Pod of an attempt that is refused, if it is there. Then the refusal says so or
// something else: a quota may be used up by that very Pod.
func (e *Engine) already(ctx context.Context, a engine.Allocation, refused error) (*corev1.Pod, error) {
	p, err := e.left(ctx, a.Attempt)
	switch {
	case err != nil:
		return nil, err
	case p != nil && p.Annotations[annotationDigest] == a.SpecDigest:
		return p, nil
	case p != nil || apierrors.IsAlreadyExists(refused):
		return nil, &engine.StartError{Message: "a Pod of this attempt's name is there, which Croft hasn't made of it"}
	}
	return nil, refused
}

// get is an attempt's Pod. A *NotFoundError says that there is none of this instance.
func (e *Engine) get(ctx context.Context, id engine.AttemptID) (*corev1.Pod, error) {
	if !attemptName.MatchString(string(id)) {
		return nil, &engine.NotFoundError{Attempt: id}
	}
	p, err := ask(ctx, func(ctx context.Context) (*corev1.Pod, error) {
		return e.api.CoreV1().Pods(e.cfg.Namespace).Get(ctx, podName(id), metav1.GetOptions{})
	})
	if apierrors.IsNotFound(err) || err == nil && (p.Labels[labelInstance] != e.cfg.Instance || p.Labels[labelAttempt] != string(id)) {
		return nil, &engine.NotFoundError{Attempt: id}
	}
	return p, err
}

// left is an attempt's Pod, nil if there is none any more.
func (e *Engine) left(ctx context.Context, id engine.AttemptID) (*corev1.Pod, error) {
	p, err := e.get(ctx, id)
	if none := new(engine.NotFoundError); errors.As(err, &none) {
		return nil, nil
	}
	return p, err
}

// find is a step's Pod and what is known of the step.
func (e *Engine) find(ctx context.Context, id engine.StepID) (*corev1.Pod, engine.Status, error) {
	p, err := e.get(ctx, id.Attempt)
	if err != nil {
		return nil, engine.Status{}, err
	}
	for _, s := range statuses(p, e) {
		if s.Step == id.N {
			return p, s, nil
		}
	}
	return nil, engine.Status{}, &engine.NotFoundError{Attempt: id.Attempt}
}

// running is a step's Pod, if the step runs; else a *NotFoundError.
func (e *Engine) running(ctx context.Context, id engine.StepID) (*corev1.Pod, error) {
	p, s, err := e.find(ctx, id)
	switch {
	case err != nil:
		return nil, err
	case s.Phase == engine.PhaseUnknown:
		return nil, &engine.UnavailableError{Cause: errors.New("nothing is heard of the node " + s.Node)}
	case s.Phase != engine.PhaseRunning:
		return nil, &engine.NotFoundError{Attempt: id.Attempt}
	}
	return p, nil
}

// StartStep implements engine.Engine. It is an ephemeral container: those can't be taken
// away again, and have no amounts of their own.
func (e *Engine) StartStep(ctx context.Context, a engine.Allocation, s engine.Step) error {
	p, primary, err := e.find(ctx, a.Attempt.Primary())
	switch {
	case err != nil:
		return err
	case s.N <= engine.PrimaryStep:
		return &engine.StartError{Message: fmt.Sprintf("a step can't have the number %d", s.N)}
	}
	switch {
	case containerOf(p, s.N).Name != "":
		return nil
	case primary.Phase == engine.PhaseExited, p.DeletionTimestamp != nil:
		return &engine.StartError{Message: "the job has ended"}
	case primary.Phase != engine.PhaseRunning:
		return &engine.UnavailableError{Cause: errors.New("the job's primary doesn't run")}
	}
	if err := check(a, s); err != nil {
		return err
	}
	m, err := e.mountsOf(ctx, a.User, s, p.Spec.Volumes)
	if err != nil {
		return err
	}
	c, err := e.container(a, s, m)
	if err != nil {
		return err
	}
	added := ephemeral(c)
	if len(s.Command) == 0 && !s.Pause {
		// Its image's own command would be process 1, which nothing within can kill and which
		// doesn't see a signal that it doesn't expect. So it is among the primary's processes.
		added.TargetContainerName = containerName(engine.PrimaryStep)
	}
	p.Spec.EphemeralContainers = append(p.Spec.EphemeralContainers, added)
	if err := fits(p, c); err != nil {
		return err
	}
	_, err = ask(ctx, func(ctx context.Context) (*corev1.Pod, error) {
		return e.api.CoreV1().Pods(p.Namespace).UpdateEphemeralContainers(ctx, p.Name, p, metav1.UpdateOptions{})
	})
	switch {
	case apierrors.IsConflict(err): // another call was quicker: look again
		return e.StartStep(ctx, a, s)
	case apierrors.IsNotFound(err):
		return &engine.NotFoundError{Attempt: a.Attempt}
	case err != nil:
		return e.refused(a.Attempt, "its container", err)
	}
	return nil
}

// ephemeral is a container as one that is added to a Pod, which may have no amounts.
func ephemeral(c corev1.Container) corev1.EphemeralContainer {
	return corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
		Name: c.Name, Image: c.Image, ImagePullPolicy: c.ImagePullPolicy, Command: c.Command, Args: c.Args, WorkingDir: c.WorkingDir,
		Env: c.Env, VolumeMounts: c.VolumeMounts, TerminationMessagePath: c.TerminationMessagePath, TerminationMessagePolicy: c.TerminationMessagePolicy,
		SecurityContext: c.SecurityContext, Stdin: c.Stdin, StdinOnce: c.StdinOnce, TTY: c.TTY,
	}}
}

// Signal implements engine.Engine.
func (e *Engine) Signal(ctx context.Context, id engine.StepID, sig string) error {
	return e.kill(ctx, id, "--signal", stepDir(id.N), sig)
}

// StopStep implements engine.Engine. Nothing but the Pod as a whole can be killed from
// outside, so that croft-init does it within.
func (e *Engine) StopStep(ctx context.Context, id engine.StepID) error {
	return e.kill(ctx, id, "--kill", stepDir(id.N))
}

// killTimeout bounds what is asked of croft-init: it runs where the job may have put anything
// in its place.
const killTimeout = 10 * time.Second

// kill has croft-init tell a step's program something, if it runs.
func (e *Engine) kill(ctx context.Context, id engine.StepID, args ...string) error {
	p, err := e.running(ctx, id)
	var none *engine.NotFoundError
	if errors.As(err, &none) {
		return nil
	}
	if err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, killTimeout)
	defer cancel()
	code, err := e.execIn(bounded, p, id, engine.ExecRequest{Command: append([]string{record.InitPath}, args...)})
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		err = &engine.UnavailableError{Cause: fmt.Errorf("croft-init %s doesn't end in the container", args[0])}
	}
	if _, rerr := e.running(ctx, id); errors.As(rerr, &none) {
		return nil // it ended meanwhile
	}
	if err == nil && code != 0 && code != exitKilled { // it goes with what it has ended
		err = fmt.Errorf("kube: %s: croft-init %s ended with %d", id, args[0], code)
	}
	return err
}

// Stop implements engine.Engine. The Pod is deleted, which kills what it runs; by its
// finalizer it stays.
func (e *Engine) Stop(ctx context.Context, id engine.AttemptID) error {
	p, err := e.left(ctx, id)
	if p == nil || p.DeletionTimestamp != nil && ptr.Deref(p.DeletionGracePeriodSeconds, 1) == 0 {
		return err
	}
	_, err = ask(ctx, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, e.api.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{
			GracePeriodSeconds: ptr.To(int64(0)), Preconditions: metav1.NewUIDPreconditions(string(p.UID)),
		})
	})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// Remove implements engine.Engine.
func (e *Engine) Remove(ctx context.Context, id engine.AttemptID) error {
	p, err := e.left(ctx, id)
	if p == nil {
		return err
	}
	for _, s := range statuses(p, e) {
		if s.Phase != engine.PhaseExited {
			return fmt.Errorf("kube: step %s.%d is %s: stop it first", id, s.Step, s.Phase)
		}
	}
	if err := e.archive(ctx, p); err != nil {
		return err
	}
	if err := e.Stop(ctx, id); err != nil {
		return err
	}
	return e.release(ctx, p)
}

// release takes the finalizer off a Pod that is being deleted.
func (e *Engine) release(ctx context.Context, p *corev1.Pod) error {
	patch := fmt.Sprintf(`{"metadata": {"uid": %s, "$deleteFromPrimitiveList/finalizers": [%q]}}`, strconv.Quote(string(p.UID)), finalizer)
	_, err := ask(ctx, func(ctx context.Context) (*corev1.Pod, error) {
		return e.api.CoreV1().Pods(p.Namespace).Patch(ctx, p.Name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
	})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// check refuses what can never start.
func check(a engine.Allocation, s engine.Step) error {
	refuse := func(format string, args ...any) error {
		return &engine.StartError{Message: fmt.Sprintf(format, args...)}
	}
	switch {
	case !attemptName.MatchString(string(a.Attempt)):
		return refuse("attempt id %q is not of the form a-1-1", a.Attempt)
	case s.CPU <= 0 || s.Memory <= 0:
		return refuse("CPU and memory must be above zero")
	case a.User.UID < 1 || a.User.GID < 0:
		return refuse("on this cluster nobody runs as root")
	case a.Pod.HostNetwork:
		return refuse("on this cluster no job has a node's network")
	case a.Gang != nil && len(a.Pod.DNS) > 0:
		return refuse("on this cluster the machines of a job find each other by the cluster's name servers: leave out --dns")
	case s.N > engine.PrimaryStep && len(s.Devices) > 0:
		return refuse("on this cluster a further step has no devices")
	case a.Userns != nil && a.Userns.Required:
		return refuse("on this cluster there is no fake root: jobs run as their users")
	case len(a.Pod.Ports) > 0:
		return refuse("on this cluster no port of a node leads to a job: use croft app open, or croft ssh -L")
	case s.Host && len(s.Command) == 0:
		return refuse("no command is given")
	case s.Host && (s.Stdin || s.TTY):
		return refuse("a program on the host has neither an input nor a terminal")
	}
	return nil
}
