package httpapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/store"
)

func (h *harness) status(method, path, user string, body any) int {
	h.t.Helper()
	return h.send(request{method: method, path: path, user: user, body: body}).status
}

func TestSessions(t *testing.T) {
	h := newHarness(t)
	h.password("ada")
	first := h.login("ada", "desk")
	h.pass(time.Minute)
	h.login("ada", "laptop")
	if !strings.HasPrefix(first.Secret, tokenPrefix) || first.Name != "desk" {
		t.Errorf("%+v", first)
	}
	list := get[v1.Page[v1.Session]](h, 200, request{method: "GET", path: "/v1/users/ada/sessions", user: "laptop"}).Items
	if len(list) != 2 || list[0].Current || !list[1].Current || list[0].Secret != "" {
		t.Fatalf("%+v", list)
	}
	if tokens := get[v1.Page[v1.Token]](h, 200, request{method: "GET", path: "/v1/users/ada/tokens", user: "desk"}).Items; len(tokens) != 1 {
		t.Errorf("sessions are listed as tokens: %+v", tokens)
	}
	if got := h.status("DELETE", "/v1/users/ada/tokens/"+first.ID, "ada", nil); got != 404 {
		t.Errorf("a session revoked as a token: %d", got)
	}
	if got := h.status("DELETE", "/v1/users/ada/sessions/"+first.ID, "laptop", nil); got != 204 {
		t.Errorf("revoked: %d", got)
	}
	if got := h.status("GET", "/v1/me", "desk", nil); got != 401 {
		t.Errorf("after its end: %d", got)
	}
	h.login("ada", "desk")
	if got := h.status("DELETE", "/v1/users/ada/sessions", "laptop", nil); got != 204 || h.status("GET", "/v1/me", "desk", nil) != 401 || h.status("GET", "/v1/me", "laptop", nil) != 200 {
		t.Errorf("all others: %d", got)
	}
	if got := h.status("POST", "/v1/logout", "laptop", nil); got != 204 || h.status("GET", "/v1/me", "laptop", nil) != 401 {
		t.Errorf("logout: %d", got)
	}
	if got := h.status("POST", "/v1/logout", "ada", nil); got != 409 {
		t.Errorf("logout of a token: %d", got)
	}
}

// A session that is used lives until its end, one that isn't until it was idle for
// too long.
func TestSessionsEndByThemselves(t *testing.T) {
	h := newHarness(t)
	h.password("ada")
	h.login("ada", "used")
	h.login("ada", "idle")
	for range 13 {
		h.pass(12 * time.Hour)
		if got := h.status("GET", "/v1/me", "used", nil); got != 200 {
			t.Fatalf("a session in use: %d", got)
		}
	}
	if got := h.status("GET", "/v1/me", "idle", nil); got != 401 {
		t.Errorf("a session that was idle for days: %d", got)
	}
	h.pass(12 * time.Hour)
	if got := h.status("GET", "/v1/me", "used", nil); got != 401 {
		t.Errorf("after a week: %d", got)
	}
	if list := get[v1.Page[v1.Session]](h, 200, request{method: "GET", path: "/v1/users/ada/sessions", user: "root"}).Items; len(list) != 0 {
		t.Errorf("still listed: %+v", list)
	}
	h.login("ada", "new")
	u, _ := h.seq.World().Tenancy.User("ada")
	if kept := h.seq.World().Tenancy.TokensOf(u.ID); len(kept) != 2 {
		t.Errorf("what is over is kept: %+v", kept)
	}
}

// One user's sessions are bounded: the one that was idle the longest gives way.
func TestSessionsAreBounded(t *testing.T) {
	h := newHarness(t)
	h.password("ada")
	h.login("ada", "0")
	h.pass(2 * time.Hour)
	for i := range 64 {
		h.login("ada", fmt.Sprint(i+1))
	}
	if a, b := h.status("GET", "/v1/me", "0", nil), h.status("GET", "/v1/me", "1", nil); a != 401 || b != 200 {
		t.Errorf("the oldest: %d, the next: %d", a, b)
	}
}

