package cli

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	v1 "croft.dev/croft/api/v1"
)

func TestParseApp(t *testing.T) {
	for text, want := range map[string]v1.App{
		"6006":             {Port: 6006},
		"board=6006":       {Name: "board", Port: 6006},
		"8888/lab?a=b":     {Port: 8888, Path: "/lab?a=b"},
		"lab=8888/":        {Name: "lab", Port: 8888, Path: "/"},
		"8888/tree/a=b/c/": {Port: 8888, Path: "/tree/a=b/c/"},
		"":                 {}, "=6006": {}, "lab": {}, "lab=": {}, "0": {}, "65536": {}, "-1": {}, "lab=/x": {}, "1 ": {},
	} {
		got, err := parseApp(text)
		if (err != nil) != (want.Port == 0) {
			t.Errorf("%q: %v", text, err)
		} else if diff := cmp.Diff(want, got); err == nil && diff != "" {
			t.Errorf("%q (-want +got)\n%s", text, diff)
		}
	}
}

func FuzzParseApp(f *testing.F) {
	for _, s := range []string{"6006", "board=6006/", "=", "1/=/"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		app, err := parseApp(s)
		if err == nil && (app.Port < 1 || app.Port > 65535 || app.Path != "" && app.Path[0] != '/') {
			t.Errorf("%q is read as %+v", s, app)
		}
	})
}
