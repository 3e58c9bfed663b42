package v1

import (
	"context"
	"iter"
	"net/http"
	"strings"
	"time"
)

// ImageRegistry begins the names of images that were saved from jobs.
const ImageRegistry = "croft.local/"

// ImageSave asks for an image of what a job has written in its container.
type ImageSave struct {
	Name    string `json:"name" doc:"NAME or NAME:TAG; the image is then croft.local/USER/NAME:TAG"`
	Step    int    `json:"step,omitempty" doc:"a further step's, by its number"`
	Account string `json:"account,omitempty" doc:"whose members may use it too"`
	Comment string `json:"comment,omitempty" maxLength:"500"`
}

// ImageShare says who may use an image besides its user.
type ImageShare struct {
	Account string `json:"account" doc:"its members; empty: nobody"`
}

// Image is what a job had written in its container, kept over the image that it was
// started from.
type Image struct {
	Name     string    `json:"name" doc:"as jobs name it: croft.local/USER/NAME:TAG"`
	User     string    `json:"user"`
	Account  string    `json:"account,omitempty" doc:"whose members may use it too"`
	State    string    `json:"state" enum:"saving,ready,failed"`
	Progress string    `json:"progress,omitempty" doc:"how far it is, while it is being saved"`
	Note     string    `json:"note,omitempty" doc:"why it failed"`
	Job      string    `json:"job"`
	Base     string    `json:"base" doc:"the image that the job was started from"`
	Digest   string    `json:"digest,omitempty"`
	Size     Quantity  `json:"size" doc:"what it adds to the image beneath"`
	Comment  string    `json:"comment,omitempty"`
	Made     time.Time `json:"made"`
	Packages []Package `json:"packages,omitempty" doc:"what it adds, changes or removes; in an answer for one image"`
}

// Package is a change of what is installed.
type Package struct {
	Manager string `json:"manager" doc:"apt, apk, pip or conda"`
	Name    string `json:"name"`
	Version string `json:"version,omitempty" doc:"empty: it is gone"`
	Was     string `json:"was,omitempty" doc:"the version beneath; empty: it wasn't there, or isn't known"`
}

// SaveImage has an image saved. It is there when its state says ready.
func (c *Client) SaveImage(ctx context.Context, job string, in ImageSave) (*Image, error) {
	j, err := segment("job", job)
	if err != nil {
		return nil, err
	}
	out := new(Image)
	return out, c.call(ctx, http.MethodPost, "/v1/jobs/"+j+"/image", nil, in, out)
}

// Images lists the images that one may use or see.
func (c *Client) Images(ctx context.Context) iter.Seq2[Image, error] {
	return pages[Image](ctx, c, "/v1/images", nil)
}

// Image is one by its whole name.
func (c *Client) Image(ctx context.Context, name string) (*Image, error) {
	path, err := imagePath(name)
	if err != nil {
		return nil, err
	}
	out := new(Image)
	return out, c.call(ctx, http.MethodGet, path, nil, nil, out)
}

// ShareImage says who may use an image besides its user.
func (c *Client) ShareImage(ctx context.Context, name string, in ImageShare) (*Image, error) {
	path, err := imagePath(name)
	if err != nil {
		return nil, err
	}
	out := new(Image)
	return out, c.call(ctx, http.MethodPatch, path, nil, in, out)
}

// RemoveImage removes an image. The error has the code conflict while a job uses it.
func (c *Client) RemoveImage(ctx context.Context, name string) error {
	path, err := imagePath(name)
	if err != nil {
		return err
	}
	return c.call(ctx, http.MethodDelete, path, nil, nil, nil)
}

func imagePath(name string) (string, error) {
	owner, image, _ := strings.Cut(strings.TrimPrefix(name, ImageRegistry), "/")
	o, err := segment("image", owner)
	if err != nil {
		return "", err
	}
	i, err := segment("image", image)
	return "/v1/images/" + o + "/" + i, err
}
