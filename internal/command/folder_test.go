package command_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/asset"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/fault"
)

func TestFolders(t *testing.T) {
	s := newSim(t)
	got := s.must(t, system, command.FolderPut{Account: "nlp", Name: "hub", Path: "/srv/nlp/hub/", Env: map[string]string{"HF_HOME": "/shared/nlp/hub"}})
	nlp, _ := s.w.Tenancy.Account("nlp")
	want := asset.Folder{Account: nlp.ID, Name: "hub", Path: "/srv/nlp/hub", Target: "/shared/nlp/hub", Env: map[string]string{"HF_HOME": "/shared/nlp/hub"}, Changed: s.now}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	s.must(t, system, command.FolderPut{Account: "nlp", Name: "hub", Path: "/srv/other", ReadOnly: true})
	if f, _ := s.w.Assets.Folder(nlp.ID, "hub"); f.Path != "/srv/other" || !f.ReadOnly || f.Env != nil {
		t.Errorf("replaced by %+v", f)
	}
	all := s.must(t, system, command.FolderPut{Name: "imagenet", Path: "/data/imagenet"}).(asset.Folder)
	if all.Account != 0 || all.Target != "/shared/all/imagenet" {
		t.Errorf("everybody's: %+v", all)
	}
	bad := map[string]struct {
		cmd  command.FolderPut
		code codes.Code
		text string
	}{
		"no such account": {command.FolderPut{Account: "none", Name: "a", Path: "/srv"}, codes.NotFound, "none"},
		"no name":         {command.FolderPut{Path: "/srv"}, codes.Invalid, "name"},
		"a hidden one":    {command.FolderPut{Name: ".x", Path: "/srv"}, codes.Invalid, "name"},
		"a relative path": {command.FolderPut{Name: "a", Path: "srv"}, codes.Invalid, "path"},
		"one that climbs": {command.FolderPut{Name: "a", Path: "/srv/../etc"}, codes.Invalid, "path"},
		"the root":        {command.FolderPut{Name: "a", Path: "/"}, codes.Invalid, "path"},
		"over the system": {command.FolderPut{Name: "a", Path: "/srv", Target: "/usr"}, codes.Invalid, "target"},
		"over /proc":      {command.FolderPut{Name: "a", Path: "/srv", Target: "/proc/1"}, codes.Invalid, "target"},
		"a place taken":   {command.FolderPut{Account: "nlp", Name: "a", Path: "/srv", Target: "/shared/nlp/hub"}, codes.Invalid, "say another place"},
		"a bad variable":  {command.FolderPut{Name: "a", Path: "/srv", Env: map[string]string{"A B": ""}}, codes.Invalid, "variable"},
		"a long one":      {command.FolderPut{Name: "a", Path: "/srv", Env: map[string]string{"A": strings.Repeat("x", 4097)}}, codes.Invalid, "variable"},
		"a long comment":  {command.FolderPut{Name: "a", Path: "/srv", Comment: strings.Repeat("x", 501)}, codes.Invalid, "comment"},
	}
	for name, tt := range bad {
		if _, err := s.do(system, tt.cmd); fault.Of(err) != tt.code || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s: %v", name, err)
		}
	}
	s.must(t, system, command.FolderRemove{Name: "imagenet"})
	if _, err := s.do(system, command.FolderRemove{Name: "imagenet"}); fault.Of(err) != codes.NotFound {
		t.Errorf("removed twice: %v", err)
	}
	for i := range 50 {
		s.must(t, system, command.FolderPut{Name: fmt.Sprint("f", i), Path: "/srv"})
	}
	if _, err := s.do(system, command.FolderPut{Name: "more", Path: "/srv"}); fault.Of(err) != codes.Conflict {
		t.Errorf("one too many: %v", err)
	}
}
