package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	v1 "croft.dev/croft/api/v1"
)

// Bounds of a job file.
const (
	maxSpecFile  = 1 << 20 // bytes
	maxSpecDepth = 20
)

// parseSpec reads a job file: YAML or JSON with the fields of v1.JobSpec. Every
// error names its line. An unknown or repeated key is one.
func parseSpec(b []byte) (v1.JobSpec, error) {
	var spec v1.JobSpec
	if len(b) > maxSpecFile {
		return spec, errors.New("longer than 1 MiB")
	}
	if trimmed := bytes.TrimSpace(b); len(trimmed) > 0 && trimmed[0] == '{' {
		// YAML takes JSON, but no tabs between its tokens. Within its texts JSON
		// has none.
		b = bytes.ReplaceAll(b, []byte("\t"), []byte(" "))
	}
	dec := yaml.NewDecoder(bytes.NewReader(b))
	var doc yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return spec, errors.New("empty")
	} else if err != nil {
		return spec, yamlError(err)
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return spec, errors.New("more than one document; a file has one job")
	}
	if len(doc.Content) != 1 {
		return spec, errors.New("empty")
	}
	err := decodeNode(doc.Content[0], reflect.ValueOf(&spec).Elem(), "", 0)
	return spec, err
}

func yamlError(err error) error {
	return errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
}

func lineError(n *yaml.Node, path, format string, args ...any) error {
	at := fmt.Sprintf("line %d: ", n.Line)
	if path != "" {
		at += path + ": "
	}
	return errors.New(at + fmt.Sprintf(format, args...))
}

// decodeNode decodes n into v, which is of one of the kinds that a JobSpec has.
func decodeNode(n *yaml.Node, v reflect.Value, path string, depth int) error {
	if depth > maxSpecDepth {
		return lineError(n, path, "nested too deeply")
	}
	if n.Kind == yaml.AliasNode || n.Anchor != "" {
		return lineError(n, path, "anchors and aliases aren't supported")
	}
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" {
		return nil // as if it were absent
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return decodeNode(n, v.Elem(), path, depth)
	case reflect.Struct:
		return decodeStruct(n, v, path, depth)
	case reflect.Map:
		return decodeMap(n, v, path, depth)
	case reflect.Slice:
		return decodeSlice(n, v, path, depth)
	}
	return decodeScalar(n, v, path)
}

func decodeStruct(n *yaml.Node, v reflect.Value, path string, depth int) error {
	if n.Kind != yaml.MappingNode {
		return lineError(n, path, "want fields, as NAME: VALUE")
	}
	fields := jsonFields(v.Type())
	return eachPair(n, path, func(key, value *yaml.Node) error {
		i, ok := fields[key.Value]
		if !ok {
			return lineError(key, path, "unknown field %q%s", key.Value, nearest(key.Value, fields))
		}
		return decodeNode(value, v.Field(i), join(path, key.Value), depth+1)
	})
}

func decodeMap(n *yaml.Node, v reflect.Value, path string, depth int) error {
	if n.Kind != yaml.MappingNode {
		return lineError(n, path, "want NAME: VALUE lines")
	}
	v.Set(reflect.MakeMapWithSize(v.Type(), len(n.Content)/2))
	return eachPair(n, path, func(key, value *yaml.Node) error {
		item := reflect.New(v.Type().Elem()).Elem()
		if err := decodeNode(value, item, join(path, key.Value), depth+1); err != nil {
			return err
		}
		v.SetMapIndex(reflect.ValueOf(key.Value), item)
		return nil
	})
}

func decodeSlice(n *yaml.Node, v reflect.Value, path string, depth int) error {
	if n.Kind != yaml.SequenceNode {
		return lineError(n, path, "want a list, as [a, b]")
	}
	v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
	for i, item := range n.Content {
		if err := decodeNode(item, v.Index(i), fmt.Sprintf("%s[%d]", path, i), depth+1); err != nil {
			return err
		}
	}
	return nil
}

func decodeScalar(n *yaml.Node, v reflect.Value, path string) error {
	if n.Kind != yaml.ScalarNode {
		return lineError(n, path, "want one value")
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(n.Value) // as written: 1.50 stays 1.50
		return nil
	case reflect.Bool:
		if n.Decode(v.Addr().Interface()) != nil {
			return lineError(n, path, "want true or false, not %q", n.Value)
		}
	default:
		if n.ShortTag() != "!!int" || n.Decode(v.Addr().Interface()) != nil {
			return lineError(n, path, "want a whole number, not %q", n.Value)
		}
	}
	return nil
}

// eachPair calls do for every key and value and refuses repeated keys.
func eachPair(n *yaml.Node, path string, do func(key, value *yaml.Node) error) error {
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if key.Kind != yaml.ScalarNode {
			return lineError(key, path, "want a name")
		}
		if seen[key.Value] {
			return lineError(key, path, "field %q is there twice", key.Value)
		}
		seen[key.Value] = true
		if err := do(key, n.Content[i+1]); err != nil {
			return err
		}
	}
	return nil
}

// jsonFields maps the JSON names of a struct's fields to their indexes.
func jsonFields(t reflect.Type) map[string]int {
	m := make(map[string]int, t.NumField())
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		m[name] = i
	}
	return m
}

// nearest suggests the known field that an unknown one was meant to be.
func nearest(name string, fields map[string]int) string {
	var like []string
	for known := range fields {
		if strings.HasPrefix(known, name) || strings.HasPrefix(name, known) || strings.EqualFold(known, name) {
			like = append(like, known)
		}
	}
	if name == "" || len(like) == 0 {
		return ""
	}
	slices.Sort(like)
	return fmt.Sprintf("; is it %q?", like[len(like)-1])
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
