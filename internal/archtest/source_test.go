package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strings"
)

const (
	wantLines  = 500
	maxLines   = 600
	worldLines = 600
)

// exception is a place that may break a rule. in is a file, or a file and a name in
// it: "internal/version/version.go Version".
type exception struct {
	rule, in, why string
}

// sourceExceptions are exceptions to the rules of sourceFaults.
var sourceExceptions = []exception{
	{"exported variable", "internal/version/version.go Version", "the linker sets it"},
	{"time.Sleep", "internal/people/cache_test.go hangs", "its callers run in a synctest bubble"},
}

// excuse is a list of exceptions that remembers which were needed.
type excuse struct {
	list []exception
	used []bool
}

func newExcuse(list []exception) *excuse {
	return &excuse{list: list, used: make([]bool, len(list))}
}

func (e *excuse) has(rule, file, name string) bool {
	found := false
	for i, x := range e.list {
		if x.rule == rule && (x.in == file || x.in == file+" "+name) {
			e.used[i], found = true, true
		}
	}
	return found
}

// stale are the exceptions that nothing needs.
func (e *excuse) stale() []string {
	var faults []string
	for i, x := range e.list {
		if !e.used[i] {
			faults = append(faults, fmt.Sprintf("the exception %q for %s is no longer needed: remove it", x.rule, x.in))
		}
	}
	return faults
}

// packageFaults checks what packages are called and that each says what it is for.
func packageFaults(pkgs []*pkg) []string {
	var faults []string
	for _, p := range pkgs {
		base := path.Base(p.ImportPath)
		if slices.Contains([]string{"util", "utils", "common", "models", "types", "helper", "helpers", "misc", "base"}, base) {
			faults = append(faults, fmt.Sprintf("%s has a name that fits anything: call it after what it has", p.ImportPath))
		}
		if strings.HasPrefix(p.ImportPath, "cmd/") && p.Name != "main" {
			faults = append(faults, fmt.Sprintf("%s is package %s: beneath cmd there are main packages only; what others need belongs to internal", p.ImportPath, p.Name))
		}
		doc := p.Doc
		if len(p.GoFiles) == 0 { // tests only
			for _, f := range p.files {
				doc += f.ast.Doc.Text()
			}
		}
		if want := "Package " + p.Name + " "; doc == "" || p.Name != "main" && !strings.HasPrefix(doc, want) {
			faults = append(faults, fmt.Sprintf("%s has no comment that begins with %q: a reader looks there first for what the package is for", p.ImportPath, want))
		}
	}
	return faults
}

// sizeFaults checks the length of files, and that the world holds no rules.
func sizeFaults(pkgs []*pkg) []string {
	var faults []string
	for _, p := range pkgs {
		total := 0
		for _, f := range p.files {
			if f.test {
				continue
			}
			total += f.lines
			if f.lines > maxLines {
				faults = append(faults, fmt.Sprintf("%s has %d lines, over %d: it has more than one subject", f.name, f.lines, maxLines))
			}
		}
		if p.ImportPath == "internal/world" && total > worldLines {
			faults = append(faults, fmt.Sprintf("internal/world has %d lines without tests, over %d: it joins the domain's packages; rules belong to them", total, worldLines))
		}
	}
	return faults
}

// sourceFaults checks every file for what is nowhere wanted.
func sourceFaults(pkgs []*pkg, exceptions []exception) []string {
	ok := newExcuse(exceptions)
	var faults []string
	for _, p := range pkgs {
		for _, f := range p.files {
			s := sourceCheck{file: f, ok: ok}
			for _, d := range f.ast.Decls {
				switch d := d.(type) {
				case *ast.FuncDecl:
					s.function(d)
				case *ast.GenDecl:
					s.variables(d)
				}
			}
			faults = append(faults, s.faults...)
		}
	}
	return append(faults, ok.stale()...)
}

type sourceCheck struct {
	file   file
	ok     *excuse
	faults []string
}

func (s *sourceCheck) fault(rule, name, why string) {
	if !s.ok.has(rule, s.file.name, name) {
		s.faults = append(s.faults, fmt.Sprintf("%s %s: %s: %s", s.file.name, name, rule, why))
	}
}

func (s *sourceCheck) function(d *ast.FuncDecl) {
	name := d.Name.Name
	if name == "init" && d.Recv == nil {
		s.fault("init function", name, "what runs unasked can't be ordered, given arguments or tested")
	}
	bubble := calls(d, "synctest", "Test")
	rapid := rapidBodies(d)
	ast.Inspect(d, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		sel, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		switch on, _ := sel.X.(*ast.Ident); {
		case on != nil && on.Name == "time" && sel.Sel.Name == "Sleep" && !bubble:
			s.fault("time.Sleep", name, "a sleep is too long or too short and can't be stopped: wait for what is awaited, or use testing/synctest")
		case s.file.test && slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, sel.Sel.Name) && !rapid.has(call):
			s.fault("skipped test", name, "what can't run has to fail, or nobody notices")
		}
		return true
	})
}

// spans are pieces of a file.
type spans []ast.Node

func (s spans) has(n ast.Node) bool {
	return slices.ContainsFunc(s, func(in ast.Node) bool { return in.Pos() <= n.Pos() && n.End() <= in.End() })
}

// rapidBodies are the functions that get a *rapid.T: its Skip draws another case,
// and too many of them fail.
func rapidBodies(d ast.Node) (bodies spans) {
	ast.Inspect(d, func(n ast.Node) bool {
		var t *ast.FuncType
		switch n := n.(type) {
		case *ast.FuncDecl:
			t = n.Type
		case *ast.FuncLit:
			t = n.Type
		default:
			return true
		}
		for _, p := range t.Params.List {
			if star, ok := p.Type.(*ast.StarExpr); ok && isSelector(star.X, "rapid", "T") {
				bodies = append(bodies, n)
			}
		}
		return true
	})
	return bodies
}

// variables finds exported variables other than errors to compare with: anyone
// could assign to them.
func (s *sourceCheck) variables(d *ast.GenDecl) {
	if d.Tok != token.VAR || s.file.test {
		return
	}
	for _, spec := range d.Specs {
		v := spec.(*ast.ValueSpec)
		for i, id := range v.Names {
			if !id.IsExported() || i < len(v.Values) && isError(v.Values[i]) {
				continue
			}
			s.fault("exported variable", id.Name, "anyone can change it, at any time: use a constant, or a function that returns it")
		}
	}
}

// isError reports whether e makes an error.
func isError(e ast.Expr) bool {
	call, ok := e.(*ast.CallExpr)
	if !ok {
		return false
	}
	return isSelector(call.Fun, "errors", "New") || isSelector(call.Fun, "fmt", "Errorf") || isSelector(call.Fun, "fault", "New")
}

func isSelector(e ast.Expr, x, name string) bool {
	sel, ok := e.(*ast.SelectorExpr)
	if !ok || sel.Sel.Name != name {
		return false
	}
	id, ok := sel.X.(*ast.Ident)
	return ok && id.Name == x
}

func calls(n ast.Node, x, name string) bool {
	found := false
	ast.Inspect(n, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && isSelector(call.Fun, x, name) {
			found = true
		}
		return !found
	})
	return found
}
