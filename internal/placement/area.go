package placement

import (
	"cmp"
	"math"
	"math/bits"
)

// area is an amount of a resource times a time in ns, summed over many jobs: a
// number of 128 bits, in two's complement.
type area struct{ hi, lo uint64 }

// areaOf is amount × ns; neither is negative.
func areaOf(amount, ns int64) area {
	hi, lo := bits.Mul64(uint64(max(0, amount)), uint64(max(0, ns)))
	return area{hi, lo}
}

func (a area) plus(b area) area {
	lo, carry := bits.Add64(a.lo, b.lo, 0)
	hi, _ := bits.Add64(a.hi, b.hi, carry)
	return area{hi, lo}
}

func (a area) minus(b area) area {
	lo, borrow := bits.Sub64(a.lo, b.lo, 0)
	hi, _ := bits.Sub64(a.hi, b.hi, borrow)
	return area{hi, lo}
}

// times is a × n; n isn't negative.
func (a area) times(n int64) area {
	hi, lo := bits.Mul64(a.lo, uint64(n))
	return area{hi + a.hi*uint64(n), lo}
}

// orZero is a, or zero if that is negative.
func (a area) orZero() area {
	if int64(a.hi) < 0 {
		return area{}
	}
	return a
}

// share is a × part / whole; 0 ≤ part ≤ whole.
func (a area) share(part, whole int64) area {
	if part >= whole {
		return a
	}
	w, p := uint64(whole), uint64(part)
	qhi, rem := bits.Div64(0, a.hi, w)
	qlo, rem := bits.Div64(rem, a.lo, w)
	hi, lo := bits.Mul64(qlo, p)
	// What the division left over is less than whole, so its share is one word.
	restHi, restLo := bits.Mul64(rem, p)
	rest, _ := bits.Div64(restHi, restLo, w)
	return area{hi + qhi*p, lo}.plus(area{0, rest})
}

// over is how many ns it takes to work a off at a rate of amount, rounded up; it
// ends at the end of time. Amount is positive.
func (a area) over(amount int64) int64 {
	if a.hi >= uint64(amount) {
		return math.MaxInt64
	}
	q, rem := bits.Div64(a.hi, a.lo, uint64(amount))
	if rem > 0 && q < math.MaxInt64 {
		q++
	}
	return int64(min(q, math.MaxInt64))
}

// compare orders areas that aren't negative.
func (a area) compare(b area) int { return cmp.Or(cmp.Compare(a.hi, b.hi), cmp.Compare(a.lo, b.lo)) }
