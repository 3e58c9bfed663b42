package httpapi

import (
	"bytes"
	"crypto/ed25519"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
)

// publicKey is the line of the n-th key.
func publicKey(n int) string {
	seed := bytes.Repeat([]byte{byte(n)}, ed25519.SeedSize)
	key, err := ssh.NewPublicKey(ed25519.NewKeyFromSeed(seed).Public())
	if err != nil {
		panic(err)
	}
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))
}

func TestSSHKeys(t *testing.T) {
	h := newHarness(t)
	c := h.client("ada")
	refused := map[string]struct {
		in   v1.SSHKeyRequest
		text string
	}{
		"no key":      {v1.SSHKeyRequest{Key: "hello"}, "key: isn't a public key"},
		"with option": {v1.SSHKeyRequest{Key: "no-pty " + publicKey(1)}, "key: has options"},
		"a long name": {v1.SSHKeyRequest{Key: publicKey(1), Name: strings.Repeat("x", 65)}, "name"},
	}
	for name, tt := range refused {
		if _, err := c.AddSSHKey(t.Context(), "ada", tt.in); v1.CodeOf(err) != codes.Invalid || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s: %v, want %q", name, err, tt.text)
		}
	}
	got, err := c.AddSSHKey(t.Context(), "ada", v1.SSHKeyRequest{Key: publicKey(1) + " ada@laptop"})
	if err != nil || got.Name != "ada@laptop" || got.Type != "ssh-ed25519" {
		t.Fatalf("got %+v, %v", got, err)
	}
	if _, err := h.client("mia").AddSSHKey(t.Context(), "mia", v1.SSHKeyRequest{Key: publicKey(1)}); v1.CodeOf(err) != codes.Conflict || strings.Contains(err.Error(), "ada") {
		t.Errorf("another's key: %v", err)
	}
	list, err := v1.Collect(c.SSHKeys(t.Context(), "ada"))
	if err != nil || len(list) != 1 || list[0] != *got {
		t.Errorf("listed %+v, %v", list, err)
	}
	if err := c.RemoveSSHKey(t.Context(), "ada", got.Fingerprint); err != nil {
		t.Fatal(err)
	}
	if err := c.RemoveSSHKey(t.Context(), "ada", got.Fingerprint); v1.CodeOf(err) != codes.NotFound {
		t.Errorf("removed twice: %v", err)
	}
}
