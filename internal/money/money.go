// Package money has credits as checked integers: a credit is 1,000,000
// micro-credits. Prices are multiplied exactly and rounded in one place, Cost.
package money

import (
	"errors"
	"fmt"
	"math/big"
	"math/bits"
	"strings"

	"croft.dev/croft/internal/quantity"
)

// Micros is an amount in micro-credits.
type Micros int64

// Credit is one credit.
const Credit Micros = 1_000_000

// ErrRange says that an amount doesn't fit.
var ErrRange = errors.New("amount too large")

// Parse reads credits with at most six decimal places: "500", "2.288". A sign is
// not accepted: what is negative is a posting the other way round.
func Parse(s string) (Micros, error) {
	n, err := quantity.ParseDecimal(s, 6)
	return Micros(n), err
}

// String writes credits with at least three decimal places: "2.288".
func (m Micros) String() string { return quantity.FormatDecimal(int64(m), 6, 3) }

// Add is m+n or ErrRange.
func (m Micros) Add(n Micros) (Micros, error) {
	v, err := quantity.Add(int64(m), int64(n))
	if err != nil {
		return 0, ErrRange
	}
	return Micros(v), nil
}

// Percent is part in hundredths of whole, rounded down: from 0 to 100, and 0 of nothing.
func Percent(part, whole Micros) int64 {
	if whole <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(min(max(part, 0), whole)), 100)
	n, _ := bits.Div64(hi, lo, uint64(whole))
	return int64(n)
}

// Times is n × m or ErrRange.
func (m Micros) Times(n int64) (Micros, error) {
	v, err := quantity.Mul(int64(m), n)
	if err != nil {
		return 0, ErrRange
	}
	return Micros(v), nil
}

// Rate is a price in micro-credits per hour of one unit (core, GiB, device).
type Rate int64

// Hour and the unit sizes that a Rate refers to.
const (
	hour  = int64(3600) * 1_000_000_000
	core  = int64(1000)    // milli-cores
	gib   = int64(1) << 30 // bytes
	milli = int64(1000)    // of a device; of a factor
)

// Unit is how many of a resource's own counts make one unit of its price.
type Unit int64

// The priced units.
const (
	PerCore   = Unit(core)  // amounts in milli-cores
	PerGiB    = Unit(gib)   // amounts in bytes
	PerDevice = Unit(milli) // amounts in milli-devices
)

// Line accumulates the exact price of one resource over any number of spans: a
// numerator over the fixed denominator unit × hour × 1000. The zero value is 0.
type Line struct{ num big.Int }

// Add adds amount × rate × factor over ns nanoseconds. The factor is in
// thousandths. Nothing is rounded. Negative arguments count as zero.
func (l *Line) Add(amount int64, rate Rate, factor int64, ns int64) {
	if amount <= 0 || rate <= 0 || factor <= 0 || ns <= 0 {
		return
	}
	p := big.NewInt(amount)
	p.Mul(p, big.NewInt(int64(rate)))
	p.Mul(p, big.NewInt(factor))
	p.Mul(p, big.NewInt(ns))
	l.num.Add(&l.num, p)
}

// Total is the line's amount in micro-credits, rounded down: the only place
// where money is rounded.
func (l *Line) Total(unit Unit) (Micros, error) {
	den := big.NewInt(int64(unit))
	den.Mul(den, big.NewInt(hour))
	den.Mul(den, big.NewInt(milli))
	q := new(big.Int).Quo(&l.num, den)
	if !q.IsInt64() {
		return 0, ErrRange
	}
	return Micros(q.Int64()), nil
}

// MaxAffordable returns the longest span in nanoseconds that funds can pay for at
// the sum of the hourly prices, in exact arithmetic. When nothing is charged, or
// the span doesn't fit, it is the largest int64.
func MaxAffordable(funds Micros, perHour []HourPrice) int64 {
	sum := new(big.Rat)
	for _, p := range perHour {
		n := big.NewInt(p.Amount)
		n.Mul(n, big.NewInt(int64(p.Rate)))
		n.Mul(n, big.NewInt(p.Factor))
		d := big.NewInt(int64(p.Unit))
		d.Mul(d, big.NewInt(milli))
		sum.Add(sum, new(big.Rat).SetFrac(n, d))
	}
	if sum.Sign() == 0 {
		return 1<<63 - 1
	}
	span := new(big.Rat).SetFrac(new(big.Int).Mul(big.NewInt(int64(funds)), big.NewInt(hour)), big.NewInt(1))
	span.Quo(span, sum)
	q := new(big.Int).Quo(span.Num(), span.Denom())
	if !q.IsInt64() {
		return 1<<63 - 1
	}
	return q.Int64()
}

// HourPrice is one resource's part of a price per hour.
type HourPrice struct {
	Amount int64
	Rate   Rate
	Factor int64 // thousandths
	Unit   Unit
}

// UnmarshalText reads what String writes.
func (m *Micros) UnmarshalText(b []byte) error {
	s, neg := strings.CutPrefix(string(b), "-")
	v, err := Parse(s)
	if err != nil {
		return fmt.Errorf("credits %w", err)
	}
	if *m = v; neg {
		*m = -v
	}
	return nil
}

// MarshalText is String.
func (m Micros) MarshalText() ([]byte, error) { return []byte(m.String()), nil }
