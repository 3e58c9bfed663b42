package command_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/admission"
	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/tenancy"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

// makeToken gives somebody a token with caps.
func (h *history) makeToken(t *rapid.T) {
	user := rapid.SampledFrom([]string{"ada", "ben"}).Draw(t, "token of")
	h.do(t, h.user(user), command.TokenPut{User: user, Name: "ci", Hash: user + string(rune('a'+len(h.tokens))), Caps: tenancy.Caps{
		Spend:   money.Micros(rapid.Int64Range(0, 8).Draw(t, "token's credits")) * money.Credit,
		Per:     rapid.SampledFrom([]string{"", "day", "week", "month"}).Draw(t, "token's time"),
		Devices: rapid.Int64Range(-1, 3).Draw(t, "token's devices") * 1000,
	}})
	for k, row := range h.w.Tenancy.Tokens.All() {
		h.tokens[k] = row
	}
}

// by is somebody, by a token if he has one: one that may be over by now is none.
func (h *history) by(t *rapid.T, who access.Principal) access.Principal {
	of := h.w.Tenancy.TokensOf(id.User(who.User))
	if len(of) == 0 || rapid.IntRange(0, 3).Draw(t, "by token") == 0 {
		return who
	}
	return h.w.Principal(id.User(who.User), rapid.SampledFrom(of).Draw(t, "token").ID, h.now)
}

// tokensHold checks the caps of every token that there ever was against the transfers and
// the jobs: what is counted is what there is, no deposit was made beyond a cap, and no
// more devices are held than may be.
func (h *history) tokensHold(t *rapid.T) {
	for k, row := range h.tokens {
		var spent, aside money.Micros
		added := false
		for i, tr := range h.transfers {
			if tr.Job == 0 || tr.User == 0 || h.rows[tr.Job].Token.ID != k {
				continue
			}
			if tr.Token != k {
				t.Fatalf("%+v names token %d, its job was submitted by %d", tr, tr.Token, k)
			}
			in := when(tr.At >= begin(limits.Unit(row.Caps.Per), h.now) || row.Caps.Per == "", tr.Amount)
			switch tr.Kind {
			case ledger.KindDeposit:
				if !strings.HasPrefix(string(tr.From), "deposit:") {
					aside, added = aside+tr.Amount, added || i >= h.checked
				}
			case ledger.KindReturn:
				aside -= tr.Amount
			case ledger.KindCharge:
				aside, spent = aside-tr.Amount, spent+in
			case ledger.KindCorrect:
				aside, spent = aside+tr.Amount, spent-in
			case ledger.KindRefund:
				spent -= in
			}
		}
		var held int64
		for _, j := range h.w.Workload.Jobs.All() {
			if j.Token.ID == k && workload.RulesOf(j.State).Running {
				held += catalog.Counted(j.Attempt.Models)
			}
		}
		for _, b := range h.w.Limits.TokenCaps(row.User, row.By()) {
			b = h.w.View(h.now).Charged(b)
			switch {
			case b.Limit.Resource == limits.GPU && (b.Used != held || held > b.Max):
				t.Fatalf("token %d: %d devices are counted, its jobs hold %d of at most %d", k, b.Used, held, b.Max)
			case b.Limit.Resource == limits.Credits && (b.Spent != max(0, int64(spent)) || b.Used-b.Spent != int64(aside)):
				t.Fatalf("token %d: %d spent and %d set aside are counted, the transfers come to %d and %d", k, b.Spent, b.Used-b.Spent, spent, aside)
			case b.Limit.Resource == limits.Credits && added && b.Used > b.Max:
				t.Fatalf("token %d: set aside beyond its cap: %d of %d", k, b.Used, b.Max)
			}
		}
	}
}

// token is ada, by a token of hers with these caps.
func (s *sim) token(t *testing.T, name string, caps tenancy.Caps) access.Principal {
	t.Helper()
	row := s.must(t, s.user("ada"), command.TokenPut{User: "ada", Name: name, Hash: name, Caps: caps}).(tenancy.Token)
	return s.w.Principal(row.User, row.ID, s.now)
}

// What a token's jobs spend and set aside together is bounded, whoever starts them again;
// a refusal names it, and its user goes on without it.
func TestATokensSpendCap(t *testing.T) {
	s := newSim(t)
	ci := s.token(t, "ci", tenancy.Caps{Spend: 5 * money.Credit})
	first := s.must(t, ci, command.Submit{Spec: example()}).(admission.Accepted).Job
	s.must(t, ci, command.Submit{Spec: example()})
	_, err := s.do(ci, command.Submit{Spec: example()})
	f := refusal(t, err)
	want := "the deposit is 2.288, token ci of ada has 0.424 left of 5.000 credits in all: 0.000 spent, 4.576 set aside; only another token"
	if r := f.Reasons[0]; r.Code != codes.LimitCredits || r.Scope != "token ci of ada" || !strings.HasPrefix(r.Message, want) || f.Remedy == nil || f.Remedy.Set["time"] != "22m" {
		t.Errorf("%+v, %+v", r, f.Remedy)
	}
	array := example()
	array.Array = workload.ArraySpec{Elements: workload.Elements{{First: 0, Last: 2, Step: 1}}}
	array.Time = hour / 6
	if _, err = s.do(ci, command.Submit{Spec: array}); refusal(t, err).Reasons[0].Code != codes.LimitCredits {
		t.Errorf("an array: %v", err)
	}
	s.must(t, s.user("ada"), command.Submit{Spec: example()}) // by herself
	s.lasts(t, first.ID, 2*hour)
	s.ends(t, first.ID)
	s.now += 400 * 24 * hour
	if _, err = s.do(ci, command.Submit{Spec: example()}); !strings.Contains(refusal(t, err).Reasons[0].Message, "2.288 spent, 2.288 set aside") {
		t.Errorf("after a year: %v", err)
	}
}

