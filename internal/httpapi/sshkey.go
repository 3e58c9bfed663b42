package httpapi

import (
	"cmp"
	"strings"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/sshkey"
	"croft.dev/croft/internal/tenancy"
)

func sshKeyOperations() []operation {
	return []operation{
		ask("listSSHKeys", "GET /v1/users/{name}/ssh-keys", "Public keys by which a user is known over SSH", access.TokenRun, (*call).sshKeys),
		tell("addSSHKey", "POST /v1/users/{name}/ssh-keys", "Register a public key for SSH", access.TokenRun, created, (*call).addSSHKey),
		drop("removeSSHKey", "DELETE /v1/users/{name}/ssh-keys/{key}", "Remove a key by its fingerprint, and end what is open by it", access.TokenRun, (*call).removeSSHKey),
	}
}

func (c *call) sshKeys() (v1.Page[v1.SSHKey], error) {
	return page(c.Reader.SSHKeys(c.p, c.path("name")))
}

func (c *call) addSSHKey(in v1.SSHKeyRequest) (v1.SSHKey, error) {
	key, err := sshkey.Parse(in.Key)
	if err != nil {
		return v1.SSHKey{}, fault.Invalid("key", "%v", err)
	}
	name := cmp.Or(in.Name, strings.ToValidUTF8(key.Comment[:min(len(key.Comment), 64)], ""), key.Type)
	if err := oneLine("name", name); err != nil {
		return v1.SSHKey{}, err
	}
	expires, err := moment("expires", in.Expires)
	if err != nil {
		return v1.SSHKey{}, err
	}
	got, err := c.do(command.SSHKeyAdd{User: c.path("name"), Fingerprint: key.Fingerprint, Name: name, Type: key.Type, Blob: key.Blob, Expires: expires})
	if err != nil {
		return v1.SSHKey{}, err
	}
	if row, ok := got.Result.(tenancy.SSHKey); ok {
		return c.Reader.SSHKeyOf(row), nil
	}
	// The request was answered before: the key is as it is now.
	list, err := c.Reader.SSHKeys(c.p, c.path("name"))
	if err != nil {
		return v1.SSHKey{}, err
	}
	for _, k := range list {
		if k.Fingerprint == key.Fingerprint {
			return k, nil
		}
	}
	return v1.SSHKey{}, fault.NotFound("SSH key", key.Fingerprint)
}

func (c *call) removeSSHKey() error {
	_, err := c.do(command.SSHKeyRemove{User: c.path("name"), Fingerprint: c.path("key")})
	return err
}
