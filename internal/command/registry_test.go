package command_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/tenancy"
)

func TestRegistryLogins(t *testing.T) {
	s := newSim(t)
	ada := s.user("ada")
	login := func(registry, sealed string) command.RegistryLogin {
		return command.RegistryLogin{User: "ada", Registry: registry, Username: "ada-l", Sealed: sealed}
	}
	s.must(t, ada, login("ghcr.io", "one"))
	s.now++
	s.must(t, ada, login("ghcr.io", "two"))
	if _, err := s.do(ada, login("ghcr.io", "")); fault.Of(err) != codes.Invalid {
		t.Errorf("without a password: %v", err)
	}
	user, _ := s.w.Tenancy.User("ada")
	if got, ok := s.w.Tenancy.Credential(user.ID, "ghcr.io"); !ok || got.Sealed != "two" || got.Changed != s.now {
		t.Errorf("kept %+v, %v", got, ok)
	}
	for i := range tenancy.MaxCredentials - 1 {
		s.must(t, ada, login(fmt.Sprintf("r%d.lab", i), "x"))
	}
	if _, err := s.do(ada, login("last.lab", "x")); fault.Of(err) != codes.Conflict {
		t.Errorf("one too many: %v", err)
	}
	s.must(t, ada, login("ghcr.io", "three")) // anew is none more
	s.must(t, ada, command.RegistryLogout{User: "ada", Registry: "ghcr.io"})
	if _, err := s.do(ada, command.RegistryLogout{User: "ada", Registry: "ghcr.io"}); fault.Of(err) != codes.NotFound {
		t.Errorf("logged out twice: %v", err)
	}
	if list := s.w.Tenancy.CredentialsOf(user.ID); len(list) != tenancy.MaxCredentials-1 || list[0].Registry != "r0.lab" {
		t.Errorf("%d are left, first %+v", len(list), list[0])
	}
	kept, err := json.Marshal(login("ghcr.io", "sealed-text"))
	if err != nil || strings.Contains(string(kept), "sealed-text") || strings.Contains(string(kept), "ada-l") {
		t.Errorf("the log keeps %s, %v", kept, err)
	}
}

func TestRepositoryIsPrivateOnce(t *testing.T) {
	s := newSim(t)
	s.must(t, system, command.RepositoryPrivate{Name: "ghcr.io/lab/train"})
	seq := s.w.Catalog.Repositories.Len()
	s.must(t, system, command.RepositoryPrivate{Name: "ghcr.io/lab/train"})
	if !s.w.Catalog.Private("ghcr.io/lab/train") || s.w.Catalog.Private("ghcr.io/lab") || s.w.Catalog.Repositories.Len() != seq {
		t.Errorf("%d repositories", s.w.Catalog.Repositories.Len())
	}
}
