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
	access.JobSee:      {"everybody"},
	access.NodeSee:     {"everybody"},
	access.JobRead:     {"owner of it", "auditor", "operator", "admin", "manager"},
	access.JobSubmit:   {"member"},
	access.JobControl:  {"owner of it", "operator", "admin", "manager"},
	access.JobEnter:    {"owner of it"},
	access.AccountSee:  {"auditor", "operator", "admin", "viewer"},
	access.AccountRead: {"auditor", "operator", "admin", "viewer"},
	access.AccountRun:  {"admin", "manager"},
	access.AccountMake: {"admin"},
	access.MoneyGive:   {"admin"},
	access.PriceSet:    {"admin"},
	access.UserRun:     {"admin"},
	access.LimitSet:    {"operator", "admin"},
	access.NodeRun:     {"operator", "admin"},
	access.UserSee:     {"owner of it", "auditor", "operator", "admin"},
	access.TokenRun:    {"owner of it", "admin"},
	access.LedgerAll:   {"auditor", "operator", "admin"},
	access.EventsAll:   {"auditor", "operator", "admin"},
	access.System:      {},
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
			least > 0 && int(t.Role) >= least:
			return true
		}
	}
	return false
}

// Every action × platform role × account role × owner × blocked, and who has no
// name, against the oracle.
func TestAuthorizeAgainstOracle(t *testing.T) {
	const me, somebody = int64(7), int64(8)
	asked := 0
	for a := range grants {
		for _, platform := range []access.Platform{access.PlatformUser, access.Operator, access.Admin, access.Auditor, ""} {
			for role := range access.Role(len(roles)) {
				for _, owner := range []int64{0, me, somebody} {
					for _, user := range []int64{0, me} {
						for _, blocked := range []bool{false, true} {
							p := access.Principal{User: user, Platform: platform, Blocked: blocked}
							target := access.Target{Owner: owner, Role: role}
							want := user != 0 && !blocked && allowed(p, a, target)
							if got := access.Authorize(p, a, target); got != want {
								t.Errorf("Authorize(%+v, %s, %+v) = %v, the table says %v", p, a, target, got, want)
							}
							p.System = true
							if !access.Authorize(p, a, target) {
								t.Errorf("the server itself may not %s", a)
							}
							asked++
						}
					}
				}
			}
		}
	}
	if want := 20 * 5 * 5 * 3 * 2 * 2; asked != want {
		t.Errorf("asked %d questions, want %d: an action is missing", asked, want)
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
