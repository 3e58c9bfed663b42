package admission

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/ledger"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/placement"
	"croft.dev/croft/internal/quantity"
	"croft.dev/croft/internal/tenancy"
	"croft.dev/croft/internal/workload"
)

// Decide says whether r passes its gate in v, and everything that follows. It is
// pure: the same view and request give the same verdict. An error is money that
// doesn't fit an int64.
func Decide(v View, r Request) (Verdict, error) {
	d := v.decisionOn(r)
	d.standing()
	d.offer()
	d.form()
	d.workspace()
	d.inTime()
	if d.Gate == Start {
		d.inLine()
	}
	d.memory()
	d.narrow()
	d.place()
	d.bounds()
	if err := d.price(); err != nil {
		return d.out, err
	}
	d.atOnce()
	slices.SortStableFunc(d.out.Reasons, func(a, b fault.Reason) int {
		return cmp.Compare(rank(a), rank(b))
	})
	d.out.Admit = len(d.out.Reasons) == 0
	return d.out, nil
}

// decisionOn is a decision about a request of which nothing is decided yet.
func (v View) decisionOn(r Request) decision {
	d := decision{View: v, Request: r}
	if r.Job != nil {
		d.path = r.Job.Path
	} else {
		d.path = v.Tenancy.Path(r.Subject.Account.ID)
	}
	d.out.Demand = r.DemandOf(d.path)
	d.shape, _ = v.Placement.Sized(placement.ShapeOf(d.out.Demand)) // memory says if none has as much
	return d
}

// rank puts what no waiting cures first.
func rank(r fault.Reason) int {
	if r.Never {
		return 0
	}
	return 1
}

type decision struct {
	View
	Request
	path  []pathID
	shape placement.Shape
	out   Verdict

	lacksMemory bool // no device on offer is known to have as much
}

func (d *decision) refuse(r fault.Reason) { d.out.Reasons = append(d.out.Reasons, r) }

// standing checks the people: a blocked user or a closed account runs nothing.
func (d *decision) standing() {
	u := d.Subject.User
	if why := u.Barred(d.Now); why != "" {
		d.refuse(fault.Reason{Code: barredCode(why), Message: "user " + u.Name + " is " + why, Scope: "user " + u.Name, Never: true})
	}
	if u.Warning != "" {
		d.refuse(fault.Reason{Code: codes.UserBlocked, Message: "user " + u.Name + ": " + u.Warning + "; an admin must run: croft user set " + u.Name + " --rebind", Scope: "user " + u.Name, Never: true})
	}
	if d.NeedUID && u.UID < 0 {
		d.refuse(fault.Reason{Code: codes.UserUnbound, Message: "user " + u.Name + " has no Unix account on this machine to run as", Scope: "user " + u.Name, Never: true})
	}
	for _, a := range d.path {
		row, ok := d.Tenancy.Accounts.Get(a)
		if ok && row.Over(d.Now) {
			d.refuse(fault.Reason{Code: codes.AccountExpired, Message: "account " + row.Name + " is over since " + day(row.Ends), Observed: day(d.Now), Bound: day(row.Ends), Scope: "account " + row.Name, Field: "account", Never: true})
		}
		if ok && row.Closed {
			d.refuse(fault.Reason{Code: codes.AccountClosed, Message: "account " + row.Name + " is closed", Scope: "account " + row.Name, Field: "account", Never: true})
		}
	}
	if d.Gate == Start && d.Tenancy.Role(u.ID, d.Subject.Account.ID, d.Now) < memberRole {
		d.refuse(fault.Reason{Code: codes.AccountUnknown, Message: "user " + u.Name + " is no longer a member of " + d.Subject.Account.Name, Scope: "account " + d.Subject.Account.Name, Field: "account"})
	}
}

