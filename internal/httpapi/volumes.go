package httpapi

import (
	"errors"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/quantity"
	"croft.dev/croft/internal/workload"
)

func volumeOperations() []operation {
	return []operation{
		ask("listVolumes", "GET /v1/users/{name}/volumes", "A user's named volumes, and what they take of the disk", access.TokenRun, (*call).volumes),
		drop("removeVolume", "DELETE /v1/users/{name}/volumes/{volume}", "Delete a volume with all that is in it", access.TokenRun, (*call).removeVolume),
	}
}

// volumesOf is the uid whose volumes they are, of a user whom the caller may ask for.
func (c *call) volumesOf() (int64, error) {
	name := c.path("name")
	if _, err := c.Reader.Registries(c.p, name); err != nil { // who may see one's own matters
		return 0, err
	}
	u, _ := c.Sequencer.World().Tenancy.User(name)
	return u.UID, nil
}

func (c *call) volumes() (v1.Page[v1.Volume], error) {
	uid, err := c.volumesOf()
	if err != nil || uid < 0 {
		return page([]v1.Volume{}, err)
	}
	list, err := c.Engine.Volumes(c.r.Context(), uid)
	out := make([]v1.Volume, 0, len(list))
	for _, v := range list {
		out = append(out, v1.Volume{Name: v.Name, Size: v1.Quantity(quantity.FormatBytes(v.Size)), InUse: v.InUse})
	}
	return page(out, volumeError(err))
}

func (c *call) removeVolume() error {
	name := c.path("volume")
	uid, err := c.volumesOf()
	if err != nil {
		return err
	}
	if uid < 0 || !workload.KnownVolume(name) {
		return fault.NotFound("volume", name)
	}
	list, err := c.Engine.Volumes(c.r.Context(), uid)
	if err != nil {
		return volumeError(err)
	}
	for _, v := range list {
		if v.Name != name {
			continue
		}
		if v.InUse {
			return volumeError(&engine.VolumeInUseError{Name: name})
		}
		if _, err := c.do(command.VolumeRemove{User: c.path("name"), Volume: name}); err != nil {
			return err
		}
		return volumeError(c.Engine.RemoveVolume(c.r.Context(), uid, name))
	}
	return fault.NotFound("volume", name)
}

func volumeError(err error) error {
	var none *engine.NoVolumeError
	var used *engine.VolumeInUseError
	switch {
	case errors.As(err, &none):
		return fault.NotFound("volume", none.Name)
	case errors.As(err, &used):
		return fault.New(codes.Conflict, "volume %s is in use by a job: stop that, or wait until it is cleared away", used.Name)
	case engine.IsUnavailable(err):
		return fault.New(codes.Unavailable, "the container runtime isn't reachable: try again")
	}
	return err
}
