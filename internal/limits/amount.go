package limits

import (
	"math"
	"strconv"
	"strings"

	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/quantity"
)

// Amounts of resource-hours are whole seconds times milli-cores, MiB or milli-devices:
// a year of the largest sites fits an int64, which it wouldn't in ns and bytes. Each
// attempt counts whole seconds and MiB, rounded up.
const (
	second = int64(1e9)
	mib    = int64(1 << 20)
)

// Parse reads an amount of a resource: cores, bytes, a time, a count, credits, or hours of
// a core, a GiB or a device.
func Parse(r Resource, text string) (int64, error) {
	if r.Hours() {
		return parseHours(r, text)
	}
	switch of := r.Of(); {
	case of == CPU:
		return quantity.ParseCPU(text)
	case of == Mem:
		return quantity.ParseBytes(text)
	case of == Time:
		return quantity.ParseDuration(text)
	case of == Credits:
		m, err := money.Parse(text)
		return int64(m), err
	case of.devices():
		return quantity.ParseDevices(text)
	}
	return quantity.ParseCount(text)
}

// Format writes an amount as Parse reads it; of hours, to a thousandth.
func Format(r Resource, n int64) string {
	if r.Hours() {
		return formatHours(r, n)
	}
	switch of := r.Of(); {
	case of == CPU:
		return quantity.FormatCPU(n)
	case of == Mem:
		return quantity.FormatBytes(n)
	case of == Time:
		return quantity.FormatDuration(n)
	case of == Credits:
		return money.Micros(n).String()
	case of.devices():
		return quantity.FormatDevices(n)
	}
	return strconv.FormatInt(n, 10)
}

// hour is an hour of one core, GiB or device.
func (r Resource) hour() int64 {
	if r.Of() == Mem {
		return 3600 * 1024
	}
	return 3600 * 1000
}

func parseHours(r Resource, text string) (int64, error) {
	milli, err := quantity.ParseDecimal(text, 3)
	if err != nil {
		return 0, err
	}
	whole, err := quantity.Mul(milli/1000, r.hour())
	if err != nil {
		return 0, err
	}
	return quantity.Add(whole, milli%1000*r.hour()/1000)
}

func formatHours(r Resource, n int64) string {
	h := r.hour()
	whole, milli := n/h, (n%h*1000+h/2)/h
	if milli == 1000 {
		whole, milli = whole+1, 0
	}
	text := strconv.FormatInt(whole, 10)
	if milli > 0 {
		text += strings.TrimPrefix(quantity.FormatDecimal(milli, 3, 1), "0")
	}
	return text
}

// hours is seconds of what a demand has of r, in r's unit; the greatest int64 where
// it is more.
func (d Demand) hours(r Resource, seconds int64) int64 {
	n := d.of(r.Of())
	if r.Of() == Mem {
		n = up(n, mib)
	}
	return times(n, seconds)
}

// up is n / unit, rounded up.
func up(n, unit int64) int64 {
	q := n / unit
	if n%unit > 0 {
		q++
	}
	return q
}

// times and plus are a×b and a+b of what isn't negative, at most the greatest int64.
func times(a, b int64) int64 {
	c, err := quantity.Mul(a, b)
	if err != nil {
		return math.MaxInt64
	}
	return c
}

func plus(a, b int64) int64 {
	c, err := quantity.Add(a, b)
	if err != nil {
		return math.MaxInt64
	}
	return c
}
