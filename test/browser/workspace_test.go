package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"croft.dev/croft/test/site"
)

// open is a site with the images of web programs, and a browser.
func open(t *testing.T) (*site.Site, *Browser) {
	t.Helper()
	s, err := site.Open(t.Context(), site.Config{
		Name: "browser", Users: []string{"ada"}, Images: []string{"pause.tar", "jupyter.tar", "code.tar"},
		Extra: "templates: [{name: jupyter, image: \"jupyter:1\", cpu: 1, mem: 1G}, {name: code, image: \"code:1\", cpu: 1, mem: 2G}]\n",
	})
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	must(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(s.Tail())
		}
	})
	must(t, s.Start(t.Context()))
	croft(t, s, "root", "account", "add", "lab")
	croft(t, s, "root", "user", "add", s.User("ada"))
	croft(t, s, "root", "account", "member", "add", "lab", s.User("ada"))
	b, err := Open(t.Context())
	must(t, err)
	t.Cleanup(b.Close)
	return s, b
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// croft runs a command as a user of the site's and returns its output.
func croft(t *testing.T, s *site.Site, user string, args ...string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := s.Croft(ctx, args...)
	if user != "root" {
		cmd = exec.CommandContext(ctx, filepath.Join(s.Bin(), "as"), append([]string{user, "croft"}, args...)...)
	}
	out, err := cmd.Output()
	if err != nil {
		stderr := []byte{}
		if e, ok := err.(*exec.ExitError); ok {
			stderr = e.Stderr
		}
		t.Fatalf("%s: croft %v: %v\n%s%s", user, args, err, out, stderr)
	}
	return out
}

// workspace is what croft notebook -o json says.
type workspace struct {
	URL string `json:"url"`
}

func start(t *testing.T, s *site.Site, args ...string) workspace {
	t.Helper()
	var w workspace
	out := croft(t, s, "ada", append(args, "-o", "json")...)
	if err := json.Unmarshal(out, &w); err != nil || w.URL == "" {
		t.Fatalf("no URL in %s: %v", out, err)
	}
	return w
}

// TestWorkspaces: what people see of their workspaces, in their browsers.
func TestWorkspaces(t *testing.T) {
	s, b := open(t)
	t.Run("notebook", func(t *testing.T) { notebook(t, s, b) })
	t.Run("terminal", func(t *testing.T) { terminal(t, s, b) })
	t.Run("code", func(t *testing.T) {
		code(t, s, b)
		remote(t, s)
	})
}

// notebook: a person opens Jupyter by one command and one click, and runs a cell. The
// server is killed while it computes: the computation goes on, and the page shows the result.
func notebook(t *testing.T, s *site.Site, b *Browser) {
	home := s.Home("ada")
	w := start(t, s, "notebook")
	page, err := b.Page(w.URL)
	must(t, err)
	jupyter(t, page, "#notebook_list")
	must(t, page.Screenshot("jupyter-files"))

	// The link was good once.
	other, err := Open(t.Context())
	must(t, err)
	defer other.Close()
	stranger, err := other.Page(w.URL)
	must(t, err)
	must(t, stranger.Visible("input[type=password]"))
	must(t, stranger.Screenshot("login"))

	text := `{"nbformat": 4, "nbformat_minor": 5, "metadata": {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}},
		"cells": [{"cell_type": "code", "id": "a", "metadata": {}, "outputs": [], "execution_count": null,
		"source": ["import os, time\n", "print('computing', flush=True)\n", "while not os.path.exists(os.path.expanduser('~/go')):\n", "    time.sleep(0.1)\n",
		"open(os.path.expanduser('~/done'), 'w').close()\n", "print('the answer is', 6 * 7)"]}]}`
	put(t, s, "ada", filepath.Join(home, "hello.ipynb"), text)
	at, err := page.URL()
	must(t, err)
	must(t, page.Go(origin(t, at)+"/notebooks/hello.ipynb"))
	must(t, page.Await("Jupyter.notebook.kernel.is_connected()"))
	if _, err := Eval[bool](page, "(Jupyter.notebook.execute_all_cells(), true)"); err != nil {
		t.Fatal(err)
	}
	must(t, page.Await("document.querySelector('.output').innerText.includes('computing')"))
	must(t, s.Kill())
	put(t, s, "ada", filepath.Join(home, "go"), "")
	await(t, filepath.Join(home, "done"))
	must(t, s.Start(t.Context()))
	must(t, page.Await("document.querySelector('.output').innerText.includes('the answer is 42')"))
	must(t, page.Screenshot("jupyter-answer"))
}

