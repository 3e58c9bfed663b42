package password

import (
	"context"
	"errors"
	"strings"
	"testing"

	"golang.org/x/crypto/argon2"
)

var quick = Params{Memory: 64, Time: 1, Threads: 1}

func hasher(t testing.TB, c Config) *Hasher {
	t.Helper()
	h, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestHashAndVerify(t *testing.T) {
	h := hasher(t, Config{Params: quick})
	kept, err := h.Hash(t.Context(), "correct horse")
	if err != nil {
		t.Fatal(err)
	}
	again, err := h.Hash(t.Context(), "correct horse")
	if err != nil || again == kept {
		t.Errorf("the same password hashes to the same twice: %v", err)
	}
	for text, want := range map[string]bool{
		"correct horse": true, "correct horse ": false, "": false, "Correct horse": false,
		"correct horse" + strings.Repeat("x", MaxLen): false,
	} {
		if ok, weak, err := h.Verify(t.Context(), kept, text); ok != want || weak || err != nil {
			t.Errorf("%q: %v, weak %v, %v", text, ok, weak, err)
		}
	}
	if ok, _, err := h.Verify(t.Context(), "", "correct horse"); ok || err != nil {
		t.Errorf("somebody without a password was let in: %v", err)
	}
	stronger := hasher(t, Config{Params: Params{Memory: 128, Time: 1, Threads: 1}})
	if ok, weak, err := stronger.Verify(t.Context(), kept, "correct horse"); !ok || !weak || err != nil {
		t.Errorf("a hash of lower cost: %v, weak %v, %v", ok, weak, err)
	}
}

// What is kept is what RFC 9106's argon2id gives, in the form of its own tools.
func TestKnownHash(t *testing.T) {
	key := argon2.IDKey([]byte("password"), []byte("somesalt"+"somesalt"), 2, 64, 1, 32)
	kept := hash{Params{64, 2, 1}, []byte("somesaltsomesalt"), key}.String()
	if !strings.HasPrefix(kept, "$argon2id$v=19$m=64,t=2,p=1$c29tZXNhbHRzb21lc2FsdA$") {
		t.Error(kept)
	}
	if ok, _, err := hasher(t, Config{Params: quick}).Verify(t.Context(), kept, "password"); !ok || err != nil {
		t.Errorf("%v, %v", ok, err)
	}
}

// However many ask, only so many are worked on, and the rest are sent away.
func TestBounded(t *testing.T) {
	h := hasher(t, Config{Params: quick, Parallel: 1, Waiting: 1})
	h.slots <- struct{}{} // somebody is at it
	h.waiting.Add(1)
	ctx, cancel := context.WithCancel(t.Context())
	second := make(chan error)
	go func() { _, err := h.Hash(ctx, "b"); second <- err }()
	for h.waiting.Load() < 2 {
	}
	if _, err := h.Hash(t.Context(), "c"); !errors.Is(err, ErrBusy) {
		t.Errorf("the third: %v", err)
	}
	cancel()
	if err := <-second; !errors.Is(err, context.Canceled) {
		t.Errorf("one that gave up: %v", err)
	}
	<-h.slots
	h.waiting.Add(-1)
	if _, err := h.Hash(t.Context(), "d"); err != nil {
		t.Errorf("with room again: %v", err)
	}
	if h.waiting.Load() != 0 {
		t.Errorf("%d still wait", h.waiting.Load())
	}
}

func TestRule(t *testing.T) {
	for text, ok := range map[string]bool{
		"": false, "short": false, "long enough": true, "aaaaaaaaaaaa": false, "i am ada lovelace": false, "IamADA12345": false,
		"tab\tin the middle": false, "not utf8 \xff\xff": false, "ein schönes Passwort": true, strings.Repeat("ab", 513): false,
	} {
		if err := Rule("ada", text); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// Whatever is kept is read within bounds, and what is read is written the same.
func FuzzParse(f *testing.F) {
	h := hash{quick, make([]byte, saltLen), make([]byte, keyLen)}
	for _, s := range []string{"", h.String(), "$argon2id$v=19$m=4294967295,t=1,p=1$AAAA$AAAA", "$argon2id$v=19$m=8,t=0,p=0$$", "$2a$10$x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := parse(s)
		if err != nil {
			return
		}
		if got.Memory > maxMemory || got.Time > maxTime || got.Threads > maxThreads {
			t.Errorf("%q costs too much", s)
		}
		again, err := parse(got.String())
		if err != nil || again.Params != got.Params {
			t.Errorf("%q: %v", s, err)
		}
	})
}
