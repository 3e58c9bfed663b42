package v1

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"croft.dev/croft/api/v1/codes"
)

// serve returns a client of a server on a socket that answers with h.
func serve(t *testing.T, h http.HandlerFunc) *Client {
	t.Helper()
	dir, err := os.MkdirTemp("", "croft") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	ln, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: h}
	go srv.Serve(ln)
	t.Cleanup(func() { srv.Close() })
	return dialTo(t, Config{Server: "unix://" + socket})
}

func dialTo(t *testing.T, cfg Config) *Client {
	t.Helper()
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(v)
}

// TestRoutes calls every method once and compares what arrives at the server
// with the table of routes.
func TestRoutes(t *testing.T) {
	type call struct {
		do   func(context.Context, *Client) error
		want string
	}
	yes := true
	tests := map[string]call{
		"me":     {func(ctx context.Context, c *Client) error { _, err := c.Me(ctx); return err }, `GET /v1/me`},
		"status": {func(ctx context.Context, c *Client) error { _, err := c.Status(ctx); return err }, `GET /v1/status`},
		"quote":  {func(ctx context.Context, c *Client) error { _, err := c.Quote(ctx, JobSpec{Image: "a"}); return err }, `POST /v1/quotes {"image":"a"}`},
		"submit": {func(ctx context.Context, c *Client) error {
			_, err := c.Submit(ctx, JobSpec{Image: "a"}, Key("k"))
			return err
		}, `POST /v1/jobs {"image":"a"} key=k`},
		"job":     {func(ctx context.Context, c *Client) error { _, err := c.Job(ctx, "R-7"); return err }, `GET /v1/jobs/R-7`},
		"escaped": {func(ctx context.Context, c *Client) error { _, err := c.Job(ctx, "a/b c?"); return err }, `GET /v1/jobs/a%2Fb%20c%3F`},
		"why":     {func(ctx context.Context, c *Client) error { _, err := c.Why(ctx, "1"); return err }, `GET /v1/jobs/1/why`},
		"stop": {func(ctx context.Context, c *Client) error {
			_, err := c.Stop(ctx, "1", StopRequest{Now: true})
			return err
		}, `POST /v1/jobs/1/stop {"now":true}`},
		"prioritize": {func(ctx context.Context, c *Client) error {
			n := int64(-5)
			_, err := c.Prioritize(ctx, "1", PriorityRequest{Points: &n})
			return err
		}, `POST /v1/jobs/1/priority {"points":-5}`},
		"fair share": {func(ctx context.Context, c *Client) error { _, err := c.FairShare(ctx, "nlp"); return err }, `GET /v1/fairshare?of=nlp`},
		"clone": {func(ctx context.Context, c *Client) error {
			_, err := c.Clone(ctx, "1", CloneRequest{Set: map[string]string{"gpu": "2"}})
			return err
		}, `POST /v1/jobs/1/clone {"set":{"gpu":"2"}}`},
		"jobs": {func(ctx context.Context, c *Client) error {
			_, err := Collect(c.Jobs(ctx, JobQuery{Account: "n", User: "*", State: "all", Limit: 3}))
			return err
		}, `GET /v1/jobs?account=n&limit=3&state=all&user=%2A`},
		"events": {func(ctx context.Context, c *Client) error {
			_, err := c.EventPage(ctx, EventQuery{After: 5, Job: "1", Limit: 2})
			return err
		}, `GET /v1/events?after=5&job=1&limit=2`},
		"accounts": {func(ctx context.Context, c *Client) error { _, err := Collect(c.Accounts(ctx)); return err }, `GET /v1/accounts`},
		"account":  {func(ctx context.Context, c *Client) error { _, err := c.Account(ctx, "n"); return err }, `GET /v1/accounts/n`},
		"add account": {func(ctx context.Context, c *Client) error {
			_, err := c.AddAccount(ctx, Account{Name: "n"})
			return err
		}, `POST /v1/accounts {"name":"n"}`},
		"set account": {func(ctx context.Context, c *Client) error {
			_, err := c.SetAccount(ctx, "n", AccountPatch{Closed: &yes})
			return err
		}, `PATCH /v1/accounts/n {"closed":true}`},
		"set member": {func(ctx context.Context, c *Client) error {
			_, err := c.SetMember(ctx, "n", "u", MemberRequest{Role: "owner"})
			return err
		}, `PUT /v1/accounts/n/members/u {"role":"owner"}`},
		"rm member": {func(ctx context.Context, c *Client) error { return c.RemoveMember(ctx, "n", "u") }, `DELETE /v1/accounts/n/members/u`},
		"statement": {func(ctx context.Context, c *Client) error {
			_, err := c.Statement(ctx, "n", "2026-11", "job")
			return err
		}, `GET /v1/statements/accounts/n?by=job&period=2026-11`},
		"machine statement": {func(ctx context.Context, c *Client) error {
			_, err := c.MachineStatement(ctx, "gpu1", "2026-11")
			return err
		}, `GET /v1/statements/machine?of=gpu1&period=2026-11`},
		"users":    {func(ctx context.Context, c *Client) error { _, err := Collect(c.Users(ctx)); return err }, `GET /v1/users`},
		"user":     {func(ctx context.Context, c *Client) error { _, err := c.User(ctx, "u"); return err }, `GET /v1/users/u`},
		"add user": {func(ctx context.Context, c *Client) error { _, err := c.AddUser(ctx, User{Name: "u"}); return err }, `POST /v1/users {"name":"u"}`},
		"set user": {func(ctx context.Context, c *Client) error {
			_, err := c.SetUser(ctx, "u", UserPatch{Rebind: true})
			return err
		}, `PATCH /v1/users/u {"rebind":true}`},
		"add token": {func(ctx context.Context, c *Client) error {
			_, err := c.AddToken(ctx, "u", TokenRequest{Name: "t"})
			return err
		}, `POST /v1/users/u/tokens {"name":"t"}`},
		"tokens":   {func(ctx context.Context, c *Client) error { _, err := Collect(c.Tokens(ctx, "u")); return err }, `GET /v1/users/u/tokens`},
		"rm token": {func(ctx context.Context, c *Client) error { return c.RevokeToken(ctx, "u", "3") }, `DELETE /v1/users/u/tokens/3`},
		"grants":   {func(ctx context.Context, c *Client) error { _, err := Collect(c.Grants(ctx, "n")); return err }, `GET /v1/grants?account=n`},
		"add grant": {func(ctx context.Context, c *Client) error {
			_, err := c.AddGrant(ctx, Grant{Account: "n", Amount: "5", Source: "s"})
			return err
		}, `POST /v1/grants {"account":"n","amount":"5","source":"s"}`},
		"prices": {func(ctx context.Context, c *Client) error { _, err := Collect(c.Prices(ctx)); return err }, `GET /v1/prices`},
		"set price": {func(ctx context.Context, c *Client) error {
			_, err := c.SetPrice(ctx, PriceVersion{CPU: "1"})
			return err
		}, `POST /v1/prices {"cpu":"1"}`},
		"limits": {func(ctx context.Context, c *Client) error {
			_, err := Collect(c.Limits(ctx, LimitQuery{Account: "n", User: "u", Partition: "p", QoS: "q"}))
			return err
		}, `GET /v1/limits?account=n&partition=p&qos=q&user=u`},
		"set limit": {func(ctx context.Context, c *Client) error {
			_, err := c.SetLimit(ctx, Limit{Account: "n", Resource: "gpu", Max: "4"})
			return err
		}, `POST /v1/limits {"account":"n","resource":"gpu","max":"4"}`},
		"rm limit": {func(ctx context.Context, c *Client) error { return c.RemoveLimit(ctx, "3") }, `DELETE /v1/limits/3`},
		"shares": {func(ctx context.Context, c *Client) error {
			_, err := Collect(c.Shares(ctx, "n", "p"))
			return err
		}, `GET /v1/shares?account=n&partition=p`},
		"set share": {func(ctx context.Context, c *Client) error {
			_, err := c.SetShare(ctx, Share{Account: "n", Partition: "p", Resource: "gpu", Guaranteed: "4"})
			return err
		}, `POST /v1/shares {"account":"n","partition":"p","resource":"gpu","guaranteed":"4"}`},
		"rm share":     {func(ctx context.Context, c *Client) error { return c.RemoveShare(ctx, "3") }, `DELETE /v1/shares/3`},
		"verify":       {func(ctx context.Context, c *Client) error { _, err := c.VerifyLedger(ctx); return err }, `GET /v1/ledger/verify`},
		"periods":      {func(ctx context.Context, c *Client) error { _, err := Collect(c.Periods(ctx)); return err }, `GET /v1/periods`},
		"period":       {func(ctx context.Context, c *Client) error { _, err := c.Period(ctx, "2026-11"); return err }, `GET /v1/periods/2026-11`},
		"close period": {func(ctx context.Context, c *Client) error { _, err := c.ClosePeriod(ctx, "2026-11"); return err }, `POST /v1/periods/2026-11/close`},
		"transfers": {func(ctx context.Context, c *Client) error {
			_, err := Collect(c.Transfers(ctx, TransferQuery{Ledger: "l", Job: "1", Limit: 9}))
			return err
		}, `GET /v1/ledger/transfers?job=1&ledger=l&limit=9`},
		"nodes": {func(ctx context.Context, c *Client) error { _, err := Collect(c.Nodes(ctx)); return err }, `GET /v1/nodes`},
		"drain": {func(ctx context.Context, c *Client) error {
			_, err := c.Drain(ctx, "g", DrainRequest{Reason: "r"})
			return err
		}, `POST /v1/nodes/g/drain {"reason":"r"}`},
		"label": {func(ctx context.Context, c *Client) error {
			_, err := c.LabelNode(ctx, "g", NodeLabels{Set: map[string]string{"a": ""}, Remove: []string{"b"}})
			return err
		}, `POST /v1/nodes/g/labels {"set":{"a":""},"remove":["b"]}`},
		"resume":  {func(ctx context.Context, c *Client) error { _, err := c.Resume(ctx, "g"); return err }, `POST /v1/nodes/g/resume`},
		"windows": {func(ctx context.Context, c *Client) error { _, err := Collect(c.Maintenances(ctx)); return err }, `GET /v1/maintenance`},
		"add window": {func(ctx context.Context, c *Client) error {
			_, err := c.AddMaintenance(ctx, Maintenance{Node: "g"})
			return err
		}, `POST /v1/maintenance {"node":"g","from":"0001-01-01T00:00:00Z","to":"0001-01-01T00:00:00Z"}`},
		"rm window":    {func(ctx context.Context, c *Client) error { return c.RemoveMaintenance(ctx, "3") }, `DELETE /v1/maintenance/3`},
		"reservations": {func(ctx context.Context, c *Client) error { _, err := Collect(c.Reservations(ctx)); return err }, `GET /v1/reservations`},
		"reservation":  {func(ctx context.Context, c *Client) error { _, err := c.Reservation(ctx, "r"); return err }, `GET /v1/reservations/r`},
		"reserve": {func(ctx context.Context, c *Client) error {
			_, err := c.AddReservation(ctx, NewReservation{Name: "r", Length: "1h"})
			return err
		}, `POST /v1/reservations {"name":"r","length":"1h"}`},
		"rm reservation": {func(ctx context.Context, c *Client) error { return c.RemoveReservation(ctx, "r", "3") }, `DELETE /v1/reservations/r?window=3`},
		"partitions":     {func(ctx context.Context, c *Client) error { _, err := Collect(c.Partitions(ctx)); return err }, `GET /v1/partitions`},
	}
	var got atomic.Value
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		line := strings.TrimSpace(r.Method + " " + r.URL.RequestURI() + " " + string(b))
		if k := r.Header.Get("Idempotency-Key"); k != "" {
			line += " key=" + k
		}
		got.Store(line)
		answer(w, http.StatusOK, struct{}{})
	})
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if err := test.do(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got.Load()); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
		})
	}
}

