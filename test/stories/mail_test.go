package stories

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"croft.dev/croft/test/mailbox"
)

// office is the mail server of the stories, which appends what it takes to a file by its
// recipient, and what webhooks lead to, which appends what is posted to a file by its path.
type office struct {
	dir  string
	port int
	hook string // URL that paths are below
}

func post(t *testing.T) office {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	server := mailbox.Serve(ln, mailbox.Config{Dir: dir})
	t.Cleanup(func() { _ = server.Close() })
	bot := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		file, err := os.OpenFile(filepath.Join(dir, "hook-"+filepath.Base(r.URL.Path)), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err == nil {
			_, _ = fmt.Fprintf(file, "%s %s ", r.Header.Get("webhook-id"), r.Header.Get("webhook-signature"))
			_, err = io.Copy(file, r.Body)
			_, _ = fmt.Fprintln(file)
			err = errors.Join(err, file.Close())
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	}))
	t.Cleanup(bot.Close)
	return office{dir, ln.Addr().(*net.TCPAddr).Port, bot.URL}
}

// config is how a site sends mail by it.
func (o office) config() string {
	return fmt.Sprintf("notify: {mail: {host: 127.0.0.1, port: %d, tls: none, from: croft@example.org, domains: [example.org]}, webhook: {hosts: [127.0.0.1], networks: [127.0.0.0/8]}}\n", o.port)
}
