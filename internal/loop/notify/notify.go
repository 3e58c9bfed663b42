// Package notify tells people what happened to what is theirs. What is to be told is found
// in the log and kept as rows, each once; a row is tried until a server has taken it, for
// days, or it is given up. Nothing waits for it, and nothing is decided by it.
package notify

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"time"

	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/loop"
	"croft.dev/croft/internal/notice"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

// Outbox is where notices are kept; the store has it.
type Outbox interface {
	NoticeCursor(ctx context.Context) (int64, error)
	Told(ctx context.Context, after, upTo int64, kinds []string, limit int) (rows []world.Entry, end int64, err error)
	// JobRows returns jobs, those that have ended too, by id.
	JobRows(ctx context.Context, ids []id.Job) ([]workload.Job, error)
	KeepNotices(ctx context.Context, upTo int64, rows []notice.Notice) error
	DueNotices(ctx context.Context, now int64, limit int) ([]notice.Notice, error)
	SettleNotices(ctx context.Context, rows []notice.Notice) error
	GiveUpNotices(ctx context.Context, made, now int64, why string) (int64, error)
	DropNotices(ctx context.Context, before int64) (int64, error)
}

// Mail is one mail. ID is the same again whenever the same one is sent again.
type Mail struct {
	ID, To, Subject, Body string
	At                    time.Time
}

// Session is a connection to the mail server.
type Session interface {
	// Send hands one over. An error that is a Refusal is about this mail, any other about
	// the connection, of which nothing more is to be expected.
	Send(m Mail) error
	Close() error
}

// Refusal is an answer of the mail server's that it doesn't take a mail.
type Refusal struct {
	Never bool // there is no use in trying again
	Code  int  // of SMTP; 0: it was never asked
	Err   error
}

func (r *Refusal) Error() string { return r.Err.Error() }

// Config of the loop.
type Config struct {
	Port   loop.Port
	Outbox Outbox
	// Open connects to the mail server; nil: there is none, and nothing is mailed.
	Open     func(ctx context.Context) (Session, error)
	Hooks    bool           // the site has hooks; there is a Poster for them
	Instance string         // in every ID
	Server   string         // its public URL, for links; "": none
	Zone     *time.Location // of times in texts
	Keep     time.Duration  // a notice that is older isn't tried any more
	PerHour  int64          // mails to one address; more wait
	Log      *slog.Logger
}

// Loop is the loop. Make it with New.
type Loop struct {
	Config
	looked int64 // row of the log up to which nothing is left to be told
	kept   place // the same, as the outbox knows it, and when that was written
	known  bool  // looked is
	server outage
	sent   map[string]hour
	warned place // up to where the accounts' credits were looked at
	swept  int64 // ns; when old notices were last looked for
}

// hour counts what an address was sent.
type hour struct {
	from int64 // ns
	n    int64
}

// New returns the loop.
func New(c Config) *Loop { return &Loop{Config: c, sent: map[string]hour{}} }

const (
	period  = time.Second
	rows    = 500                // of the log that are looked at together
	lag     = 5000               // rows by which the outbox may be behind where nothing is to be told,
	lagTime = int64(time.Minute) // and ns
	batch   = 50                 // mails that are sent together
	hourNs  = int64(time.Hour)
	// warnPeriod is the time between looks at accounts' credits, in ns.
	warnPeriod = int64(10 * time.Second)
	dayNs      = 24 * hourNs
	history    = 30 * dayNs // for which one can see what was told
)

// Run tells until ctx ends.
func (l *Loop) Run(ctx context.Context) { loop.Every(ctx, l.Log, "notify", period, l.Once) }

// Once makes the notices that there are to be and tries those that are due. While the wall
// clock has jumped it does nothing.
func (l *Loop) Once(ctx context.Context) error {
	now, ok := l.Port.Now()
	if !ok {
		return nil
	}
	if err := l.warn(ctx, now); err != nil {
		return err
	}
	if err := l.collect(ctx, now); err != nil {
		return err
	}
	if err := l.deliver(ctx, now); err != nil {
		return err
	}
	return l.sweep(ctx, now)
}

// sweep gives up what is too old to be tried again, and forgets what is long through.
func (l *Loop) sweep(ctx context.Context, now int64) error {
	if now-l.swept < hourNs {
		return nil
	}
	l.swept = now
	n, err := l.Outbox.GiveUpNotices(ctx, now-int64(l.Keep), now, unreachable)
	if err != nil {
		return err
	}
	if n > 0 {
		l.Log.Warn("notices are given up: no server took them in time", "notices", n)
	}
	_, err = l.Outbox.DropNotices(ctx, now-history)
	return err
}

const unreachable = "the mail server wasn't reached"

// place is a moment of the world.
type place struct{ seq, now int64 }

// warn has it noted that accounts have used most of their credits, of which their managers
// are then told.
func (l *Loop) warn(ctx context.Context, now int64) error {
	w := l.Port.World()
	if w.Seq == l.warned.seq || now-l.warned.now < warnPeriod {
		return nil
	}
	for k := range w.Tenancy.Accounts.All() {
		if _, change := command.CreditLevel(w, k, now); !change {
			continue
		}
		if _, err := l.Port.Command(ctx, command.CreditWarn{Account: k}); err != nil {
			return err
		}
	}
	l.warned = place{w.Seq, now}
	return nil
}

