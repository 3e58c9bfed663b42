package gateway

import (
	"net/http"
	"strings"
	"testing"

	"croft.dev/croft/internal/address"
	"croft.dev/croft/internal/command"
)

// linked is a link to ada's first application as croft app open gives it out over the socket,
// where nobody has shown a token.
func (h *harness) linked(user string) string {
	h.t.Helper()
	to, _, err := h.tickets.URL(h.logins.user(user).ID, 0, lab(h), "/")
	if err != nil {
		h.t.Fatal(err)
	}
	return to
}

// TestLinksEnd: a browser that came in by a link is logged out like any other, at all the
// addresses to which links led, by the page, by the end of sessions and by another password.
func TestLinksEnd(t *testing.T) {
	for name, end := range map[string]func(h *harness, page *browser){
		"the page": func(h *harness, page *browser) {
			page.form(h.site.URL("/logout"), h.site.Origin(), nil)
		},
		"the sessions": func(h *harness, _ *browser) { h.as("ada", command.SessionsEnd{User: "ada"}) },
		"the password": func(h *harness, _ *browser) { h.as("ada", command.PasswordPut{User: "ada", Hash: "another"}) },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, "", address.DomainAuto)
			h.app(8888, echo)
			one, page := h.browser(), h.browser()
			if got := one.get(h.linked("ada")); !strings.Contains(got.body, "as ada (owner)") {
				t.Fatalf("%d %q", got.StatusCode, got.body)
			}
			first, _, err := h.tickets.Page(h.logins.user("ada").ID, 0, "/")
			if err != nil {
				t.Fatal(err)
			}
			if got := page.get(first); !strings.Contains(got.body, "ada") {
				t.Fatalf("the first page: %d %q", got.StatusCode, got.body)
			}
			end(h, page)
			if got := one.get(h.site.AppURL(lab(h), "/")); strings.Contains(got.body, "as ada") {
				t.Errorf("the application lets it in: %q", got.body)
			}
			if got := one.get(h.linked("ada")); !strings.Contains(got.body, "as ada (owner)") {
				t.Errorf("by another link: %d %q", got.StatusCode, got.body)
			}
		})
	}
}

// TestLinksOfOthers don't change who a browser is.
func TestLinksOfOthers(t *testing.T) {
	h := newHarness(t, "", address.DomainAuto)
	h.app(8888, echo)
	b := h.browser()
	if got := b.get(h.linked("ben")); strings.Contains(got.body, "as ben") {
		t.Fatalf("ben is let in: %q", got.body) // he is known there, and turned away
	}
	if got := b.get(h.linked("ada")); got.StatusCode != http.StatusConflict || !strings.Contains(got.body, "known as ben") {
		t.Errorf("ada's: %d %q", got.StatusCode, got.body)
	}
	h.as("ben", command.SessionsEnd{User: "ben"})
	if got := b.get(h.linked("ada")); !strings.Contains(got.body, "as ada") {
		t.Errorf("ada's, when he is gone: %d %q", got.StatusCode, got.body)
	}
}

// TestLinksArePages: what a page shows, or a program looks at beforehand, spends nothing.
func TestLinksArePages(t *testing.T) {
	h := newHarness(t, "", address.DomainAuto)
	h.app(8888, echo)
	to, b := h.linked("ada"), h.browser()
	for _, dest := range []string{"image", "iframe", "script", "empty"} {
		r := b.request("GET", to, nil)
		r.Header.Set("Sec-Fetch-Dest", dest)
		if got := b.send(r); got.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("%s: %d", dest, got.StatusCode)
		}
	}
	r := b.request("GET", to, nil)
	r.Header.Set("Sec-Fetch-Dest", "document")
	if got := b.send(r); !strings.Contains(got.body, "as ada") {
		t.Errorf("after that: %d %q", got.StatusCode, got.body)
	}
}
