package access_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"croft.dev/croft/internal/access"
)

// grants is the oracle: who may do what, written as the documentation says it. A
// word is a platform role, "owner of it" for the user's own rows, or the least
// account role that suffices.
var grants = map[access.Action][]string{
	access.JobSee:        {"everybody"},
	access.NodeSee:       {"everybody"},
	access.JobRead:       {"owner of it", "auditor", "operator", "admin", "manager"},
	access.JobSubmit:     {"member"},
	access.JobControl:    {"owner of it", "operator", "admin", "manager"},
	access.JobEnter:      {"owner of it"},
	access.JobShare:      {"owner of it"},
	access.AppSee:        {"owner of it", "shared view", "shared full"},
	access.AppView:       {"owner of it", "shared view", "shared full"},
	access.AppUse:        {"owner of it", "shared full"},
	access.TermView:      {"owner of it", "shared view", "shared full"},
	access.TermUse:       {"owner of it", "shared full"},
	access.AccountSee:    {"auditor", "operator", "admin", "viewer"},
	access.AccountRead:   {"auditor", "operator", "admin", "viewer"},
	access.AccountRun:    {"admin", "manager"},
	access.AccountMake:   {"admin"},
	access.MoneyGive:     {"admin"},
	access.PriceSet:      {"admin"},
	access.UserRun:       {"admin"},
	access.LimitSet:      {"operator", "admin"},
	access.PeriodClose:   {"operator", "admin"},
	access.JobRaise:      {"operator", "admin"},
	access.CatalogSet:    {"operator", "admin"},
	access.NodeRun:       {"operator", "admin"},
	access.UserSee:       {"owner of it", "auditor", "operator", "admin"},
	access.TokenRun:      {"owner of it", "admin"},
	access.LedgerAll:     {"auditor", "operator", "admin"},
	access.EventsAll:     {"auditor", "operator", "admin"},
	access.RequestMake:   {"owner of it"},
	access.RequestSee:    {"owner of it", "auditor", "operator", "admin", "manager"},
	access.RequestDecide: {"owner of it", "operator", "admin", "manager"},
	access.System:        {},
}

// roles in the order in which each includes those before it.
var roles = []string{"", "viewer", "member", "manager", "owner"}

// allowed is what the oracle says of somebody who has a name and isn't blocked.
func allowed(p access.Principal, a access.Action, t access.Target) bool {
	for _, who := range grants[a] {
		least := slices.Index(roles, who)
		switch {
		case who == "everybody",
			who == "owner of it" && t.Owner != 0 && t.Owner == p.User,
			who == string(p.Platform),
			who == "shared "+t.Share.String(),
			least > 0 && int(t.Role) >= least:
			return true
		}
	}
	return false
}

// shares are all that there are.
var shares = []access.Share{access.NoShare, access.ShareView, access.ShareFull}

// public is what the oracle says of what is given to whoever comes.
func public(a access.Action, t access.Target) bool {
	switch t.Public.String() + " " + string(a) {
	case "view app.view", "full app.view", "full app.use":
		return true
	}
	return false
}

// kept is what the oracle says a token's scopes keep, as the documentation says it.
// A scope with "own" keeps the action only on the user's own things.
var kept = map[string]map[access.Action]string{
	"read": {
		access.JobSee: "", access.JobRead: "", access.AccountSee: "", access.AccountRead: "", access.UserSee: "",
		access.LedgerAll: "", access.EventsAll: "", access.NodeSee: "", access.AppSee: "", access.AppView: "", access.RequestSee: "",
	},
	"submit": {access.JobSubmit: "", access.JobSee: "own", access.JobRead: "own", access.JobControl: "own", access.JobEnter: "", access.JobShare: "", access.AppSee: "", access.AppView: "", access.AppUse: "", access.TermView: "", access.TermUse: "", access.NodeSee: "", access.RequestSee: "own", access.RequestMake: ""},
	"manage": {access.JobSee: "", access.JobRead: "", access.AccountSee: "", access.AccountRead: "", access.JobControl: "others", access.JobRaise: "", access.AccountRun: "", access.LimitSet: "", access.CatalogSet: "", access.NodeRun: "", access.NodeSee: "", access.RequestSee: "", access.RequestMake: "", access.RequestDecide: ""},
	"admin":  {access.AccountSee: "", access.AccountRead: "", access.UserSee: "", access.AccountMake: "", access.MoneyGive: "", access.PriceSet: "", access.PeriodClose: "", access.UserRun: "", access.NodeSee: "", access.RequestSee: "", access.RequestDecide: ""},
}

