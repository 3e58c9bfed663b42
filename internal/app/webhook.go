package app

import (
	"context"
	"errors"

	"croft.dev/croft/internal/config"
	"croft.dev/croft/internal/httpapi"
	"croft.dev/croft/internal/loop/notify"
	"croft.dev/croft/internal/notice"
	"croft.dev/croft/internal/seal"
	"croft.dev/croft/internal/webhook"
)

// hooks posts to users' webhooks, and seals and opens what is signed with.
type hooks struct {
	poster *webhook.Poster
	key    seal.Key
}

// newHooks reads what is posted with; nil: this site posts nothing anywhere.
func newHooks(c config.Webhook, key seal.Key) (*hooks, error) {
	if len(c.Hosts) == 0 {
		return nil, nil
	}
	roots, err := c.Roots()
	if err != nil {
		return nil, err
	}
	return &hooks{webhook.New(webhook.Config{Networks: c.Prefixes(), Roots: roots}), key}, nil
}

// Secret makes a secret for a hook. It implements httpapi.Hooks.
func (h *hooks) Secret(of notice.Hook) (secret, sealed string) {
	secret = webhook.NewSecret()
	return secret, h.key.Seal(secret, of.Thing())
}

// hooksAPI is what makes secrets for the API; nil: the site has no hooks.
func (s *server) hooksAPI() httpapi.Hooks {
	if s.hooks == nil {
		return nil
	}
	return s.hooks
}

// send is for notify.Poster.
func (h *hooks) send(ctx context.Context, p notify.Post) error {
	m := webhook.Message{URL: p.Hook.URL, ID: p.ID, At: p.Now, Body: p.Body}
	for _, sealed := range []string{p.Hook.Sealed, p.Hook.FormerAt(p.Now.UnixNano())} {
		if sealed == "" {
			continue
		}
		secret, err := h.key.Open(sealed, p.Hook.Thing())
		if err != nil {
			return &notify.Unposted{Said: "its secret can't be read on this server: have a new one made (croft notice hook secret " + p.Hook.Name + ")", Err: err}
		}
		m.Secrets = append(m.Secrets, secret)
	}
	err := h.poster.Post(ctx, m)
	var no *webhook.Refused
	switch {
	case err == nil:
		return nil
	case errors.As(err, &no):
		return &notify.Unposted{Code: no.Code, Err: err}
	case errors.Is(err, webhook.ErrForbidden):
		return &notify.Unposted{Said: err.Error(), Err: err}
	}
	return &notify.Unposted{Said: "its server wasn't reached", Err: err}
}
