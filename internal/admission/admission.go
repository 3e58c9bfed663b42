// Package admission is the one decision about a job: may it be accepted, may it
// start, what does it cost, when will it start, and if not, why and what smallest
// change would do. The quote before submitting, the submission, the answer to
// "why does it wait?" and a replay all call Decide with the same kind of view.
package admission

import (
	"croft.dev/croft/internal/asset"
	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/fairshare"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/notice"
	"croft.dev/croft/internal/placement"
	"croft.dev/croft/internal/share"
	"croft.dev/croft/internal/tenancy"
	"croft.dev/croft/internal/workload"
)

// View is what a decision may look at: one moment of the world.
type View struct {
	Now       int64 // ns
	Tenancy   *tenancy.State
	Catalog   *catalog.State
	Assets    *asset.State
	Ledger    *ledger.State
	Limits    *limits.State
	Queues    *share.State // accounts' parts of them
	Trees     *share.Trees // of those, kept between decisions; nil: not
	Workload  *workload.State
	Placement *placement.State

	Network    Network
	Userns     workload.Userns
	MountRoots []string // host paths below which binds are allowed; "~/" is the user's home
	PlanDepth  int
	Weights    Weights
	Standings  func() *fairshare.Standings // as of Now; looked up once, when first asked for
	Rolling    int64                       // ns; window of rolling deposits
	DefWall    int64                       // ns; wall time where neither job nor partition says
	NeedUID    bool                        // the engine runs programs as Unix users
	Mixed      bool                        // a job's devices may be of several models

	Mail           notice.Rules
	Contacts       *notice.Book // nil: nobody has an address
	HostPrograms   bool         // programs may run on the machine itself
	UserWorkspaces int64        // that a user may have, stopped ones too; 0: any number
}

// Gate is one of the two gates of a job.
type Gate int

// At Accept, funds and the count of submitted jobs are reserved; at Start, the
// concurrent limits, and the node's resources and devices.
const (
	Accept Gate = iota
	Start
)

// Request is a job that asks to pass a gate. Job is nil before it is accepted.
type Request struct {
	Subject Subject
	Spec    workload.Spec
	Met     []workload.Met  // where its dependencies stand, before there is a job
	Array   *workload.Array // likewise its elements
	Gate    Gate
	Job     *workload.Job
	Wakes   id.Job          // at Accept: the stopped workspace that asks; 0: it's a new job
	Spot    *placement.Spot // at Start: where the planner would have it; nil: anywhere
}

// Subject is who asks, resolved: every name of the spec looked up.
type Subject struct {
	User      tenancy.User
	Home      string // host path of the user's home; empty: unknown
	Account   tenancy.Account
	Partition catalog.Partition
	QoS       catalog.QoS
	In        placement.Reservation // zero: none
	Token     tenancy.ByToken       // that the request came by, or its job
}

// Verdict is the decision.
type Verdict struct {
	Admit   bool
	Reasons []fault.Reason // every violated bound, the tightest first
	Demand  workload.Demand
	Use     catalog.Use
	Cost    catalog.Cost   // of the whole wall time and grace: the full deposit
	Need    money.Micros   // the deposit: that cost, or of a rolling one its first window's and the grace's
	Hour    money.Micros   // with a rolling deposit: what an hour costs
	Deposit []ledger.Part  // what is to be set aside now, by source
	Before  int64          // micro-credits usable before that deposit
	Caps    []limits.Bound // on what the user may spend, before that deposit
	Spot    placement.Spot
	Misfits []placement.Misfit // at Start: what keeps it off the nodes now
	Window  placement.Window
}

// Never reports whether some reason isn't cured by waiting.
func (v Verdict) Never() bool {
	for _, r := range v.Reasons {
		if r.Never {
			return true
		}
	}
	return false
}

// Fault is the verdict as a refusal.
func (v Verdict) Fault() *fault.Error {
	f := &fault.Error{Code: "refused", Reasons: v.Reasons, Message: "refused"}
	if len(v.Reasons) > 0 {
		f.Message = v.Reasons[0].Message
	}
	return f
}

// Kept is a refusal's verdict as it is stored.
type Kept struct {
	Reasons []fault.Reason
	Remedy  *fault.Remedy
}

// Accepted is the result of an accepted submission.
type Accepted struct {
	Job     *workload.Job
	Verdict Verdict
}
