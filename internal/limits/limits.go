// Package limits has what may be used at once, by scope: an account with all
// below it, a user, or a user within an account. Use is counted in every scope a
// job belongs to; the tightest violated bound is named first.
package limits

import (
	"strings"

	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/id"
)

// Resource names what is bounded.
type Resource string

// The resources. Devices of one model are Devices(model).
const (
	CPU       Resource = "cpu"       // milli-cores at once
	Mem       Resource = "mem"       // bytes at once
	GPU       Resource = "gpu"       // devices at once
	Running   Resource = "running"   // jobs that hold an allocation
	Submitted Resource = "submitted" // jobs that haven't ended
	Time      Resource = "time"      // ns of wall time, per job
)

// Devices is the resource "devices of a model".
func Devices(model string) Resource { return Resource("gpu:" + model) }

// Model returns the model of a Devices resource.
func (r Resource) Model() (string, bool) { return strings.CutPrefix(string(r), "gpu:") }

// Valid reports whether r is a known resource.
func (r Resource) Valid() bool {
	switch r {
	case CPU, Mem, GPU, Running, Submitted, Time:
		return true
	}
	m, ok := r.Model()
	return ok && m != ""
}

// Scope is whose use is counted together. Both ids: the user's use within that
// account's subtree. Neither: everybody. Partition "" is all of them.
type Scope struct {
	Account   id.Account
	User      id.User
	Partition string
}

// Limit is an upper bound for a scope.
type Limit struct {
	ID       id.Limit
	Scope    Scope
	Resource Resource
	Max      int64
	By       id.User
	Removed  bool
}

// Demand is an amount of each resource that a job adds to its scopes.
type Demand struct {
	CPU, Mem, GPU      int64
	Models             []catalog.ModelCount // devices by model, as far as it is known
	Running, Submitted int64
}

// Violation is a bound that a demand would pass.
type Violation struct {
	Limit Limit
	Used  int64
	Asked int64
	Never bool // asked alone is more than the bound
}
