package httpapi

import (
	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/internal/command"
)

func (c *call) periods() (v1.Page[v1.Period], error) {
	return page(c.Reader.Periods(c.r.Context(), c.p))
}

func (c *call) period() (v1.Period, error) {
	return c.Reader.Period(c.r.Context(), c.p, c.path("period"))
}

// closePeriod closes what was verified just before: money of a period that is over doesn't
// change, and what may become known of its device time is decided about in the same step.
func (c *call) closePeriod() (v1.Period, error) {
	from, to, err := c.Reader.MayClose(c.r.Context(), c.p, c.path("period"))
	if err != nil {
		return v1.Period{}, err
	}
	if _, err := c.do(command.PeriodClose{From: from, To: to}); err != nil {
		return v1.Period{}, err
	}
	return c.Reader.ClosedPeriod(c.r.Context(), c.p, from, to)
}
