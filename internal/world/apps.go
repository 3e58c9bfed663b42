package world

import (
	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/workload"
)

// Apps is what the site allows of jobs' applications, and with them of terminals.
type Apps struct {
	Shared bool // others than a job's owner may be let in
	Pages  bool // terminals may be on pages of the server's: no application of another's has their origin
	Public bool // whoever comes may
}

// NoPages says why terminals aren't on pages of the server's.
func NoPages() error {
	return fault.New(codes.Denied, "applications here share the server's origin and are for others than their owners (apps.share_by_path): a page of one could type in your terminals, so there are none on pages; use croft terminal")
}

// CanApp reports whether p may do a to the applications or terminals of a job, at the time as
// of which p is.
func (w *World) CanApp(p access.Principal, a access.Action, j *workload.Job) bool {
	now := max(p.Now, w.Now)
	t := w.targetOf(p, j, now)
	if w.Site.Apps.Shared && j.State != workload.Ended {
		t.Share, t.Public = w.shareOf(p, j, now)
	}
	return access.Authorize(p, a, t)
}

// shareOf is the most that p and whoever comes are let in by.
func (w *World) shareOf(p access.Principal, j *workload.Job, now int64) (own, public access.Share) {
	for _, s := range j.Shared {
		switch {
		case s.Over(now):
		case s.Public():
			if w.Site.Apps.Public {
				public = max(public, s.Level)
			}
		case w.letsIn(s, p, now):
			own = max(own, s.Level)
		}
	}
	return own, public
}

// LetsIn reports whether a share that isn't over is p's, by the name or by an account, at the
// time as of which p is. One for whoever comes is nobody's.
func (w *World) LetsIn(s workload.Shared, p access.Principal) bool {
	return w.letsIn(s, p, max(p.Now, w.Now))
}

func (w *World) letsIn(s workload.Shared, p access.Principal, now int64) bool {
	return s.User != 0 && int64(s.User) == p.User || s.Account != 0 && w.Tenancy.Role(id.User(p.User), s.Account, now) >= leastRole(s.Level)
}

// leastRole is the role in an account with which its members have what is shared with it:
// who only looks at the account only looks at that.
func leastRole(level access.Share) access.Role {
	if level == access.ShareFull {
		return access.Member
	}
	return access.Viewer
}
