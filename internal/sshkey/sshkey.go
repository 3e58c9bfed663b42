// Package sshkey reads the public keys that people register for SSH.
package sshkey

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/crypto/ssh"
)

// Key is a public key.
type Key struct {
	Type        string // as in an authorized_keys file: ssh-ed25519
	Blob        string // what follows there, base64
	Fingerprint string // SHA256:…, as ssh-keygen -l shows it
	Comment     string // what follows then; may be empty
}

// MaxText bounds what is read, in bytes: the longest RSA keys have some thousand.
const MaxText = 16 << 10

// leastRSA is the shortest RSA key that is taken, in bits (NIST SP 800-131A).
const leastRSA = 2048

// Parse reads one key, as the line of a .pub file is. The error says to its owner what is
// wrong with it.
func Parse(text string) (Key, error) {
	if len(text) > MaxText {
		return Key{}, fmt.Errorf("is longer than %d bytes", MaxText)
	}
	line, err := only(text)
	if err != nil {
		return Key{}, err
	}
	key, comment, options, _, err := ssh.ParseAuthorizedKey([]byte(line))
	switch {
	case err != nil:
		return Key{}, errors.New("isn't a public key: give the line of a .pub file, such as ~/.ssh/id_ed25519.pub")
	case len(options) > 0:
		return Key{}, errors.New("has options before the key, which mean nothing here: leave them out")
	case !utf8.ValidString(comment) || strings.ContainsFunc(comment, unicode.IsControl):
		return Key{}, errors.New("has a comment that isn't text")
	}
	if err := strong(key); err != nil {
		return Key{}, err
	}
	return Key{
		Type: key.Type(), Blob: base64.StdEncoding.EncodeToString(key.Marshal()),
		Fingerprint: ssh.FingerprintSHA256(key), Comment: strings.TrimSpace(comment),
	}, nil
}

// only is the one line of text that isn't empty and no remark.
func only(text string) (string, error) {
	var found string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || line[0] == '#':
		case strings.HasPrefix(line, "-----BEGIN") || strings.HasPrefix(line, "PuTTY-User-Key-File"):
			return "", errors.New("is a private key: keep that to yourself, and give its public half, the file that ends in .pub")
		case strings.HasPrefix(line, "---- BEGIN SSH2"):
			return "", errors.New("is in another format: ssh-keygen -i -f FILE makes a line of it")
		case found != "":
			return "", errors.New("are several lines: register one key at a time")
		default:
			found = line
		}
	}
	if found == "" {
		return "", errors.New("is empty: give the line of a .pub file, such as ~/.ssh/id_ed25519.pub")
	}
	return found, nil
}

// strong refuses what can be broken, and what isn't a key.
func strong(key ssh.PublicKey) error {
	switch key.Type() {
	case ssh.KeyAlgoED25519, ssh.KeyAlgoSKED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521, ssh.KeyAlgoSKECDSA256:
		return nil
	case ssh.KeyAlgoRSA:
		if bits := rsaBits(key); bits < leastRSA {
			return fmt.Errorf("is an RSA key of %d bits, which is too weak: make another (ssh-keygen -t ed25519)", bits)
		}
		return nil
	//lint:ignore SA1019 what is too weak is known by its name
	case ssh.InsecureKeyAlgoDSA:
		return errors.New("is a DSA key, which is too weak: make another (ssh-keygen -t ed25519)")
	}
	if _, ok := key.(*ssh.Certificate); ok {
		return errors.New("is a certificate: register the key itself")
	}
	return fmt.Errorf("is of the type %s, which isn't known here: make another (ssh-keygen -t ed25519)", key.Type())
}

// rsaBits is the length of an RSA key's modulus.
func rsaBits(key ssh.PublicKey) int {
	var wire struct {
		Name string
		E, N []byte
	}
	if ssh.Unmarshal(key.Marshal(), &wire) != nil {
		return 0
	}
	n := bytes.TrimLeft(wire.N, "\x00")
	if len(n) == 0 {
		return 0
	}
	bits := len(n) * 8
	for b := n[0]; b&0x80 == 0; b <<= 1 {
		bits--
	}
	return bits
}
