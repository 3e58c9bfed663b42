package address

import (
	"net/url"
	"strconv"
	"strings"
)

// TerminalPath is above all pages with terminals.
const TerminalPath = "/t/"

// Terminal is a terminal of a running job, as its page shows it.
type Terminal struct {
	Job  string // a number, or an array's element
	Name string
	Step int // 0: the job's primary
	View bool
}

// Path is where its page is on the server, with its query.
func (t Terminal) Path() string {
	p := TerminalPath + url.PathEscape(t.Job) + "/" + url.PathEscape(t.Name)
	if q := t.query().Encode(); q != "" {
		p += "?" + q
	}
	return p
}

// Socket is where what is said in it is spoken of, below its page.
func (t Terminal) Socket() string {
	p := TerminalPath + url.PathEscape(t.Job) + "/" + url.PathEscape(t.Name) + "/socket"
	if q := t.query().Encode(); q != "" {
		p += "?" + q
	}
	return p
}

func (t Terminal) query() url.Values {
	q := url.Values{}
	if t.Step != 0 {
		q.Set("step", strconv.Itoa(t.Step))
	}
	if t.View {
		q.Set("view", "true")
	}
	return q
}

// ParseTerminal reads what Path writes, out of a path's parts and a query; an empty name is
// main. Whether there is such a one is another matter.
func ParseTerminal(job, name string, q url.Values) (Terminal, bool) {
	t := Terminal{Job: job, Name: name, View: q.Get("view") == "true"}
	if name == "" {
		t.Name = "main"
	}
	array, element, isElement := strings.Cut(job, "_")
	if !digits(array) || isElement && !digits(element) {
		return Terminal{}, false
	}
	if text := q.Get("step"); text != "" {
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil || n < 1 {
			return Terminal{}, false
		}
		t.Step = int(n)
	}
	return t, true
}

func digits(s string) bool { return s != "" && len(s) < 20 && strings.Trim(s, "0123456789") == "" }
