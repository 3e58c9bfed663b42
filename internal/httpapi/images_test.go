package httpapi

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/asset"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/id"
)

// image saves an image of a job of ada's, and returns its path.
func (h *harness) image() string {
	h.t.Helper()
	job := h.runWithStep()
	k, _ := id.ParseJob(job)
	row := h.as("ada", command.ImageSave{Job: k, Step: 1, Name: "env:" + job}).Result.(asset.Image)
	return "/v1/images/" + strings.TrimPrefix(row.Ref, asset.Registry+"/")
}

func TestImages(t *testing.T) {
	h := newHarness(t)
	far := map[string]engine.Progress{}
	h.server.Saving = func(ref string) (engine.Progress, bool) { p, ok := far[ref]; return p, ok }
	ada, mia := h.client("ada"), h.client("mia")
	job := h.runWithStep()
	img, err := ada.SaveImage(t.Context(), job, v1.ImageSave{Name: "env", Comment: "tools"})
	if err != nil {
		t.Fatal(err)
	}
	want := &v1.Image{Name: "croft.local/ada/env:latest", User: "ada", State: "saving", Progress: "waiting", Job: job, Base: "train:1", Size: "0", Comment: "tools", Made: img.Made}
	if diff := cmp.Diff(want, img); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	for text, p := range map[string]engine.Progress{"comparing": {}, "comparing, 2M found": {Done: 2 << 20}, "writing 50%": {Done: 5, Total: 10}, "writing 100%": {Done: 12, Total: 10}} {
		far[img.Name] = p
		if got, err := ada.Image(t.Context(), img.Name); err != nil || got.Progress != text {
			t.Errorf("%+v: %q, %v", p, got.Progress, err)
		}
	}
	h.system(command.ImageSaved{Ref: img.Name, Made: img.Made.UnixNano(), Digest: "sha256:1", Added: 1 << 20, Packages: []asset.Package{{Manager: "pip", Name: "six", Version: "1.17"}}})
	got, err := ada.Image(t.Context(), img.Name)
	if err != nil || got.State != "ready" || got.Size != "1M" || got.Progress != "" || len(got.Packages) != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	if list, err := v1.Collect(mia.Images(t.Context())); len(list) != 0 || err != nil {
		t.Errorf("another sees %+v, %v", list, err)
	}
	if _, err := ada.ShareImage(t.Context(), img.Name, v1.ImageShare{Account: "nlp"}); err != nil {
		t.Error(err)
	}
	if list, err := v1.Collect(mia.Images(t.Context())); len(list) != 1 || list[0].Account != "nlp" || list[0].Packages != nil || err != nil {
		t.Errorf("a member sees %+v, %v", list, err)
	}
	if err := mia.RemoveImage(t.Context(), img.Name); v1.CodeOf(err) != codes.Denied {
		t.Errorf("a member removes it: %v", err)
	}
	for _, name := range []string{"croft.local/ada/none:1", "croft.local/ada/", "", "croft.local/../x", "x"} {
		if _, err := ada.Image(t.Context(), name); v1.CodeOf(err) != codes.NotFound && v1.CodeOf(err) != codes.Invalid {
			t.Errorf("%q: %v", name, err)
		}
	}
	if err := ada.RemoveImage(t.Context(), img.Name); err != nil {
		t.Error(err)
	}
}
