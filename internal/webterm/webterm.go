// Package webterm is the page with a terminal of a running job. It is nothing but files: who
// may see a job, and what is said in the terminal, is between the browser and the server.
//
// The terminal itself is xterm.js, as npm has it (hack/web).
package webterm

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"time"

	"croft.dev/croft/internal/address"
)

//go:embed static xterm
var embedded embed.FS

// kinds are the files that the page may load.
var kinds = map[string]string{
	"static/page.js": "text/javascript; charset=utf-8", "static/page.css": "text/css; charset=utf-8",
	"xterm/xterm.js": "text/javascript; charset=utf-8", "xterm/xterm.css": "text/css; charset=utf-8", "xterm/addon-fit.js": "text/javascript; charset=utf-8",
}

// policy lets the page run its own files and speak with its own server, and nothing else.
// xterm.js writes style sheets.
const policy = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'; img-src data:; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// FilesPath is where the files of the pages are: no job is called that.
const FilesPath = address.TerminalPath + "-/"

// Pages are the page and its files. Make them with New.
type Pages struct {
	page  *template.Template
	files map[string]file
}

type file struct {
	kind, tag string
	content   []byte
}

// New returns the pages.
func New() (*Pages, error) {
	p := &Pages{files: map[string]file{}}
	for name, kind := range kinds {
		b, err := embedded.ReadFile(name)
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(b)
		p.files[path.Base(name)] = file{kind, `"` + hex.EncodeToString(sum[:16]) + `"`, b}
	}
	sub, err := fs.Sub(embedded, "static")
	if err != nil {
		return nil, err
	}
	p.page, err = template.ParseFS(sub, "page.html")
	return p, err
}

// guard has the browser run nothing else, and tell nobody.
func guard(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}

// File answers with a file of the pages; false: there is none of that name.
func (p *Pages) File(w http.ResponseWriter, r *http.Request, name string) bool {
	f, ok := p.files[name]
	if !ok {
		return false
	}
	guard(w.Header())
	w.Header().Set("Content-Type", f.kind)
	w.Header().Set("Cache-Control", "no-cache") // they come with the server: another version has others
	w.Header().Set("ETag", f.tag)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(f.content))
	return true
}

// AccessHeader says by which right a page is shown: a page that has lost its connection asks
// whether it is still the same.
const AccessHeader = "Croft-Access"

// Show answers with the page of a terminal.
func (p *Pages) Show(w http.ResponseWriter, t address.Terminal) error {
	access := "full"
	if t.View {
		access = "view"
	}
	command := t.Job + " " + t.Name
	if t.View {
		command = "--view " + command
	}
	var b bytes.Buffer
	err := p.page.Execute(&b, struct {
		address.Terminal
		Access, Command string
	}{t, access, command})
	if err != nil {
		return err
	}
	guard(w.Header())
	w.Header().Set(AccessHeader, access)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(b.Bytes()) // a browser that went away
	return nil
}