// Whoever isn't let in learns nothing from the answer.
func TestWrongLoginsAreAlike(t *testing.T) {
	h := newHarness(t)
	h.password("ada")
	h.password("zoe")
	yes := true
	h.as("root", command.UserPut{Name: "zoe", Blocked: &yes})
	login := func(user, text string) (int, string) {
		var p v1.Problem
		a := h.send(request{method: "POST", path: "/v1/login", body: v1.LoginRequest{User: user, Password: text}})
		if a.status >= 400 {
			p = get[v1.Problem](h, a.status, request{method: "POST", path: "/v1/login", body: v1.LoginRequest{User: user, Password: text}})
		}
		return a.status, p.Detail
	}
	want, text := login("ada", "wrong")
	for _, who := range []string{"nobody", "mia", "zoe", "", "ada\x00", strings.Repeat("a", 1000)} {
		if got, detail := login(who, "wrong"); got != want || want != 401 || detail != text {
			t.Errorf("%.20q: %d %q, want %d %q", who, got, detail, want, text)
		}
	}
	if got, _ := login("zoe", secret("zoe")); got != 403 {
		t.Errorf("a blocked user with the right password: %d", got)
	}
	if got, _ := login("ada", secret("ada")+" "); got != 401 {
		t.Errorf("a space more: %d", got)
	}
}

// Guessing slows down, by user and place, and comes back by itself; others, and the
// user from where he was before, aren't kept out.
func TestGuessingIsSlowed(t *testing.T) {
	h := newHarness(t)
	h.password("ada")
	h.password("mia")
	login := func(user, text, from string) int {
		return h.send(request{method: "POST", path: "/v1/login", body: v1.LoginRequest{User: user, Password: text}, header: map[string]string{"X-Forwarded-For": "9.9.9.9, " + from}}).status
	}
	if got := login("ada", secret("ada"), "192.0.2.1"); got != 201 {
		t.Fatal(got)
	}
	slowed := 0
	for range 30 {
		if login("ada", "wrong", "192.0.2.66") == 429 {
			slowed++
		}
	}
	if slowed != 25 {
		t.Errorf("%d of 30 guesses from one place were slowed", slowed)
	}
	if got := login("ada", secret("ada"), "192.0.2.66"); got != 429 {
		t.Errorf("the right password after that: %d", got)
	}
	if a, b := login("ada", secret("ada"), "192.0.2.1"), login("mia", secret("mia"), "192.0.2.66"); a != 201 || b != 201 {
		t.Errorf("the user from elsewhere: %d, somebody else from there: %d", a, b)
	}
	for i := range 60 { // from everywhere
		login("ada", "wrong", fmt.Sprintf("2001:db8:0:%x::1", i))
	}
	if a, b := login("ada", secret("ada"), "192.0.2.99"), login("ada", secret("ada"), "192.0.2.1"); a != 429 || b != 201 {
		t.Errorf("from a new place: %d, from a known one: %d", a, b)
	}
	h.pass(20 * time.Second)
	if a, b := login("ada", "wrong", "192.0.2.66"), login("ada", "wrong", "192.0.2.66"); a != 401 || b != 429 {
		t.Errorf("after a while: %d, %d", a, b)
	}
	h.pass(20 * time.Second)
	if got := login("ada", secret("ada"), "192.0.2.66"); got != 201 {
		t.Errorf("after a while the right password: %d", got)
	}
}

// Many guesses at once are no more than one after the other.
func TestGuessingInParallel(t *testing.T) {
	h := newHarness(t)
	h.password("ada")
	var wg sync.WaitGroup
	var mu sync.Mutex
	seen := map[int]int{}
	for range 40 {
		wg.Go(func() {
			got := h.status("POST", "/v1/login", "", v1.LoginRequest{User: "ada", Password: "wrong"})
			mu.Lock()
			defer mu.Unlock()
			seen[got]++
		})
	}
	wg.Wait()
	if seen[401] != 5 || seen[429] != 35 {
		t.Errorf("%v", seen)
	}
}