// form checks what the site allows whatever is free: wall time and mounts.
func (d *decision) form() {
	wall := d.Spec.Time
	if p := d.Subject.Partition; p.MaxWall > 0 && wall > p.MaxWall {
		d.refuse(bound(codes.WallOverPartition, "time", span(wall), span(p.MaxWall), "partition "+p.Name, true))
	}
	if q := d.Subject.QoS; q.MaxWall > 0 && wall > q.MaxWall {
		d.refuse(bound(codes.WallOverQoS, "time", span(wall), span(q.MaxWall), "QoS "+q.Name, true))
	}
	if part := d.Spec.Part(); part > 0 && !d.splits() {
		by := "partition " + d.Subject.Partition.Name
		if d.Subject.In.ID != 0 {
			by = "reservation " + d.Subject.In.Name
		}
		asked := quantity.FormatDevices(part)
		if part == workload.LeastPart && d.Spec.GPUMem > 0 {
			asked = quantity.FormatBytes(d.Spec.GPUMem)
		}
		d.refuse(fault.Reason{
			Code: codes.DevicesNotShared, Field: "gpu", Observed: asked, Bound: "1", Scope: by, Never: d.Gate == Accept,
			Message: fmt.Sprintf("asked for %s of a device, %s gives whole ones", asked, by),
		})
	}
	if d.Spec.Host() && !d.HostPrograms {
		d.refuse(hostDenied(d.Gate == Accept))
	}
	if d.Gate != Accept {
		return
	}
	for _, r := range d.deniedMounts(d.Spec.Mounts, d.Subject.Home) {
		d.refuse(r)
	}
	d.network()
}

// hostDenied refuses a program on the machine itself.
func hostDenied(never bool) fault.Reason {
	return fault.Reason{
		Code: codes.HostDenied, Field: "kind", Observed: string(workload.KindBatch), Bound: string(workload.KindContainer), Scope: "site", Never: never,
		Message: "programs on the machine itself aren't allowed here, only containers: an admin allows them by engine.host.programs in the configuration",
	}
}

// deniedMounts refuses what may not be mounted here by a user with that home.
func (v View) deniedMounts(mounts []workload.Mount, home string) []fault.Reason {
	var out []fault.Reason
	for _, m := range mounts {
		if m.Type == workload.MountBind && !v.mountAllowed(m.Source, home) {
			out = append(out, fault.Reason{
				Code: codes.MountNotAllowed, Field: "mounts", Observed: m.Source, Bound: strings.Join(v.MountRoots, " "), Never: true,
				Message: "mounting " + m.Source + " isn't allowed here (allowed: your own folders below " + or(strings.Join(v.MountRoots, ", "), "nothing") + ")",
			})
		}
	}
	return out
}

// splits reports whether the job may have a part of a device: where the partition lets
// devices be shared, and not out of what is reserved, which is whole ones.
func (r Request) splits() bool { return r.Subject.Partition.ShareDevices && r.Subject.In.ID == 0 }

// mountAllowed confines a source to the site's roots; "~" is the user's own home.
// What the path really leads to is checked again when it is mounted.
func (v View) mountAllowed(source, home string) bool {
	for _, root := range v.MountRoots {
		if root == "~" {
			root = home
		}
		if root != "" && (source == root || strings.HasPrefix(source, strings.TrimSuffix(root, "/")+"/")) {
			return true
		}
	}
	return false
}

// place checks nodes and devices: at Accept whether the job could ever run, at
// Start whether it fits now.
func (d *decision) place() {
	if d.shape.In != d.Subject.In.ID || d.lacksMemory {
		return // its reservation is over, which offer says, or memory has said it
	}
	never := d.Placement.NeverFits(d.shape, d.Subject.Partition)
	sh := d.shape
	sh.Grace += StartMargin // it holds its place from before its program starts
	if sh.In != 0 {
		never = d.Placement.NeverInside(sh, d.Now)
	}
	if len(never) > 0 {
		for _, m := range never {
			d.refuse(d.misfit(m))
		}
		return
	}
	if d.Gate != Start {
		return
	}
	var bad []placement.Misfit
	if d.Spot != nil {
		d.out.Spot, bad = *d.Spot, d.Placement.Check(sh, *d.Spot, d.Now)
	} else {
		d.out.Spot, bad = d.Placement.FitNow(sh, d.Subject.Partition, d.Now)
	}
	d.out.Misfits = bad
	for _, m := range bad {
		d.refuse(d.misfit(m))
	}
}

// bounds checks limits. At Accept only what no waiting cures, and the count of
// submitted jobs, is refused; the rest waits for Start.
func (d *decision) bounds() {
	for _, v := range d.Limits.Check(d.who(), d.ask()) {
		if d.Gate == Accept && !v.Never && v.Limit.Resource != limits.Submitted {
			continue
		}
		d.refuse(d.violation(v))
	}
	for _, v := range d.shares(d.ask()) {
		if d.Gate == Start || v.Never {
			d.refuse(d.beyond(v))
		}
	}
}