// collect looks through the log from where it was looked through. The notices and the place
// are written together, so that none is lost or made twice whenever the server ends.
func (l *Loop) collect(ctx context.Context, now int64) error {
	if !l.known {
		at, err := l.Outbox.NoticeCursor(ctx)
		if err != nil {
			return err
		}
		l.looked, l.kept, l.known = at, place{at, now}, true
	}
	w := l.Port.World()
	for l.looked < w.Seq {
		if err := ctx.Err(); err != nil {
			return err
		}
		entries, end, err := l.Outbox.Told(ctx, l.looked, w.Seq, kinds(), rows)
		if err != nil {
			return err
		}
		var found []notice.Notice
		if l.Open != nil || l.Hooks {
			if found, err = l.notices(ctx, w, entries); err != nil {
				return err
			}
		}
		if len(found) > 0 || end-l.kept.seq >= lag {
			if err := l.Outbox.KeepNotices(ctx, end, found); err != nil {
				return err
			}
			l.kept = place{end, now}
		}
		l.looked = end
	}
	if l.looked == l.kept.seq || now-l.kept.now < lagTime {
		return nil
	}
	l.kept = place{l.looked, now}
	return l.Outbox.KeepNotices(ctx, l.looked, nil)
}

// outage is how long the mail server has not been reached.
type outage struct {
	tries int64
	until int64 // ns; not tried before
}

// deliver sends what is due, over one connection.
func (l *Loop) deliver(ctx context.Context, now int64) error {
	if l.Open == nil || now < l.server.until {
		return nil
	}
	due, err := l.Outbox.DueNotices(ctx, now, batch)
	if err != nil || len(due) == 0 {
		return err
	}
	s, err := l.Open(ctx)
	if err != nil {
		return l.unreached(ctx, due[:1], now, err)
	}
	defer s.Close() //nolint:errcheck // what was taken is taken
	w := l.Port.World()
	for _, n := range due {
		if err := ctx.Err(); err != nil {
			return err // nothing more is sent by who may not lead any more
		}
		to, why := recipient(w, n, now)
		if why != "" {
			if err := l.settle(ctx, n.Dropped(now, why)); err != nil {
				return err
			}
			continue
		}
		if wait := l.room(to, now); wait != 0 {
			n.Due = wait
			if err := l.settle(ctx, n); err != nil {
				return err
			}
			continue
		}
		err := s.Send(Mail{ID: n.Name + "@" + l.Instance, To: to, Subject: n.Subject, Body: n.Body, At: time.Unix(0, n.At)})
		var no *Refusal
		switch {
		case err == nil:
			l.count(to, now)
			l.reached()
			err = l.settle(ctx, n.Taken(now))
		case errors.As(err, &no):
			l.reached()
			l.Log.Warn("the mail server doesn't take a notice", "notice", n.Name, "again", !no.Never, "error", no.Err)
			err = l.settle(ctx, n.Failed(now, int64(l.Keep), no.Never, refusal(no)))
		default:
			return l.unreached(ctx, []notice.Notice{n}, now, err)
		}
		if err != nil {
			return err // it is sent again, with the same ID
		}
	}
	return nil
}

func (l *Loop) settle(ctx context.Context, n notice.Notice) error {
	return l.Outbox.SettleNotices(ctx, []notice.Notice{n})
}

// refusal is why a mail wasn't taken, as its recipient may read it: what the server said may
// be about the site.
func refusal(r *Refusal) string {
	switch {
	case r.Code == 0:
		return "it can't be sent to this address"
	case r.Never:
		return "the mail server refuses it (" + strconv.Itoa(r.Code) + ")"
	}
	return "the mail server doesn't take it now (" + strconv.Itoa(r.Code) + ")"
}

// unreached notes that the mail server wasn't. It is said once; those that were tried are
// tried again later, and given up once they are too old.
func (l *Loop) unreached(ctx context.Context, tried []notice.Notice, now int64, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if l.server.tries++; l.server.tries == 1 {
		l.Log.Warn("mail can't be sent, will be tried again", "error", err)
	}
	l.server.until = now + min(notice.Again(l.server.tries), hourNs/2)
	var out []notice.Notice
	for _, n := range tried {
		if n = n.Failed(now, int64(l.Keep), false, unreachable); n.State == notice.GivenUp {
			l.Log.Warn("a notice is given up: the mail server wasn't reached in time", "notice", n.Name)
		}
		out = append(out, n)
	}
	return l.Outbox.SettleNotices(ctx, out)
}

// reached notes that the mail server answers.
func (l *Loop) reached() {
	if l.server.tries > 0 {
		l.Log.Info("mail is sent again")
	}
	l.server = outage{}
}

// recipient is where a notice goes, as of now, or why nowhere.
func recipient(w *world.World, n notice.Notice, now int64) (to, why string) {
	u, _ := w.Tenancy.Users.Get(n.User)
	if barred := u.Barred(now); barred != "" {
		return "", "the user is " + barred
	}
	if to = n.Address; to == "" {
		to = w.Notices.Of(n.User).Address
	}
	if to == "" {
		return "", "the user has no address"
	}
	return to, ""
}

// room is when an address may be sent more, in ns; 0: now.
func (l *Loop) room(to string, now int64) int64 {
	h := l.sent[to]
	if now-h.from >= hourNs || h.n < l.PerHour {
		return 0
	}
	return h.from + hourNs
}

// count notes that an address was sent something, and forgets what is long past.
func (l *Loop) count(to string, now int64) {
	h := l.sent[to]
	if now-h.from >= hourNs {
		for k, old := range l.sent {
			if now-old.from >= hourNs {
				delete(l.sent, k)
			}
		}
		h = hour{from: now}
	}
	h.n++
	l.sent[to] = h
}