func TestProblems(t *testing.T) {
	remedy := &Remedy{Set: map[string]string{"gpu": "4"}, Flags: "--gpu 4"}
	tests := map[string]struct {
		h    http.HandlerFunc
		want Problem
	}{
		"refusal": {
			func(w http.ResponseWriter, _ *http.Request) {
				answer(w, 422, Problem{Title: "Refused", Code: "refused", ID: "R-7", Reasons: []Reason{{Code: "FUNDS", Message: "m"}}, Remedy: remedy})
			},
			Problem{Title: "Refused", Status: 422, Code: "refused", ID: "R-7", Reasons: []Reason{{Code: "FUNDS", Message: "m"}}, Remedy: remedy},
		},
		"no problem": {
			func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "<html>", http.StatusBadGateway) },
			Problem{Title: "Bad Gateway", Status: 502, Code: "unavailable", Detail: "the server answered 502 Bad Gateway, which is no answer of Croft's"},
		},
		"redirect": {
			func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, "http://elsewhere.example/", http.StatusFound)
			},
			Problem{Title: "Found", Status: 302, Code: "internal", Detail: "the server answered 302 Found, which is no answer of Croft's"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := serve(t, test.h).Me(t.Context())
			var got *Problem
			if !errors.As(err, &got) {
				t.Fatalf("%T is no Problem: %v", err, err)
			}
			if diff := cmp.Diff(test.want, *got); diff != "" {
				t.Errorf("problem (-want +got):\n%s", diff)
			}
		})
	}
}

