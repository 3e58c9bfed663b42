package fairshare

import (
	"math"
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"

	"croft.dev/croft/internal/money"
)

const day = int64(24 * time.Hour)

// exact is 2^(-t/half) by floating-point numbers of 200 bits: square roots, whose
// exponents are the bits of t/half.
func exact(t, half int64) *big.Float {
	f := func(n int64) *big.Float { return new(big.Float).SetPrec(200).SetInt64(n) }
	out := f(1)
	if t <= 0 || half <= 0 {
		return out
	}
	root, rest := f(2), f(t%half)
	for range 160 {
		root.Sqrt(root)
		if rest.Add(rest, rest).Cmp(f(half)) >= 0 {
			rest.Sub(rest, f(half))
			out.Quo(out, root)
		}
	}
	return out.SetMantExp(out, -int(min(t/half, 10_000)))
}

func drawSpan(t *rapid.T, label string) int64 {
	return rapid.OneOf(rapid.Int64Range(0, 2000), rapid.Int64Range(0, 400*day), rapid.Just(7*day), rapid.Int64Range(0, math.MaxInt64)).Draw(t, label)
}

func drawHalf(t *rapid.T) int64 {
	return rapid.OneOf(rapid.Just(7*day), rapid.Int64Range(int64(time.Hour), 3650*day), rapid.Just(int64(0))).Draw(t, "half")
}

// What is left is what it should be, but for the last bits.
func TestFade(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		span, half := drawSpan(t, "span"), drawHalf(t)
		got := new(big.Float).SetPrec(200).SetUint64(fade(span, half))
		off, _ := got.Sub(got.SetMantExp(got, -63), exact(span, half)).Float64()
		if math.Abs(off) > math.Ldexp(1, -56) {
			t.Fatalf("fade(%d, %d) is off by %g", span, half, off)
		}
	})
}

// Fading in two steps is the same as in one, but for what each rounds down; and no
// step makes more of it.
func TestFadingInSteps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := money.Micros(rapid.Int64Range(0, int64(Most)).Draw(t, "n"))
		a, b, half := rapid.Int64Range(0, 100*day).Draw(t, "a"), rapid.Int64Range(0, 100*day).Draw(t, "b"), drawHalf(t)
		first, both := faded(n, a, half), faded(n, a+b, half)
		twice := faded(first, b, half)
		if d := both - twice; d < -2-n>>54 || d > 2+n>>54 || first > n || twice > first {
			t.Fatalf("%d: %d after %d, %d after %d more, %d after both", n, first, a, twice, b, both)
		}
	})
}

// What was added to the past comes out again, and not less.
func TestUnfaded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		half := rapid.Int64Range(int64(time.Hour), 3650*day).Draw(t, "half")
		n, span := money.Micros(rapid.Int64Range(0, 1<<55).Draw(t, "n")), rapid.Int64Range(0, half).Draw(t, "span")
		if got := faded(unfaded(n, span, half), span, half); got < n || got > n+1 {
			t.Fatalf("%d became %d", n, got)
		}
	})
}

// The time that counts is the integral of what is left, and cutting it loses none.
func TestLasting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		half := drawHalf(t)
		from, a, b, since := rapid.Int64Range(0, 1<<60).Draw(t, "from"), rapid.Int64Range(0, 60*day).Draw(t, "a"), rapid.Int64Range(0, 60*day).Draw(t, "b"), rapid.Int64Range(0, 60*day).Draw(t, "since")
		now := from + a + b + since
		whole, cut := lasting(from, from+a+b, now, half), lasting(from, from+a, now, half)+lasting(from+a, from+a+b, now, half)
		if d := whole - cut; whole < 0 || d < -16 || d > 16 {
			t.Fatalf("%d in one, %d in two", whole, cut)
		}
		want := new(big.Float).SetPrec(200).SetInt64(a + b)
		if half > 0 {
			want.Sub(exact(since, half), exact(a+b+since, half))
			want.Mul(want, new(big.Float).SetInt64(half)).Quo(want, big.NewFloat(math.Ln2))
		}
		if w, _ := want.Float64(); math.Abs(float64(whole)-w) > 16+w*1e-12 {
			t.Fatalf("%d of %d to %d at %d, want %g", whole, from, from+a+b, now, w)
		}
	})
}

// No rate and no span is too large.
func TestPriced(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate, ns := rapid.Int64().Draw(t, "rate"), rapid.Int64().Draw(t, "ns")
		got := priced(money.Rate(rate), ns)
		want := new(big.Int).Mul(big.NewInt(max(rate, 0)), big.NewInt(max(ns, 0)))
		want.Add(want, big.NewInt(int64(time.Hour)-1)).Div(want, big.NewInt(int64(time.Hour)))
		if want.Cmp(big.NewInt(int64(Most))) > 0 {
			want.SetInt64(int64(Most))
		}
		if got != money.Micros(want.Int64()) {
			t.Fatalf("%d × %d ns: %d, want %d", rate, ns, got, want)
		}
	})
}
