package app

import (
	"strings"
	"testing"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/internal/config"
)

// The site's templates are the built-in ones with its changes, and its own.
func TestTemplates(t *testing.T) {
	c := config.Default()
	c.Templates = []config.Template{
		{Name: "jupyter", Image: "jupyter:1", NoHome: true}, {Name: "code", Hidden: true},
		{Name: "board", About: "TensorBoard", Image: "board:1", GPU: "0.5", Apps: []config.TemplateApp{{Port: 6006, ViewSafe: true}}},
	}
	all, err := templatesOf(c)
	if err != nil {
		t.Fatal(err)
	}
	by := map[string]v1.Template{}
	for _, tpl := range all {
		by[tpl.Name] = tpl
	}
	if len(by) != 3 || len(by["jupyter"].Spec.Mounts) != 0 || by["jupyter"].Spec.Image != "jupyter:1" || len(by["jupyter"].Spec.Command) != 3 || *by["jupyter"].Spec.Apps[0].Strip {
		t.Errorf("%+v", all)
	}
	if b := by["board"].Spec; b.Kind != v1.KindWorkspace || b.GPU != "0.5" || b.CPU != "" || len(b.Mounts) != 1 || b.Mounts[0].Source != "~" || !*b.Apps[0].Strip || !b.Apps[0].ViewSafe {
		t.Errorf("%+v", b)
	}
	if s := by["shell"].Spec; !s.Pause || len(s.Apps) != 0 {
		t.Errorf("%+v", s)
	}
	if got := by["jupyter"].Spec.Apps[0].Activity; got != "jupyter" {
		t.Errorf("Jupyter is asked for its kernels by %q: a cell that sleeps would be taken for idle", got)
	}
	for want, bad := range map[string]config.Template{
		"templates: board: image: is missing": {Name: "board"},
		"apps[0].port":                        {Name: "board", Image: "board:1", Apps: []config.TemplateApp{{}}},
		"apps[0].activity":                    {Name: "board", Image: "board:1", Apps: []config.TemplateApp{{Port: 6006, Activity: "busy"}}},
		"templates: board: gpu":               {Name: "board", Image: "board:1", GPU: "some"},
	} {
		c.Templates = []config.Template{bad}
		if _, err := templatesOf(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
