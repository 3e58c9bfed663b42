package admission

import (
	"cmp"
	"strings"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/tenancy"
	"croft.dev/croft/internal/workload"
)

// Resolve looks up every name of a spec for whoever asks, and fills in the names
// that were left out. An error is about the request's form or the caller's rights; what
// an account's state forbids is left to Decide.
func (v View) Resolve(p access.Principal, spec workload.Spec) (Subject, workload.Spec, error) {
	var s Subject
	var ok bool
	if s.User, ok = v.Tenancy.Users.Get(id.User(p.User)); !ok {
		return s, spec, fault.New(codes.Denied, "you aren't a Croft user: ask an admin to run croft user add %s", or(p.Name, "NAME"))
	}
	var bad fault.Fields
	var err error
	if s.Account, err = v.account(p, spec.Account); err != nil {
		return s, spec, err
	}
	spec.Account = s.Account.Name
	if s.Partition, ok = v.Catalog.Partition(spec.Partition); !ok {
		bad.Add("partition", "no such partition: %s (there are: %s)", or(spec.Partition, "(default)"), v.partitions())
	}
	if s.QoS, ok = v.Catalog.QoSNamed(spec.QoS); !ok {
		bad.Add("qos", "no such QoS: %s (there are: %s)", or(spec.QoS, "(default)"), v.qosNames())
	}
	spec.Partition, spec.QoS = s.Partition.Name, s.QoS.Name
	if spec.Time == 0 {
		spec.Time = cmp.Or(s.QoS.DefWall, s.Partition.DefWall, v.DefWall)
	}
	if spec.Grace == 0 {
		spec.Grace = s.QoS.Grace
	}
	if s.QoS.MaxGrace > 0 && spec.Grace > s.QoS.MaxGrace {
		spec.Grace = s.QoS.MaxGrace
	}
	spec.Mixed = v.Mixed && spec.GPU > 1
	raise := access.Target{Role: access.Owner, Within: v.Tenancy.Within(s.Account.ID, id.Account(p.Narrow.Account))}
	if spec.Priority > 0 && !access.Authorize(p, access.JobRaise, raise) {
		bad.Add("priority", "only an operator may raise a job's priority: give 0 or less")
	}
	return s, spec, bad.Err()
}

// account finds who pays: the named account, or the only one the user may use. A
// token narrowed to an account means that one.
func (v View) account(p access.Principal, name string) (tenancy.Account, error) {
	usable := v.usable(p)
	if only, ok := v.Tenancy.Accounts.Get(id.Account(p.Narrow.Account)); ok && name == "" {
		name = only.Name
	}
	if name == "" {
		if len(usable) == 1 {
			return usable[0], nil
		}
		if len(usable) == 0 {
			return tenancy.Account{}, &fault.Error{Code: codes.Denied, Message: "you are in no account: ask a manager of one to add you, e.g. croft account member add ACCOUNT " + p.Name}
		}
		return tenancy.Account{}, fault.Invalid("account", "you are in several accounts: name one of %s", names(usable))
	}
	a, ok := v.Tenancy.Account(name)
	if !ok || v.Tenancy.Role(id.User(p.User), a.ID, v.Now) < access.Member || !v.Tenancy.Within(a.ID, id.Account(p.Narrow.Account)) {
		if m, was := v.Tenancy.Member(a.ID, id.User(p.User)); was && p.Narrow.Account == 0 {
			if end := v.Tenancy.MemberEnd(m); end != 0 && v.Now >= end {
				return a, fault.Invalid("account", "your membership of %s ended at %s", a.Name, day(end))
			}
		}
		return a, fault.Invalid("account", "no such account of yours: %s (you may use: %s)", name, or(names(usable), "none"))
	}
	return a, nil
}

// usable lists the accounts that the user is a member of himself and may use now.
func (v View) usable(p access.Principal) []tenancy.Account {
	var out []tenancy.Account
	for _, m := range v.Tenancy.MembershipsOf(id.User(p.User)) {
		a, ok := v.Tenancy.Accounts.Get(m.Account)
		role := v.Tenancy.Role(m.User, m.Account, v.Now)
		if ok && role >= access.Member && !a.Closed && v.Tenancy.Within(a.ID, id.Account(p.Narrow.Account)) {
			out = append(out, a)
		}
	}
	return out
}

func (v View) partitions() string {
	var out []string
	for n := range v.Catalog.Partitions.All() {
		out = append(out, n)
	}
	return strings.Join(out, ", ")
}

func (v View) qosNames() string {
	var out []string
	for n := range v.Catalog.QoS.All() {
		out = append(out, n)
	}
	return strings.Join(out, ", ")
}

func names(as []tenancy.Account) string {
	var out []string
	for _, a := range as {
		out = append(out, a.Name)
	}
	return strings.Join(out, ", ")
}

func or(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// SubjectOf resolves a job that was accepted before.
func (v View) SubjectOf(j *workload.Job) Subject {
	var s Subject
	s.User, _ = v.Tenancy.Users.Get(j.User)
	s.Account, _ = v.Tenancy.Accounts.Get(j.Account)
	s.Partition, _ = v.Catalog.Partition(j.Spec.Partition)
	s.QoS, _ = v.Catalog.QoSNamed(j.Spec.QoS)
	return s
}

// DemandOf is what a request needs.
func (r Request) DemandOf(path []id.Account) workload.Demand {
	if r.Job != nil {
		d := r.Job.Demand()
		d.CPU, d.Mem, d.GPU, d.Model, d.Wall, d.Grace = r.Spec.CPU, r.Spec.Mem, r.Spec.GPU, r.Spec.Model, r.Spec.Time, r.Spec.Grace
		d.Mixed, d.Where = r.Spec.Mixed, r.Spec.Where
		return d
	}
	s := r.Spec
	return workload.Demand{
		User: r.Subject.User.ID, Account: r.Subject.Account.ID, Path: path, Partition: r.Subject.Partition.Name, QoS: r.Subject.QoS.Name,
		CPU: s.CPU, Mem: s.Mem, GPU: s.GPU, Model: s.Model, Mixed: s.Mixed, Where: s.Where, Wall: s.Time, Grace: s.Grace,
	}
}
