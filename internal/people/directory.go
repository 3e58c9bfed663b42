package people

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/fault"
)

// Config says how the machine is asked. The zero value is good.
type Config struct {
	// Run runs a command; nil runs it on this machine. See Command.
	Run Command
	// NSSwitch is the file that names the sources, by default /etc/nsswitch.conf.
	NSSwitch string
	// Timeout bounds one answer, by default 2 s. Enumerating all users has five
	// times as long.
	Timeout time.Duration
	// Keep is how long an answer is used without asking again, by default 30 s.
	Keep time.Duration
	// KeepNone is the same for "no such" and for a failure, by default 5 s.
	KeepNone time.Duration
	// KeepStale is how long an answer is used while the machine gives none, by
	// default 1 h: after that a user who was removed must not get in any more.
	KeepStale time.Duration
}

// Directory answers who is who. All methods may be called concurrently.
type Directory struct {
	cfg    Config
	flight singleflight.Group
	slots  chan struct{} // held by commands that run

	mu    sync.Mutex
	cache map[query]answer
}

// query is a question to getent: a database and a key, "" for all of it.
type query struct{ database, key string }

// answer is what is known of a query.
type answer struct {
	text  string
	found bool
	err   error     // last failure, while text is from before it
	at    time.Time // of text
	until time.Time // ask again after it
}

// Commands that may run at once, each for at most its timeout unless the kernel
// can't end it; and answers kept.
const (
	maxCommands = 8
	maxAnswers  = 10_000
)

// New returns a Directory.
func New(cfg Config) *Directory {
	if cfg.Run == nil {
		cfg.Run = run
	}
	if cfg.NSSwitch == "" {
		cfg.NSSwitch = "/etc/nsswitch.conf"
	}
	for _, p := range []struct {
		v      *time.Duration
		preset time.Duration
	}{{&cfg.Timeout, 2 * time.Second}, {&cfg.Keep, 30 * time.Second}, {&cfg.KeepNone, 5 * time.Second}, {&cfg.KeepStale, time.Hour}} {
		if *p.v == 0 {
			*p.v = p.preset
		}
	}
	return &Directory{cfg: cfg, slots: make(chan struct{}, maxCommands), cache: make(map[query]answer)}
}

// lookup returns the text that answers q: from the cache, from the machine, or,
// while the machine doesn't answer, from before. Errors: not_found, unavailable.
func (d *Directory) lookup(ctx context.Context, q query) (string, error) {
	if a, ok := d.cached(q, time.Now()); ok {
		return a.result(q)
	}
	// The command isn't the first caller's alone, so that one's context doesn't end
	// it. Nor do callers wait for one that can't be ended; it keeps its slot.
	c := d.flight.DoChan(q.database+" "+q.key, func() (any, error) { return d.refresh(context.WithoutCancel(ctx), q), nil })
	wait, cancel := context.WithTimeout(ctx, d.timeout(q)+time.Second)
	defer cancel()
	select {
	case r := <-c:
		return r.Val.(answer).result(q)
	case <-wait.Done():
		if err := ctx.Err(); err != nil {
			return "", err
		}
		return d.failed(q, errNoAnswer).result(q)
	}
}

var (
	errNoAnswer = errors.New("no answer in time")
	errTooMuch  = errors.New("an answer beyond all bounds")
	errBusy     = errors.New("earlier questions are still without an answer")
)

func (d *Directory) timeout(q query) time.Duration {
	if q.key == "" {
		return 5 * d.cfg.Timeout
	}
	return d.cfg.Timeout
}

func (d *Directory) cached(q query, now time.Time) (answer, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	a, ok := d.cache[q]
	return a, ok && now.Before(a.until)
}

// refresh asks the machine and remembers what it says.
func (d *Directory) refresh(ctx context.Context, q query) answer {
	ctx, cancel := context.WithTimeout(ctx, d.timeout(q))
	defer cancel()
	select {
	case d.slots <- struct{}{}:
		defer func() { <-d.slots }()
	case <-ctx.Done():
		return d.failed(q, errBusy)
	}
	text, found, err := d.ask(ctx, q)
	if err != nil {
		return d.failed(q, err)
	}
	now := time.Now()
	a := answer{text: text, found: found, at: now, until: now.Add(d.cfg.Keep)}
	if !found {
		a.until = now.Add(d.cfg.KeepNone)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.keep(q, a)
	return a
}

// failed notes that the machine didn't answer q. What it said before holds on.
func (d *Directory) failed(q query, err error) answer {
	now := time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	a, ok := d.cache[q]
	if ok && now.Before(a.until) {
		return a // answered meanwhile
	}
	if !ok || !a.found || now.Sub(a.at) > d.cfg.KeepStale {
		a = answer{}
	}
	a.err, a.until = err, now.Add(d.cfg.KeepNone)
	d.keep(q, a)
	return a
}

// keep stores a. The caller holds the lock.
func (d *Directory) keep(q query, a answer) {
	if _, there := d.cache[q]; !there && len(d.cache) >= maxAnswers {
		d.evict(a.until)
	}
	d.cache[q] = a
}

// evict makes room: what is too old to be used, else the half that ends first.
func (d *Directory) evict(now time.Time) {
	var ends []time.Time
	for q, a := range d.cache {
		if now.Sub(a.until) > d.cfg.KeepStale {
			delete(d.cache, q)
			continue
		}
		ends = append(ends, a.until)
	}
	if len(d.cache) < maxAnswers {
		return
	}
	slices.SortFunc(ends, time.Time.Compare)
	middle := ends[len(ends)/2]
	for q, a := range d.cache {
		if !a.until.After(middle) {
			delete(d.cache, q)
		}
	}
}

func (a answer) result(q query) (string, error) {
	switch {
	case a.found:
		return a.text, nil
	case a.err != nil:
		return "", fault.New(codes.Unavailable, "this machine's user database doesn't answer (%s: %v); try again", q, a.err)
	}
	kind := "user"
	if q.database == "group" {
		kind = "group"
	}
	return "", fault.NotFound(kind+" of this machine", q.key)
}

func (q query) String() string { return strings.TrimSpace("getent " + q.database + " " + q.key) }

// Source returns where the machine's users come from, in the order of the search:
// "files", "sss" (sssd), "ldap", "winbind", "systemd"…
func (d *Directory) Source(context.Context) ([]string, error) {
	text, err := os.ReadFile(d.cfg.NSSwitch)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fault.New(codes.Unavailable, "%s can't be read", d.cfg.NSSwitch)
	}
	return parseSources(string(text)), nil
}
