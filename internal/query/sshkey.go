package query

import (
	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/tenancy"
)

// SSHKeys lists the keys by which a user is known over SSH.
func (r *Reader) SSHKeys(p access.Principal, name string) ([]v1.SSHKey, error) {
	v := r.view(p)
	u, ok := v.w.Tenancy.User(name)
	if !ok || !v.may(access.TokenRun, u.ID, 0) {
		return nil, fault.NotFound("user", clip(name))
	}
	out := []v1.SSHKey{}
	for _, k := range v.w.Tenancy.SSHKeysOf(u.ID) {
		if k.Usable(v.now) {
			out = append(out, r.SSHKeyOf(k))
		}
	}
	return out, nil
}

// SSHKeyOf is a key as the API shows it.
func (r *Reader) SSHKeyOf(k tenancy.SSHKey) v1.SSHKey {
	return v1.SSHKey{Fingerprint: k.Fingerprint, Name: k.Name, Type: k.Type, Created: at(k.Created), Expires: moment(k.Expires)}
}
