package money

import (
	"errors"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestPriceOfTheExample(t *testing.T) {
	two := int64(2 * time.Hour)
	var gpu, cpu, mem Line
	gpu.Add(1000, Rate(Credit), 1000, two)
	cpu.Add(8000, 10_000, 1000, two)
	mem.Add(64<<30, 1_000, 1000, two)
	for name, tt := range map[string]struct {
		line *Line
		unit Unit
		want string
	}{"gpu": {&gpu, PerDevice, "2.000"}, "cpu": {&cpu, PerCore, "0.160"}, "mem": {&mem, PerGiB, "0.128"}} {
		got, err := tt.line.Total(tt.unit)
		if err != nil || got.String() != tt.want {
			t.Errorf("%s = %s, %v; want %s", name, got, err, tt.want)
		}
	}
}

// Cutting a span into pieces never changes its price.
func TestCuttingTimeChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		amount := rapid.Int64Range(1, 1<<41).Draw(t, "amount")
		rate := Rate(rapid.Int64Range(1, 1_000_000).Draw(t, "rate"))
		factor := rapid.Int64Range(1, 5000).Draw(t, "factor")
		cuts := rapid.SliceOfN(rapid.Int64Range(0, int64(time.Hour)), 1, 20).Draw(t, "cuts")
		var whole, cut Line
		var sum int64
		for _, c := range cuts {
			cut.Add(amount, rate, factor, c)
			sum += c
		}
		whole.Add(amount, rate, factor, sum)
		a, errA := whole.Total(PerGiB)
		b, errB := cut.Total(PerGiB)
		if a != b || errA != nil || errB != nil {
			t.Fatalf("whole %d (%v), cut %d (%v)", a, errA, b, errB)
		}
	})
}

// What MaxAffordable allows costs at most the funds, and a microsecond's worth
// more would not.
func TestMaxAffordable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := HourPrice{rapid.Int64Range(1, 1<<20).Draw(t, "amount"), Rate(rapid.Int64Range(1, 1<<24).Draw(t, "rate")), rapid.Int64Range(1, 4000).Draw(t, "factor"), PerDevice}
		funds := Micros(rapid.Int64Range(0, 1<<40).Draw(t, "funds"))
		ns := MaxAffordable(funds, []HourPrice{p})
		var l Line
		l.Add(p.Amount, p.Rate, p.Factor, ns)
		if got, err := l.Total(p.Unit); err != nil || got > funds {
			t.Fatalf("%d ns cost %s (%v) of %s", ns, got, err, funds)
		}
	})
	if got := MaxAffordable(1, nil); got != math.MaxInt64 {
		t.Errorf("free work is affordable for %d", got)
	}
}

func TestPercent(t *testing.T) {
	for want, of := range map[int64][]Micros{
		0: {0, 7}, 99: {math.MaxInt64 - 1, math.MaxInt64}, 100: {math.MaxInt64, math.MaxInt64}, 33: {1, 3}, 66: {2, 3},
	} {
		if got := Percent(of[0], of[1]); got != want {
			t.Errorf("%v: %d, want %d", of, got, want)
		}
	}
	for name, of := range map[string][]Micros{"nothing": {5, 0}, "below nothing": {5, -2}, "less than none": {-5, 10}} {
		if got := Percent(of[0], of[1]); got != 0 {
			t.Errorf("%s: %d", name, got)
		}
	}
	if got := Percent(11, 10); got != 100 {
		t.Errorf("more than all: %d", got)
	}
}

func TestOverflowIsAnError(t *testing.T) {
	var l Line
	l.Add(math.MaxInt64, math.MaxInt64, 1000, math.MaxInt64)
	if _, err := l.Total(PerDevice); !errors.Is(err, ErrRange) {
		t.Errorf("got %v", err)
	}
	if _, err := Micros(math.MaxInt64).Add(1); !errors.Is(err, ErrRange) {
		t.Errorf("got %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("2.288")
	f.Add("0.0000001")
	f.Add("-1")
	f.Fuzz(func(t *testing.T, s string) {
		m, err := Parse(s)
		if err != nil {
			return
		}
		if back, err := Parse(m.String()); err != nil || back != m {
			t.Errorf("%q → %s → %s, %v", s, m, back, err)
		}
	})
}
