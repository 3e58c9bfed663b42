package kube

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"croft.dev/croft/internal/engine"
)

// What is too large for a cluster is refused at once, with what of it is, and not tried again.
func TestTooLarge(t *testing.T) {
	long := strings.Repeat("$$", maxPod/4) // doubled, so that Kubernetes leaves it as it is
	for name, c := range map[string]struct {
		env     map[string]string
		command []string
		status  int // that the API server answers with
		want    string
	}{
		"environment":        {env: map[string]string{"BIG": long}, want: "its environment has 1024 KiB: "},
		"command":            {command: []string{"sh", "-c", long}, want: "its command has 1024 KiB: "},
		"fits":               {env: map[string]string{"BIG": long[:maxPod/4]}},
		"the cluster's word": {status: http.StatusRequestEntityTooLarge, want: "the cluster refuses its "},
	} {
		t.Run(name, func(t *testing.T) {
			var p *corev1.Pod
			e := stubbed(t, func(w http.ResponseWriter, r *http.Request) {
				if c.status != 0 && r.Method != http.MethodGet {
					w.Header().Set("Content-Type", "application/json")
					w.WriteHeader(c.status)
					answer(t, w, metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: int32(c.status), Reason: metav1.StatusReasonRequestEntityTooLarge, Message: "too large"})
					return
				}
				answer(t, w, p)
			})
			a := job(e, 1, "true")
			p = attemptPod(t, e, a, runningState())
			step := engine.Step{N: 2, Container: engine.Container{Image: a.Image, Command: c.command, Env: c.env}, CPU: 10, Memory: 16 << 20}
			if c.command == nil {
				step.Command = []string{"true"}
			}
			a.Container = step.Container
			for call, err := range map[string]error{"Start": e.Start(t.Context(), a), "StartStep": e.StartStep(t.Context(), a, step)} {
				var refused *engine.StartError
				switch {
				case c.status != 0 && call == "Start": // the Pod is there already
				case c.status != 0 && call == "Start": // the Pod is there already
				case c.status != 0 && call == "Start": // the Pod is there already
				case c.status != 0 && call == "Start": // the Pod is there already
				case c.status != 0 && call == "Start": // the Pod is there already
				case c.status != 0 && call == "Start": // the Pod is there already
				case c.status != 0 && call == "Start": // the Pod is there already
				case c.status != 0 && call == "Start": // the Pod is there already
				case c.status != 0 && call == "Start": // the Pod is there already
				case c.status != 0 && call == "Start": // the Pod is there already
				case c.want == "" && err != nil:
					t.Errorf("%s: %v", call, err)
				case c.want != "" && (!errors.As(err, &refused) || !strings.HasPrefix(refused.Message, c.want)):
					t.Errorf("%s: %v, want %q", call, err, c.want)
				}
			}
		})
	}
}