// narrowed is what the oracle says a narrowed token keeps.
func narrowed(scopes []string, account bool, a access.Action, mine, within bool) bool {
	if len(scopes) == 0 && !account || a == access.NodeSee {
		return true
	}
	if a == access.TokenRun || account && !within {
		return false
	}
	for _, s := range scopes {
		if whose, ok := kept[s][a]; ok && (whose == "" || (whose == "own") == mine) {
			return true
		}
	}
	return len(scopes) == 0
}

// inItsOwn are what a token with caps does to jobs and in them: to those that were submitted
// by it, and to no others.
var inItsOwn = []access.Action{access.JobControl, access.JobEnter, access.JobShare, access.AppUse, access.TermView, access.TermUse}

// capped is what the oracle says a token with caps keeps: of its scopes, read and submit.
func capped(n access.Narrowing, a access.Action, t access.Target, mine bool) bool {
	if a == access.NodeSee {
		return true
	}
	if slices.Contains(inItsOwn, a) && t.Token != n.Token {
		return false
	}
	var scopes []string
	for _, s := range []string{"read", "submit"} {
		if len(n.Scopes.Names()) == 0 || slices.Contains(n.Scopes.Names(), s) {
			scopes = append(scopes, s)
		}
	}
	return len(scopes) > 0 && narrowed(scopes, n.Account != 0, a, mine, t.Within)
}

// narrowings are all that a token can be narrowed to.
func narrowings() []access.Narrowing {
	var out []access.Narrowing
	for scopes := range access.Scope(1 << len(access.ScopeNames())) {
		for _, account := range []int64{0, 5} {
			for _, caps := range []bool{false, true} {
				out = append(out, access.Narrowing{Token: 1, Scopes: scopes, Account: account, Capped: caps})
			}
		}
	}
	return out
}

// Every action × platform role × account role × owner × blocked × what a token is
// narrowed to, and who has no name, against the oracle.
func TestAuthorizeAgainstOracle(t *testing.T) {
	const me, somebody = int64(7), int64(8)
	asked := 0
	for a := range grants {
		for _, platform := range []access.Platform{access.PlatformUser, access.Operator, access.Admin, access.Auditor, ""} {
			for role := range access.Role(len(roles)) {
				for _, target := range []access.Target{
					{Owner: 0}, {Owner: me}, {Owner: somebody},
					{Owner: 0, Within: true}, {Owner: me, Within: true}, {Owner: somebody, Within: true},
					{Owner: me, Within: true, Token: 1}, {Owner: me, Within: true, Token: 2}, {Owner: me, Token: 1}, {Owner: somebody, Within: true, Token: 1},
				} {
					target.Role = role
					for _, n := range narrowings() {
						for _, target.Share = range shares {
							for _, target.Public = range shares {
								asked += compare(t, access.Principal{Platform: platform, Narrow: n}, me, a, target)
							}
						}
					}
				}
			}
		}
	}
	if want := 32 * 5 * 5 * 10 * 64 * 9 * 4; asked != want {
		t.Errorf("asked %d questions, want %d: an action is missing", asked, want)
	}
}

func compare(t *testing.T, p access.Principal, me int64, a access.Action, target access.Target) (asked int) {
	for _, p.User = range []int64{0, me} {
		for _, p.Blocked = range []bool{false, true} {
			want := public(a, target) || p.User != 0 && !p.Blocked && allowed(p, a, target) &&
				(p.Narrow.Capped && capped(p.Narrow, a, target, target.Owner == p.User) ||
					!p.Narrow.Capped && narrowed(p.Narrow.Scopes.Names(), p.Narrow.Account != 0, a, target.Owner == p.User, target.Within))
			if got := access.Authorize(p, a, target); got != want {
				t.Errorf("Authorize(%+v, %s, %+v) = %v, the table says %v", p, a, target, got, want)
			}
			p.System = true
			if !access.Authorize(p, a, target) {
				t.Errorf("the server itself may not %s", a)
			}
			p.System = false
			asked++
		}
	}
	return asked
}

// A token without a number is none whose jobs there could be.
func TestCappedWithoutANumber(t *testing.T) {
	for _, a := range inItsOwn {
		if access.Authorize(access.Principal{User: 7, Narrow: access.Narrowing{Capped: true}}, a, access.Target{Owner: 7, Within: true}) {
			t.Errorf("it may %s", a)
		}
	}
}

