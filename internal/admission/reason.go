package admission

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/placement"
	"croft.dev/croft/internal/quantity"
)

type pathID = id.Account

const memberRole = access.Member

// day is a moment as reasons name it.
func day(ns int64) string { return time.Unix(0, ns).UTC().Format("2006-01-02 15:04 UTC") }

func barredCode(why string) codes.Reason {
	if why == "expired" {
		return codes.UserExpired
	}
	return codes.UserBlocked
}

func span(ns int64) string { return quantity.FormatDuration(ns) }

// bound is a reason about one field that is above an upper bound.
func bound(code codes.Reason, field, asked, most, scope string, never bool) fault.Reason {
	return fault.Reason{
		Code: code, Field: field, Observed: asked, Bound: most, Scope: scope, Never: never,
		Message: fmt.Sprintf("asked for %s %s, %s allows %s", field, asked, scope, most),
	}
}

// fieldOf is the spec field that asks for a resource.
func fieldOf(r limits.Resource) string {
	if r.Hours() || r == limits.Credits {
		return "time"
	}
	switch of := r.Of(); of {
	case limits.CPU, limits.Mem, limits.GPU, limits.Time:
		return string(of)
	}
	if _, ok := r.Model(); ok {
		return "gpu"
	}
	return ""
}

func unit(r limits.Resource) string {
	if m, ok := r.Model(); ok {
		return m
	}
	return string(r.Of())
}

// violation words a limit that would be passed.
func (d *decision) violation(v limits.Violation) fault.Reason {
	r := v.Limit.Resource
	out := fault.Reason{
		Code: limitCode(r), Field: fieldOf(r), Observed: limits.Format(r, v.Asked), Bound: limits.Format(r, v.Max), Scope: d.BoundName(v.Bound), Never: v.Never,
	}
	switch {
	case r == limits.Running || r == limits.Submitted:
		out.Message = fmt.Sprintf("%s has %d of at most %d jobs %s", out.Scope, v.Used, v.Max, r)
		out.Observed = strconv.FormatInt(v.Used, 10)
		out.Never = v.Asked > v.Max
		if v.Asked > 1 {
			out.Message = fmt.Sprintf("asks for %d jobs, %s", v.Asked, out.Message)
		}
	case r == limits.Credits:
		account, _ := d.Tenancy.Accounts.Get(v.Limit.Scope.Account)
		out.Message = overCap(v, out.Scope, account.Name)
	case r.Hours():
		out.Message = fmt.Sprintf("would use %s %s, %s has %s left of %s%s", out.Observed, r, out.Scope, limits.Format(r, v.Left()), out.Bound, during(v.Bound))
	case r == limits.Time:
		out.Message = fmt.Sprintf("asked for time %s, %s may run for %s", out.Observed, out.Scope, out.Bound)
	case r.PerJob():
		out.Message = fmt.Sprintf("asked for %s %s, a job of %s may have %s", out.Observed, unit(r), out.Scope, out.Bound)
	case v.Never:
		out.Message = fmt.Sprintf("asked for %s %s, %s may use %s at once", out.Observed, unit(r), out.Scope, out.Bound)
	default:
		out.Message = fmt.Sprintf("asked for %s %s, %s uses %s of %s", out.Observed, unit(r), out.Scope, limits.Format(r, v.Used), out.Bound)
	}
	return out
}

// during says which period a bound is for.
func during(b limits.Bound) string {
	switch b.Limit.Per.Unit {
	case "":
		return " in all"
	case limits.Rolling:
		return " in " + quantity.FormatDuration(b.Limit.Per.Span)
	case limits.Day:
		return " today, until " + day(b.To)
	}
	return " this " + string(b.Limit.Per.Unit) + ", until " + day(b.To)
}

func limitCode(r limits.Resource) codes.Reason {
	if r.Hours() {
		return codes.LimitHours
	}
	switch r.Of() {
	case limits.CPU:
		return codes.LimitCPU
	case limits.Mem:
		return codes.LimitMemory
	case limits.Running:
		return codes.LimitRunning
	case limits.Submitted:
		return codes.LimitSubmitted
	case limits.Time:
		return codes.LimitWall
	case limits.Credits:
		return codes.LimitCredits
	}
	return codes.LimitDevices
}