func TestPasswords(t *testing.T) {
	h := newHarness(t)
	set := func(as, user, old, text string) int {
		return h.status("PUT", "/v1/users/"+user+"/password", as, v1.PasswordChange{Old: old, New: text})
	}
	for name, got := range map[string]int{
		"too short":        set("ada", "ada", "", "short"),
		"nothing":          set("ada", "ada", "", ""),
		"with the name":    set("ada", "ada", "", "this is Ada's own"),
		"both":             h.status("PUT", "/v1/users/ada/password", "ada", v1.PasswordChange{New: "staple battery", Remove: true}),
		"not UTF-8":        h.status("PUT", "/v1/users/ada/password", "ada", "{\"new\":\"correct horse\xff\"}"),
		"control":          set("ada", "ada", "", "correct\thorse\x00"),
		"a megabyte, near": set("ada", "ada", "", strings.Repeat("x", 1<<19)),
	} {
		if got != 422 {
			t.Errorf("%s: %d", name, got)
		}
	}
	if got := set("mia", "ada", "", "staple battery"); got != 404 {
		t.Errorf("somebody else's: %d", got)
	}
	if got := h.status("PUT", "/v1/users/ada/password", "ada", v1.PasswordChange{Remove: true}); got != 404 {
		t.Errorf("removed before there is one: %d", got)
	}
	if got := set("ada", "ada", "", secret("ada")); got != 200 {
		t.Fatalf("the first: %d", got)
	}
	h.login("ada", "desk")
	h.login("ada", "laptop")
	if a, b := set("desk", "ada", "", "staple battery"), set("desk", "ada", "guess a lot", "staple battery"); a != 422 || b != 422 {
		t.Errorf("without the old one: %d, with a wrong one: %d", a, b)
	}
	if got := set("desk", "ada", secret("ada"), "staple battery"); got != 200 {
		t.Fatalf("changed: %d", got)
	}
	for who, want := range map[string]int{"desk": 200, "laptop": 401, "ada": 200} {
		if got := h.status("GET", "/v1/me", who, nil); got != want {
			t.Errorf("after that %s: %d, want %d", who, got, want)
		}
	}
	if a, b := h.status("POST", "/v1/login", "", v1.LoginRequest{User: "ada", Password: secret("ada")}), h.status("POST", "/v1/login", "", v1.LoginRequest{User: "ada", Password: "staple battery"}); a != 401 || b != 201 {
		t.Errorf("the old one: %d, the new one: %d", a, b)
	}
	if got := set("root", "ada", "", "reset by an admin"); got != 200 || h.status("GET", "/v1/me", "desk", nil) != 401 {
		t.Errorf("reset: %d", got)
	}
	if got := h.status("PUT", "/v1/users/ada/password", "root", v1.PasswordChange{Remove: true}); got != 200 || h.status("POST", "/v1/login", "", v1.LoginRequest{User: "ada", Password: "reset by an admin"}) != 401 {
		t.Errorf("removed: %d", got)
	}
	if got := get[v1.Me](h, 200, request{method: "GET", path: "/v1/me", user: "ada"}); got.Password {
		t.Error("there still is a password")
	}
}

// What the log keeps of passwords and logins is nothing that could be guessed at.
func TestTheLogHasNoPasswords(t *testing.T) {
	h := newHarness(t)
	body := v1.PasswordChange{New: secret("ada")}
	get[v1.PasswordChanged](h, 200, request{method: "PUT", path: "/v1/users/ada/password", user: "ada", body: body, header: map[string]string{"Idempotency-Key": "k"}})
	h.login("ada", "desk")
	u, _ := h.seq.World().Tenancy.User("ada")
	kept, _ := h.seq.World().Tenancy.Passwords.Get(u.ID)
	rows, err := h.reader.History.Log(t.Context(), store.LogFilter{}, 1000)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, e := range rows {
		text := fmt.Sprintf("%s %+v", e.Command, e)
		if strings.Contains(text, kept.Hash) || strings.Contains(text, "argon2") || strings.Contains(text, "horse") {
			t.Errorf("%s: %s", e.Kind, text)
		}
		if e.Kind == "password.set" || e.Kind == "session.open" {
			found++
			if e.Key != nil {
				t.Errorf("%s has a digest of its body", e.Kind)
			}
		}
	}
	if found != 2 {
		t.Errorf("%d rows of the log are about it", found)
	}
}

