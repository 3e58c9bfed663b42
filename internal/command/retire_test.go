package command_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/tenancy"
	"croft.dev/croft/internal/workload"
)

func TestRetire(t *testing.T) {
	s := newSim(t)
	root, uid := s.user("root"), int64(1001)
	s.must(t, root, command.UserPut{Name: "ada", UID: &uid})
	s.must(t, root, command.TokenPut{User: "ada", Name: "x", Hash: "h"})
	s.must(t, root, command.SSHKeyAdd{User: "ada", Fingerprint: "SHA256:x", Type: "ssh-ed25519", Blob: "AAAA"})
	s.must(t, root, command.PasswordPut{User: "ada", Hash: "h"})
	s.must(t, root, command.RegistryLogin{User: "ada", Registry: "ghcr.io", Sealed: "s"})
	ada := s.user("ada")
	for range 3 {
		s.must(t, ada, command.Submit{Spec: example()})
	}
	s.must(t, system, command.JobStart{Job: 1})
	s.must(t, system, command.JobObserved{Job: 1, N: 1, Running: true, Started: s.now})
	s.now += hour / 2
	_, err := s.do(root, command.UserRetire{Name: "ada"})
	if fault.Of(err) != codes.Conflict || !strings.Contains(err.Error(), "3 jobs have it (1 2 3)") {
		t.Errorf("with jobs: %v", err)
	}
	got := s.must(t, root, command.UserRetire{Name: "ada", Stop: true})
	if want := (command.Retired{Jobs: 3, Tokens: 1, Members: 1}); got != want {
		t.Errorf("ended %+v, want %+v", got, want)
	}
	if s.w.Tenancy.SSHKeys.Len() != 0 {
		t.Error("her SSH key outlives her")
	}
	if s.w.Tenancy.Credentials.Len() != 0 {
		t.Error("her login to a registry outlives her")
	}
	if j := s.job(t, 1); j.State != workload.Stopping {
		t.Errorf("the running job is %s", j.State)
	}
	if _, live := s.w.Workload.Jobs.Get(2); live {
		t.Error("a waiting job lives on")
	}
	if _, err := s.do(ada, command.Submit{Spec: example()}); err == nil {
		t.Error("a retired user's principal of before submits")
	}
	s.now += hour
	s.must(t, system, command.JobObserved{Job: 1, N: 1, Exited: true, Finished: s.now})
	s.must(t, root, command.UserPut{Create: true, Name: "ada", UID: &uid})
	again, _ := s.w.Tenancy.User("ada")
	if by, ok := s.w.Tenancy.UserOfUID(uid); !ok || by.ID != again.ID || int64(again.ID) == ada.User {
		t.Errorf("the name and the uid are %+v's", by)
	}
	if p := s.user("ada"); s.w.Can(p, access.JobRead, 2, 0) || s.w.Tenancy.Role(again.ID, 1, s.now) != access.NoRole {
		t.Error("the name's next user has what the last one had")
	}
	if all := s.w.Tenancy.UsersNamed("ada"); len(all) != 2 || all[0].ID != again.ID || !s.w.Tenancy.Left("ada", uid) {
		t.Errorf("%+v", all)
	}
	if _, err := s.do(root, command.UserRetire{Name: "root"}); fault.Of(err) != codes.Conflict {
		t.Errorf("oneself: %v", err)
	}
}

