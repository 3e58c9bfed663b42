// Package roster reads lists of people, as tables that come from elsewhere.
package roster

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/tenancy"
)

// Roster is a list of an account's members to be, as a table was read.
type Roster struct {
	Entries []tenancy.Entry
	Ignored []string // columns that say nothing to Croft
}

// The bounds of a roster.
const (
	MaxSize    = 512 << 10 // bytes
	maxEntries = 5000
	maxField   = 256 // bytes
	maxFaults  = 50
)

// columns are the words for a column, by what it holds.
var columns = map[string]string{
	"name": "name", "user": "name", "username": "name", "login": "name", "account": "name",
	"uid": "uid", "email": "email", "mail": "email", "e-mail": "email", "role": "role", "ends": "ends", "until": "ends",
}

// Parse reads a table with a line for each member: CSV with commas, semicolons
// or tabs, whose first line names the columns. name, or email with the name before
// the @, has to be there; uid, role and ends may. A day in ends is in it, in UTC.
// The error is a *fault.Error with a field for each wrong line.
func Parse(text []byte) (Roster, error) {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	switch {
	case len(text) > MaxSize:
		return Roster{}, fault.Invalid("csv", "is larger than %d KiB: split it", MaxSize>>10)
	case !utf8.Valid(text):
		return Roster{}, fault.Invalid("csv", "isn't UTF-8: save it as CSV UTF-8")
	case bytes.IndexByte(text, '\r') >= 0 && bytes.IndexByte(text, '\n') < 0:
		return Roster{}, fault.Invalid("csv", "has no line ends that are read: save it as CSV UTF-8")
	case len(bytes.TrimSpace(text)) == 0:
		return Roster{}, fault.Invalid("csv", "is empty")
	}
	p := parser{csv: csv.NewReader(bytes.NewReader(text)), seen: map[string]int{}}
	p.csv.Comma, p.csv.FieldsPerRecord = separator(text), -1
	p.read()
	if p.more > 0 {
		p.bad.Add("csv", "%d more lines are wrong", p.more)
	}
	return p.out, p.bad.Err()
}

// separator is the one that the first line has most of.
func separator(text []byte) rune {
	line, _, _ := bytes.Cut(text, []byte("\n"))
	best := ','
	for _, c := range ";\t" {
		if bytes.Count(line, []byte(string(c))) > bytes.Count(line, []byte(string(best))) {
			best = c
		}
	}
	return best
}

type parser struct {
	csv   *csv.Reader
	heads []string // what each column holds; empty: nothing to us
	seen  map[string]int
	out   Roster
	bad   fault.Fields
	more  int // faults beyond what is listed
}

// fault notes what is wrong in a line.
func (p *parser) fault(line int, format string, args ...any) {
	if len(p.bad) == maxFaults {
		p.more++
		return
	}
	p.bad.Add("line "+strconv.Itoa(line), format, args...)
}

func (p *parser) read() {
	for {
		record, err := p.csv.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			p.broken(err)
			return // where the next line begins isn't known
		}
		line, _ := p.csv.FieldPos(0)
		if blank(record) {
			continue
		}
		if p.heads == nil {
			if !p.head(line, record) {
				return
			}
			continue
		}
		if len(p.out.Entries) == maxEntries {
			p.fault(line, "there are more than %d members: split the list", maxEntries)
			return
		}
		p.entry(line, record)
	}
	if p.heads == nil {
		p.bad.Add("csv", "has no line that names the columns")
	}
}

func (p *parser) broken(err error) {
	var at *csv.ParseError
	if !errors.As(err, &at) {
		p.bad.Add("csv", "can't be read")
		return
	}
	what := "isn't CSV"
	if errors.Is(at.Err, csv.ErrQuote) || errors.Is(at.Err, csv.ErrBareQuote) {
		what = `has a quote in the middle or none at the end: write it "" within quotes`
	}
	p.fault(at.StartLine, "%s", what)
}

