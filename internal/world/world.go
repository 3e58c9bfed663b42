// Package world is everything Croft knows at one moment: the states of the domain
// packages side by side, what a command is, and the view that admission decides
// on. It holds no rules of its own, and knows no command: those are in package
// command.
//
// A command is decided on a world without changing it, into changes; folding the
// changes cannot fail. Worlds are copied in constant time, so readers keep the
// snapshot that they have.
package world

import (
	"cmp"

	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/admission"
	"croft.dev/croft/internal/allowance"
	"croft.dev/croft/internal/approval"
	"croft.dev/croft/internal/asset"
	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/fairshare"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/idle"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/metering"
	"croft.dev/croft/internal/notice"
	"croft.dev/croft/internal/placement"
	"croft.dev/croft/internal/share"
	"croft.dev/croft/internal/table"
	"croft.dev/croft/internal/tenancy"
	"croft.dev/croft/internal/workload"
)

// RulesVersion names the rules that decisions follow. Replaying a log gives the
// same changes only under the version that wrote it.
const RulesVersion = 1

// World is one snapshot. Only the sequencer changes one, before publishing it.
type World struct {
	Seq int64 // of the last command
	Now int64 // ns since the epoch; never goes back

	Tenancy    tenancy.State
	Catalog    catalog.State
	Assets     asset.State
	Ledger     ledger.State
	Limits     limits.State
	Allowances allowance.State
	Notices    notice.Book
	Approvals  approval.State
	Queues     share.State // accounts' parts of them
	Shares     fairshare.State
	Workload   workload.State
	Placement  placement.State
	Site       Site

	keys    table.Table[string, Key]
	keyAges table.Table[int64, string] // by seq
}

// New returns an empty world.
func New() *World {
	return &World{Workload: workload.NewState(), Shares: fairshare.NewState(), Queues: share.NewState()}
}

// Copy returns an independent world in constant time.
func (w *World) Copy() *World {
	return &World{
		Seq: w.Seq, Now: w.Now, Site: w.Site,
		Tenancy: w.Tenancy.Copy(), Catalog: w.Catalog.Copy(), Assets: w.Assets.Copy(), Ledger: w.Ledger.Copy(), Limits: w.Limits.Copy(), Allowances: w.Allowances.Copy(), Notices: w.Notices.Copy(), Approvals: w.Approvals.Copy(), Queues: w.Queues.Copy(), Shares: w.Shares.Copy(),
		Workload: w.Workload.Copy(), Placement: w.Placement.Copy(), keys: w.keys.Copy(), keyAges: w.keyAges.Copy(),
	}
}

// Site is the installation's own settings, set from the configuration at start.
type Site struct {
	Instance   string   // UUID
	MountRoots []string // host paths below which binds are allowed; "~" is the user's home
	Network    admission.Network
	Userns     workload.Userns // of a job that doesn't say
	PlanDepth  int             // so many waiting jobs get a promised start
	Weights    admission.Weights
	MaxGrace   int64       // ns
	DefCPU     int64       // what a job gets that names no amount: milli-cores,
	DefMem     int64       // bytes,
	DefWall    int64       // and ns
	Zone       limits.Zone // what day it is here
	UserJobs   int64       // submitted jobs of a user who has no limit of his own; 0: any number
	UserImages int64       // bytes that a user's saved images may add
	NeedUID    bool        // programs run as Unix users: one without a uid can't submit
	Mixed      bool        // a job's devices may be of several models

	Rolling int64 `json:",omitempty"` // ns; window of rolling deposits; 0: admission.DefRolling

	HostPrograms   bool  // programs may run on the machine itself
	UserWorkspaces int64 `json:",omitempty"` // that a user may have, stopped ones too; 0: any number

	Templates []string `json:",omitempty"` // names of the site's own, which no user's may have

	Idle  []idle.Policy    `json:",omitempty"` // the first that is for a job counts
	Mail  notice.Rules     `json:",omitzero"`
	Apps  Apps             `json:",omitzero"`
	Hooks notice.HookRules `json:",omitzero"`
}

// Change is a row put by a decision: a Change of one of the domain packages, or
// KeySet or SiteSet.
type Change any

// SiteSet puts the settings.
type SiteSet struct{ Row Site }

// Key remembers the answer to an idempotent command.
type Key struct {
	Name    string // principal, operation and the caller's key
	Digest  string // of the body
	Seq     int64
	At      int64 // ns
	Job     id.Job
	Refusal id.Refusal
}

// KeySet remembers a key. Keys are kept as columns of the log row.
type KeySet struct{ Row Key }

// KeyLife is how long a key is remembered, in ns.
const KeyLife = int64(7 * 24 * 3600 * 1e9)

// Fold applies changes in order.
func (w *World) Fold(changes []Change) {
	for _, c := range changes {
		w.fold(c)
	}
}

