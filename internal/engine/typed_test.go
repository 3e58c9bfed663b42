package engine_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"croft.dev/croft/internal/engine"
)

// The end of what is typed is typed once behind a whole line and twice behind part of one;
// the stream ends when that is over for which it was opened.
func TestTyped(t *testing.T) {
	for in, want := range map[string]string{"": "\x04", "ls\n": "ls\n\x04", "ls": "ls\x04\x04"} {
		for name, r := range map[string]io.Reader{
			"at once": strings.NewReader(in), "byte by byte": iotest.OneByteReader(strings.NewReader(in)), "with its end": iotest.DataErrReader(strings.NewReader(in)),
		} {
			ctx, cancel := context.WithCancel(t.Context())
			typed, got := engine.Typed(ctx, r), make([]byte, len(want))
			if _, err := io.ReadFull(typed, got); err != nil || string(got) != want {
				t.Errorf("%q %s: %q, %v", in, name, got, err)
			}
			rest := make(chan error, 1)
			go func() { _, err := typed.Read(make([]byte, 1)); rest <- err }()
			select {
			case err := <-rest:
				t.Errorf("%q %s: the stream ended before its time: %v", in, name, err)
			default:
			}
			cancel()
			if err := <-rest; !errors.Is(err, io.EOF) {
				t.Errorf("%q %s: at the end: %v", in, name, err)
			}
		}
	}
	broken := errors.New("broken")
	if _, err := engine.Typed(t.Context(), iotest.ErrReader(broken)).Read(make([]byte, 1)); !errors.Is(err, broken) {
		t.Errorf("an error is %v", err)
	}
}
