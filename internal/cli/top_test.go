package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

// On a terminal each look takes the place of the one before, until there is no more.
func TestTopGoesOn(t *testing.T) {
	var out bytes.Buffer
	a := &app{env: Env{Stdout: &out}}
	tick, n := make(chan time.Time, 1), 0
	show := func(context.Context) error {
		if n++; n == 2 {
			close(tick)
		} else {
			tick <- time.Time{}
		}
		_, err := fmt.Fprintf(a.env.Stdout, "look %d\n", n)
		return err
	}
	if err := a.topOn(t.Context(), show, tick); err != nil || out.String() != "\x1b[H\x1b[2Jlook 1\n\x1b[H\x1b[2Jlook 2\n" || a.env.Stdout != &out {
		t.Errorf("%q, %v", out.String(), err)
	}
	fails := errors.New("away")
	if err := a.topOn(t.Context(), func(context.Context) error { return fails }, nil); !errors.Is(err, fails) || a.env.Stdout != &out {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := a.topOn(ctx, func(context.Context) error { cancel(); return nil }, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
