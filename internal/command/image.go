package command

import (
	"fmt"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/asset"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/quantity"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

// maxSaved is how many images one user may have saved.
const maxSaved = 500

// maxComment bounds what somebody says of an image, in bytes.
const maxComment = 500

// ImageSave asks for an image of what a step has written in its container, under a name of
// its user's. A loop makes it.
type ImageSave struct {
	Job     id.Job
	Step    int32
	Name    string // NAME or NAME:TAG
	Account string `json:",omitempty"` // whose members may use it too
	Comment string `json:",omitempty"`
}

// Kind is image.save.
func (ImageSave) Kind() string { return "image.save" }

// Decide notes that it is to be made.
func (c ImageSave) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	out, err := enter(w, at, c.Job, c.Step, "")
	j, _ := w.Workload.Jobs.Get(c.Job)
	switch {
	case fault.Of(err) == codes.Conflict && j.State == workload.Stopped:
		return out, fault.New(codes.Conflict, "workspace %s is stopped, and what its container had written is gone: start it, install anew, and save it while it runs", j.Spec.Name)
	case err != nil:
		return out, err
	}
	image, host := j.Spec.Image, j.Spec.Host()
	if c.Step != workload.PrimaryStep {
		s, _ := w.Workload.Step(c.Job, c.Step)
		image, host = s.Spec.Image, s.Spec.Host
	}
	if host {
		return out, fault.New(codes.Conflict, "%s.%d runs on the machine itself, not in a container", j.Name(), c.Step)
	}
	user, _ := w.Tenancy.Users.Get(j.User)
	ref, ok := asset.Ref(user, c.Name)
	if !ok {
		return out, fault.Invalid("name", "%q is no name of an image: NAME or NAME:TAG, such as env:v2, in small letters, digits, dots and dashes", c.Name)
	}
	if len(c.Comment) > maxComment {
		return out, fault.Invalid("comment", "has more than %d bytes", maxComment)
	}
	account, err := sharedWith(w, at, c.Account)
	if err != nil {
		return out, err
	}
	row := asset.Image{Ref: ref, User: j.User, Account: account, State: asset.Saving, Job: j.ID, Step: c.Step, Attempt: j.Attempt.N, Base: image, Comment: c.Comment, Made: at.Now}
	if base, ok := w.Assets.Images.Get(image); ok {
		row.Size = base.Size
	}
	if err := roomFor(w, row); err != nil {
		return out, err
	}
	return world.Outcome{
		Changes: []world.Change{asset.ImageSet{Row: row}}, Result: row,
		Event: world.Event{Job: j.ID, Account: j.Account, State: string(j.State), Message: fmt.Sprintf("%s.%d is saved as %s", j.Name(), c.Step, ref)},
	}, nil
}

// roomFor refuses an image whose name is taken, or for which its user has no room.
func roomFor(w *world.World, row asset.Image) error {
	if old, ok := w.Assets.Images.Get(row.Ref); ok && old.State != asset.Failed {
		return fault.New(codes.Conflict, "there is %s already: take another tag, or croft image rm it", row.Ref)
	}
	n, used, most := 0, w.Assets.SizeOf(row.User), w.Site.UserImages
	for _, i := range w.Assets.Images.All() {
		if i.User == row.User {
			n++
		}
	}
	switch {
	case most == 0:
		return fault.New(codes.Denied, "images can't be saved here: defaults.user_images is 0")
	case n >= maxSaved:
		return fault.New(codes.Conflict, "you have %d images, as many as one may have: croft image rm some", n)
	case used+row.Size >= most:
		return fault.New(codes.Conflict, "your images have %s of the %s that they may have: croft image rm some", quantity.FormatBytes(used+row.Size), quantity.FormatBytes(most))
	}
	return nil
}

// sharedWith is an account that the caller may share with; none for an empty name.
func sharedWith(w *world.World, at world.Context, name string) (id.Account, error) {
	if name == "" {
		return 0, nil
	}
	a, ok := w.Tenancy.Account(name)
	if !ok || !w.Can(at.Principal, access.AccountSee, 0, a.ID) {
		return 0, fault.Invalid("account", "no such account: %s", name)
	}
	if !w.Can(at.Principal, access.JobSubmit, 0, a.ID) {
		return 0, fault.Invalid("account", "you are no member of %s", name)
	}
	return a.ID, nil
}

// ImageSaved notes that an image is there.
type ImageSaved struct {
	Ref      string
	Made     int64 // when it was asked for, so that it is that one
	Digest   string
	Added    int64           // bytes
	Packages []asset.Package `json:",omitempty"`
}

// Kind is image.saved.
func (ImageSaved) Kind() string { return "image.saved" }