// scope names whose bound a limit is.
func (v View) scope(s limits.Scope) string {
	name := "everybody"
	a, _ := v.Tenancy.Accounts.Get(s.Account)
	u, _ := v.Tenancy.Users.Get(s.User)
	user := "user " + u.Name
	if s.User == limits.Each {
		user = "each user"
	}
	switch {
	case s.Account != 0 && s.User != 0:
		name = user + " in account " + a.Name
	case s.Account != 0:
		name = "account " + a.Name
	case s.User != 0:
		name = user
	}
	if s.QoS != "" {
		name += " with QoS " + s.QoS
	}
	if s.Partition != "" {
		name += " in partition " + s.Partition
	}
	return name
}

// BoundName names whose bound a limit or a token's cap is, in words.
func (v View) BoundName(b limits.Bound) string {
	if b.Token.ID == 0 {
		return v.scope(b.Limit.Scope)
	}
	u, _ := v.Tenancy.Users.Get(b.Limit.Scope.User)
	return "token " + b.Token.Name + " of " + u.Name
}

// misfit words what keeps a job off the nodes.
func (d *decision) misfit(m placement.Misfit) fault.Reason {
	r := fault.Reason{Code: m.Code(), Field: fieldOf(m.Resource), Scope: "node " + m.Node, Never: m.Incurable()}
	if m.Resource != "" {
		r.Observed, r.Bound = limits.Format(m.Resource, m.Asked), limits.Format(m.Resource, m.Free)
	}
	switch m.Kind {
	case placement.NoModel:
		model, _ := m.Resource.Model()
		r.Field, r.Observed, r.Scope, r.Bound = "model", model, "", ""
		r.Message = "no node of " + d.pool() + " has a " + model
		if m.Where != "" {
			r.Message = "no node of " + d.pool() + " with " + m.Where + " has a " + model
		} else if there := strings.Join(d.has(""), ", "); there != "" {
			r.Message += "; there are: " + there
		}
	case placement.NoFeature:
		r.Field, r.Observed, r.Scope = "constraint", m.Where, ""
		r.Message = "no node of " + d.pool() + " has " + m.Where
		if m.Node != "" {
			r.Message, r.Scope = m.Node+" doesn't have "+m.Where, "node "+m.Node
		}
	case placement.FewNodes:
		r.Field, r.Scope, r.Observed, r.Bound = "nodes", d.pool(), strconv.FormatInt(m.Asked, 10), strconv.FormatInt(m.Free, 10)
		r.Message = fmt.Sprintf("needs %d nodes at once; %d of the %d that could have room now", m.Asked, m.Free, m.Total)
		if m.Incurable() {
			r.Message = fmt.Sprintf("asked for %d nodes, %s has %d with as much on each", m.Asked, d.pool(), m.Total)
		}
	case placement.NeverFit:
		r.Bound = limits.Format(m.Resource, m.Total)
		has := or(m.Node, "the partition")
		if m.In != 0 {
			has = "reservation " + d.Subject.In.Name
			r.Scope = has
		}
		if d.Subject.In.Seats() {
			has = "a place of " + has
		}
		r.Message = fmt.Sprintf("asked for %s %s, %s has %s", r.Observed, unit(m.Resource), has, r.Bound)
		switch {
		case m.In != 0 && !d.Subject.In.Seats():
			r.Message += " on one node"
		case m.In == 0 && m.Node == "":
			r.Scope = ""
		}
	case placement.Busy:
		if m.Resource != limits.CPU && m.Resource != limits.Mem && m.Asked < quantity.Device {
			memory := ""
			if m.Asked > d.Spec.GPU {
				memory = ", for " + quantity.FormatBytes(d.Spec.GPUMem) + " of its memory"
			}
			r.Message = fmt.Sprintf("needs %s of a %s%s; at most %s of one is free on %s", r.Observed, unit(m.Resource), memory, r.Bound, m.Node)
			break
		}
		r.Message = fmt.Sprintf("needs %s %s; %s of %s are free on %s", r.Observed, unit(m.Resource), r.Bound, limits.Format(m.Resource, m.Total), m.Node)
		if m.In != 0 {
			r.Message = fmt.Sprintf("needs %s %s; %s of the %s that reservation %s has of %s are free", r.Observed, unit(m.Resource), r.Bound, limits.Format(m.Resource, m.Total), d.Subject.In.Name, m.Node)
		}
	case placement.PortBusy:
		r.Field, r.Observed = "pod.ports", strconv.FormatInt(m.Asked, 10)
		r.Message = fmt.Sprintf("port %d of %s leads to another job, until %s at the latest", m.Asked, m.Node, day(m.Until))
	case placement.Foreign:
		r.Message = foreign(m)
	case placement.Unhealthy:
		r.Message = fmt.Sprintf("%d devices of %s have failed", len(m.Devices), m.Node)
	case placement.InWindow:
		r.Field, r.Observed, r.Bound = "time", "", ""
		if m.Wall > 0 {
			r.Bound = span(m.Wall)
		}
		r.Message = "would run into the maintenance of " + m.Node
		if m.Window.Reason != "" {
			r.Message += " (" + m.Window.Reason + ")"
		}
	case placement.Reserved:
		d.reserved(m, &r)
	case placement.NoWindow:
		d.noWindow(m, &r)
	case placement.Drained:
		r.Message = m.Node + " is drained: " + or(m.Why, "no reason given")
	case placement.Down:
		r.Message = m.Node + " is down: " + or(m.Why, "it doesn't report")
	}
	return r
}

