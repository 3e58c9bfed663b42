package admission

import (
	"fmt"
	"strconv"
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

// text writes an amount of a resource as its field is written.
func text(r limits.Resource, n int64) string {
	switch r {
	case limits.CPU:
		return quantity.FormatCPU(n)
	case limits.Mem:
		return quantity.FormatBytes(n)
	case limits.Time:
		return span(n)
	}
	return strconv.FormatInt(n, 10)
}

// fieldOf is the spec field that asks for a resource.
func fieldOf(r limits.Resource) string {
	switch r {
	case limits.CPU, limits.Mem, limits.GPU, limits.Time:
		return string(r)
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
	return string(r)
}

// violation words a limit that would be passed.
func (d *decision) violation(v limits.Violation) fault.Reason {
	r := v.Limit.Resource
	out := fault.Reason{
		Code: limitCode(r), Field: fieldOf(r), Observed: text(r, v.Asked), Bound: text(r, v.Limit.Max), Scope: d.scope(v.Limit.Scope), Never: v.Never,
	}
	switch {
	case r == limits.Running || r == limits.Submitted:
		out.Message = fmt.Sprintf("%s has %d of at most %d jobs %s", out.Scope, v.Used, v.Limit.Max, r)
		out.Observed = strconv.FormatInt(v.Used, 10)
		out.Never = v.Limit.Max == 0
	case v.Never:
		out.Message = fmt.Sprintf("asked for %s %s, %s may use %s at once", out.Observed, unit(r), out.Scope, out.Bound)
		if r == limits.Time {
			out.Message = fmt.Sprintf("asked for time %s, %s may run for %s", out.Observed, out.Scope, out.Bound)
		}
	default:
		out.Message = fmt.Sprintf("asked for %s %s, %s uses %s of %s", out.Observed, unit(r), out.Scope, text(r, v.Used), out.Bound)
	}
	return out
}

func limitCode(r limits.Resource) codes.Reason {
	switch r {
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
	}
	return codes.LimitDevices
}

// scope names whose bound a limit is.
func (v View) scope(s limits.Scope) string {
	name := "everybody"
	a, _ := v.Tenancy.Accounts.Get(s.Account)
	u, _ := v.Tenancy.Users.Get(s.User)
	switch {
	case s.Account != 0 && s.User != 0:
		name = "user " + u.Name + " in account " + a.Name
	case s.Account != 0:
		name = "account " + a.Name
	case s.User != 0:
		name = "user " + u.Name
	}
	if s.Partition != "" {
		name += " in partition " + s.Partition
	}
	return name
}

// ScopeName names whose bound a limit is, in words.
func (v View) ScopeName(s limits.Scope) string { return v.scope(s) }

// misfit words what keeps a job off the nodes.
func misfit(m placement.Misfit) fault.Reason {
	r := fault.Reason{Code: m.Code(), Field: fieldOf(m.Resource), Scope: "node " + m.Node, Never: m.Incurable()}
	if m.Resource != "" {
		r.Observed, r.Bound = text(m.Resource, m.Asked), text(m.Resource, m.Free)
	}
	switch m.Kind {
	case placement.NoModel:
		model, _ := m.Resource.Model()
		r.Field, r.Observed, r.Scope, r.Bound = "model", model, "", ""
		r.Message = "no node has a " + model
		if m.Where != "" {
			r.Message = "no node with " + m.Where + " has a " + model
		}
	case placement.NoFeature:
		r.Field, r.Observed, r.Scope = "constraint", m.Where, ""
		r.Message = "no node has " + m.Where
		if m.Node != "" {
			r.Message, r.Scope = m.Node+" doesn't have "+m.Where, "node "+m.Node
		}
	case placement.NeverFit:
		r.Bound = text(m.Resource, m.Total)
		r.Message = fmt.Sprintf("asked for %s %s, %s has %s", r.Observed, unit(m.Resource), or(m.Node, "the partition"), r.Bound)
		if m.Node == "" {
			r.Scope = ""
		}
	case placement.Busy:
		r.Message = fmt.Sprintf("needs %s %s; %s of %s are free on %s", r.Observed, unit(m.Resource), r.Bound, text(m.Resource, m.Total), m.Node)
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
	case placement.Drained:
		r.Message = m.Node + " is drained: " + or(m.Why, "no reason given")
	case placement.Down:
		r.Message = m.Node + " is down: " + or(m.Why, "it doesn't report")
	}
	return r
}

func foreign(m placement.Misfit) string {
	for _, d := range m.Devices {
		for _, p := range d.Foreign {
			return fmt.Sprintf("%s is busy: pid %d (%s, %s), which Croft didn't start", d.Name, p.PID, or(p.User, "unknown user"), or(p.Command, "unknown program"))
		}
	}
	return "devices of " + m.Node + " are used by processes that Croft didn't start"
}
