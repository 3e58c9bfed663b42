package admission

import (
	"fmt"
	"strconv"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/fault"
)

// workspace checks what a user may have of workspaces: one of each name, and so many, the
// stopped ones among them. One that is to start again is there already.
func (d *decision) workspace() {
	if d.Gate != Accept || d.Job != nil || d.Wakes != 0 || !d.Spec.Workspace() {
		return
	}
	u := d.Subject.User
	if have, ok := d.Workload.Workspace(u.ID, d.Spec.Name); ok {
		d.refuse(fault.Reason{
			Code: codes.WorkspaceExists, Field: "name", Observed: d.Spec.Name, Scope: "user " + u.Name, Never: true,
			Message: fmt.Sprintf("%s has a workspace %s already: %s, which is %s; start that, or give another name", u.Name, d.Spec.Name, have.Name(), have.State),
		})
	}
	var n int64
	for range d.Workload.Workspaces(u.ID) {
		n++
	}
	if d.UserWorkspaces > 0 && n >= d.UserWorkspaces {
		d.refuse(fault.Reason{
			Code: codes.WorkspaceLimit, Observed: strconv.FormatInt(n, 10), Bound: strconv.FormatInt(d.UserWorkspaces, 10), Scope: "user " + u.Name, Never: true,
			Message: fmt.Sprintf("%s has %d workspaces, stopped ones too, as many as one may: croft workspace rm NAME deletes one", u.Name, n),
		})
	}
}
