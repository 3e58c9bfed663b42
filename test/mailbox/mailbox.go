// Package mailbox is a mail server for tests: it takes mail by SMTP, refuses what it is told
// to, and keeps what it has taken.
package mailbox

import (
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
)

// Config of a server. Without TLS it has none; Implicit has it from the first byte.
type Config struct {
	TLS            *tls.Config
	Implicit       bool
	User, Password string // "": nobody logs in
	Dir            string // where mail is appended to a file by its recipient; "": nowhere
	// Rcpt says whether it takes mail to an address; nil: it does. Errors as Answer makes
	// them are said to the client.
	Rcpt func(to string) error
	// Taken is called when a mail is kept and before that is said; an error is said in its
	// place. nil: it isn't called.
	Taken func(Mail) error
}

// Mail is one that was taken.
type Mail struct{ From, To, Data string }

// Answer is what is said in place of an agreement.
func Answer(code int, text string) error {
	return &smtp.SMTPError{Code: code, EnhancedCode: smtp.NoEnhancedCode, Message: text}
}

// Server is a running server.
type Server struct {
	cfg  Config
	smtp *smtp.Server

	mu    sync.Mutex
	mails []Mail
}

// Serve answers on ln until Close.
func Serve(ln net.Listener, cfg Config) *Server {
	s := &Server{cfg: cfg}
	s.smtp = smtp.NewServer(s)
	s.smtp.Domain, s.smtp.AllowInsecureAuth, s.smtp.ErrorLog = "localhost", true, log.New(io.Discard, "", 0)
	s.smtp.ReadTimeout, s.smtp.WriteTimeout = time.Minute, time.Minute
	s.smtp.TLSConfig = cfg.TLS
	if cfg.Implicit {
		ln = tls.NewListener(ln, cfg.TLS)
	}
	go func() { _ = s.smtp.Serve(ln) }() // it ends with Close
	return s
}

// Close ends the server and its connections.
func (s *Server) Close() error { return s.smtp.Close() }

// Mails are those that were taken, in order.
func (s *Server) Mails() []Mail {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.mails)
}

func (s *Server) keep(m Mail) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mails = append(s.mails, m)
	if s.cfg.Dir == "" {
		return nil
	}
	f, err := os.OpenFile(filepath.Join(s.cfg.Dir, filepath.Base(m.To)), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "%s\n", m.Data)
	if failed := f.Close(); err == nil {
		err = failed
	}
	return err
}

// NewSession implements smtp.Backend.
func (s *Server) NewSession(*smtp.Conn) (smtp.Session, error) { return &session{server: s}, nil }

// session is one connection. It is the library's interface.
type session struct {
	server *Server
	known  bool
	mail   Mail
}

var _ smtp.AuthSession = (*session)(nil)

// AuthMechanisms implements smtp.AuthSession.
func (s *session) AuthMechanisms() []string {
	if s.server.cfg.User == "" {
		return nil
	}
	return []string{sasl.Plain}
}

// Auth implements smtp.AuthSession.
func (s *session) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		if user != s.server.cfg.User || password != s.server.cfg.Password {
			return Answer(535, "who is that?")
		}
		s.known = true
		return nil
	}), nil
}

// Mail implements smtp.Session.
func (s *session) Mail(from string, _ *smtp.MailOptions) error {
	if s.server.cfg.User != "" && !s.known {
		return Answer(530, "log in first")
	}
	s.mail = Mail{From: from}
	return nil
}

// Rcpt implements smtp.Session.
func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	if s.server.cfg.Rcpt != nil {
		if err := s.server.cfg.Rcpt(to); err != nil {
			return err
		}
	}
	s.mail.To = to
	return nil
}

// Data implements smtp.Session.
func (s *session) Data(r io.Reader) error {
	text, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	s.mail.Data = string(text)
	if err := s.server.keep(s.mail); err != nil || s.server.cfg.Taken == nil {
		return err
	}
	return s.server.cfg.Taken(s.mail)
}

// Reset implements smtp.Session.
func (s *session) Reset() { s.mail = Mail{} }

// Logout implements smtp.Session.
func (s *session) Logout() error { return nil }
