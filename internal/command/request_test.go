package command_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/approval"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/money"
)

func joinWish(account, role string) approval.Wish {
	return approval.Wish{Join: &approval.Join{Account: account, Role: role}}
}

func creditsWish(account string, amount money.Micros) approval.Wish {
	return approval.Wish{Credits: &approval.Credits{Account: account, Amount: amount}}
}

func transferWish(from, to string, amount money.Micros) approval.Wish {
	return approval.Wish{Transfer: &approval.Transfer{From: from, To: to, Amount: amount}}
}

func limitWish(account string, most int64) approval.Wish {
	return approval.Wish{Limit: &approval.Limit{Account: account, Resource: limits.GPU, Max: most}}
}

// asked is the open request, or a new one of a user's to be a member of nlp.
func (s *sim) asked(user string) id.Request {
	for r := range s.w.Approvals.Opened() {
		if r.Pending(s.now) {
			return r.ID
		}
	}
	out, err := s.do(s.user(user), command.RequestMake{Wish: joinWish("nlp", "member")})
	if err != nil {
		panic(err)
	}
	return out.(approval.Request).ID
}

// ask makes a request.
func (s *sim) ask(t *testing.T, user string, wish approval.Wish) id.Request {
	t.Helper()
	return s.must(t, s.user(user), command.RequestMake{Wish: wish}).(approval.Request).ID
}

func (s *sim) request(k id.Request) approval.Request {
	r, _ := s.w.Approvals.Requests.Get(k)
	return r
}

func (s *sim) role(user, account string) access.Role {
	u, _ := s.w.Tenancy.User(user)
	a, _ := s.w.Tenancy.Account(account)
	return s.w.Tenancy.Role(u.ID, a.ID, s.now)
}

func (s *sim) has(account string) money.Micros {
	a, _ := s.w.Tenancy.Account(account)
	return ledger.Available(s.w.Ledger.Sources([]id.Account{a.ID}, s.now))
}

// What each kind asks for is so once it is approved, in that step, and only then.
func TestApprovingDoesIt(t *testing.T) {
	for name, tt := range map[string]struct {
		asks, decides string
		wish          approval.Wish
		source        string
		done          func(s *sim) bool
	}{
		"join":     {"stranger", "manager", joinWish("nlp", "member"), "", func(s *sim) bool { return s.role("stranger", "nlp") == access.Member }},
		"credits":  {"ada", "root", creditsWish("nlp", 7*money.Credit), "DFG-7", func(s *sim) bool { return s.has("nlp") == 507*money.Credit }},
		"transfer": {"ben", "manager", transferWish("nlp", "vision", 9*money.Credit), "", func(s *sim) bool { return s.has("vision") == 9*money.Credit && s.has("nlp") == 491*money.Credit }},
		"limit": {"ada", "operator", limitWish("nlp", 3000), "", func(s *sim) bool {
			nlp, _ := s.w.Tenancy.Account("nlp")
			l, _ := s.w.Limits.Find(limits.Scope{Account: nlp.ID}, limits.GPU, limits.Per{})
			return l.Max == 3000
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := crowd(t)
			s.must(t, system, command.JobStop{Job: 1}) // its deposit is back
			k := s.ask(t, tt.asks, tt.wish)
			if tt.done(s) {
				t.Fatal("it is so already")
			}
			s.must(t, s.user(tt.decides), command.RequestApprove{Request: k, Words: "ok", Source: tt.source})
			decider, _ := s.w.Tenancy.User(tt.decides)
			if r := s.request(k); !tt.done(s) || r.State != approval.Approved || r.By != decider.ID || r.Decided != s.now || r.Said != "ok" {
				t.Errorf("done %v: %+v", tt.done(s), r)
			}
			if _, err := s.do(s.user(tt.decides), command.RequestApprove{Request: k, Source: tt.source}); fault.Of(err) != codes.Conflict || !strings.Contains(err.Error(), "approved already") {
				t.Errorf("approved twice: %v", err)
			}
		})
	}
}

// Whoever asks never decides, whatever he may do himself.
func TestNeverByTheRequester(t *testing.T) {
	s := crowd(t)
	for who, wish := range map[string]approval.Wish{
		"manager": transferWish("nlp", "vision", money.Credit), "owner": creditsWish("nlp", money.Credit), "root": joinWish("empty", "owner"), "operator": joinWish("nlp", "viewer"),
	} {
		k := s.ask(t, who, wish)
		if _, err := s.do(s.user(who), command.RequestApprove{Request: k}); fault.Of(err) != codes.Denied || !strings.Contains(err.Error(), "your own") {
			t.Errorf("%s approves: %v", who, err)
		}
		if _, err := s.do(s.user(who), command.RequestReject{Request: k}); fault.Of(err) != codes.Denied {
			t.Errorf("%s rejects: %v", who, err)
		}
	}
}

