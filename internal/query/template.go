package query

import (
	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/asset"
	"croft.dev/croft/internal/id"
)

// Templates lists users' templates: for an empty name those that p may use, for a user's
// name, or * for everybody's, those that p may see.
func (r *Reader) Templates(p access.Principal, user string) []v1.Template {
	v := r.view(p)
	var out []v1.Template
	for _, t := range v.w.Assets.Templates() {
		if !v.w.SeesTemplate(p, t) {
			continue
		}
		wire := r.TemplateOf(t)
		if user == "*" || user == wire.User || user == "" && t.Usable(&v.w.Tenancy, id.User(p.User), v.p.Now) {
			out = append(out, wire)
		}
	}
	return out
}

// TemplateOf is a user's template as the API shows it.
func (r *Reader) TemplateOf(t asset.Template) v1.Template {
	w := r.Worlds.World()
	user, _ := w.Tenancy.Users.Get(t.User)
	account, _ := w.Tenancy.Accounts.Get(t.Account)
	return v1.Template{Name: t.Name, User: user.Name, Account: account.Name, About: t.About, Changed: moment(t.Changed), Spec: t.Spec}
}
