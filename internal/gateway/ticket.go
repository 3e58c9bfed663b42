package gateway

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"sync"
	"time"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/address"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
)

// ticket lets its bearer in at one application, once, as who he is known for elsewhere.
type ticket struct {
	user  id.User
	token id.Token    // 0: the peer of the socket
	app   address.App // the zero value: the server's own pages
	next  string      // path below the application, with its query
	ends  int64       // ns
}

// Tickets are those that weren't used yet. They end with the server: whoever has one asks
// for another. Only their digests are kept.
type Tickets struct {
	site address.Site
	now  func() int64
	mu   sync.Mutex
	out  map[[sha256.Size]byte]ticket
	by   map[id.User]int
}

const (
	// TicketLife is how long a ticket is good for.
	TicketLife = 5 * time.Minute
	// maxTickets bounds what one user may have that he hasn't used.
	maxTickets = 100
)

// NewTickets returns a booth without any tickets sold.
func NewTickets(site address.Site, now func() int64) *Tickets {
	return &Tickets{site: site, now: now, out: map[[sha256.Size]byte]ticket{}, by: map[id.User]int{}}
}

// ticketPath is where a ticket is shown, below an application's address or the server's own.
const ticketPath = "/.croft/open"

// URL is an address that lets its bearer in at an application, once, until a time in ns, by
// the user and the token that he has shown.
func (t *Tickets) URL(user id.User, token id.Token, app address.App, next string) (url string, until int64, err error) {
	text, until, err := t.sell(user, token, app, next)
	if err != nil {
		return "", 0, err
	}
	return t.site.AppURL(app, ticketPath+"?ticket="+text), until, nil
}

// Page is one that lets its bearer in at the server's own pages.
func (t *Tickets) Page(user id.User, token id.Token, path string) (url string, until int64, err error) {
	text, until, err := t.sell(user, token, address.App{}, path)
	if err != nil {
		return "", 0, err
	}
	return t.site.URL(ticketPath + "?ticket=" + text), until, nil
}

// sell makes a ticket.
func (t *Tickets) sell(user id.User, token id.Token, app address.App, next string) (text string, until int64, err error) {
	if t.site.None() {
		return "", 0, fault.New(codes.Conflict, "this server can't be reached by browsers: set listen.http or public_url")
	}
	secret := make([]byte, 24)
	_, _ = rand.Read(secret) // never fails
	text = base64.RawURLEncoding.EncodeToString(secret)
	tk := ticket{user: user, token: token, app: app, next: next, ends: t.now() + int64(TicketLife)}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.by[user] >= maxTickets {
		t.sweep()
	}
	if t.by[user] >= maxTickets {
		return "", 0, fault.New(codes.TooMany, "you have asked for %d addresses that nobody has used yet: use one, or wait some minutes", maxTickets)
	}
	t.out[sha256.Sum256([]byte(text))] = tk
	t.by[user]++
	return text, tk.ends, nil
}

// sweep drops what is over. t.mu is held.
func (t *Tickets) sweep() {
	now := t.now()
	for k, tk := range t.out {
		if now >= tk.ends {
			t.drop(k, tk)
		}
	}
}

func (t *Tickets) drop(k [sha256.Size]byte, tk ticket) {
	delete(t.out, k)
	if t.by[tk.user]--; t.by[tk.user] == 0 {
		delete(t.by, tk.user)
	}
}

// redeem takes a ticket for an application; false: there is no such one, or not any more.
// One for another application is spent by the attempt.
func (t *Tickets) redeem(text string, app address.App) (ticket, bool) {
	k := sha256.Sum256([]byte(text))
	t.mu.Lock()
	defer t.mu.Unlock()
	tk, ok := t.out[k]
	if !ok {
		return ticket{}, false
	}
	t.drop(k, tk)
	return tk, tk.app == app && t.now() < tk.ends
}
