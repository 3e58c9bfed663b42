package asset

import (
	"regexp"
	"strconv"
	"strings"

	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/tenancy"
)

// Registry begins the names of saved images, where others have their registry's: there is
// none of that name, and nothing is pulled from it.
const Registry = "croft.local"

// Image is what a step of a job had written in its container, kept over the image that the
// step was started from.
type Image struct {
	Ref     string // its name, croft.local/ada/env:v1
	User    id.User
	Account id.Account // whose members may use it too; 0: nobody else
	State   ImageState
	Note    string // Failed: why
	Job     id.Job
	Step    int32
	Attempt int32
	Base    string // the image that the step was started from, by name
	Digest  string
	Size    int64 // bytes of the disk that it adds to the image beneath, with what images saved before added to that
	Comment string
	Made    int64 // ns; when it was asked for
	Removed bool

	Packages []Package
}

// ImageState is how far an image is.
type ImageState string

// The states.
const (
	Saving ImageState = "saving"
	Ready  ImageState = "ready"
	Failed ImageState = "failed"
)

// Package is a package that an image adds, changes or removes.
type Package struct {
	Manager string `json:"manager"`
	Name    string `json:"name"`
	Version string `json:"version,omitempty"` // empty: it is gone
	Was     string `json:"was,omitempty"`     // empty: it wasn't there, or isn't known
}

var (
	imageName = regexp.MustCompile(`^[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*$`)
	imageTag  = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$`)
)

// maxName is how long a name may be without its tag.
const maxName = 64

// Ref is what an image of a user's is called that he gives a short name, NAME or NAME:TAG.
// ok is false for what can be none.
func Ref(user tenancy.User, short string) (ref string, ok bool) {
	name, tag, tagged := strings.Cut(short, ":")
	if !tagged {
		tag = "latest"
	}
	if len(name) > maxName || !imageName.MatchString(name) || !imageTag.MatchString(tag) {
		return "", false
	}
	return Registry + "/" + owner(user) + "/" + name + ":" + tag, true
}

// owner is a user's part of a name: images' names allow less than users'.
func owner(u tenancy.User) string {
	if imageName.MatchString(u.Name) {
		return u.Name
	}
	return "user-" + strconv.FormatInt(int64(u.ID), 10)
}

// Local reports whether a reference is of a saved image, and how that is called.
func Local(ref string) (full string, local bool) {
	rest, ok := strings.CutPrefix(ref, Registry+"/")
	if !ok {
		return ref, false
	}
	if !strings.Contains(rest, ":") {
		ref += ":latest"
	}
	return ref, true
}

// Usable reports whether a user may run an image, and see it: it is his own, or shared with
// an account of which he is a member.
func (i Image) Usable(t *tenancy.State, user id.User, now int64) bool {
	return usable(t, i.User, i.Account, user, now)
}

// usable says of what one user has, and shares with an account, whether another may use it.
func usable(t *tenancy.State, owner id.User, shared id.Account, user id.User, now int64) bool {
	return owner == user || shared != 0 && t.Role(user, shared, now) >= access.Member
}
