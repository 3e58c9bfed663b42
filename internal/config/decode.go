package config

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"croft.dev/croft/internal/quantity"
)

// problem is one thing wrong with the input.
type problem struct {
	path    string // of the key: "engine.reserve.cpu"
	line    int    // in the file; 0: not from the file
	origin  string // variable or flag that the value came from, if not the file
	message string // what is wrong, and the fix
}

// decoder writes input into a Config, notes where each value came from and
// collects what is wrong.
type decoder struct {
	problems []problem
	lines    map[string]int
	origins  map[string]string
}

func newDecoder() *decoder {
	return &decoder{lines: make(map[string]int), origins: make(map[string]string)}
}

func (d *decoder) addf(path string, line int, format string, args ...any) {
	d.problems = append(d.problems, problem{path: path, line: line, message: fmt.Sprintf(format, args...)})
}

// at notes a problem with the value at path, wherever that came from.
func (d *decoder) at(path, message string) {
	p := problem{path: path, origin: d.origins[path], message: message}
	for at := path; p.origin == "" && p.line == 0 && at != ""; at = parent(at) {
		p.line = d.lines[at]
	}
	d.problems = append(d.problems, p)
}

// parent is the path of the key above, or "".
func parent(path string) string {
	if i := strings.LastIndexAny(path, ".["); i > 0 {
		return path[:i]
	}
	return ""
}

// decode writes node into v. path is the node's own, "" for the document.
func (d *decoder) decode(node *yaml.Node, v reflect.Value, path string) {
	if _, known := d.lines[path]; !known { // a section begins at its key
		d.lines[path] = node.Line
	}
	if node.Kind == yaml.AliasNode || node.Anchor != "" {
		d.addf(path, node.Line, "anchors and aliases aren't read here: write the value out")
		return
	}
	switch {
	case isScalar(v):
		d.scalar(node, v, path)
	case node.Kind == yaml.ScalarNode && node.Tag == "!!null":
		// A section with all its keys commented out is as good as none.
	case v.Kind() == reflect.Struct:
		d.section(node, v, path)
	case v.Kind() == reflect.Slice:
		d.list(node, v, path)
	case v.Kind() == reflect.Map:
		d.free(node, v, path)
	default:
		panic("config: no decoder for " + v.Type().String())
	}
}

func (d *decoder) scalar(node *yaml.Node, v reflect.Value, path string) {
	switch {
	case node.Kind != yaml.ScalarNode:
		d.addf(path, node.Line, "is a %s, must be %s", shape(node), form(v))
	case node.Tag == "!!null":
		d.addf(path, node.Line, "has no value: give %s, or remove the line for the default", form(v))
	default:
		if err := set(v, node.Value); err != nil {
			d.addf(path, node.Line, "%s", wrong(node.Value, v, err))
		}
	}
}

// wrong says what would be right instead of text.
func wrong(text string, v reflect.Value, err error) string {
	if v.Type() == reflect.TypeFor[string]() {
		return fmt.Sprintf("must be %s (%v)", form(v), err) // it may hold a secret
	}
	const longest = 60
	if len(text) > longest {
		text = text[:longest] + "…"
	}
	detail := err.Error()
	if i := strings.LastIndex(detail, ": "); i >= 0 {
		detail = detail[i+2:] // without the value, which is named already
	}
	return fmt.Sprintf("%q must be %s (%s)", text, form(v), detail)
}

// section reads a mapping with the keys that the structure v has.
func (d *decoder) section(node *yaml.Node, v reflect.Value, path string) {
	d.pairs(node, path, "a section: its keys below it, indented", func(key, value *yaml.Node) {
		f, ok := member(v, key.Value)
		if !ok {
			d.addf(join(path, key.Value), key.Line, "unknown key%s", d.hint(v.Type(), path, key.Value))
			return
		}
		d.decode(value, f, join(path, key.Value))
	})
}

