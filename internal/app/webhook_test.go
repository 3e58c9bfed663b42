package app

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"croft.dev/croft/internal/config"
	"croft.dev/croft/internal/loop/notify"
	"croft.dev/croft/internal/notice"
	"croft.dev/croft/internal/seal"
)

// What is posted is signed with the secret that was shown, kept sealed, and with the one
// before until its time is over; by another key's server it isn't posted at all.
func TestWebhookIsSigned(t *testing.T) {
	var heads http.Header
	var body []byte
	status := http.StatusNoContent
	l := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		heads = r.Header
		body, _ = io.ReadAll(r.Body)
		w.WriteHeader(status)
	}))
	t.Cleanup(l.Close)
	key, err := seal.New([]byte(strings.Repeat("k", 32)))
	if err != nil {
		t.Fatal(err)
	}
	c := config.Webhook{Hosts: []string{"127.0.0.1"}, Networks: []string{"127.0.0.0/8"}}
	h, err := newHooks(c, key)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	row := notice.Hook{User: 3, Name: "bot", URL: l.URL, Until: now.Add(time.Hour).UnixNano()}
	secret, sealed := h.Secret(row)
	former, sealedBefore := h.Secret(row)
	row.Sealed, row.Former = sealed, sealedBefore
	if strings.Contains(sealed, secret) {
		t.Fatal("the secret isn't sealed")
	}
	send := func(at time.Time) error {
		return h.send(t.Context(), notify.Post{Hook: row, ID: "job_1_end", Body: `{"type":"test"}`, Now: at})
	}
	verifies := func(secret string) bool {
		key, err := standardwebhooks.NewWebhook(secret)
		return err == nil && key.VerifyIgnoringTimestamp(body, heads) == nil
	}
	if err := send(now); err != nil || !verifies(secret) || !verifies(former) {
		t.Errorf("%v: %v", err, heads)
	}
	if err := send(now.Add(2 * time.Hour)); err != nil || !verifies(secret) || verifies(former) {
		t.Errorf("after its time the secret before signs: %v", err)
	}
	status = 410
	var no *notify.Unposted
	if err := send(now); !errors.As(err, &no) || no.Code != 410 {
		t.Errorf("%v", err)
	}
	row.Name, heads = "other", nil // what is sealed for one hook is no other's
	if err := send(now); !errors.As(err, &no) || no.Code != 0 || heads != nil || !strings.Contains(no.Said, "croft notice hook secret") {
		t.Errorf("%v", err)
	}
	c.Networks = nil
	if h, err = newHooks(c, key); err != nil {
		t.Fatal(err)
	}
	row.Name, heads = "bot", nil
	if err := send(now); !errors.As(err, &no) || heads != nil || !strings.Contains(no.Said, "notify.webhook.networks") {
		t.Errorf("%v", err)
	}
}