// ask is what passing the gate adds to the use of the job's scopes.
func (d *decision) ask() limits.Ask {
	n := d.Spec.Ranks()
	a := limits.Ask{Demand: limits.Demand{CPU: n * d.shape.CPU, Mem: n * d.shape.Mem, GPU: n * d.shape.GPU, Models: d.models(), Running: 1}, Wall: d.Spec.Time, Grace: d.Spec.Grace, Now: d.Now}
	if len(a.Models) > 0 {
		a.GPU = catalog.Counted(a.Models)
	}
	if d.Gate == Accept {
		a.Submitted = d.jobs()
	}
	return a
}

// price computes the cost and the deposit, and takes it out of the account's sources. A
// job that takes any of several models is priced by the dearest until its devices
// are known.
func (d *decision) price() error {
	d.out.Use = catalog.Use{CPU: d.Spec.Ranks() * d.shape.CPU, Mem: d.Spec.Ranks() * d.shape.Mem, Devices: d.models()}
	book := d.Catalog.Book(d.Subject.Partition.Name, d.Now)
	if d.shape.GPU > 0 && d.out.Use.Devices == nil {
		d.out.Use.Devices = []catalog.ModelCount{book.Dearest(d.each(), d.Now)}
	}
	mode := d.billing()
	if mode == tenancy.BillingOff {
		return nil
	}
	var err error
	d.out.Cost, err = book.Cost(d.out.Use, d.factor(), d.Now, d.Now+d.shape.Length())
	if err == nil {
		d.out.Cost, err = d.out.Cost.Times(d.jobs())
	}
	if err != nil {
		return fault.New(codes.Invalid, "the price of this request is too large to compute: ask for less")
	}
	if err := d.rolling(book); err != nil {
		return fault.New(codes.Invalid, "the price of this request is too large to compute: ask for less")
	}
	if mode == tenancy.BillingEnforce {
		d.priced(book)
	}
	d.deposit(mode)
	return nil
}

// priced refuses what has no price where money decides.
func (d *decision) priced(book catalog.Book) {
	p, ok := book.At(d.Now)
	if !ok {
		d.refuse(fault.Reason{Code: codes.PriceMissing, Message: "partition " + d.Subject.Partition.Name + " has no price yet: an admin must run croft price set", Scope: "partition " + d.Subject.Partition.Name, Never: true})
		return
	}
	for _, m := range d.out.Use.Devices {
		if _, ok := p.Device(m.Model); !ok && m.Model != "" {
			d.refuse(fault.Reason{Code: codes.PriceMissing, Message: "model " + m.Model + " has no price yet: an admin must run croft price set", Field: "model", Scope: "partition " + d.Subject.Partition.Name, Never: true})
		}
	}
}

// deposit splits what is still to be set aside over the sources.
func (d *decision) deposit(mode tenancy.Billing) {
	need := d.out.Need - aside(d.Job)
	sources := d.sources()
	have := ledger.Available(sources)
	d.out.Before = int64(have)
	if need <= 0 {
		return
	}
	d.capped(need)
	var unfunded ledger.Account
	if mode == tenancy.BillingShowback {
		unfunded = ledger.Unfunded(d.Subject.Account.ID)
	}
	parts, short := ledger.Split(sources, need, unfunded)
	if short > 0 {
		d.refuse(fault.Reason{
			Code: codes.Funds, Field: "time", Observed: need.String(), Bound: have.String(), Scope: "account " + d.Subject.Account.Name, Never: d.Gate == Accept,
			Message: "the deposit is " + need.String() + ", account " + d.Subject.Account.Name + " has " + have.String() + " left",
		})
		return
	}
	d.out.Deposit = parts
}

// aside is what is set aside for a job already, if there is one.
func aside(j *workload.Job) money.Micros {
	var left money.Micros
	if j != nil {
		for _, p := range j.Sources {
			left += p.Left
		}
	}
	return left
}

// jobs is how many jobs ask: all elements of an array to be accepted, one to start.
func (d *decision) jobs() int64 {
	if d.Gate == Accept {
		return d.Spec.Jobs()
	}
	return 1
}

func (d *decision) billing() tenancy.Billing {
	if d.Job != nil {
		return tenancy.Billing(d.Job.Billing)
	}
	return d.Subject.Account.Billing
}

func (d *decision) factor() int64 {
	if d.Job != nil {
		return d.Job.Factor
	}
	return d.Subject.QoS.Factor
}