func TestMoveAccount(t *testing.T) {
	s := newSim(t)
	root := s.user("root")
	s.must(t, root, command.AccountPut{Create: true, Name: "faculty"})
	s.must(t, root, command.GrantGive{Account: "faculty", Amount: 100 * money.Credit, Source: "dean", Subtree: true})
	for name, tt := range map[string]struct {
		cmd  command.AccountMove
		code codes.Code
	}{
		"under itself":   {command.AccountMove{Name: "nlp", Under: "nlp"}, codes.Invalid},
		"under its own":  {command.AccountMove{Name: "nlp", Under: "vision"}, codes.Invalid},
		"under none":     {command.AccountMove{Name: "nlp", Under: "none"}, codes.Invalid},
		"none at all":    {command.AccountMove{Name: "none", Under: "nlp"}, codes.NotFound},
		"already there":  {command.AccountMove{Name: "vision", Under: "nlp"}, ""},
		"already at top": {command.AccountMove{Name: "nlp"}, ""},
	} {
		before := s.w.Seq
		_, err := s.do(root, tt.cmd)
		if err == nil && tt.code == "" {
			if s.w.Seq != before {
				t.Errorf("%s: something was changed", name)
			}
			continue
		}
		if err == nil || fault.Of(err) != tt.code {
			t.Errorf("%s: %v", name, err)
		}
	}
	s.must(t, s.user("ben"), command.Submit{Spec: example()})
	was := s.job(t, 1).Path
	dry := s.must(t, root, command.AccountMove{Name: "vision", Under: "faculty", Dry: true}).(command.Moved)
	if now, _ := s.w.Tenancy.Account("vision"); dry.Jobs != 1 || now.Parent == dry.Row.Parent {
		t.Errorf("dry: %d jobs, is under %d, would be under %d", dry.Jobs, now.Parent, dry.Row.Parent)
	}
	got := s.must(t, root, command.AccountMove{Name: "vision", Under: "faculty"}).(command.Moved)
	if got.Jobs != 1 || !slices.Equal(s.job(t, 1).Path, was) {
		t.Errorf("%+v; path %v, was %v", got, s.job(t, 1).Path, was)
	}
	s.must(t, s.user("ben"), command.Submit{Spec: example()})
	if j := s.job(t, 2); slices.Equal(j.Path, was) || j.Sources[0].Source != string(ledger.OfGrant(2)) {
		t.Errorf("a job after it: path %v, paid by %v", j.Path, j.Sources)
	}
	s.must(t, root, command.AccountPut{Name: "faculty", Closed: yes()})
	if _, err := s.do(root, command.AccountMove{Name: "nlp", Under: "faculty"}); fault.Of(err) != codes.Conflict {
		t.Errorf("under a closed one: %v", err)
	}
}

func TestTheTreeIsBounded(t *testing.T) {
	s := newSim(t)
	root := s.user("root")
	name := func(chain string, i int) string { return fmt.Sprintf("%s%d", chain, i) }
	for _, chain := range []string{"a", "b"} {
		for i := range 20 {
			parent := ""
			if i > 0 {
				parent = name(chain, i-1)
			}
			s.must(t, root, command.AccountPut{Create: true, Name: name(chain, i), Parent: parent})
		}
	}
	if _, err := s.do(root, command.AccountMove{Name: "b0", Under: "a12"}); fault.Of(err) != codes.Invalid {
		t.Errorf("33 deep: %v", err)
	}
	s.must(t, root, command.AccountMove{Name: "b0", Under: "a11"})
}

func TestRemoveAccount(t *testing.T) {
	s := newSim(t)
	root := s.user("root")
	s.must(t, root, command.LimitPut{Account: "nlp", Resource: "gpu", Max: 4000})
	s.must(t, root, command.PartitionPut{Name: "main", Accounts: &[]string{"nlp"}})
	s.must(t, s.user("ada"), command.Submit{Spec: example()})
	_, err := s.do(root, command.AccountRemove{Name: "nlp"})
	if fault.Of(err) != codes.Conflict {
		t.Fatalf("in use: %v", err)
	}
	for _, why := range []string{"account vision is below it", "job 1 has it", "limit 1 is about it", "partition main names it", "grant 1 has"} {
		if !strings.Contains(err.Error(), why) {
			t.Errorf("%v: doesn't say that %s", err, why)
		}
	}
	s.must(t, root, command.JobStop{Job: 1})
	s.must(t, root, command.LimitPut{Remove: 1})
	s.must(t, root, command.PartitionPut{Name: "main", Accounts: &[]string{}})
	s.must(t, root, command.AccountRemove{Name: "vision"})
	s.must(t, root, command.AccountRemove{Name: "nlp", Expire: true})
	if rest := s.w.Ledger.Balance(ledger.Expired); rest != 500*money.Credit {
		t.Errorf("%s credits expired", rest)
	}
	if _, err := s.do(s.user("ada"), command.Submit{Spec: example()}); err == nil {
		t.Error("a job under a removed account")
	}
	s.must(t, root, command.AccountPut{Create: true, Name: "nlp"})
	if a, _ := s.w.Tenancy.Account("nlp"); a.ID == 1 || len(s.w.Tenancy.Members(a.ID)) != 0 || len(s.w.Tenancy.AccountsNamed("nlp")) != 2 {
		t.Errorf("the name's next account: %+v", a)
	}
}

