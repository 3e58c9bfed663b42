package command_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/tenancy"
)

func entries(names ...string) []tenancy.Entry {
	var out []tenancy.Entry
	for i, n := range names {
		out = append(out, tenancy.Entry{Line: i + 2, User: n, UID: -1})
	}
	return out
}

func (s *sim) roles(account string) map[string]string {
	out := map[string]string{}
	a, _ := s.w.Tenancy.Account(account)
	for _, m := range s.w.Tenancy.Members(a.ID) {
		u, _ := s.w.Tenancy.Users.Get(m.User)
		out[u.Name] = m.Role.String()
	}
	return out
}

func TestImportMembers(t *testing.T) {
	s := newSim(t)
	root := s.user("root")
	s.must(t, root, command.MemberPut{Account: "nlp", User: "ben", Role: "manager"})
	list := command.MembersImport{Account: "nlp", Entries: entries("ada", "new", "ben")}
	list.Dry = true
	before := s.w
	dry := s.must(t, root, list)
	if s.w != before {
		t.Error("a dry run changed something")
	}
	list.Dry = false
	got := s.must(t, root, list).(command.Imported)
	if diff := cmp.Diff(dry, any(got)); diff != "" {
		t.Errorf("a dry run says something else (-dry +wet):\n%s", diff)
	}
	want := command.Imported{
		Steps: []command.Step{{Line: 3, User: "new", Created: true, To: access.Member}}, Kept: 2,
		Warned: []string{"line 3: user new has no uid on this machine"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"ada": "member", "new": "member", "ben": "manager"}, s.roles("nlp")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	seq := s.w.Seq
	if again := s.must(t, root, list).(command.Imported); len(again.Steps) != 0 || again.Kept != 3 || s.w.Seq != seq {
		t.Errorf("again: %+v", again)
	}
	s.must(t, root, command.MembersImport{Account: "nlp", Entries: entries("new")})
	if got := s.roles("nlp"); len(got) != 3 {
		t.Errorf("without pruning: %v", got)
	}
	s.must(t, root, command.MembersImport{Account: "nlp", Entries: entries("new"), Prune: true})
	if diff := cmp.Diff(map[string]string{"new": "member", "ben": "manager"}, s.roles("nlp")); diff != "" {
		t.Errorf("pruned (-want +got):\n%s", diff)
	}
}

// One wrong line and nothing is done; all of them are named.
func TestImportIsAllOrNothing(t *testing.T) {
	s := newSim(t)
	root, uid := s.user("root"), int64(1001)
	s.must(t, root, command.UserPut{Name: "ada", UID: &uid})
	s.must(t, root, command.MemberPut{Account: "nlp", User: "ben", Role: "owner"})
	s.must(t, root, command.MemberPut{Account: "nlp", User: "ada", Role: "manager"})
	past := s.now - hour
	tests := map[string]struct {
		by   string
		cmd  command.MembersImport
		want []string
	}{
		"a uid of somebody else":  {"root", command.MembersImport{Entries: []tenancy.Entry{{Line: 2, User: "x", UID: 1001}, {Line: 3, User: "ben", UID: 1001}}}, []string{"line 2", "line 3"}},
		"another uid":             {"root", command.MembersImport{Entries: []tenancy.Entry{{Line: 2, User: "ada", UID: 5}}}, []string{"line 2"}},
		"a uid twice":             {"root", command.MembersImport{Entries: []tenancy.Entry{{Line: 2, User: "x", UID: 7}, {Line: 3, User: "y", UID: 7}}}, []string{"line 3"}},
		"a name twice":            {"root", command.MembersImport{Entries: entries("x", "x")}, []string{"line 3"}},
		"no name":                 {"root", command.MembersImport{Entries: entries("X")}, []string{"line 2"}},
		"an end in the past":      {"root", command.MembersImport{Entries: []tenancy.Entry{{Line: 2, User: "x", UID: -1, Ends: &past}}}, []string{"line 2"}},
		"everybody's in the past": {"root", command.MembersImport{Entries: entries("x"), Ends: &past}, []string{"ends"}},
		"no role":                 {"root", command.MembersImport{Entries: entries("x"), Role: "king"}, []string{"role"}},
		"users by a manager":      {"ada", command.MembersImport{Entries: entries("ben", "x", "y")}, []string{"line 3", "line 4"}},
		"owners by a manager":     {"ada", command.MembersImport{Entries: []tenancy.Entry{{Line: 2, User: "ada", UID: -1, Role: access.Owner}, {Line: 3, User: "ben", UID: -1, Role: access.Member}}}, []string{"line 2", "line 3"}},
	}
	for name, tt := range tests {
		before := s.w
		tt.cmd.Account = "nlp"
		_, err := s.do(s.user(tt.by), tt.cmd)
		f, ok := err.(*fault.Error)
		if !ok || f.Code != codes.Invalid {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var at []string
		for _, field := range f.Fields {
			at = append(at, field.Path)
		}
		if diff := cmp.Diff(tt.want, at); diff != "" || s.w != before {
			t.Errorf("%s: %v (-want +got):\n%s", name, f.Fields, diff)
		}
	}
}

// After a list with pruning, the members are those of the list, whoever they were
// before, and who manages.
func TestImportMakesItSo(t *testing.T) {
	names := []string{"ada", "ben", "cem", "dan", "eve"}
	rapid.Check(t, func(t *rapid.T) {
		s := newSim(t)
		root := s.user("root")
		kept := map[string]string{}
		for _, n := range names[2:] {
			s.must(t, root, command.UserPut{Create: true, Name: n})
			if role := rapid.SampledFrom([]string{"", "viewer", "member", "manager"}).Draw(t, n); role != "" {
				group := rapid.Bool().Draw(t, "group")
				s.must(t, root, command.MemberPut{Account: "nlp", User: n, Role: role, Group: group})
				if role == "manager" || group {
					kept[n] = role
				}
			}
		}
		var list []tenancy.Entry
		for i, n := range rapid.SliceOfDistinct(rapid.SampledFrom(append(names, "new1", "new2")), rapid.ID).Draw(t, "list") {
			e := tenancy.Entry{Line: i + 2, User: n, UID: -1, Role: access.Role(rapid.IntRange(0, 4).Draw(t, "role"))}
			list = append(list, e)
			switch was := s.roles("nlp")[n]; {
			case e.Role != access.NoRole:
				kept[n] = e.Role.String()
			case was != "":
				kept[n] = was
			default:
				kept[n] = "viewer"
			}
		}
		s.must(t, root, command.MembersImport{Account: "nlp", Entries: list, Role: "viewer", Prune: true})
		if diff := cmp.Diff(kept, s.roles("nlp")); diff != "" {
			t.Fatalf("%v (-want +got):\n%s", list, diff)
		}
		seq := s.w.Seq
		s.must(t, root, command.MembersImport{Account: "nlp", Entries: list, Role: "viewer", Prune: true})
		if s.w.Seq != seq {
			t.Fatal(fmt.Sprint("the same list again changed something: ", list))
		}
	})
}
