package sshgate

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/crypto/ssh"
)

// hostKeys are the keys by which clients know the server: an ECDSA one for old clients.
var hostKeys = []struct {
	file string
	make func() (crypto.Signer, error)
}{
	{"ssh_host_ed25519_key", func() (crypto.Signer, error) {
		_, key, err := ed25519.GenerateKey(rand.Reader)
		return key, err
	}},
	{"ssh_host_ecdsa_key", func() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }},
}

// LoadHostKeys returns the keys that lie in a directory, and makes those that aren't
// there. Nobody but their owner may read them.
func LoadHostKeys(dir string) ([]ssh.Signer, error) {
	var out []ssh.Signer
	for _, k := range hostKeys {
		path := filepath.Join(dir, k.file)
		signer, err := readHostKey(path)
		if errors.Is(err, fs.ErrNotExist) {
			if err = makeHostKey(path, k.make); err == nil {
				signer, err = readHostKey(path)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("the server's key for SSH: %w", err)
		}
		out = append(out, signer)
	}
	return out, nil
}

func readHostKey(path string) (ssh.Signer, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if mode := info.Mode(); !mode.IsRegular() || mode.Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s must be a file that only its owner may read (chmod 600): it is %v", path, mode)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	signer, err := ssh.ParsePrivateKey(text)
	if err != nil {
		return nil, fmt.Errorf("%s doesn't hold a key without a passphrase: put the one back that was there, or remove the file for a new one, which clients will warn of", path)
	}
	return signer, nil
}

// makeHostKey makes a file with a new key, whole or not at all, and leaves one alone that
// is there meanwhile.
func makeHostKey(path string, generate func() (crypto.Signer, error)) error {
	key, err := generate()
	if err != nil {
		return err
	}
	block, err := ssh.MarshalPrivateKey(key, "croft")
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".key-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(pem.EncodeToMemory(block))
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}
