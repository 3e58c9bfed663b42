package query

import (
	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/internal/workload"
)

// shared is whom a job's applications are shared with now.
func (v view) shared(j *workload.Job) []v1.Shared {
	var out []v1.Shared
	for _, s := range j.Shared {
		if s.Over(v.now) {
			continue
		}
		w := v1.Shared{Public: s.Public(), Level: s.Level.String(), Until: moment(s.Until)}
		if s.User != 0 {
			w.User = v.user(s.User)
		}
		if s.Account != 0 {
			w.Account = v.account(s.Account)
		}
		out = append(out, w)
	}
	return out
}
