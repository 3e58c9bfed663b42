package command

import "croft.dev/croft/internal/world"

// VolumeRemove notes who has a user's volume deleted, before it is: what was in it is gone
// then. It changes no row.
type VolumeRemove struct{ User, Volume string }

// Kind is volume.remove.
func (VolumeRemove) Kind() string { return "volume.remove" }

// Decide says whether the caller may.
func (c VolumeRemove) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	if _, err := ownCredentials(w, at, c.User); err != nil {
		return world.Outcome{}, err
	}
	return world.Outcome{Event: world.Event{Message: "volume " + c.Volume + " of " + c.User + " is removed"}}, nil
}