// What can't be decided any more says why, and nothing comes of it.
func TestTooLateToDecide(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(t *testing.T, s *sim, k id.Request)
		says   string
	}{
		"rejected": {func(t *testing.T, s *sim, k id.Request) {
			s.must(t, s.user("owner"), command.RequestReject{Request: k})
		}, "rejected already"},
		"withdrawn": {func(t *testing.T, s *sim, k id.Request) {
			s.must(t, s.user("stranger"), command.RequestWithdraw{Request: k})
		}, "withdrawn already"},
		"over": {func(t *testing.T, s *sim, k id.Request) { s.now = s.request(k).Expires }, "expired on"},
		"expired": {func(t *testing.T, s *sim, k id.Request) {
			s.now = s.request(k).Expires
			s.must(t, system, command.RequestExpire{Request: k})
		}, "expired already"},
		"whoever asked has left": {func(t *testing.T, s *sim, k id.Request) {
			s.must(t, s.user("root"), command.UserRetire{Name: "stranger"})
			s.must(t, s.user("root"), command.UserPut{Create: true, Name: "stranger"}) // somebody else
		}, "is retired"},
		"whoever asked is blocked": {func(t *testing.T, s *sim, k id.Request) {
			s.must(t, s.user("root"), command.UserPut{Name: "stranger", Blocked: yes()})
		}, "is blocked"},
		"whoever asked has more meanwhile": {func(t *testing.T, s *sim, k id.Request) {
			s.must(t, s.user("owner"), command.MemberPut{Account: "nlp", User: "stranger", Role: "manager"})
		}, "manager of nlp already"},
	} {
		t.Run(name, func(t *testing.T) {
			s := crowd(t)
			k := s.asked("stranger")
			tt.change(t, s, k)
			was := s.role("stranger", "nlp")
			_, err := s.do(s.user("owner"), command.RequestApprove{Request: k})
			if fault.Of(err) != codes.Conflict || !strings.Contains(err.Error(), tt.says) || s.role("stranger", "nlp") != was {
				t.Errorf("%v, is %s", err, s.role("stranger", "nlp"))
			}
		})
	}
}

// A request whose account was removed stays open, says so, and can be rejected; another account
// that has the name then isn't meant.
func TestTheSubjectIsGone(t *testing.T) {
	s := crowd(t)
	root := s.user("root")
	k := s.ask(t, "stranger", joinWish("empty", "member"))
	s.must(t, root, command.AccountRemove{Name: "empty"})
	s.must(t, root, command.AccountPut{Create: true, Name: "empty"})
	for range 2 {
		if _, err := s.do(root, command.RequestApprove{Request: k}); fault.Of(err) != codes.Conflict || !strings.Contains(err.Error(), "isn't there any more") {
			t.Fatalf("%v", err)
		}
	}
	if r := s.request(k); r.State != approval.Open || !strings.Contains(r.Failed, "isn't there any more") || s.role("stranger", "empty") != access.NoRole {
		t.Errorf("%+v", r)
	}
	s.must(t, root, command.RequestReject{Request: k, Words: "ask for the new one"})
}

