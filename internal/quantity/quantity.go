// Package quantity has the checked integers that Croft counts with, and their
// text forms: CPU in milli-cores, memory in bytes, devices in milli-devices, time in
// nanoseconds. There is no floating point here, and nothing overflows silently.
package quantity

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Errors of the parsers.
var (
	ErrSyntax   = errors.New("not a number")
	ErrRange    = errors.New("too large")
	ErrNegative = errors.New("must not be negative")
	ErrFraction = errors.New("too fine")
)

// maxText bounds what a parser looks at.
const maxText = 64

// ParseCPU reads cores: "8", "0.5", "1.25" or milli-cores "500m". It returns
// milli-cores.
func ParseCPU(s string) (int64, error) {
	if m, ok := strings.CutSuffix(s, "m"); ok {
		return decimal(m, 0)
	}
	return decimal(s, 3)
}

// FormatCPU writes milli-cores as cores: "8", "0.5".
func FormatCPU(milli int64) string { return formatDecimal(milli, 3, 0) }

// Device is one whole accelerator, in milli-devices.
const Device int64 = 1000

// ParseDevices reads a number of devices, "2" or "0.5", in milli-devices.
func ParseDevices(s string) (int64, error) { return decimal(s, 3) }

// FormatDevices writes milli-devices as devices: "2", "0.5".
func FormatDevices(milli int64) string { return formatDecimal(milli, 3, 0) }

var units = []struct {
	suffix string
	shift  uint
}{{"E", 60}, {"P", 50}, {"T", 40}, {"G", 30}, {"M", 20}, {"K", 10}}

// ParseBytes reads "64G", "512M", "1.5Ti", "64GiB" or plain bytes "1048576".
// K, M, G, T, P and E are powers of 1024, as Slurm and the runtimes have them.
func ParseBytes(s string) (int64, error) {
	t := strings.ToUpper(strings.TrimSpace(s))
	t = strings.TrimSuffix(t, "B")
	t = strings.TrimSuffix(t, "I")
	for _, u := range units {
		n, ok := strings.CutSuffix(t, u.suffix)
		if !ok {
			continue
		}
		return scaledBytes(n, u.shift)
	}
	if t != strings.TrimSuffix(strings.ToUpper(strings.TrimSpace(s)), "B") {
		return 0, fmt.Errorf("%q: %w", clip(s), ErrSyntax) // a lone "i"
	}
	return decimal(t, 0)
}

// scaledBytes is n × 2^shift, where n may have up to three decimal places.
func scaledBytes(n string, shift uint) (int64, error) {
	milli, err := decimal(n, 3)
	if err != nil {
		return 0, err
	}
	whole, rest := milli/1000, milli%1000
	if whole > math.MaxInt64>>shift {
		return 0, fmt.Errorf("%q: %w", clip(n), ErrRange)
	}
	frac := (rest << shift) / 1000 // rest < 1000 < 2^10, shift ≤ 60 would overflow
	if shift > 50 {
		frac = ((rest << 50) / 1000) << (shift - 50)
	}
	return Add(whole<<shift, frac)
}

// FormatBytes writes bytes in the largest unit that is exact to a tenth or
// better: "64G", "1.5G", "1000".
func FormatBytes(b int64) string {
	if b < 0 {
		return strconv.FormatInt(b, 10)
	}
	for _, u := range units {
		one := int64(1) << u.shift
		if b < one {
			continue
		}
		if b%one == 0 {
			return strconv.FormatInt(b>>u.shift, 10) + u.suffix
		}
		if tenths := (b % one) / (one / 1024) * 10; tenths%1024 == 0 && (b%one)%(one/1024) == 0 {
			return strconv.FormatInt(b>>u.shift, 10) + "." + strconv.FormatInt(tenths/1024, 10) + u.suffix
		}
	}
	return strconv.FormatInt(b, 10)
}

// ParseDuration reads "2h", "90m", "1d12h", "45s", "1h30m", Slurm's "2:30:00"
// and "1-12:00:00", or plain minutes as Slurm does: "30". It returns nanoseconds.
func ParseDuration(s string) (int64, error) {
	s = strings.TrimSpace(s)
	switch {
	case s == "" || len(s) > maxText:
		return 0, fmt.Errorf("%q: %w", clip(s), ErrSyntax)
	case strings.HasPrefix(s, "-"):
		return 0, fmt.Errorf("%q: %w", clip(s), ErrNegative)
	case strings.ContainsAny(s, ":"):
		return slurmDuration(s)
	}
	var total int64
	for rest := s; rest != ""; {
		i := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
		if i < 0 {
			if total != 0 {
				return 0, fmt.Errorf("%q: %w", clip(s), ErrSyntax)
			}
			return scale(rest, int64(time.Minute))
		}
		unit, n := unitOf(rest[i:])
		if i == 0 || n == 0 {
			return 0, fmt.Errorf("%q: %w", clip(s), ErrSyntax)
		}
		part, err := scale(rest[:i], unit)
		if err != nil {
			return 0, err
		}
		if total, err = Add(total, part); err != nil {
			return 0, err
		}
		rest = rest[i+n:]
	}
	return total, nil
}

