package httpapi

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/sequencer"
	"croft.dev/croft/internal/store"
	"croft.dev/croft/internal/world"
)

// capped makes a token of ada's with caps, that requests as its name are sent with.
func (h *harness) capped(in v1.TokenRequest) v1.Token {
	h.t.Helper()
	out := get[v1.Token](h, 201, request{method: "POST", path: "/v1/users/ada/tokens", user: "ada", body: in})
	h.tokens[in.Name] = out.Secret
	return out
}

// loadedAlike compares what is counted of tokens with what a server counts that starts now.
func (h *harness) loadedAlike() {
	h.t.Helper()
	w := world.New()
	if _, err := h.reader.History.(*store.Store).Load(context.Background(), func(c world.Change) { w.Fold([]world.Change{c}) }); err != nil {
		h.t.Fatal(err)
	}
	running := h.seq.World()
	was := slices.Collect(running.Ledger.TokenSpendings)
	if is := slices.Collect(w.Ledger.TokenSpendings); len(was) == 0 || !slices.Equal(is, was) {
		h.t.Errorf("loaded: %v, want %v", is, was)
	}
	for k := range running.Tenancy.Tokens.All() {
		if is, was := w.Limits.UsedBy(k), running.Limits.UsedBy(k); !reflect.DeepEqual(is, was) {
			h.t.Errorf("token %d, loaded: %+v, want %+v", k, is, was)
		}
	}
}

