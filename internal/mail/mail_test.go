package mail_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	stdmail "net/mail"
	"strings"
	"testing"
	"time"

	"croft.dev/croft/internal/mail"
	"croft.dev/croft/test/mailbox"
)

const password = "s3cret-of-the-post"

// server is one with a certificate for example.com, which the pool knows.
func server(t *testing.T, cfg mailbox.Config) (*mailbox.Server, mail.Config) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := mailbox.Serve(ln, cfg)
	t.Cleanup(func() { _ = s.Close() })
	port := ln.Addr().(*net.TCPAddr).Port
	return s, mail.Config{
		Host: "example.com", Port: port, TLS: mail.Plain, From: "Croft <croft@example.org>", Helo: "croft.example.org", Timeout: 10 * time.Second,
		Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, fmt.Sprintf("127.0.0.1:%d", port))
		},
	}
}

func certificate(t *testing.T) (*tls.Config, *x509.CertPool) {
	t.Helper()
	web := httptest.NewTLSServer(nil)
	t.Cleanup(web.Close)
	pool := x509.NewCertPool()
	pool.AddCert(web.Certificate())
	return &tls.Config{Certificates: web.TLS.Certificates}, pool
}

func send(t *testing.T, cfg mail.Config, m mail.Message) error {
	t.Helper()
	sender, err := mail.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s, err := sender.Open(t.Context())
	if err != nil {
		return err
	}
	return errors.Join(s.Send(m), s.Close())
}

var message = mail.Message{ID: "job.1.end.u2@instance", To: "ada@example.org", Subject: "job 1 has ended", Body: "Job 1 has ended.\n", At: time.Date(2026, 12, 3, 9, 0, 0, 0, time.UTC)}

// However the connection is kept from others, the mail arrives; where it can't be, nothing
// is sent, and no error tells the password.
func TestHowItIsReached(t *testing.T) {
	secure, pool := certificate(t)
	word := func() (string, error) { return password, nil }
	tests := map[string]struct {
		server mailbox.Config
		change func(*mail.Config)
		bad    string
	}{
		"plain":                       {mailbox.Config{}, func(*mail.Config) {}, ""},
		"starttls":                    {mailbox.Config{TLS: secure}, func(c *mail.Config) { c.TLS, c.Roots = mail.StartTLS, pool }, ""},
		"implicit":                    {mailbox.Config{TLS: secure, Implicit: true}, func(c *mail.Config) { c.TLS, c.Roots = mail.Implicit, pool }, ""},
		"starttls that isn't offered": {mailbox.Config{}, func(c *mail.Config) { c.TLS, c.Roots = mail.StartTLS, pool }, "STARTTLS"},
		"a certificate of nobody":     {mailbox.Config{TLS: secure}, func(c *mail.Config) { c.TLS = mail.StartTLS }, "certificate"},
		"another's certificate":       {mailbox.Config{TLS: secure}, func(c *mail.Config) { c.TLS, c.Roots, c.Host = mail.StartTLS, pool, "other.org" }, "other.org"},
		"login": {mailbox.Config{TLS: secure, User: "croft", Password: password}, func(c *mail.Config) {
			c.TLS, c.Roots, c.Username, c.Password = mail.StartTLS, pool, "croft", word
		}, ""},
		"login without TLS": {mailbox.Config{User: "croft", Password: password}, func(c *mail.Config) { c.Username, c.Password = "croft", word }, ""},
		"wrong password": {mailbox.Config{TLS: secure, User: "croft", Password: "other"}, func(c *mail.Config) {
			c.TLS, c.Roots, c.Username, c.Password = mail.StartTLS, pool, "croft", word
		}, "535"},
		"no login where one is wanted": {mailbox.Config{TLS: secure, User: "croft", Password: password}, func(c *mail.Config) { c.TLS, c.Roots = mail.StartTLS, pool }, "530"},
		"no password": {mailbox.Config{}, func(c *mail.Config) {
			c.Username, c.Password = "croft", func() (string, error) { return "", errors.New("no file") }
		}, "no file"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			box, cfg := server(t, tt.server)
			tt.change(&cfg)
			err := send(t, cfg, message)
			if tt.bad == "" {
				if err != nil || len(box.Mails()) != 1 {
					t.Fatalf("%v, %d mails", err, len(box.Mails()))
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.bad) || strings.Contains(err.Error(), password) || len(box.Mails()) != 0 {
				t.Errorf("%v, %d mails", err, len(box.Mails()))
			}
		})
	}
}

// What a mail is, read by who knows nothing of how it was made.
func TestWhatArrives(t *testing.T) {
	box, cfg := server(t, mailbox.Config{})
	m := message
	m.Subject, m.Body = "job 1 übung has ended", "Job 1 übung has ended: "+strings.Repeat("x", 2000)+"\n.\nno end\n"
	if err := send(t, cfg, m); err != nil {
		t.Fatal(err)
	}
	got := box.Mails()[0]
	read, err := stdmail.ReadMessage(strings.NewReader(got.Data))
	if err != nil {
		t.Fatal(err)
	}
	subject, err := wordDecoder.DecodeHeader(read.Header.Get("Subject"))
	if err != nil || subject != m.Subject {
		t.Errorf("subject %q, %v", subject, err)
	}
	for name, want := range map[string]string{
		"Message-Id": "<job.1.end.u2@instance>", "To": "<ada@example.org>", "From": `"Croft" <croft@example.org>`, "Auto-Submitted": "auto-generated", "Date": "Thu, 03 Dec 2026 09:00:00 +0000",
	} {
		if read.Header.Get(name) != want {
			t.Errorf("%s is %q, want %q", name, read.Header.Get(name), want)
		}
	}
	body, err := io.ReadAll(quoted(read.Body))
	if err != nil || strings.ReplaceAll(string(body), "\r\n", "\n") != m.Body {
		t.Errorf("%q, %v", body, err)
	}
	for line := range strings.Lines(got.Data) {
		if len(line) > 1000 {
			t.Errorf("a line of %d bytes", len(line))
		}
	}
}