// pool is where the job is to run.
func (d *decision) pool() string {
	if d.Subject.In.ID != 0 {
		return "reservation " + d.Subject.In.Name
	}
	return "partition " + d.Subject.Partition.Name
}

// reserved says until when others have reserved a node, and who if that is for the
// user: whoever else has is none of his business.
func (d *decision) reserved(m placement.Misfit, r *fault.Reason) {
	r.Field, r.Observed = "time", ""
	if r.Bound = ""; m.Wall > 0 {
		r.Bound = span(m.Wall - m.Wall%1e9)
	}
	r.Message = fmt.Sprintf("part of %s is reserved from %s until %s", m.Node, day(m.Booking.From), day(m.Booking.To))
	if of, ok := d.Placement.Reservations.Get(m.Booking.Reservation); ok && of.Admits(d.Subject.User.ID, d.path) {
		r.Message += " (reservation " + of.Name + ")"
	}
	if m.Until != 0 {
		r.Message += "; as things stand it would fit from " + day(m.Until)
	}
}

// noWindow says when the next window of the job's reservation begins, or how long those
// last.
func (d *decision) noWindow(m placement.Misfit, r *fault.Reason) {
	name := "reservation " + d.Subject.In.Name
	r.Field, r.Scope, r.Observed, r.Bound = "time", name, span(m.Asked), ""
	if m.Wall > 0 {
		r.Bound = span(m.Wall - m.Wall%1e9)
	}
	switch {
	case m.Ever:
		r.Message = fmt.Sprintf("asked for time %s, a job of %s may run for %s", r.Observed, name, or(r.Bound, "no time any more"))
	case m.Asked != 0:
		r.Message = fmt.Sprintf("asked for time %s, the window of %s ends at %s", r.Observed, name, day(m.Booking.To))
	case m.Until != 0:
		r.Field, r.Observed, r.Bound = "", "", day(m.Until)
		r.Message = fmt.Sprintf("waits for the window of %s, which begins at %s", name, day(m.Until))
	default:
		r.Field, r.Observed = "", ""
		r.Message = fmt.Sprintf("waits for a window of %s, the next of which couldn't be booked", name)
	}
}

func foreign(m placement.Misfit) string {
	for _, d := range m.Devices {
		for _, p := range d.Foreign {
			return fmt.Sprintf("%s is busy: pid %d (%s, %s), which Croft didn't start", d.Name, p.PID, or(p.User, "unknown user"), or(p.Command, "unknown program"))
		}
	}
	return "devices of " + m.Node + " are used by processes that Croft didn't start"
}
