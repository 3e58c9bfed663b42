package setup

import (
	"fmt"
	"io"
	"strings"
	"unicode"
)

// WriteText writes the report for people: an area's name once, one line for each
// finding, what is wrong marked and followed by its fix.
func (r Report) WriteText(w io.Writer) error {
	var b strings.Builder
	last := ""
	for _, f := range r.Findings {
		area := f.Area
		if area == last {
			area = ""
		}
		last = f.Area
		mark := ""
		if f.Level == Warn || f.Level == Fail {
			mark = string(f.Level) + ": "
		}
		fmt.Fprintf(&b, "%-9s%s%s\n", area, mark, printable(f.Text))
		if f.Fix != "" {
			fmt.Fprintf(&b, "%-9sfix: %s\n", "", printable(f.Fix))
		}
	}
	b.WriteString("\nnext\n")
	for _, n := range r.Next {
		fmt.Fprintf(&b, "  %s\n", n)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// printable keeps what other programs chose, such as a process' name, from
// reaching the terminal as anything but text.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}