// One that the server doesn't take is told from a server that is of no use.
func TestWhatIsRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		box     mailbox.Config
		to      string
		refused bool
		never   bool
		code    int
	}{
		"no such user": {mailbox.Config{Rcpt: func(string) error { return mailbox.Answer(550, "no such user") }}, "", true, true, 550},
		"greylisted":   {mailbox.Config{Rcpt: func(string) error { return mailbox.Answer(451, "later") }}, "", true, false, 451},
		"full":         {mailbox.Config{Taken: func(mailbox.Mail) error { return mailbox.Answer(452, "full") }}, "", true, false, 452},
		"spam":         {mailbox.Config{Taken: func(mailbox.Mail) error { return mailbox.Answer(554, "spam") }}, "", true, true, 554},
		"closing":      {mailbox.Config{Rcpt: func(string) error { return mailbox.Answer(421, "closing") }}, "", false, false, 0},
		"no address":   {mailbox.Config{}, "ada@example.org>\r\nRCPT TO:<x@y.org", true, true, 0},
		"several":      {mailbox.Config{}, "ada@example.org, ben@example.org", true, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			_, cfg := server(t, tt.box)
			m := message
			if tt.to != "" {
				m.To = tt.to
			}
			err := send(t, cfg, m)
			var no *mail.Refused
			if refused := errors.As(err, &no); err == nil || refused != tt.refused || refused && (no.Never != tt.never || no.Code != tt.code) {
				t.Errorf("%v: %+v", err, no)
			}
		})
	}
}

// A server that goes away after it has taken a mail is one that has taken it.
func TestTakenIsTaken(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		in := bufio.NewReader(c)
		fmt.Fprint(c, "220 localhost\r\n")
		for data := false; ; {
			line, err := in.ReadString('\n')
			switch {
			case err != nil:
				return
			case data && line == ".\r\n":
				fmt.Fprint(c, "250 taken\r\n")
				return // before it is told goodbye
			case data:
			case strings.HasPrefix(line, "DATA"):
				data = true
				fmt.Fprint(c, "354 go on\r\n")
			default:
				fmt.Fprint(c, "250 ok\r\n")
			}
		}
	}()
	_, cfg := server(t, mailbox.Config{})
	cfg.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, ln.Addr().String())
	}
	sender, err := mail.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s, err := sender.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Send(message); err != nil {
		t.Error(err)
	}
	if err := s.Send(message); err == nil {
		t.Error("a second one is taken by nobody")
	}
	_ = s.Close() // it is gone already
}

// Whoever may not go on sends nothing more: the connection ends with its context.
func TestItEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	box, cfg := server(t, mailbox.Config{Rcpt: func(string) error { cancel(); return nil }})
	sender, err := mail.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s, err := sender.Open(ctx)
	if err != nil {
		t.Fatal(err)
	}
	// Whether this one still gets through is a matter of chance; the next doesn't.
	_ = s.Send(message)
	before := len(box.Mails())
	if err := s.Send(message); err == nil || len(box.Mails()) != before {
		t.Errorf("%v, %d mails", err, len(box.Mails()))
	}
}

// Whatever a text has in it, it makes no header and no recipient.
func FuzzHeaders(f *testing.F) {
	for _, s := range []string{"a\r\nBcc: x@y.org", "a\nb", "\u2028Bcc: x@y.org", "\xff\xfe", "=?utf-8?q?a=0D=0ABcc:_x@y.org?=", strings.Repeat("é ", 500), "\r\n\r\nbody", ""} {
		f.Add(s, s)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		f.Fatal(err)
	}
	box := mailbox.Serve(ln, mailbox.Config{})
	f.Cleanup(func() { _ = box.Close() })
	sender, err := mail.New(mail.Config{Host: "127.0.0.1", Port: ln.Addr().(*net.TCPAddr).Port, TLS: mail.Plain, From: "croft@example.org"})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, subject, id string) {
		s, err := sender.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close() //nolint:errcheck // it has been sent
		if err := s.Send(mail.Message{ID: id, To: "ada@example.org", Subject: subject, Body: subject, At: time.Unix(0, 0)}); err != nil {
			t.Fatal(err)
		}
		all := box.Mails()
		got := all[len(all)-1]
		read, err := stdmail.ReadMessage(strings.NewReader(got.Data))
		if err != nil {
			t.Fatalf("%v in %q", err, got.Data)
		}
		for name := range read.Header {
			switch name {
			case "Auto-Submitted", "Content-Transfer-Encoding", "Content-Type", "Date", "From", "Message-Id", "Mime-Version", "Subject", "To", "User-Agent", "X-Mailer":
			default:
				t.Errorf("a header %s: %q", name, got.Data)
			}
		}
		if got.To != "ada@example.org" || len(read.Header["To"]) != 1 || len(read.Header["Subject"]) > 1 {
			t.Errorf("%q", got.Data)
		}
	})
}
