package httpapi

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
)

// TestFolders has one see what jobs of his accounts find, and of the accounts above those
// nothing else.
func TestFolders(t *testing.T) {
	h := newHarness(t)
	olga := h.client("olga")
	lab, err := olga.SetFolder(t.Context(), v1.Folder{Account: "nlp", Name: "hub", Path: "/srv/hub", Env: map[string]string{"HF_HOME": "/shared/nlp/hub"}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&v1.Folder{Account: "nlp", Name: "hub", Path: "/srv/hub", Target: "/shared/nlp/hub", Env: map[string]string{"HF_HOME": "/shared/nlp/hub"}}, lab); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	all, err := olga.SetFolder(t.Context(), v1.Folder{Name: "imagenet", Path: "/data", ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	hidden := *lab
	hidden.Account = ""
	for user, want := range map[string][]v1.Folder{"ada": {*all, *lab}, "ben": {*all, hidden}, "zoe": {*all}, "otto": {*all, *lab}} {
		got, err := v1.Collect(h.client(user).Folders(t.Context()))
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got)\n%s", user, err, diff)
		}
	}
	if err := olga.RemoveFolder(t.Context(), "nlp", "none"); v1.CodeOf(err) != codes.NotFound {
		t.Errorf("one that isn't there: %v", err)
	}
	for account, name := range map[string]string{"nlp": "hub", "": "imagenet"} {
		if err := olga.RemoveFolder(t.Context(), account, name); err != nil {
			t.Error(err)
		}
	}
}