// withdrawals are what takes away what somebody may, done by others.
func withdrawals() map[string]struct {
	user string // whose
	do   func(h *harness)
} {
	yes, user := true, "user"
	return map[string]struct {
		user string
		do   func(h *harness)
	}{
		"blocked":          {"mia", func(h *harness) { h.as("root", command.UserPut{Name: "mia", Blocked: &yes}) }},
		"session revoked":  {"mia", func(h *harness) { h.as("root", command.SessionsEnd{User: "mia"}) }},
		"password reset":   {"mia", func(h *harness) { h.as("root", command.PasswordPut{User: "mia", Hash: "other"}) }},
		"session over":     {"mia", func(h *harness) { h.pass(25 * time.Hour) }},
		"no longer member": {"mia", func(h *harness) { h.as("root", command.MemberPut{Account: "nlp", User: "mia"}) }},
		"retired":          {"mia", func(h *harness) { h.as("root", command.UserRetire{Name: "mia"}) }},
		"ended": {"mia", func(h *harness) {
			end := h.now.Load() + hour
			h.as("root", command.UserPut{Name: "mia", Ends: &end})
			h.pass(2 * time.Hour)
		}},
		"membership over": {"mia", func(h *harness) {
			h.as("root", command.MemberPut{Account: "nlp", User: "mia", Role: "manager", Ends: h.now.Load() + hour})
			h.pass(2 * time.Hour)
		}},
		"account over": {"mia", func(h *harness) {
			end := h.now.Load() + hour
			h.as("root", command.AccountPut{Name: "nlp", Ends: &end})
			h.pass(2 * time.Hour)
		}},
		"only a viewer":    {"mia", func(h *harness) { h.as("root", command.MemberPut{Account: "nlp", User: "mia", Role: "viewer"}) }},
		"auditor no more":  {"otto", func(h *harness) { h.as("root", command.UserPut{Name: "otto", Role: &user}) }},
		"operator no more": {"olga", func(h *harness) { h.as("root", command.UserPut{Name: "olga", Role: &user}) }},
	}
}

// Nothing goes on by a right that was taken away: not the next request, nor what is
// open already.
func TestNothingOutlivesItsRight(t *testing.T) {
	for name, tt := range withdrawals() {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			h.password(tt.user)
			h.login(tt.user, "open")
			job := h.submit("ada")
			h.start(job)
			ended := make(chan struct{})
			h.engine.logs = func(ctx context.Context, _ engine.StepID, _ engine.LogOptions, w engine.LogWriter) error {
				defer close(ended)
				if err := errors.Join(w.WriteLog(time.Unix(1, 0), engine.Stdout, []byte("begun")), w.Flush()); err != nil {
					return err
				}
				<-ctx.Done()
				return ctx.Err()
			}
			follow := h.open("/v1/jobs/"+job+"/logs?follow=true", "open")
			defer follow.Body.Close()
			waited := make(chan int)
			go func() { waited <- h.status("GET", "/v1/jobs/"+job+"?wait=ended&timeout=1m", "open", nil) }()
			for h.server.held.of(tt.user, h) < 2 {
				runtime.Gosched()
			}
			tt.do(h)
			<-ended // the log was cut off
			if got := <-waited; got < 400 {
				t.Errorf("a wait that was open: %d", got)
			}
			if got := h.status("GET", "/v1/jobs/"+job, "open", nil); got < 400 {
				t.Errorf("afterwards: %d", got)
			}
		})
	}
}

