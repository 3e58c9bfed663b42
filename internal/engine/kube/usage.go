package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"croft.dev/croft/internal/engine"
)

// summary is what a kubelet says of its Pods, as far as it is asked for
// (k8s.io/kubelet/pkg/apis/stats/v1alpha1).
type summary struct {
	Pods []struct {
		PodRef struct{ UID string }
		CPU    *struct {
			Time                 time.Time
			UsageCoreNanoSeconds *uint64
		}
		Memory *struct{ WorkingSetBytes *uint64 }
	}
}

const (
	kubeletTimeout = 10 * time.Second
	kubeletsAsked  = 16 // at a time
	maxSummary     = 16 << 20
)

// Usage implements engine.Engine. The kubelets are asked themselves, for which it takes the
// permission nodes/stats; what of them doesn't answer isn't known. Kubernetes doesn't say how
// busy devices are.
func (e *Engine) Usage(ctx context.Context) (engine.Usage, error) {
	if err := ctx.Err(); err != nil {
		return engine.Usage{}, err
	}
	by := make(map[string]map[string]engine.AttemptID) // node, UID of the Pod
	for _, o := range e.pods.GetStore().List() {
		p := o.(*corev1.Pod)
		if s, ok := statusOf(p); ok && s.Node != "" {
			if by[s.Node] == nil {
				by[s.Node] = make(map[string]engine.AttemptID)
			}
			by[s.Node][string(p.UID)] = s.Attempt
		}
	}
	var (
		out   engine.Usage
		mu    sync.Mutex
		asked sync.WaitGroup
		turn  = make(chan struct{}, kubeletsAsked)
	)
	for node, attempts := range by {
		turn <- struct{}{}
		asked.Go(func() {
			defer func() { <-turn }()
			s, err := e.summary(ctx, node)
			if err != nil {
				e.log.Warn("what jobs use can't be seen", "node", node, "error", err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			out.Attempts = append(out.Attempts, s.of(attempts)...)
		})
	}
	asked.Wait()
	return out, ctx.Err()
}

// of is what a summary says of attempts, by the UIDs of their Pods.
func (s summary) of(attempts map[string]engine.AttemptID) []engine.AttemptUsage {
	var out []engine.AttemptUsage
	for _, p := range s.Pods {
		id, ok := attempts[p.PodRef.UID]
		if !ok || p.CPU == nil || p.CPU.UsageCoreNanoSeconds == nil || p.Memory == nil || p.Memory.WorkingSetBytes == nil {
			continue
		}
		out = append(out, engine.AttemptUsage{
			Attempt: id, At: p.CPU.Time, CPU: time.Duration(min(*p.CPU.UsageCoreNanoSeconds, 1<<62)), Memory: int64(min(*p.Memory.WorkingSetBytes, 1<<62)),
		})
	}
	return out
}

// summary asks a node's kubelet. It is believed only with a certificate of the cluster's own
// authority: it is shown the server's credentials.
func (e *Engine) summary(ctx context.Context, node string) (summary, error) {
	n, ok := e.node(node)
	if !ok {
		return summary{}, errors.New("no such node")
	}
	address := ""
	for _, a := range n.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			address = a.Address
			break
		}
	}
	client, err := rest.HTTPClientFor(e.rest)
	if err != nil {
		return summary{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, kubeletTimeout)
	defer cancel()
	url := "https://" + net.JoinHostPort(address, strconv.Itoa(int(n.Status.DaemonEndpoints.KubeletEndpoint.Port))) + "/stats/summary?only_cpu_and_memory=true"
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return summary{}, err
	}
	resp, err := client.Do(r)
	if err != nil {
		return summary{}, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return summary{}, fmt.Errorf("the kubelet answers %s", resp.Status)
	}
	var s summary
	return s, json.NewDecoder(io.LimitReader(resp.Body, maxSummary)).Decode(&s)
}
