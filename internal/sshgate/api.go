package sshgate

import (
	"context"
	"net"
	"strings"

	"golang.org/x/crypto/ssh"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/fault"
)

// At says where the gate listens, for those who ask.
func (s *Server) At(a net.Addr) { s.listens.Store(&a) }

// Gate says how it is reached.
func (s *Server) Gate() v1.SSHGate {
	out := v1.SSHGate{Alias: "croft-" + s.Sequencer.World().Site.Instance, HostKeys: []string{}}
	if i := len("croft-12345678"); len(out.Alias) > i {
		out.Alias = out.Alias[:i]
	}
	for _, k := range s.HostKeys {
		out.HostKeys = append(out.HostKeys, strings.TrimSpace(string(ssh.MarshalAuthorizedKey(k.PublicKey()))))
	}
	if at := s.listens.Load(); at != nil {
		if tcp, ok := (*at).(*net.TCPAddr); ok {
			out.Listens, out.Port = true, tcp.Port
			if out.Host = s.Host; tcp.IP.IsLoopback() {
				out.Host = tcp.IP.String() // nobody else gets there
			}
		}
	}
	return out
}

// Enter says where a name leads somebody who is known already; serve speaks SSH with him
// then, and asks for no key.
func (s *Server) Enter(ctx context.Context, p access.Principal, name string) (serve func(net.Conn), err error) {
	in, err := s.find(ctx, p, name)
	if err != nil {
		return nil, err
	}
	if s.closing.Err() != nil {
		return nil, fault.New(codes.Unavailable, "the server stops: try again in a moment")
	}
	cfg := s.config()
	cfg.NoClientAuth = true
	cfg.NoClientAuthCallback = func(ssh.ConnMetadata) (*ssh.Permissions, error) { return permissions(in), nil }
	return func(nc net.Conn) {
		defer nc.Close()
		sc, in, err := s.greet(nc, cfg)
		if err != nil {
			s.Logger.Debug("no SSH is spoken", "user", p.Name, "error", err)
			return
		}
		s.serve(sc, in)
	}, nil
}
