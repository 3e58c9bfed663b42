package httpapi

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
)

func TestTemplates(t *testing.T) {
	h := newHarness(t)
	h.server.Templates = []v1.Template{{Name: "jupyter", Spec: v1.JobSpec{Image: "jupyter:1"}}}
	ada, mia, nlp := h.client("ada"), h.client("mia"), "nlp"
	names := func(c *v1.Client, user string) string {
		t.Helper()
		list, err := v1.Collect(c.Templates(t.Context(), v1.TemplateQuery{User: user}))
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, tpl := range list {
			out = append(out, tpl.User+"/"+tpl.Name)
		}
		return strings.Join(out, " ")
	}
	who := Person{UID: 5001, Home: "/home/ada"}
	h.people.known["ada"] = who
	in := v1.TemplateRequest{Name: "board", About: "runs", Spec: v1.JobSpec{Image: "board:1", Env: map[string]string{"A": "b"}, Mounts: []v1.Mount{{Source: who.Home, Target: who.Home}, {Source: who.Home + "/x"}}}}
	got, err := ada.SetTemplate(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	want := &v1.Template{Name: "board", User: "ada", About: "runs", Changed: got.Changed, Spec: v1.JobSpec{
		Kind: "workspace", Name: "board", Image: "board:1", Env: map[string]string{"A": "b"}, Mounts: []v1.Mount{{Source: "~"}, {Source: who.Home + "/x"}},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if mine, theirs, all := names(ada, ""), names(mia, ""), names(h.client("otto"), "*"); mine != "/jupyter ada/board" || theirs != "/jupyter" || all != "ada/board" {
		t.Errorf("one's own: %s; another's: %s; an auditor's: %s", mine, theirs, all)
	}
	if err := ada.RemoveTemplate(t.Context(), "ada", "jupyter"); v1.CodeOf(err) != codes.NotFound || !strings.Contains(err.Error(), "the site's") {
		t.Errorf("the site's: %v", err)
	}
	in.Account = &nlp
	if got, err = ada.SetTemplate(t.Context(), in); err != nil || got.Account != "nlp" {
		t.Errorf("shared: %+v, %v", got, err)
	}
	if theirs, others := names(mia, ""), names(h.client("ben"), "ada"); theirs != "/jupyter ada/board" || others != "" {
		t.Errorf("a member's: %s; a stranger's: %s", theirs, others)
	}
	if err := mia.RemoveTemplate(t.Context(), "ada", "board"); v1.CodeOf(err) != codes.Denied {
		t.Errorf("a member removes it: %v", err)
	}
	in.Spec.Apps = []v1.App{{Name: "web", Port: 0}}
	if _, err := ada.SetTemplate(t.Context(), in); v1.CodeOf(err) != codes.Invalid || !strings.Contains(err.Error(), "port") {
		t.Errorf("a port that is none: %v", err)
	}
	// A workspace of it is one like any other.
	job, err := mia.Submit(t.Context(), v1.JobSpec{Kind: "workspace", Name: "board", Image: got.Spec.Image, Account: "nlp"})
	if err != nil || job.Name != "board" {
		t.Errorf("%+v, %v", job, err)
	}
	if err := ada.RemoveTemplate(t.Context(), "ada", "board"); err != nil || names(ada, "") != "/jupyter" {
		t.Errorf("%v", err)
	}
}
