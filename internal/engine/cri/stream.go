package cri

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"

	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/engine/remote"
)

// streams are what a stream of the runtime carries; those that are nil aren't asked for.
type streams struct {
	tty            bool
	stdin          io.Reader
	stdout, stderr io.Writer
	resize         <-chan engine.Size
}

// stream carries an exec or an attach over the runtime's streaming server.
func stream(ctx context.Context, address string, s streams) error {
	u, err := url.Parse(address)
	if err != nil {
		return fmt.Errorf("cri: stream: %w", err)
	}
	// Whoever reaches the streaming server with the address has the streams: it must
	// not be on the network.
	if ip := net.ParseIP(u.Hostname()); (ip == nil || !ip.IsLoopback()) && u.Hostname() != "localhost" {
		return fmt.Errorf("cri: stream: the runtime's streaming server listens on %s, not on loopback", u.Hostname())
	}
	executor, err := remote.New(&rest.Config{}, u)
	if err != nil {
		return fmt.Errorf("cri: stream: %w", err)
	}
	opts := remotecommand.StreamOptions{Stdin: s.stdin, Stdout: s.stdout, Tty: s.tty}
	if !s.tty {
		opts.Stderr = s.stderr
	}
	if s.tty && s.resize != nil {
		opts.TerminalSizeQueue = remote.Sizes(ctx, s.resize)
	}
	err = executor.StreamWithContext(ctx, opts)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, remote.ErrCut):
		return &engine.UnavailableError{Cause: err}
	}
	return fmt.Errorf("cri: stream: %w", err)
}

func or(w io.Writer) io.Writer {
	if w == nil {
		return io.Discard
	}
	return w
}