// Decide makes it ready, unless it is more than its user may have.
func (c ImageSaved) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	row, ok := w.Assets.Images.Get(c.Ref)
	switch {
	case !w.Can(at.Principal, access.System, 0, 0):
		return world.Outcome{}, onlyServer
	case !ok || row.State != asset.Saving || row.Made != c.Made:
		return skip, nil
	case w.Assets.SizeOf(row.User)+c.Added > w.Site.UserImages:
		return imageFails(w, row, fmt.Sprintf("it adds %s, and your images would have more than the %s that they may have", quantity.FormatBytes(c.Added), quantity.FormatBytes(w.Site.UserImages))), nil
	}
	row.State, row.Note, row.Digest, row.Packages = asset.Ready, "", c.Digest, c.Packages
	row.Size += c.Added
	return imageOutcome(w, row, "image "+row.Ref+" is ready"), nil
}

// ImageFail notes that an image can't be made.
type ImageFail struct {
	Ref     string
	Made    int64
	Message string
}

// Kind is image.fail.
func (ImageFail) Kind() string { return "image.fail" }

// Decide keeps why.
func (c ImageFail) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	row, ok := w.Assets.Images.Get(c.Ref)
	if !w.Can(at.Principal, access.System, 0, 0) {
		return world.Outcome{}, onlyServer
	}
	if !ok || row.State != asset.Saving || row.Made != c.Made {
		return skip, nil
	}
	return imageFails(w, row, c.Message), nil
}

func imageFails(w *world.World, row asset.Image, why string) world.Outcome {
	row.State, row.Note, row.Size = asset.Failed, why, 0
	return imageOutcome(w, row, "image "+row.Ref+" wasn't saved: "+why)
}

// imageOutcome puts an image's row; what it was made of is told its job too, if that is there.
func imageOutcome(w *world.World, row asset.Image, message string) world.Outcome {
	out := world.Outcome{Changes: []world.Change{asset.ImageSet{Row: row}}, Result: row, Event: world.Event{Message: message}}
	if j, ok := w.Workload.Jobs.Get(row.Job); ok {
		out.Event.Job, out.Event.Account, out.Event.State = j.ID, j.Account, string(j.State)
	}
	return out
}

// ImageShare lets the members of an account use an image too, or with none nobody else.
type ImageShare struct {
	Ref     string
	Account string `json:",omitempty"`

	asked bool // a member of it has asked for it
}

// Kind is image.share.
func (ImageShare) Kind() string { return "image.share" }

// Decide shares it.
func (c ImageShare) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	row, err := ownImage(w, at, c.Ref, "share")
	if err != nil {
		return world.Outcome{}, err
	}
	if row.State == asset.Failed && c.Account != "" {
		return world.Outcome{}, fault.New(codes.Conflict, "image %s wasn't saved: %s", row.Ref, row.Note)
	}
	if c.asked {
		row.Account, err = sharedAsked(w, c.Account)
	} else {
		row.Account, err = sharedWith(w, at, c.Account)
	}
	if err != nil {
		return world.Outcome{}, err
	}
	message := "image " + row.Ref + " is its user's alone"
	if c.Account != "" {
		message = "image " + row.Ref + " is shared with " + c.Account
	}
	out := imageOutcome(w, row, message)
	out.Event.Job, out.Event.State, out.Event.Account = 0, "", row.Account
	return out, nil
}

// ImageRemove removes an image that no job needs. A loop takes it off the machine.
type ImageRemove struct{ Ref string }

// Kind is image.remove.
func (ImageRemove) Kind() string { return "image.remove" }

// Decide removes it.
func (c ImageRemove) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	row, err := ownImage(w, at, c.Ref, "remove")
	if err != nil {
		return world.Outcome{}, err
	}
	for _, j := range w.Workload.Jobs.All() {
		if j.Spec.Image == row.Ref {
			return world.Outcome{}, neededBy(row, j.ID)
		}
	}
	for _, s := range w.Workload.Steps.All() {
		if s.Spec.Image == row.Ref {
			return world.Outcome{}, neededBy(row, s.Job)
		}
	}
	row.Removed = true
	return world.Outcome{Changes: []world.Change{asset.ImageSet{Row: row}}, Result: row, Event: world.Event{Message: "image " + row.Ref + " is removed"}}, nil
}

func neededBy(row asset.Image, j id.Job) error {
	return fault.New(codes.Conflict, "job %s uses %s: it can be removed when that has ended", j.Name(), row.Ref)
}

// ownImage is an image that the caller may change. One that he may not see isn't there.
func ownImage(w *world.World, at world.Context, ref, verb string) (asset.Image, error) {
	row, ok := w.Assets.Images.Get(ref)
	if !ok || !w.SeesImage(at.Principal, row) {
		return row, fault.NotFound("image", ref)
	}
	if !w.Can(at.Principal, access.TokenRun, row.User, 0) {
		return row, fault.New(codes.Denied, "image %s isn't yours to %s", ref, verb)
	}
	return row, nil
}
