package config

import (
	"reflect"
	"slices"
	"strings"
)

const envPrefix = "CROFT_"

// envName is the variable that replaces the scalar at path.
func envName(path string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(path, ".", "_"))
}

// environment applies the variables, sorted by name so that messages are too. A
// variable that begins like a section's but names no key is an error: it is a
// slip that would otherwise go unnoticed.
func (d *decoder) environment(env []string, c *Config) {
	paths := make(map[string]string)
	var names, sections []string
	for _, p := range scalarPaths(reflect.TypeFor[Config](), "") {
		name := envName(p)
		paths[name] = p
		names = append(names, name)
		if section, _, ok := strings.Cut(p, "."); ok {
			sections = append(sections, envName(section)+"_")
		}
	}
	env = slices.Clone(env)
	slices.Sort(env)
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		p, known := paths[name]
		switch {
		case known:
			v, _ := lookup(c, p)
			d.override(v, Setting{Key: p, Value: value, From: name})
		case slices.ContainsFunc(sections, func(s string) bool { return strings.HasPrefix(name, s) }):
			message := "no key has this variable"
			if n := nearest(strings.ToLower(name), lower(names)); n != "" {
				message += ": did you mean " + strings.ToUpper(n) + "?"
			}
			d.problems = append(d.problems, problem{origin: name, message: message})
		}
	}
}

func lower(names []string) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = strings.ToLower(n)
	}
	return out
}

// scalarPaths returns the paths of all values outside of lists that are written
// as one word.
func scalarPaths(t reflect.Type, prefix string) []string {
	var out []string
	for i := range t.NumField() {
		f := t.Field(i)
		p := join(prefix, keyOf(f))
		switch {
		case isScalar(reflect.New(f.Type).Elem()):
			out = append(out, p)
		case f.Type.Kind() == reflect.Struct:
			out = append(out, scalarPaths(f.Type, p)...)
		}
	}
	return out
}
