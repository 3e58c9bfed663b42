package cri

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/engine/cri/firewall"
	"croft.dev/croft/internal/engine/cri/netns"
)

// loopbacks are the addresses at which a step is reached: in its own network namespace
// they lead nowhere else.
var loopbacks = []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}

// Dial implements engine.Engine. The step's network namespace is kept open after the
// first time; what can't be reached there is looked for once more from the start.
func (e *Engine) Dial(ctx context.Context, id engine.StepID, port uint16) (net.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if n := e.networks.get(id); n != nil {
		if c, err := dialLoopback(ctx, n, port); err == nil {
			return c, nil
		}
	}
	n, err := e.network(ctx, id, port)
	if err != nil {
		return nil, err
	}
	c, err := dialLoopback(ctx, n, port)
	switch {
	case err == nil:
		e.networks.put(id, n)
		return c, nil
	case ctx.Err() != nil:
		err = ctx.Err()
	case errors.Is(err, unix.ECONNREFUSED):
		err = &engine.DialError{Port: port, Message: engine.NothingListens}
	default:
		err = fmt.Errorf("cri: dial %s: %w", id, err)
	}
	return nil, errors.Join(err, n.Close())
}

// dialLoopback tries both loopback addresses. The error is that of the first.
func dialLoopback(ctx context.Context, n *netns.Namespace, port uint16) (net.Conn, error) {
	var first error
	for _, addr := range loopbacks {
		c, err := n.Dial(ctx, netip.AddrPortFrom(addr, port))
		if err == nil {
			return c, nil
		}
		if first == nil {
			first = err
		}
	}
	return nil, first
}

// Listen implements engine.Engine.
func (e *Engine) Listen(ctx context.Context, id engine.StepID, port uint16) (net.Listener, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if port != 0 && port < engine.FirstPort {
		return nil, &engine.ListenError{Port: port, Message: engine.PortPrivileged}
	}
	n, err := e.network(ctx, id, port)
	var refused *engine.DialError
	switch {
	case errors.As(err, &refused):
		return nil, &engine.ListenError{Port: port, Message: refused.Message}
	case err != nil:
		return nil, err
	}
	defer n.Close()
	ln, err := n.Listen(ctx, netip.AddrPortFrom(loopbacks[0], port))
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		return nil, &engine.ListenError{Port: port, Message: engine.PortTaken}
	case err != nil:
		return nil, fmt.Errorf("cri: listen in %s: %w", id, err)
	}
	return ln, nil
}

// network is the network namespace of a running step.
func (e *Engine) network(ctx context.Context, id engine.StepID, port uint16) (*netns.Namespace, error) {
	have, err := e.find(ctx, id.Attempt)
	if err != nil {
		return nil, err
	}
	if h, ok := have.hosts[id]; ok {
		if h.Exit != nil || !h.Alive {
			return nil, &engine.NotFoundError{Attempt: id.Attempt}
		}
		return nil, &engine.DialError{Port: port, Message: "the program runs on the machine itself, whose ports aren't its own: run it in a container"}
	}
	if c := have.step(id.N); c == nil || c.GetState() != runtimeapi.ContainerState_CONTAINER_RUNNING || have.ready() == "" {
		return nil, &engine.NotFoundError{Attempt: id.Attempt}
	}
	n, err := e.sandboxNetwork(ctx, have.ready())
	if err != nil {
		return nil, err
	}
	if own, err := n.Own(); err != nil || own {
		err := errors.Join(err, n.Close())
		if own {
			err = &engine.DialError{Port: port, Message: "the job is in the machine's network, whose ports aren't its own: run it without that"}
		}
		return nil, err
	}
	return n, nil
}

// sandboxNetwork opens a sandbox's network namespace, by its first process. That one is
// asked for again when it is open: its number may have become another's.
func (e *Engine) sandboxNetwork(ctx context.Context, sandbox string) (*netns.Namespace, error) {
	pid, err := e.rt.sandboxPID(ctx, sandbox)
	if err != nil {
		return nil, err
	}
	n, err := netns.Open(pid)
	if err != nil {
		return nil, &engine.UnavailableError{Cause: err}
	}
	again, err := e.rt.sandboxPID(ctx, sandbox)
	if err == nil && again != pid {
		err = &engine.UnavailableError{Cause: errors.New("the sandbox's process has changed")}
	}
	if err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

// sandboxPID returns the process id of a ready sandbox's first process, which is in the
// verbose part of its status (containerd and CRI-O both give it).
func (c *client) sandboxPID(ctx context.Context, id string) (int, error) {
	r, err := ask(ctx, c, func(ctx context.Context) (*runtimeapi.PodSandboxStatusResponse, error) {
		return c.runtime.PodSandboxStatus(ctx, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: id, Verbose: true})
	})
	if err != nil {
		return 0, err
	}
	var info struct {
		PID int `json:"pid"`
	}
	err = json.Unmarshal([]byte(r.GetInfo()["info"]), &info)
	if err != nil || info.PID <= 0 || r.GetStatus().GetState() != runtimeapi.PodSandboxState_SANDBOX_READY {
		return 0, &engine.UnavailableError{Cause: fmt.Errorf("the runtime doesn't say which process the sandbox %s is", id)}
	}
	return info.PID, nil
}

// closeInbound keeps others out of an attempt's network, if it is to be closed. It is done
// before any of its programs begins, and done again does no harm. The rules live as long as the
// sandbox does, whatever becomes of the runtime and of this server.
func (e *Engine) closeInbound(ctx context.Context, a engine.Allocation, sandbox string) error {
	if !a.Pod.Closed {
		return nil
	}
	n, err := e.sandboxNetwork(ctx, sandbox)
	if err != nil {
		return err
	}
	defer n.Close()
	if own, err := n.Own(); err != nil || own {
		return errors.Join(err, errors.New("cri: the machine's own network is never closed"))
	}
	var ports []uint16
	for _, p := range a.Pod.Ports {
		ports = append(ports, p.Container)
	}
	err = n.Do(func() error { return firewall.CloseInbound(ctx, ports) })
	switch {
	case errors.Is(err, firewall.ErrNone):
		return &engine.StartError{Message: "the machine can't close an application's ports against others: it has neither iptables nor nft; ask an admin to install one"}
	case err != nil:
		return fmt.Errorf("cri: network of %s: %w", a.Attempt, err)
	}
	return nil
}
