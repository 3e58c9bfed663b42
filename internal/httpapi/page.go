package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/coder/websocket"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/address"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/presence"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

// openTerminal gives whoever may look at a job's terminals an address that lets his browser
// in at the page of one.
func (c *call) openTerminal(in v1.TerminalOpenRequest) (v1.Opened, error) {
	name, action := c.path("name"), access.TermUse
	if in.View {
		action = access.TermView
	}
	j, err := c.Reader.FindShared(c.r.Context(), c.p, c.path("id"), action)
	if err == nil {
		err = checkTerminal(name)
	}
	switch {
	case err != nil:
		return v1.Opened{}, err
	case in.Step < 0:
		return v1.Opened{}, fault.Invalid("step", "must be the number of a step")
	case c.Apps == nil:
		return v1.Opened{}, fault.New(codes.Conflict, "this server has no pages")
	case !c.Sequencer.World().Site.Apps.Pages:
		return v1.Opened{}, world.NoPages()
	case j.State == workload.Ended:
		return v1.Opened{}, fault.New(codes.Gone, "job %s has ended, and its terminals with it", j.Name())
	}
	url, until, err := c.Apps.Page(id.User(c.p.User), c.token(), address.Terminal{Job: j.Name(), Name: name, Step: in.Step, View: in.View}.Path())
	return v1.Opened{URL: url, Expires: time.Unix(0, until).UTC()}, err
}

// Seat is whether somebody may use the terminals of a job: its row, and whether he may only
// look. The error is a *fault.Error.
func (s *Server) Seat(ctx context.Context, p access.Principal, job string) (j *workload.Job, view bool, err error) {
	j, err = s.Reader.FindShared(ctx, p, job, access.TermUse)
	if fault.Of(err) == codes.Denied {
		view = true
		j, err = s.Reader.FindShared(ctx, p, job, access.TermView)
	}
	return j, view, err
}

// JoinTerminal serves the WebSocket of a terminal's page, for somebody whom the transport
// knows; the request's path has the job's id and the terminal's name. A browser isn't told
// why a WebSocket is refused, so that is said on it.
func (s *Server) JoinTerminal(w http.ResponseWriter, r *http.Request, p access.Principal) {
	s.observed("page of a terminal", func(w http.ResponseWriter, r *http.Request) {
		noteCaller(w, p)
		c := &call{Server: s, w: w, r: r, p: p}
		err := c.join(presence.App)
		if err == nil {
			return
		}
		if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
			s.fail(w, r, err)
			return
		}
		c.explain(err)
	}).ServeHTTP(w, r)
}

// explain says on a WebSocket why there is nothing on it.
func (c *call) explain(err error) {
	problem := c.problem(c.r, c.w.Header().Get(requestID), err)
	conn, err := websocket.Accept(c.w, c.r, nil)
	if err != nil {
		return // it has answered
	}
	defer conn.CloseNow() //nolint:errcheck // closed properly before, where that was possible
	s := session{conn: conn, patience: c.slowest}
	ctx, cancel := context.WithTimeout(c.r.Context(), c.slowest)
	defer cancel()
	s.finish(ctx, v1.ExecResult{Error: problem.Detail, Code: problem.Code})
}

// notify keeps a client told what those in a job are to know, until stop is called.
func (c *call) notify(ctx context.Context, r *relay, job id.Job) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	told := make(chan struct{}, 1)
	deaf := c.Presence.Listen(job, func(string) {
		select {
		case told <- struct{}{}:
		default:
		}
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		look := time.NewTicker(c.recheck)
		defer look.Stop()
		for last := []byte("{}"); ; {
			next, err := json.Marshal(c.notice(job))
			if err == nil && string(next) != string(last) {
				if err = r.write(ctx, v1.TerminalNotes, next); err != nil {
					return
				}
				last = next
			}
			select {
			case <-told:
			case <-look.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() { deaf(); cancel(); <-done }
}

// notice is what those in a job are to know now.
func (c *call) notice(job id.Job) v1.TerminalNotice {
	i := c.Reader.Warned(c.p, job)
	if i == nil || i.StopsAt == nil {
		return v1.TerminalNotice{}
	}
	at := i.StopsAt.Truncate(time.Second) // it is reckoned anew at every look
	return v1.TerminalNotice{Text: "This job shows no sign of work", StopsAt: &at}
}
