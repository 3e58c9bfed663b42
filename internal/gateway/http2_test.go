package gateway

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// TestDowngrade has nothing that HTTP/2 can say and HTTP/1.1 can't become a second request, or
// a header, of the one that the application gets.
func TestDowngrade(t *testing.T) {
	h := newHarness(t, "https://croft.example.org", "apps.croft.example.org")
	asked := make(chan string, 100)
	h.app(8888, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		asked <- fmt.Sprintf("%s %s %s %q %v %v", r.Method, r.RequestURI, r.Host, b, r.Header["X-Smuggled"], r.Header["Upgrade"])
	})
	h.web.EnableHTTP2 = true
	h.web.StartTLS()
	const hidden = "GET /admin HTTP/1.1\r\nHost: x\r\nX-Smuggled: 1\r\n\r\n"
	for name, tt := range map[string]struct {
		fields []string // names and values that are added, or take the place of pseudo-headers
		body   string
	}{
		"nothing else":              {nil, ""},
		"a body":                    {[]string{":method", "POST"}, hidden},
		"chunks":                    {[]string{":method", "POST", "transfer-encoding", "chunked"}, "0\r\n\r\n" + hidden},
		"a short length":            {[]string{":method", "POST", "content-length", "0"}, hidden},
		"a long length":             {[]string{":method", "POST", "content-length", "500"}, hidden},
		"two lengths":               {[]string{":method", "POST", "content-length", "0", "content-length", "46"}, hidden},
		"a value of two lines":      {[]string{"x-a", "b\r\nX-Smuggled: 1"}, ""},
		"a value with a request":    {[]string{"x-a", "b\r\n\r\n" + hidden}, ""},
		"a value with a feed":       {[]string{"x-a", "b\nX-Smuggled: 1"}, ""},
		"a name of two lines":       {[]string{"x-a: b\r\nx-smuggled", "1"}, ""},
		"a name with a colon":       {[]string{"x-smuggled: 1\r\nx-a", "1"}, ""},
		"a path of two lines":       {[]string{":path", "/ HTTP/1.1\r\nX-Smuggled: 1\r\nX-A: "}, ""},
		"a path with a request":     {[]string{":path", "/ HTTP/1.1\r\n\r\n" + hidden}, ""},
		"a path with a blank":       {[]string{":path", "/a HTTP/1.1 x"}, ""},
		"a method with a request":   {[]string{":method", "GET /admin HTTP/1.1\r\nX-Smuggled: 1\r\n\r\nGET"}, ""},
		"a host with a request":     {[]string{":authority", "x\r\n\r\n" + hidden}, ""},
		"another host beside":       {[]string{"host", "evil.example"}, ""},
		"a connection":              {[]string{"connection", "upgrade", "upgrade", "websocket"}, ""},
		"a WebSocket as of RFC8441": {[]string{":method", "CONNECT", ":protocol", "websocket"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			host := h.host(lab(h))
			fields := []hpack.HeaderField{{Name: ":method", Value: "GET"}, {Name: ":scheme", Value: "https"}, {Name: ":authority", Value: host}, {Name: ":path", Value: "/"}}
			for i := 0; i < len(tt.fields); i += 2 {
				f := hpack.HeaderField{Name: tt.fields[i], Value: tt.fields[i+1]}
				if at := strings.Index(":method :scheme :authority :path", f.Name); at >= 0 && f.Name[0] == ':' {
					fields[map[string]int{":method": 0, ":scheme": 1, ":authority": 2, ":path": 3}[f.Name]] = f
					continue
				}
				fields = append(fields, f)
			}
			fields = append(fields, hpack.HeaderField{Name: "cookie", Value: h.cookie("ada", lab(h))}, hpack.HeaderField{Name: "origin", Value: h.site.AppOrigin(lab(h))})
			h.frames(fields, tt.body)
			for more := true; more; {
				select {
				case got := <-asked:
					if strings.Contains(got, "/admin") && !strings.Contains(got, `"GET /admin`) || !strings.Contains(got, " "+host+" ") || !strings.HasSuffix(got, "[] []") {
						t.Errorf("the application is asked %s", got)
					}
				default:
					more = false
				}
			}
		})
	}
}

// frames sends a request as HTTP/2 has it, whatever is in it, and waits for an answer or the
// end of the connection.
func (h *harness) frames(fields []hpack.HeaderField, body string) {
	h.t.Helper()
	c, err := tls.Dial("tcp", h.web.Listener.Addr().String(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	if err != nil {
		h.t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	var block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	for _, f := range fields {
		if err := enc.WriteField(f); err != nil {
			h.t.Fatal(err)
		}
	}
	f := http2.NewFramer(c, c)
	_, _ = io.WriteString(c, http2.ClientPreface)
	_ = f.WriteSettings()
	_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: body == ""})
	if body != "" {
		_ = f.WriteData(1, true, []byte(body))
	}
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return
		}
		if end, ok := frame.(*http2.DataFrame); ok && end.StreamEnded() || frame.Header().Type == http2.FrameRSTStream || frame.Header().Type == http2.FrameGoAway {
			return
		}
		if head, ok := frame.(*http2.HeadersFrame); ok && head.StreamEnded() {
			return
		}
	}
}