func TestUnreadableAnswer(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"user": 7}`) })
	if _, err := c.Me(t.Context()); CodeOf(err) != codes.Internal || !strings.Contains(err.Error(), "GET /v1/me") {
		t.Errorf("got %v", err)
	}
}

func TestNoServer(t *testing.T) {
	socket := "unix://" + filepath.Join(t.TempDir(), "none.sock")
	_, err := dialTo(t, Config{Server: socket}).Me(t.Context())
	var lost *NoAnswer
	if !errors.As(err, &lost) || lost.Sent {
		t.Fatalf("got %#v", err)
	}
	want := "croft server isn't running at " + socket + ": start it with `croft server`"
	if err.Error() != want || CodeOf(err) != codes.Unavailable {
		t.Errorf("got %s: %v, want %s", CodeOf(err), err, want)
	}
}

// TestLostInTheMiddle breaks the connection after the request has arrived.
func TestLostInTheMiddle(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			conn.Close()
		}
	})
	_, err := c.Submit(t.Context(), JobSpec{Image: "a"})
	var lost *NoAnswer
	if !errors.As(err, &lost) || !lost.Sent || !Transient(err) {
		t.Errorf("got %#v", err)
	}
}

func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c := serve(t, func(w http.ResponseWriter, r *http.Request) { cancel(); <-r.Context().Done() })
	if _, err := c.Me(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
}

func TestBadNames(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) { t.Errorf("asked for %s", r.URL) })
	for _, id := range []string{"", ".", ".."} {
		if _, err := c.Job(t.Context(), id); CodeOf(err) != codes.Invalid {
			t.Errorf("%q: got %v", id, err)
		}
	}
}

func TestServerAddresses(t *testing.T) {
	tests := map[string]struct {
		server, socket, base string
		bad                  bool
	}{
		"socket":      {server: "unix:///run/a.sock", socket: "/run/a.sock", base: "http://croft"},
		"short":       {server: "unix:/run/a.sock", socket: "/run/a.sock", base: "http://croft"},
		"path":        {server: "/run/a.sock", socket: "/run/a.sock", base: "http://croft"},
		"http":        {server: "http://127.0.0.1:8080/", base: "http://127.0.0.1:8080"},
		"under path":  {server: "https://a.example/croft/", base: "https://a.example/croft"},
		"empty":       {server: "", bad: true},
		"no scheme":   {server: "localhost:8080", bad: true},
		"other":       {server: "ftp://a", bad: true},
		"control":     {server: "http://a\n", bad: true},
		"no socket":   {server: "unix:", bad: true},
		"no socket 2": {server: "unix://", bad: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			socket, base, err := parseServer(test.server)
			if (err != nil) != test.bad || socket != test.socket || base != test.base {
				t.Errorf("got %q, %q, %v", socket, base, err)
			}
		})
	}
}

// TestTokenStaysOnHTTP: a socket knows its peer, so no secret is sent to it.
func TestTokenStaysOnHTTP(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var got atomic.Value
	h := func(w http.ResponseWriter, r *http.Request) {
		got.Store(r.Header.Get("Authorization"))
		answer(w, 200, Me{})
	}
	srv := &http.Server{Handler: http.HandlerFunc(h)}
	go srv.Serve(ln)
	t.Cleanup(func() { srv.Close() })
	c := dialTo(t, Config{Server: "http://" + ln.Addr().String(), Token: "secret"})
	if _, err := c.Me(t.Context()); err != nil || got.Load() != "Bearer secret" {
		t.Errorf("over HTTP: %q, %v", got.Load(), err)
	}
	sock := serve(t, h)
	withToken := dialTo(t, Config{Server: sock.server, Token: "secret"})
	if _, err := withToken.Me(t.Context()); err != nil || got.Load() != "" {
		t.Errorf("over the socket: %q, %v", got.Load(), err)
	}
}

func TestPages(t *testing.T) {
	pages := []Page[Job]{
		{Items: []Job{{ID: "1"}, {ID: "2"}}, Next: "a"},
		{Items: []Job{}, Next: "b"}, // filtered to nothing, but not the last
		{Items: []Job{{ID: "3"}}},
	}
	var asked []string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		cursor := r.URL.Query().Get("cursor")
		asked = append(asked, cursor)
		answer(w, 200, pages[slices.Index([]string{"", "a", "b"}, cursor)])
	})
	var ids []string
	seq := c.Jobs(t.Context(), JobQuery{})
	for range 2 { // an iterator can be used again
		jobs, err := Collect(seq)
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range jobs {
			ids = append(ids, j.ID)
		}
	}
	if diff := cmp.Diff([]string{"1", "2", "3", "1", "2", "3"}, ids); diff != "" {
		t.Errorf("ids (-want +got):\n%s", diff)
	}
	asked = nil
	for range seq {
		break
	}
	if len(asked) != 1 {
		t.Errorf("asked for %q after a break on the first page", asked)
	}
}

// TestPagesAhead: where an answer's header says where the next page is, that is asked for
// while this one is still under way, but for the first. Nothing of one page is left in the
// next.
func TestPagesAhead(t *testing.T) {
	const last = 4
	var came [last + 2]chan struct{}
	for i := range came {
		came[i] = make(chan struct{})
	}
	given := make(chan int, last+1)
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		n, _ := strconv.Atoi(r.URL.Query().Get("cursor"))
		if r.URL.Query().Get("user") != "*" {
			t.Errorf("page %d: asked for %s", n, r.URL)
		}
		close(came[n])
		p := Page[Job]{Items: []Job{{ID: strconv.Itoa(n)}}}
		if n%2 == 0 {
			p.Items[0].Message, p.Items[0].Started = "even", &time.Time{}
		}
		if n < last {
			p.Next = strconv.Itoa(n + 1)
			w.Header().Set("Link", "<?user=%2A&cursor="+p.Next+`>; rel="next"`)
		}
		w.(http.Flusher).Flush()
		if 0 < n && n < last {
			select {
			case <-came[n+1]:
			case <-r.Context().Done():
				given <- n
				return
			}
		}
		_ = json.NewEncoder(w).Encode(p) // a client that gave up
	})
	n := 0
	for j, err := range c.Jobs(t.Context(), JobQuery{User: "*"}) {
		if err != nil || j.ID != strconv.Itoa(n) || (j.Message == "even") != (n%2 == 0) || (j.Started != nil) != (n%2 == 0) {
			t.Fatalf("page %d: %+v %v", n, j, err)
		}
		n++
	}
	if n != last+1 {
		t.Errorf("%d pages", n)
	}
	for i := range came {
		came[i] = make(chan struct{})
	}
	for j := range c.Jobs(t.Context(), JobQuery{User: "*"}) {
		if j.ID == "1" {
			break
		}
	}
	if <-given != 2 { // the page that was under way is given up
		t.Error("another page than the third was given up")
	}
}

func TestQuantityAsJSON(t *testing.T) {
	for text, want := range map[string]Quantity{
		`"64G"`: "64G", `"6\u0034G"`: "64G", `""`: "", ` "2h" `: "2h", `0.50`: "0.50", "\"\xff\"": "\ufffd", `"\"x"`: `"x`,
	} {
		var got Quantity
		if err := json.Unmarshal([]byte(text), &got); err != nil || got != want {
			t.Errorf("%s: %q, want %q: %v", text, got, want, err)
		}
	}
	for _, text := range []string{`true`, `{}`, `"2`} {
		if err := json.Unmarshal([]byte(text), new(Quantity)); err == nil {
			t.Errorf("%s is an amount", text)
		}
	}
}

