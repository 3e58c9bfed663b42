package archtest

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
)

// pure are the packages whose results depend on their arguments alone.
var pure = append([]string{
	"internal/fault", "internal/id", "internal/quantity", "internal/money", "internal/table", "internal/store/chain",
}, domain...)

// pureImports is what of the standard library pure packages may use. What is
// missing, is on purpose: no clock, no randomness, no files, no network, no
// database, no log, and nothing that runs beside.
var pureImports = []string{
	"cmp", "errors", "fmt", "iter", "maps", "math", "math/big", "math/bits", "net/netip", "net/url", "path", "reflect", "regexp", "slices", "sort",
	"strconv", "strings", "time", "unicode", "unicode/utf8",
	"crypto/sha256", "encoding/binary", "encoding/hex", "encoding/json",
}

// clocks are the functions of package time that pure packages must not call.
var clocks = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker", "Local", "LoadLocation"}

// domainExceptions are exceptions to the rules of domainFaults.
var domainExceptions = []exception{}

// checkDomain type-checks the pure packages, with what the compiler has exported
// of what they import.
func checkDomain(t *testing.T, fset *token.FileSet, pkgs []*pkg) map[string]*types.Info {
	t.Helper()
	args := []string{"list", "-export", "-deps", "-json=ImportPath,Export"}
	for _, p := range pure {
		args = append(args, "./"+p)
	}
	exports := map[string]string{}
	for _, p := range decode[struct{ ImportPath, Export string }](t, goTool(t, args...)) {
		exports[p.ImportPath] = p.Export
	}
	conf := types.Config{Importer: importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})}
	infos := map[string]*types.Info{}
	for _, p := range pkgs {
		if !slices.Contains(pure, p.ImportPath) {
			continue
		}
		infos[p.ImportPath] = typeCheck(t, conf, fset, p)
	}
	return infos
}

func typeCheck(t *testing.T, conf types.Config, fset *token.FileSet, p *pkg) *types.Info {
	t.Helper()
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}}
	var files []*ast.File
	for _, f := range p.files {
		if !f.test {
			files = append(files, f.ast)
		}
	}
	if _, err := conf.Check(module+p.ImportPath, fset, files, info); err != nil {
		t.Fatalf("%s: %v", p.ImportPath, err)
	}
	return info
}

// domainFaults checks that the pure packages are: the same input has to give the
// same output on every machine and in every replay.
func domainFaults(pkgs []*pkg, infos map[string]*types.Info, exceptions []exception) []string {
	ok := newExcuse(exceptions)
	var faults []string
	for _, p := range pkgs {
		if !slices.Contains(pure, p.ImportPath) {
			continue
		}
		for _, imported := range p.Imports {
			if !isOwn(imported) && !isExternal(imported) && !slices.Contains(pureImports, imported) {
				faults = append(faults, fmt.Sprintf("%s imports %s: a decision that asks the clock, the disk, the network or chance can't be repeated", p.ImportPath, imported))
			}
		}
		for _, f := range p.files {
			if f.test {
				continue
			}
			c := pureCheck{sourceCheck: sourceCheck{file: f, ok: ok}, info: infos[p.ImportPath]}
			for _, d := range f.ast.Decls {
				c.declaration(d)
			}
			faults = append(faults, c.faults...)
		}
	}
	return append(faults, ok.stale()...)
}

type pureCheck struct {
	sourceCheck
	info *types.Info
}

func (c *pureCheck) declaration(d ast.Decl) {
	name := "declarations"
	if f, ok := d.(*ast.FuncDecl); ok {
		name = f.Name.Name
	}
	sorted := c.sortedLater(d)
	float := false
	ast.Inspect(d, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			c.fault("goroutine", name, "what runs beside makes the order of results a matter of chance")
		case *ast.SelectorExpr:
			if id, ok := n.X.(*ast.Ident); ok && id.Name == "time" && slices.Contains(clocks, n.Sel.Name) {
				c.fault("clock", name, "the domain is told the time: time."+n.Sel.Name+" differs from run to run, or from machine to machine")
			}
		case *ast.RangeStmt:
			if c.isMap(n.X) && !sorted[n] {
				c.fault("range over a map", name, "its order is random: go through sorted keys, or keep the rows in a table.Table")
			}
		case *ast.CallExpr:
			if !sorted[n] && (isSelector(n.Fun, "maps", "Keys") || isSelector(n.Fun, "maps", "Values") || isSelector(n.Fun, "maps", "All")) {
				c.fault("range over a map", name, "the order of maps.Keys, Values and All is random: sort first, as slices.Sorted does")
			}
		}
		if e, ok := n.(ast.Expr); ok && !float && c.isFloat(e) {
			float = true
			c.fault("floating point", name, "it rounds where nobody looks: use checked integers (quantity, money)")
		}
		return true
	})
}

// sortedLater are the nodes at which the order of a map does no harm, because it is
// sorted right there: slices.Sorted(maps.Keys(m)) and its like.
func (c *pureCheck) sortedLater(d ast.Decl) map[ast.Node]bool {
	fine := map[ast.Node]bool{}
	ast.Inspect(d, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) == 0 {
			return true
		}
		if isSelector(call.Fun, "slices", "Sorted") || isSelector(call.Fun, "slices", "SortedFunc") {
			fine[call.Args[0]] = true
		}
		return true
	})
	return fine
}

func (c *pureCheck) isMap(e ast.Expr) bool {
	t := c.info.TypeOf(e)
	if t == nil {
		return false
	}
	_, ok := t.Underlying().(*types.Map)
	return ok
}

// isFloat reports whether e is a floating-point number. An untyped constant such as
// 60 * 1e9 isn't: the compiler computes it exactly.
func (c *pureCheck) isFloat(e ast.Expr) bool {
	t := c.info.TypeOf(e)
	if t == nil {
		return false
	}
	b, ok := t.Underlying().(*types.Basic)
	return ok && b.Info()&(types.IsFloat|types.IsComplex) != 0 && b.Info()&types.IsUntyped == 0
}

// TestModernc holds two modules together that are tested only as a pair.
func TestModernc(t *testing.T) {
	type mod struct{ Path, Version, GoMod string }
	versions := map[string]*mod{}
	for _, m := range decode[mod](t, goTool(t, "list", "-m", "-json=Path,Version,GoMod", "modernc.org/sqlite", "modernc.org/libc")) {
		versions[m.Path] = m
	}
	sqlite, libc := versions["modernc.org/sqlite"], versions["modernc.org/libc"]
	if sqlite == nil || libc == nil {
		t.Fatal("go.mod doesn't name both modernc.org/sqlite and modernc.org/libc")
	}
	required := decode[struct {
		Require []struct{ Path, Version string }
	}](t, goTool(t, "mod", "edit", "-json", sqlite.GoMod))
	for _, r := range required[0].Require {
		if r.Path == libc.Path {
			if r.Version != libc.Version {
				t.Errorf("go.mod has libc %s, but sqlite %s is made for %s: its machine-translated C fails in strange ways on another",
					libc.Version, sqlite.Version, r.Version)
			}
			return
		}
	}
	t.Errorf("sqlite %s no longer requires %s: remove this test", strings.TrimSpace(sqlite.Version), libc.Path)
}
