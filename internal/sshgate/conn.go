package sshgate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/presence"
	"croft.dev/croft/internal/sequencer"
)

// maxChannels bounds what goes on over one connection at once: sessions and forwarded
// connections. What is under way in each is bounded by its window, 2 MiB.
const maxChannels = 256

// connection is one that leads into a job.
type connection struct {
	*Server
	*entrance
	ssh arrived
	ctx context.Context
	end context.CancelCauseFunc

	channels sync.WaitGroup // what goes on, by begin
	starting sync.Mutex
	over     bool // nothing begins any more
	slots    chan struct{}
	noting   sync.Mutex
	forwards bool // ports, which is in the log
	listens  listeners
}

// lastWords is how long a connection that has to end may still say why.
const lastWords = time.Second

// serve is what a connection does until it ends: by its client, or because it may not go
// on.
func (s *Server) serve(sc arrived, in *entrance) {
	defer sc.Close()
	if !s.inside.take(in.p.User) {
		s.Logger.Warn("too many connections over SSH", "user", in.p.Name)
		return
	}
	defer s.inside.release(in.p.User)
	defer s.Presence.Enter(in.job.ID, presence.SSH)()
	ctx, end := context.WithCancelCause(s.closing)
	c := &connection{Server: s, entrance: in, ssh: sc, ctx: ctx, end: end, slots: make(chan struct{}, maxChannels)}
	defer end(nil)
	go func() { // the connection's end is that of all that goes on in it
		_ = sc.Wait()
		end(io.EOF)
	}()
	go c.requests()
	go c.watch()
	go c.keepalive()
	go c.closeAtEnd()
	for ch := range sc.channels {
		c.open(ch)
	}
	end(io.EOF)
	c.channels.Wait()
}

// closeAtEnd closes a connection that may not go on. What goes on in it ends at once, and
// has a moment in which to say why.
func (c *connection) closeAtEnd() {
	<-c.ctx.Done()
	c.starting.Lock()
	c.over = true // before it is waited for
	c.starting.Unlock()
	done := make(chan struct{})
	go func() { c.channels.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(lastWords):
	}
	c.ssh.Close()
}

// why is what ended the connection, for whoever is still there.
func (c *connection) why() error {
	cause := context.Cause(c.ctx)
	switch {
	case c.closing.Err() != nil:
		return errClosing
	case errors.Is(cause, errEnded):
		return fmt.Errorf("job %s has ended", c.entrance)
	}
	return cause
}

// watch ends the connection when the right ends by which it is there, or the job. What
// happened shows at the next publication, what ends by the clock at the next look.
func (c *connection) watch() {
	look := time.NewTicker(recheckPeriod)
	defer look.Stop()
	for {
		changed := c.Sequencer.Watch() // before looking, so that nothing is missed
		if err := c.still(c.entrance); err != nil {
			c.end(err)
			return
		}
		select {
		case <-changed:
		case <-look.C:
		case <-c.ctx.Done():
			return
		}
	}
}

// keepalive asks the client from time to time whether it is there, which also keeps
// whatever lies between from forgetting the connection.
func (c *connection) keepalive() {
	look := time.NewTicker(keepalivePeriod)
	defer look.Stop()
	for {
		select {
		case <-look.C:
		case <-c.ctx.Done():
			return
		}
		late := time.AfterFunc(keepalivePatient, func() { c.end(errSilent) })
		_, _, err := c.ssh.SendRequest("keepalive@openssh.com", true, nil)
		late.Stop()
		if err != nil {
			return
		}
	}
}

// requests answers those that are about the whole connection.
func (c *connection) requests() {
	for r := range c.ssh.requests {
		var answer []byte
		var err error
		switch r.Type {
		case "keepalive@openssh.com":
		case "tcpip-forward":
			answer, err = c.listen(r.Payload)
		case "cancel-tcpip-forward":
			err = c.unlisten(r.Payload)
		default:
			err = errBadRequest
		}
		if err != nil {
			c.Logger.Debug("a request over SSH is refused", "type", r.Type, "user", c.p.Name, "error", err)
		}
		if r.WantReply {
			_ = r.Reply(err == nil, answer) // a client that went away
		}
	}
}

// open lets a channel begin, if there may be one more.
func (c *connection) open(ch ssh.NewChannel) {
	var serve func(ssh.NewChannel)
	switch ch.ChannelType() {
	case "session":
		serve = c.session
	case "direct-tcpip":
		serve = c.direct
	default:
		_ = ch.Reject(ssh.UnknownChannelType, "not known here")
		return
	}
	select {
	case c.slots <- struct{}{}:
	default:
		_ = ch.Reject(ssh.ResourceShortage, "too much goes on over this connection already")
		return
	}
	if !c.begin(func() {
		defer func() { <-c.slots }()
		serve(ch)
	}) {
		<-c.slots
		_ = ch.Reject(ssh.ResourceShortage, "the connection ends")
	}
}

// begin lets something go on in the connection, unless that ends.
func (c *connection) begin(f func()) bool {
	c.starting.Lock()
	defer c.starting.Unlock()
	if !c.over {
		c.channels.Go(f)
	}
	return !c.over
}

// note puts an entry into the log before anything begins, which decides once more whether
// it may.
func (c *connection) note(ctx context.Context, cmd command.JobSSH) error {
	cmd.Job, cmd.Step, cmd.Key = c.job.ID, c.step, c.key
	actor := sequencer.Actor{User: id.User(c.p.User), Token: id.Token(c.p.Narrow.Token)}
	_, err := c.Sequencer.Do(ctx, actor, cmd, sequencer.Key{})
	return err
}