// A request is refused at once for what could never be; of accounts that whoever asks can't see
// he learns nothing.
func TestWhatCantBeAskedFor(t *testing.T) {
	s := crowd(t)
	s.must(t, s.user("root"), command.AccountPut{Create: true, Name: "hidden"})
	none := approval.Wish{}
	both := joinWish("nlp", "member")
	both.Credits = &approval.Credits{Account: "nlp", Amount: 1}
	past := joinWish("nlp", "member")
	past.Join.Ends = s.now
	ended := creditsWish("nlp", 1)
	ended.Credits.End = s.now
	for name, tt := range map[string]struct {
		who  string
		wish approval.Wish
		want codes.Code
		says string
	}{
		"nothing":                    {"ada", none, codes.Invalid, "kind"},
		"two things":                 {"ada", both, codes.Invalid, "kind"},
		"no such role":               {"stranger", joinWish("nlp", "king"), codes.Invalid, "role"},
		"a role that has ended":      {"stranger", past, codes.Invalid, "ends"},
		"what one is":                {"ada", joinWish("nlp", "member"), codes.Conflict, "so already"},
		"less than one is":           {"owner", joinWish("nlp", "member"), codes.Conflict, "owner of nlp already"},
		"a negative amount":          {"ada", creditsWish("nlp", -1), codes.Invalid, "amount"},
		"no amount":                  {"ada", creditsWish("nlp", 0), codes.Invalid, "amount"},
		"as much as there is":        {"ada", creditsWish("nlp", math.MaxInt64), codes.Invalid, "amount"},
		"as little":                  {"ada", transferWish("nlp", "hidden", math.MinInt64), codes.Invalid, "amount"},
		"too much to transfer":       {"ada", transferWish("nlp", "hidden", math.MaxInt64), codes.Invalid, "amount"},
		"more than there is":         {"ada", transferWish("nlp", "vision", 501*money.Credit), codes.Conflict, "asked for 501"},
		"credits that end":           {"ada", ended, codes.Invalid, "end"},
		"credits of others":          {"stranger", creditsWish("nlp", 1), codes.NotFound, "nlp"},
		"credits of none":            {"stranger", creditsWish("absent", 1), codes.NotFound, "absent"},
		"credits as a viewer":        {"viewer", creditsWish("nlp", 1), codes.Denied, "members"},
		"a transfer of others":       {"stranger", transferWish("nlp", "hidden", 1), codes.NotFound, "nlp"},
		"to oneself":                 {"ada", transferWish("nlp", "nlp", 1), codes.Invalid, "to"},
		"a negative limit":           {"ada", limitWish("nlp", -1), codes.Invalid, "max"},
		"everybody's limit":          {"ada", limitWish("", 1000), codes.Invalid, "account"},
		"another's limit":            {"ada", approval.Wish{Limit: &approval.Limit{Account: "nlp", User: "owner", Resource: limits.GPU, Max: 1}}, codes.Denied, "manager"},
		"a limit of what isn't":      {"ada", approval.Wish{Limit: &approval.Limit{Account: "nlp", Resource: "love", Max: 1}}, codes.Invalid, "resource"},
		"the limit that there is":    {"ada", approval.Wish{Limit: &approval.Limit{Account: "nlp", Resource: "cpu", Max: 1_000_000}}, codes.Conflict, "already"},
		"a name that can't be":       {"stranger", joinWish("no such\nname", "member"), codes.Invalid, "account"},
		"a role in what is hidden":   {"stranger", joinWish("hidden", "member"), "", ""},
		"a role in what isn't there": {"stranger", joinWish("absent", "member"), "", ""},
	} {
		_, err := s.do(s.user(tt.who), command.RequestMake{Wish: tt.wish})
		if tt.want == "" && err != nil || tt.want != "" && (fault.Of(err) != tt.want || !strings.Contains(err.Error()+fieldsOf(err), tt.says)) {
			t.Errorf("%s: %v (%s), want %s", name, err, fault.Of(err), tt.want)
		}
	}
	for name, c := range map[string]command.RequestMake{
		"the past":      {Expires: s.now},
		"far away":      {Expires: math.MaxInt64},
		"before time":   {Expires: math.MinInt64},
		"several lines": {Message: "a\nb"},
		"a novel":       {Message: strings.Repeat("a", 501)},
	} {
		c.Wish = joinWish("nlp", "viewer")
		if _, err := s.do(s.user("stranger"), c); fault.Of(err) != codes.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func fieldsOf(err error) string {
	out := ""
	if f, ok := err.(*fault.Error); ok {
		for _, x := range f.Fields {
			out += " " + x.Path
		}
	}
	return out
}

// The same is asked once at a time, and so many things at once.
func TestRequestsAreBounded(t *testing.T) {
	s := crowd(t)
	stranger := s.user("stranger")
	k := s.asked("stranger")
	if _, err := s.do(stranger, command.RequestMake{Wish: joinWish("nlp", "member"), Message: "please"}); fault.Of(err) != codes.Conflict {
		t.Errorf("asked twice: %v", err)
	}
	s.must(t, stranger, command.RequestWithdraw{Request: k})
	s.asked("stranger")
	for i := 1; i <= approval.MaxOpen; i++ {
		_, err := s.do(stranger, command.RequestMake{Wish: joinWish("x"+strings.Repeat("y", i), "member")})
		if (err == nil) != (i < approval.MaxOpen) {
			t.Fatalf("request %d: %v", i, err)
		}
	}
	s.now += approval.DefaultLife // they are over, noted or not
	s.asked("stranger")
}

// Who makes requests and takes them back doesn't have others told of any number of them.
func TestRequestsOfADay(t *testing.T) {
	s := crowd(t)
	stranger := s.user("stranger")
	for i := range approval.MaxDaily {
		k := s.asked("stranger")
		s.must(t, stranger, command.RequestWithdraw{Request: k})
		if i == 0 {
			s.now += int64(time.Hour)
		}
	}
	wish := command.RequestMake{Wish: joinWish("nlp", "member")}
	if _, err := s.do(stranger, wish); fault.Of(err) != codes.Conflict || !strings.Contains(err.Error(), "in a day") {
		t.Errorf("one more: %v", err)
	}
	s.asked("ben") // others may
	s.now += int64(23 * time.Hour)
	s.must(t, stranger, wish)
	if _, err := s.do(stranger, command.RequestMake{Wish: joinWish("nlp", "viewer")}); fault.Of(err) != codes.Conflict {
		t.Errorf("a day after the first alone: %v", err)
	}
}

// Who decides is reminded once a day.
func TestReminders(t *testing.T) {
	s := crowd(t)
	k := s.asked("stranger")
	stranger := s.user("stranger")
	for _, tt := range []struct {
		after time.Duration
		ok    bool
	}{{0, false}, {24*time.Hour - 1, false}, {1, true}, {0, false}, {24*time.Hour - 1, false}, {1, true}} {
		s.now += int64(tt.after)
		if _, err := s.do(stranger, command.RequestRemind{Request: k}); (err == nil) != tt.ok {
			t.Errorf("%s later: %v", tt.after, err)
		}
	}
	if s.request(k).Reminded != s.now {
		t.Errorf("%+v", s.request(k))
	}
}

// Credits of a request that names no source need one, and what is said then counts.
func TestWhereCreditsComeFrom(t *testing.T) {
	s := crowd(t)
	root := s.user("root")
	k := s.ask(t, "ada", creditsWish("nlp", money.Credit))
	if _, err := s.do(root, command.RequestApprove{Request: k}); fault.Of(err) != codes.Invalid || !strings.Contains(fieldsOf(err), "source") || s.request(k).Failed != "" {
		t.Errorf("%v, %+v", err, s.request(k))
	}
	s.must(t, root, command.RequestApprove{Request: k, Source: "DFG-7"})
	if _, g, _ := s.w.Ledger.Grants.Last(); g.Source != "DFG-7" || g.By != id.User(root.User) {
		t.Errorf("%+v", g)
	}
	if _, err := s.do(root, command.RequestApprove{Request: s.asked("stranger"), Source: "x"}); fault.Of(err) != codes.Invalid {
		t.Errorf("a source of a role: %v", err)
	}
}

// A narrowed token asks for what its account is about, and decides by the scope of what is done.
func TestRequestsByTokens(t *testing.T) {
	s := crowd(t)
	k := s.asked("stranger")
	for name, scopes := range map[string]access.Scope{"read": access.ScopeRead, "submit": access.ScopeSubmit, "manage": access.ScopeManage, "admin": access.ScopeAdmin} {
		s.must(t, system, command.TokenPut{User: "manager", Name: name, Hash: name, Scopes: scopes})
		row, _ := s.w.Tenancy.TokenOfHash(name)
		try := &sim{w: s.w.Copy(), now: s.now}
		_, err := try.do(s.w.Principal(row.User, row.ID, s.now), command.RequestApprove{Request: k})
		if (err == nil) != (name == "manage") {
			t.Errorf("%s: %v", name, err)
		}
	}
	s.must(t, system, command.TokenPut{User: "ada", Name: "ci", Hash: "ci", Account: "vision"})
	row, _ := s.w.Tenancy.TokenOfHash("ci")
	p := s.w.Principal(row.User, row.ID, s.now)
	if _, err := s.do(p, command.RequestMake{Wish: limitWish("nlp", 3000)}); err == nil {
		t.Error("a token for vision asks for nlp")
	}
	got := s.must(t, p, command.RequestMake{Wish: limitWish("vision", 3000)}).(approval.Request)
	if got.Token.Name != "ci" || got.Token.ID != row.ID {
		t.Errorf("%+v", got)
	}
}
