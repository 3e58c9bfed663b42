package command_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/admission"
	"croft.dev/croft/internal/asset"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

// savedBy gives a user an image that is ready.
func (s *sim) savedBy(user string) string {
	u, _ := s.w.Tenancy.User(user)
	row := asset.Image{Ref: "croft.local/" + user + "/env:1", User: u.ID, State: asset.Ready, Digest: "sha256:7"}
	s.w.Fold([]world.Change{asset.ImageSet{Row: row}})
	return row.Ref
}

// save has a job's image saved and made, of so many bytes.
func (s *sim) save(t *testing.T, k id.Job, name string, bytes int64) asset.Image {
	t.Helper()
	row := s.must(t, s.user("ada"), command.ImageSave{Job: k, Step: 1, Name: name}).(asset.Image)
	return s.must(t, system, command.ImageSaved{Ref: row.Ref, Made: row.Made, Digest: "sha256:" + name, Added: bytes}).(asset.Image)
}

func TestSaveImage(t *testing.T) {
	s := newSim(t)
	k, ada := s.running(t), s.user("ada")
	s.must(t, system, command.AccountPut{Create: true, Name: "theirs"})
	row := s.must(t, ada, command.ImageSave{Job: k, Step: 1, Name: "env:1", Account: "nlp", Comment: "tools"}).(asset.Image)
	nlp, _ := s.w.Tenancy.Account("nlp")
	want := asset.Image{Ref: "croft.local/ada/env:1", User: id.User(ada.User), Account: nlp.ID, State: asset.Saving, Job: k, Step: 1, Attempt: 1, Base: "train:1", Comment: "tools", Made: s.now}
	if diff := cmp.Diff(want, row); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if _, err := s.do(ada, command.Submit{Spec: with(row.Ref)}); fault.Of(err) != codes.Invalid || !strings.Contains(err.Error(), "isn't ready") {
		t.Errorf("used before it's there: %v", err)
	}
	s.must(t, system, command.ImageSaved{Ref: row.Ref, Made: row.Made - 1, Digest: "sha256:0"}) // of another request
	s.must(t, system, command.ImageSaved{Ref: row.Ref, Made: row.Made, Digest: "sha256:1", Added: 5 << 20})
	s.must(t, system, command.ImageFail{Ref: row.Ref, Made: row.Made, Message: "too late"})
	if got, _ := s.w.Assets.Images.Get(row.Ref); got.State != asset.Ready || got.Digest != "sha256:1" || got.Size != 5<<20 {
		t.Errorf("%+v", got)
	}
	bad := map[string]struct {
		cmd  command.ImageSave
		code codes.Code
		text string
	}{
		"a name that is taken":    {command.ImageSave{Job: k, Step: 1, Name: "env:1"}, codes.Conflict, "there is croft.local/ada/env:1 already"},
		"no name":                 {command.ImageSave{Job: k, Step: 1}, codes.Invalid, "NAME or NAME:TAG"},
		"a name with a path":      {command.ImageSave{Job: k, Step: 1, Name: "a/b:1"}, codes.Invalid, "NAME or NAME:TAG"},
		"a name that climbs":      {command.ImageSave{Job: k, Step: 1, Name: "..:1"}, codes.Invalid, "NAME or NAME:TAG"},
		"a long one":              {command.ImageSave{Job: k, Step: 1, Name: strings.Repeat("a", 65)}, codes.Invalid, "NAME or NAME:TAG"},
		"a digest":                {command.ImageSave{Job: k, Step: 1, Name: "a@sha256:00"}, codes.Invalid, "NAME or NAME:TAG"},
		"an account of others":    {command.ImageSave{Job: k, Step: 1, Name: "b", Account: "theirs"}, codes.Invalid, "theirs"},
		"no such account":         {command.ImageSave{Job: k, Step: 1, Name: "b", Account: "none"}, codes.Invalid, "no such account"},
		"a long comment":          {command.ImageSave{Job: k, Step: 1, Name: "b", Comment: strings.Repeat("x", 501)}, codes.Invalid, "500 bytes"},
		"a step that isn't there": {command.ImageSave{Job: k, Step: 9, Name: "b"}, codes.Conflict, "isn't running"},
		"a job that isn't there":  {command.ImageSave{Job: 99, Step: 1, Name: "b"}, codes.NotFound, "no such job"},
	}
	for name, tt := range bad {
		if _, err := s.do(ada, tt.cmd); fault.Of(err) != tt.code || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func with(image string) workload.Spec {
	spec := example()
	spec.Image, spec.GPU, spec.Time = image, 0, 1e9
	return spec
}

// A user's images have no more than they may, also when they are made of each other and
// several are made at once.
func TestSavedImagesAreBounded(t *testing.T) {
	s := newSim(t)
	k, ada := s.running(t), s.user("ada")
	s.save(t, k, "a:1", 60<<20)
	next := s.must(t, ada, command.Submit{Spec: with("croft.local/ada/a:1")}).(admission.Accepted).Job.ID
	s.must(t, system, command.JobStart{Job: next, Image: "sha256:a:1"})
	s.must(t, system, command.JobObserved{Job: next, N: 1, Running: true, Started: s.now})
	if _, err := s.do(ada, command.ImageSave{Job: next, Step: 1, Name: "b:1"}); fault.Of(err) != codes.Conflict || !strings.Contains(err.Error(), "120M of the 100M") {
		t.Errorf("one that keeps another's layers: %v", err)
	}
	one := s.must(t, ada, command.ImageSave{Job: k, Step: 1, Name: "c:1"}).(asset.Image)
	two := s.must(t, ada, command.ImageSave{Job: k, Step: 1, Name: "c:2"}).(asset.Image)
	for _, row := range []asset.Image{one, two} {
		s.must(t, system, command.ImageSaved{Ref: row.Ref, Made: row.Made, Digest: "sha256:c", Added: 30 << 20})
	}
	got := map[string]asset.ImageState{}
	for ref, i := range s.w.Assets.Images.All() {
		got[strings.TrimPrefix(ref, "croft.local/ada/")] = i.State
	}
	if diff := cmp.Diff(map[string]asset.ImageState{"a:1": asset.Ready, "c:1": asset.Ready, "c:2": asset.Failed}, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if _, err := s.do(ada, command.ImageShare{Ref: two.Ref, Account: "nlp"}); fault.Of(err) != codes.Conflict || !strings.Contains(err.Error(), "wasn't saved") {
		t.Errorf("one that wasn't saved is shared: %v", err)
	}
	s.must(t, ada, command.ImageSave{Job: k, Step: 1, Name: "c:2"}) // again, in its place
	u, _ := s.w.Tenancy.User("ada")
	for i := range 500 {
		s.w.Fold([]world.Change{asset.ImageSet{Row: asset.Image{Ref: fmt.Sprint("croft.local/ada/n:", i), User: u.ID, State: asset.Ready}}})
	}
	if _, err := s.do(ada, command.ImageSave{Job: k, Step: 1, Name: "more"}); fault.Of(err) != codes.Conflict || !strings.Contains(err.Error(), "as many as one may have") {
		t.Errorf("one too many: %v", err)
	}
	s.w.Site.UserImages = 0
	if _, err := s.do(ada, command.ImageSave{Job: k, Step: 1, Name: "more"}); fault.Of(err) != codes.Denied {
		t.Errorf("where nobody may: %v", err)
	}
}

// An image is its user's and of those whom it is shared with, and stays while a job needs it.
func TestWhoUsesASavedImage(t *testing.T) {
	s := newSim(t)
	k, ada := s.running(t), s.user("ada")
	s.must(t, system, command.UserPut{Create: true, Name: "zed"})
	s.must(t, system, command.MemberPut{Account: "vision", User: "zed", Role: "member"})
	row := s.save(t, k, "env:latest", 1)
	zed := s.user("zed")
	spec := with("croft.local/ada/env")
	theirs := spec
	theirs.Account = "vision"
	if _, err := s.do(zed, command.Submit{Spec: theirs}); fault.Of(err) != codes.Invalid || !strings.Contains(err.Error(), "no such image") {
		t.Errorf("another's: %v", err)
	}
	s.must(t, ada, command.ImageShare{Ref: row.Ref, Account: "nlp"})
	if _, err := s.do(zed, command.Submit{Spec: theirs}); fault.Of(err) != codes.Invalid {
		t.Errorf("shared with others: %v", err)
	}
	s.must(t, system, command.MemberPut{Account: "nlp", User: "zed", Role: "viewer"})
	if _, err := s.do(zed, command.Submit{Spec: theirs}); fault.Of(err) != codes.Invalid {
		t.Errorf("a viewer: %v", err)
	}
	s.must(t, system, command.MemberPut{Account: "nlp", User: "zed", Role: "member"})
	j := s.must(t, zed, command.Submit{Spec: theirs}).(admission.Accepted).Job
	if j.Spec.Image != row.Ref {
		t.Errorf("it is called %s", j.Spec.Image)
	}
	if _, err := s.do(zed, command.ImageRemove{Ref: row.Ref}); fault.Of(err) != codes.Denied {
		t.Errorf("a member removes it: %v", err)
	}
	if _, err := s.do(ada, command.ImageRemove{Ref: row.Ref}); fault.Of(err) != codes.Conflict {
		t.Errorf("while a job needs it: %v", err)
	}
	s.must(t, zed, command.JobStop{Job: j.ID})
	n := s.add(t, k, workload.StepSpec{Image: "croft.local/ada/env"})
	if _, err := s.do(ada, command.ImageRemove{Ref: row.Ref}); fault.Of(err) != codes.Conflict {
		t.Errorf("while a step needs it: %v", err)
	}
	s.must(t, ada, command.StepStop{Job: k, N: n})
	s.must(t, ada, command.ImageRemove{Ref: row.Ref})
	if _, err := s.do(ada, command.Submit{Spec: spec}); fault.Of(err) != codes.Invalid {
		t.Errorf("one that is gone: %v", err)
	}
	if _, err := s.do(ada, command.StepAdd{Job: k, Spec: workload.StepSpec{Image: row.Ref}}); fault.Of(err) != codes.Invalid {
		t.Errorf("a step of one that is gone: %v", err)
	}
}

// What a stopped workspace's container had written is gone, and its user is told so.
func TestStoppedWorkspacesAreNotSaved(t *testing.T) {
	s := newSim(t)
	s.running(t)
	s.workspace()
	for who, want := range map[string]codes.Code{"ada": codes.Conflict, "root": codes.Denied} {
		_, err := s.do(s.user(who), command.ImageSave{Job: 1, Step: 1, Name: "env:1"})
		if fault.Of(err) != want || who == "ada" && !strings.Contains(err.Error(), "workspace nb is stopped") {
			t.Errorf("%s: %v", who, err)
		}
	}
}