// A hundred requests at once by a token that may spend enough for two: two are accepted.
// What was done by it names it wherever its user is named, and when it is gone too.
func TestAHundredByAToken(t *testing.T) {
	const crowd = 100
	h := newHarness(t)
	h.as("root", command.GrantGive{Account: "nlp", Amount: 10_000 * money.Credit, Source: "enough"})
	quote := get[v1.Quote](h, 200, request{method: "POST", path: "/v1/quotes", user: "ada", body: example()})
	one, err := money.Parse(quote.Price.Total)
	if err != nil {
		t.Fatal(err)
	}
	tok := h.capped(v1.TokenRequest{Name: "ci", Account: "nlp", Spend: (2*one + one/2).String(), SpendPer: "month", Devices: "2"})
	if s := tok.Spend; s == nil || s.Per != "month" || s.Spent != "0.000" || tok.Devices == nil || tok.Devices.Max != "2" || strings.Join(tok.Scopes, ",") != "read,submit" {
		t.Fatalf("%+v", tok)
	}
	ada, _ := h.seq.World().Tenancy.User("ada")
	row, _ := h.seq.World().Tenancy.TokenOfHash(hashToken(tok.Secret))
	spec := parsed(t, h)
	var accepted, refused atomic.Int32
	var all sync.WaitGroup
	for range crowd {
		all.Go(func() {
			_, err := h.seq.Do(context.Background(), sequencer.Actor{User: ada.ID, Token: row.ID}, command.Submit{Spec: spec}, sequencer.Key{})
			switch {
			case err == nil:
				accepted.Add(1)
			case strings.Contains(err.Error(), "token ci of ada has"):
				refused.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	all.Wait()
	if accepted.Load() != 2 || refused.Load() != crowd-2 {
		t.Errorf("%d accepted, %d refused", accepted.Load(), refused.Load())
	}
	if me := get[v1.Me](h, 200, request{method: "GET", path: "/v1/me", user: "ci"}); me.Token == nil || me.Token.Spend.Aside != (2*one).String() || me.Token.Spend.Left != (one/2).String() || me.Token.Secret != "" {
		t.Errorf("%+v", me.Token)
	}
	if quote = get[v1.Quote](h, 200, request{method: "POST", path: "/v1/quotes", user: "ci", body: example()}); quote.Admitted || len(quote.Caps) != 1 || quote.Caps[0].From != "token ci of ada" {
		t.Errorf("%+v", quote)
	}
	jobs := get[v1.Page[v1.Job]](h, 200, request{method: "GET", path: "/v1/jobs", user: "ada"}).Items
	if len(jobs) != 2 {
		t.Fatalf("%d jobs", len(jobs))
	}
	get[v1.Job](h, 200, request{method: "POST", path: "/v1/jobs/" + jobs[0].ID + "/hold", user: "ci"})
	own := h.submit("ada")
	for _, verb := range []string{"hold", "release", "stop", "requeue"} {
		get[v1.Problem](h, 403, request{method: "POST", path: "/v1/jobs/" + own + "/" + verb, user: "ci", body: struct{}{}})
	}
	h.start(jobs[1].ID)
	h.pass(60e9)
	h.end(jobs[1].ID, 0)
	h.loadedAlike()
	for range 2 {
		by := v1.ByToken{ID: tok.ID, Name: "ci"}
		if j := get[v1.Job](h, 200, request{method: "GET", path: "/v1/jobs/" + jobs[1].ID, user: "ada"}); j.Token == nil || *j.Token != by {
			t.Errorf("the job is by %+v", j.Token)
		}
		posted := get[v1.Page[v1.Transfer]](h, 200, request{method: "GET", path: "/v1/ledger/transfers?job=" + jobs[1].ID, user: "ada"}).Items
		if len(posted) < 2 {
			t.Errorf("%d postings", len(posted))
		}
		for _, p := range posted {
			if p.User != "ada" || p.Token == nil || *p.Token != by {
				t.Errorf("%+v by %s, %+v", p, p.User, p.Token)
			}
		}
		lines := get[v1.Statement](h, 200, request{method: "GET", path: "/v1/statements/accounts/nlp?by=token", user: "mia"}).Lines
		if len(lines) == 0 || lines[0].Token == nil || *lines[0].Token != by {
			t.Errorf("%+v", lines)
		}
		n := 0
		for _, e := range get[v1.Page[v1.Event]](h, 200, request{method: "GET", path: "/v1/events?job=" + jobs[1].ID, user: "ada"}).Items {
			if e.Kind == "job.submit" && e.By == "ada (ci #"+tok.ID+")" {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%d events by the token", n)
		}
		if v := get[v1.Verification](h, 200, request{method: "GET", path: "/v1/ledger/verify", user: "root"}); !v.OK {
			t.Errorf("%+v", v)
		}
		h.send(request{method: "DELETE", path: "/v1/users/ada/tokens/" + tok.ID, user: "ada"})
	}
	if _, ok := h.seq.World().Tenancy.Tokens.Get(id.Token(row.ID)); ok {
		t.Error("the token is there still")
	}
}

// What caps can't be says which field; a token with caps makes no other.
func TestCapsOfTokensThatCantBe(t *testing.T) {
	h := newHarness(t)
	for name, tt := range map[string]struct {
		in    v1.TokenRequest
		field string
	}{
		"nothing":      {v1.TokenRequest{Spend: "0"}, "spend"},
		"negative":     {v1.TokenRequest{Spend: "-1"}, "spend"},
		"no amount":    {v1.TokenRequest{Spend: "much"}, "spend"},
		"too much":     {v1.TokenRequest{Spend: "9999999999999"}, "spend"},
		"a year":       {v1.TokenRequest{Spend: "1", SpendPer: "year"}, "spend_per"},
		"per alone":    {v1.TokenRequest{SpendPer: "day"}, "spend_per"},
		"devices":      {v1.TokenRequest{Devices: "-1"}, "devices"},
		"manages":      {v1.TokenRequest{Spend: "1", Scopes: []string{"submit", "manage"}}, "scopes"},
		"only reads":   {v1.TokenRequest{Devices: "1", Scopes: []string{"read"}}, "scopes"},
		"in no time":   {v1.TokenRequest{Spend: "1", SpendPer: "never"}, "spend_per"},
		"many of them": {v1.TokenRequest{Devices: "99999999999999999999"}, "devices"},
	} {
		t.Run(name, func(t *testing.T) {
			tt.in.Name = "x"
			p := get[v1.Problem](h, 422, request{method: "POST", path: "/v1/users/ada/tokens", user: "ada", body: tt.in})
			if len(p.Fields) == 0 || p.Fields[0].Path != tt.field {
				t.Errorf("%+v, want %s", p, tt.field)
			}
		})
	}
	h.capped(v1.TokenRequest{Name: "ci", Devices: "1"})
	get[v1.Problem](h, 403, request{method: "POST", path: "/v1/users/ada/tokens", user: "ci", body: v1.TokenRequest{Name: "more"}})
}

// What a token asks for waits for its user, by its own name in every answer.
func TestATokenAsks(t *testing.T) {
	h := newHarness(t)
	tok := h.capped(v1.TokenRequest{Name: "agent", AskAbove: "0.5"})
	if tok.AskAbove != "0.500" || tok.Spend != nil || strings.Join(tok.Scopes, ",") != "read,submit" {
		t.Fatalf("%+v", tok)
	}
	for _, above := range []string{"-1", "x", "9223372036854.775807"} {
		get[v1.Problem](h, 422, request{method: "POST", path: "/v1/users/ada/tokens", user: "ada", body: v1.TokenRequest{Name: "bad", AskAbove: above}})
	}
	agent, ada := h.client("agent"), h.client("ada")
	job := get[v1.Job](h, 201, request{method: "POST", path: "/v1/jobs", user: "agent", body: example()})
	why := get[v1.Why](h, 200, request{method: "GET", path: "/v1/jobs/" + job.ID + "/why", user: "agent"})
	if job.State != "held" || job.Waits != "JOB_NEEDS_APPROVAL" || job.Receipt.Deposit != "0.000" || len(why.Reasons) == 0 || !strings.Contains(why.Reasons[0].Message, "until ada approves request") {
		t.Errorf("%+v\n%+v", job, why)
	}
	list, err := v1.Collect(ada.Requests(t.Context(), v1.RequestQuery{Whose: "inbox", Kind: "job"}))
	if err != nil || len(list) != 1 || !list[0].Mine || list[0].Job.Job != job.ID || list[0].Token.Name != "agent" || list[0].Job.Above != "0.500" {
		t.Fatalf("%+v, %v", list, err)
	}
	if theirs, err := v1.Collect(agent.Requests(t.Context(), v1.RequestQuery{Whose: "inbox"})); err != nil || len(theirs) != 0 {
		t.Errorf("the agent's: %+v, %v", theirs, err)
	}
	if _, err := agent.ApproveRequest(t.Context(), list[0].ID, v1.RequestApproval{}); err == nil {
		t.Error("the token approves it")
	}
	if _, err := ada.MakeRequest(t.Context(), v1.NewRequest{RequestWish: v1.RequestWish{Job: list[0].Job}}); err == nil || !strings.Contains(err.Error(), "submitting") {
		t.Errorf("made by hand: %v", err)
	}
	if done, err := ada.ApproveRequest(t.Context(), list[0].ID, v1.RequestApproval{}); err != nil || done.State != "approved" || done.By != "ada" {
		t.Errorf("%+v, %v", done, err)
	}
	if got := get[v1.Job](h, 200, request{method: "GET", path: "/v1/jobs/" + job.ID, user: "ada"}); got.State == "held" || got.Receipt.Deposit == "0.000" || got.Token.Name != "agent" {
		t.Errorf("%+v", got)
	}
}
