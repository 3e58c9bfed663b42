package httpapi

import (
	"context"
	"fmt"
	"strings"
	"testing"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/store"
)

// fakeRegistries takes one password, and seals so that a test can look.
type fakeRegistries struct{}

func (fakeRegistries) Check(_ context.Context, registry, _, password string) error {
	switch {
	case registry == "down.lab":
		return fault.New(codes.Unavailable, "registry down.lab can't be asked: it doesn't answer")
	case !strings.HasPrefix(password, "good"):
		return fault.Invalid("password", "registry %s doesn't take this name with this password", registry)
	}
	return nil
}

func (fakeRegistries) Seal(password, thing string) string {
	return "sealed for " + thing + ": " + strings.Repeat("x", len(password))
}

func TestRegistryLogin(t *testing.T) {
	h := newHarness(t)
	c := h.client("ada")
	good := v1.RegistryLogin{Username: "ada-l", Password: "good-canary-secret"}
	for name, tt := range map[string]struct {
		registry string
		in       v1.RegistryLogin
		code     codes.Code
		says     string
	}{
		"wrong":           {"hub.lab", v1.RegistryLogin{Username: "ada", Password: "bad"}, codes.Invalid, "doesn't take"},
		"down":            {"down.lab", good, codes.Unavailable, "can't be asked"},
		"no registry":     {"hub lab", good, codes.Invalid, "isn't a registry"},
		"no name":         {"hub.lab", v1.RegistryLogin{Password: "good"}, codes.Invalid, "username"},
		"a name of two":   {"hub.lab", v1.RegistryLogin{Username: "a:b", Password: "good"}, codes.Invalid, "colon"},
		"two lines":       {"hub.lab", v1.RegistryLogin{Username: "a\nb", Password: "good"}, codes.Invalid, "one line"},
		"no password":     {"hub.lab", v1.RegistryLogin{Username: "ada"}, codes.Invalid, "password"},
		"a huge secret":   {"hub.lab", v1.RegistryLogin{Username: "ada", Password: "good" + strings.Repeat("x", maxSecret)}, codes.Invalid, "at most"},
		"somebody else's": {"hub.lab", good, codes.NotFound, "no such user"},
	} {
		user := "ada"
		if tt.code == codes.NotFound {
			user = "ben"
		}
		_, err := c.LoginRegistry(t.Context(), user, tt.registry, tt.in)
		if v1.CodeOf(err) != tt.code || !strings.Contains(err.Error(), tt.says) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, as := range []string{"https://HUB.lab", "index.docker.io", "hub.lab"} {
		if _, err := c.LoginRegistry(t.Context(), "ada", as, good); err != nil {
			t.Fatalf("%s: %v", as, err)
		}
	}
	list, err := v1.Collect(c.Registries(t.Context(), "ada"))
	if err != nil || len(list) != 2 || list[0].Registry != "docker.io" || list[1].Registry != "hub.lab" || list[1].Username != "ada-l" {
		t.Errorf("logged in to %+v, %v", list, err)
	}
	ada, _ := h.seq.World().Tenancy.User("ada")
	if got, _ := h.seq.World().Tenancy.Credential(ada.ID, "hub.lab"); !strings.HasPrefix(got.Sealed, "sealed for "+got.Thing()) {
		t.Errorf("kept %+v", got)
	}
	if err := c.LogoutRegistry(t.Context(), "ada", "HUB.lab"); err != nil {
		t.Error(err)
	}
	if err := c.LogoutRegistry(t.Context(), "ada", "hub.lab"); v1.CodeOf(err) != codes.NotFound {
		t.Errorf("logged out twice: %v", err)
	}
}

// A password for a registry is in no answer, no event and nothing that is kept on disk.
func TestRegistryPasswordIsNowhere(t *testing.T) {
	h := newHarness(t)
	const password = "good-canary-password"
	a := h.send(request{method: "PUT", path: "/v1/users/ada/registries/hub.lab", user: "ada", body: v1.RegistryLogin{Username: "ada-l", Password: password}, header: map[string]string{"Idempotency-Key": "k"}})
	if a.status != 200 || strings.Contains(string(a.body), password) {
		t.Fatalf("%d %s", a.status, a.body)
	}
	for _, path := range []string{"/v1/users/ada/registries", "/v1/events", "/v1/users/ada", "/v1/me"} {
		for _, user := range []string{"ada", "root"} {
			if got := h.send(request{method: "GET", path: path, user: user}); strings.Contains(string(got.body), password) || strings.Contains(string(got.body), "sealed for") {
				t.Errorf("%s to %s: %s", path, user, got.body)
			}
		}
	}
	rows, err := h.reader.History.Log(t.Context(), store.LogFilter{}, 1000)
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, e := range rows {
		text := fmt.Sprintf("%s %+v", e.Command, e)
		if strings.Contains(text, password) || strings.Contains(text, "sealed for") || strings.Contains(text, "ada-l") {
			t.Errorf("the log has %s", text)
		}
		if e.Kind == "registry.login" {
			found = e.Key == nil
		}
	}
	if !found {
		t.Error("the log has no row of it, or one with a digest of its body")
	}
}
