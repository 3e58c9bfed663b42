package keep

import (
	"fmt"
	"strings"
	"testing"
)

func TestBrief(t *testing.T) {
	for text, want := range map[string]string{
		"croft: no more ptys\n":    "no more ptys",
		"a\nb\x1b[31m\xff":         "a b [31m?",
		strings.Repeat("x", 10000): strings.Repeat("x", maxBrief),
		"":                         "",
	} {
		var b Brief
		for _, part := range []string{text[:len(text)/2], text[len(text)/2:]} {
			if n, err := fmt.Fprint(&b, part); n != len(part) || err != nil {
				t.Errorf("%d, %v of %q", n, err, part)
			}
		}
		if got := b.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
