package v1

import (
	"context"
	"net"

	"github.com/coder/websocket"
)

// SSHGate is how jobs are entered by SSH.
type SSHGate struct {
	Listens  bool     `json:"listens" doc:"whether there is an address; without one, only through the API"`
	Host     string   `json:"host,omitempty" doc:"left out, the host by which the API is reached"`
	Port     int      `json:"port,omitempty"`
	Alias    string   `json:"alias" doc:"a name for the server's keys (HostKeyAlias)"`
	HostKeys []string `json:"host_keys" doc:"the server's own keys, as in a known_hosts file after the host"`
}

// SSHGate says how jobs are entered by SSH.
func (c *Client) SSHGate(ctx context.Context) (*SSHGate, error) {
	return fetch[SSHGate](ctx, c, "/v1/ssh")
}

// SSH returns a connection to the SSH gate, which leads to a running job by its number or
// its name, or to a step of it, JOB.STEP. Whoever the client is is known to the gate: it
// asks for no key.
func (c *Client) SSH(ctx context.Context, job string) (net.Conn, error) {
	seg, err := segment("job", job)
	if err != nil {
		return nil, err
	}
	conn, err := c.dial(ctx, "/v1/jobs/"+seg+"/ssh", nil, -1)
	if err != nil {
		return nil, err
	}
	return websocket.NetConn(context.WithoutCancel(ctx), conn, websocket.MessageBinary), nil
}
