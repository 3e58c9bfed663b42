package idle

import (
	"fmt"
	"slices"
	"strings"

	"croft.dev/croft/internal/quantity"
)

// Signal is something by which a job shows that it works.
type Signal string

// The signals.
const (
	Device   Signal = "device"
	CPU      Signal = "cpu"
	App      Signal = "app"      // what its web programs say of themselves, as the kernels of a notebook
	SSH      Signal = "ssh"      // connections that are open
	Terminal Signal = "terminal" // likewise
	Browser  Signal = "browser"  // pages and sockets that are open through the gateway
)

// Signals lists all of them.
func Signals() []Signal { return []Signal{Device, CPU, App, SSH, Terminal, Browser} }

// Reading is one look at one signal.
type Reading struct {
	Signal Signal
	Known  bool
	Active bool
	Last   int64  // ns; when it was active last before, if the signal itself remembers; 0: it doesn't
	What   string // in words, what was seen: "device 3 %"
	Bound  string // and what would be work: "5 %"
}

// Busy is how busy a device is, in thousandths.
type Busy struct {
	Name  string
	Known bool
	Value int64
}

// ReadDevices is a look at all devices of a job: one that is busy is enough for it to be
// at work, and without one, one that isn't known for it not to be known.
func (p Policy) ReadDevices(all []Busy) Reading {
	r := Reading{Signal: Device, Known: true, Bound: percent(p.Device)}
	var most *Busy
	var unknown []string
	for i, d := range all {
		switch {
		case !d.Known:
			unknown = append(unknown, d.Name)
		case most == nil || d.Value > most.Value:
			most = &all[i]
		}
	}
	switch {
	case most != nil && most.Value >= p.Device:
		r.Active = true
		r.What = "device " + most.Name + " " + percent(most.Value)
	case len(unknown) > 0:
		r.Known = false
		r.What = "how busy device " + strings.Join(unknown, ", ") + " is can't be seen"
	case len(all) == 1:
		r.What = "device " + percent(most.Value)
	default:
		r.What = fmt.Sprintf("%d devices at most %s", len(all), percent(most.Value))
	}
	return r
}

// ReadCPU is a look at the cores that a job uses, of those that it has, in milli-cores.
func (p Policy) ReadCPU(used int64, known bool, cores int64) Reading {
	r := Reading{Signal: CPU, Known: known, Active: known && used >= p.CPU, Bound: quantity.FormatCPU(p.CPU)}
	r.What = "how much CPU it uses can't be seen"
	if known {
		// A thousandth of a core is noise, and not worth a reader's while.
		r.What = fmt.Sprintf("CPU %s of %s cores", quantity.FormatDecimal(used/10, 2, 0), quantity.FormatCPU(cores))
	}
	return r
}

// Activity is what a web program says of itself.
type Activity struct {
	Name  string // of the program
	Known bool
	Busy  bool
	Last  int64 // ns; 0: it doesn't say
}

// ReadApps is a look at what the web programs of a job say of themselves: like devices,
// one that is busy is enough.
func ReadApps(all []Activity) Reading {
	r := Reading{Signal: App, Known: true}
	var busy, unknown, quiet []string
	for _, a := range all {
		switch {
		case !a.Known:
			unknown = append(unknown, a.Name)
		case a.Busy:
			busy = append(busy, a.Name)
		default:
			quiet = append(quiet, a.Name)
			r.Last = max(r.Last, a.Last)
		}
	}
	switch {
	case len(busy) > 0:
		r.Active, r.What = true, strings.Join(busy, ", ")+" busy"
	case len(unknown) > 0:
		r.Known, r.What = false, "whether "+strings.Join(unknown, ", ")+" works can't be seen"
	default:
		r.What = strings.Join(quiet, ", ") + " idle"
	}
	return r
}

// ReadConnections is a look at connections of a kind: how many are open, and when the last
// one was, in ns.
func ReadConnections(s Signal, open, last int64) Reading {
	r := Reading{Signal: s, Known: true, Active: open > 0, Last: last}
	noun := map[Signal]string{SSH: "SSH", Terminal: "terminal", Browser: "browser"}[s]
	switch open {
	case 0:
		r.What = "no " + noun
	case 1:
		r.What = "1 " + noun + " connection"
	default:
		r.What = fmt.Sprintf("%d %s connections", open, noun)
	}
	return r
}

// percent writes thousandths as people do.
func percent(milli int64) string { return quantity.FormatDecimal(milli, 1, 0) + " %" }

// text is what was seen and what would be work: "device 0 % (< 5 %)".
func (r Reading) text(now int64) string {
	s := r.What
	switch {
	case r.Known && r.Bound != "" && r.Active:
		s += " (≥ " + r.Bound + ")"
	case r.Known && r.Bound != "":
		s += " (< " + r.Bound + ")"
	case r.Known && !r.Active && r.Last != 0 && r.Last < now:
		s += " for " + span(now-r.Last)
	}
	return s
}

// span writes a time to the precision that people want.
func span(ns int64) string {
	unit := int64(1_000_000_000)
	if ns >= 600*unit {
		unit *= 60
	}
	return quantity.FormatDuration(max(ns, 0) / unit * unit)
}

func words(all []Reading, now int64) string {
	var out []string
	for _, r := range all {
		out = append(out, r.text(now))
	}
	return strings.Join(out, ", ")
}

// of returns the readings of some signals, in their order.
func of(all []Reading, some []Signal) []Reading {
	var out []Reading
	for _, r := range all {
		if slices.Contains(some, r.Signal) {
			out = append(out, r)
		}
	}
	return out
}
