package command

import (
	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/world"
)

// LimitPut sets a limit; the same scope, resource and period replace the limit before.
type LimitPut struct {
	Account, User, Partition string
	QoS                      string `json:",omitempty"`
	Resource                 limits.Resource
	Per                      limits.Per `json:",omitzero"`
	Max                      int64
	Carry                    limits.Carry `json:",omitzero"`
	Remove                   id.Limit     // when set: remove that limit instead
}

// Kind is limit.set or limit.remove.
func (c LimitPut) Kind() string {
	if c.Remove != 0 {
		return "limit.remove"
	}
	return "limit.set"
}

// Decide sets or removes the limit. Nothing is stopped by it.
func (c LimitPut) Decide(w *world.World, at world.Context) (world.Outcome, error) {
	if !c.allowed(w, at) {
		return world.Outcome{}, fault.New(codes.Denied, "only an operator may set limits; whoever manages an account may set what its members may spend (credits)")
	}
	if c.Remove != 0 {
		row, ok := w.Limits.Limits.Get(c.Remove)
		if !ok {
			return world.Outcome{}, fault.New(codes.NotFound, "no such limit: %d", c.Remove)
		}
		row.Removed = true
		out := limitPut(row)
		out.Changes = append(wrap(w.Limits.Close(row)), out.Changes...)
		return out, nil
	}
	sc, err := scopeOf(w, c)
	if err != nil {
		return world.Outcome{}, err
	}
	if err := c.check(); err != nil {
		return world.Outcome{}, err
	}
	row := limits.Limit{
		ID: w.Limits.Next(), Scope: sc, Resource: c.Resource, Per: c.Per, Max: c.Max, Carry: c.Carry, By: id.User(at.Principal.User),
	}
	old, exists := w.Limits.Find(sc, c.Resource, c.Per)
	if exists {
		row.ID = old.ID
	}
	switch out := limitPut(row); {
	case !c.Resource.Hours():
		return out, nil
	case exists:
		after := w.Limits.Copy()
		after.Fold(limits.LimitSet{Row: row})
		out.Changes = append(out.Changes, wrap(after.Open(at.Now))...)
		return out, nil
	default:
		out.Changes = append(out.Changes, begin(w, at, row)...)
		return out, nil
	}
}

// allowed says whether the caller may set or remove such a limit: caps on what members
// may spend are their account's managers' business too.
func (c LimitPut) allowed(w *world.World, at world.Context) bool {
	a, _ := w.Tenancy.Account(c.Account)
	resource, account := c.Resource, a.ID
	if row, ok := w.Limits.Limits.Get(c.Remove); c.Remove != 0 && ok {
		resource, account = row.Resource, row.Scope.Account
	}
	return w.MayLimit(at.Principal, resource, account)
}

func limitPut(row limits.Limit) world.Outcome {
	return world.Outcome{
		Changes: []world.Change{limits.LimitSet{Row: row}}, Result: row, Event: world.Event{Account: row.Scope.Account, Message: string(row.Resource)},
	}
}

// check looks at what a limit is of, and for which periods.
func (c LimitPut) check() error {
	var bad fault.Fields
	if !c.Resource.Valid() {
		bad.Add("resource", "must be %s", limits.Known)
	}
	if c.Max < 0 {
		bad.Add("max", "must not be negative")
	}
	if c.User == limits.EachName && c.Resource.Hours() {
		bad.Add("user", "hours per period are limited for a user by name, or for all of an account together")
	}
	if c.Resource == limits.Credits && c.Carry != (limits.Carry{}) {
		bad.Add("carry_over", "is for hours: what a member doesn't spend stays the account's")
	}
	switch per := c.Per != (limits.Per{}); {
	case c.Resource == limits.Credits:
		c.checkCap(&bad)
	case c.Resource.Hours() && !per:
		bad.Add("per", "hours are limited per day, week, month, year or \"rolling 7d\": say which")
	case !c.Resource.Hours() && per:
		bad.Add("per", "is for hours: %s counts at once", c.Resource)
	case per && !c.Per.Valid():
		bad.Add("per", "must be day, week, month, year or rolling and a time from 1h to 3660d")
	}
	switch none := c.Carry == (limits.Carry{}); {
	case !none && (c.Per.Unit == "" || c.Per.Unit == limits.Rolling):
		bad.Add("carry_over", "is from one day, week, month or year to the next")
	case !c.Carry.Valid():
		bad.Add("carry_over", "must be a share of at most 100%% or an amount of hours")
	}
	return bad.Err()
}

// checkCap looks at what is for a cap on spending alone.
func (c LimitPut) checkCap(bad *fault.Fields) {
	if c.Account == "" {
		bad.Add("account", "credits are limited in an account: say which")
	}
	if c.User == "" {
		bad.Add("user", "credits are limited for a user of the account, or for each (*); the account itself has what it is granted")
	}
	if c.Partition != "" || c.QoS != "" {
		bad.Add("partition", "credits are limited in all partitions and QoS together")
	}
	if c.Per.Unit == limits.Rolling || c.Per != (limits.Per{}) && !c.Per.Valid() {
		bad.Add("per", "credits are limited per day, week, month or year, or in all")
	}
}

func scopeOf(w *world.World, c LimitPut) (limits.Scope, error) {
	sc := limits.Scope{Partition: c.Partition, QoS: c.QoS}
	if c.Account != "" {
		a, ok := w.Tenancy.Account(c.Account)
		if !ok {
			return sc, fault.NotFound("account", c.Account)
		}
		sc.Account = a.ID
	}
	switch c.User {
	case "":
	case limits.EachName:
		sc.User = limits.Each
	default:
		u, ok := w.Tenancy.User(c.User)
		if !ok {
			return sc, fault.NotFound("user", c.User)
		}
		sc.User = u.ID
	}
	if _, ok := w.Catalog.Partitions.Get(c.Partition); c.Partition != "" && !ok {
		return sc, fault.Invalid("partition", "no such partition: %s", c.Partition)
	}
	if _, ok := w.Catalog.QoS.Get(c.QoS); c.QoS != "" && !ok {
		return sc, fault.Invalid("qos", "no such QoS: %s", c.QoS)
	}
	return sc, nil
}
