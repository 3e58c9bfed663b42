package workload

import (
	"slices"

	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/id"
)

// Shared is how far a job's owner lets somebody into its applications: a user, the members
// of an account, or with neither whoever comes.
type Shared struct {
	User    id.User      `json:"user,omitempty"`
	Account id.Account   `json:"account,omitempty"`
	Level   access.Share `json:"level"`
	Until   int64        `json:"until,omitempty"` // ns; 0: with the job
	Since   int64        `json:"since"`           // ns
}

// Public reports whether it is for whoever comes.
func (s Shared) Public() bool { return s.User == 0 && s.Account == 0 }

// same reports whether both are for the same.
func (s Shared) same(o Shared) bool { return s.User == o.User && s.Account == o.Account }

// MaxShared bounds with how many a job is shared.
const MaxShared = 32

// ShareWith returns the job's shares with one more, in place of what the same had before. Those
// that are over by now are left out.
func (j *Job) ShareWith(with Shared, now int64) []Shared {
	return append(j.UnshareWith(with, now), with)
}

// UnshareWith returns the job's shares without that of the same, and without those that are
// over by now.
func (j *Job) UnshareWith(with Shared, now int64) []Shared {
	return slices.DeleteFunc(slices.Clone(j.Shared), func(s Shared) bool { return s.same(with) || s.Over(now) })
}

// SharedWith is what the same has by now.
func (j *Job) SharedWith(with Shared, now int64) (Shared, bool) {
	i := slices.IndexFunc(j.Shared, func(s Shared) bool { return s.same(with) && !s.Over(now) })
	if i < 0 {
		return Shared{}, false
	}
	return j.Shared[i], true
}

// Over reports whether it has ended by now.
func (s Shared) Over(now int64) bool { return s.Until != 0 && now >= s.Until }
