package archtest

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"strings"
	"testing"
)

// TestPlantedImports checks that the rules see what breaks them.
func TestPlantedImports(t *testing.T) {
	tests := map[string]struct {
		check func([]*pkg) []string
		pkg   pkg
		want  string
	}{
		"domain looks up": {importFaults, pkg{ImportPath: "internal/ledger", Imports: []string{"internal/limits"}},
			"internal/ledger imports internal/limits, which domain may not"},
		"domain asks for the time": {importFaults, pkg{ImportPath: "internal/world", Imports: []string{"internal/clock"}},
			"internal/world imports internal/clock"},
		"transport imports transport": {importFaults, pkg{ImportPath: "internal/httpapi", Imports: []string{"internal/cli"}},
			"internal/httpapi imports internal/cli"},
		"loop imports loop": {importFaults, pkg{ImportPath: "internal/loop/run", Imports: []string{"internal/loop/plan"}},
			"internal/loop/run imports internal/loop/plan"},
		"engine knows a job": {importFaults, pkg{ImportPath: "internal/engine/cri/cgroup", Imports: []string{"internal/workload"}},
			"internal/engine/cri/cgroup imports internal/workload"},
		"client knows the server": {importFaults, pkg{ImportPath: "internal/cli", Imports: []string{"internal/fault"}},
			"internal/cli imports internal/fault"},
		"wire imports inside": {importFaults, pkg{ImportPath: "api/v1", Imports: []string{"internal/fault"}},
			"api/v1 imports internal/fault"},
		"package without a place": {importFaults, pkg{ImportPath: "internal/new"},
			"internal/new has no place"},
		"kubernetes outside of engines": {dependencyFaults, pkg{ImportPath: "internal/query", Imports: []string{"k8s.io/api/core/v1"}},
			"internal/query imports k8s.io/api/core/v1, which only internal/engine/..., test/cluster may"},
		"new dependency": {dependencyFaults, pkg{ImportPath: "internal/query", Imports: []string{"example.org/new"}},
			"example.org/new, which has no entry"},
		"client links a database": {binaryFaults, pkg{ImportPath: "cmd/croft", Deps: []string{"database/sql"}},
			"cmd/croft links database/sql"},
		"client links the inside": {binaryFaults, pkg{ImportPath: "cmd/croft", Deps: []string{"internal/world"}},
			"cmd/croft links internal/world"},
		"vague name": {packageFaults, pkg{ImportPath: "internal/util", Name: "util", Doc: "Package util x", GoFiles: []string{"a.go"}},
			"internal/util has a name that fits anything"},
		"no comment": {packageFaults, pkg{ImportPath: "internal/x", Name: "x", GoFiles: []string{"a.go"}},
			"internal/x has no comment"},
		"library beneath cmd": {packageFaults, pkg{ImportPath: "cmd/x", Name: "x", Doc: "Package x x", GoFiles: []string{"a.go"}},
			"cmd/x is package x"},
		"long file": {sizeFaults, pkg{ImportPath: "internal/x/a.go", files: []file{{name: "internal/x/a.go", lines: 601}}},
			"internal/x/a.go has 601 lines"},
		"large world": {sizeFaults, pkg{ImportPath: "internal/world", files: []file{{lines: 300}, {lines: 200}, {lines: 101}}},
			"internal/world has 601 lines"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			want(t, test.check([]*pkg{&test.pkg}), test.pkg.ImportPath+" ", test.want)
		})
	}
}

// TestPlantedSource checks the rules that look into files.
func TestPlantedSource(t *testing.T) {
	tests := map[string]struct {
		source string
		want   string
	}{
		"init":             {"func init() {}", "init function"},
		"variable":         {"var Table = map[string]int{}", "exported variable"},
		"variable in list": {"var (\n\tfine = 1\n\tBad = 2\n)", "Bad: exported variable"},
		"error to compare": {"import \"errors\"\nvar ErrX = errors.New(\"x\")", ""},
		"sleep":            {"import \"time\"\nfunc f() { time.Sleep(1) }", "time.Sleep"},
		"skip":             {"import \"testing\"\nfunc TestX(t *testing.T) { t.Skip() }", "skipped test"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			p := planted(t, "internal/x", test.source)
			p.files[0].test = strings.Contains(test.source, "testing")
			want(t, sourceFaults([]*pkg{p}, nil), "", test.want)
		})
	}
}

// TestPlantedDomain checks the rules about decisions.
func TestPlantedDomain(t *testing.T) {
	tests := map[string]struct {
		source string
		want   string
	}{
		"map":            {"func f(m map[int]int) { for range m {} }", "range over a map"},
		"named map":      {"type t map[int]int\nfunc f(m t) { for range m {} }", "range over a map"},
		"keys":           {"import \"maps\"\nfunc f(m map[int]int) { for range maps.Keys(m) {} }", "range over a map"},
		"sorted keys":    {"import (\"maps\"; \"slices\")\nfunc f(m map[int]int) { for range slices.Sorted(maps.Keys(m)) {} }", ""},
		"float":          {"func f(x int64) int64 { return int64(float64(x) * 0.5) }", "floating point"},
		"exact constant": {"const minute = int64(60 * 1e9)", ""},
		"clock":          {"import \"time\"\nfunc f() int64 { return time.Now().UnixNano() }", "clock"},
		"goroutine":      {"func f() { go f() }", "goroutine"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			p := planted(t, "internal/ledger", test.source)
			info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}}
			conf := types.Config{Importer: importer.ForCompiler(p.fset, "source", nil)}
			if _, err := conf.Check("x", p.fset, []*ast.File{p.files[0].ast}, info); err != nil {
				t.Fatal(err)
			}
			want(t, domainFaults([]*pkg{p}, map[string]*types.Info{p.ImportPath: info}, nil), "", test.want)
		})
	}
	p := pkg{ImportPath: "internal/ledger", Imports: []string{"math/rand"}}
	want(t, domainFaults([]*pkg{&p}, nil, nil), "", "internal/ledger imports math/rand")
	want(t, domainFaults(nil, nil, []exception{{"clock", "x.go", "for a test"}}), "", "no longer needed")
}

func planted(t *testing.T, path, source string) *pkg {
	t.Helper()
	p := &pkg{ImportPath: path, fset: token.NewFileSet()}
	tree, err := parser.ParseFile(p.fset, "a.go", "package x\n"+source, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	p.files = []file{{name: path + "/a.go", ast: tree}}
	return p
}

// want checks that the faults about a package are the one wanted; none for "".
func want(t *testing.T, faults []string, about, want string) {
	t.Helper()
	var got []string
	for _, f := range faults {
		if strings.HasPrefix(f, about) {
			got = append(got, f)
		}
	}
	switch {
	case want == "" && len(got) > 0:
		t.Errorf("got %q, want none", got)
	case want != "" && (len(got) != 1 || !strings.Contains(got[0], want)):
		t.Errorf("got %q, want one with %q", got, want)
	}
}
