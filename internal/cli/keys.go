package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"time"
)

// defaultKeys detach from a terminal, as docker's do.
const defaultKeys = "ctrl-p,ctrl-q"

// detachWindow is how long a key that may begin the sequence is kept back.
const detachWindow = time.Second

// parseKeys reads a sequence of keys as docker writes them: letters and other signs as
// they are, and ctrl- with a letter or one of @ [ \ ] ^ _.
func parseKeys(text string) ([]byte, error) {
	var keys []byte
	for key := range strings.SplitSeq(text, ",") {
		sign, ctrl := strings.CutPrefix(strings.ToLower(key), "ctrl-")
		switch {
		case ctrl && len(sign) == 1 && (sign[0] >= 'a' && sign[0] <= 'z' || strings.ContainsAny(sign, `@[\]^_`)):
			keys = append(keys, strings.ToUpper(sign)[0]&0x1f)
		case !ctrl && len(key) == 1 && key[0] > ' ' && key[0] < 0x7f:
			keys = append(keys, key[0])
		default:
			return nil, usage("--detach-keys: %q isn't a key: write a sign, or ctrl- and a letter, with commas between them, such as %s", key, defaultKeys)
		}
	}
	return keys, nil
}

// detector looks for a sequence of keys among what is typed. What may be the beginning
// of it is kept back until that is known.
type detector struct {
	keys []byte // empty: nothing is looked for
	n    int    // so many of them have come
}

// next takes what was typed. It returns what is to be passed on, and whether the sequence
// has come to its end; what was typed after that is dropped.
func (d *detector) next(typed []byte) (pass []byte, found bool) {
	if len(d.keys) == 0 {
		return typed, false
	}
	for _, b := range typed {
		for d.n > 0 && b != d.keys[d.n] {
			pass = append(pass, d.fall()...)
		}
		if b != d.keys[d.n] {
			pass = append(pass, b)
			continue
		}
		if d.n++; d.n == len(d.keys) {
			d.n = 0
			return pass, true
		}
	}
	return pass, false
}

// fall gives up the first keys of what is kept back, so that the rest may still be the
// beginning, as the last of two ctrl-p before ctrl-q.
func (d *detector) fall() []byte {
	kept := d.keys[:d.n]
	for i := 1; ; i++ {
		if bytes.HasPrefix(d.keys, kept[i:]) {
			d.n -= i
			return kept[:i]
		}
	}
}

// flush returns what is kept back: nothing followed it.
func (d *detector) flush() []byte {
	kept := d.keys[:d.n]
	d.n = 0
	return kept
}

// input reads standard input once, for those who come to want it one after the other: a
// read from a terminal can't be given up.
type input struct{ parts chan []byte }

func newInput(ctx context.Context, r io.Reader) *input {
	in := &input{parts: make(chan []byte)}
	go func() {
		defer close(in.parts)
		for {
			buf := make([]byte, 32<<10)
			n, err := r.Read(buf)
			if n > 0 {
				select {
				case in.parts <- buf[:n]:
				case <-ctx.Done():
					return
				}
			}
			if err != nil {
				return
			}
		}
	}()
	return in
}

// errLeft ends the input of one who has typed the sequence.
var errLeft = errors.New("detached")

// typist is the input of one who is attached, for as long as ctx.
type typist struct {
	ctx  context.Context // an io.Reader has no other way to get it
	in   *input
	find detector
	// stay keeps the end of the input back: to a terminal it would mean to leave.
	stay bool
	late func(time.Duration) <-chan time.Time // time.After
	left chan struct{}                        // closed once the sequence has come

	parts <-chan []byte
	ready []byte
	over  error
	alone <-chan time.Time // runs while a key is kept back
}

func newTypist(ctx context.Context, in *input, keys []byte, stay bool) *typist {
	return &typist{ctx: ctx, in: in, find: detector{keys: keys}, stay: stay, late: time.After, left: make(chan struct{}), parts: in.parts}
}

// Read implements io.Reader.
func (t *typist) Read(p []byte) (int, error) {
	for len(t.ready) == 0 {
		if t.over != nil {
			return 0, t.over
		}
		select {
		case <-t.ctx.Done():
			t.over = io.EOF
		case <-t.alone:
			t.ready, t.alone = t.find.flush(), nil
		case part, ok := <-t.parts:
			t.take(part, ok)
		}
	}
	n := copy(p, t.ready)
	t.ready = t.ready[n:]
	return n, nil
}

func (t *typist) take(part []byte, ok bool) {
	if !ok {
		t.ready, t.alone, t.parts = t.find.flush(), nil, nil
		if !t.stay {
			t.over = io.EOF
		}
		return
	}
	var found bool
	t.ready, found = t.find.next(part)
	t.alone = nil
	switch {
	case found:
		t.over = errLeft
		close(t.left)
	case t.find.n > 0:
		t.alone = t.late(detachWindow)
	}
}
