package run

import (
	"net/url"
	"strconv"
	"strings"

	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/workload"
)

// PathOf is an app's address by path, below the site's own.
func PathOf(job id.Job, app string, first bool) string {
	p := "/w/" + strconv.FormatInt(int64(job), 10) + "/"
	if first {
		return p
	}
	return p + app + "/"
}

// ofApps tells the programs of a job where browsers find its apps, so that they can make
// links. The first app's address is the job's.
func ofApps(j *workload.Job, address func(job id.Job, app string, first bool) string) map[string]string {
	if address == nil {
		address = PathOf
	}
	env := map[string]string{}
	for i, app := range j.Spec.Apps {
		at := address(j.ID, app.Name, i == 0)
		suffix := "_" + strings.ToUpper(strings.ReplaceAll(app.Name, "-", "_"))
		for name, v := range map[string]string{"CROFT_URL": at, "CROFT_BASE_URL": basePath(at), "CROFT_APP_PORT": strconv.Itoa(int(app.Port))} {
			if env[name+suffix] = v; i == 0 {
				env[name] = v
			}
		}
	}
	return env
}

// BaseOf is what an app is told in CROFT_BASE_URL.
func BaseOf(address func(job id.Job, app string, first bool) string, j *workload.Job, app workload.App) string {
	if address == nil {
		address = PathOf
	}
	return basePath(address(j.ID, app.Name, j.Spec.Apps[0].Name == app.Name))
}

// basePath is the part of an address that its paths begin with, "/" where it has an origin
// of its own.
func basePath(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Path == "" {
		return "/"
	}
	return u.Path
}
