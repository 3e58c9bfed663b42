package engine

import (
	"context"
	"errors"
	"io"
)

// endOfInput is what is typed in a terminal to end its input (VEOF, by default).
const endOfInput = 4

// Typed is r as it is typed in a terminal. Its end is typed as well, and ends the input of the
// program that reads then, while the stream stays open until ctx ends: a runtime takes the end
// of what comes into a terminal for the end of what comes out of it, too.
func Typed(ctx context.Context, r io.Reader) io.Reader {
	return &typed{ctx: ctx, in: r, last: '\n'}
}

type typed struct {
	ctx  context.Context
	in   io.Reader
	last byte // that was typed
	left int  // ends that are still to be typed
	over bool // the input has ended
}

// Read implements io.Reader.
func (t *typed) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for !t.over {
		n, err := t.in.Read(p)
		if n > 0 {
			t.last = p[n-1]
		}
		switch {
		case errors.Is(err, io.EOF):
			t.over, t.left = true, 1
			if t.last != '\n' {
				t.left = 2 // the first ends the line
			}
		case err != nil:
			return n, err
		}
		if n > 0 {
			return n, nil
		}
	}
	if t.left > 0 {
		t.left--
		p[0] = endOfInput
		return 1, nil
	}
	<-t.ctx.Done()
	return 0, io.EOF
}
