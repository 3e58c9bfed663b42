package httpapi

import (
	"fmt"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/asset"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/quantity"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

func imageOperations() []operation {
	return []operation{
		tell("saveImage", "POST /v1/jobs/{id}/image", "Save what a job has written in its container as an image; the answer comes before that is made", access.JobEnter, created, (*call).saveImage),
		ask("listImages", "GET /v1/images", "Images saved from jobs that you may use or see", access.JobSee, (*call).images),
		ask("getImage", "GET /v1/images/{owner}/{image}", "An image saved from a job, with the packages that it adds", access.JobSee, (*call).image),
		tell("shareImage", "PATCH /v1/images/{owner}/{image}", "Let the members of an account use an image too, or nobody else", access.TokenRun, ok, (*call).shareImage),
		drop("removeImage", "DELETE /v1/images/{owner}/{image}", "Remove an image that no job uses", access.TokenRun, (*call).removeImage),
	}
}

func (c *call) saveImage(in v1.ImageSave) (v1.Image, error) {
	j, err := c.Reader.Find(c.r.Context(), c.p, c.path("id"), access.JobEnter)
	if err != nil {
		return v1.Image{}, err
	}
	if j.State == workload.Ended || j.Array != nil || j.ID < 0 {
		return v1.Image{}, fault.New(codes.Conflict, "job %s isn't running: it is %s", c.path("id"), j.State)
	}
	cmd := command.ImageSave{Job: j.ID, Step: int32(in.Step), Name: in.Name, Account: in.Account, Comment: in.Comment}
	if cmd.Step == 0 {
		cmd.Step = workload.PrimaryStep
	}
	return c.imageAfter(cmd)
}

// imageAfter is the image that a command put.
func (c *call) imageAfter(cmd world.Command) (v1.Image, error) {
	got, err := c.do(cmd)
	if err != nil {
		return v1.Image{}, err
	}
	row, isRow := got.Result.(asset.Image)
	if !isRow {
		return v1.Image{}, unexpected(got)
	}
	return c.coming(c.Reader.ImageOf(row)), nil
}

func (c *call) images() (v1.Page[v1.Image], error) {
	list := c.Reader.Images(c.p)
	for i := range list {
		list[i] = c.coming(list[i])
	}
	return page(list, nil)
}

func (c *call) image() (v1.Image, error) {
	img, err := c.Reader.Image(c.p, c.imageName())
	return c.coming(img), err
}

// imageName is the whole name of the image that the path names.
func (c *call) imageName() string {
	full, _ := asset.Local(asset.Registry + "/" + c.path("owner") + "/" + c.path("image"))
	return full
}

// coming adds how far an image is.
func (c *call) coming(i v1.Image) v1.Image {
	if i.State != string(asset.Saving) || c.Saving == nil {
		return i
	}
	p, ok := c.Saving(i.Name)
	switch {
	case !ok:
		i.Progress = "waiting"
	case p.Total > 0:
		i.Progress = fmt.Sprintf("writing %d%%", min(100*p.Done/p.Total, 100))
	case p.Done > 0:
		i.Progress = fmt.Sprintf("comparing, %s found", quantity.FormatBytes(p.Done))
	default:
		i.Progress = "comparing"
	}
	return i
}

func (c *call) shareImage(in v1.ImageShare) (v1.Image, error) {
	return c.imageAfter(command.ImageShare{Ref: c.imageName(), Account: in.Account})
}

func (c *call) removeImage() error {
	_, err := c.do(command.ImageRemove{Ref: c.imageName()})
	return err
}
