package asset

import (
	"encoding/json"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/tenancy"
)

// Template is a user's own template of workspaces. Its spec is as he gave it: what it leaves
// out is filled in when a workspace is made of it.
type Template struct {
	User    id.User
	Name    string
	Account id.Account // whose members may use it too; 0: nobody else
	About   string
	Spec    v1.JobSpec
	Changed int64 // ns
	Removed bool
}

// Usable reports whether a user may start workspaces of a template: it is his own, or shared
// with an account of which he is a member.
func (t Template) Usable(s *tenancy.State, user id.User, now int64) bool {
	return usable(s, t.User, t.Account, user, now)
}

// String shows all of it, for whoever prints or compares a row.
func (t Template) String() string {
	text, err := json.Marshal(t)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
