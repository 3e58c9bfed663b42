package sshgate

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/fault"
)

// errElsewhere keeps the gate from being a way to the machine's services and into its
// network. A program in the job goes there by itself.
var errElsewhere = fault.New(codes.Denied, "only the job's own localhost is reached from here")

// loopback reports whether a client means the job itself. Where a port is listened on, no
// name and a star are every address, of which it gets this one.
func loopback(host string, listens bool) bool {
	if listens && (host == "" || host == "*") {
		return true
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && (ip.IsLoopback() || listens && ip.IsUnspecified())
}

// mayForward notes, before the first port is reached, that the connection forwards some.
func (c *connection) mayForward(ctx context.Context) error {
	c.noting.Lock()
	defer c.noting.Unlock()
	if c.forwards {
		return nil
	}
	if err := c.note(ctx, command.JobSSH{For: command.SSHForward}); err != nil {
		return err
	}
	c.forwards = true
	return nil
}

// dialPatience bounds how long a port of the job may take to answer.
const dialPatience = 10 * time.Second

// direct leads a connection of the client's to a port of the job (RFC 4254, 7.2).
func (c *connection) direct(nch ssh.NewChannel) {
	host, port, ok := parseDirect(nch.ExtraData())
	if !ok {
		_ = nch.Reject(ssh.ConnectionFailed, "this can't be read")
		return
	}
	if !loopback(host, false) {
		_ = nch.Reject(ssh.Prohibited, "croft: "+errElsewhere.Message)
		return
	}
	ctx, cancel := context.WithTimeout(c.ctx, dialPatience)
	defer cancel()
	err := c.mayForward(ctx)
	var nc net.Conn
	if err == nil {
		nc, err = c.Engine.Dial(ctx, c.at, port)
	}
	if err != nil {
		_ = nch.Reject(ssh.ConnectionFailed, "croft: "+c.words(err))
		return
	}
	ch, requests, err := nch.Accept()
	if err != nil {
		nc.Close()
		return
	}
	go ssh.DiscardRequests(requests)
	c.carry(ch, nc)
}

// halfCloser is a connection of which one direction may end before the other.
type halfCloser interface{ CloseWrite() error }

// carry copies in both directions until both have ended, or the connection has.
func (c *connection) carry(ch ssh.Channel, nc net.Conn) {
	stop := context.AfterFunc(c.ctx, func() { nc.Close(); ch.Close() })
	defer stop()
	var both sync.WaitGroup
	both.Go(func() {
		_, _ = io.Copy(until{c.ctx, ch}, nc)
		_ = ch.CloseWrite()
	})
	both.Go(func() {
		if _, err := io.Copy(nc, ch); err != nil {
			ch.Close() // what is said to nobody
		}
		if half, ok := nc.(halfCloser); ok {
			_ = half.CloseWrite()
		} else {
			nc.Close()
		}
	})
	both.Wait()
	nc.Close()
	ch.Close()
}

// maxListeners bounds the ports in the job that lead to one client.
const maxListeners = 32

// listeners are those ports, by what the client asked for.
type listeners struct {
	mu sync.Mutex
	of map[place]net.Listener
}

// place is an address as a client says it.
type place struct {
	host string
	port uint32
}

var errNoPlace = errors.New("not listened on")

// listen makes a port in the job lead to the client (RFC 4254, 7.1). The answer has the
// port, if the client left that open.
func (c *connection) listen(payload []byte) ([]byte, error) {
	at, ok := parsePlace(payload)
	if !ok || at.port > 65535 {
		return nil, errBadRequest
	}
	if !loopback(at.host, true) {
		return nil, errElsewhere
	}
	ctx, cancel := context.WithTimeout(c.ctx, dialPatience)
	defer cancel()
	if err := c.mayForward(ctx); err != nil {
		return nil, err
	}
	c.listens.mu.Lock()
	defer c.listens.mu.Unlock()
	if len(c.listens.of) >= maxListeners {
		return nil, fault.New(codes.TooMany, "too many ports already")
	}
	ln, err := c.Engine.Listen(ctx, c.at, uint16(at.port))
	if err != nil {
		return nil, err
	}
	var answer []byte
	if at.port == 0 {
		at.port = portNumber(ln.Addr())
		answer = ssh.Marshal(struct{ Port uint32 }{at.port})
	}
	if c.listens.of == nil {
		c.listens.of = map[place]net.Listener{}
	}
	if !c.begin(func() { c.accept(ln, at) }) {
		return nil, errors.Join(context.Cause(c.ctx), ln.Close())
	}
	c.listens.of[at] = ln
	return answer, nil
}

func portNumber(a net.Addr) uint32 {
	if tcp, ok := a.(*net.TCPAddr); ok {
		return uint32(tcp.Port)
	}
	return 0
}

// unlisten ends what listen began.
func (c *connection) unlisten(payload []byte) error {
	at, ok := parsePlace(payload)
	if !ok {
		return errBadRequest
	}
	c.listens.mu.Lock()
	ln := c.listens.of[at]
	delete(c.listens.of, at)
	c.listens.mu.Unlock()
	if ln == nil {
		return errNoPlace
	}
	return ln.Close()
}

// accept leads connections to a port in the job to the client, until that is over.
func (c *connection) accept(ln net.Listener, at place) {
	stop := context.AfterFunc(c.ctx, func() { ln.Close() })
	defer stop()
	for {
		nc, err := ln.Accept()
		if err != nil {
			return
		}
		select {
		case c.slots <- struct{}{}:
		default:
			nc.Close()
			continue
		}
		c.channels.Go(func() {
			defer func() { <-c.slots }()
			c.forwarded(nc, at)
		})
	}
}

// forwarded leads one such connection to the client.
func (c *connection) forwarded(nc net.Conn, at place) {
	defer nc.Close()
	from := nc.RemoteAddr()
	ch, requests, err := c.ssh.OpenChannel("forwarded-tcpip", ssh.Marshal(struct {
		Host       string
		Port       uint32
		Origin     string
		OriginPort uint32
	}{at.host, at.port, hostOf(from), portNumber(from)}))
	if err != nil {
		return // nobody answers there
	}
	go ssh.DiscardRequests(requests)
	c.carry(ch, nc)
}