// Over its cap on devices a token's job waits, and says why; one that alone is larger is
// refused. What others start doesn't count, whoever owns it.
func TestATokensDevices(t *testing.T) {
	s := newSim(t)
	ci := s.token(t, "ci", tenancy.Caps{Devices: 1000})
	a := s.must(t, ci, command.Submit{Spec: example()}).(admission.Accepted).Job.ID
	b := s.must(t, ci, command.Submit{Spec: example()}).(admission.Accepted).Job.ID
	own := s.submits(t)
	s.must(t, system, command.JobStart{Job: a})
	s.must(t, system, command.JobStart{Job: own})
	v := s.must(t, system, command.JobStart{Job: b}).(admission.Verdict)
	if r := v.Reasons[0]; r.Code != codes.LimitDevices || r.Never || r.Message != "asked for 1 gpu, token ci of ada uses 1 of 1" {
		t.Errorf("%+v", r)
	}
	two := example()
	two.GPU = 2000
	_, err := s.do(ci, command.Submit{Spec: two})
	if f := refusal(t, err); f.Reasons[0].Code != codes.LimitDevices || f.Reasons[0].Message != "asked for 2 gpu, token ci of ada may use 1 at once" || f.Remedy.Set["gpu"] != "1" {
		t.Errorf("%+v", f)
	}
	none := s.token(t, "none", tenancy.Caps{Devices: tenancy.NoDevices})
	if _, err := s.do(none, command.Submit{Spec: example()}); refusal(t, err).Reasons[0].Code != codes.LimitDevices {
		t.Errorf("none: %v", err)
	}
	// The token is gone, its jobs and their bound aren't.
	s.must(t, s.user("ada"), command.TokenRevoke{User: "ada", Token: id.Token(ci.Narrow.Token)})
	if v := s.must(t, system, command.JobStart{Job: b}).(admission.Verdict); len(v.Reasons) == 0 || v.Reasons[0].Scope != "token ci of ada" {
		t.Errorf("%+v", v.Reasons)
	}
	s.must(t, system, command.JobObserved{Job: a, N: 1, Running: true, Started: s.now})
	s.ends(t, a)
	s.must(t, system, command.JobStart{Job: b})
	if j := s.job(t, b); j.State != workload.Starting || j.Token.String() != "ci #1" {
		t.Errorf("%s by %s", j.State, j.Token)
	}
}

