package asset

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/tenancy"
)

func TestRef(t *testing.T) {
	ada := tenancy.User{ID: 7, Name: "ada"}
	tests := map[string]struct {
		user tenancy.User
		name string
		want string
	}{
		"with a tag":     {ada, "env:v2", "croft.local/ada/env:v2"},
		"without":        {ada, "env", "croft.local/ada/env:latest"},
		"odd users":      {tenancy.User{ID: 8, Name: "_svc."}, "env", "croft.local/user-8/env:latest"},
		"dots":           {tenancy.User{ID: 9, Name: "a.b-c_d"}, "x.y-z_1:V.1", "croft.local/a.b-c_d/x.y-z_1:V.1"},
		"capitals":       {ada, "Env", ""},
		"empty":          {ada, "", ""},
		"an empty tag":   {ada, "env:", ""},
		"two tags":       {ada, "env:a:b", ""},
		"a path":         {ada, "a/b", ""},
		"another's":      {ada, "../ben/x", ""},
		"a tag's hyphen": {ada, "env:-a", ""},
	}
	for name, tt := range tests {
		got, ok := Ref(tt.user, tt.name)
		if got != tt.want || ok != (tt.want != "") {
			t.Errorf("%s: %q, %v", name, got, ok)
		}
		if full, local := Local(got); ok && (!local || full != got) {
			t.Errorf("%s: %s is called %s, %v", name, got, full, local)
		}
	}
	for ref, want := range map[string]string{"croft.local/ada/env": "croft.local/ada/env:latest", "croft.localhost/ada/env": "", "docker.io/croft.local/x": "", "train:1": ""} {
		if full, local := Local(ref); local != (want != "") || local && full != want {
			t.Errorf("%s: %s, %v", ref, full, local)
		}
	}
}

// TestFolders has those of accounts on the way up, the topmost first, by name.
func TestFolders(t *testing.T) {
	var s State
	for _, f := range []Folder{{Account: 3, Name: "b"}, {Account: 3, Name: "a"}, {Account: 1, Name: "z"}, {Account: 2, Name: "x"}, {Account: 30, Name: "a"}} {
		s.Fold(FolderSet{Row: f})
	}
	before := s.Copy()
	s.Fold(FolderSet{Row: Folder{Account: 3, Name: "b", Removed: true}})
	names := func(s *State) (out []string) {
		for _, f := range s.FoldersOf([]id.Account{3, 1}) {
			out = append(out, f.Name)
		}
		return out
	}
	if diff := cmp.Diff([]string{"z", "a"}, names(&s)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if diff := cmp.Diff([]string{"z", "a", "b"}, names(&before)); diff != "" {
		t.Errorf("before (-want +got)\n%s", diff)
	}
}