func (w *World) fold(c Change) {
	switch c := c.(type) {
	case workload.Change:
		before := w.Workload.Fold(c)
		if set, ok := c.(workload.JobSet); ok {
			w.derive(before, set.Row)
		}
	case ledger.Change:
		w.Ledger.Fold(c)
	case placement.Change:
		w.Placement.Fold(c)
	case tenancy.Change:
		w.Tenancy.Fold(c)
		if _, token := c.(tenancy.TokenSet); !token {
			w.Shares.Renew()
		}
	case catalog.Change:
		w.Catalog.Fold(c)
	case asset.Change:
		w.Assets.Fold(c)
	case limits.Change:
		w.Limits.Fold(c)
	case allowance.Change:
		w.Allowances.Fold(c)
	case notice.Change:
		w.Notices.Fold(c)
	case approval.Change:
		w.Approvals.Fold(c)
	case share.Change:
		w.Queues.Fold(c)
	case fairshare.Change:
		w.Shares.Fold(c)
	case KeySet:
		w.putKey(c.Row)
	case SiteSet:
		w.Site = c.Row
		w.Limits.UserJobs, w.Limits.Zone = c.Row.UserJobs, c.Row.Zone
		w.Shares.Renew()
	}
}

// derive keeps what follows from a job's row: the use counted against limits and for
// fair share, the backlog, and what is held on nodes.
func (w *World) derive(before, after *workload.Job) {
	if before != nil {
		w.count(before, -1)
	}
	w.count(after, +1)
	if before != nil && before.State == workload.Queued && before.In == 0 {
		w.Placement.Backlog.Remove(before.LaneOf().Key(), placement.ShapeOf(before.Demand()), before.Waits())
	}
	if after.State == workload.Queued && after.In == 0 {
		w.Placement.Backlog.Add(after.LaneOf().Key(), placement.ShapeOf(after.Demand()), after.Waits())
	}
	if workload.RulesOf(after.State).Running {
		w.Placement.Hold(holdOf(after))
	} else {
		w.Placement.Release(after.ID)
	}
	if run := metering.Counted(after); workload.RulesOf(after.State).Running && run.Rate > 0 {
		w.Shares.Track(after.Account, after.User, after.ID, run)
	} else {
		w.Shares.Untrack(after.Account, after.User, after.ID)
	}
}

// count adds what a job has in use, or with sign -1 takes it away.
func (w *World) count(j *workload.Job, sign int64) {
	d := w.demandOf(j)
	w.Limits.Count(WhoOf(j), d, sign)
	w.Queues.Count(j.Path, j.Spec.Partition, d, sign)
}

// WhoOf is whom a job's use counts for.
func WhoOf(j *workload.Job) limits.Who {
	return limits.Who{Path: j.Path, User: j.User, Partition: j.Spec.Partition, QoS: j.Spec.QoS, Token: j.Token}
}

// IdlePolicy is the one that is for a job.
func (w *World) IdlePolicy(j *workload.Job) idle.Policy {
	var accounts []string
	for _, k := range j.Path {
		if a, ok := w.Tenancy.Accounts.Get(k); ok {
			accounts = append(accounts, a.Name)
		}
	}
	return idle.Of(w.Site.Idle, string(j.Spec.Kind), j.Spec.Partition, j.Spec.QoS, accounts)
}

// AskOf is what a job asks for, or was given.
func AskOf(j *workload.Job) limits.Ask {
	n := j.Spec.Ranks()
	d := limits.Demand{CPU: n * j.Spec.CPU, Mem: n * j.Spec.Mem, GPU: n * j.Spec.GPU, Models: j.Attempt.Models, Running: 1}
	switch {
	case len(d.Models) > 0:
		d.GPU = catalog.Counted(d.Models)
	case catalog.OneModel(j.Spec.Model) && d.GPU > 0:
		d.Models = []catalog.ModelCount{{Model: j.Spec.Model, Count: d.GPU}}
	}
	return limits.Ask{Demand: d, Wall: j.Spec.Time, Grace: j.Spec.Grace}
}

// demandOf is what a job's state makes it count for.
func (w *World) demandOf(j *workload.Job) limits.Demand {
	d := limits.Demand{Credits: int64(metering.Left(j))}
	r := workload.RulesOf(j.State)
	if r.Submitted {
		d.Submitted = j.Waits()
	}
	if r.Running {
		d = d.Plus(admission.Held(j), +1)
	}
	return d
}

func holdOf(j *workload.Job) placement.Hold {
	until := j.Attempt.Until + j.Spec.Grace
	if j.Attempt.Started == 0 {
		until += admission.StartMargin
	}
	if j.State == workload.Stopping {
		until = min(until, j.KillAt())
	}
	h := placement.Hold{
		Job: j.ID, Node: j.Attempt.Node, CPU: j.Spec.CPU, Mem: j.Spec.Mem, Devices: j.Attempt.Devices, Part: j.Attempt.Part(), Ports: placement.PortsOf(j.Spec.Pod.Ports),
		From: j.Attempt.Assigned, Until: until, In: j.In, Others: j.Attempt.Others,
	}
	return h
}

// Remembered returns the answer kept for an idempotency key.
func (w *World) Remembered(name string) (Key, bool) {
	k, ok := w.keys.Get(name)
	if ok && w.Now-k.At > KeyLife {
		return Key{}, false
	}
	return k, ok
}

