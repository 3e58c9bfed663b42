package httpapi

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"io"
	"strings"
)

// A personal token is tokenPrefix, 32 random bytes and 4 bytes of their SHA-256,
// in base64url: the prefix lets scanners find leaked ones, the checksum lets a
// mistyped one be told from a wrong one without a look-up.
const (
	tokenPrefix = "croft_"
	tokenRandom = 32
	tokenCheck  = 4
)

func newToken(random io.Reader) (string, error) {
	b := make([]byte, tokenRandom, tokenRandom+tokenCheck)
	if _, err := io.ReadFull(random, b); err != nil {
		return "", err
	}
	sum := sha256.Sum256(b)
	return tokenPrefix + base64.RawURLEncoding.EncodeToString(append(b, sum[:tokenCheck]...)), nil
}

// wellFormed reports whether s can be a token at all.
func wellFormed(s string) bool {
	text, ok := strings.CutPrefix(s, tokenPrefix)
	if !ok || len(text) != base64.RawURLEncoding.EncodedLen(tokenRandom+tokenCheck) {
		return false
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return false
	}
	sum := sha256.Sum256(b[:tokenRandom])
	return string(sum[:tokenCheck]) == string(b[tokenRandom:])
}

// hashToken is what is kept of a token.
func hashToken(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}
