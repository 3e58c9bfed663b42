package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"
	"unicode"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/password"
	"croft.dev/croft/internal/sequencer"
	"croft.dev/croft/internal/tenancy"
)

// Login is how passwords are taken.
type Login struct {
	Hasher    *password.Hasher // nil: they aren't
	Session   time.Duration    // a session's life
	Idle      time.Duration    // a session's life unused
	Forwarded bool             // X-Forwarded-For is a proxy's word
}

// guesses slows down who guesses passwords: from one place at one user's, from one
// place at anybody's, and from anywhere at one user's. The last doesn't hold for a
// place that the user came from before, so that who attacks a user doesn't keep
// that user out. Nothing here is ever locked.
type guesses struct {
	pair, place, user *slowdown

	mu    sync.Mutex
	known map[string]bool // pairs that a login succeeded from
}

// maxKnown bounds the pairs that are remembered. Only right passwords add to them.
const maxKnown = 10_000

func newGuesses() *guesses {
	return &guesses{
		pair:  newSlowdown(5, 20*time.Second),
		place: newSlowdown(100, 3*time.Second),
		user:  newSlowdown(50, 10*time.Second),
		known: map[string]bool{},
	}
}

// try lets a guess be made, or says how long to wait. right takes it back when it
// was the right one.
func (g *guesses) try(user, from string, now int64) (right func(), err error) {
	pair := user + "\x00" + from
	taken := []func(){}
	back := func() {
		for _, give := range taken {
			give()
		}
	}
	for _, b := range []struct {
		of   *slowdown
		key  string
		skip bool
	}{{g.pair, pair, false}, {g.place, from, false}, {g.user, user, g.knows(pair)}} {
		if b.skip {
			continue
		}
		give, wait := b.of.take(b.key, now)
		if wait > 0 {
			back()
			return nil, fault.New(codes.TooMany, "too many wrong passwords: try again in %ds", wait/1e9+1)
		}
		taken = append(taken, give)
	}
	return func() { back(); g.know(pair) }, nil
}

func (g *guesses) knows(pair string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.known[pair]
}

func (g *guesses) know(pair string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.known) >= maxKnown {
		for old := range g.known { // any will do: it is only spared some waiting
			delete(g.known, old)
			break
		}
	}
	g.known[pair] = true
}

// from is where a request comes from: a peer's uid, or an address; of IPv6 the
// network, of which one machine commonly has all.
func (c *call) from() string {
	if p, ok := c.r.Context().Value(peerKey{}).(peer); ok {
		return fmt.Sprint("uid ", p.uid)
	}
	host, _, err := net.SplitHostPort(c.r.RemoteAddr)
	if err != nil {
		host = c.r.RemoteAddr
	}
	if list := c.r.Header.Values("X-Forwarded-For"); c.Login.Forwarded && len(list) > 0 {
		all := strings.Split(list[len(list)-1], ",")
		host = strings.TrimSpace(all[len(all)-1])
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return "nowhere"
	}
	if ip = ip.Unmap(); ip.Is6() {
		if net, err := ip.WithZone("").Prefix(64); err == nil {
			return net.String()
		}
	}
	return ip.String()
}

// errWrong is the one answer to a wrong password, a user who has none, and one who
// doesn't exist.
func errWrong() error {
	return fault.New(codes.Unauthenticated, "the user or the password is wrong")
}

// proof is a user whose password was right.
type proof struct {
	user tenancy.User
	kept string // the hash that it was checked against
	weak bool   // it costs less than new ones do
}

// check compares a user's password with what is kept, at the pace that guesses
// allow.
func (c *call) check(name, text string) (proof, error) {
	if c.Login.Hasher == nil {
		return proof{}, fault.New(codes.Denied, "this server takes no passwords: use a token, or the unix socket")
	}
	right, err := c.guesses.try(name, c.from(), c.Now())
	if err != nil {
		c.Logger.Info("too many wrong passwords", "from", c.from())
		return proof{}, err
	}
	w := c.Sequencer.World()
	user, known := w.Tenancy.User(name)
	var kept tenancy.Password
	if known {
		kept, _ = w.Tenancy.Passwords.Get(user.ID)
	}
	ok, weak, err := c.Login.Hasher.Verify(c.r.Context(), kept.Hash, text)
	switch {
	case err != nil:
		return proof{}, hashError(err)
	case !ok:
		// The name only of who exists: people type passwords into the wrong field.
		c.Logger.Info("wrong password", "user", user.Name, "from", c.from())
		return proof{}, errWrong()
	}
	right()
	return proof{user, kept.Hash, weak}, nil
}

func hashError(err error) error {
	if errors.Is(err, password.ErrBusy) {
		return fault.New(codes.TooMany, "too many logins at once: try again in a moment")
	}
	return err
}

// login opens a session for who knows a user's password.
func (c *call) login(in v1.LoginRequest) (v1.Session, error) {
	row, secret, err := c.openSession(in)
	if err != nil {
		return v1.Session{}, err
	}
	out := c.Reader.Session(c.p, row)
	out.Secret = secret
	return out, nil
}

