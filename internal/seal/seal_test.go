package seal

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

func key(t testing.TB, b byte) Key {
	t.Helper()
	k, err := New(bytes.Repeat([]byte{b}, keyLen))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// What is sealed opens for the same thing with the same key, and shows nothing.
func TestSealAndOpen(t *testing.T) {
	k := key(t, 1)
	rapid.Check(t, func(t *rapid.T) {
		text, thing := rapid.String().Draw(t, "text"), rapid.String().Draw(t, "thing")
		sealed := k.Seal(text, thing)
		if got, err := k.Open(sealed, thing); err != nil || got != text {
			t.Fatalf("opened %q, %v", got, err)
		}
		if len(text) > 3 && strings.Contains(sealed, text) || sealed == k.Seal(text, thing) {
			t.Fatalf("%q sealed is %q, each time or in clear", text, sealed)
		}
		if _, err := k.Open(sealed, thing+"x"); !errors.Is(err, ErrDamaged) {
			t.Fatalf("for another thing: %v", err)
		}
		i := rapid.IntRange(0, len(sealed)-1).Draw(t, "byte")
		if got, err := k.Open(sealed[:i]+string(sealed[i]^1)+sealed[i+1:], thing); err == nil {
			t.Fatalf("damaged it is %q", got)
		}
	})
	if _, err := key(t, 2).Open(k.Seal("x", "y"), "y"); !errors.Is(err, ErrOtherKey) {
		t.Errorf("with another key: %v", err)
	}
}

func FuzzOpen(f *testing.F) {
	k := key(f, 1)
	for _, s := range []string{"", ":", k.Seal("x", "y"), k.name + ":", k.name + ":AA"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if got, err := k.Open(s, "z"); err == nil {
			t.Errorf("%q opens: %q", s, got)
		}
	})
}

// The key is made once, by whoever comes first, and is nobody else's to read.
func TestLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	keys := make([]Key, 8)
	var wg sync.WaitGroup
	for i := range keys {
		wg.Go(func() {
			var err error
			if keys[i], err = Load(path); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, k := range keys {
		if got, err := k.Open(keys[0].Seal("x", "y"), "y"); err != nil || got != "x" {
			t.Fatalf("two keys: %v", err)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v, %v", info.Mode(), err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".key-*")); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	for name, tt := range map[string]struct {
		text string
		mode os.FileMode
		want string
	}{
		"open to all": {strings.Repeat("00", keyLen), 0o644, "chmod 600"},
		"too short":   {"00", 0o600, "doesn't hold a key"},
		"empty":       {"", 0o600, "doesn't hold a key"},
		"no key":      {strings.Repeat("zz", keyLen), 0o600, "doesn't hold a key"},
	} {
		path := filepath.Join(t.TempDir(), "key")
		if err := os.WriteFile(path, []byte(tt.text), tt.mode); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(path); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", name, err)
		}
		if after, _ := os.ReadFile(path); string(after) != tt.text {
			t.Errorf("%s: the file was changed", name)
		}
	}
}
