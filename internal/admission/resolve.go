package admission

import (
	"cmp"
	"slices"
	"strings"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/asset"
	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/placement"
	"croft.dev/croft/internal/quantity"
	"croft.dev/croft/internal/tenancy"
	"croft.dev/croft/internal/workload"
)

// Resolve looks up every name of a spec for whoever asks, and fills in the names
// that were left out. An error is about the request's form or the caller's rights; what
// an account's state forbids is left to Decide.
func (v View) Resolve(p access.Principal, spec workload.Spec) (Subject, workload.Spec, error) {
	var s Subject
	var ok bool
	s.Token = v.byToken(p)
	if s.User, ok = v.Tenancy.Users.Get(id.User(p.User)); !ok {
		return s, spec, fault.New(codes.Denied, "you aren't a Croft user: ask an admin to run croft user add %s", or(p.Name, "NAME"))
	}
	var bad fault.Fields
	var err error
	if s.Account, err = v.account(p, spec.Account); err != nil {
		return s, spec, err
	}
	spec.Account = s.Account.Name
	switch spec.Reservation {
	case "":
		v.join(&s, &spec)
	case NoReservation:
		spec.Reservation = ""
	default:
		v.into(p, &s, &spec, &bad)
	}
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
	v.identity(&s, &spec, &bad)
	v.mailTo(s.User, &spec, &bad)
	if spec.Host() && p.Narrow.Capped {
		bad.Add("kind", "%s", OnMachine)
	}
	if err := v.Image(s.User.ID, &spec.Image); err != nil {
		bad.Add("image", "%s", err.Message)
	}
	spec.Mixed = v.Mixed && spec.GPU > quantity.Device
	raise := access.Target{Role: access.Owner, Within: v.Tenancy.Within(s.Account.ID, id.Account(p.Narrow.Account))}
	if spec.Priority > 0 && !access.Authorize(p, access.JobRaise, raise) {
		bad.Add("priority", "only an operator may raise a job's priority: give 0 or less")
	}
	return s, spec, bad.Err()
}

// mailTo settles where mail about the job goes: to the user's own address, which isn't kept
// with the job, or to one that he may have it sent to.
func (v View) mailTo(user tenancy.User, spec *workload.Spec, bad *fault.Fields) {
	if spec.MailTo == user.Name {
		spec.MailTo = "" // as whoever is used to a cluster's own mail writes it
	}
	if spec.MailTo == "" {
		return
	}
	own := ""
	if v.Contacts != nil {
		own = v.Contacts.Of(user.ID).Address
	}
	if err := v.Mail.Other(spec.MailTo, own); err != nil {
		bad.Add("mail_user", "%v", err)
		return
	}
	if strings.EqualFold(spec.MailTo, own) {
		spec.MailTo = ""
	}
}

// identity settles whether a job's containers have a user namespace. Outside of one they
// can only run as the user himself.
func (v View) identity(s *Subject, spec *workload.Spec, bad *fault.Fields) {
	pod := &spec.Pod
	if pod.Userns == "" && v.Userns.Wanted() {
		pod.Userns = v.Userns
	}
	if uid, _, ok := workload.ParseUser(pod.User); ok && !pod.Userns.Wanted() && s.User.UID >= 0 && uid != s.User.UID {
		bad.Add("pod.user", "without fake root containers run as you, uid %d: leave it out, or ask for pod.userns on", s.User.UID)
	}
}

// Image looks up an image that was saved from a job, and gives it its whole name. One that
// the user may not run isn't there.
func (v View) Image(user id.User, ref *string) *fault.Error {
	full, local := asset.Local(*ref)
	if !local {
		return nil
	}
	img, ok := v.Assets.Images.Get(full)
	switch {
	case !ok || !img.Usable(v.Tenancy, user, v.Now):
		return fault.New(codes.NotFound, "no such image: %s (croft image ls)", *ref)
	case img.State != asset.Ready:
		return fault.New(codes.NotFound, "%s isn't ready: it is %s", full, img.State)
	}
	*ref = full
	return nil
}

