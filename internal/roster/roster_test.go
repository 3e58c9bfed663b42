package roster_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/roster"
	"croft.dev/croft/internal/tenancy"
)

func TestParse(t *testing.T) {
	end := time.Date(2027, 4, 1, 0, 0, 0, 0, time.UTC).UnixNano()
	never := int64(0)
	ada := tenancy.Entry{Line: 2, User: "ada", UID: -1}
	tests := map[string]struct {
		text string
		want []tenancy.Entry
	}{
		"names alone":       {"name\nada\nben\n", []tenancy.Entry{ada, {Line: 3, User: "ben", UID: -1}}},
		"everything":        {"name,uid,role,ends\nada,1001,Manager,2027-03-31\n", []tenancy.Entry{{Line: 2, User: "ada", UID: 1001, Role: access.Manager, Ends: &end}}},
		"never":             {"name,until\nada,never\n", []tenancy.Entry{{Line: 2, User: "ada", UID: -1, Ends: &never}}},
		"as Excel saves it": {"\ufeffname;role\r\nada;\r\n;\r\n", []tenancy.Entry{ada}},
		"tabs":              {"Name\tEmail\nada\tada@example.org\n", []tenancy.Entry{ada}},
		"addresses":         {"surname,email\n\"Lovelace, A.\",Ada@example.org\n", []tenancy.Entry{ada}},
		"quotes":            {"note,name\n\"two\nlines, \"\"quoted\"\"\",ada\n", []tenancy.Entry{ada}},
		"no end of line":    {"name\nada", []tenancy.Entry{ada}},
		"empty lines":       {"\n\nname\n\nada\n\n", []tenancy.Entry{{Line: 5, User: "ada", UID: -1}}},
		"columns too few":   {"name,role\nada\n", []tenancy.Entry{ada}},
		"nobody":            {"name\n", nil},
	}
	for name, tt := range tests {
		got, err := roster.Parse([]byte(tt.text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(tt.want, got.Entries); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	got, err := roster.Parse([]byte("Matrikel,name,\x1b[31m\n1,ada,2\n"))
	if err != nil || len(got.Ignored) != 2 || got.Ignored[1] != "?[31m" {
		t.Errorf("ignored %q, %v", got.Ignored, err)
	}
}

// Every wrong line is named at once, by its number and what is wrong.
func TestWrongRosters(t *testing.T) {
	tests := map[string]struct {
		text string
		want []string // the places that are named
	}{
		"empty":            {"", []string{"csv"}},
		"spaces":           {" \n\n", []string{"csv"}},
		"an old Mac's":     {"name\rada\r", []string{"csv"}},
		"only separators":  {",,\n,\n", []string{"csv"}},
		"UTF-16":           {"\xff\xfen\x00a\x00", []string{"csv"}},
		"Latin-1":          {"name,note\nada,M\xfcller\n", []string{"csv"}},
		"too large":        {"name\n" + strings.Repeat("a", roster.MaxSize), []string{"csv"}},
		"no head":          {"ada\nben\n", []string{"line 1"}},
		"two names":        {"name,login\nada,ada\n", []string{"line 1"}},
		"many":             {"name,uid,role,ends\nAda,,,\nben,x,,\ncem,1,king,\ndan,1,,31.3.2027\n,5,,\neve,-1,,\nfay,4294967295,,\n", []string{"line 2", "line 3", "line 4", "line 5", "line 6", "line 7", "line 8"}},
		"twice":            {"name\nada\nben\nada\n", []string{"line 4"}},
		"more columns":     {"name\nada,member\n", []string{"line 2"}},
		"a bare quote":     {"name\nada\nb\"en\n", []string{"line 3"}},
		"an open quote":    {"name\nada\n\"ben\ncem\n", []string{"line 3"}},
		"a control":        {"name\na\x00da\n", []string{"line 2"}},
		"no address":       {"email\nada\n@example.org\n", []string{"line 2", "line 3"}},
		"an address' name": {"email\nada+x@example.org\n", []string{"line 2"}},
		"years":            {"name,ends\nada,1850-01-01\nben,9999-12-31\n", []string{"line 2", "line 3"}},
	}
	for name, tt := range tests {
		_, err := roster.Parse([]byte(tt.text))
		f, ok := err.(*fault.Error)
		if !ok || f.Code != codes.Invalid {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var at []string
		for _, field := range f.Fields {
			at = append(at, field.Path)
		}
		if diff := cmp.Diff(tt.want, at); diff != "" {
			t.Errorf("%s (-want +got): %v\n%s", name, f.Fields, diff)
		}
	}
	var long strings.Builder
	long.WriteString("name\n")
	for i := range 6000 {
		fmt.Fprintf(&long, "u%d\n", i)
	}
	if _, err := roster.Parse([]byte(long.String())); err == nil || !strings.Contains(err.Error(), "more than 5000") {
		t.Errorf("6000 members: %v", err)
	}
	_, err := roster.Parse([]byte("name\n" + strings.Repeat("X\n", 1000)))
	if f, ok := err.(*fault.Error); !ok || len(f.Fields) != 51 {
		t.Errorf("a thousand faults: %v", err)
	}
}

// Whatever is given is read or is an error for people: nothing panics, every entry
// has a name of its own and stands after the one before.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"name\nada\n", "\ufeffname;uid\r\nada;1\r\n", "email\ta\n\"x\"@y\t", "name,role,ends\n\"a\nb\",owner,never", "\"", "name\n\"\"\"\n", ",\n", "uid\n1"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := roster.Parse(b)
		if err != nil {
			if fault.Of(err) != codes.Invalid {
				t.Errorf("%q: %v", b, err)
			}
			return
		}
		seen, line := map[string]bool{}, 0
		for _, e := range got.Entries {
			if tenancy.CheckName(e.User) != nil || seen[e.User] || e.Line <= line || e.UID < -1 {
				t.Errorf("%q: %+v", b, e)
			}
			seen[e.User], line = true, e.Line
		}
	})
}
