package httpapi

import (
	"crypto/rand"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/fault"
)

// A body is either read or is an Invalid error; nothing panics.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{`{"image":"a:1"}`, `{"gpu":1.5}`, `{"gpu":{}}`, `[`, `null`, "\xff", `{"env":{"A":1}}`, `{"x":1}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var spec v1.JobSpec
		if err := decode(b, &spec); err != nil && fault.Of(err) != codes.Invalid {
			t.Errorf("%q: %v", b, err)
		}
	})
}

// What is split can be quoted again and comes out the same.
func FuzzWords(f *testing.F) {
	for _, s := range []string{`python train.py`, `sh -c 'a "b" c'`, `a\ b "c\"d" ''`, `'`, `\`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := words(s)
		if err != nil {
			return
		}
		var quoted []string
		for _, w := range got {
			quoted = append(quoted, "'"+strings.ReplaceAll(w, "'", `'\''`)+"'")
		}
		again, err := words(strings.Join(quoted, " "))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(got, again); diff != "" {
			t.Errorf("%q (-first +second):\n%s", s, diff)
		}
	})
}

// Changes of a clone either give a spec or are refused by name.
func FuzzChanged(f *testing.F) {
	f.Add("gpu", "4")
	f.Add("env.A", "b")
	f.Add("command", `["a"]`)
	f.Add("mounts", `[{"source":"/a"}]`)
	f.Add("nonsense", "1")
	f.Fuzz(func(t *testing.T, k, v string) {
		if _, err := changed(v1.JobSpec{Image: "a:1"}, map[string]string{k: v}); err != nil && fault.Of(err) != codes.Invalid {
			t.Errorf("%q=%q: %v", k, v, err)
		}
	})
}

func TestTokens(t *testing.T) {
	secret, err := newToken(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if !wellFormed(secret) {
		t.Errorf("%q isn't taken for a token", secret)
	}
	for i := range secret {
		b := []byte(secret)
		b[i] ^= 1
		if wellFormed(string(b)) {
			t.Errorf("changed at %d it still is taken for a token", i)
		}
	}
	if _, err := newToken(strings.NewReader("short")); err == nil {
		t.Error("a token was made without enough randomness")
	}
}
