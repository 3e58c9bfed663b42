package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"croft.dev/croft/api/v1/codes"
)

// entry is one code as the source has it.
type entry struct {
	kind    string // Code, Reason or Outcome
	value   string
	group   string // what the comment above its group says
	comment string // what the comment beside it says
}

// codesReference is docs/reference/codes.md, from the constants of package codes
// and their comments.
func codesReference(dir string) ([]byte, error) {
	all, err := constants(dir)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.WriteString("# Codes\n\nGenerated from `api/v1/codes` by `go generate ./internal/httpapi`. Codes are stable: scripts may match them.\n")
	b.WriteString("\n## Errors\n\nThe `code` of a problem, its HTTP status, and what the command line exits with.\n\n| code | status | exit | meaning |\n|---|---|---|---|\n")
	for _, e := range all {
		if e.kind == "Code" {
			s := codes.Of(codes.Code(e.value))
			fmt.Fprintf(&b, "| `%s` | %d | %d | %s |\n", e.value, s.HTTP, s.Exit, e.comment)
		}
	}
	b.WriteString("\n## Reasons\n\nWhy a request was refused or a job waits.\n")
	group := ""
	for _, e := range all {
		if e.kind != "Reason" {
			continue
		}
		if e.group != group {
			group = e.group
			fmt.Fprintf(&b, "\n%s\n\n", group)
		}
		fmt.Fprintf(&b, "- `%s`\n", e.value)
	}
	b.WriteString("\n## Outcomes\n\nHow an attempt ended.\n\n")
	for _, e := range all {
		if e.kind == "Outcome" {
			fmt.Fprintf(&b, "- `%s`\n", e.value)
		}
	}
	return b.Bytes(), nil
}

func constants(dir string) ([]entry, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	slices.Sort(paths)
	var out []entry
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		for _, d := range file.Decls {
			if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.CONST {
				out = append(out, ofGroup(g)...)
			}
		}
	}
	return out, nil
}

func ofGroup(g *ast.GenDecl) []entry {
	var out []entry
	group := ""
	for _, s := range g.Specs {
		v := s.(*ast.ValueSpec)
		if v.Doc != nil {
			group = strings.TrimSpace(v.Doc.Text())
		}
		kind, typed := v.Type.(*ast.Ident)
		if !typed || len(v.Values) != 1 {
			continue
		}
		lit, ok := v.Values[0].(*ast.BasicLit)
		if !ok {
			continue
		}
		value, err := strconv.Unquote(lit.Value)
		if err != nil {
			continue
		}
		out = append(out, entry{kind.Name, value, group, strings.TrimSpace(v.Comment.Text())})
	}
	return out
}
