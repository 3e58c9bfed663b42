package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/engine/kube/files"
)

// Config says which cluster it is, and how jobs run there.
type Config struct {
	// Kubeconfig is the file that says how the cluster is reached, in the context Context
	// or its current one. Empty: Croft runs inside of the cluster.
	Kubeconfig, Context string
	// Instance is the UUID of this Croft; labels of all objects.
	Instance string
	// Namespace has all jobs. It is made if it isn't there.
	Namespace string
	// Image has croft-init at /croft-init, and is what host steps run in. What is mounted
	// as the site's own comes from there, too.
	Image string
	// Models are the accelerators that the cluster has, beside those of makers that label
	// them in a way that is known: NVIDIA's and Huawei's.
	Models []Model
	// Scheduler is the batch scheduler that attempts are handed to; by default SchedulerNone.
	Scheduler string
	// QueuePrefix is what the names of its queues begin with; by default "croft".
	QueuePrefix string
	// PriorityClass is that of all Pods; empty: the cluster's default.
	PriorityClass string
	// Scratch is how much of its node's disk a Pod may fill, in bytes: with what it writes
	// into its containers and its folders there, and with its logs. 0: any amount.
	Scratch int64
	// Claims are the files that jobs may mount.
	Claims files.Claims
	// LogDir keeps the logs of Pods that are gone, for LogRetention after their end: 30 days
	// if it is 0.
	LogDir       string
	LogRetention time.Duration
	// LogMax bounds what is kept of one log, in bytes: the last part of it; by default 250 MiB.
	LogMax int64
	// Registries is how registries of images are asked; nil: as http.DefaultTransport does.
	Registries http.RoundTripper
	// Mirrors are URLs that are asked before a registry, by its host.
	Mirrors map[string][]string
	Logger  *slog.Logger
}

// minimum is the oldest version that has what is used: Pods with resources of their own,
// which ephemeral containers share.
const minimum = "1.34.0"

// Engine is a connection to a cluster.
type Engine struct {
	cfg  Config
	log  *slog.Logger
	rest *rest.Config
	api  kubernetes.Interface
	// dynamic is for the objects of batch schedulers.
	dynamic   dynamic.Interface
	scheduler scheduler
	// catalogue says what accelerators are.
	catalogue catalogue
	// split is set where the API server hands out standard output and error apart.
	split bool
	// since is when it was connected.
	since time.Time

	stop     context.CancelFunc
	informer sync.WaitGroup
	pods     cache.SharedIndexInformer
	nodes    cache.SharedIndexInformer
	sight    sight
	hub      hub
}

var _ engine.Engine = (*Engine)(nil)

// New connects to a cluster, of which it checks the version.
func New(ctx context.Context, cfg Config) (*Engine, error) {
	if cfg.Instance == "" || cfg.Namespace == "" || cfg.Image == "" || cfg.LogDir == "" {
		return nil, errors.New("kube: Instance, Namespace, Image and LogDir are needed")
	}
	if cfg.LogRetention == 0 {
		cfg.LogRetention = 30 * 24 * time.Hour
	}
	if cfg.LogMax == 0 {
		cfg.LogMax = 250 << 20
	}
	if cfg.Registries == nil {
		cfg.Registries = http.DefaultTransport
	}
	e := &Engine{cfg: cfg, log: cfg.Logger, since: time.Now()}
	if e.log == nil {
		e.log = slog.New(slog.DiscardHandler)
	}
	var err error
	if e.catalogue, err = newCatalogue(cfg.Models); err != nil {
		return nil, fmt.Errorf("kube: %w", err)
	}
	if e.rest, err = restConfig(cfg); err != nil {
		return nil, fmt.Errorf("kube: %w", err)
	}
	if e.api, err = kubernetes.NewForConfig(e.rest); err != nil {
		return nil, fmt.Errorf("kube: %w", err)
	}
	if e.dynamic, err = dynamic.NewForConfig(e.rest); err != nil {
		return nil, fmt.Errorf("kube: %w", err)
	}
	if e.scheduler, err = e.newScheduler(); err != nil {
		return nil, err
	}
	if err := e.check(ctx); err != nil {
		return nil, err
	}
	if err := e.ensureNamespace(ctx); err != nil {
		return nil, err
	}
	if err := e.scheduler.check(ctx); err != nil {
		return nil, err
	}
	if err := e.lookAtClaims(ctx); err != nil {
		return nil, err
	}
	if e.split, err = e.splitsLogs(ctx); err != nil {
		return nil, err
	}
	return e, e.watch(ctx)
}