func blank(record []string) bool {
	for _, f := range record {
		if strings.TrimSpace(f) != "" {
			return false
		}
	}
	return true
}

// head reads the names of the columns.
func (p *parser) head(line int, record []string) bool {
	has := map[string]bool{}
	for _, f := range record {
		word := strings.ToLower(strings.TrimSpace(f))
		what := columns[word]
		if what != "" && has[what] {
			p.fault(line, "two columns hold the %s", what)
		}
		has[what] = true
		p.heads = append(p.heads, what)
		if what == "" && word != "" {
			p.out.Ignored = append(p.out.Ignored, printable(word))
		}
	}
	if !has["name"] && !has["email"] {
		p.fault(line, "the first line has to name the columns: name or email, and any of uid, role, ends")
	}
	return len(p.bad) == 0
}

// printable is a text for messages, whatever was in the file.
func printable(s string) string {
	if len(s) > 40 {
		s = strings.ToValidUTF8(s[:40], "") + "…"
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, s)
}

// entry reads a line. Only what is wrong first in it is noted.
func (p *parser) entry(line int, record []string) {
	e := tenancy.Entry{Line: line, UID: -1}
	email := ""
	for i, f := range record {
		f = strings.TrimSpace(f)
		if i >= len(p.heads) {
			if f != "" {
				p.fault(line, "has more columns than the first line names")
				return
			}
			continue
		}
		if p.heads[i] == "" || f == "" {
			continue
		}
		if err := set(&e, p.heads[i], f, &email); err != nil {
			p.fault(line, "%s: %v", p.heads[i], err)
			return
		}
	}
	if e.User == "" {
		local, _, _ := strings.Cut(email, "@")
		e.User = strings.ToLower(local)
	}
	if e.User == "" {
		p.fault(line, "name: is missing")
		return
	}
	if err := tenancy.CheckName(e.User); err != nil {
		p.fault(line, "name: %q %v", printable(e.User), err)
		return
	}
	if first, twice := p.seen[e.User]; twice {
		p.fault(line, "name: %s is in line %d already", e.User, first)
		return
	}
	p.seen[e.User] = line
	p.out.Entries = append(p.out.Entries, e)
}

// set reads one field.
func set(e *tenancy.Entry, what, text string, email *string) error {
	if len(text) > maxField {
		return fmt.Errorf("is longer than %d bytes", maxField)
	}
	switch what {
	case "name":
		e.User = text
	case "email":
		if local, domain, ok := strings.Cut(text, "@"); !ok || local == "" || domain == "" {
			return fmt.Errorf("%q is no address", printable(text))
		}
		*email = text
	case "uid":
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || !tenancy.UnixID(n) {
			return fmt.Errorf("%q isn't a Unix uid, which is a number", printable(text))
		}
		e.UID = n
	case "role":
		role, ok := access.ParseRole(strings.ToLower(text))
		if !ok {
			return fmt.Errorf("%q must be viewer, member, manager or owner", printable(text))
		}
		e.Role = role
	case "ends":
		end, err := parseEnd(text)
		if err != nil {
			return err
		}
		e.Ends = &end
	}
	return nil
}

// parseEnd reads a day, which is in it, a point in time, or never.
func parseEnd(text string) (int64, error) {
	if strings.EqualFold(text, "never") {
		return 0, nil
	}
	t, err := time.Parse(time.DateOnly, text)
	if err == nil {
		t = t.AddDate(0, 0, 1)
	} else if t, err = time.Parse(time.RFC3339, text); err != nil {
		return 0, fmt.Errorf("%q must be a day such as 2027-03-31, a time such as 2027-03-31T18:00:00Z, or never", printable(text))
	}
	if t.Year() < 1970 || t.Year() >= 2200 {
		return 0, errors.New("must lie between the years 1970 and 2200")
	}
	return max(t.UnixNano(), 1), nil
}
