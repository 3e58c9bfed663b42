package cli

import (
	"strconv"
	"strings"

	v1 "croft.dev/croft/api/v1"
)

// readApps adds the apps of the flags to those that a file names.
func (f *specFlags) readApps(spec *v1.JobSpec) error {
	for _, text := range f.apps {
		app, err := parseApp(text)
		if err != nil {
			return err
		}
		spec.Apps = append(spec.Apps, app)
	}
	return nil
}

// parseApp reads [NAME=]PORT[/PATH].
func parseApp(text string) (v1.App, error) {
	rest := text
	var app v1.App
	if name, after, named := strings.Cut(text, "="); named && !strings.Contains(name, "/") {
		if app.Name, rest = name, after; name == "" {
			return app, usage("--app %s: the name is empty; leave out the =", text)
		}
	}
	port, path, deeper := strings.Cut(rest, "/")
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return app, usage("--app %s: want [NAME=]PORT[/PATH], such as 6006 or board=6006/", text)
	}
	if app.Port = int(n); deeper {
		app.Path = "/" + path
	}
	return app, nil
}