// splitsLogs reports whether the API server hands out the streams of a log apart: then it
// knows which there are.
func (e *Engine) splitsLogs(ctx context.Context) (bool, error) {
	_, err := ask(ctx, func(ctx context.Context) (struct{}, error) {
		none := "none" // of the streams, and of the Pods
		return struct{}{}, e.api.CoreV1().Pods(e.cfg.Namespace).GetLogs(none, &corev1.PodLogOptions{Stream: &none}).Do(ctx).Error()
	})
	if isRefusal(err) {
		return apierrors.HasStatusCause(err, metav1.CauseTypeFieldValueNotSupported), nil
	}
	return false, err
}

func restConfig(cfg Config) (*rest.Config, error) {
	rules := &clientcmd.ClientConfigLoadingRules{ExplicitPath: cfg.Kubeconfig}
	c, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: cfg.Context}).ClientConfig()
	if cfg.Kubeconfig == "" {
		c, err = rest.InClusterConfig()
	}
	if err != nil {
		return nil, err
	}
	c.QPS = -1 // the API server itself says when it is too much
	c.UserAgent = "croft"
	return c, nil
}

// check refuses clusters that are too old.
func (e *Engine) check(ctx context.Context) error {
	v, err := ask(ctx, func(ctx context.Context) (string, error) {
		v, err := e.api.Discovery().ServerVersion()
		if err != nil {
			return "", err
		}
		return v.GitVersion, nil
	})
	if err != nil {
		return err
	}
	have, err := version.ParseGeneric(v)
	if err != nil {
		return fmt.Errorf("kube: the cluster's version %q: %w", v, err)
	}
	if have.LessThan(version.MustParseGeneric(minimum)) {
		return fmt.Errorf("kube: the cluster's Kubernetes is %s, and %s is needed", v, minimum)
	}
	return nil
}

func (e *Engine) ensureNamespace(ctx context.Context) error {
	_, err := ask(ctx, func(ctx context.Context) (*corev1.Namespace, error) {
		have, err := e.api.CoreV1().Namespaces().Get(ctx, e.cfg.Namespace, metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return have, err
		}
		made, err := e.api.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: e.cfg.Namespace,
			Labels: map[string]string{
				labelManager: manager, "pod-security.kubernetes.io/enforce": "restricted",
			},
		}}, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return made, nil
		}
		return made, err
	})
	if err != nil {
		return err
	}
	// Pods are refused until the cluster has made the account that they run with.
	_, err = ask(ctx, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
			_, err := e.api.CoreV1().ServiceAccounts(e.cfg.Namespace).Get(ctx, "default", metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return false, nil
			}
			return err == nil, err
		})
	})
	return err
}

// Close implements engine.Engine.
func (e *Engine) Close() error {
	if e.stop != nil {
		e.stop()
	}
	e.informer.Wait()
	e.hub.close()
	return nil
}

// askTimeout bounds one question to the API server.
const askTimeout = 30 * time.Second

// ask asks the API server. The error is ctx's, the API's own refusal, or an
// *engine.UnavailableError.
func ask[R any](ctx context.Context, f func(context.Context) (R, error)) (R, error) {
	var none R
	if err := ctx.Err(); err != nil {
		return none, err
	}
	bounded, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	r, err := f(bounded)
	switch {
	case err == nil:
		return r, nil
	case ctx.Err() != nil:
		return none, ctx.Err()
	case isRefusal(err):
		return none, err
	}
	return none, &engine.UnavailableError{Cause: err}
}

func or(w io.Writer) io.Writer {
	if w == nil {
		return io.Discard
	}
	return w
}
