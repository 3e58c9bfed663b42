package config

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	referenceFile = "../../docs/reference/config.md"
	exampleFile   = "../../deploy/croft.example.yaml"
)

// TestReference holds the two generated files to the comments and defaults in
// config.go; go generate writes them anew.
func TestReference(t *testing.T) {
	docs := readDocs(t)
	for file, want := range map[string]string{referenceFile: docs.markdown(), exampleFile: docs.example()} {
		if *update {
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("%s is out of date: run go generate ./internal/config (-want +got)\n%s", file, diff)
		}
	}
}

var update = flag.Bool("update", false, "write the generated files")

func TestExampleIsTheDefaults(t *testing.T) {
	got, err := Load(exampleFile, nil)
	if err != nil {
		t.Fatal(err)
	}
	want, err := Load("", nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-defaults +example)\n%s", diff)
	}
}

// TestExampleValues takes the comment signs off all keys that the example leaves
// out: what it proposes has to be right.
func TestExampleValues(t *testing.T) {
	text, err := os.ReadFile(exampleFile)
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, p := range append(keyPaths(reflect.TypeFor[Config](), ""), "nodes", "max_grace") {
		keys = append(keys, p[strings.LastIndexByte(p, '.')+1:])
	}
	commented := regexp.MustCompile(`(?m)^( *)# ((` + strings.Join(keys, "|") + `): )`)
	full := commented.ReplaceAllString(string(text), "$1$2")
	full = regexp.MustCompile(`(?m)^ *(path|cert|key): .*\n`).ReplaceAllString(full, "") // exclude dsn and acme
	c, err := parse("example", []byte(full), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	d := Default()
	for _, p := range scalarPaths(reflect.TypeFor[Config](), "") {
		v, _ := lookup(&d, p)
		got, _ := lookup(&c, p)
		if !slices.Contains([]string{"database.path", "tls.cert", "tls.key"}, p) && v.Kind() == reflect.String && v.String() == "" && got.String() == "" {
			t.Errorf("%s has no example", p)
		}
	}
	if len(c.Engine.Mirrors) == 0 || len(c.Devices.Memory) == 0 || len(c.Devices.Offer) == 0 || len(c.Partitions[0].Nodes) == 0 {
		t.Errorf("lists weren't read: %+v", c)
	}
}

// fieldDocs are the comments of config.go: type and field to text.
type fieldDocs map[string]string

func readDocs(t *testing.T) fieldDocs {
	t.Helper()
	var decls []ast.Decl
	for _, name := range []string{"config.go", "kube.go", "template.go", "notify.go"} {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		decls = append(decls, file.Decls...)
	}
	docs := make(fieldDocs)
	for _, decl := range decls {
		g, ok := decl.(*ast.GenDecl)
		if !ok || g.Tok != token.TYPE {
			continue
		}
		spec := g.Specs[0].(*ast.TypeSpec)
		for _, f := range spec.Type.(*ast.StructType).Fields.List {
			doc := strings.Join(strings.Fields(f.Doc.Text()), " ")
			if doc == "" {
				t.Errorf("%s.%s has no comment", spec.Name, f.Names[0])
			}
			docs[spec.Name.Name+"."+f.Names[0].Name] = doc
		}
	}
	return docs
}

func (d fieldDocs) of(t reflect.Type, f reflect.StructField) string { return d[t.Name()+"."+f.Name] }

const intro = `# Configuration

<!-- Generated from internal/config/config.go by go generate; don't edit. -->

` + "`croft server --config FILE`" + ` reads one YAML file, by default ` + "`" + DefaultPath + "`" + ` where it exists. Every key is
optional. An unknown key or a wrong value is an error that names the line; the server doesn't start then.
[croft.example.yaml](../../deploy/croft.example.yaml) has every key with its default.

A single value outside of lists can also come from an environment variable: ` + "`CROFT_`" + `, then the key's path in
capitals with underscores, for example ` + "`CROFT_ENGINE_RESERVE_CPU`" + ` for ` + "`engine.reserve.cpu`" + `. The variable counts
before the file, a command-line flag before both.

Sizes are powers of 1024 (` + "`64G`" + `), CPU is in cores (` + "`0.5`" + `), times are written ` + "`90s`, `30m`, `2h`, `1d12h`" + `; a plain
number is minutes.
`

func (d fieldDocs) markdown() string {
	var b strings.Builder
	b.WriteString(intro)
	b.WriteString("\n## Top level\n")
	d.table(&b, reflect.ValueOf(Default()), true)
	root := reflect.ValueOf(Default())
	for i := range root.NumField() {
		f := root.Type().Field(i)
		if v, ok := inner(root.Field(i)); ok {
			fmt.Fprintf(&b, "\n## `%s`\n\n%s\n", keyOf(f), d.of(root.Type(), f))
			d.table(&b, v, false)
		}
	}
	return b.String()
}

// inner is the structure of a section or of a list's element.
func inner(v reflect.Value) (reflect.Value, bool) {
	if v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Struct {
		return first(v), true
	}
	return v, v.Kind() == reflect.Struct
}

// first is a list's first element, or what one is that has none by default.
func first(list reflect.Value) reflect.Value {
	if list.Len() == 0 {
		return reflect.New(list.Type().Elem()).Elem()
	}
	return list.Index(0)
}

func (d fieldDocs) table(b *strings.Builder, v reflect.Value, top bool) {
	b.WriteString("\n| Key | Value | Default | Meaning |\n|---|---|---|---|\n")
	d.rows(b, v, "", top)
}

func (d fieldDocs) rows(b *strings.Builder, v reflect.Value, prefix string, top bool) {
	for i := range v.NumField() {
		f, fv := v.Type().Field(i), v.Field(i)
		key := join(prefix, keyOf(f))
		if section, ok := inner(fv); ok {
			if !top {
				d.rows(b, section, key, false)
			}
			continue
		}
		preset := "`" + literal(fv) + "`"
		if isZero(fv) && f.Tag.Get("example") != "" {
			preset = ""
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", key, valueForm(fv), preset, d.of(v.Type(), f))
	}
}

func valueForm(v reflect.Value) string {
	switch v.Kind() {
	case reflect.Slice:
		return "a list of words"
	case reflect.Map:
		if isScalar(reflect.New(v.Type().Elem()).Elem()) {
			return form(reflect.New(v.Type().Elem()).Elem()) + " by name"
		}
		return "lists of words by name"
	}
	short, _, _ := strings.Cut(form(addressable(v)), ",")
	return short
}

const exampleHead = `# Croft's configuration. Every key is here with its default; those whose default
# depends on the machine or on others are comments that show an example. All are
# optional: keep only what you change. The reference is docs/reference/config.md.
`

func (d fieldDocs) example() string {
	var b strings.Builder
	b.WriteString(exampleHead)
	d.section(&b, reflect.ValueOf(Default()), "")
	return b.String()
}

func (d fieldDocs) section(b *strings.Builder, v reflect.Value, indent string) {
	for i := range v.NumField() {
		f, fv := v.Type().Field(i), v.Field(i)
		if indent == "" {
			b.WriteByte('\n')
		}
		comment(b, indent, d.of(v.Type(), f))
		_, nested := inner(fv)
		switch {
		case nested && fv.Kind() == reflect.Slice:
			var list, item strings.Builder
			fmt.Fprintf(&list, "%s%s:\n", indent, keyOf(f))
			d.section(&item, first(fv), indent+"    ")
			head := keyOf(first(fv).Type().Field(0)) + ":"
			list.WriteString(strings.Replace(item.String(), indent+"    "+head, indent+"  - "+head, 1))
			if fv.Len() > 0 {
				b.WriteString(list.String())
				break
			}
			for line := range strings.Lines(list.String()) {
				b.WriteString(indent + "# " + strings.TrimPrefix(line, indent))
			}
		case nested:
			fmt.Fprintf(b, "%s%s:\n", indent, keyOf(f))
			d.section(b, fv, indent+"  ")
		case isZero(fv) && f.Tag.Get("example") != "":
			fmt.Fprintf(b, "%s# %s: %s\n", indent, keyOf(f), bracketed(fv, f.Tag.Get("example")))
		default:
			fmt.Fprintf(b, "%s%s: %s\n", indent, keyOf(f), literal(fv))
		}
	}
}

func comment(b *strings.Builder, indent, doc string) {
	const width = 92
	line := ""
	for _, w := range append(strings.Fields(doc), "") {
		if line != "" && (w == "" || len(indent)+2+len(line)+1+len(w) > width) {
			fmt.Fprintf(b, "%s# %s\n", indent, line)
			line = ""
		}
		line = strings.TrimPrefix(line+" "+w, " ")
	}
}

func isZero(v reflect.Value) bool {
	return v.IsZero() || (v.Kind() == reflect.Slice && v.Len() == 0)
}

func bracketed(v reflect.Value, text string) string {
	switch v.Kind() {
	case reflect.Slice:
		return "[" + text + "]"
	case reflect.Map:
		return "{" + text + "}"
	}
	return text
}

// literal is v as YAML.
func literal(v reflect.Value) string {
	if v.Kind() == reflect.Slice {
		var words []string
		for i := range v.Len() {
			words = append(words, quoted(v.Index(i).String()))
		}
		return "[" + strings.Join(words, ", ") + "]"
	}
	s := text(addressable(v))
	if v.Kind() == reflect.String {
		return quoted(s)
	}
	return s
}

func quoted(s string) string {
	if s == "" || strings.ContainsAny(s, "~#") || s == "off" {
		return `"` + s + `"`
	}
	return s
}

// addressable is a copy of v whose address can be taken.
func addressable(v reflect.Value) reflect.Value {
	c := reflect.New(v.Type()).Elem()
	c.Set(v)
	return c
}
