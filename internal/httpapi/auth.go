package httpapi

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/tenancy"
)

// authenticate finds out who calls. On a unix socket the kernel says it and nothing
// that is sent counts; elsewhere a personal token or a session does.
func (s *Server) authenticate(r *http.Request) (access.Principal, error) {
	if err := s.hostAllowed(r); err != nil {
		return access.Principal{}, err
	}
	var user tenancy.User
	var token id.Token
	var err error
	if from, ok := r.Context().Value(peerKey{}).(peer); ok {
		user, err = s.byPeer(r, from)
	} else {
		user, token, err = s.byToken(r)
	}
	if err != nil {
		return access.Principal{}, err
	}
	w := s.Sequencer.World()
	now := max(s.Now(), w.Now)
	if t, ok := w.Tenancy.Tokens.Get(token); ok {
		s.noteUse(r.Context(), t, now)
	}
	if why := user.Barred(now); why != "" {
		return access.Principal{}, fault.New(codes.Denied, "user %s is %s: ask an admin", user.Name, why)
	}
	return w.Principal(user.ID, token, now), nil
}

// byPeer trusts a uid only as long as it is the name's that it was bound to: uids
// are given out again.
func (s *Server) byPeer(r *http.Request, from peer) (tenancy.User, error) {
	if from.err != nil {
		return tenancy.User{}, fmt.Errorf("the peer of a unix socket: %w", from.err)
	}
	name, err := s.People.NameOf(r.Context(), from.uid)
	if err != nil {
		s.Logger.Warn("users of the machine can't be looked up", "uid", from.uid, "error", err)
		return tenancy.User{}, fault.New(codes.Unavailable, "the machine's users can't be looked up right now; try again")
	}
	user, bound := s.Sequencer.World().Tenancy.UserOfUID(from.uid)
	switch {
	case bound && name != user.Name:
		s.Reused(user, name)
		return user, fault.New(codes.Denied, "uid %d was user %s and is %s now: an admin must run croft user set %s --rebind",
			from.uid, user.Name, orWord(name, "nobody"), user.Name)
	case name == "":
		return user, fault.New(codes.Denied, "uid %d has no name on this machine: Croft can't tell who you are", from.uid)
	case !bound:
		return user, fault.New(codes.Denied, "you (%s, uid %d) aren't a Croft user: ask an admin to run croft user add %s", name, from.uid, name)
	}
	return user, nil
}

func orWord(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// byToken looks a token up by its hash: what is compared is no secret, so
// timing tells nothing.
func (s *Server) byToken(r *http.Request) (tenancy.User, id.Token, error) {
	header := r.Header.Get("Authorization")
	if header == "" {
		return tenancy.User{}, 0, fault.New(codes.Unauthenticated, "who are you? Log in (croft login), send a token (croft user token create NAME), or use the unix socket")
	}
	secret, ok := bearer(header)
	if ok && wellFormed(secret) {
		w := s.Sequencer.World()
		if t, found := w.Tenancy.TokenOfHash(hashToken(secret)); found && s.good(t, max(s.Now(), w.Now)) {
			if user, found := w.Tenancy.Users.Get(t.User); found {
				return user, t.ID, nil
			}
		}
	}
	if !s.failures.allow(s.Now()) {
		return tenancy.User{}, 0, fault.New(codes.TooMany, "too many wrong tokens: wait a moment")
	}
	return tenancy.User{}, 0, fault.New(codes.Unauthenticated, "this token isn't valid: it may have ended or been revoked")
}

// good reports whether a token or session is still worth something.
func (s *Server) good(t tenancy.Token, now int64) bool {
	return t.Usable(now) && (s.Login.Hasher != nil || !t.Session())
}

// bearer reads the header's token; the scheme is in any case (RFC 9110, 11.1).
func bearer(header string) (string, bool) {
	scheme, token, ok := strings.Cut(header, " ")
	return strings.TrimSpace(token), ok && strings.EqualFold(scheme, "bearer")
}

// failures bounds how often per second a wrong token is answered at all. Right
// ones are never held up by it.
type failures struct {
	mu     sync.Mutex
	second int64
	count  int
}

const failuresPerSecond = 20

func (f *failures) allow(now int64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if second := now / 1e9; second != f.second {
		f.second, f.count = second, 0
	}
	f.count++
	return f.count <= failuresPerSecond
}

// hostAllowed keeps a browser from being led here under another name (DNS
// rebinding): over TCP the request must name this machine.
func (s *Server) hostAllowed(r *http.Request) error {
	if _, unix := r.Context().Value(peerKey{}).(peer); unix {
		return nil
	}
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.ToLower(strings.Trim(host, "[]"))
	ip, err := netip.ParseAddr(host)
	if host == "localhost" || err == nil && ip.IsLoopback() || slices.Contains(s.Hosts, host) {
		return nil
	}
	return fault.New(codes.Denied, "this server isn't called that: use 127.0.0.1, or add the name to listen.hosts in its configuration")
}
