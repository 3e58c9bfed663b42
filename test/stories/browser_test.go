package stories

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"regexp"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// browsersKey is where a script keeps its browsers.
type browsersKey struct{}

// browsers are a script's, by their names.
type browsers map[string]*http.Client

// browse has a browser open a page, again and again until what it shows matches: the status,
// where it ended, and the page.
func browse(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) == 3, "browse BROWSER PATTERN URL")
	want, err := regexp.Compile("(?s)" + args[1])
	ts.Check(err)
	all := ts.Value(browsersKey{}).(browsers)
	b := all[args[0]]
	if b == nil {
		b = newBrowser(strings.TrimPrefix(ts.Getenv("HTTP"), "http://"))
		all[args[0]] = b
	}
	page := ""
	for end := time.Now().Add(patience); ; {
		if page, err = look(b, args[2]); err == nil && want.MatchString(page) {
			ts.Logf("[browser]\n%s", page)
			return
		}
		if time.Now().After(end) {
			ts.Fatalf("%v, no %s in:\n%s", err, args[1], page)
		}
		<-time.After(100 * time.Millisecond)
	}
}

// newBrowser is one that finds the names below localhost at the server.
func newBrowser(server string) *http.Client {
	jar, _ := cookiejar.New(nil) // never fails
	return &http.Client{Jar: jar, Timeout: patience, Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", server)
	}}}
}

func look(b *http.Client, url string) (string, error) {
	r, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	r.Header.Set("Accept", "text/html")
	got, err := b.Do(r)
	if err != nil {
		return "", err
	}
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	return fmt.Sprintf("%s %s\n%s", got.Status, got.Request.URL, text), err
}
