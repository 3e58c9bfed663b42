package run

import (
	"fmt"

	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/workload"
)

// Subids are the ids of the machine that users have in user namespaces: of the user with
// the uid First, Size ids from Start on; of the next uid as many from there on; and so
// for Users uids.
type Subids struct{ First, Users, Start, Size int64 }

// Of returns the first id of a user's range, or ok=false for one who has none.
func (s Subids) Of(uid int64) (first int64, ok bool) {
	if uid < s.First || uid >= s.First+s.Users {
		return 0, false
	}
	return s.Start + (uid-s.First)*s.Size, true
}

// userns is the user namespace of a job's containers, nil if they are to have none. The
// error is a *engine.StartError when they can't run as whom the job asks for.
func (s Subids) userns(p workload.Pod, u engine.User) (*engine.Userns, error) {
	uid, gid, _ := workload.ParseUser(p.User)
	own := uid == u.UID && (gid < 0 || gid == u.GID)
	if !p.Userns.Wanted() {
		if p.User != "" && !own {
			return nil, &engine.StartError{Message: fmt.Sprintf("without fake root containers run as %s, %d:%d, not as %s", u.Name, u.UID, u.GID, p.User)}
		}
		return nil, nil
	}
	ns := &engine.Userns{
		Size: s.Size, UID: uid, GID: max(gid, 0),
		// Who is to be somebody in particular isn't himself.
		Required: p.Userns == workload.UsernsOn || p.User != "" && !own,
	}
	var ok bool
	switch ns.First, ok = s.Of(u.UID); {
	case s.Users == 0 && !ns.Required:
		return nil, nil // nobody expects it here
	case s.Users == 0:
		ns.Lack = "this site has none"
	case !ok:
		ns.Lack = fmt.Sprintf("uid %d has no ids for it, an admin can give them (subids in the configuration)", u.UID)
	}
	return ns, nil
}
