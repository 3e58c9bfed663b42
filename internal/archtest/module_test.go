package archtest

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const (
	module = "croft.dev/croft/"
	root   = "../.."
)

// pkg is one package of the module. Paths of Croft's own packages are without the
// module's name: "internal/world".
type pkg struct {
	ImportPath                         string
	Name, Dir, Doc                     string
	GoFiles, TestGoFiles, XTestGoFiles []string
	Imports, Deps                      []string

	fset  *token.FileSet // of files
	files []file
}

// file is one parsed source file. name is relative to the root of the module.
type file struct {
	name  string
	lines int
	test  bool
	ast   *ast.File
}

// TestArchitecture reads the module once for all rules that look at its packages
// and files.
func TestArchitecture(t *testing.T) {
	fset := token.NewFileSet()
	pkgs := readModule(t, fset)
	report := func(name string, faults []string) {
		t.Run(name, func(t *testing.T) {
			for _, f := range faults {
				t.Error(f)
			}
		})
	}
	report("imports", importFaults(pkgs))
	report("dependencies", dependencyFaults(pkgs))
	report("binaries", binaryFaults(pkgs))
	report("packages", packageFaults(pkgs))
	report("size", sizeFaults(pkgs))
	report("source", sourceFaults(pkgs, sourceExceptions))
	report("domain", domainFaults(pkgs, checkDomain(t, fset, pkgs), domainExceptions))

	for _, p := range pkgs {
		for _, f := range p.files {
			if f.lines > wantLines && !f.test {
				t.Logf("%s has %d lines: about %d read well", f.name, f.lines, wantLines)
			}
		}
	}
}

// readModule asks go list for every package and parses all their files.
func readModule(t *testing.T, fset *token.FileSet) []*pkg {
	t.Helper()
	const fields = "ImportPath,Name,Dir,Doc,GoFiles,TestGoFiles,XTestGoFiles,Imports,Deps"
	out := goTool(t, "list", "-json="+fields, "./...")
	pkgs := decode[pkg](t, out)
	if len(pkgs) < 40 {
		t.Fatalf("go list knows %d packages: is this the module's root?", len(pkgs))
	}
	for _, p := range pkgs {
		p.ImportPath = strings.TrimPrefix(p.ImportPath, module)
		p.Imports, p.Deps = short(p.Imports), short(p.Deps)
		for _, name := range p.GoFiles {
			p.files = append(p.files, parse(t, fset, p, name, false))
		}
		for _, name := range append(p.TestGoFiles, p.XTestGoFiles...) {
			p.files = append(p.files, parse(t, fset, p, name, true))
		}
	}
	return pkgs
}

// short shortens the paths of Croft's own packages and drops the standard library's
// internal ones, which would then look like them.
func short(paths []string) []string {
	var all []string
	for _, p := range paths {
		own, ok := strings.CutPrefix(p, module)
		if ok || !strings.HasPrefix(p, "internal/") {
			all = append(all, own)
		}
	}
	return all
}

func parse(t *testing.T, fset *token.FileSet, p *pkg, name string, test bool) file {
	t.Helper()
	tree, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return file{
		name:  p.ImportPath + "/" + name,
		lines: fset.File(tree.Pos()).LineCount(),
		test:  test,
		ast:   tree,
	}
}

// goTool runs the go command in the root of the module.
func goTool(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, exit.Stderr)
		}
		t.Fatal(err)
	}
	return string(out)
}

// decode reads a sequence of JSON objects, as go list prints them.
func decode[T any](t *testing.T, text string) []*T {
	t.Helper()
	var all []*T
	for d := json.NewDecoder(strings.NewReader(text)); ; {
		v := new(T)
		if err := d.Decode(v); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, v)
	}
}

// within reports whether path matches a pattern: the path itself, or "a/..." for a
// and all below.
func within(path, pattern string) bool {
	tree, ok := strings.CutSuffix(pattern, "/...")
	return path == pattern || ok && (path == tree || strings.HasPrefix(path, tree+"/"))
}

func withinAny(path string, patterns []string) bool {
	for _, p := range patterns {
		if within(path, p) {
			return true
		}
	}
	return false
}
