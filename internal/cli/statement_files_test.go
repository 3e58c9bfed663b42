package cli

import (
	"encoding/csv"
	"reflect"
	"strings"
	"testing"
	"time"

	v1 "croft.dev/croft/api/v1"
)

// fill puts a text into everything that a value has, lists and maps too, but for numbers in
// text, which the server alone writes.
func fill(v reflect.Value, text string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Struct:
		for i := range v.NumField() {
			switch name := v.Type().Field(i).Name; name {
			case "GPU", "GPUHours", "Credits", "From", "To":
			default:
				fill(v.Field(i), text)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), text)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf(text), reflect.ValueOf("1.0")) // hours by cause
	}
}

var hostile = []string{
	`=HYPERLINK("http://x","y")`, "+1+1", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "\n=1", " =1", "\u00a0=1", "＝1", "'=1", "\x00=1", "\u200b=1", "\ufeff=1", "\x1b[31m=1",
	`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, "</title><script>", "<!--", "&lt;b&gt;", "' onload='x", "</table></body>", "\u202e<b>",
}

// Whatever names people give, a statement's page has no element or attribute of theirs, and
// no cell of its CSV is a formula.
func TestStatementFilesWithHostileNames(t *testing.T) {
	a := &app{env: Env{Zone: time.UTC}}
	for _, text := range hostile {
		var s v1.Statement
		fill(reflect.ValueOf(&s).Elem(), text)
		var m v1.MachineStatement
		fill(reflect.ValueOf(&m).Elem(), text)
		for what, doc := range map[string]*document{"statement": a.statementHTML(&s), "machine": a.machineHTML(&m)} {
			var b strings.Builder
			if err := doc.write(&b); err != nil {
				t.Fatal(err)
			}
			page := b.String()
			for _, tag := range []string{"<script", "<img", "<b>", "<!--", "onerror=alert(1)>", "\x00", "\x1b"} {
				if strings.Contains(page, tag) {
					t.Errorf("%s of %q has %q", what, text, tag)
				}
			}
			if strings.Count(page, "<body>") != 1 || strings.Count(page, "</body>") != 1 || strings.Count(page, "</title>") != 1 || strings.Count(page, "<table>") != strings.Count(page, "</table>") {
				t.Errorf("%s of %q isn't whole: %s", what, text, page)
			}
		}
		for what, rows := range map[string][][]string{"csv": statementCSV(&s), "focus": focusCSV(&s), "machine": machineCSV(&m)} {
			var b strings.Builder
			if err := writeCSV(&b, rows); err != nil {
				t.Fatal(err)
			}
			back, err := csv.NewReader(strings.NewReader(b.String())).ReadAll()
			if err != nil || len(back) != len(rows) {
				t.Fatalf("%s of %q: %d rows, %v", what, text, len(back), err)
			}
			for _, row := range back {
				for _, c := range row {
					if begins := strings.TrimLeft(c, " \t\r\n\u00a0\u200b\ufeff"); begins != "" && strings.ContainsRune("=+-@＝＋－＠", []rune(begins)[0]) {
						t.Errorf("%s of %q has the cell %q", what, text, c)
					}
				}
			}
		}
	}
}
