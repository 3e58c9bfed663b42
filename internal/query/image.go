package query

import (
	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/asset"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/quantity"
)

// Images lists the images saved from jobs that p may see.
func (r *Reader) Images(p access.Principal) []v1.Image {
	v := r.view(p)
	out := []v1.Image{}
	for _, i := range v.w.Assets.Images.All() {
		if v.w.SeesImage(p, i) {
			i.Packages = nil
			out = append(out, r.ImageOf(i))
		}
	}
	return out
}

// Image returns one.
func (r *Reader) Image(p access.Principal, ref string) (v1.Image, error) {
	v := r.view(p)
	i, ok := v.w.Assets.Images.Get(ref)
	if !ok || !v.w.SeesImage(p, i) {
		return v1.Image{}, fault.NotFound("image", ref)
	}
	return r.ImageOf(i), nil
}

// ImageOf is an image as the API shows it.
func (r *Reader) ImageOf(i asset.Image) v1.Image {
	w := r.Worlds.World()
	user, _ := w.Tenancy.Users.Get(i.User)
	out := v1.Image{
		Name: i.Ref, User: user.Name, State: string(i.State), Note: i.Note, Job: i.Job.Name(), Base: i.Base, Digest: i.Digest,
		Size: v1.Quantity(quantity.FormatBytes(i.Size)), Comment: i.Comment, Made: at(i.Made),
	}
	if a, ok := w.Tenancy.Accounts.Get(i.Account); ok {
		out.Account = a.Name
	}
	for _, p := range i.Packages {
		out.Packages = append(out.Packages, v1.Package(p))
	}
	return out
}
