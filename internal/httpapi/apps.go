package httpapi

import (
	"strings"
	"time"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/address"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/workload"
	"croft.dev/croft/internal/world"
)

func appOperations() []operation {
	return []operation{
		pages("listApps", "GET /v1/apps", "Jobs with applications or terminals that you may open, your own and those shared with you, the newest first", access.AppSee, (*call).apps),
		tell("openJob", "POST /v1/jobs/{id}/open", "An address of a job's application at which a browser is known as you, once", access.AppView, ok, (*call).openApp),
		tell("shareJob", "POST /v1/jobs/{id}/share", "Let others into a job's applications", access.JobShare, ok, (*call).share),
		tell("unshareJob", "POST /v1/jobs/{id}/unshare", "Let them no longer in", access.JobControl, ok, (*call).unshare),
	}
}

func (c *call) apps() (v1.Page[v1.AppJob], error) {
	q := c.r.URL.Query()
	limit, err := number(q.Get("limit"), "limit")
	if err != nil {
		return v1.Page[v1.AppJob]{}, err
	}
	return c.Reader.Apps(c.p, v1.AppQuery{Limit: int(limit), Cursor: q.Get("cursor")})
}

// openApp gives whoever may look at an application an address that lets his browser in.
func (c *call) openApp(in v1.OpenRequest) (v1.Opened, error) {
	j, err := c.Reader.FindShared(c.r.Context(), c.p, c.path("id"), access.AppView)
	if err != nil {
		return v1.Opened{}, err
	}
	app, has := j.Spec.App(in.App)
	switch {
	case j.State == workload.Stopped, j.State == workload.Ended:
		return v1.Opened{}, j.NotRunning()
	case len(j.Spec.Apps) == 0:
		return v1.Opened{}, fault.New(codes.Conflict, "job %s has no applications", j.Name())
	case !has:
		return v1.Opened{}, fault.Invalid("app", "job %s has no application of that name: it has %s", j.Name(), appNames(j.Spec.Apps))
	case in.Path != "" && !appPath(in.Path):
		return v1.Opened{}, fault.Invalid("path", "must be a path below the application's address, such as /lab")
	case c.Apps == nil:
		return v1.Opened{}, fault.New(codes.Conflict, "this server leads to no applications")
	}
	at := address.App{Job: j.ID}
	if app.Name != j.Spec.Apps[0].Name {
		at.Name = app.Name
	}
	next := in.Path
	if next == "" {
		next = app.Path
	}
	url, until, err := c.Apps.URL(id.User(c.p.User), c.token(), at, next)
	return v1.Opened{URL: url, Expires: time.Unix(0, until).UTC()}, err
}

// appPath reports whether a path leads nowhere but below where it is put.
func appPath(p string) bool {
	return strings.HasPrefix(p, "/") && !strings.HasPrefix(p, "//") && len(p) <= 2048 &&
		!strings.ContainsFunc(p, func(r rune) bool { return r <= ' ' || r == '\\' || r == '#' || r >= 0x7f })
}

func appNames(apps []workload.App) string {
	var names []string
	for _, a := range apps {
		names = append(names, a.Name)
	}
	return strings.Join(names, ", ")
}

func clipped(s string) string { return s[:min(len(s), 40)] }

// share lets others in.
func (c *call) share(in v1.ShareRequest) (v1.Job, error) {
	k, err := c.jobMeant()
	if err != nil {
		return v1.Job{}, err
	}
	level := access.ShareFull
	if in.Level != "" {
		var known bool
		if level, known = access.ParseShare(in.Level); !known {
			return v1.Job{}, fault.Invalid("level", "must be view or full")
		}
	}
	cmd := command.JobShare{Job: k, User: in.User, Account: in.Account, Public: in.Public, Level: level}
	if in.Until != nil {
		cmd.Until = in.Until.UnixNano()
	}
	return c.changeShared(cmd)
}

// unshare lets them no longer in.
func (c *call) unshare(in v1.UnshareRequest) (v1.Job, error) {
	k, err := c.jobMeant()
	if err != nil {
		return v1.Job{}, err
	}
	return c.changeShared(command.JobUnshare{Job: k, User: in.User, Account: in.Account, Public: in.Public})
}

// jobMeant is the job of the path: whose ever by its number, a workspace of the caller's own by
// its name. What he may do there is asked afterwards.
func (c *call) jobMeant() (id.Job, error) {
	name := c.path("id")
	j, err := c.Reader.Find(c.r.Context(), c.p, name, access.JobRead)
	if err == nil {
		return j.ID, nil
	}
	if k, isJob := id.ParseJob(name); isJob {
		return k, nil
	}
	return 0, fault.NotFound("job", clipped(name))
}

func (c *call) changeShared(cmd world.Command) (v1.Job, error) {
	if _, err := c.do(cmd); err != nil {
		return v1.Job{}, err
	}
	return c.job()
}
