package fairshare

import (
	"math/bits"

	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/money"
)

// What counts where the price book says nothing, in micro-credits per hour.
const (
	coreRate   = money.Rate(10_000)
	gibRate    = money.Rate(1_000)
	deviceRate = money.Rate(1_000_000)
)

// RateOf is what having u counts, per hour: its price at t by the list, whatever
// the QoS and whether the account is billed. What has no price counts as the
// constants above say.
func RateOf(book catalog.Book, u catalog.Use, t int64) money.Rate {
	p, listed := book.At(t)
	if !listed {
		p.CPU, p.Memory = coreRate, gibRate
	}
	sum := plus(per(u.CPU, p.CPU, money.PerCore), per(u.Mem, p.Memory, money.PerGiB))
	for _, d := range u.Devices {
		rate, ok := p.Device(d.Model)
		if !ok {
			rate = deviceRate
		}
		sum = plus(sum, per(d.Count, rate, money.PerDevice))
	}
	return money.Rate(sum)
}

// per is amount × rate / unit, rounded up.
func per(amount int64, rate money.Rate, unit money.Unit) money.Micros {
	if amount <= 0 || rate <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(amount), uint64(rate))
	if hi >= uint64(unit) {
		return Most
	}
	q, rest := bits.Div64(hi, lo, uint64(unit))
	if rest != 0 {
		q++
	}
	return money.Micros(min(q, uint64(Most)))
}