// jupyter waits for a page of Jupyter's. Its modules have 30 seconds to come, and after that it
// stays empty until it is loaded again: on a machine that is busy with other tests, they need more.
func jupyter(t *testing.T, page *Page, selector string) {
	t.Helper()
	var err error
	for range 3 {
		if err = page.VisibleWithin(45*time.Second, selector); err == nil {
			return
		}
		late, lost := Eval[string](page, `Object.keys(window.require?.s?.contexts?._?.registry ?? {}).join(" ")`)
		t.Logf("loading again what lacks %q, %v", late, lost)
		must(t, page.Reload())
	}
	t.Fatal(err)
}

// terminal: the shell on a page is the same after the page was loaded anew and after the server
// was killed, and on another's page.
func terminal(t *testing.T, s *site.Site, b *Browser) {
	link := func() string {
		return strings.TrimSpace(string(croft(t, s, "ada", "terminal", "--open", "jupyter")))
	}
	file := func(name string) string { return filepath.Join(s.Home("ada"), name) }
	connected := `document.getElementById("state").textContent === "connected"`
	page, err := b.Page(link())
	must(t, err)
	must(t, page.Await(connected))
	must(t, page.Keys("x=7; : > ~/page-$x-$((6*7))\r"))
	must(t, page.Screenshot("terminal-typed"))
	await(t, file("page-7-42"))
	must(t, page.Screenshot("terminal"))
	must(t, page.Reload())
	must(t, page.Await(connected))
	must(t, page.Keys(": > ~/again-$x\r"))
	await(t, file("again-7"))

	other, err := Open(t.Context())
	must(t, err)
	defer other.Close()
	second, err := other.Page(link())
	must(t, err)
	must(t, second.Await(connected))
	must(t, second.Keys("x=8; : > ~/other-$x\r"))
	await(t, file("other-8"))

	must(t, s.Kill())
	must(t, page.Await(`document.getElementById("state").textContent.includes("reconnecting")`))
	must(t, s.Start(t.Context()))
	for i, p := range []*Page{page, second} {
		must(t, p.Await(connected))
		must(t, p.Keys(fmt.Sprintf(": > ~/after-$x-%d\r", i)))
		await(t, file(fmt.Sprintf("after-8-%d", i)))
	}
	must(t, page.Screenshot("terminal-after"))
}

// code: a person opens the web IDE, which shows his home.
func code(t *testing.T, s *site.Site, b *Browser) {
	put(t, s, "ada", filepath.Join(s.Home("ada"), "of-hers.txt"), "")
	w := start(t, s, "code")
	page, err := b.Page(w.URL)
	must(t, err)
	if err := page.Await(`document.querySelector(".explorer-folders-view").innerText.includes("of-hers.txt")`); err != nil {
		text, _ := page.Text("body") // as far as it is there
		t.Fatalf("%v: it shows %q", err, text)
	}
	must(t, page.Screenshot("code"))
}

// put writes a file as a user would.
func put(t *testing.T, s *site.Site, user, name, text string) {
	t.Helper()
	cmd := exec.Command(filepath.Join(s.Bin(), "as"), user, "sh", "-c", `printf %s "$2" > "$1"`, "sh", name, text)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("writing %s: %v: %s", name, err, out)
	}
}

// await waits until there is a file.
func await(t *testing.T, name string) {
	t.Helper()
	for end := time.Now().Add(patience); ; {
		_, err := os.Stat(name)
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
		select {
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// origin is the scheme, host and port of a URL.
func origin(t *testing.T, text string) string {
	t.Helper()
	u, err := url.Parse(text)
	must(t, err)
	return u.Scheme + "://" + u.Host
}