// into looks up the reservation that a job is to run in, which says in which partition
// that is. One that isn't for the user or the account, and that the caller may not see
// either, isn't there.
func (v View) into(p access.Principal, s *Subject, spec *workload.Spec, bad *fault.Fields) {
	r, ok := v.Placement.Reservation(spec.Reservation)
	switch {
	case ok && r.Admits(s.User.ID, v.Tenancy.Path(s.Account.ID)):
	case ok && v.SeesReservation(p, r):
		bad.Add("reservation", "%s isn't for account %s", r.Name, s.Account.Name)
		return
	default:
		bad.Add("reservation", "no such reservation: %s", spec.Reservation)
		return
	}
	s.In = r
	if spec.Partition == "" {
		spec.Partition = r.Partition
	}
	if spec.Partition != r.Partition {
		bad.Add("partition", "reservation %s is in partition %s", r.Name, r.Partition)
	}
}

// NoReservation is what a job names that is to run in none.
const NoReservation = "none"

// join puts a job that names no reservation into one that takes such jobs in: it is for
// the user or the account, and in the window that lasts there is a place big enough that
// no other job is in, nor waits for. A job that says no time gets what is left, but for
// what it may take to be started among many.
func (v View) join(s *Subject, spec *workload.Spec) {
	if len(spec.Array.Elements) > 0 || spec.Begin > v.Now || spec.Hold {
		return
	}
	path := v.Tenancy.Path(s.Account.ID)
	for _, r := range v.Placement.Reservations.All() {
		if !r.Join || !r.Admits(s.User.ID, path) || spec.Partition != "" && spec.Partition != r.Partition {
			continue
		}
		p, _ := v.Catalog.Partition(r.Partition)
		q, _ := v.Catalog.QoSNamed(spec.QoS)
		if !p.Admits(path) || !q.Admits(path) || !p.Takes(q) {
			continue
		}
		who := limits.Who{Path: path, User: s.User.ID, Partition: p.Name, QoS: q.Name}
		if wall, ok := v.seat(r, p, q, who, *spec); ok {
			s.In, spec.Partition, spec.Time = r, r.Partition, wall
			return
		}
	}
}

// seat is the wall time, in ns, that a job may have in a reservation if there is a place
// for it now. One that says no time gets no more than it may have at all.
func (v View) seat(r placement.Reservation, p catalog.Partition, q catalog.QoS, who limits.Who, spec workload.Spec) (wall int64, ok bool) {
	sh := placement.Shape{
		CPU: spec.CPU, Mem: spec.Mem, GPU: spec.GPU, Model: spec.Model, Memory: spec.GPUMem, Where: spec.Where, Ports: placement.PortsOf(spec.Pod.Ports), Wall: spec.Time,
		Grace: cmp.Or(spec.Grace, q.Grace) + StartMargin, In: r.ID,
	}
	if sh, ok = v.Placement.Sized(sh); !ok || spec.Part() > 0 {
		return 0, false // what is reserved is whole devices
	}
	left := v.Placement.Lasts(r.ID, v.Now)
	left -= min(left/4, rush)
	if sh.Wall == 0 {
		sh.Wall = left - sh.Grace
		for _, most := range []int64{p.MaxWall, q.MaxWall} {
			if most > 0 {
				sh.Wall = min(sh.Wall, most)
			}
		}
		for _, bad := range v.Limits.Check(who, limits.Ask{Wall: max(0, sh.Wall), Now: v.Now}) {
			sh.Wall = min(sh.Wall, bad.Max) // of the job's own time: it asks for nothing else
		}
		sh.Wall -= sh.Wall % 1e9
	}
	if sh.Wall < leastWall || sh.Length() > left || len(v.Placement.NeverInside(sh, v.Now)) > 0 {
		return 0, false
	}
	taken, own := v.seated(r, who.User)
	return sh.Wall, taken < r.Count && (r.Each == 0 || own < r.Each)
}

