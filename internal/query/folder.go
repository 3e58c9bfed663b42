package query

import (
	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/asset"
	"croft.dev/croft/internal/id"
)

// Folders lists the folders that jobs find of accounts that p may see: those accounts',
// those of the accounts above them, which p may not see, and everybody's.
func (r *Reader) Folders(p access.Principal) []v1.Folder {
	v := r.view(p)
	found := map[id.Account]bool{0: true}
	for a := range v.w.Tenancy.Accounts.All() {
		if v.w.Can(p, access.AccountSee, 0, a) {
			for _, above := range v.w.Tenancy.Path(a) {
				found[above] = true
			}
		}
	}
	out := []v1.Folder{}
	for _, f := range v.w.Assets.Folders() {
		if !found[f.Account] {
			continue
		}
		w := r.FolderOf(f)
		if f.Account != 0 && !v.w.Can(p, access.AccountSee, 0, f.Account) {
			w.Account = ""
		}
		out = append(out, w)
	}
	return out
}

// FolderOf is a folder as the API shows it.
func (r *Reader) FolderOf(f asset.Folder) v1.Folder {
	a, _ := r.Worlds.World().Tenancy.Accounts.Get(f.Account)
	return v1.Folder{Account: a.Name, Name: f.Name, Path: f.Path, Target: f.Target, ReadOnly: f.ReadOnly, Env: f.Env, Comment: f.Comment}
}
