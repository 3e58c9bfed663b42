package cli

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// browserTime is how long a browser may take to start.
const browserTime = 30 * time.Second

// browse has the user's browser open a link that logs in. The browser is told an address of
// this program instead, since everybody on the machine can read what programs are started
// with: it leads on to the link, and only what is the user's own.
func (a *app) browse(ctx context.Context, link string) error {
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return err
	}
	came := make(chan struct{})
	var once sync.Once
	s := &http.Server{ReadHeaderTimeout: browserTime, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" || !a.env.Own(r.RemoteAddr, ln.Addr().String()) {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Referrer-Policy", "no-referrer")
		http.Redirect(w, r, link, http.StatusSeeOther)
		once.Do(func() { close(came) })
	})}
	go func() { _ = s.Serve(ln) }() // until it is shut down
	defer func() {
		end, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_ = s.Shutdown(end) // what it hasn't answered by then goes with the program
	}()
	if err := a.env.Browser("http://" + ln.Addr().String() + "/"); err != nil {
		return err
	}
	late := time.NewTimer(browserTime)
	defer late.Stop()
	select {
	case <-came:
		return nil
	case <-late.C:
		return errors.New("the browser didn't come")
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// show opens a link in the browser if that is wanted, and says what the user may do instead.
func (a *app) show(ctx context.Context, link string, open bool) {
	if open {
		err := a.browse(ctx, link)
		if err == nil {
			return
		}
		a.tell("%s: open this yourself", clean(err.Error()))
	}
	if u, err := url.Parse(link); err == nil && a.env.Getenv("SSH_CONNECTION") != "" && (loopback(u.Hostname()) || strings.HasSuffix(u.Hostname(), ".localhost")) {
		a.tell("from your own machine:  ssh -L %[1]s:127.0.0.1:%[1]s %[2]s, and open it there", clean(u.Port()), clean(a.env.Host))
	}
}

var errNoBrowser = errors.New("there is no browser here")
