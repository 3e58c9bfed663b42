package people

import (
	"strings"
	"testing"
)

func FuzzParseUser(f *testing.F) {
	for _, s := range []string{strings.TrimSpace(adaLine), "", ":::::::", "a:x:-1:0:::", "a:x:4294967295:0:::", "a:x:0x1:0:::", "-a:x:1:1:::"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		u, ok := parseUser(s)
		if ok && (!validID(u.UID) || !validID(u.GID) || badName(u.Name) != "") {
			t.Errorf("%q gave %+v", s, u)
		}
	})
}

func FuzzParseGroup(f *testing.F) {
	for _, s := range []string{"lab:x:5000:ada,bob", "lab:*:1:", "lab:x:1: a , ,b", ":x:1:a", "lab:x:99999999999:a"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		g, members, ok := parseGroup(s)
		if ok && (!validID(g.GID) || badName(g.Name) != "") {
			t.Errorf("%q gave %+v", s, g)
		}
		for _, m := range members {
			if badName(m) != "" {
				t.Errorf("%q gave the member %q", s, m)
			}
		}
	})
}

func FuzzParseIDs(f *testing.F) {
	for _, s := range []string{"ada   27 44\n", "5000 27", "ada", "ada -1 4294967295 x"} {
		f.Add(s, "ada")
	}
	f.Fuzz(func(t *testing.T, text, name string) {
		for _, n := range parseIDs(text, name) {
			if !validID(n) {
				t.Errorf("%q gave %d", text, n)
			}
		}
	})
}

func FuzzParseSources(f *testing.F) {
	for _, s := range []string{"passwd: files sss", "passwd: files [a=b] x", "passwd: [", "passwd: ]", "#"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		out := parseSources(text)
		if len(out) == 0 {
			t.Errorf("%q has no source", text)
		}
		for _, s := range out {
			if s == "" || strings.ContainsAny(s, " \t\n[") {
				t.Errorf("%q has the source %q", text, s)
			}
		}
	})
}
