package httpapi

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"time"

	"golang.org/x/sys/unix"
)

// peerKey is where a connection's peer stands in the context of its requests: the
// one way net/http has to hand it on.
type peerKey struct{}

// peer is the process at the other end of a unix socket, by the kernel's word.
type peer struct {
	uid int64
	err error // the kernel didn't say
}

// HTTP returns an http.Server for listeners on unix sockets and on TCP alike. It
// sets no bound on how long an answer may take: waits, logs and events go on, and
// end when its Shutdown begins. What comes over TCP goes to web, if there is one, which
// leaves to Handler what it doesn't know.
func (s *Server) HTTP(web http.Handler) *http.Server {
	handler := s.handler
	if web != nil {
		handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, unix := r.Context().Value(peerKey{}).(peer); unix {
				s.handler.ServeHTTP(w, r)
				return
			}
			web.ServeHTTP(w, r)
		})
	}
	out := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       3 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ConnContext:       connContext,
		ErrorLog:          slog.NewLogLogger(s.Logger.Handler(), slog.LevelDebug),
	}
	out.RegisterOnShutdown(s.close)
	return out
}

func connContext(ctx context.Context, c net.Conn) context.Context {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return ctx
	}
	uid, err := peerUID(u)
	return context.WithValue(ctx, peerKey{}, peer{uid, err})
}

// peerUID asks the kernel whose process made the connection (SO_PEERCRED, see
// unix(7)): what it says was true when the connection was made.
func peerUID(c *net.UnixConn) (int64, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var failed error
	if err := raw.Control(func(fd uintptr) {
		cred, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return 0, err
	}
	if failed != nil {
		return 0, failed
	}
	return int64(cred.Uid), nil
}
