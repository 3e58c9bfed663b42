// Package catalog has what is on offer: partitions, QoS, accelerator models and
// the price book.
package catalog

import (
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/money"
)

// Price is one version of the price book for a partition ("" is every partition
// without a book of its own). Versions apply from From on; of two with the same
// From the later id counts.
type Price struct {
	ID        id.Price
	Partition string
	From      int64 // ns since the epoch
	CPU       money.Rate
	Memory    money.Rate
	Devices   []ModelRate // by model, sorted; "*" is any other
	By        id.User
	Published int64 // ns: when it was set; an attempt knows the versions published before it
}

// MaxRate bounds a rate so that no price overflows before it is looked at: a
// million credits per hour.
const MaxRate = money.Rate(1e12)

// Check returns what is wrong with the version's rates, as a *fault.Error.
func (p Price) Check() error {
	rates := append([]ModelRate{{"cpu", p.CPU}, {"mem", p.Memory}}, p.Devices...)
	for i, r := range rates {
		field := r.Model
		if i > 1 {
			field = "gpu." + r.Model
		}
		if r.Rate < 0 || r.Rate > MaxRate {
			return fault.Invalid(field, "a rate must be between 0 and %s credits per hour", money.Micros(MaxRate))
		}
	}
	return nil
}

// ModelRate is the rate of one device of a model.
type ModelRate struct {
	Model string
	Rate  money.Rate
}

// Device returns the rate of one device of model.
func (p Price) Device(model string) (money.Rate, bool) {
	var any money.Rate
	found := false
	for _, m := range p.Devices {
		if m.Model == model {
			return m.Rate, true
		}
		if m.Model == "*" {
			any, found = m.Rate, true
		}
	}
	return any, found
}
