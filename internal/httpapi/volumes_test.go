package httpapi

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/command"
)

func TestVolumes(t *testing.T) {
	h := newHarness(t)
	c := h.client("ada")
	uid := int64(5001)
	h.as("root", command.UserPut{Name: "ada", UID: &uid})
	list, err := v1.Collect(c.Volumes(t.Context(), "ada"))
	if diff := cmp.Diff([]v1.Volume{{Name: "cache", Size: "4K"}, {Name: "used", Size: "1M", InUse: true}}, list); diff != "" || err != nil {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
	for name, want := range map[string]codes.Code{"used": codes.Conflict, "none": codes.NotFound, "..": codes.Invalid, "a b": codes.NotFound} {
		if err := c.RemoveVolume(t.Context(), "ada", name); v1.CodeOf(err) != want {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
	if err := c.RemoveVolume(t.Context(), "ada", "cache"); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"5001/cache"}, h.engine.removed); diff != "" {
		t.Errorf("removed (-want +got)\n%s", diff)
	}
}
