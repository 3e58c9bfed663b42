package httpapi

import (
	"context"
	"net"
	"strings"

	"github.com/coder/websocket"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/fault"
)

// SSH lets people into jobs by SSH.
type SSH interface {
	// Gate says how it is reached.
	Gate() v1.SSHGate
	// Enter says where a name leads whom; serve speaks SSH with him then, for as long as
	// he may. The error is a *fault.Error.
	Enter(ctx context.Context, p access.Principal, name string) (serve func(net.Conn), err error)
}

func sshOperations() []operation {
	return []operation{
		ask("sshGate", "GET /v1/ssh", "How jobs are entered by SSH", access.NodeSee, (*call).sshGate),
		stream("sshJob", "GET /v1/jobs/{id}/ssh", "Speak SSH with a running job, by its number or its name, or with a step, JOB.STEP (WebSocket)", access.JobEnter, "", (*call).sshJob),
	}
}

var errNoSSH = fault.New(codes.Unavailable, "this server lets nobody in by SSH")

func (c *call) sshGate() (v1.SSHGate, error) {
	if c.SSH == nil {
		return v1.SSHGate{}, errNoSSH
	}
	return c.SSH.Gate(), nil
}

// sshJob carries SSH over a WebSocket: whoever calls is known already, and what he does
// over it is the gate's to allow, note and end.
func (c *call) sshJob() error {
	if c.SSH == nil {
		return errNoSSH
	}
	serve, err := c.SSH.Enter(c.r.Context(), c.p, c.path("id"))
	if err != nil {
		return err
	}
	if !strings.EqualFold(c.r.Header.Get("Upgrade"), "websocket") {
		return fault.New(codes.Invalid, "this is spoken over a WebSocket")
	}
	conn, err := websocket.Accept(c.w, c.r, nil)
	if err != nil {
		return fault.New(codes.Invalid, "this is spoken over a WebSocket")
	}
	defer conn.CloseNow() //nolint:errcheck // closed properly before, where that was possible
	serve(websocket.NetConn(context.WithoutCancel(c.r.Context()), conn, websocket.MessageBinary))
	return nil
}
