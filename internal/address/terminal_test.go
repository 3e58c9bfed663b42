package address

import (
	"net/url"
	"strings"
	"testing"
)

func TestTerminalPath(t *testing.T) {
	for want, of := range map[string]Terminal{
		"/t/118/main":                  {Job: "118", Name: "main"},
		"/t/118_7/a.b":                 {Job: "118_7", Name: "a.b"},
		"/t/118/main?step=2&view=true": {Job: "118", Name: "main", Step: 2, View: true},
	} {
		if got := of.Path(); got != want {
			t.Errorf("%+v: %s, want %s", of, got, want)
		}
		u, err := url.Parse(want)
		if err != nil {
			t.Fatal(err)
		}
		part := strings.Split(u.Path, "/")
		if back, ok := ParseTerminal(part[2], part[3], u.Query()); !ok || back != of {
			t.Errorf("%s is read as %+v, %v", want, back, ok)
		}
	}
	if got := (Terminal{Job: "118", Name: "main", View: true}).Socket(); got != "/t/118/main/socket?view=true" {
		t.Error(got)
	}
}

// FuzzParseTerminal: whatever is read is a job's number, or an element's.
func FuzzParseTerminal(f *testing.F) {
	for _, s := range []string{"118", "118_7", "-", "1_", "_1", "0x1", strings.Repeat("9", 30), "1 8", "1/2"} {
		f.Add(s, "main", "2")
	}
	f.Fuzz(func(t *testing.T, job, name, step string) {
		got, ok := ParseTerminal(job, name, url.Values{"step": {step}})
		if !ok {
			return
		}
		if strings.Trim(got.Job, "0123456789_") != "" || got.Name == "" || got.Step < 0 {
			t.Errorf("%q %q %q: %+v", job, name, step, got)
		}
	})
}
