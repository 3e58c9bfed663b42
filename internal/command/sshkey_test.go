package command_test

import (
	"fmt"
	"strings"
	"testing"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/tenancy"
)

func TestSSHKeys(t *testing.T) {
	s := newSim(t)
	ada, root := s.user("ada"), s.user("root")
	add := func(fingerprint, name string, expires int64) command.SSHKeyAdd {
		return command.SSHKeyAdd{User: "ada", Fingerprint: fingerprint, Name: name, Type: "ssh-ed25519", Blob: "AAAA", Expires: expires}
	}
	s.must(t, ada, add("SHA256:a", "laptop", 0))
	s.must(t, ada, add("SHA256:a", "desk", s.now+hour)) // anew: another name and end
	if got, _ := s.w.Tenancy.SSHKeys.Get("SHA256:a"); got.Name != "desk" || got.Expires != s.now+hour || !got.Usable(s.now) || got.Usable(s.now+hour) {
		t.Errorf("kept %+v", got)
	}
	if _, err := s.do(ada, add("SHA256:b", "x", s.now)); fault.Of(err) != codes.Invalid {
		t.Errorf("over at once: %v", err)
	}
	theirs := command.SSHKeyAdd{User: "root", Fingerprint: "SHA256:a", Name: "x", Type: "ssh-ed25519", Blob: "AAAA"}
	if _, err := s.do(root, theirs); fault.Of(err) != codes.Conflict || strings.Contains(err.Error(), "ada") {
		t.Errorf("another's key: %v", err)
	}
	s.now += hour // ada's has ended: now it is whoever has the other half's
	s.must(t, root, theirs)
	if _, err := s.do(ada, command.SSHKeyRemove{User: "ada", Fingerprint: "SHA256:a"}); fault.Of(err) != codes.NotFound {
		t.Errorf("removing another's: %v", err)
	}
	user, _ := s.w.Tenancy.User("ada")
	if list := s.w.Tenancy.SSHKeysOf(user.ID); len(list) != 0 {
		t.Errorf("she still has %+v", list)
	}
	s.must(t, root, command.SSHKeyRemove{User: "root", Fingerprint: "SHA256:a"})
	if _, err := s.do(root, command.SSHKeyRemove{User: "root", Fingerprint: "SHA256:a"}); fault.Of(err) != codes.NotFound {
		t.Errorf("removed twice: %v", err)
	}
}

func TestSSHKeysAreBounded(t *testing.T) {
	s := newSim(t)
	ada := s.user("ada")
	add := func(i int, expires int64) command.SSHKeyAdd {
		return command.SSHKeyAdd{User: "ada", Fingerprint: fmt.Sprint("SHA256:", i), Name: "x", Type: "ssh-ed25519", Blob: "AAAA", Expires: expires}
	}
	for i := range tenancy.MaxSSHKeys {
		s.must(t, ada, add(i, s.now+hour))
	}
	if _, err := s.do(ada, add(99, 0)); fault.Of(err) != codes.Conflict {
		t.Errorf("one too many: %v", err)
	}
	s.must(t, ada, add(0, s.now+hour)) // anew is none more
	s.now += hour
	s.must(t, ada, add(99, 0)) // those that are over make room
	if n := s.w.Tenancy.SSHKeys.Len(); n != 1 {
		t.Errorf("%d keys are kept", n)
	}
}
