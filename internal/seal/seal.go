// Package seal keeps secrets that the server must be able to read again, such as
// passwords for image registries: sealed with a key that lies in a file beside the
// database, so that a copy of the database alone gives none away.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

const keyLen = 32 // AES-256

// encoding has one text for some bytes, and no other.
var encoding = base64.RawStdEncoding.Strict()

// Key seals and opens. The zero value does neither.
type Key struct {
	aead cipher.AEAD
	name string // of the key, so that another one is told from a damaged text
}

// Errors of Open.
var (
	ErrOtherKey = errors.New("it was sealed with another key")
	ErrDamaged  = errors.New("it is damaged, or was sealed for something else")
)

// New returns the key with these bytes.
func New(key []byte) (Key, error) {
	if len(key) != keyLen {
		return Key{}, fmt.Errorf("a key has %d bytes, not %d", keyLen, len(key))
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return Key{}, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	sum := sha256.Sum256(append([]byte("croft seal "), key...))
	return Key{aead, hex.EncodeToString(sum[:4])}, err
}

// Seal returns text so that only Open can read it, and only for the same thing.
func (k Key) Seal(text, thing string) string {
	sealed := k.aead.Seal(nil, nil, []byte(text), []byte(thing))
	return k.name + ":" + encoding.EncodeToString(sealed)
}

// Open returns what was sealed for the thing.
func (k Key) Open(sealed, thing string) (string, error) {
	name, text, ok := strings.Cut(sealed, ":")
	if !ok {
		return "", ErrDamaged
	}
	if name != k.name {
		return "", ErrOtherKey
	}
	b, err := encoding.DecodeString(text)
	if err != nil {
		return "", ErrDamaged
	}
	plain, err := k.aead.Open(nil, nil, b, []byte(thing))
	if err != nil {
		return "", ErrDamaged
	}
	return string(plain), nil
}

// Load returns the key in a file, which it makes if there is none. Nobody but the file's
// owner may read it.
func Load(path string) (Key, error) {
	key, err := read(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err = create(path); err == nil {
			key, err = read(path)
		}
	}
	if err != nil {
		return Key{}, err
	}
	return New(key)
}

func read(path string) ([]byte, error) {
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
	key, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(key) != keyLen {
		return nil, fmt.Errorf("%s doesn't hold a key: put the one back that was there, or remove the file for a new one, with which what was sealed before can't be read", path)
	}
	return key, nil
}

// create makes a file with a new key, whole or not at all, and leaves one alone that is
// there meanwhile.
func create(path string) error {
	key := make([]byte, keyLen)
	_, _ = rand.Read(key) // never fails
	f, err := os.CreateTemp(filepath.Dir(path), ".key-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(hex.EncodeToString(key) + "\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
