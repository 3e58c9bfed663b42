package browser

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"croft.dev/croft/test/site"
)

// remote is what an editor on somebody's own machine does with a job: by OpenSSH it starts
// VS Code's server in it, in a shell of no terminal, and talks to that through the same
// connection's SOCKS proxy.
func remote(t *testing.T, s *site.Site) {
	croft(t, s, "ada", "ssh-config", "--write")
	proxy := freePort(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	shell := exec.CommandContext(ctx, filepath.Join(s.Bin(), "as"), "ada", "ssh", "-T", "-o", "ExitOnForwardFailure=yes", "-D", proxy, "code.croft", "bash")
	shell.Stdin = strings.NewReader(`exec /usr/local/bin/node /usr/lib/code-server/lib/vscode/out/server-main.js \
		--host 127.0.0.1 --port 0 --connection-token of-hers --accept-server-license-terms --server-data-dir ~/.vscode-server` + "\n")
	said, err := shell.StdoutPipe()
	must(t, err)
	must(t, shell.Start())
	defer func() { cancel(); _ = shell.Wait() }()

	client := &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "socks5", Host: "127.0.0.1:" + proxy})}}
	c, _, err := websocket.Dial(ctx, "ws://127.0.0.1:"+listens(t, said)+"/?reconnectionToken=1&reconnection=false&skipWebSocketFrames=false", &websocket.DialOptions{HTTPClient: client})
	must(t, err)
	defer c.CloseNow()
	must(t, c.Write(ctx, websocket.MessageBinary, control(t, map[string]string{"type": "auth", "auth": "of-hers", "data": "anything"})))
	_, got, err := c.Read(ctx)
	must(t, err)
	var sign struct{ Type, Data, SignedData string }
	if err := json.Unmarshal(got[min(len(got), controlHeader):], &sign); err != nil || sign.Type != "sign" || sign.Data == "" {
		t.Errorf("it answers %q, %v", got, err)
	}
}

// freePort is a port of this machine's that nothing listens at.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	must(t, err)
	return port
}

// listens reads the port that VS Code's server says.
func listens(t *testing.T, said io.Reader) string {
	t.Helper()
	lines := bufio.NewScanner(said)
	for lines.Scan() {
		if port, ok := strings.CutPrefix(lines.Text(), "Extension host agent listening on "); ok {
			return port
		}
	}
	t.Fatalf("VS Code's server didn't say its port: %v", lines.Err())
	return ""
}

const controlHeader = 13

// control is a message of VS Code's protocol that is about the connection itself: a byte for
// its kind, numbers of 32 bits for itself, what it confirms and its length, then JSON.
func control(t *testing.T, message any) []byte {
	t.Helper()
	body, err := json.Marshal(message)
	must(t, err)
	head := make([]byte, controlHeader)
	head[0] = 2
	binary.BigEndian.PutUint32(head[9:], uint32(len(body)))
	return fmt.Appendf(head, "%s", body)
}