// A stolen token with caps gets at nothing that isn't counted for it: no other job of its
// user's, no program on the machine itself, no other credentials.
func TestATokenWithCapsActsInItsOwnJobs(t *testing.T) {
	s := newSim(t)
	ada := s.user("ada")
	box := example()
	box.Kind, box.Name = workload.KindWorkspace, "box"
	others := s.must(t, ada, command.Submit{Spec: box}).(admission.Accepted).Job.ID
	ci := s.token(t, "ci", tenancy.Caps{Spend: 5 * money.Credit, Devices: 1000})
	twin := s.token(t, "ci2", tenancy.Caps{Spend: 5 * money.Credit})
	own := s.must(t, ci, command.Submit{Spec: example()}).(admission.Accepted).Job.ID
	for _, k := range []id.Job{others, own} {
		s.must(t, system, command.JobStart{Job: k})
		s.must(t, system, command.JobObserved{Job: k, N: 1, Running: true, Started: s.now})
	}
	host := example()
	host.Kind, host.Image, host.Command = workload.KindBatch, "", []string{"true"}
	in := func(k id.Job) map[string]world.Command {
		return map[string]world.Command{
			"enter": command.JobExec{Job: k, Step: 1}, "attach": command.JobAttach{Job: k, Step: 1}, "ssh": command.JobSSH{Job: k, Step: 1, For: command.SSHShell},
			"terminal": command.JobTerminal{Job: k, Step: 1, Name: "a"}, "look": command.JobTerminal{Job: k, Step: 1, Name: "a", View: true},
			"step": command.StepAdd{Job: k, Spec: workload.StepSpec{Command: []string{"true"}}}, "keep": command.JobKeep{Job: k, For: hour},
			"requeue": command.JobRequeue{Job: k}, "stop": command.JobStop{Job: k}, "start": command.WorkspaceStart{Job: k}, "hold": command.JobHold{Job: k},
			"release": command.JobRelease{Job: k}, "save": command.ImageSave{Job: k, Step: 1, Name: "x"}, "share": command.JobShare{Job: k, User: "ben", Level: access.ShareFull},
		}
	}
	for what, cmd := range in(others) {
		if _, err := s.do(ci, cmd); fault.Of(err) != codes.Denied || !strings.Contains(err.Error(), "token ci has caps") {
			t.Errorf("%s in ada's own job: %v", what, err)
		}
		if _, err := s.do(ada, cmd); fault.Of(err) == codes.Denied && what != "share" { // which the site doesn't allow
			t.Errorf("%s: ada herself is denied: %v", what, err)
		}
	}
	for what, cmd := range in(own) {
		if _, err := s.do(twin, cmd); fault.Of(err) != codes.Denied {
			t.Errorf("%s in another token's job: %v", what, err)
		}
	}
	for _, what := range []string{"enter", "step", "stop"} {
		if _, err := s.do(ci, in(own)[what]); err != nil {
			t.Errorf("%s in its own job: %v", what, err)
		}
	}
	for what, cmd := range map[string]world.Command{
		"host": command.Submit{Spec: host}, "token": command.TokenPut{User: "ada", Name: "x", Hash: "x"},
		"revoke": command.TokenRevoke{User: "ada", Token: id.Token(twin.Narrow.Token)}, "limit": command.LimitPut{Account: "nlp", User: "ada", Resource: limits.Credits, Max: 1},
	} {
		if _, err := s.do(ci, cmd); err == nil {
			t.Errorf("%s is allowed", what)
		}
	}
	for what, cmd := range map[string]command.TokenPut{
		"scopes: a token with caps may read,submit, not manage": {Scopes: access.ScopeSubmit | access.ScopeManage},
		"scopes: a token that submits nothing needs no caps":    {Scopes: access.ScopeRead},
	} {
		cmd.User, cmd.Name, cmd.Hash, cmd.Caps = "ada", "x", "x", tenancy.Caps{Devices: 1000}
		if _, err := s.do(ada, cmd); err == nil || !strings.Contains(err.Error()+fields(err), what) {
			t.Errorf("%v, want %s", err, what)
		}
	}
}

// A workspace that is started again counts for the token that it was made by, also when
// its user starts it.
func TestATokensWorkspace(t *testing.T) {
	s := newSim(t)
	ci := s.token(t, "ci", tenancy.Caps{Spend: 3 * money.Credit})
	box := example()
	box.Kind, box.Name = workload.KindWorkspace, "box"
	k := s.must(t, ci, command.Submit{Spec: box}).(admission.Accepted).Job.ID
	s.must(t, ci, command.JobStop{Job: k})
	s.must(t, s.user("ada"), command.WorkspaceStart{Job: k})
	s.lasts(t, k, 2*hour)
	s.ends(t, k)
	_, err := s.do(s.user("ada"), command.WorkspaceStart{Job: k})
	if f := refusal(t, err); f.Reasons[0].Scope != "token ci of ada" {
		t.Errorf("%+v", f)
	}
}

// Browsers that come in by links share a session of their own, which goes on with each link
// and ends with the others; one of that name by a password isn't it.
func TestSessionByLinks(t *testing.T) {
	s := crowd(t)
	ada := s.user("ada")
	by := func(expires int64) tenancy.Token {
		t.Helper()
		out, err := s.do(ada, command.SessionByLinks{User: "ada", Expires: s.now + expires})
		if err != nil {
			t.Fatal(err)
		}
		return out.(tenancy.Token)
	}
	named := s.must(t, ada, command.SessionOpen{User: "ada", Name: "browsers, by links", Hash: "other", Verified: "old", Expires: s.now + 100*hour, Idle: hour}).(tenancy.Token)
	first := by(12 * hour)
	if first.ID == named.ID || !first.Session() || !first.ByLinks() || named.ByLinks() {
		t.Errorf("%+v beside %+v", first, named)
	}
	s.now += hour
	if again := by(12 * hour); again.ID != first.ID || again.Expires != s.now+12*hour || again.End() != s.now+12*hour {
		t.Errorf("by another link: %+v", again)
	}
	if again := by(hour); again.Expires != s.now+12*hour {
		t.Errorf("a shorter one cuts it: %+v", again)
	}
	if _, err := s.do(ada, command.SessionByLinks{User: "ada", Expires: s.now}); fault.Of(err) != codes.Invalid {
		t.Errorf("one that is over: %v", err)
	}
	s.must(t, ada, command.SessionsEnd{User: "ada"})
	if row, ok := s.w.Tenancy.Tokens.Get(first.ID); ok && row.Usable(s.now) {
		t.Error("it goes on after all sessions have ended")
	}
	if next := by(12 * hour); next.ID == first.ID {
		t.Error("one that has ended goes on")
	}
}