// putKey also forgets what is older than KeyLife, a few at a time.
func (w *World) putKey(k Key) {
	w.keys.Set(k.Name, k)
	w.keyAges.Set(k.Seq, k.Name)
	var old []int64
	for seq, name := range w.keyAges.All() {
		if at, ok := w.keys.Get(name); len(old) == 4 || ok && k.At-at.At <= KeyLife {
			break
		}
		old = append(old, seq)
	}
	for _, seq := range old {
		if name, ok := w.keyAges.Delete(seq); ok {
			if at, ok := w.keys.Get(name); ok && at.Seq == seq {
				w.keys.Delete(name)
			}
		}
	}
}

// Principal resolves a user as of this world at time now, narrowed by the token or
// session that was shown (0: none). Whose token isn't good any more is nobody.
func (w *World) Principal(u id.User, token id.Token, now int64) access.Principal {
	row, ok := w.Tenancy.Users.Get(u)
	if !ok {
		return access.Principal{}
	}
	p := access.Principal{Now: now, User: int64(u), Name: row.Name, Platform: row.Platform, Blocked: row.Barred(now) != ""}
	if token == 0 {
		return p
	}
	t, ok := w.Tenancy.Tokens.Get(token)
	if !ok || t.User != u || !t.Usable(now) {
		return access.Principal{}
	}
	p.Narrow = access.Narrowing{Token: int64(token), Scopes: t.Scopes, Account: int64(t.Account), Capped: t.Caps != tenancy.Caps{}}
	if !t.Session() {
		p.Narrow.Name = t.Name
	}
	return p
}

// Can reports whether p may do a to something owned by owner in account a, at the
// time as of which p is.
func (w *World) Can(p access.Principal, action access.Action, owner id.User, account id.Account) bool {
	t := access.Target{Owner: int64(owner)}
	if account != 0 && !p.System {
		t.Role = w.Tenancy.Role(id.User(p.User), account, max(p.Now, w.Now))
		t.Within = w.Tenancy.Within(account, id.Account(p.Narrow.Account))
	}
	return access.Authorize(p, action, t)
}

// CanJob is Can of a job: whether the principal may do something to it or in it.
func (w *World) CanJob(p access.Principal, action access.Action, j *workload.Job) bool {
	return access.Authorize(p, action, w.targetOf(p, j, max(p.Now, w.Now)))
}

// targetOf is a job as p stands to it at a time, without what is shared of it.
func (w *World) targetOf(p access.Principal, j *workload.Job, now int64) access.Target {
	t := access.Target{Owner: int64(j.User), Token: int64(j.Token.ID)}
	if !p.System {
		t.Role = w.Tenancy.Role(id.User(p.User), j.Account, now)
		t.Within = w.Tenancy.Within(j.Account, id.Account(p.Narrow.Account))
	}
	return t
}

// OnlyItsOwn is what more is told to a token with caps that may not do something to a job of
// its user's; "" to others.
func OnlyItsOwn(p access.Principal, j *workload.Job) string {
	if !p.Narrow.Capped || int64(j.User) != p.User || int64(j.Token.ID) == p.Narrow.Token {
		return ""
	}
	return ": token " + p.Narrow.Name + " has caps, and acts only in jobs that were submitted by it"
}

// View is what admission decides on, at time now. It is for one goroutine.
func (w *World) View(now int64) admission.View {
	now = max(now, w.Now)
	var standings *fairshare.Standings
	return admission.View{
		Now: now, Tenancy: &w.Tenancy, Catalog: &w.Catalog, Assets: &w.Assets, Ledger: &w.Ledger, Limits: &w.Limits, Queues: &w.Queues, Trees: share.NewTrees(),
		Workload: &w.Workload, Placement: &w.Placement, MountRoots: w.Site.MountRoots, Network: w.Site.Network, Userns: w.Site.Userns, PlanDepth: w.Site.PlanDepth, Weights: w.Site.Weights,
		Rolling: cmp.Or(w.Site.Rolling, admission.DefRolling), DefWall: w.Site.DefWall, NeedUID: w.Site.NeedUID, Mixed: w.Site.Mixed, Mail: w.Site.Mail, Contacts: &w.Notices, HostPrograms: w.Site.HostPrograms, UserWorkspaces: w.Site.UserWorkspaces,
		Standings: func() *fairshare.Standings {
			if standings == nil {
				standings = w.Shares.Standings(&w.Tenancy, w.Site.Weights.HalfLife, now)
			}
			return standings
		},
	}
}

// SeesImage reports whether p may see a saved image: whoever may use it, and those who see
// everything.
func (w *World) SeesImage(p access.Principal, i asset.Image) bool {
	return w.seesOf(p, i.User, i.Account)
}

// SeesTemplate reports whether p may see a user's template, likewise.
func (w *World) SeesTemplate(p access.Principal, t asset.Template) bool {
	return w.seesOf(p, t.User, t.Account)
}

// seesOf reports whether p may see what a user has and shares with an account, 0: none.
func (w *World) seesOf(p access.Principal, owner id.User, shared id.Account) bool {
	return w.Can(p, access.JobRead, owner, shared) || shared != 0 && w.Can(p, access.JobSubmit, 0, shared)
}
