package layer

import (
	"archive/tar"
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
)

// Package is one that was added, changed or removed.
type Package struct {
	Manager string // "apt", "apk", "pip" or "conda"
	Name    string
	Version string // empty: it is gone
	Was     string // the version beneath; empty: it wasn't there, or isn't known
}

// databases are the files in which package managers keep what is installed.
var databases = map[string]string{
	"var/lib/dpkg/status":      "apt",
	"lib/apk/db/installed":     "apk",
	"usr/lib/apk/db/installed": "apk",
}

// MaxDatabase bounds what is read of one of those, in bytes.
const MaxDatabase = 64 << 20

// finder sees which packages a layer changes.
type finder struct {
	base      func(string) ([]byte, error)
	databases map[string]*bytes.Buffer // by path
	installer map[string]*bytes.Buffer // who installed what is described in a folder
	dists     map[string]bool          // folders that describe Python packages: here, or gone
	conda     map[string]bool          // files that describe Conda's
}

func newFinder(base func(string) ([]byte, error)) *finder {
	return &finder{base: base, databases: map[string]*bytes.Buffer{}, installer: map[string]*bytes.Buffer{}, dists: map[string]bool{}, conda: map[string]bool{}}
}

// watch is told of an entry of the layer, and returns where its content goes.
func (f *finder) watch(name string, h *tar.Header, w io.Writer) io.Writer {
	dir, base := path.Split(name)
	dir = strings.TrimSuffix(dir, "/")
	if gone, ok := strings.CutPrefix(base, whiteout); ok {
		f.see(path.Join(dir, gone), false)
		return w
	}
	if h.Typeflag != tar.TypeReg {
		return w
	}
	if databases[name] != "" && h.Size <= MaxDatabase {
		return io.MultiWriter(w, keep(f.databases, name))
	}
	switch {
	case isDist(dir) && base == "METADATA":
		f.see(dir, true)
	case isDist(dir) && base == "INSTALLER" && h.Size < 100:
		return io.MultiWriter(w, keep(f.installer, dir))
	default:
		f.see(name, true)
	}
	return w
}

func keep(m map[string]*bytes.Buffer, name string) io.Writer {
	m[name] = &bytes.Buffer{}
	return m[name]
}

// see notes a thing that may describe a package, which is there or gone.
func (f *finder) see(name string, there bool) {
	switch {
	case isDist(name):
		f.dists[name] = there
	case path.Base(path.Dir(name)) == "conda-meta" && strings.HasSuffix(name, ".json"):
		f.conda[name] = there
	}
}

// isDist reports whether a folder describes a Python package that somebody installed:
// Debian's own are Debian's packages.
func isDist(dir string) bool {
	above := path.Dir(dir)
	return strings.HasSuffix(dir, ".dist-info") && strings.HasSuffix(above, "-packages") && above != "usr/lib/python3/dist-packages"
}

// packages is what was found, in order.
func (f *finder) packages() ([]Package, error) {
	var all changes
	for name, text := range f.databases {
		var was []byte
		if f.base != nil {
			var err error
			if was, err = f.base(name); err != nil {
				return nil, fmt.Errorf("layer: %s of the image beneath: %w", name, err)
			}
		}
		all.compare(databases[name], installed(was), installed(text.Bytes()))
	}
	for dir, there := range f.dists {
		if by := f.installer[dir]; by != nil && strings.TrimSpace(by.String()) == "conda" {
			continue
		}
		name, version, _ := strings.Cut(strings.TrimSuffix(path.Base(dir), ".dist-info"), "-")
		all.add("pip", name, version, there)
	}
	for file, there := range f.conda {
		rest, _, _ := cutLast(strings.TrimSuffix(path.Base(file), ".json")) // the build
		name, version, _ := cutLast(rest)
		all.add("conda", name, version, there)
	}
	return all.sorted(), nil
}

func cutLast(s string) (before, after string, found bool) {
	i := strings.LastIndexByte(s, '-')
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}

// changes gathers what was said of packages; one version that went and another that came
// are one change.
type changes struct{ list []Package }

func (c *changes) add(manager, name, version string, there bool) {
	if name == "" || version == "" {
		return
	}
	p := Package{Manager: manager, Name: name, Version: version}
	if !there {
		p.Version, p.Was = "", version
	}
	c.list = append(c.list, p)
}

func (c *changes) compare(manager string, was, is map[string]string) {
	for name, version := range is {
		if was[name] != version {
			c.list = append(c.list, Package{Manager: manager, Name: name, Version: version, Was: was[name]})
		}
	}
	for name, version := range was {
		if is[name] == "" {
			c.list = append(c.list, Package{Manager: manager, Name: name, Was: version})
		}
	}
}

func (c *changes) sorted() []Package {
	slices.SortFunc(c.list, func(a, b Package) int {
		return cmp.Or(cmp.Compare(a.Manager, b.Manager), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Was, b.Was), cmp.Compare(a.Version, b.Version))
	})
	c.list = slices.Compact(c.list)
	var out []Package
	for _, p := range c.list {
		if n := len(out); n > 0 && out[n-1].Manager == p.Manager && out[n-1].Name == p.Name && out[n-1].Was == "" && p.Version == "" {
			out[n-1].Was = p.Was // a version came, another went
			continue
		}
		out = append(out, p)
	}
	return out
}

// installed reads a database of dpkg or apk: paragraphs of fields, by name. A package that
// dpkg knows and that isn't installed isn't there.
func installed(text []byte) map[string]string {
	out := map[string]string{}
	name, version, there := "", "", true
	end := func() {
		if name != "" && version != "" && there {
			out[name] = version
		}
		name, version, there = "", "", true
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, MaxDatabase)
	for lines.Scan() {
		key, value, ok := strings.Cut(lines.Text(), ":")
		value = strings.TrimSpace(value)
		switch {
		case strings.TrimSpace(lines.Text()) == "":
			end()
		case !ok:
		case key == "Package", key == "P":
			name = value
		case key == "Version", key == "V":
			version = value
		case key == "Status":
			there = strings.HasSuffix(value, " installed")
		}
	}
	end()
	return out
}