// The same of a WebSocket, and of a command in a job.
func TestWebSocketsEndWithTheirRight(t *testing.T) {
	h := newHarness(t)
	h.password("ada")
	job := h.submit("ada")
	h.start(job)
	h.engine.exec = func(ctx context.Context, _ engine.StepID, _ engine.ExecRequest) (int, error) {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	for _, path := range []string{"/v1/jobs/" + job + "/exec?arg=sh", "/v1/events/stream"} {
		h.login("ada", "open")
		conn, _, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(h.web.URL, "http")+path, &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + h.tokens["open"]}}})
		if err != nil {
			t.Fatal(err)
		}
		h.as("root", command.SessionsEnd{User: "ada"})
		for err == nil {
			_, _, err = conn.Read(t.Context())
		}
		_ = conn.CloseNow()
	}
}

// of is how many requests of a user go on.
func (h *held) of(user string, in *harness) int {
	u, _ := in.seq.World().Tenancy.User(user)
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.by[int64(u.ID)]
}

// open sends a GET and returns once the answer begins.
func (h *harness) open(path, user string) *http.Response {
	h.t.Helper()
	req, err := http.NewRequest("GET", h.web.URL+path, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+h.tokens[user])
	resp, err := h.web.Client().Do(req)
	if err != nil {
		h.t.Fatal(err)
	}
	return resp
}

// Where passwords are off nobody logs in, and no session is good.
func TestPasswordsOff(t *testing.T) {
	h := newHarness(t)
	h.password("ada")
	h.login("ada", "desk")
	h.server.Login.Hasher = nil
	if a, b, c := h.status("POST", "/v1/login", "", v1.LoginRequest{User: "ada", Password: secret("ada")}), h.status("GET", "/v1/me", "desk", nil), h.status("GET", "/v1/me", "ada", nil); a != 403 || b != 401 || c != 200 {
		t.Errorf("login %d, session %d, token %d", a, b, c)
	}
}

func TestWhereFrom(t *testing.T) {
	for name, tt := range map[string]struct {
		remote, forwarded, want string
		trusts                  bool
	}{
		"directly":            {remote: "192.0.2.1:99", want: "192.0.2.1"},
		"a network of IPv6":   {remote: "[2001:db8:1:2:3::4]:99", want: "2001:db8:1:2::/64"},
		"IPv4 in IPv6":        {remote: "[::ffff:192.0.2.1]:99", want: "192.0.2.1"},
		"made up":             {remote: "192.0.2.1:99", forwarded: "198.51.100.7", want: "192.0.2.1"},
		"by a proxy":          {remote: "127.0.0.1:99", forwarded: "10.0.0.1, 198.51.100.7", trusts: true, want: "198.51.100.7"},
		"nonsense by a proxy": {remote: "127.0.0.1:99", forwarded: "x", trusts: true, want: "nowhere"},
	} {
		r := httptest.NewRequest("POST", "/v1/login", nil)
		r.RemoteAddr = tt.remote
		if tt.forwarded != "" {
			r.Header.Set("X-Forwarded-For", tt.forwarded)
		}
		c := call{Server: &Server{Deps: Deps{Login: Login{Forwarded: tt.trusts}}}, r: r}
		if got := c.from(); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// The server's log tells of wrong passwords, from where and of whom, and nothing of
// what was typed.
func TestWrongPasswordsAreLogged(t *testing.T) {
	h := newHarness(t)
	h.password("ada")
	var log bytes.Buffer
	h.server.Logger = slog.New(slog.NewTextHandler(&log, nil))
	for _, in := range []v1.LoginRequest{{User: "ada", Password: "hunter2-typed"}, {User: "hunter2-typed", Password: "x"}} {
		h.send(request{method: "POST", path: "/v1/login", body: in, header: map[string]string{"X-Forwarded-For": "192.0.2.7"}})
	}
	text := log.String()
	if strings.Count(text, "wrong password") != 2 || !strings.Contains(text, "user=ada from=192.0.2.7") || strings.Contains(text, "hunter2") {
		t.Error(text)
	}
}
