package notify

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/loop"
	"croft.dev/croft/internal/notice"
	"croft.dev/croft/internal/world"
)

// Post is an event for a hook. ID is the same again whenever the same one is posted again.
type Post struct {
	Hook notice.Hook
	ID   string
	Body string // JSON
	Now  time.Time
}

// Unposted is why a hook hasn't taken an event.
type Unposted struct {
	Code int    // of HTTP; 0: nobody answered
	Said string // where nobody answered why, in words that its user may read
	Err  error
}

func (u *Unposted) Error() string { return u.Err.Error() }

// gone is how a hook says that it wants nothing any more, and never will.
const gone = 410

// mine reports whether it is about this event, and not about the hook.
func (u *Unposted) mine() bool {
	return u.Code >= 400 && u.Code < 500 && u.Code != 401 && u.Code != 403 && u.Code != 404 && u.Code != 408 && u.Code != 429
}

// PosterConfig of the loop.
type PosterConfig struct {
	Port   loop.Port
	Outbox PostOutbox
	// Send posts an event. Its error is an *Unposted.
	Send     func(ctx context.Context, p Post) error
	Instance string        // in every ID
	Keep     time.Duration // a notice that is older isn't tried any more
	PerHour  int64         // events to one hook; more wait
	Log      *slog.Logger
}

// PostOutbox is where notices are kept; the store has it.
type PostOutbox interface {
	DuePosts(ctx context.Context, now int64, each, limit int) ([]notice.Notice, error)
	SettleNotices(ctx context.Context, rows []notice.Notice) error
	PostponePosts(ctx context.Context, u id.User, hook string, until int64) error
}

// Poster is the loop that posts to hooks. Make it with NewPoster.
type Poster struct {
	PosterConfig
	sent map[string]hour
}

// NewPoster returns the loop.
func NewPoster(c PosterConfig) *Poster { return &Poster{PosterConfig: c, sent: map[string]hour{}} }

const (
	eachPosts = 20  // events of one hook that are posted in one turn
	allPosts  = 500 // and of all
	beside    = 8   // hooks that are posted to at a time
	turn      = 10 * time.Second
)

// Run posts until ctx ends.
func (p *Poster) Run(ctx context.Context) { loop.Every(ctx, p.Log, "webhooks", period, p.Once) }

// Once posts what is due: to each hook in order, to several beside each other. While the wall
// clock has jumped it does nothing.
func (p *Poster) Once(ctx context.Context) error {
	now, ok := p.Port.Now()
	if !ok || p.Send == nil {
		return nil
	}
	due, err := p.Outbox.DuePosts(ctx, now, eachPosts, allPosts)
	if err != nil || len(due) == 0 {
		return err
	}
	w := p.Port.World()
	soon, cancel := context.WithTimeout(ctx, turn)
	defer cancel()
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(beside)
	for len(due) > 0 {
		n := slices.IndexFunc(due, func(n notice.Notice) bool { return n.User != due[0].User || n.Hook != due[0].Hook })
		if n < 0 {
			n = len(due)
		}
		ofOne := due[:n]
		due = due[n:]
		room := p.room(ofOne, now)
		group.Go(func() error { return p.toHook(groupCtx, soon, w, ofOne, room, now) })
	}
	return group.Wait()
}

// toHook posts one hook's events in order, room of them at most. It ends at the first that is
// kept from it by the hook, and begins none once soon is over: others want to be posted to.
func (p *Poster) toHook(ctx, soon context.Context, w *world.World, events []notice.Notice, room int, now int64) error {
	for _, n := range events {
		if err := ctx.Err(); err != nil || soon.Err() != nil {
			return err // nothing more is sent by who may not lead any more
		}
		h, why := hookOf(w, n, now)
		if why != "" {
			if err := p.settle(ctx, n.Dropped(now, why)); err != nil {
				return err
			}
			continue
		}
		if room--; room < 0 {
			return p.Outbox.PostponePosts(ctx, n.User, n.Hook, now+int64(time.Minute))
		}
		stop, err := p.post(ctx, h, n, now)
		if err != nil || stop {
			return err
		}
	}
	return nil
}

// post posts one event; stop says that the hook takes nothing now.
func (p *Poster) post(ctx context.Context, h notice.Hook, n notice.Notice, now int64) (stop bool, err error) {
	err = p.Send(ctx, Post{Hook: h, ID: postID(n, p.Instance), Body: n.Body, Now: time.Unix(0, now)})
	if err == nil {
		return false, p.settle(ctx, n.Taken(now))
	}
	if ctx.Err() != nil {
		return true, ctx.Err()
	}
	no := &Unposted{Said: "it can't be posted", Err: err}
	errors.As(err, &no)
	p.Log.Warn("a webhook doesn't take a notice", "notice", n.Name, "host", h.Host(), "error", no.Err)
	if no.Code == gone {
		why := "its server has answered that it is gone (410)"
		if err := p.settle(ctx, n.Dropped(now, why)); err != nil {
			return true, err
		}
		_, err := p.Port.Command(ctx, command.HookOff{User: h.User, Name: h.Name, URL: h.URL, Why: why})
		return true, err
	}
	n = n.Failed(now, int64(p.Keep), false, cmp.Or(no.Said, "its server answers with "+strconv.Itoa(no.Code)))
	if n.State == notice.GivenUp {
		p.Log.Warn("a notice is given up: its webhook hasn't taken it in time", "notice", n.Name)
	}
	if err := p.settle(ctx, n); err != nil || no.mine() {
		return false, err
	}
	return true, p.Outbox.PostponePosts(ctx, n.User, n.Hook, now+notice.Again(n.Tries))
}

func (p *Poster) settle(ctx context.Context, n notice.Notice) error {
	return p.Outbox.SettleNotices(ctx, []notice.Notice{n})
}

// hookOf is the hook that a notice is posted to, as of now, or why none.
func hookOf(w *world.World, n notice.Notice, now int64) (h notice.Hook, why string) {
	u, _ := w.Tenancy.Users.Get(n.User)
	if barred := u.Barred(now); barred != "" {
		return h, "the user is " + barred
	}
	h, ok := w.Notices.Hook(n.User, n.Hook)
	switch {
	case !ok:
		return h, "there is no such webhook any more"
	case h.Off != "":
		return h, "the webhook is off: " + h.Off
	case w.Site.Hooks.Check(h.URL) != nil:
		return h, "this site doesn't post to its URL any more"
	case h.Account != 0 && !command.HookHears(w, h, n.Account, now):
		return h, "its user doesn't manage the account any more"
	}
	return h, ""
}

// postID is an event's name without the dots that stand between it and the rest of what is
// signed.
func postID(n notice.Notice, instance string) string {
	return strings.ReplaceAll(n.Name, ".", "_") + "_" + strings.ReplaceAll(instance, ".", "_")
}

// room is how many of a hook's events may be posted now, and counts them.
func (p *Poster) room(due []notice.Notice, now int64) int {
	key := strconv.FormatInt(int64(due[0].User), 10) + " " + due[0].Hook
	h := p.sent[key]
	if now-h.from >= hourNs {
		for k, old := range p.sent {
			if now-old.from >= hourNs {
				delete(p.sent, k)
			}
		}
		h = hour{from: now}
	}
	n := max(0, min(int(p.PerHour-h.n), len(due)))
	h.n += int64(n)
	p.sent[key] = h
	return n
}
