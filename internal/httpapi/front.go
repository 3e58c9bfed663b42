package httpapi

import (
	"context"
	"net/http"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/sequencer"
	"croft.dev/croft/internal/tenancy"
)

// What follows is for other transports, so that all know people by the same rules.

// Allowed refuses a request that names a host that isn't this server's.
func (s *Server) Allowed(r *http.Request) error { return s.hostAllowed(r) }

// Passwords reports whether any are taken.
func (s *Server) Passwords() bool { return s.Login.Hasher != nil }

// LogIn opens a session for who knows a user's password, at the pace that guesses allow.
func (s *Server) LogIn(r *http.Request, user, password, name string) (tenancy.Token, error) {
	row, _, err := (&call{Server: s, r: r}).openSession(v1.LoginRequest{User: user, Password: password, Name: name})
	return row, err
}

// ByLinks is the session of a user's browsers that come in by links for which he has shown
// none; it lasts until a time in ns, at least.
func (s *Server) ByLinks(ctx context.Context, user id.User, until int64) (id.Token, error) {
	u, _ := s.Sequencer.World().Tenancy.Users.Get(user)
	got, err := s.Sequencer.Do(ctx, sequencer.Actor{User: user}, command.SessionByLinks{User: u.Name, Expires: until}, sequencer.Key{})
	if err != nil {
		return 0, err
	}
	row, ok := got.Result.(tenancy.Token)
	if !ok {
		return 0, unexpected(got)
	}
	return row.ID, nil
}

// LogOut ends the session that p came by; a token that isn't one stays.
func (s *Server) LogOut(ctx context.Context, p access.Principal) error {
	t, ok := s.Sequencer.World().Tenancy.Tokens.Get(id.Token(p.Narrow.Token))
	if !ok || !t.Session() {
		return nil
	}
	_, err := s.Sequencer.Do(ctx, sequencer.Actor{User: id.User(p.User), Token: t.ID}, command.TokenRevoke{User: p.Name, Token: t.ID, Session: true}, sequencer.Key{})
	return err
}

// Bearer is whom a token of this server in the header Authorization stands for; ours is
// false when there is none there.
func (s *Server) Bearer(r *http.Request) (p access.Principal, ours bool, err error) {
	secret, ok := bearer(r.Header.Get("Authorization"))
	if !ok || !wellFormed(secret) {
		return p, false, nil
	}
	user, token, err := s.byToken(r)
	if err != nil {
		return p, true, err
	}
	p, _ = s.Known(r.Context(), user.ID, token)
	return p, true, nil
}

// Known is a user as of now, by the token or session that was shown before (0: the socket
// has said it); false when that isn't good any more, or the user may nothing.
func (s *Server) Known(ctx context.Context, user id.User, token id.Token) (access.Principal, bool) {
	w := s.Sequencer.World()
	now := max(s.Now(), w.Now)
	if token != 0 {
		t, ok := w.Tenancy.Tokens.Get(token)
		if !ok || !s.good(t, now) {
			return access.Principal{}, false
		}
		s.noteUse(ctx, t, now)
	}
	p := w.Principal(user, token, now)
	return p, p.User != 0 && !p.Blocked
}

// From is where a request comes from: its address, or the network that it is of.
func (s *Server) From(r *http.Request) string { return (&call{Server: s, r: r}).from() }