// What ends with an account: its members' roles and its money; and with a later end
// both go on, but no grant beyond its own.
func TestAccountsEnd(t *testing.T) {
	s := newSim(t)
	root := s.user("root")
	end, own := s.now+100*hour, s.now+150*hour
	s.must(t, root, command.GrantGive{Account: "vision", Amount: money.Credit, Source: "own", End: own})
	s.must(t, root, command.AccountPut{Name: "nlp", Ends: &end})
	s.must(t, root, command.GrantGive{Account: "vision", Amount: money.Credit, Source: "late"})
	ends := func() (out [3]int64) {
		for i := range out {
			g, _ := s.w.Ledger.Grants.Get(id.Grant(i + 1))
			out[i] = g.End
		}
		return out
	}
	if got := ends(); got != [3]int64{end, end, end} {
		t.Errorf("grants end at %v, the account at %d", got, end)
	}
	s.must(t, s.user("ben"), command.Submit{Spec: example()})
	s.now = end
	if role := s.w.Tenancy.Role(2, 1, s.now); role != access.NoRole {
		t.Errorf("ada still is %s", role)
	}
	if _, err := s.do(s.user("ada"), command.Submit{Spec: example()}); fault.Of(err) != codes.Denied {
		t.Errorf("a job after the end: %v", err)
	}
	if _, err := s.do(root, command.GrantGive{Account: "nlp", Amount: 1, Source: "x"}); fault.Of(err) != codes.Invalid {
		t.Errorf("a grant after the end: %v", err)
	}
	if _, err := s.do(root, command.AccountPut{Create: true, Name: "sub", Parent: "nlp"}); fault.Of(err) != codes.Invalid {
		t.Errorf("an account below it: %v", err)
	}
	later := s.now + 1000*hour
	s.must(t, root, command.AccountPut{Name: "nlp", Ends: &later})
	if got := ends(); got != [3]int64{later, own, later} {
		t.Errorf("grants end at %v, the account at %d", got, later)
	}
	s.must(t, s.user("ada"), command.Submit{Spec: example()})
	s.must(t, root, command.AccountPut{Name: "nlp", Ends: new(int64)})
	if got := ends(); got != [3]int64{0, own, 0} {
		t.Errorf("grants end at %v, the account never", got)
	}
}

// A manager may bring an account's end nearer, not put it off.
func TestWhoMayEndAnAccount(t *testing.T) {
	s := newSim(t)
	root := s.user("root")
	s.must(t, root, command.MemberPut{Account: "nlp", User: "ada", Role: "manager"})
	at := func(h int64) *int64 { n := s.now + h*hour; return &n }
	s.must(t, s.user("ada"), command.AccountPut{Name: "nlp", Ends: at(10)})
	s.must(t, s.user("ada"), command.AccountPut{Name: "nlp", Ends: at(5)})
	for _, end := range []*int64{at(6), new(int64)} {
		if _, err := s.do(s.user("ada"), command.AccountPut{Name: "nlp", Ends: end}); fault.Of(err) != codes.Denied {
			t.Errorf("put off to %d: %v", *end, err)
		}
	}
	if _, err := s.do(root, command.AccountPut{Name: "nlp", Ends: at(-1)}); fault.Of(err) != codes.Invalid {
		t.Errorf("in the past: %v", err)
	}
	s.must(t, root, command.AccountPut{Name: "nlp", Ends: at(100)})
}

// tenancy is a random change of people and accounts, in the midst of everything.
func (h *history) tenancy(t *rapid.T) {
	root := h.user("root")
	switch rapid.IntRange(0, 5).Draw(t, "people") {
	case 0:
		h.do(t, root, command.UserRetire{Name: "ben", Stop: true})
		h.do(t, root, command.UserPut{Create: true, Name: "ben"})
		h.do(t, root, command.MemberPut{Account: "vision", User: "ben", Role: "member"})
	case 1, 2:
		h.do(t, root, command.AccountMove{Name: "vision", Under: rapid.SampledFrom([]string{"", "nlp", "vision"}).Draw(t, "under")})
	case 3:
		end := h.now + rapid.Int64Range(1, 50*hour).Draw(t, "end")
		h.do(t, root, command.AccountPut{Name: rapid.SampledFrom([]string{"nlp", "vision"}).Draw(t, "account"), Ends: &end})
	case 4:
		h.do(t, root, command.AccountPut{Name: "nlp", Ends: new(int64)})
		h.do(t, root, command.AccountPut{Name: "vision", Ends: new(int64)})
	case 5:
		h.do(t, root, command.AccountRemove{Name: "vision", Expire: true})
	}
	for _, g := range h.w.Ledger.Grants.All() {
		if want := tenancy.Sooner(g.OwnEnd, h.w.Tenancy.AccountEnd(g.Account)); !g.Expired && g.End != want {
			t.Fatalf("grant %d ends at %d, its account says %d", g.ID, g.End, want)
		}
	}
}
