package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/fault"
)

// maxFile bounds the configuration file, in bytes.
const maxFile = 1 << 20

// Setting replaces one value, above the file and the environment.
type Setting struct {
	Key   string // path of the key: "data", "listen.http"
	Value string // as in the file; a path may be relative to the working directory
	From  string // whence, for messages: "--data"
}

// Load reads the file at path ("" for none), then the variables in env (as
// os.Environ returns them), then flags, each replacing what came before. The
// error is a *fault.Error that lists everything wrong at once.
func Load(path string, env []string, flags ...Setting) (Config, error) {
	var text []byte
	if path != "" {
		var err error
		if text, err = readFile(path); err != nil {
			return Config{}, err
		}
	}
	return parse(path, text, env, flags)
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, unreadable(path, err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, unreadable(path, err)
	}
	if len(text) > maxFile {
		return nil, fault.New(codes.TooLarge, "%s: larger than 1 MiB, so it can't be a configuration", path)
	}
	return text, nil
}

func unreadable(path string, err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return fault.New(codes.Invalid, "configuration %s: %v", path, err)
}

// parse is Load on a text that was read.
func parse(name string, text []byte, env []string, flags []Setting) (Config, error) {
	d, c := newDecoder(), Default()
	if err := d.document(name, text, &c); err != nil {
		return Config{}, err
	}
	d.environment(env, &c)
	for _, s := range flags {
		d.flag(s, &c)
	}
	c.derive()
	if len(d.problems) == 0 { // else some would only be consequences
		for _, f := range c.check() {
			d.at(f.Path, f.Message)
		}
	}
	if err := d.err(name); err != nil {
		return Config{}, err
	}
	return c, nil
}

// document decodes one YAML document. It returns what isn't YAML as an error at
// once, since nothing after it can be trusted.
func (d *decoder) document(name string, text []byte, c *Config) error {
	dec := yaml.NewDecoder(bytes.NewReader(text))
	var doc, second yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil // empty, or comments only
	case err != nil:
		return fault.New(codes.Invalid, "%s: %s", name, strings.TrimPrefix(err.Error(), "yaml: "))
	}
	switch err := dec.Decode(&second); {
	case errors.Is(err, io.EOF):
	case err != nil:
		return fault.New(codes.Invalid, "%s: %s", name, strings.TrimPrefix(err.Error(), "yaml: "))
	default:
		return fault.New(codes.Invalid, "%s:%d: a second document begins here: one file is one configuration", name, second.Line)
	}
	if len(doc.Content) == 1 {
		d.decode(doc.Content[0], reflect.ValueOf(c).Elem(), "")
	}
	return nil
}

// flag applies a setting; its paths are made absolute.
func (d *decoder) flag(s Setting, c *Config) {
	v, ok := lookup(c, s.Key)
	if !ok {
		panic("config: no scalar " + s.Key) // flags are named in the program
	}
	if _, isPath := v.Addr().Interface().(*Path); isPath && s.Value != "" {
		abs, err := filepath.Abs(s.Value)
		if err != nil {
			d.problems = append(d.problems, problem{path: s.Key, origin: s.From, message: err.Error()})
			return
		}
		s.Value = abs
	}
	d.override(v, s)
}

// override sets a value that doesn't come from the file.
func (d *decoder) override(v reflect.Value, s Setting) {
	d.origins[s.Key] = s.From
	if err := set(v, s.Value); err != nil {
		d.at(s.Key, wrong(s.Value, v, err))
	}
}

// lookup returns the scalar at path, which isn't in a list.
func lookup(c *Config, path string) (reflect.Value, bool) {
	v := reflect.ValueOf(c).Elem()
	for key := range strings.SplitSeq(path, ".") {
		var ok bool
		if v.Kind() != reflect.Struct {
			return v, false
		}
		if v, ok = member(v, key); !ok {
			return v, false
		}
	}
	return v, isScalar(v)
}

// err joins the problems, in the order of the file.
func (d *decoder) err(name string) error {
	if len(d.problems) == 0 {
		return nil
	}
	slices.SortStableFunc(d.problems, func(a, b problem) int {
		return cmp.Or(cmp.Compare(a.line, b.line), strings.Compare(a.origin, b.origin))
	})
	e := &fault.Error{Code: codes.Invalid}
	lines := make([]string, 0, len(d.problems))
	for _, p := range d.problems {
		where := p.origin
		switch {
		case where == "" && p.line > 0:
			where = fmt.Sprintf("%s:%d", name, p.line)
		case where == "":
			where = cmp.Or(name, "configuration")
		}
		message := p.message
		if p.path != "" {
			message = p.path + ": " + message
		}
		lines = append(lines, where+": "+message)
		e.Fields = append(e.Fields, fault.Field{Path: p.path, Message: where + ": " + p.message})
	}
	e.Message = strings.Join(lines, "\n")
	return e
}
