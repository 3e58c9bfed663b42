package catalog

import (
	"math"
	"math/bits"
	"slices"

	"croft.dev/croft/internal/money"
)

// ModelCount is so much of the devices of one model, in milli-devices.
type ModelCount struct {
	Model string
	Count int64
}

// Counted is all of the devices in counts, in milli-devices.
func Counted(counts []ModelCount) int64 {
	var n int64
	for _, m := range counts {
		n += m.Count
	}
	return n
}

// Use is what is paid for: milli-cores, bytes and milli-devices by model.
type Use struct {
	CPU, Mem int64
	Devices  []ModelCount
}

// CostLine is one resource's part of a cost: exact over all its spans, rounded
// down once.
type CostLine struct {
	Resource string     // "gpu", "cpu" or "mem"
	Model    string     // of devices
	Amount   int64      // milli-cores, bytes or milli-devices
	Rate     money.Rate // in force at the start, before the factor
	Micros   money.Micros
}

// Cost is the price of a use over a span.
type Cost struct {
	Lines []CostLine
	Total money.Micros
}

// Times is the price of n such uses; the only error is money.ErrRange.
func (c Cost) Times(n int64) (Cost, error) {
	if n == 1 {
		return c, nil
	}
	out := Cost{Lines: slices.Clone(c.Lines)}
	var err error
	for i := range out.Lines {
		if out.Lines[i].Micros, err = out.Lines[i].Micros.Times(n); err != nil {
			return out, err
		}
	}
	out.Total, err = c.Total.Times(n)
	return out, err
}

// Cost returns what u costs over [from, to) by this book at a QoS factor in
// thousandths. Cutting the span anywhere changes nothing. The only error is
// money.ErrRange.
func (b Book) Cost(u Use, factor, from, to int64) (Cost, error) {
	var c Cost
	segs := b.Segments(from, to)
	first, _ := b.At(from)
	add := func(r string, model string, amount, scaled int64, unit money.Unit, rate func(Price) money.Rate) error {
		if amount == 0 {
			return nil
		}
		var l money.Line
		for _, s := range segs {
			l.Add(scaled, rate(s.Price), factor, s.To-s.From)
		}
		m, err := l.Total(unit)
		if err != nil {
			return err
		}
		c.Lines = append(c.Lines, CostLine{r, model, amount, rate(first), m})
		c.Total, err = c.Total.Add(m)
		return err
	}
	for _, d := range u.Devices {
		rate := func(p Price) money.Rate { r, _ := p.Device(d.Model); return r }
		if err := add("gpu", d.Model, d.Count, d.Count, money.PerDevice, rate); err != nil {
			return Cost{}, err
		}
	}
	if err := add("cpu", "", u.CPU, u.CPU, money.PerCore, func(p Price) money.Rate { return p.CPU }); err != nil {
		return Cost{}, err
	}
	err := add("mem", "", u.Mem, u.Mem, money.PerGiB, func(p Price) money.Rate { return p.Memory })
	return c, err
}

// Affordable is a span in ns from t on that funds can pay for at the prices that
// apply then: the longest one, less at most what a few micro-credits buy for each
// change of price in it. When nothing is charged it is the largest int64.
func (b Book) Affordable(u Use, factor int64, t int64, funds money.Micros) int64 {
	for _, s := range b.Segments(t, math.MaxInt64) {
		span := money.MaxAffordable(funds, hourPrices(u, factor, s.Price))
		if span < s.To-s.From {
			return s.From - t + span
		}
		if s.To == math.MaxInt64 {
			break
		}
		c, err := Book{s.Price}.Cost(u, factor, s.From, s.To)
		if err != nil {
			return 0
		}
		// each line was rounded down: what is left is taken a little lower
		funds = max(funds-c.Total-money.Micros(len(c.Lines)), 0)
	}
	return math.MaxInt64
}

// hourPrices is what an hour of u costs by one version.
func hourPrices(u Use, factor int64, p Price) []money.HourPrice {
	hours := []money.HourPrice{{Amount: u.CPU, Rate: p.CPU, Factor: factor, Unit: money.PerCore}, {Amount: u.Mem, Rate: p.Memory, Factor: factor, Unit: money.PerGiB}}
	for _, d := range u.Devices {
		r, _ := p.Device(d.Model)
		hours = append(hours, money.HourPrice{Amount: d.Count, Rate: r, Factor: factor, Unit: money.PerDevice})
	}
	return hours
}

// Dearest returns what of several ways to have devices costs most at t, for a request
// that takes any.
func (b Book) Dearest(ways []ModelCount, t int64) ModelCount {
	p, _ := b.At(t)
	var best ModelCount
	var most [2]uint64
	for i, m := range ways {
		r, _ := p.Device(m.Model)
		hi, lo := bits.Mul64(uint64(r), uint64(m.Count))
		if cost := [2]uint64{hi, lo}; i == 0 || slices.Compare(cost[:], most[:]) > 0 {
			best, most = m, cost
		}
	}
	return best
}
