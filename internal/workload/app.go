package workload

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	v1 "croft.dev/croft/api/v1"
)

// App is a web program of a job's: it listens on a port of the job's own network and has an
// address outside, at which only those get to it who may.
type App struct {
	Name   string `json:"name"`
	Port   uint16 `json:"port"`
	Path   string `json:"path"`             // below its address, where a browser is sent first
	Health string `json:"health,omitempty"` // likewise: answers below 500 once it is ready
	Strip  bool   `json:"strip,omitempty"`  // what its address has before that isn't passed on

	// ViewSafe: it keeps those who only look from changing anything by itself, over WebSockets, too.
	ViewSafe bool `json:"view_safe,omitempty"`
	// Activity is how it says whether it is at work: ActivityJupyter, a path of its own, or not at all.
	Activity string `json:"activity,omitempty"`
}

// ActivityJupyter is Jupyter's own way, by its kernels and terminals.
const ActivityJupyter = "jupyter"

const (
	maxApps    = 8
	maxAppPath = 1024 // bytes
)

// appName is what an app may be called: with its job's number it is a label of a host name.
var appName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$`)

// appPath is a path with perhaps a query (RFC 3986, 3.3 and 3.4).
var appPath = regexp.MustCompile(`^/([A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})*$`)

// DefaultApp is what an app is called that has no name.
const DefaultApp = "web"

func (p *parser) apps(s *Spec, in []v1.App) {
	if len(in) > maxApps {
		p.bad.Add("apps", "has more than %d entries", maxApps)
		return
	}
	for i, a := range in {
		field := fmt.Sprintf("apps[%d]", i)
		out := App{Name: a.Name, Path: p.appPath(field+".path", a.Path), Strip: a.Strip == nil || *a.Strip, ViewSafe: a.ViewSafe}
		if out.Name == "" {
			out.Name = DefaultApp
		}
		switch {
		case !appName.MatchString(out.Name):
			p.bad.Add(field+".name", "%q can't be part of a host name: use at most 32 small letters, digits and dashes within", clip(a.Name))
		case slices.ContainsFunc(s.Apps, func(o App) bool { return o.Name == out.Name }):
			p.bad.Add(field+".name", "%q is the name of another: give each its own", out.Name)
		}
		if out.Port = uint16(a.Port); a.Port < 1 || a.Port > 65535 {
			p.bad.Add(field+".port", "%d isn't a TCP port: give the one that it listens on in the job, 1 to 65535", a.Port)
		}
		if a.Health != "" {
			out.Health = p.appPath(field+".health", a.Health)
		}
		switch out.Activity = a.Activity; {
		case a.Activity == "", a.Activity == ActivityJupyter:
		case !strings.HasPrefix(a.Activity, "/"):
			p.bad.Add(field+".activity", "%q must be jupyter, or a path that answers whether it works, such as /busy", clip(a.Activity))
		default:
			out.Activity = p.appPath(field+".activity", a.Activity)
		}
		s.Apps = append(s.Apps, out)
	}
	if len(in) == 0 {
		return
	}
	if s.Host() {
		p.bad.Add("apps", "are for containers, in whose network nobody else is: a program on the machine has none of its own")
	}
	if s.Pod.HostNetwork {
		p.bad.Add("apps", "need the job's own network: on the machine's (pod.network) everybody there would get to them")
	}
}

// appPath reads a path below an app's address, which can lead nowhere else.
func (p *parser) appPath(field, in string) string {
	if in == "" {
		return "/"
	}
	path, _, _ := strings.Cut(in, "?")
	path = strings.ReplaceAll(strings.ToLower(path), "%2e", ".")
	if !appPath.MatchString(in) || strings.HasPrefix(in, "//") || len(in) > maxAppPath || slices.Contains(strings.Split(path, "/"), "..") {
		p.bad.Add(field, "%q must be a path such as /lab, without .. and at most %d bytes long", clip(in), maxAppPath)
		return "/"
	}
	return in
}

// App returns the app of a name, or the first for none.
func (s Spec) App(name string) (App, bool) {
	for _, a := range s.Apps {
		if a.Name == name || name == "" {
			return a, true
		}
	}
	return App{}, false
}

// wireApps is apps as the API shows them.
func wireApps(apps []App) []v1.App {
	var out []v1.App
	for _, a := range apps {
		out = append(out, v1.App{Name: a.Name, Port: int(a.Port), Path: a.Path, Health: a.Health, Strip: &a.Strip, ViewSafe: a.ViewSafe, Activity: a.Activity})
	}
	return out
}
