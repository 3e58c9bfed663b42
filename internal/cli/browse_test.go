package cli

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// The browser is led on to the link, which isn't in its command line; nobody else's is.
func TestBrowse(t *testing.T) {
	const link = "https://119.apps.example.org/.croft/open?ticket=x"
	for name, own := range map[string]bool{"own": true, "somebody else's": false} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, &fake{})
			b.app.env.Own = func(_, _ string) bool { return own }
			b.app.env.Browser = func(url string) error {
				c := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
				got, err := c.Get(url)
				if err != nil {
					return err
				}
				defer got.Body.Close()
				if to := got.Header.Get("Location"); own != (to == link) || strings.Contains(url, "ticket") {
					t.Errorf("%s leads to %q: %s", url, to, got.Status)
				}
				if !own {
					return errNoBrowser
				}
				return nil
			}
			if err := b.app.browse(t.Context(), link); (err == nil) != own {
				t.Error(err)
			}
		})
	}
}

func TestBrowsers(t *testing.T) {
	for name, tt := range map[string]struct {
		vars   map[string]string
		system string
		want   []string
	}{
		"no desktop": {system: "linux"},
		"a desktop":  {map[string]string{"DISPLAY": ":0"}, "linux", []string{"xdg-open", "sensible-browser", "x-www-browser"}},
		"a choice":   {map[string]string{"BROWSER": "firefox:lynx"}, "linux", []string{"firefox", "lynx"}},
		"a Mac":      {nil, "darwin", []string{"open"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := browsers(func(k string) string { return tt.vars[k] }, tt.system); !slices.Equal(got, tt.want) {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

// A browser that can't show the page isn't taken for one that did.
func TestStartBrowser(t *testing.T) {
	dir := t.TempDir()
	bad, good, seen := filepath.Join(dir, "bad"), filepath.Join(dir, "good"), filepath.Join(dir, "seen")
	for file, text := range map[string]string{bad: "exit 3", good: `echo "$1" >` + seen} {
		if err := os.WriteFile(file, []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"DISPLAY", "WAYLAND_DISPLAY"} {
		t.Setenv(name, "")
	}
	t.Setenv("BROWSER", bad)
	if err := startBrowser("http://127.0.0.1:1/"); err == nil {
		t.Error("one that failed has shown it")
	}
	t.Setenv("BROWSER", bad+":"+good)
	err := startBrowser("http://127.0.0.1:1/")
	got, err2 := os.ReadFile(seen)
	if err != nil || err2 != nil || string(got) != "http://127.0.0.1:1/\n" {
		t.Errorf("%q: %v, %v", got, err, err2)
	}
}

// The kernel says whose a connection is.
func TestConnectionOwner(t *testing.T) {
	const table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n" +
		"   0: 0100007F:1F90 0100007F:C350 01 00000000:00000000 00:00000000 00000000     0        0 1 1 0 20 4 30 10 -1\n" +
		"   1: 0100007F:C350 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1001        0 2 1 0 20 4 30 10 -1\n" +
		"   2: 0000000000000000FFFF00000100007F:C351 0000000000000000FFFF00000100007F:1F90 01 00000000:00000000 00:00000000 00000000  1002        0 2 1 0\n"
	for from, want := range map[string]int{"127.0.0.1:50000": 1001, "127.0.0.1:50001": 1002, "127.0.0.1:50002": -1, "[::1]:50000": -1, "x": -1} {
		uid, err := connectionOwner(table, from, "127.0.0.1:8080")
		if err != nil {
			uid = -1
		}
		if uid != want {
			t.Errorf("%s is %d's, want %d", from, uid, want)
		}
	}
	b := newBench(t, &fake{})
	b.app.env.Own = ownConnection
	b.app.env.Browser = func(url string) error {
		c := http.Client{Timeout: time.Minute, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		got, err := c.Get(url)
		if err != nil {
			return err
		}
		return got.Body.Close()
	}
	if err := b.app.browse(t.Context(), "http://example.org/"); err != nil {
		t.Error("this process isn't taken for the user's own")
	}
}
