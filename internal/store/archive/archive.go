// Package archive is the form of a backup: lines of JSON, the same for every database.
// The first is the manifest, then comes a line for each row, table by table, and the last
// has the SHA-256 of all before it. It knows no SQL, and no table by name.
//
// The same state makes the same lines, whichever database they come from.
package archive

import (
	"bufio"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"strconv"
	"unicode/utf8"
)

// Format is the version of the form that is written; a newer one can't be read.
const Format = 1

// maxLine bounds a line, in bytes: a row is never near it.
const maxLine = 256 << 20

var (
	// ErrDamaged says that what is read isn't what was written.
	ErrDamaged = errors.New("the backup is damaged")
	// ErrForeign says that it isn't a backup of Croft's at all.
	ErrForeign = errors.New("this isn't a backup of Croft")
	// ErrNewer says that a newer program has written it.
	ErrNewer = errors.New("the backup was written by a newer croftd")
)

// Manifest says what a backup is of.
type Manifest struct {
	Format   int     `json:"croft_backup"`
	Schema   int64   `json:"schema"`       // the database's version
	Instance string  `json:"instance"`     // UUID of the installation
	Seq      int64   `json:"seq,string"`   // where the log ends
	At       int64   `json:"at_ns,string"` // ns since the epoch; of that row
	Hash     string  `json:"hash"`         // of that row
	Tables   []Table `json:"tables"`
}

// Table is one of the database's, with how many rows follow. A row's values are in the
// order of Columns.
type Table struct {
	Name    string   `json:"name"`
	Columns []string `json:"columns"`
	Rows    int64    `json:"rows"`
}

// Rows is how many rows there are in all.
func (m Manifest) Rows() (n int64) {
	for _, t := range m.Tables {
		n += t.Rows
	}
	return n
}

type trailer struct {
	SHA256 string `json:"sha256"`
}

// Writer writes a backup.
type Writer struct {
	w    *bufio.Writer
	sum  hash.Hash
	left []Table
	line []byte
}

// NewWriter writes the manifest. Format is set by it.
func NewWriter(w io.Writer, m Manifest) (*Writer, error) {
	sum := sha256.New()
	out := &Writer{w: bufio.NewWriterSize(io.MultiWriter(w, sum), 1<<16), sum: sum, left: slices.Clone(m.Tables)}
	m.Format = Format
	text, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	_, err = out.w.Write(append(text, '\n'))
	return out, err
}

// Row writes the next row, of the first table that lacks some. Values are int64, string,
// bool or nil.
func (w *Writer) Row(values []any) error {
	for len(w.left) > 0 && w.left[0].Rows == 0 {
		w.left = w.left[1:]
	}
	if len(w.left) == 0 || len(values) != len(w.left[0].Columns) {
		return errors.New("a row that the manifest doesn't know of")
	}
	line := append(w.line[:0], '[')
	for i, v := range values {
		if i > 0 {
			line = append(line, ',')
		}
		var err error
		if line, err = appendValue(line, v); err != nil {
			return fmt.Errorf("%s.%s: %w", w.left[0].Name, w.left[0].Columns[i], err)
		}
	}
	w.line = append(line, ']', '\n')
	w.left[0].Rows--
	_, err := w.w.Write(w.line)
	return err
}

// Close writes the last line and returns the sum in it.
func (w *Writer) Close() (sum string, err error) {
	for _, t := range w.left {
		if t.Rows > 0 {
			return "", fmt.Errorf("%s lacks %d rows", t.Name, t.Rows)
		}
	}
	if err := w.w.Flush(); err != nil {
		return "", err
	}
	sum = hex.EncodeToString(w.sum.Sum(nil))
	text, err := json.Marshal(trailer{sum})
	if err != nil {
		return "", err
	}
	if _, err := w.w.Write(append(text, '\n')); err != nil {
		return "", err
	}
	return sum, w.w.Flush()
}

// bytesOf is how text that isn't UTF-8 is written: JSON has none.
type bytesOf struct {
	Base64 string `json:"base64"`
}

func appendValue(dst []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return append(dst, "null"...), nil
	case int64:
		return strconv.AppendInt(dst, v, 10), nil
	case bool:
		return strconv.AppendBool(dst, v), nil
	case string:
		var text []byte
		var err error
		if utf8.ValidString(v) {
			text, err = json.Marshal(v)
		} else {
			text, err = json.Marshal(bytesOf{base64.StdEncoding.EncodeToString([]byte(v))})
		}
		return append(dst, text...), err
	}
	return dst, fmt.Errorf("a %T, which a backup can't hold", v)
}

