package feature

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestMet(t *testing.T) {
	labels := map[string]string{"nvlink": "", "zone": "a", "kernel": "6.1.0-18-amd64"}
	tests := map[string]bool{
		"":                           true,
		"nvlink":                     true,
		"ib":                         false,
		"!ib":                        true,
		"!!nvlink":                   true,
		"nvlink&ib":                  false,
		"nvlink | ib":                true,
		"ib|nvlink&zone=b":           false,
		"(ib|nvlink)&zone=a":         true,
		"zone":                       true,
		"zone=":                      false,
		"nvlink=":                    true,
		"!(ib|zone=b)&nvlink":        true,
		"kernel=6.1.0-18-amd64":      true,
		" ( nvlink ) ":               true,
		"!nvlink|!ib":                true,
		"nvlink&(zone=b|(!ib&zone))": true,
	}
	for text, want := range tests {
		c, err := Parse(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
		} else if got := c.Met(labels); got != want {
			t.Errorf("%q is %v, want %v", text, got, want)
		}
	}
}

func TestParseErrors(t *testing.T) {
	tests := map[string]string{
		"!\"":                          `isn't a label's name`,
		"&nvlink":                      `wants a label before "&nvlink"`,
		"nvlink&":                      `wants a label before ""`,
		"nvlink ib":                    `stops making sense at "ib"`,
		"(nvlink":                      "lacks a closing parenthesis",
		"nvlink)":                      `stops making sense at ")"`,
		"a=b=c":                        `"b=c" isn't a label's value`,
		"-x":                           `"-x" isn't a label's name`,
		"nvlink*2":                     `"nvlink*2" isn't a label's name`,
		"ü":                            `isn't a label's name`,
		strings.Repeat("!(", 40):       "nested too deeply",
		strings.Repeat("a&", 1000):     "is longer than 1024 bytes",
		strings.Repeat("a", 64):        "isn't a label's name",
		"a=" + strings.Repeat("b", 64): "isn't a label's value",
	}
	for text, want := range tests {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %v, want %q", text, err, want)
		}
	}
}

func TestString(t *testing.T) {
	tests := map[string]string{
		" a & (b & c) ":  "a&b&c",
		"(a|b)|c":        "a|b|c",
		"(a & b) | c":    "a&b|c",
		"a & (b | c)":    "a&(b|c)",
		"!(a|b)":         "!(a|b)",
		"!(a)":           "!a",
		"!!a":            "a",
		"!(a&b)&x=1":     "!(a&b)&x=1",
		"((((a=))))":     "a=",
		"!!(a|b)&c":      "(a|b)&c",
		"a|b&!c|(d|e)&f": "a|b&!c|(d|e)&f",
	}
	for text, want := range tests {
		c, err := Parse(text)
		if err != nil || c.String() != want {
			t.Errorf("%q: %q %v, want %q", text, c, err, want)
		}
	}
}

// drawn is a text together with what it means, put together independently of
// the parser.
type drawn struct {
	text string
	met  func(map[string]string) bool
}

func draw(t *rapid.T, depth int) drawn {
	kind := 0
	if depth < 5 {
		kind = rapid.IntRange(0, 3).Draw(t, "kind")
	}
	switch kind {
	case 1:
		a := draw(t, depth+1)
		return drawn{"!(" + a.text + ")", func(l map[string]string) bool { return !a.met(l) }}
	case 2:
		a, b := draw(t, depth+1), draw(t, depth+1)
		return drawn{"(" + a.text + ")&(" + b.text + ")", func(l map[string]string) bool { return a.met(l) && b.met(l) }}
	case 3:
		a, b := draw(t, depth+1), draw(t, depth+1)
		return drawn{a.text + " | " + b.text, func(l map[string]string) bool { return a.met(l) || b.met(l) }}
	}
	key := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "key")
	if rapid.Bool().Draw(t, "valued") {
		val := rapid.SampledFrom([]string{"", "1", "2"}).Draw(t, "val")
		return drawn{key + "=" + val, func(l map[string]string) bool { v, ok := l[key]; return ok && v == val }}
	}
	return drawn{key, func(l map[string]string) bool { _, ok := l[key]; return ok }}
}

func TestMeansWhatItSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := draw(t, 0)
		if len(d.text) > maxText {
			t.Skip("longer than is read")
		}
		c, err := Parse(d.text)
		if err != nil {
			t.Fatalf("%q: %v", d.text, err)
		}
		again, err := Parse(c.String())
		if err != nil || again.String() != c.String() {
			t.Fatalf("%q becomes %q, and that %q (%v)", d.text, c, again, err)
		}
		labels := rapid.MapOf(rapid.SampledFrom([]string{"a", "b", "c"}), rapid.SampledFrom([]string{"", "1", "2"})).Draw(t, "labels")
		if want := d.met(labels); c.Met(labels) != want || again.Met(labels) != want {
			t.Fatalf("%q on %v is %v, as %q %v; want %v", d.text, labels, c.Met(labels), c, again.Met(labels), want)
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"a&b", "!(a|b=c)", "((", "a  |\t!b", "!!!!a", "a=b=c"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Parse(text)
		if err != nil {
			return
		}
		again, err := Parse(c.String())
		if err != nil || again.String() != c.String() {
			t.Fatalf("%q becomes %q, and that %q (%v)", text, c, again, err)
		}
		c.Met(map[string]string{"a": "b"})
	})
}
