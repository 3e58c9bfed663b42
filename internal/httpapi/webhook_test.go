package httpapi

import (
	"bytes"
	"os"
	"strings"
	"testing"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/internal/notice"
)

// fakeHooks seals so that a test can look.
type fakeHooks struct{}

func (fakeHooks) Secret(of notice.Hook) (secret, sealed string) {
	return "whsec_canary", "sealed for " + of.Thing()
}

// A secret is in the answer to its making alone, and neither it nor the URL, which may be one
// too, is ever in the log.
func TestWebhookSecrets(t *testing.T) {
	h := newHarness(t)
	c := h.client("ada")
	made, err := c.MakeWebhook(t.Context(), "ada", v1.NewWebhook{Name: "chat", URL: "https://bot.example.org/canary-path", Words: "fail"})
	if err != nil || made.Secret != "whsec_canary" || made.Words != "fail" || !made.On || made.FormerUntil != nil {
		t.Fatalf("%v, %+v", err, made)
	}
	again, err := c.RenewWebhook(t.Context(), "ada", "chat")
	if err != nil || again.Secret != "whsec_canary" || again.FormerUntil == nil {
		t.Fatalf("%v, %+v", err, again)
	}
	off := false
	set, err := c.SetWebhook(t.Context(), "ada", "chat", v1.WebhookPatch{On: &off})
	if err != nil || set.Secret != "" || set.On || set.Off == "" {
		t.Fatalf("%v, %+v", err, set)
	}
	list, err := v1.Collect(c.Webhooks(t.Context(), "ada"))
	if err != nil || len(list) != 1 || list[0].Secret != "" || list[0].URL == "" {
		t.Fatalf("%v, %+v", err, list)
	}
	for _, path := range []string{"/v1/audit", "/v1/events"} {
		got := h.send(request{method: "GET", path: path, user: "root"})
		if !bytes.Contains(got.body, []byte("webhook")) || bytes.Contains(got.body, []byte("canary")) || bytes.Contains(got.body, []byte("sealed for")) {
			t.Errorf("%s: %s", path, got.body)
		}
	}
	if err := c.RemoveWebhook(t.Context(), "ada", "chat"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.RenewWebhook(t.Context(), "ada", "chat"); err == nil || !strings.Contains(err.Error(), "no such webhook") {
		t.Errorf("of one that is gone: %v", err)
	}
}

// The guide has each word that a webhook may ask for, and each header that it is posted with.
func TestWebhooksInDocs(t *testing.T) {
	text, err := os.ReadFile("../../docs/guide/webhooks.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range append(notice.Words(), "webhook-id", "webhook-timestamp", "webhook-signature", "account.budget") {
		if !strings.Contains(string(text), word) {
			t.Errorf("docs/guide/webhooks.md doesn't say what %s is", word)
		}
	}
}
