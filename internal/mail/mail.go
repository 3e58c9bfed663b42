// Package mail hands mail to one server by SMTP. It says of what isn't taken whether it
// ever will be; what follows from that is decided elsewhere.
package mail

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	stdmail "net/mail"
	"strings"
	"time"
	"unicode"

	gomail "github.com/wneessen/go-mail"
)

// How the connection to the server is kept from others.
const (
	StartTLS = "starttls" // plain at first, and then TLS or nothing
	Implicit = "implicit" // TLS from the first byte
	Plain    = "none"     // not at all
)

// Config says which server, and as whom. Password is asked for at each connection, so that
// a changed one needs no restart.
type Config struct {
	Host     string
	Port     int
	TLS      string
	Roots    *x509.CertPool // that the server's certificate is checked against; nil: the machine's
	Username string         // "": no login
	Password func() (string, error)
	From     string        // an address, perhaps with a name
	Helo     string        // what this machine calls itself
	Timeout  time.Duration // of each step
	Dial     func(ctx context.Context, network, address string) (net.Conn, error)
}

// Message is one mail to one address.
type Message struct {
	ID      string // Message-ID without its brackets: the same again for the same mail
	To      string
	Subject string
	Body    string // plain text
	At      time.Time
}

// Refused says that the server answered, and doesn't take this message.
type Refused struct {
	Code  int  // of SMTP
	Never bool // there is no use in trying again
	err   error
}

func (r *Refused) Error() string { return r.err.Error() }

// Unwrap is what the server said.
func (r *Refused) Unwrap() error { return r.err }

// Sender opens connections to the server.
type Sender struct {
	cfg  Config
	from *stdmail.Address
}

// New returns a sender; the error says which part of the config is wrong.
func New(cfg Config) (*Sender, error) {
	from, err := stdmail.ParseAddress(cfg.From)
	if err != nil {
		return nil, fmt.Errorf("from: %w", err)
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = 30 * time.Second
	}
	return &Sender{cfg, from}, nil
}

// Session is one connection, for one goroutine.
type Session struct {
	client *gomail.Client
	from   *stdmail.Address
	end    context.CancelFunc
}

// Open connects and logs in. It ends with ctx. No error holds the password.
func (s *Sender) Open(ctx context.Context) (*Session, error) {
	ctx, end := context.WithCancel(ctx)
	opts, err := s.options(ctx)
	if err != nil {
		end()
		return nil, err
	}
	client, err := gomail.NewClient(s.cfg.Host, opts...)
	if err == nil {
		err = client.DialWithContext(ctx)
	}
	if err != nil {
		end()
		return nil, fmt.Errorf("mail server %s:%d: %w", s.cfg.Host, s.cfg.Port, err)
	}
	return &Session{client, s.from, end}, nil
}

func (s *Sender) options(ctx context.Context) ([]gomail.Option, error) {
	tlsConfig := &tls.Config{ServerName: s.cfg.Host, RootCAs: s.cfg.Roots, MinVersion: tls.VersionTLS12}
	opts := []gomail.Option{
		gomail.WithPort(s.cfg.Port), gomail.WithTimeout(s.cfg.Timeout), gomail.WithTLSConfig(tlsConfig), gomail.WithDialContextFunc(s.dial(ctx, tlsConfig)),
	}
	if s.cfg.TLS == StartTLS {
		opts = append(opts, gomail.WithTLSPolicy(gomail.TLSMandatory))
	} else {
		opts = append(opts, gomail.WithTLSPolicy(gomail.NoTLS))
	}
	if s.cfg.TLS == Implicit {
		opts = append(opts, gomail.WithSSL())
	}
	if s.cfg.Helo != "" {
		opts = append(opts, gomail.WithHELO(s.cfg.Helo))
	}
	if s.cfg.Username == "" {
		return opts, nil
	}
	password, err := s.cfg.Password()
	if err != nil {
		return nil, err
	}
	auth := gomail.SMTPAuthAutoDiscover
	if s.cfg.TLS == Plain {
		auth = gomail.SMTPAuthPlainNoEnc
	}
	return append(opts, gomail.WithSMTPAuth(auth), gomail.WithUsername(s.cfg.Username), gomail.WithPassword(password)), nil
}

// dial makes connections that end with ctx, whatever is being waited for.
func (s *Sender) dial(ctx context.Context, tlsConfig *tls.Config) gomail.DialContextFunc {
	plain := s.cfg.Dial
	if plain == nil {
		plain = (&net.Dialer{}).DialContext
	}
	return func(dialing context.Context, network, address string) (net.Conn, error) {
		c, err := plain(dialing, network, address)
		if err != nil {
			return nil, err
		}
		context.AfterFunc(ctx, func() { _ = c.Close() })
		if s.cfg.TLS != Implicit {
			return c, nil
		}
		secure := tls.Client(c, tlsConfig)
		if err := secure.HandshakeContext(dialing); err != nil {
			return nil, errors.Join(err, c.Close())
		}
		return secure, nil
	}
}

// Send hands one message over. A *Refused says that the server didn't take this one; any
// other error that the connection is of no use any more, and that it isn't known whether it
// was taken. Without an error it was.
func (s *Session) Send(m Message) error {
	msg, err := s.message(m)
	if err != nil {
		return &Refused{Never: true, err: err}
	}
	err = s.client.Send(msg)
	if msg.IsDelivered() {
		return nil // whatever was said after that
	}
	if err == nil {
		return errors.New("the mail server said nothing")
	}
	var failed *gomail.SendError
	if errors.As(err, &failed) && failed.ErrorCode() >= 400 && failed.ErrorCode() != 421 { // 421: it is closing
		return &Refused{Code: failed.ErrorCode(), Never: failed.ErrorCode() >= 500, err: err}
	}
	return err
}

// message is a message as it is sent. Nothing in it can end a header's line.
func (s *Session) message(m Message) (*gomail.Msg, error) {
	msg := gomail.NewMsg(gomail.WithCharset(gomail.CharsetUTF8), gomail.WithEncoding(gomail.EncodingQP), gomail.WithNoDefaultUserAgent())
	msg.FromMailAddress(s.from)
	to, err := stdmail.ParseAddress(m.To)
	if err != nil || to.Name != "" {
		return nil, fmt.Errorf("%q is no address", m.To)
	}
	msg.ToMailAddress(to)
	msg.SetMessageIDWithValue(oneLine(m.ID))
	msg.SetDateWithValue(m.At)
	msg.Subject(oneLine(m.Subject))
	msg.SetGenHeader("Auto-Submitted", "auto-generated") // RFC 3834: no answering machine answers
	msg.SetBodyString(gomail.TypeTextPlain, m.Body)
	return msg, nil
}

// oneLine is text without what could end a line or turn it round.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.In(r, unicode.Zl, unicode.Zp, unicode.Bidi_Control) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

// Close ends the connection. What was taken stays taken.
func (s *Session) Close() error {
	defer s.end()
	return s.client.Close()
}
