package httpapi

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"io"
	"slices"
	"strings"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/quantity"
	"croft.dev/croft/internal/tenancy"
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

// capsOf reads what a token's jobs may come to together.
func capsOf(in v1.TokenRequest) (tenancy.Caps, error) {
	var caps tenancy.Caps
	var bad fault.Fields
	if in.Spend != "" {
		n, err := money.Parse(in.Spend)
		if caps.Spend = n; err != nil || n <= 0 {
			bad.Add("spend", "must be an amount of credits above 0, such as 50")
		}
	}
	switch {
	case in.SpendPer == "" || in.SpendPer == "total":
	case in.Spend == "":
		bad.Add("spend_per", "says of which time spend is: give that too")
	case slices.Contains([]string{"day", "week", "month"}, in.SpendPer):
		caps.Per = in.SpendPer
	default:
		bad.Add("spend_per", "must be day, week, month or total")
	}
	if in.Devices != "" {
		n, err := quantity.ParseDevices(string(in.Devices))
		if caps.Devices = n; err != nil {
			bad.Add("devices", "must be a number of devices, 0 for none")
		}
		if n == 0 {
			caps.Devices = tenancy.NoDevices
		}
	}
	if in.AskAbove != "" {
		n, err := money.Parse(in.AskAbove)
		if caps.Ask = n; err != nil || n < 0 {
			bad.Add("ask_above", "must be an amount of credits, such as 5, or 0")
		}
		if n == 0 {
			caps.Ask = tenancy.AskAll
		}
	}
	return caps, bad.Err()
}
