package cli

import (
	"bufio"
	"io"
	"strconv"
	"strings"
)

// column is one thing that a format may show of a T.
type column[T any] struct {
	head string
	get  func(T) string
}

// piece is a column of a format, or the text between two.
type piece[T any] struct {
	text   string
	column *column[T]
	width  int // 0: as wide as it needs to be
	right  bool
}

// format is what a format string says, and how a dialect takes it.
type format[T any] struct {
	parts []piece[T]
	// exact cuts what is wider than its column, as Slurm does; CraneSched takes a
	// width for the least.
	exact bool
	// aligned makes columns without a width as wide as their widest cell.
	aligned bool
	// mark shows, at the end of a cell, that it was cut.
	mark string
}

// maxWidth bounds a column's width.
const maxWidth = 10_000

// parsePercent reads a format such as "%.18i %9P %T": between % and the column's
// name a dot sets it flush right and a number is its width. look finds a column by
// the letters that follow and says how many of them name it.
func parsePercent[T any](s string, look func(letters string) (*column[T], int)) ([]piece[T], error) {
	var parts []piece[T]
	for s != "" {
		i := strings.IndexByte(s, '%')
		if i != 0 {
			if i < 0 {
				i = len(s)
			}
			parts = append(parts, piece[T]{text: s[:i]})
			s = s[i:]
			continue
		}
		spec := s
		s = s[1:]
		p := piece[T]{}
		s, p.right = strings.TrimPrefix(s, "."), strings.HasPrefix(s, ".")
		s = strings.TrimPrefix(s, "-")
		digits := len(s) - len(strings.TrimLeft(s, "0123456789"))
		if digits > 0 {
			n, err := strconv.Atoi(s[:digits])
			if err != nil || n > maxWidth {
				return nil, usage("format %q: a column is at most %d wide", spec, maxWidth)
			}
			p.width, s = n, s[digits:]
		}
		letters := s[:len(s)-len(strings.TrimLeftFunc(s, letter))]
		column, n := look(letters)
		if column == nil {
			return nil, usage("format %q: there is no column %q", spec, "%"+cut(letters, 20))
		}
		p.column, s = column, s[n:]
		parts = append(parts, p)
	}
	return parts, nil
}

func letter(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }

// byLetter looks one letter up, as Slurm's formats have them.
func byLetter[T any](columns map[string]column[T]) func(string) (*column[T], int) {
	return func(letters string) (*column[T], int) {
		if letters == "" {
			return nil, 0
		}
		if c, ok := columns[letters[:1]]; ok {
			return &c, 1
		}
		return nil, 0
	}
}

// byWord looks a word up, in any case, or else one letter, as CraneSched's formats
// have them.
func byWord[T any](letters map[string]column[T], words map[string]string) func(string) (*column[T], int) {
	one := byLetter(letters)
	return func(text string) (*column[T], int) {
		if l, ok := words[strings.ToLower(text)]; ok && len(text) > 1 {
			c := letters[l]
			return &c, len(text)
		}
		return one(text)
	}
}

// write writes a line for each row, with the columns' names first if header is set.
func (f format[T]) write(out io.Writer, rows []T, header bool) {
	cells := make([][]string, 0, len(rows)+1)
	if header {
		head := make([]string, len(f.parts))
		for i, p := range f.parts {
			if p.column != nil {
				head[i] = p.column.head
			}
		}
		cells = append(cells, head)
	}
	for _, r := range rows {
		line := make([]string, len(f.parts))
		for i, p := range f.parts {
			if p.column != nil {
				line[i] = clean(p.column.get(r))
			}
		}
		cells = append(cells, line)
	}
	widths := f.widths(cells)
	b := bufio.NewWriter(out)
	defer b.Flush()
	for _, line := range cells {
		var text strings.Builder
		for i, p := range f.parts {
			if p.column == nil {
				text.WriteString(p.text)
			} else {
				text.WriteString(f.lay(line[i], widths[i], p))
			}
		}
		b.WriteString(strings.TrimRight(text.String(), " "))
		b.WriteByte('\n')
	}
}

func (f format[T]) widths(cells [][]string) []int {
	w := make([]int, len(f.parts))
	for i, p := range f.parts {
		w[i] = p.width
		if p.column == nil || !f.aligned || p.width > 0 {
			continue
		}
		for _, line := range cells {
			w[i] = max(w[i], displayWidth(line[i]))
		}
	}
	return w
}

func (f format[T]) lay(cell string, width int, p piece[T]) string {
	if width == 0 {
		return cell
	}
	if f.exact && displayWidth(cell) > width {
		if cell = prefix(cell, width-len(f.mark)); f.mark != "" {
			cell += f.mark
		}
	}
	fill := strings.Repeat(" ", max(0, width-displayWidth(cell)))
	if p.right {
		return fill + cell
	}
	return cell + fill
}

// prefix is the beginning of s that fits n cells.
func prefix(s string, n int) string {
	at := 0
	for i, r := range s {
		if at += runeWidth(r); at > n {
			return s[:i]
		}
	}
	return s
}

// delimited writes the columns of a format with a delimiter between them and, if
// wanted, after the last.
func (f format[T]) delimited(out io.Writer, rows []T, header bool, between string, last bool) {
	b := bufio.NewWriter(out)
	defer b.Flush()
	line := func(cell func(*column[T]) string) {
		first := true
		for _, p := range f.parts {
			if p.column == nil {
				continue
			}
			if !first {
				b.WriteString(between)
			}
			first = false
			b.WriteString(strings.ReplaceAll(cell(p.column), between, " "))
		}
		if last {
			b.WriteString(between)
		}
		b.WriteByte('\n')
	}
	if header {
		line(func(c *column[T]) string { return c.head })
	}
	for _, r := range rows {
		line(func(c *column[T]) string { return clean(c.get(r)) })
	}
}
