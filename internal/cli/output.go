package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	v1 "croft.dev/croft/api/v1"
)

// tableWidth is the most that a table takes, in cells.
const tableWidth = 100

// moreOutputs is the annotation of a command with the outputs that it has besides.
const moreOutputs = "outputs"

func checkOutput(o, more string) error {
	known := append([]string{"table", "json", "yaml"}, strings.Fields(more)...)
	if !slices.Contains(known, o) {
		last := len(known) - 1
		return fmt.Errorf("--output %s: want %s or %s", o, strings.Join(known[:last], ", "), known[last])
	}
	return nil
}

// print writes v as the wire object, or what text writes.
func (a *app) print(v any, text func(w io.Writer)) error {
	switch a.output {
	case "json":
		return writeJSON(a.env.Stdout, v, "  ")
	case "yaml":
		return writeYAML(a.env.Stdout, v)
	}
	text(a.env.Stdout)
	return nil
}

// printList writes items as a page or as a table, and says on standard error
// when there are none.
func printList[T any](a *app, items []T, none string, t *table) error {
	return a.print(v1.Page[T]{Items: items}, func(io.Writer) { a.printTable(t, none) })
}

// printTable writes a table, or says on standard error that there is nothing in it.
func (a *app) printTable(t *table, none string) {
	if len(t.rows) == 0 {
		fmt.Fprintln(a.env.Stderr, none)
		return
	}
	t.write(a.env.Stdout, a.width(), a.paintState)
}

// width is how wide a table may be.
func (a *app) width() int {
	if a.env.Term.Out && a.env.Term.Size != nil {
		if size, ok := a.env.Term.Size(); ok {
			return min(max(size.Cols, 40), tableWidth)
		}
	}
	return tableWidth
}

func writeJSON(w io.Writer, v any, indent string) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	return enc.Encode(v)
}

// writeYAML writes v with the names and the order of its JSON form: JSON is
// YAML, and only the style of its nodes has to change.
func writeYAML(w io.Writer, v any) error {
	var b bytes.Buffer
	if err := writeJSON(&b, v, ""); err != nil {
		return err
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(b.Bytes(), &doc); err != nil {
		return err
	}
	blockStyle(&doc)
	enc := yaml.NewEncoder(w)
	enc.SetIndent(2)
	if err := enc.Encode(&doc); err != nil {
		return err
	}
	return enc.Close()
}

func blockStyle(n *yaml.Node) {
	if len(n.Content) > 0 || n.Kind == yaml.ScalarNode {
		n.Style = 0
	}
	for _, c := range n.Content {
		blockStyle(c)
	}
}

// table lays out rows in columns. A header that begins with "~" marks a column
// that gives way when the table is too wide, one with ">" is set flush right.
type table struct {
	heads []string
	flex  []bool
	right []bool
	full  []int // the width of each column's widest cell
	rows  [][]string
}

func newTable(heads ...string) *table {
	t := &table{}
	for _, h := range heads {
		name, flex := strings.CutPrefix(h, "~")
		name, right := strings.CutPrefix(name, ">")
		t.heads, t.flex, t.right = append(t.heads, name), append(t.flex, flex), append(t.right, right)
		t.full = append(t.full, displayWidth(name))
	}
	return t
}

// row adds a row; its cells may be anything that came from others.
func (t *table) row(cells ...string) {
	for i, c := range cells {
		cells[i] = orDash(clean(c))
		t.full[i] = max(t.full[i], displayWidth(cells[i]))
	}
	t.rows = append(t.rows, cells)
}

// widths returns the width of each column in a table of at most total cells.
func (t *table) widths(total int) []int {
	const gap, least = 2, 6
	w := slices.Clone(t.full)
	sum := gap * (len(w) - 1)
	for _, n := range w {
		sum += n
	}
	// First the columns that are meant to give way, the widest first; then any.
	for _, every := range []bool{false, true} {
		for sum > total {
			widest := -1
			for i := range w {
				if (every || t.flex[i]) && w[i] > least && (widest < 0 || w[i] > w[widest]) {
					widest = i
				}
			}
			if widest < 0 {
				break
			}
			w[widest]--
			sum--
		}
	}
	return w
}

// paintFunc may colour a cell as it was laid out, which is without the room around it.
type paintFunc func(head, cell, laid string) string

// write writes the table in at most total cells a line.
func (t *table) write(out io.Writer, total int, paint paintFunc) {
	w := t.widths(total)
	b := bufio.NewWriter(out)
	defer b.Flush()
	t.line(b, w, t.heads, func(_, _, laid string) string { return laid })
	for _, r := range t.rows {
		t.line(b, w, r, paint)
	}
}

func (t *table) line(b *bufio.Writer, w []int, cells []string, paint paintFunc) {
	room := 0 // not written yet: none is at a line's end
	for i, c := range cells {
		laid := cut(c, w[i])
		fill := w[i] - displayWidth(laid)
		if t.right[i] {
			room += fill
		}
		for ; room > 0 && laid != ""; room-- {
			b.WriteByte(' ')
		}
		b.WriteString(paint(t.heads[i], c, laid))
		if !t.right[i] {
			room += fill
		}
		room += 2
	}
	b.WriteByte('\n')
}

// block prints pairs of a name and a value, aligned; pairs without a value are
// left out.
func block(w io.Writer, pairs ...string) {
	widest := 0
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			widest = max(widest, len(pairs[i]))
		}
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			fmt.Fprintf(w, "%-*s  %s\n", widest, pairs[i], clean(pairs[i+1]))
		}
	}
}

// style is a colour of the terminal.
type style string

const (
	styleGood style = "\x1b[32m"
	styleWait style = "\x1b[33m"
	styleBad  style = "\x1b[31m"
)

// colour tells whether a stream gets colours.
func (a *app) colour(terminal bool) bool {
	return terminal && a.env.Getenv("NO_COLOR") == "" && a.env.Getenv("TERM") != "dumb"
}

// paint colours text for standard error.
func (a *app) paint(s style, text string) string {
	if !a.colour(a.env.Term.Err) {
		return text
	}
	return string(s) + text + "\x1b[0m"
}

// paintState colours the states in a table on standard output.
func (a *app) paintState(head, cell, laid string) string {
	if head != "STATE" || !a.colour(a.env.Term.Out) {
		return laid
	}
	var s style
	switch cell {
	case "running", "ok", "free", "open", "completed":
		s = styleGood
	case "queued", "held", "starting", "stopping", "drained", "foreign", "reserved", "future":
		s = styleWait
	case "refused", "down", "failed", "timed_out", "out_of_memory", "out_of_credit", "node_failed", "expired":
		s = styleBad
	default:
		return laid
	}
	return string(s) + laid + "\x1b[0m"
}
