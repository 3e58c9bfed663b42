package fairshare

import (
	"math/bits"

	"croft.dev/croft/internal/money"
)

// What was used fades: after a half-life it counts half. The part that is left
// after a time t, 2^(-t/half), is found in whole numbers: the whole half-lives in t
// are shifts, and the rest of t/half is taken bit by bit from a table of roots.

// whole is all of it, as fade counts.
const whole = uint64(1) << 63

// roots[i] is 2^(-2^-(i+1)) in units of 2^-64, rounded down.
var roots = [32]uint64{
	0xb504f333f9de6484, 0xd744fccad69d6af4, 0xeac0c6e7dd24392e, 0xf5257d152486cc2c,
	0xfa83b2db722a033a, 0xfd3e0c0cf486c174, 0xfe9e115c7b8f884b, 0xff4ecb59511ec8a5,
	0xffa756521c8daed1, 0xffd3a751c0f7e10b, 0xffe9d2b2f7db2755, 0xfff4e91bff1b8c3d,
	0xfffa747ea0040664, 0xfffd3a3b7814eb53, 0xfffe9d1cc60ddab1, 0xffff4e8e25879bfa,
	0xffffa7470363f451, 0xffffd3a37dda0313, 0xffffe9d1bdf703ae, 0xfffff4e8debe025e,
	0xfffffa746f4fa150, 0xfffffd3a37a3f8b0, 0xfffffe9d1bd1065a, 0xffffff4e8de845ad,
	0xffffffa746f41376, 0xffffffd3a37a05e3, 0xffffffe9d1bd01fb, 0xfffffff4e8de80c0,
	0xfffffffa746f4050, 0xfffffffd3a37a024, 0xfffffffe9d1bd011, 0xffffffff4e8de808,
}

const (
	ln2     = 0xb17217f7d1cf79ab // in units of 2^-64
	overLn2 = 0xb8aa3b295c17f0bb // 1/ln 2, in units of 2^-63
)

// fade is what is left of a whole after t ns, within 2^-56 of it. A half-life of 0
// is one without end.
func fade(t, half int64) uint64 {
	if t <= 0 || half <= 0 {
		return whole
	}
	halves := t / half
	if halves >= 63 {
		return 0
	}
	part, _ := bits.Div64(uint64(t%half), 0, uint64(half)) // in units of 2^-64
	left := whole
	for i, root := range roots {
		if part<<i>>63 != 0 {
			left, _ = bits.Mul64(left, root)
		}
	}
	// so little is left of part that 2^-x is 1 - x ln 2
	lost, _ := bits.Mul64(part&(1<<32-1), ln2)
	lost, _ = bits.Mul64(left, lost)
	return (left - lost) >> halves
}

// faded is what is left of n after t ns, rounded down.
func faded(n money.Micros, t, half int64) money.Micros {
	hi, lo := bits.Mul64(uint64(n), fade(t, half))
	return money.Micros(hi<<1 | lo>>63)
}

// unfaded is what there must have been t ns before, at most a half-life, for n to
// be left, rounded up: so much is there afterwards, at least.
func unfaded(n money.Micros, t, half int64) money.Micros {
	q, rest := bits.Div64(uint64(n)>>1, uint64(n)<<63, fade(t, half))
	if rest != 0 {
		q++
	}
	return min(money.Micros(q), Most)
}

// lasting is how many of the ns from one time to another still count at time now,
// each faded by its own age: the integral of fade over them, rounded up. It is at most
// to-from.
func lasting(from, to, now, half int64) int64 {
	if to = min(to, now); from >= to {
		return 0
	}
	if half <= 0 {
		return to - from
	}
	mean, _ := bits.Mul64(uint64(half)<<1, overLn2) // of all time to come, half/ln 2
	n, lo := bits.Mul64(mean, fade(now-to, half)-fade(now-from, half))
	if n = n<<1 | lo>>63; lo<<1 != 0 {
		n++
	}
	return min(int64(n), to-from)
}

// Most is where a count of use ends; that is more than a million devices use in
// a hundred thousand years at a credit per hour.
const Most = money.Micros(1) << 62

func plus(a, b money.Micros) money.Micros { return min(a+b, Most) }

const hour = uint64(3600e9) // ns

// priced is what ns nanoseconds at a rate come to, rounded up: nothing is so small
// that it is free.
func priced(rate money.Rate, ns int64) money.Micros {
	if rate <= 0 || ns <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(rate), uint64(ns))
	if hi >= hour {
		return Most
	}
	q, rest := bits.Div64(hi, lo, hour)
	if rest != 0 {
		q++
	}
	if q > uint64(Most) {
		return Most
	}
	return money.Micros(q)
}
