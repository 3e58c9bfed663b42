package kube

//lint:file-ignore SA1019 client-go's connections are of these types

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"
	utilexec "k8s.io/client-go/util/exec"

	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/engine/record"
	"croft.dev/croft/internal/engine/remote"
)

// Exec implements engine.Engine. The command has the container's own user, limits and
// environment; croft-init looks it up there.
func (e *Engine) Exec(ctx context.Context, id engine.StepID, req engine.ExecRequest) (int, error) {
	if len(req.Command) == 0 && !req.SFTP {
		return 0, errors.New("kube: exec without a command")
	}
	p, err := e.running(ctx, id)
	if err != nil {
		return 0, err
	}
	if req.SFTP {
		req.Command = []string{record.InitPath, record.SFTP}
	} else {
		req.Command = record.Beside(req.Command, req.Shell, req.Stdin != nil && !req.TTY)
	}
	return e.execIn(ctx, p, id, req)
}

// execIn runs what it is told in a container.
func (e *Engine) execIn(ctx context.Context, p *corev1.Pod, id engine.StepID, req engine.ExecRequest) (int, error) {
	address := e.subresource(p, "exec", &corev1.PodExecOptions{
		Container: containerName(id.N), Command: req.Command,
		Stdin: req.Stdin != nil, Stdout: true, Stderr: !req.TTY, TTY: req.TTY,
	})
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if req.TTY && req.Stdin != nil {
		req.Stdin = engine.Typed(ctx, req.Stdin)
	}
	err := e.stream(ctx, address, remotecommand.StreamOptions{Stdin: req.Stdin, Stdout: or(req.Stdout), Stderr: or(req.Stderr), Tty: req.TTY}, req.Resize)
	var exit utilexec.CodeExitError
	if errors.As(err, &exit) {
		return exit.Code, nil
	}
	return 0, err
}

// Attach implements engine.Engine.
func (e *Engine) Attach(ctx context.Context, id engine.StepID, req engine.AttachRequest) error {
	p, err := e.running(ctx, id)
	if err != nil {
		return err
	}
	c := containerOf(p, id.N)
	tty := c.TTY
	if req.Stdin != nil && !c.Stdin {
		return &engine.AttachError{Message: engine.NoInput}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	guard := func(w io.Writer) io.Writer { return guarded{or(w), cancel} }
	opts := remotecommand.StreamOptions{Stdin: req.Stdin, Stdout: guard(req.Stdout), Tty: tty}
	if !tty {
		opts.Stderr = guard(req.Stderr)
	}
	if req.Stdin != nil && !tty {
		awaited, release, err := e.claimInput(ctx, p, id)
		if err != nil {
			return err
		}
		in := &touched{Reader: req.Stdin}
		if awaited {
			in.Reader = io.MultiReader(bytes.NewReader([]byte{record.Attached}), in.Reader)
		}
		opts.Stdin = in
		defer func() { release(in.read()) }()
	}
	address := e.subresource(p, "attach", &corev1.PodAttachOptions{
		Container: containerName(id.N), Stdin: req.Stdin != nil, Stdout: true, Stderr: !tty, TTY: tty,
	})
	err = e.stream(ctx, address, opts, req.Resize)
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// claimInput makes the caller the one who gives a step its input. What it returns says
// whether anything of it was given; if not, another may. The program of a step that awaits it
// begins with record.Attached.
func (e *Engine) claimInput(ctx context.Context, p *corev1.Pod, id engine.StepID) (awaited bool, release func(given bool), err error) {
	code, err := e.execIn(ctx, p, id, engine.ExecRequest{Command: []string{record.InitPath, "--claim-input", stepDir(id.N)}})
	const claimed, turn = 0, 3 // see cmd/croft-init
	switch {
	case err != nil:
		return false, nil, err
	case code != claimed && code != turn:
		return false, nil, &engine.AttachError{Message: engine.InputGiven}
	}
	return code == turn && awaitsAttach(containerOf(p, id.N)), func(given bool) {
		if given {
			return
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTimeout)
		defer cancel()
		if _, err := e.execIn(ctx, p, id, engine.ExecRequest{Command: []string{record.InitPath, "--leave-input", stepDir(id.N)}}); err != nil {
			e.log.Warn("an input can't be given again", "step", id.String(), "error", err)
		}
	}, nil
}

// touched notes that something was asked of a reader.
type touched struct {
	io.Reader
	mu  sync.Mutex
	was bool
}

// settling is how long an input is held back once the streams are there: the kubelet begins
// to hand it on before it joins the output.
const settling = 100 * time.Millisecond

func (t *touched) Read(b []byte) (int, error) {
	t.mu.Lock()
	first := !t.was
	t.was = true
	t.mu.Unlock()
	if first {
		<-time.After(settling)
	}
	return t.Reader.Read(b)
}

func (t *touched) read() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.was
}

type guarded struct {
	w      io.Writer
	cancel context.CancelCauseFunc
}

// Write never fails: the stream's end follows, and until then nothing holds it up.
func (g guarded) Write(b []byte) (int, error) {
	if _, err := g.w.Write(b); err != nil {
		g.cancel(err)
	}
	return len(b), nil
}

// subresource is the URL of something of a Pod.
func (e *Engine) subresource(p *corev1.Pod, name string, opts runtime.Object) *url.URL {
	r := e.api.CoreV1().RESTClient().Post().Resource("pods").Namespace(p.Namespace).Name(p.Name).SubResource(name)
	if opts != nil {
		r = r.VersionedParams(opts, scheme.ParameterCodec)
	}
	return r.URL()
}

// stream carries the streams of a program until it ends. By SPDY, or by WebSocket where
// something on the way knows no SPDY.
func (e *Engine) stream(ctx context.Context, address *url.URL, opts remotecommand.StreamOptions, resize <-chan engine.Size) error {
	if opts.Tty {
		opts.Stderr = nil
	}
	if opts.Tty && resize != nil {
		opts.TerminalSizeQueue = remote.Sizes(ctx, resize)
	}
	spdy, err := remote.New(e.rest, address)
	if err != nil {
		return err
	}
	socket, err := remotecommand.NewWebSocketExecutor(e.rest, http.MethodGet, address.String())
	if err != nil {
		return err
	}
	executor, err := remotecommand.NewFallbackExecutor(spdy, socket, func(err error) bool {
		// Of an answer that refuses SPDY the client makes an error of no type.
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err) || strings.Contains(err.Error(), "unable to upgrade connection")
	})
	if err != nil {
		return err
	}
	err = executor.StreamWithContext(ctx, opts)
	var exit utilexec.CodeExitError
	switch {
	case err == nil, errors.As(err, &exit):
		return err
	case ctx.Err() != nil:
		return ctx.Err()
	case apierrors.IsForbidden(err):
		return err
	}
	return &engine.UnavailableError{Cause: err}
}
