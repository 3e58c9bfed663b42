package sshkey_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"croft.dev/croft/internal/sshkey"
)

func line(t testing.TB, public any) string {
	t.Helper()
	key, err := ssh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))
}

func newEd25519(t testing.TB) string {
	t.Helper()
	public, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return line(t, public)
}

func newRSA(t testing.TB, bits int) string {
	t.Helper()
	t.Setenv("GODEBUG", "rsa1024min=0")
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		t.Fatal(err)
	}
	return line(t, &key.PublicKey)
}

// dsa is a key as ssh-keygen -t dsa made them.
const dsa = "ssh-dss AAAAB3NzaC1kc3MAAACBAOtBxvZyP1cpWrVr8NzqhiR8xNpGUGqBc+1pKEl8TfSTVbR2U3BrjCWGZKdLKcKrWlbNkqTPVQ8vxB9mMdj0hJoPXkCbhzlcbRz4PLUSA7IQHMSkpaX0Wb3mPMiYh3hjBnMTYlFXZDU8b1RGBYo0q5hLTm6YbZtUQ5GJnYrQZ0MRAAAAFQDX ada"

func TestParse(t *testing.T) {
	plain := newEd25519(t)
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		text string
		err  string // what the refusal says; empty: it is taken
	}{
		"ed25519":           {plain, ""},
		"with a comment":    {plain + " ada@laptop\n", ""},
		"amid remarks":      {"# mine\n\n" + plain + "\r\n# end", ""},
		"ecdsa":             {line(t, &curve.PublicKey), ""},
		"rsa of 2048":       {newRSA(t, 2048), ""},
		"rsa of 1024":       {newRSA(t, 1024), "RSA key of 1024 bits"},
		"two":               {plain + "\n" + newEd25519(t), "one key at a time"},
		"options":           {`command="id",no-pty ` + plain, "options"},
		"from":              {`from="10.0.0.0/8" ` + plain, "options"},
		"none":              {" \n# remark\n", "is empty"},
		"a private key":     {"-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n", "private key"},
		"PuTTY's":           {"PuTTY-User-Key-File-3: ssh-ed25519\n", "private key"},
		"RFC 4716":          {"---- BEGIN SSH2 PUBLIC KEY ----\nAAAA\n", "ssh-keygen -i"},
		"words":             {"let me in", "isn't a public key"},
		"a torn one":        {plain[:40], "isn't a public key"},
		"dsa":               {dsa, "isn't a public key"}, // cut short
		"a novel":           {strings.Repeat("x", sshkey.MaxText+1), "longer than"},
		"a comment of bell": {plain + " ada\a", "isn't text"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := sshkey.Parse(tt.text)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("got %+v, %v; want an error with %q", got, err, tt.err)
				}
				return
			}
			if err != nil || !strings.HasPrefix(got.Fingerprint, "SHA256:") || !strings.Contains(tt.text, got.Type+" "+got.Blob) {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
	if got, _ := sshkey.Parse(plain + "  ada@laptop "); got.Comment != "ada@laptop" {
		t.Errorf("the comment is %q", got.Comment)
	}
}

func TestCertificateIsRefused(t *testing.T) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ssh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert := &ssh.Certificate{Key: key, CertType: ssh.UserCert}
	if err := cert.SignCert(rand.Reader, signer); err != nil {
		t.Fatal(err)
	}
	if _, err := sshkey.Parse(string(ssh.MarshalAuthorizedKey(cert))); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("got %v", err)
	}
}

// Whatever is given, what is taken is one key, which reads the same again.
func FuzzParse(f *testing.F) {
	f.Add(newEd25519(f) + " ada")
	f.Add(`no-pty,command="a b" ssh-ed25519 AAAA`)
	f.Add("ssh-rsa AAAAB3NzaC1yc2EAAAAA")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := sshkey.Parse(text)
		if err != nil {
			return
		}
		again, err := sshkey.Parse(got.Type + " " + got.Blob + " " + got.Comment)
		if err != nil || again != got {
			t.Errorf("%q gave %+v, and that %+v, %v", text, got, again, err)
		}
	})
}