// free reads a mapping with keys of the site's own.
func (d *decoder) free(node *yaml.Node, v reflect.Value, path string) {
	out := reflect.MakeMap(v.Type())
	d.pairs(node, path, "a section: its keys below it, indented", func(key, value *yaml.Node) {
		at := join(path, key.Value)
		if err := oneLine(key.Value); err != nil || key.Value == "" {
			d.addf(at, key.Line, "%q is no name", key.Value)
			return
		}
		elem := reflect.New(v.Type().Elem()).Elem()
		d.decode(value, elem, at)
		out.SetMapIndex(reflect.ValueOf(key.Value), elem)
	})
	v.Set(out)
}

// pairs calls each for the pairs of a mapping, refusing a key that is there twice.
func (d *decoder) pairs(node *yaml.Node, path, want string, each func(key, value *yaml.Node)) {
	if node.Kind != yaml.MappingNode {
		d.addf(path, node.Line, "is a %s, must be %s", shape(node), want)
		return
	}
	seen := make(map[string]int)
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		switch first := seen[key.Value]; {
		case key.Kind != yaml.ScalarNode:
			d.addf(path, key.Line, "a key must be a plain word")
			continue
		case first != 0:
			d.addf(join(path, key.Value), key.Line, "is given twice, first on line %d: remove one", first)
			continue
		}
		seen[key.Value] = key.Line
		d.lines[join(path, key.Value)] = key.Line
		each(key, value)
	}
}

func (d *decoder) list(node *yaml.Node, v reflect.Value, path string) {
	if node.Kind != yaml.SequenceNode {
		d.addf(path, node.Line, "is a %s, must be a list: [a, b] or a line \"- a\" for each", shape(node))
		return
	}
	out := reflect.MakeSlice(v.Type(), 0, len(node.Content))
	for i, item := range node.Content {
		elem := reflect.New(v.Type().Elem())
		if p, ok := elem.Interface().(interface{ presets() }); ok {
			p.presets()
		}
		d.decode(item, elem.Elem(), path+"["+strconv.Itoa(i)+"]")
		out = reflect.Append(out, elem.Elem())
	}
	v.Set(out)
}

// shape names what a node is, for a message.
func shape(node *yaml.Node) string {
	switch node.Kind {
	case yaml.MappingNode:
		return "section"
	case yaml.SequenceNode:
		return "list"
	default:
		return "single value"
	}
}

// isScalar reports whether v is written as one word.
func isScalar(v reflect.Value) bool {
	if _, ok := v.Addr().Interface().(scalar); ok {
		return true
	}
	switch v.Kind() {
	case reflect.String, reflect.Bool, reflect.Int:
		return true
	}
	return false
}

// set reads text into the scalar v.
func set(v reflect.Value, text string) error {
	if s, ok := v.Addr().Interface().(scalar); ok {
		return s.parse(text)
	}
	switch v.Kind() {
	case reflect.String:
		if err := oneLine(text); err != nil {
			return err
		}
		v.SetString(text)
	case reflect.Bool:
		if text != "true" && text != "false" {
			return errors.New("it is neither")
		}
		v.SetBool(text == "true")
	case reflect.Int:
		digits, negative := strings.CutPrefix(text, "-")
		n, err := quantity.ParseCount(digits)
		if err != nil {
			return err
		}
		if n > maxInt {
			return quantity.ErrRange
		}
		if negative {
			n = -n
		}
		v.SetInt(n)
	}
	return nil
}

// maxInt bounds whole numbers: none here is sensibly larger, and products of them
// stay far from overflow.
const maxInt = 1_000_000_000

// form says how the scalar v is written.
func form(v reflect.Value) string {
	if s, ok := v.Addr().Interface().(scalar); ok {
		return s.form()
	}
	switch v.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int:
		return "a whole number"
	}
	return "text on one line"
}

// text is the scalar v as it is written in the file.
func text(v reflect.Value) string {
	if s, ok := v.Addr().Interface().(scalar); ok {
		return s.format()
	}
	return fmt.Sprint(v.Interface())
}

// member returns the field of structure v that key names.
func member(v reflect.Value, key string) (reflect.Value, bool) {
	for i := range v.NumField() {
		if name := keyOf(v.Type().Field(i)); name != "" && name == key {
			return v.Field(i), true
		}
	}
	return reflect.Value{}, false
}

func keyOf(f reflect.StructField) string { return f.Tag.Get("yaml") }

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
