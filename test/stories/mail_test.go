package stories

import (
	"fmt"
	"net"
	"testing"

	"croft.dev/croft/test/mailbox"
)

// office is the mail server of the stories, which appends what it takes to a file by its
// recipient.
type office struct {
	dir  string
	port int
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
	return office{dir, ln.Addr().(*net.TCPAddr).Port}
}

// config is how a site sends mail by it.
func (o office) config() string {
	return fmt.Sprintf("notify: {mail: {host: 127.0.0.1, port: %d, tls: none, from: croft@example.org, domains: [example.org]}}\n", o.port)
}
