package app

import (
	"context"
	"errors"
	"os"
	"time"

	"croft.dev/croft/internal/loop/notify"
	"croft.dev/croft/internal/mail"
)

// newNotify makes the loop that tells people things. s.post is set if there is a mail
// server.
func (s *server) newNotify() *notify.Loop {
	c := s.Config.Notify
	cfg := notify.Config{
		Port: s.port, Outbox: s.store, Instance: s.head.Instance, Server: s.Config.PublicURL, Zone: location(s.Config.TimeZone),
		Keep: c.Keep.Std(), PerHour: int64(c.Mail.Hourly), Log: s.Log,
	}
	cfg.Hooks = s.hooks != nil
	if s.post != nil {
		cfg.Open = s.openMail
	}
	return notify.New(cfg)
}

// newPoster makes the loop that posts to users' webhooks. s.hooks is set if the site has any.
func (s *server) newPoster() *notify.Poster {
	c := s.Config.Notify
	cfg := notify.PosterConfig{
		Port: s.port, Outbox: s.store, Instance: s.head.Instance, Keep: c.Keep.Std(), PerHour: int64(c.Webhook.Hourly), Log: s.Log,
	}
	if s.hooks != nil {
		cfg.Send = s.hooks.send
	}
	return notify.NewPoster(cfg)
}

// newPost reads what the mail server is reached with; nil: there is none.
func (s *server) newPost() (*mail.Sender, error) {
	m := s.Config.Notify.Mail
	if m.Host == "" {
		return nil, nil
	}
	roots, err := m.Roots()
	if err != nil {
		return nil, err
	}
	if _, err := m.Password(); err != nil {
		return nil, err
	}
	host, _ := os.Hostname() // a server may want to know, and takes less
	return mail.New(mail.Config{Host: m.Host, Port: m.Port, TLS: m.TLS, Roots: roots, Username: m.Username, Password: m.Password, From: m.From, Helo: host})
}

func (s *server) openMail(ctx context.Context) (notify.Session, error) {
	session, err := s.post.Open(ctx)
	if err != nil {
		return nil, err
	}
	return mailSession{session}, nil
}

// mailSession is a session as the loop knows it.
type mailSession struct{ *mail.Session }

// Send implements notify.Session.
func (m mailSession) Send(n notify.Mail) error {
	err := m.Session.Send(mail.Message{ID: n.ID, To: n.To, Subject: n.Subject, Body: n.Body, At: n.At})
	var no *mail.Refused
	if errors.As(err, &no) {
		return &notify.Refusal{Never: no.Never, Code: no.Code, Err: err}
	}
	return err
}

// location is the site's time zone; the configuration was checked.
func location(name string) *time.Location {
	if name == "" {
		return time.Local
	}
	loc, err := time.LoadLocation(name)
	if err != nil {
		return time.UTC
	}
	return loc
}