// TestPagesThatDoNotEnd: a server that repeats a cursor is asked no further.
func TestPagesThatDoNotEnd(t *testing.T) {
	var n atomic.Int32
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		n.Add(1)
		answer(w, 200, Page[User]{Items: []User{{Name: "u"}}, Next: "same"})
	})
	if _, err := Collect(c.Users(t.Context())); err != nil || n.Load() != 2 {
		t.Errorf("%d requests, %v", n.Load(), err)
	}
}

// TestConnectionsAreReused: 64 callers need 64 connections, not one per call.
func TestConnectionsAreReused(t *testing.T) {
	const callers, calls = 64, 20
	var opened atomic.Int32
	dir, err := os.MkdirTemp("", "croft")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	ln, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answer(w, 200, Me{}) }),
		ConnState: func(c net.Conn, s http.ConnState) {
			if s == http.StateNew {
				opened.Add(1)
			}
		},
	}
	go srv.Serve(ln)
	t.Cleanup(func() { srv.Close() })
	c := dialTo(t, Config{Server: "unix://" + filepath.Join(dir, "s")})
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range calls {
				if _, err := c.Me(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	// A caller may open a second connection while another's is on its way back.
	if n := opened.Load(); n > 2*callers {
		t.Errorf("%d connections for %d callers", n, callers)
	}
}

func TestDiscover(t *testing.T) {
	root := t.TempDir()
	deep := filepath.Join(root, "a", "b")
	for _, d := range []string{deep, filepath.Join(root, "a", ".croft")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	local := "unix://" + filepath.Join(root, "a", ".croft", "croft.sock")
	tests := map[string]struct {
		env  map[string]string
		dir  string
		want string
	}{
		"server":  {map[string]string{"CROFT_SERVER": "http://x", "CROFT_SOCKET": "/s"}, deep, "http://x"},
		"socket":  {map[string]string{"CROFT_SOCKET": "/s"}, deep, "unix:///s"},
		"parent":  {nil, deep, local},
		"itself":  {nil, filepath.Dir(deep), local},
		"default": {nil, "/", "unix:///run/croft/croft.sock"},
		"no dir":  {nil, "", "unix:///run/croft/croft.sock"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Discover(func(k string) string { return test.env[k] }, test.dir); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func TestDiscoverToken(t *testing.T) {
	home := t.TempDir()
	file := filepath.Join(home, ".config", "croft", "token")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("from-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"HOME": home}
	get := func(k string) string { return env[k] }
	if got := DiscoverToken(get, "http://a"); got != "from-file" {
		t.Errorf("got %q", got)
	}
	env["CROFT_TOKEN"] = "from-env"
	if got := DiscoverToken(get, "http://a"); got != "from-env" {
		t.Errorf("got %q", got)
	}
	clear(env)
	if got := DiscoverToken(get, "http://a"); got != "" {
		t.Errorf("got %q", got)
	}
}

// TestDependencies keeps the client a small thing to import.
func TestDependencies(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".").CombinedOutput()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, out)
	}
	for _, p := range strings.Fields(string(out)) {
		if !strings.HasPrefix(p, "croft.dev/croft/api/v1") && !strings.HasPrefix(p, "github.com/coder/websocket") {
			t.Errorf("imports %s", p)
		}
	}
	if len(out) == 0 {
		t.Error("go list said nothing")
	}
}
