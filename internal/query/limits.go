package query

import (
	"cmp"
	"maps"
	"slices"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/world"
)

// LimitQuery says for whom limits are asked: those that bind jobs of the account, of
// the user, in the partition, with the QoS. A user without an account has all of his
// own; a partition or a QoS that isn't named may be any.
type LimitQuery struct{ Account, User, Partition, QoS string }

// Limits lists limits with what is used of them: all that the caller may see, or
// those that bind somebody, the ancestors' among them, with what comes from the
// site's defaults, partitions and QoS.
func (r *Reader) Limits(p access.Principal, q LimitQuery) ([]v1.LimitUse, error) {
	v := r.view(p)
	who, err := v.whose(q)
	if err != nil {
		return nil, err
	}
	out := []v1.LimitUse{}
	for _, b := range v.boundsOf(who) {
		use := v.limitWire(b.Bound)
		use.Tightest, use.From = b.tightest, b.from
		out = append(out, use)
	}
	return out, nil
}

// whose is a LimitQuery with its names looked up.
type whose struct {
	anybody        bool // nobody was named
	paths          [][]id.Account
	user           id.User
	partition, qos string
}

func (v view) whose(q LimitQuery) (whose, error) {
	who := whose{anybody: q.Account == "" && q.User == "", partition: q.Partition, qos: q.QoS}
	if _, ok := v.w.Catalog.Partitions.Get(q.Partition); q.Partition != "" && !ok {
		return who, fault.NotFound("partition", clip(q.Partition))
	}
	if _, ok := v.w.Catalog.QoS.Get(q.QoS); q.QoS != "" && !ok {
		return who, fault.NotFound("QoS", clip(q.QoS))
	}
	if q.User != "" {
		u, ok := v.w.Tenancy.User(q.User)
		if !ok || !v.may(access.UserSee, u.ID, 0) {
			return who, fault.NotFound("user", clip(q.User))
		}
		who.user = u.ID
	}
	if q.Account != "" {
		a, err := v.accountNamed(q.Account)
		if err != nil {
			return who, err
		}
		who.paths = append(who.paths, v.w.Tenancy.Path(a.ID))
	} else if who.user != 0 {
		for _, m := range v.w.Tenancy.MembershipsOf(who.user) {
			who.paths = append(who.paths, v.w.Tenancy.Path(m.Account))
		}
	}
	return who, nil
}

// may reports whether a limit of the scope can bind a job of w, and must whether it
// binds every one.
func (w whose) may(sc limits.Scope) bool {
	return (w.anybody || (sc.User == 0 || sc.User == w.user || sc.User == limits.Each) && (sc.Account == 0 || slices.ContainsFunc(w.paths, with(sc.Account)))) &&
		(sc.Partition == "" || w.partition == "" || sc.Partition == w.partition) && (sc.QoS == "" || w.qos == "" || sc.QoS == w.qos)
}

func (w whose) must(sc limits.Scope) bool {
	return !w.anybody && w.may(sc) && (sc.Account == 0 || !slices.ContainsFunc(w.paths, without(sc.Account))) &&
		(sc.Partition == "" || sc.Partition == w.partition) && (sc.QoS == "" || sc.QoS == w.qos)
}

func with(a id.Account) func([]id.Account) bool {
	return func(path []id.Account) bool { return slices.Contains(path, a) }
}

func without(a id.Account) func([]id.Account) bool {
	return func(path []id.Account) bool { return !slices.Contains(path, a) }
}

// listed is a bound in an answer.
type listed struct {
	limits.Bound
	from     string // where it comes from
	tightest bool   // none of those that bind every job of whom was asked for leaves less
}

// boundsOf is what binds w, by resource, the tightest first.
func (v view) boundsOf(w whose) []listed {
	var out []listed
	for _, l := range v.w.Limits.Limits.All() {
		if !w.may(l.Scope) || w.anybody && !v.seesLimit(l) {
			continue
		}
		b, binds := v.w.Limits.BoundOf(l, v.now), true
		if w.user != 0 {
			b, binds = v.w.Limits.BoundFor(l, w.user, v.now)
		}
		if binds {
			out = append(out, listed{Bound: v.w.View(v.now).Charged(b), from: v.w.View(v.now).BoundName(limits.Bound{Limit: l})})
		}
	}
	if w.anybody {
		return out
	}
	if b, ok := v.w.Limits.Preset(w.user); ok {
		out = append(out, listed{Bound: b, from: "the site's default for a user"})
	}
	out = append(out, v.sharesFor(w)...)
	out = append(out, v.offered(w)...)
	slices.SortStableFunc(out, func(a, b listed) int {
		return cmp.Or(cmp.Compare(a.Limit.Resource, b.Limit.Resource), cmp.Compare(a.Left(), b.Left()), cmp.Compare(a.Limit.ID, b.Limit.ID))
	})
	seen := map[limits.Resource]bool{}
	for i, b := range out {
		if r := b.Limit.Resource; !seen[r] && w.must(b.Limit.Scope) {
			out[i].tightest, seen[r] = true, true
		}
	}
	return out
}

// capsIn is what members may spend in an account, with what they have.
func (v view) capsIn(a id.Account) []v1.LimitUse {
	var out []v1.LimitUse
	for _, l := range v.w.Limits.Limits.All() {
		if l.Resource == limits.Credits && l.Scope.Account == a {
			out = append(out, v.limitWire(v.w.View(v.now).Charged(v.w.Limits.BoundOf(l, v.now))))
		}
	}
	return out
}

