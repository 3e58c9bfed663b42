package httpapi

import (
	"testing"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/fault"
)

// One user's many open requests don't keep anybody else out, and make room again
// when they end.
func TestHeldRequestsAreBoundedByUser(t *testing.T) {
	var h held
	for range heldPerUser {
		if err := h.take(7); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.take(7); fault.Of(err) != codes.TooMany {
		t.Errorf("one more: %v", err)
	}
	if err := h.take(8); err != nil {
		t.Errorf("somebody else: %v", err)
	}
	h.release(7)
	if err := h.take(7); err != nil {
		t.Errorf("after one ended: %v", err)
	}
	h.release(8)
	for range heldPerUser {
		h.release(7)
	}
	if len(h.by) != 0 {
		t.Errorf("kept: %v", h.by)
	}
}
