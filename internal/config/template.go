package config

import (
	"maps"
	"slices"
)

// Template is a kind of workspace that users start by its name.
type Template struct {
	// Name that users give.
	Name string `yaml:"name"`
	// What it is, in a line.
	About string `yaml:"about" example:"JupyterLab with the lab's libraries"`
	// Image that it runs.
	Image string `yaml:"image" example:"registry.example.org/lab/jupyter:1"`
	// Program in place of the image's own. It listens on the ports of its apps, best on
	// 127.0.0.1 and without a login: Croft asks who comes. It is told CROFT_APP_PORT,
	// CROFT_BASE_URL and CROFT_URL.
	Command []string `yaml:"command" example:"sh, -c, 'exec lab --port $CROFT_APP_PORT'"`
	// Variables of its environment.
	Env map[string]string `yaml:"env" example:"LANG: C.UTF-8"`
	// It runs no program of its own, and is there for terminals.
	Pause bool `yaml:"pause"`
	// Its web programs; the first one's address is the workspace's.
	Apps []TemplateApp `yaml:"apps"`
	// Cores.
	CPU Cores `yaml:"cpu"`
	// Memory.
	Mem Bytes `yaml:"mem"`
	// Accelerators, or a part of one such as 0.5; left out, none.
	GPU string `yaml:"gpu" example:"1"`
	// Time limit of each run.
	Time Duration `yaml:"time"`
	// Don't mount the user's home.
	NoHome bool `yaml:"no_home"`
	// Leave it out of what is offered: a built-in one that isn't for this site.
	Hidden bool `yaml:"hidden"`
}

// TemplateApp is a web program of a template.
type TemplateApp struct {
	// Small letters, digits and dashes; left out, web.
	Name string `yaml:"name"`
	// TCP port that it listens on.
	Port int `yaml:"port"`
	// Where a browser is sent first; left out, /.
	Path string `yaml:"path" example:"/lab"`
	// Path that answers below 500 once it is ready; left out, that it takes connections
	// will do.
	Health string `yaml:"health" example:"/api"`
	// How it says whether it is at work, so that it isn't taken for idle: jupyter, by its
	// kernels and terminals, or a path that answers. Left out, it isn't asked.
	Activity string `yaml:"activity" example:"jupyter"`
	// By path, it is passed the whole of it, as a program has to be that is told
	// CROFT_BASE_URL.
	KeepPrefix bool `yaml:"keep_prefix"`
	// Whoever it is shared with to look gets WebSockets, too: it keeps them from changing
	// anything by itself, by the header Croft-Access, which says view.
	ViewSafe bool `yaml:"view_safe"`
}

// The commands of the built-in templates. What an image's python installs goes where it is
// found again (PYTHONUSERBASE), and programs need a home that they can write to.
const (
	intoHome = `[ -w "$HOME" ] || export HOME=/tmp; cd "$HOME"; export PATH="$PYTHONUSERBASE/bin:$PATH"; `
	jupyter  = intoHome + `set -- --ip=127.0.0.1 --port="$CROFT_APP_PORT" --no-browser --allow-root
if command -v jupyter-lab >/dev/null; then
  exec jupyter-lab "$@" --ServerApp.base_url="$CROFT_BASE_URL" --ServerApp.allow_remote_access=True --IdentityProvider.token= --ServerApp.token= --ServerApp.password=
fi
exec jupyter-notebook "$@" --NotebookApp.base_url="$CROFT_BASE_URL" --NotebookApp.allow_remote_access=True --NotebookApp.token= --NotebookApp.password=`
	codeServer = intoHome + `exec code-server --auth none --bind-addr "127.0.0.1:$CROFT_APP_PORT" --disable-telemetry --disable-update-check --disable-workspace-trust "$HOME"`
)

// builtIn are the templates that there are without a word in the configuration.
func builtIn() []Template {
	return []Template{
		{
			Name: "jupyter", About: "Jupyter notebooks", Image: "quay.io/jupyter/scipy-notebook:latest", Command: []string{"sh", "-c", jupyter},
			Apps: []TemplateApp{{Name: "web", Port: 8888, Health: "/api", Activity: "jupyter", KeepPrefix: true}}, CPU: 2000, Mem: 4 * gib, Time: 8 * hour,
		},
		{
			Name: "code", About: "VS Code in the browser", Image: "docker.io/codercom/code-server:latest", Command: []string{"sh", "-c", codeServer},
			Apps: []TemplateApp{{Name: "web", Port: 8080, Health: "/healthz"}}, CPU: 2000, Mem: 4 * gib, Time: 8 * hour,
		},
		{Name: "shell", About: "a shell", Image: "docker.io/library/debian:stable", Pause: true, CPU: 1000, Mem: 2 * gib, Time: 8 * hour},
	}
}

// Workspaces are the templates that are offered: the built-in ones as the configuration
// changes them, then those that it adds.
func (c Config) Workspaces() []Template {
	all := builtIn()
	for _, t := range c.Templates {
		if i := slices.IndexFunc(all, func(b Template) bool { return b.Name == t.Name }); i >= 0 {
			all[i] = all[i].with(t)
		} else {
			all = append(all, t)
		}
	}
	return slices.DeleteFunc(all, func(t Template) bool { return t.Hidden })
}

// with is a built-in template as the configuration has it: what that leaves out stays.
func (t Template) with(o Template) Template {
	or := func(to *string, from string) {
		if from != "" {
			*to = from
		}
	}
	or(&t.About, o.About)
	or(&t.Image, o.Image)
	or(&t.GPU, o.GPU)
	if len(o.Command) > 0 || o.Pause {
		t.Command, t.Pause = o.Command, o.Pause
	}
	if len(o.Apps) > 0 {
		t.Apps = o.Apps
	}
	if len(o.Env) > 0 {
		t.Env = maps.Clone(o.Env)
	}
	if o.CPU > 0 {
		t.CPU = o.CPU
	}
	if o.Mem > 0 {
		t.Mem = o.Mem
	}
	if o.Time > 0 {
		t.Time = o.Time
	}
	t.NoHome, t.Hidden = o.NoHome, o.Hidden
	return t
}