// offered is what partitions and QoS allow.
func (v view) offered(w whose) []listed {
	var out []listed
	add := func(sc limits.Scope, most int64, from string) {
		if most > 0 && w.may(sc) {
			out = append(out, listed{Bound: limits.Bound{Limit: limits.Limit{Scope: sc, Resource: limits.Time, Max: most}, Max: most}, from: from})
		}
	}
	for name, p := range v.w.Catalog.Partitions.All() {
		if slices.ContainsFunc(w.paths, p.Admits) {
			add(limits.Scope{Partition: name}, p.MaxWall, "partition "+name)
		}
	}
	for name, q := range v.w.Catalog.QoS.All() {
		if slices.ContainsFunc(w.paths, q.Admits) {
			add(limits.Scope{QoS: name}, q.MaxWall, "QoS "+name)
		}
	}
	return out
}

func (v view) seesLimit(l limits.Limit) bool {
	switch {
	case l.Scope.User != 0 && l.Scope.User == v.self():
		return true
	case l.Scope.Account != 0:
		return v.may(access.AccountRead, 0, l.Scope.Account)
	case l.Scope.User != 0 && l.Scope.User != limits.Each:
		return v.may(access.UserSee, l.Scope.User, 0)
	}
	return true
}

// LimitMade is a limit that was set just now as the API shows it, with those who have
// more than it allows.
func (r *Reader) LimitMade(p access.Principal, l limits.Limit) v1.LimitUse {
	v := r.view(p)
	b := v.w.View(v.now).Charged(v.w.Limits.BoundOf(l, v.now))
	out := v.limitWire(b)
	switch {
	case l.Resource.PerJob():
		out.Users = v.larger(l)
	case l.Resource == limits.Credits:
		for u, b := range v.w.View(v.now).Capped(l) {
			if b.Used > l.Max {
				out.Users = append(out.Users, v1.LimitUser{User: v.user(u), Used: v1.Quantity(limits.Format(l.Resource, b.Used))})
			}
		}
	case b.Used > b.Max && !l.Resource.Hours():
		for _, u := range v.w.Limits.Users(l.Scope, l.Resource) {
			if _, binds := v.w.Limits.BoundFor(l, u.User, v.now); l.Scope.User == limits.Each && (u.Used <= l.Max || !binds) {
				continue
			}
			out.Users = append(out.Users, v1.LimitUser{User: v.user(u.User), Used: v1.Quantity(limits.Format(l.Resource, u.Used))})
		}
	}
	return out
}

// larger counts by user the jobs that ask for more than a limit allows each.
func (v view) larger(l limits.Limit) []v1.LimitUser {
	jobs := map[string]int64{}
	for _, j := range v.w.Workload.Jobs.All() {
		if world.WhoOf(j).Within(l.Scope) && world.AskOf(j).Of(l.Resource) > l.Max {
			jobs[v.user(j.User)]++
		}
	}
	var out []v1.LimitUser
	for _, u := range slices.Sorted(maps.Keys(jobs)) {
		out = append(out, v1.LimitUser{User: u, Jobs: jobs[u]})
	}
	return out
}

// LimitOn finds the limit of a scope, resource and period, for a repeated request.
func (r *Reader) LimitOn(p access.Principal, want v1.Limit) (v1.LimitUse, bool) {
	v := r.view(p)
	for _, l := range v.w.Limits.Limits.All() {
		w := v.limitWire(limits.Bound{Limit: l}).Limit
		if w.ID, w.Max, w.CarryOver = want.ID, want.Max, want.CarryOver; w == want {
			return r.LimitMade(p, l), true
		}
	}
	return v1.LimitUse{}, false
}

// limited names the user of a limit's scope.
func (v view) limited(u id.User) string {
	if u == limits.Each {
		return limits.EachName
	}
	return v.user(u)
}

func (v view) limitWire(b limits.Bound) v1.LimitUse {
	l := b.Limit
	quantity := func(n int64) v1.Quantity { return v1.Quantity(limits.Format(l.Resource, n)) }
	out := v1.LimitUse{
		Limit: v1.Limit{
			Account: v.account(l.Scope.Account), User: v.limited(l.Scope.User), Partition: l.Scope.Partition, QoS: l.Scope.QoS,
			Resource: string(l.Resource), Max: quantity(l.Max), Per: l.Per.String(), CarryOver: l.Carry.Text(l.Resource),
		},
		From: v.w.View(v.now).BoundName(b), By: v.user(l.By),
	}
	if l.ID != 0 {
		out.ID = decimal(l.ID)
	}
	if !l.Resource.PerJob() {
		out.Used, out.Left = quantity(b.Used), quantity(b.Left())
	}
	if b.Used > b.Max {
		out.Over = quantity(b.Used - b.Max)
	}
	if l.Resource == limits.Credits {
		out.Since, out.Until = moment(b.From), moment(b.To)
		out.Spent = quantity(b.Spent)
	}
	if l.Resource.Hours() {
		out.Since, out.Until = moment(b.From), moment(b.To)
		if b.Max > l.Max {
			out.Carried = quantity(b.Max - l.Max)
		}
	}
	return out
}
