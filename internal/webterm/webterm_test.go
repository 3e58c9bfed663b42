package webterm

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"croft.dev/croft/internal/address"
)

func pages(t *testing.T) *Pages {
	t.Helper()
	p, err := New()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestShow writes what it is given as text, wherever it stands.
func TestShow(t *testing.T) {
	for name, tt := range map[string]struct {
		of   address.Terminal
		want []string
	}{
		"a job's":   {address.Terminal{Job: "118", Name: "main"}, []string{`data-socket="/t/118/main/socket" data-access="full"`, "croft terminal 118 main"}},
		"to look":   {address.Terminal{Job: "118_7", Name: "a.b", View: true}, []string{`data-socket="/t/118_7/a.b/socket?view=true" data-access="view"`, "--view 118_7 a.b"}},
		"of a step": {address.Terminal{Job: "118", Name: "main", Step: 2}, []string{`/t/118/main/socket?step=2"`}},
		"markup":    {address.Terminal{Job: `"><script>`, Name: "<b>"}, []string{"&lt;b&gt;"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := httptest.NewRecorder()
			if err := pages(t).Show(w, tt.of); err != nil {
				t.Fatal(err)
			}
			for _, text := range tt.want {
				if !strings.Contains(w.Body.String(), text) {
					t.Errorf("lacks %s:\n%s", text, w.Body)
				}
			}
			if strings.Contains(w.Body.String(), "<script>") || strings.Contains(w.Body.String(), "<b>") || !strings.Contains(w.Header().Get("Content-Security-Policy"), "script-src 'self';") {
				t.Errorf("%v\n%s", w.Header(), w.Body)
			}
		})
	}
}

// TestFile answers with those that the page loads and no other, and not again with one that
// a browser has.
func TestFile(t *testing.T) {
	p := pages(t)
	w := httptest.NewRecorder()
	if !p.File(w, httptest.NewRequest("GET", "/t/-/page.js", nil), "page.js") || !strings.Contains(w.Body.String(), "use strict") {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	again := httptest.NewRequest("GET", "/t/-/page.js", nil)
	again.Header.Set("If-None-Match", w.Header().Get("ETag"))
	w = httptest.NewRecorder()
	if p.File(w, again, "page.js"); w.Code != http.StatusNotModified {
		t.Errorf("once more: %d", w.Code)
	}
	for _, name := range []string{"", "README.md", "page.html", "../webterm.go", "xterm/xterm.js"} {
		if p.File(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil), name) {
			t.Errorf("there is a file %q", name)
		}
	}
}

// TestSums: what others wrote is as it was taken.
func TestSums(t *testing.T) {
	sums, err := embedded.ReadFile("xterm/SHA256SUMS")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for lines := bufio.NewScanner(bytes.NewReader(sums)); lines.Scan(); n++ {
		want, name, _ := strings.Cut(lines.Text(), "  ")
		b, err := embedded.ReadFile("xterm/" + name)
		if sum := sha256.Sum256(b); err != nil || hex.EncodeToString(sum[:]) != want {
			t.Errorf("%s: %v, or another", name, err)
		}
	}
	if n != 3 {
		t.Errorf("%d files, want 3", n)
	}
}
