package query

import (
	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/asset"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/tenancy"
)

// Stored returns a user whom p may see, and the folders of accounts that his jobs may write
// in: those of the accounts that he is a member of and of those above them.
func (r *Reader) Stored(p access.Principal, name string) (tenancy.User, []asset.Folder, error) {
	v := r.view(p)
	user, ok := v.w.Tenancy.User(name)
	if !ok || !v.may(access.UserSee, user.ID, 0) {
		return user, nil, fault.NotFound("user", clip(name))
	}
	found := map[id.Account]bool{}
	for a := range v.w.Tenancy.Accounts.All() {
		if v.w.Tenancy.Role(user.ID, a, v.p.Now) >= access.Member {
			for _, above := range v.w.Tenancy.Path(a) {
				found[above] = true
			}
		}
	}
	var out []asset.Folder
	for _, f := range v.w.Assets.Folders() {
		if found[f.Account] && !f.ReadOnly {
			out = append(out, f)
		}
	}
	return user, out, nil
}

// StorageOf is a folder of an account as the listing of storage names it.
func (r *Reader) StorageOf(p access.Principal, f asset.Folder) v1.Storage {
	v := r.view(p)
	out := v1.Storage{Folder: f.Name, Path: f.Path}
	if a, ok := v.w.Tenancy.Accounts.Get(f.Account); ok && v.w.Can(p, access.AccountSee, 0, f.Account) {
		out.Account = a.Name
	}
	return out
}
