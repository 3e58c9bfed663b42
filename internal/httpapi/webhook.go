package httpapi

import (
	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/notice"
	"croft.dev/croft/internal/sequencer"
)

// Hooks makes secrets of webhooks.
type Hooks interface {
	// Secret makes one for a hook, and what is kept of it: sealed for that hook alone.
	Secret(of notice.Hook) (secret, sealed string)
}

func webhookOperations() []operation {
	return []operation{
		ask("listWebhooks", "GET /v1/users/{name}/webhooks", "URLs that a user has notices posted to, without their secrets", access.TokenRun, (*call).webhooks),
		tell("makeWebhook", "POST /v1/users/{name}/webhooks", "Have notices posted to a URL; the secret that they are signed with is in this answer only", access.TokenRun, created, (*call).makeWebhook),
		tell("setWebhook", "PATCH /v1/users/{name}/webhooks/{webhook}", "Change where notices are posted, and which, or whether any are", access.TokenRun, ok, (*call).setWebhook),
		ask("renewWebhook", "POST /v1/users/{name}/webhooks/{webhook}/secret", "Make a new secret for a webhook, in this answer only; for a day the one before signs too", access.TokenRun, (*call).renewWebhook),
		drop("removeWebhook", "DELETE /v1/users/{name}/webhooks/{webhook}", "Post no notices to a URL any more", access.TokenRun, (*call).removeWebhook),
	}
}

func (c *call) webhooks() (v1.Page[v1.Webhook], error) {
	return page(c.Reader.Webhooks(c.p, c.path("name")))
}

func (c *call) makeWebhook(in v1.NewWebhook) (v1.Webhook, error) {
	return c.withSecret(in.Name, command.HookPut{Create: true, URL: &in.URL, Wants: &in.Words, Account: in.Account})
}

func (c *call) setWebhook(in v1.WebhookPatch) (v1.Webhook, error) {
	got, err := c.do(command.HookPut{User: c.path("name"), Name: c.path("webhook"), URL: in.URL, Wants: in.Words, On: in.On})
	if err != nil {
		return v1.Webhook{}, err
	}
	return c.webhook(got)
}

func (c *call) renewWebhook() (v1.Webhook, error) {
	return c.withSecret(c.path("webhook"), command.HookPut{})
}

// withSecret has a hook made or changed so that what is posted is signed with a new secret.
func (c *call) withSecret(name string, cmd command.HookPut) (v1.Webhook, error) {
	cmd.User, cmd.Name = c.path("name"), name
	secret := ""
	if user, ok := c.Sequencer.World().Tenancy.User(cmd.User); ok && c.Hooks != nil { // otherwise there are none, as Decide says
		secret, cmd.Sealed = c.Hooks.Secret(notice.Hook{User: user.ID, Name: name})
	}
	got, err := c.do(cmd)
	if err != nil {
		return v1.Webhook{}, err
	}
	out, err := c.webhook(got)
	out.Secret = secret
	return out, err
}

func (c *call) webhook(got sequencer.Answer) (v1.Webhook, error) {
	if got.Replayed != nil {
		return v1.Webhook{}, fault.New(codes.Exists, "this was done before; a secret was in that answer only")
	}
	row, isRow := got.Result.(notice.Hook)
	if !isRow {
		return v1.Webhook{}, unexpected(got)
	}
	return c.Reader.Webhook(c.p, row), nil
}

func (c *call) removeWebhook() error {
	_, err := c.do(command.HookRemove{User: c.path("name"), Name: c.path("webhook")})
	return err
}