func (c *call) openSession(in v1.LoginRequest) (row tenancy.Token, secret string, err error) {
	if err := oneLine("name", in.Name); err != nil {
		return row, "", err
	}
	known, err := c.check(in.User, in.Password)
	if err != nil {
		return row, "", err
	}
	now := max(c.Now(), c.Sequencer.World().Now)
	if why := known.user.Barred(now); why != "" {
		return row, "", fault.New(codes.Denied, "user %s is %s: ask an admin", known.user.Name, why)
	}
	if secret, err = newToken(c.Random); err != nil {
		return row, "", err
	}
	cmd := command.SessionOpen{
		User: known.user.Name, Name: in.Name, Hash: hashToken(secret), Expires: now + int64(c.Login.Session), Idle: int64(c.Login.Idle), Verified: known.kept,
	}
	if known.weak {
		if cmd.Renewed, err = c.Login.Hasher.Hash(c.r.Context(), in.Password); err != nil {
			return row, "", hashError(err)
		}
	}
	got, err := c.Sequencer.Do(c.r.Context(), sequencer.Actor{User: known.user.ID}, cmd, sequencer.Key{})
	if err != nil {
		return row, "", err
	}
	row, ok := got.Result.(tenancy.Token)
	if !ok {
		return row, "", unexpected(got)
	}
	return row, secret, nil
}

func oneLine(field, text string) error {
	if len(text) > 64 || strings.ContainsFunc(text, unicode.IsControl) {
		return fault.Invalid(field, "at most 64 bytes on one line")
	}
	return nil
}

// logout ends the session that the request came with.
func (c *call) logout() error {
	t, ok := c.Sequencer.World().Tenancy.Tokens.Get(c.token())
	if !ok || !t.Session() {
		return fault.New(codes.Conflict, "this isn't a session: tokens are ended by croft user token revoke")
	}
	_, err := c.do(command.TokenRevoke{User: c.p.Name, Token: t.ID, Session: true})
	return err
}

func (c *call) sessions() (v1.Page[v1.Session], error) {
	return page(c.Reader.Sessions(c.p, c.path("name")))
}

func (c *call) revokeSession() error {
	n, err := rowID("session", c.path("id"))
	if err != nil {
		return err
	}
	_, err = c.do(command.TokenRevoke{User: c.path("name"), Token: tokenID(n), Session: true})
	return err
}

func (c *call) revokeSessions() error {
	_, err := c.do(command.SessionsEnd{User: c.path("name")})
	return err
}

// setPassword sets a password. Whoever sets his own gives the one he has, at the
// pace of logins: a session that somebody left open isn't his password.
func (c *call) setPassword(in v1.PasswordChange) (v1.PasswordChanged, error) {
	name := c.path("name")
	if _, err := c.Reader.Sessions(c.p, name); err != nil {
		return v1.PasswordChanged{}, err // whoever may not gets no hash computed
	}
	if c.Login.Hasher == nil {
		return v1.PasswordChanged{}, fault.New(codes.Denied, "this server takes no passwords")
	}
	if in.Remove == (in.New != "") {
		return v1.PasswordChanged{}, fault.Invalid("new", "give a new password, or say that it is removed")
	}
	cmd := command.PasswordPut{User: name}
	var err error
	if !in.Remove {
		if err := password.Rule(name, in.New); err != nil {
			return v1.PasswordChanged{}, fault.Invalid("new", "%v", err)
		}
	}
	if cmd.Was, err = c.oldPassword(name, in.Old); err != nil {
		return v1.PasswordChanged{}, err
	}
	if !in.Remove {
		if cmd.Hash, err = c.Login.Hasher.Hash(c.r.Context(), in.New); err != nil {
			return v1.PasswordChanged{}, hashError(err)
		}
	}
	// Without an idempotency key, with which the log would keep a digest of the body.
	got, err := c.Sequencer.Do(c.r.Context(), sequencer.Actor{User: id.User(c.p.User), Token: c.token()}, cmd, sequencer.Key{})
	if err != nil {
		return v1.PasswordChanged{}, err
	}
	ended, ok := got.Result.(int)
	if !ok {
		return v1.PasswordChanged{}, unexpected(got)
	}
	return v1.PasswordChanged{Sessions: ended}, nil
}

// oldPassword checks the caller's own old password, if he has one.
func (c *call) oldPassword(name, text string) (string, error) {
	if name != c.p.Name {
		return "", nil
	}
	w := c.Sequencer.World()
	user, _ := w.Tenancy.User(name)
	if _, has := w.Tenancy.Passwords.Get(user.ID); !has {
		return "", nil
	}
	if text == "" {
		return "", fault.Invalid("old", "give the password that you have; another admin can set a new one without")
	}
	known, err := c.check(name, text)
	if err != nil && fault.Of(err) == codes.Unauthenticated {
		return "", fault.Invalid("old", "isn't your password")
	}
	return known.kept, err
}

// noteUse puts a session's idle end off. That it can't be noted keeps nobody from
// working.
func (s *Server) noteUse(ctx context.Context, t tenancy.Token, now int64) {
	if !t.NoteUse(now) {
		return
	}
	if _, err := s.Sequencer.Do(ctx, sequencer.Actor{System: true, Name: "login"}, command.SessionUse{Session: t.ID}, sequencer.Key{}); err != nil {
		s.Logger.Warn("a session's use isn't noted", "session", int64(t.ID), "error", err)
	}
}