func TestSignature(t *testing.T) {
	p := access.Principal{Name: "ada"}
	if got := p.Signature(); got != "ada" {
		t.Errorf("without a token: %s", got)
	}
	p.Narrow = access.Narrowing{Token: 7, Name: "ci"}
	if got := p.Signature(); got != "ada (ci #7)" {
		t.Errorf("by a token: %s", got)
	}
}

// A narrowed token never may what its user mayn't, and never more than a wider one.
func TestNarrowingOnlyTakes(t *testing.T) {
	for a := range grants {
		for _, n := range narrowings() {
			for _, target := range []access.Target{{}, {Owner: 7, Within: true}, {Role: access.Owner, Within: true}, {Role: access.Owner}} {
				p := access.Principal{User: 7, Platform: access.Admin, Narrow: n}
				whole := p
				whole.Narrow = access.Narrowing{}
				if access.Authorize(p, a, target) && !access.Authorize(whole, a, target) {
					t.Errorf("narrowed to %+v may %s to %+v, the user may not", n, a, target)
				}
			}
		}
	}
}

func TestScopesReadBack(t *testing.T) {
	var all access.Scope
	for _, name := range access.ScopeNames() {
		s, ok := access.ParseScope(name)
		if !ok || s.String() != name || all&s != 0 {
			t.Errorf("ParseScope(%q) = %v, %v", name, s, ok)
		}
		all |= s
	}
	if all.String() != "read,submit,manage,admin" {
		t.Errorf("all scopes are %s", all)
	}
	for _, word := range []string{"", "Read", "read,submit", "root"} {
		if s, ok := access.ParseScope(word); ok {
			t.Errorf("ParseScope(%q) = %v", word, s)
		}
	}
}

// What no line allows is denied, whoever asks and whatever he is.
func TestUnknownActionsAreDenied(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := access.Action(rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "job", "JOB.SEE", "job.see ", "admin", "node.manage2"})).Draw(t, "action"))
		if _, known := grants[a]; known {
			t.Skip("a known action")
		}
		p := access.Principal{
			User:     rapid.Int64Range(1, 3).Draw(t, "user"),
			Platform: rapid.SampledFrom([]access.Platform{access.PlatformUser, access.Operator, access.Admin, access.Auditor}).Draw(t, "platform"),
		}
		target := access.Target{Owner: rapid.Int64Range(0, 3).Draw(t, "owner"), Role: access.Role(rapid.IntRange(0, 4).Draw(t, "role"))}
		if access.Authorize(p, a, target) {
			t.Fatalf("%+v may do %q to %+v", p, a, target)
		}
	})
}

// An unknown platform role is worth no more than none.
func TestUnknownPlatformRoles(t *testing.T) {
	for _, platform := range []access.Platform{"root", "ADMIN", "admin ", "superuser"} {
		for a := range grants {
			got := access.Authorize(access.Principal{User: 1, Platform: platform}, a, access.Target{})
			want := access.Authorize(access.Principal{User: 1, Platform: access.PlatformUser}, a, access.Target{})
			if got != want {
				t.Errorf("%q may %s: %v", platform, a, got)
			}
		}
		if got, ok := access.ParsePlatform(string(platform)); ok {
			t.Errorf("ParsePlatform(%q) = %q", platform, got)
		}
	}
}

func TestSharesReadBack(t *testing.T) {
	for _, s := range shares[1:] {
		if got, ok := access.ParseShare(s.String()); !ok || got != s {
			t.Errorf("ParseShare(%q) = %v, %v", s, got, ok)
		}
	}
	for _, s := range []string{"", "View", "public"} {
		if got, ok := access.ParseShare(s); ok || got != access.NoShare {
			t.Errorf("ParseShare(%q) = %v", s, got)
		}
	}
}

func TestRolesReadBack(t *testing.T) {
	for role := access.Viewer; role <= access.Owner; role++ {
		if got, ok := access.ParseRole(role.String()); !ok || got != role {
			t.Errorf("ParseRole(%q) = %v, %v", role, got, ok)
		}
	}
	for _, s := range []string{"", "Owner", "members", "owner\n"} {
		if got, ok := access.ParseRole(s); ok || got != access.NoRole {
			t.Errorf("ParseRole(%q) = %v", s, got)
		}
	}
	for _, r := range []access.Role{-1, 5, 127} {
		if s := fmt.Sprint(r); s != "" {
			t.Errorf("Role(%d) is called %q", int(r), s)
		}
	}
	if p, ok := access.ParsePlatform(""); !ok || p != access.PlatformUser {
		t.Errorf("no platform role reads as %q, %v", p, ok)
	}
}
