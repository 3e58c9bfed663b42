package query

import (
	"strconv"
	"time"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/limits"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/placement"
)

// Reasons is reasons as the API shows them.
func Reasons(in []fault.Reason) []v1.Reason {
	if len(in) == 0 {
		return nil
	}
	out := make([]v1.Reason, len(in))
	for i, r := range in {
		out[i] = v1.Reason{
			Code: string(r.Code), Message: r.Message, Field: r.Field, Observed: r.Observed, Bound: r.Bound, Scope: r.Scope, Never: r.Never,
		}
	}
	return out
}

// Remedy is a remedy as the API shows it.
func Remedy(in *fault.Remedy) *v1.Remedy {
	if in == nil {
		return nil
	}
	return &v1.Remedy{Set: in.Set, Flags: in.Flags, Start: moment(in.Start), Exact: in.Exact}
}

// at is a point in time as the API shows it.
func at(ns int64) time.Time { return time.Unix(0, ns).UTC() }

// moment is the same where 0 means none.
func moment(ns int64) *time.Time {
	if ns == 0 {
		return nil
	}
	t := at(ns)
	return &t
}

func window(w placement.Window) v1.Window {
	return v1.Window{Kind: string(w.Kind), Start: moment(w.Start), Position: w.Position, Queue: w.Queue, Stops: w.Stops}
}

func lines(in []catalog.CostLine) []v1.PriceLine {
	out := make([]v1.PriceLine, len(in))
	for i, l := range in {
		out[i] = v1.PriceLine{
			Resource: l.Resource, Model: l.Model, Amount: limits.Format(limits.Resource(l.Resource), l.Amount),
			Rate: money.Micros(l.Rate).String(), Credits: l.Micros.String(),
		}
	}
	return out
}

func use(r limits.Resource, used, total int64) v1.Use {
	return v1.Use{Used: v1.Quantity(limits.Format(r, used)), Total: v1.Quantity(limits.Format(r, total))}
}

func decimal[T ~int64 | ~int32](n T) string { return strconv.FormatInt(int64(n), 10) }