// seated is how many places of a reservation are spoken for, and how many of those by a
// user. Nobody speaks for more than he may have at once, however much of his waits.
func (v View) seated(r placement.Reservation, u id.User) (all, own int64) {
	of := map[id.User]int64{}
	for j := range v.Workload.Within(r.ID) {
		n := j.Waits()
		if r.Each > 0 {
			n = min(n, r.Each-of[j.User])
		}
		of[j.User] += n
		all += n
	}
	return all, of[u]
}

// Of a window at least leastWall must be left for a job to be put into it, after at most
// rush for its start; in ns.
const (
	leastWall = int64(60e9)
	rush      = int64(300e9)
)

// SeesReservation reports whether the caller may know of a reservation: it is for him,
// or for an account of which he sees something, or he sees all.
func (v View) SeesReservation(p access.Principal, r placement.Reservation) bool {
	for _, u := range r.Users {
		if access.Authorize(p, access.UserSee, access.Target{Owner: int64(u)}) {
			return true
		}
	}
	see := func(a id.Account) bool {
		t := access.Target{Role: v.Tenancy.Role(id.User(p.User), a, v.Now), Within: v.Tenancy.Within(a, id.Account(p.Narrow.Account))}
		return access.Authorize(p, access.AccountSee, t)
	}
	for _, a := range r.Accounts {
		if see(a) {
			return true
		}
	}
	for _, m := range v.Tenancy.MembershipsOf(id.User(p.User)) {
		if slices.ContainsFunc(r.Accounts, func(a id.Account) bool { return v.Tenancy.Within(m.Account, a) }) && see(m.Account) {
			return true
		}
	}
	return access.Authorize(p, access.LedgerAll, access.Target{})
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

// OnMachine is what a token with caps is told that asks for a program on the machine itself:
// that could use the server's socket, where it is its user and no token.
const OnMachine = "a token with caps runs nothing on the machine itself, only containers: what runs there may all that its user may"

// byToken is the token that a request comes by, if it is a personal one.
func (v View) byToken(p access.Principal) tenancy.ByToken {
	t, ok := v.Tenancy.Tokens.Get(id.Token(p.Narrow.Token))
	if !ok {
		return tenancy.ByToken{}
	}
	return t.By()
}

// SubjectOf resolves a job that was accepted before.
func (v View) SubjectOf(j *workload.Job) Subject {
	var s Subject
	s.User, _ = v.Tenancy.Users.Get(j.User)
	s.Account, _ = v.Tenancy.Accounts.Get(j.Account)
	s.Partition, _ = v.Catalog.Partition(j.Spec.Partition)
	s.QoS, _ = v.Catalog.QoSNamed(j.Spec.QoS)
	s.In, _ = v.Placement.Reservations.Get(j.In)
	s.Token = j.Token
	return s
}

// DemandOf is what a request needs.
func (r Request) DemandOf(path []id.Account) workload.Demand {
	if r.Job != nil {
		d := r.Job.Demand()
		d.CPU, d.Mem, d.GPU, d.Model, d.Wall, d.Grace = r.Spec.CPU, r.Spec.Mem, r.Spec.GPU, r.Spec.Model, r.Spec.Time, r.Spec.Grace
		d.Mixed, d.Where, d.GPUMem, d.Ports, d.Nodes = r.Spec.Mixed, r.Spec.Where, r.Spec.GPUMem, r.Spec.Pod.Ports, r.Spec.Nodes
		return d
	}
	s := r.Spec
	return workload.Demand{
		User: r.Subject.User.ID, Account: r.Subject.Account.ID, Path: path, Partition: r.Subject.Partition.Name, QoS: r.Subject.QoS.Name,
		CPU: s.CPU, Mem: s.Mem, GPU: s.GPU, Model: s.Model, GPUMem: s.GPUMem, Mixed: s.Mixed, Where: s.Where, Ports: s.Pod.Ports, Wall: s.Time, Grace: s.Grace, Nodes: s.Nodes,
		In: r.Subject.In.ID,
	}
}
