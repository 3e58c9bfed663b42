package kube

import (
	"errors"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"croft.dev/croft/internal/engine"
)

// isRefusal reports whether the API server has understood and said no. Everything else,
// that it is too busy, or that it doesn't know the caller, says nothing of the matter.
func isRefusal(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) ||
		apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) || apierrors.IsGone(err) ||
		apierrors.IsRequestEntityTooLargeError(err)
}

// ofItself are words of what is forbidden for what the object itself is: by Pod Security, by a
// policy, by a webhook, by a LimitRange. The API server gives no other sign of that.
var ofItself = []string{"violates PodSecurity", " denied request: ", " denied the request", " usage per ", " limit to request ratio per "}

// lasting reports whether the API server will refuse the same again. It won't where only the
// cluster is so for now: a quota is used up, a right or a class of priority is missing, its
// namespace is being deleted, somebody else was quicker.
func lasting(err error) bool {
	if apierrors.IsForbidden(err) {
		text := said(err)
		return slices.ContainsFunc(ofItself, func(words string) bool { return strings.Contains(text, words) })
	}
	return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsRequestEntityTooLargeError(err)
}

// refused is what becomes of an attempt of which the API server doesn't make something that it
// needs.
func (e *Engine) refused(id engine.AttemptID, what string, err error) error {
	if !isRefusal(err) {
		return err
	}
	e.log.Warn("refused by the cluster", "attempt", id, "what", what, "error", err)
	if lasting(err) {
		return &engine.StartError{Message: "the cluster refuses " + what + ": " + refusal(err)}
	}
	return &engine.WaitError{Wait: engine.Wait{For: engine.WaitForCluster, Message: "the cluster doesn't take " + what + " now: " + refusal(err)}}
}

// refusal is why the API server refuses something, as far as that is the user's to know.
func refusal(err error) string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return "no reason given"
	}
	if d := status.Status().Details; d != nil && len(d.Causes) > 0 {
		var all []string
		for _, c := range d.Causes {
			all = append(all, strings.TrimSpace(c.Field+": "+c.Message))
		}
		return strings.Join(all, "; ")
	}
	text := said(err)
	if i := strings.LastIndex(text, "is forbidden: "); i >= 0 {
		text = text[i+len("is forbidden: "):]
	}
	if strings.HasPrefix(text, `User "`) {
		return "Croft lacks a right there, which its log names"
	}
	return text
}

// said is what the API server says of a refusal.
func said(err error) string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return ""
	}
	return status.Status().Message
}