// value reads what appendValue has written.
func value(text json.RawMessage) (any, error) {
	switch {
	case len(text) == 0:
		return nil, errors.New("no value")
	case string(text) == "null":
		return nil, nil
	case string(text) == "true", string(text) == "false":
		return text[0] == 't', nil
	case text[0] == '"':
		var s string
		err := json.Unmarshal(text, &s)
		return s, err
	case text[0] == '{':
		var b bytesOf
		if err := json.Unmarshal(text, &b); err != nil {
			return nil, err
		}
		raw, err := base64.StdEncoding.DecodeString(b.Base64)
		return string(raw), err
	}
	return strconv.ParseInt(string(text), 10, 64)
}

// Reader reads a backup.
type Reader struct {
	Manifest Manifest

	r     *bufio.Reader
	sum   hash.Hash
	table int
	row   int64 // of that table
	done  string
}

// NewReader reads the manifest. The error is an ErrForeign, ErrNewer or ErrDamaged, or the
// reader's.
func NewReader(r io.Reader) (*Reader, error) {
	out := &Reader{r: bufio.NewReaderSize(r, 1<<16), sum: sha256.New()}
	line, err := out.line()
	if err != nil {
		return nil, err
	}
	out.sum.Write(line)
	if err := json.Unmarshal(line, &out.Manifest); err != nil || out.Manifest.Format < 1 {
		return nil, ErrForeign
	}
	if out.Manifest.Format > Format {
		return nil, fmt.Errorf("%w: its form is %d, and this one knows up to %d", ErrNewer, out.Manifest.Format, Format)
	}
	for _, t := range out.Manifest.Tables {
		if t.Rows < 0 || len(t.Columns) == 0 {
			return nil, fmt.Errorf("%w: its manifest says that %s has %d rows of %d columns", ErrDamaged, t.Name, t.Rows, len(t.Columns))
		}
	}
	return out, nil
}

// line reads one, its end included.
func (r *Reader) line() ([]byte, error) {
	var line []byte
	for {
		part, err := r.r.ReadSlice('\n')
		if line = append(line, part...); err == nil {
			return line, nil
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull) && len(line) < maxLine:
		case errors.Is(err, bufio.ErrBufferFull):
			return nil, fmt.Errorf("%w: a line of more than %d bytes", ErrDamaged, maxLine)
		case errors.Is(err, io.EOF):
			return nil, fmt.Errorf("%w: it ends in the midst of it", ErrDamaged)
		default:
			return nil, fmt.Errorf("reading the backup: %w", err)
		}
	}
}

// Next returns the next row and the place of its table in the manifest; io.EOF once all
// of it was read and is what was written.
func (r *Reader) Next() (table int, values []any, err error) {
	for r.table < len(r.Manifest.Tables) && r.row == r.Manifest.Tables[r.table].Rows {
		r.table, r.row = r.table+1, 0
	}
	if r.table == len(r.Manifest.Tables) {
		return 0, nil, r.end()
	}
	t := r.Manifest.Tables[r.table]
	line, err := r.line()
	if err != nil {
		return 0, nil, err
	}
	r.sum.Write(line)
	r.row++
	var parts []json.RawMessage
	if err := json.Unmarshal(line, &parts); err != nil || len(parts) != len(t.Columns) {
		return 0, nil, fmt.Errorf("%w: row %d of %s can't be read", ErrDamaged, r.row, t.Name)
	}
	values = make([]any, len(parts))
	for i, p := range parts {
		if values[i], err = value(p); err != nil {
			return 0, nil, fmt.Errorf("%w: row %d of %s, column %s can't be read", ErrDamaged, r.row, t.Name, t.Columns[i])
		}
	}
	return r.table, values, nil
}

func (r *Reader) end() error {
	if r.done != "" {
		return io.EOF
	}
	line, err := r.line()
	if err != nil {
		return err
	}
	var last trailer
	sum := hex.EncodeToString(r.sum.Sum(nil))
	if err := json.Unmarshal(line, &last); err != nil || last.SHA256 != sum {
		return fmt.Errorf("%w: its SHA-256 is %s, which its last line doesn't say", ErrDamaged, sum)
	}
	switch _, err := r.r.ReadByte(); {
	case err == nil:
		return fmt.Errorf("%w: something follows its end", ErrDamaged)
	case !errors.Is(err, io.EOF):
		return fmt.Errorf("%w: after its end: %w", ErrDamaged, err)
	}
	r.done = sum
	return io.EOF
}

// Sum is the SHA-256 of a backup that was read to its end.
func (r *Reader) Sum() string { return r.done }