func unitOf(s string) (unit int64, length int) {
	switch {
	case strings.HasPrefix(s, "ms"):
		return int64(time.Millisecond), 2
	case s[0] == 'd':
		return 24 * int64(time.Hour), 1
	case s[0] == 'h':
		return int64(time.Hour), 1
	case s[0] == 'm':
		return int64(time.Minute), 1
	case s[0] == 's':
		return int64(time.Second), 1
	}
	return 0, 0
}

func slurmDuration(s string) (int64, error) {
	var days int64
	clock := s
	if d, rest, ok := strings.Cut(s, "-"); ok {
		n, err := decimal(d, 0)
		if err != nil {
			return 0, err
		}
		days, clock = n, rest
	}
	parts := strings.Split(clock, ":")
	if len(parts) > 3 {
		return 0, fmt.Errorf("%q: %w", clip(s), ErrSyntax)
	}
	steps := []int64{int64(time.Hour), int64(time.Minute), int64(time.Second)}
	if len(parts) == 2 && !strings.Contains(s, "-") {
		steps = steps[1:] // minutes:seconds
	}
	total, err := Mul(days, 24*int64(time.Hour))
	for i := 0; i < len(parts) && err == nil; i++ {
		var part int64
		if part, err = scale(parts[i], steps[i]); err == nil {
			total, err = Add(total, part)
		}
	}
	return total, err
}

// FormatDuration writes nanoseconds as "2h", "1d12h", "1h12m", "45s"; what is
// finer than a second is left out unless nothing else is there.
func FormatDuration(ns int64) string {
	if ns < 0 {
		return "-" + FormatDuration(-(ns + 1))
	}
	if ns < int64(time.Second) {
		return strconv.FormatInt(ns/int64(time.Millisecond), 10) + "ms"
	}
	var b strings.Builder
	for _, u := range []struct {
		name string
		ns   int64
	}{{"d", 24 * int64(time.Hour)}, {"h", int64(time.Hour)}, {"m", int64(time.Minute)}, {"s", int64(time.Second)}} {
		if n := ns / u.ns; n > 0 {
			b.WriteString(strconv.FormatInt(n, 10) + u.name)
			ns %= u.ns
		}
	}
	return b.String()
}

// ParseCount reads a whole number ≥ 0.
func ParseCount(s string) (int64, error) { return decimal(s, 0) }

// Add is a+b or ErrRange.
func Add(a, b int64) (int64, error) {
	c := a + b
	if (c > a) == (b > 0) {
		return c, nil
	}
	return 0, ErrRange
}

// Mul is a×b or ErrRange.
func Mul(a, b int64) (int64, error) {
	if a == 0 || b == 0 {
		return 0, nil
	}
	c := a * b
	if c/b != a || (a == -1 && b == math.MinInt64) || (b == -1 && a == math.MinInt64) {
		return 0, ErrRange
	}
	return c, nil
}

func scale(digits string, unit int64) (int64, error) {
	n, err := decimal(digits, 0)
	if err != nil {
		return 0, err
	}
	v, err := Mul(n, unit)
	if err != nil {
		return 0, fmt.Errorf("%q: %w", clip(digits), err)
	}
	return v, nil
}

// decimal reads a non-negative decimal with at most places decimal places and
// returns it times 10^places.
func decimal(s string, places int) (int64, error) {
	s = strings.TrimSpace(s)
	if strings.HasPrefix(s, "-") {
		return 0, fmt.Errorf("%q: %w", clip(s), ErrNegative)
	}
	whole, frac, dot := strings.Cut(s, ".")
	if s == "" || len(s) > maxText || whole == "" || (dot && frac == "") || !digits(whole) || !digits(frac) {
		return 0, fmt.Errorf("%q: %w", clip(s), ErrSyntax)
	}
	frac = strings.TrimRight(frac, "0")
	if len(frac) > places {
		return 0, fmt.Errorf("%q: %w", clip(s), ErrFraction)
	}
	n, err := strconv.ParseInt(whole+frac+strings.Repeat("0", places-len(frac)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%q: %w", clip(s), ErrRange)
	}
	return n, nil
}

func digits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}

// formatDecimal writes n/10^places with at least min decimal places.
func formatDecimal(n int64, places, min int) string {
	s := strconv.FormatInt(n, 10)
	sign := ""
	if s[0] == '-' {
		sign, s = "-", s[1:]
	}
	if len(s) <= places {
		s = strings.Repeat("0", places-len(s)+1) + s
	}
	whole, frac := s[:len(s)-places], s[len(s)-places:]
	for len(frac) > min && frac[len(frac)-1] == '0' {
		frac = frac[:len(frac)-1]
	}
	if frac == "" {
		return sign + whole
	}
	return sign + whole + "." + frac
}

// ParseDecimal reads a non-negative decimal with at most places decimal places,
// times 10^places.
func ParseDecimal(s string, places int) (int64, error) { return decimal(s, places) }

// FormatDecimal writes n/10^places with at least min decimal places.
func FormatDecimal(n int64, places, min int) string { return formatDecimal(n, places, min) }

func clip(s string) string {
	if len(s) > 32 {
		return s[:32] + "…"
	}
	return s
}
