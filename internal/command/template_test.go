package command_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/asset"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/world"
)

func board() v1.JobSpec {
	return v1.JobSpec{
		Image: "board:1", Command: []string{"sh", "-c", "exec board --port $CROFT_APP_PORT"}, Mounts: []v1.Mount{{Source: "~"}, {Source: "~/runs", Target: "/runs"}},
		Apps: []v1.App{{Name: "web", Port: 6006, Path: "/", Health: "/healthz"}},
	}
}

func TestTemplates(t *testing.T) {
	s := newSim(t)
	s.must(t, system, command.AccountPut{Create: true, Name: "theirs"})
	s.w.Site.Templates = []string{"jupyter"}
	ada, nlp, nobody, theirs := s.user("ada"), "nlp", "", "theirs"
	spec := board()
	spec.Args = []string{} // nothing, as it is read again
	got := s.must(t, ada, command.TemplatePut{Name: "board", About: "runs", Spec: spec}).(asset.Template)
	want := asset.Template{User: got.User, Name: "board", About: "runs", Spec: board(), Changed: s.now}
	want.Spec.Kind, want.Spec.Name = "workspace", "board"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}

	account, _ := s.w.Tenancy.Account("nlp")
	s.must(t, ada, command.TemplatePut{Name: "board", Spec: board(), Account: &nlp})
	s.must(t, ada, command.TemplatePut{Name: "board", About: "again", Spec: board()})
	if row, _ := s.w.Assets.Template(got.User, "board"); row.Account != account.ID || row.About != "again" {
		t.Errorf("what nothing is said of: %+v", row)
	}
	s.must(t, ada, command.TemplatePut{Name: "board", Spec: board(), Account: &nobody})
	if row, _ := s.w.Assets.Template(got.User, "board"); row.Account != 0 {
		t.Errorf("it is shared still: %+v", row)
	}

	with := func(change func(*v1.JobSpec)) v1.JobSpec { spec := board(); change(&spec); return spec }
	for name, tt := range map[string]struct {
		cmd  command.TemplatePut
		text string
	}{
		"no name":               {command.TemplatePut{Spec: board()}, "name: "},
		"a number":              {command.TemplatePut{Name: "118", Spec: board()}, "name: "},
		"somebody's name":       {command.TemplatePut{Name: "ben/board", Spec: board()}, "name: "},
		"one of the site's":     {command.TemplatePut{Name: "jupyter", Spec: board()}, "name: jupyter is a template of the site's"},
		"a long line":           {command.TemplatePut{Name: "b", About: strings.Repeat("x", 501), Spec: board()}, "about: "},
		"two lines":             {command.TemplatePut{Name: "b", About: "a\nb", Spec: board()}, "about: "},
		"an account of others":  {command.TemplatePut{Name: "b", Account: &theirs, Spec: board()}, "no such account: theirs"},
		"no image":              {command.TemplatePut{Name: "b"}, "image: is missing"},
		"a batch job":           {command.TemplatePut{Name: "b", Spec: with(func(s *v1.JobSpec) { s.Kind = "batch" })}, "kind: "},
		"a time of its own":     {command.TemplatePut{Name: "b", Spec: with(func(s *v1.JobSpec) { s.Begin = "+2h" })}, "begin: "},
		"an array":              {command.TemplatePut{Name: "b", Spec: with(func(s *v1.JobSpec) { s.Array = "0-9" })}, "array: "},
		"a port that is none":   {command.TemplatePut{Name: "b", Spec: with(func(s *v1.JobSpec) { s.Apps[0].Port = 70000 })}, "port"},
		"a health that is none": {command.TemplatePut{Name: "b", Spec: with(func(s *v1.JobSpec) { s.Apps[0].Health = "http://169.254.169.254/" })}, "health"},
		"another's home":        {command.TemplatePut{Name: "b", Spec: with(func(s *v1.JobSpec) { s.Mounts[0].Source = "~ben" })}, "mounts: "},
		"over the container's":  {command.TemplatePut{Name: "b", Spec: with(func(s *v1.JobSpec) { s.Mounts[1].Target = "/proc" })}, "mounts: "},
		"a large one":           {command.TemplatePut{Name: "b", Spec: with(func(s *v1.JobSpec) { s.Env = map[string]string{"A": strings.Repeat("x", 70<<10)} })}, "spec: has more than"},
	} {
		if _, err := s.do(ada, tt.cmd); fault.Of(err) != codes.Invalid || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s: %v", name, err)
		}
	}

	for i := range 50 {
		s.w.Fold([]world.Change{asset.TemplateSet{Row: asset.Template{User: got.User, Name: fmt.Sprint("n", i)}}})
	}
	if _, err := s.do(ada, command.TemplatePut{Name: "more", Spec: board()}); fault.Of(err) != codes.Conflict {
		t.Errorf("one too many: %v", err)
	}
	s.must(t, ada, command.TemplatePut{Name: "board", Spec: board()}) // in its place
	s.must(t, ada, command.TemplateRemove{User: "ada", Name: "board"})
	if _, err := s.do(ada, command.TemplateRemove{User: "ada", Name: "board"}); fault.Of(err) != codes.NotFound {
		t.Errorf("removed twice: %v", err)
	}
}

// A template is its user's and its account's members', who may not change it.
func TestWhoSeesATemplate(t *testing.T) {
	s := newSim(t)
	s.must(t, system, command.UserPut{Create: true, Name: "zed"})
	nlp := "nlp"
	row := s.must(t, s.user("ada"), command.TemplatePut{Name: "board", Spec: board(), Account: &nlp}).(asset.Template)
	for _, tt := range []struct {
		role         string
		sees, usable bool
	}{{"", false, false}, {"viewer", false, false}, {"member", true, true}, {"manager", true, true}} {
		if tt.role != "" {
			s.must(t, system, command.MemberPut{Account: "nlp", User: "zed", Role: tt.role})
		}
		u, _ := s.w.Tenancy.User("zed")
		if sees, usable := s.w.SeesTemplate(s.user("zed"), row), row.Usable(&s.w.Tenancy, u.ID, s.now); sees != tt.sees || usable != tt.usable {
			t.Errorf("%q: sees %v, uses %v", tt.role, sees, usable)
		}
		want := codes.NotFound
		if tt.sees {
			want = codes.Denied
		}
		if _, err := s.do(s.user("zed"), command.TemplateRemove{User: "ada", Name: "board"}); fault.Of(err) != want {
			t.Errorf("%q removes it: %v", tt.role, err)
		}
	}
}
