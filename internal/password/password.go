// Package password keeps passwords as argon2id hashes (RFC 9106) and checks them.
// Hashing is meant to cost memory and time: a Hasher bounds how much of both goes
// on at once, so that guessing harms nobody but the guesser.
package password

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync/atomic"
	"unicode"
	"unicode/utf8"

	"golang.org/x/crypto/argon2"
)

// Params are what a hash costs. They are kept with each hash, so that they can be
// raised: see Hasher.Verify.
type Params struct {
	Memory  uint32 // KiB
	Time    uint32 // passes over it
	Threads uint8
}

// Recommended is RFC 9106's second choice, for who can't spare 2 GiB, and above
// OWASP's minimum: about 0.1 s.
func Recommended() Params { return Params{Memory: 64 << 10, Time: 3, Threads: 4} }

// The bounds of what is taken from a stored hash: a damaged one must not bring the
// server down.
const (
	maxMemory  = 1 << 20 // KiB
	maxTime    = 64
	maxThreads = 64
	saltLen    = 16
	keyLen     = 32
)

// The bounds of a password, in bytes.
const (
	MinLen = 10
	MaxLen = 1024
)

// Rule says what is wrong with a user's new password; nil: nothing. It asks for
// length and not for kinds of characters, as NIST SP 800-63B does.
func Rule(user, text string) error {
	switch {
	case len(text) < MinLen:
		return fmt.Errorf("must have at least %d characters", MinLen)
	case len(text) > MaxLen:
		return fmt.Errorf("must have at most %d bytes", MaxLen)
	case !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl):
		return errors.New("must be UTF-8 without control characters")
	case strings.Contains(strings.ToLower(text), strings.ToLower(user)):
		return errors.New("must not have your name in it")
	case strings.Count(text, text[:1]) == len(text):
		return errors.New("must not be one character again and again")
	}
	return nil
}

// ErrBusy says that too many passwords wait to be checked already.
var ErrBusy = errors.New("too many passwords are being checked")

// Config is what a Hasher is made of. Zero values are replaced by sound ones.
type Config struct {
	Params   Params
	Parallel int // hashes computed at once; each takes Params.Memory
	Waiting  int // more that may wait for their turn
	Random   io.Reader
}

// Hasher makes and checks hashes. It is safe for concurrent use.
type Hasher struct {
	params  Params
	random  io.Reader
	slots   chan struct{}
	waiting atomic.Int64
	most    int64
	nobody  string // a hash that no password has
}

// New returns a Hasher.
func New(c Config) (*Hasher, error) {
	if c.Params == (Params{}) {
		c.Params = Recommended()
	}
	if c.Parallel == 0 {
		c.Parallel = 2
	}
	if c.Waiting == 0 {
		c.Waiting = 64
	}
	if c.Random == nil {
		c.Random = rand.Reader
	}
	h := &Hasher{params: c.Params, random: c.Random, slots: make(chan struct{}, c.Parallel), most: int64(c.Parallel + c.Waiting)}
	b := make([]byte, saltLen+keyLen)
	if _, err := io.ReadFull(h.random, b); err != nil {
		return nil, err
	}
	h.nobody = hash{c.Params, b[:saltLen], b[saltLen:]}.String()
	return h, nil
}

// Hash returns what is kept of a password: its hash in PHC's string format. The
// error is ErrBusy, ctx's, or that of the source of randomness.
func (h *Hasher) Hash(ctx context.Context, text string) (string, error) {
	out := hash{Params: h.params, salt: make([]byte, saltLen)}
	if _, err := io.ReadFull(h.random, out.salt); err != nil {
		return "", err
	}
	var err error
	if out.key, err = h.compute(ctx, out, text); err != nil {
		return "", err
	}
	return out.String(), nil
}

// Verify reports whether text is the password that kept is of, and whether kept
// should be made anew, because it costs less than new ones do. For an empty kept,
// somebody without a password, it says no and takes as long. The error is ErrBusy,
// ctx's, or about what kept is.
func (h *Hasher) Verify(ctx context.Context, kept, text string) (ok, weak bool, err error) {
	if kept == "" {
		kept = h.nobody
	}
	want, err := parse(kept)
	if err != nil {
		return false, false, err
	}
	if len(text) > MaxLen {
		text = text[:MaxLen] + "…" // no password has this, and no more of it is hashed
	}
	got, err := h.compute(ctx, want, text)
	if err != nil {
		return false, false, err
	}
	return subtle.ConstantTimeCompare(got, want.key) == 1, want.Params != h.params, nil
}

// compute waits for a slot and hashes.
func (h *Hasher) compute(ctx context.Context, p hash, text string) ([]byte, error) {
	defer h.waiting.Add(-1)
	if h.waiting.Add(1) > h.most {
		return nil, ErrBusy
	}
	select {
	case h.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-h.slots }()
	return argon2.IDKey([]byte(text), p.salt, p.Time, p.Memory, p.Threads, keyLen), nil
}

// hash is a kept password.
type hash struct {
	Params
	salt, key []byte
}

// String is the hash in the PHC string format, as argon2's own tools write it.
func (h hash) String() string {
	b64 := base64.RawStdEncoding
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, h.Memory, h.Time, h.Threads, b64.EncodeToString(h.salt), b64.EncodeToString(h.key))
}

var errForm = errors.New("password: what is kept isn't a hash that this version reads")

// parse reads what String writes, within bounds.
func parse(s string) (hash, error) {
	part := strings.Split(s, "$")
	if len(part) != 6 || part[0] != "" || part[1] != "argon2id" || part[2] != "v="+strconv.Itoa(argon2.Version) {
		return hash{}, errForm
	}
	var h hash
	cost := strings.Split(part[3], ",")
	if len(cost) != 3 {
		return hash{}, errForm
	}
	memory, ok1 := number(cost[0], "m=", maxMemory)
	passes, ok2 := number(cost[1], "t=", maxTime)
	threads, ok3 := number(cost[2], "p=", maxThreads)
	if !ok1 || !ok2 || !ok3 || memory < 8*threads {
		return hash{}, errForm
	}
	h.Params = Params{Memory: uint32(memory), Time: uint32(passes), Threads: uint8(threads)}
	b64 := base64.RawStdEncoding.Strict()
	var err1, err2 error
	h.salt, err1 = b64.DecodeString(part[4])
	h.key, err2 = b64.DecodeString(part[5])
	if err1 != nil || err2 != nil || len(h.salt) != saltLen || len(h.key) != keyLen {
		return hash{}, errForm
	}
	return h, nil
}

func number(s, prefix string, most uint64) (uint64, bool) {
	text, ok := strings.CutPrefix(s, prefix)
	n, err := strconv.ParseUint(text, 10, 32)
	return n, ok && err == nil && n > 0 && n <= most
}
