package idle

import (
	"slices"
)

// Mode is what follows from idleness.
type Mode string

// The modes.
const (
	Off    Mode = "off"
	DryRun Mode = "dry-run" // it is noted what would be stopped
	Stop   Mode = "stop"
)

// Policy says when a job is idle, and what follows from that.
type Policy struct {
	// Which jobs it is for: of one of each; none are all. An account is meant with those
	// below it.
	Kinds      []string `json:",omitempty"`
	Partitions []string `json:",omitempty"`
	QoS        []string `json:",omitempty"`
	Accounts   []string `json:",omitempty"`

	Mode    Mode
	After   int64    // ns of idleness until it is stopped
	Notice  int64    // ns before that in which its user is told
	Device  int64    // thousandths of the time: with as much of a device in use, it works
	CPU     int64    // milli-cores: likewise
	Signals []Signal // that count; others are only shown
	KeepMax int64    // ns for which a job can be declared to be at work at a time
}

// Of returns the first of the policies that is for a job. accounts are the job's and those
// above it. Without one nothing follows.
func Of(all []Policy, kind, partition, qos string, accounts []string) Policy {
	for _, p := range all {
		if named(p.Kinds, kind) && named(p.Partitions, partition) && named(p.QoS, qos) && named(p.Accounts, accounts...) {
			return p
		}
	}
	return Policy{Mode: Off}
}

func named(names []string, any ...string) bool {
	return len(names) == 0 || slices.ContainsFunc(any, func(n string) bool { return slices.Contains(names, n) })
}

// Counts reports whether a signal keeps a job from being idle.
func (p Policy) Counts(s Signal) bool { return slices.Contains(p.Signals, s) }

// Milestone is how much of an idle time is worth being noted, so that it survives a
// server: whole quarters of the time until the stop.
func (p Policy) Milestone(idle int64) int64 { return idle / max(p.After/4, 1) }
