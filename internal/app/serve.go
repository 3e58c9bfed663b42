package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/user"
	"strconv"
	"time"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/certs"
	"croft.dev/croft/internal/config"
	"croft.dev/croft/internal/fault"
)

// stopPatience is how long requests under way may take when the server stops.
const stopPatience = 5 * time.Second

// serve answers on the socket and over HTTP until ctx ends or the sequencer fails.
// It stops the loops first: a server that was deposed must call no engine while it
// still answers requests.
func (s *server) serve(ctx context.Context, at listeners, seqErr <-chan error, stopLoops func()) (err error) {
	web := s.api.HTTP(s.web.Over(s.api.Handler()))
	web.Handler = strict(web.Handler)
	failed := make(chan error, len(at.web)+2)
	serve := func(web *http.Server, ln net.Listener) {
		if err := web.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			failed <- err
		}
	}
	for _, ln := range at.web {
		go serve(web, ln)
	}
	if at.redirect != nil {
		plain := s.redirecting(at.certs)
		go serve(plain, at.redirect)
		defer plain.Close() //nolint:errcheck // it only ever says where else to go
	}
	if at.ssh != nil {
		go func() {
			if err := s.gate.Serve(at.ssh); err != nil {
				failed <- err
			}
		}()
	}
	s.announce(at)
	select {
	case <-ctx.Done():
		s.Log.Info("stopping: jobs run on")
	case err = <-seqErr:
		err = fmt.Errorf("the server may not go on: %w", errors.Join(err, errStopped))
	case <-s.store.Deposed():
		err = fault.New(codes.Conflict, "another server has taken the database over: this one stops")
	case err = <-failed:
	}
	stopLoops()
	s.api.Close()
	s.gate.Close()
	s.web.Close()
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopPatience)
	defer cancel()
	if serr := web.Shutdown(grace); serr != nil {
		err = errors.Join(err, web.Close())
	}
	return err
}

var errStopped = errors.New("the sequencer stopped")

func (s *server) announce(at listeners) {
	web, ssh := "", ""
	if at.ssh != nil {
		ssh = at.ssh.Addr().String()
	}
	if at.http != nil {
		web = "http://" + at.http.Addr().String()
	}
	s.Log.Info("croft server is up", "socket", string(s.Config.Listen.Socket), "http", web, "ssh", ssh, "public_url", s.Config.PublicURL)
	if s.Ready != nil {
		s.Ready(string(s.Config.Listen.Socket), web)
	}
}

// listeners are what is served on.
type listeners struct {
	web      []net.Listener // the socket and, where they aren't off, http and https
	http     net.Listener   // nil: off
	redirect net.Listener   // nil: off
	certs    *certs.Source  // nil: no https
	ssh      net.Listener   // nil: off
}

// close lets go of them.
func (at listeners) close() (err error) {
	for _, ln := range at.web {
		err = errors.Join(err, ln.Close())
	}
	if at.redirect != nil {
		err = errors.Join(err, at.redirect.Close())
	}
	if at.ssh != nil {
		err = errors.Join(err, at.ssh.Close())
	}
	return err
}

// listen opens the socket and what else is configured.
func (s *server) listen() (at listeners, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, at.close())
		}
	}()
	sock, err := s.socket()
	if err != nil {
		return at, err
	}
	at.web = append(at.web, sock)
	if addr := s.Config.Listen.HTTP; addr != config.HTTPOff {
		if at.http, err = listenTCP("listen.http", addr); err != nil {
			return at, err
		}
		at.web = append(at.web, at.http)
	}
	if s.Config.Listen.HTTPS != "" {
		if at.certs, err = s.certificates(); err != nil {
			return at, err
		}
		ln, err := listenTCP("listen.https", s.Config.Listen.HTTPS)
		if err != nil {
			return at, err
		}
		at.web = append(at.web, tls.NewListener(ln, at.certs.TLS()))
	}
	if s.Config.Listen.SSH != config.SSHOff {
		if at.ssh, err = listenTCP("listen.ssh", s.Config.Listen.SSH); err != nil {
			return at, err
		}
	}
	if s.Config.Listen.Redirect != "" {
		at.redirect, err = listenTCP("listen.redirect", s.Config.Listen.Redirect)
	}
	return at, err
}

func listenTCP(key, addr string) (net.Listener, error) {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fault.New(codes.Conflict, "%s: %s can't be listened on: %v; choose another port, or off", key, addr, err)
	}
	return ln, nil
}

// socket opens the unix socket. One that is left over from a server that was
// killed is replaced: the store's lock says that no other server uses this data.
func (s *server) socket() (net.Listener, error) {
	path := string(s.Config.Listen.Socket)
	if c, err := net.Dial("unix", path); err == nil {
		return nil, errors.Join(fault.New(codes.Conflict, "listen.socket: another server answers at %s", path), c.Close())
	}
	switch st, err := os.Lstat(path); {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return nil, err
	case st.Mode().Type() != os.ModeSocket:
		return nil, fault.New(codes.Conflict, "listen.socket: %s is there and isn't a socket", path)
	default:
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	ln, err := net.Listen("unix", path)
	if err != nil {
		return nil, fault.New(codes.Conflict, "listen.socket: %v", err)
	}
	if err := s.permit(path); err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	return ln, nil
}

func (s *server) permit(path string) error {
	if name := s.Config.Listen.SocketGroup; name != "" {
		g, err := user.LookupGroup(name)
		if err != nil {
			return fault.Invalid("listen.socket_group", "no such group: %s", name)
		}
		gid, err := strconv.Atoi(g.Gid)
		if err != nil {
			return err
		}
		if err := os.Chown(path, -1, gid); err != nil {
			return err
		}
	}
	return os.Chmod(path, s.Config.Listen.SocketMode.FileMode())
}
