package idle

import (
	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/fault"
)

// Count is how long an attempt has been idle, and what was done about it.
type Count struct {
	Keep  int64  `json:",omitempty"` // ns; until then somebody has declared it to be at work
	Since int64  `json:",omitempty"` // ns; when it was at work last, as far as is known
	Idle  int64  `json:",omitempty"` // ns since then in which it was seen to be idle
	Told  int64  `json:",omitempty"` // ns; when its user was told that it will be stopped; 0: not
	Why   string `json:",omitempty"` // once it is stopped for being idle
}

// Watch is a count with the look before, which is known for as long as the server lives.
type Watch struct {
	Count
	At    int64 // ns; 0: there was none
	Quiet bool  // it was idle then
}

// MaxGap is the longest time between two looks that counts as idle if it was idle in both,
// in ns: nobody has seen what was in a longer one.
const MaxGap = 60 * 1_000_000_000

// Standing is what a look comes to.
type Standing string

// The standings.
const (
	Unwatched Standing = "off"     // no policy is for it
	Kept      Standing = "kept"    // declared to be at work
	Active    Standing = "active"  // at work
	Unknown   Standing = "unknown" // nobody knows: as good as at work, but nothing begins anew
	Idle      Standing = "idle"
)

// Verdict is what a look comes to, and why.
type Verdict struct {
	Policy   Policy
	Standing Standing
	By       []Signal // that keep it from being idle: active ones, or else unknown ones
	Readings []Reading
	Count    Watch
	Now      int64
	StopAt   int64 // ns; when it is stopped if it stays idle, or would be; 0: that isn't foreseeable
	Notice   bool  // its user is to be told now
	Stop     bool  // it is to be stopped now, or would be
}

// Look brings a count up to a look at now.
func (p Policy) Look(c Watch, now int64, readings []Reading) Verdict {
	v := Verdict{Policy: p, Readings: readings, Now: now}
	passed := now - c.At
	if c.At == 0 || !c.Quiet || passed < 0 || passed > MaxGap {
		passed = 0
	}
	last, active, unknown, seen := p.sort(readings, now)
	c.At, c.Quiet = now, false
	switch {
	case p.Mode == Off || p.Mode == "":
		v.Standing = Unwatched
		c.works(now)
	case c.Keep > now:
		v.Standing = Kept
		c.works(now)
	case len(active) > 0:
		v.Standing, v.By = Active, active
		c.works(now)
	case len(unknown) > 0 || !seen:
		v.Standing, v.By = Unknown, unknown
	default:
		v.Standing = Idle
		c.rests(now, passed, last)
		if c.Idle < p.After-p.Notice {
			c.Told = 0 // it has worked since
		}
		p.due(&v, c)
	}
	v.Count = c
	return v
}

// sort finds when the signals that count were active last, which are or aren't known, and
// whether there is one at all.
func (p Policy) sort(readings []Reading, now int64) (last int64, active, unknown []Signal, seen bool) {
	for _, r := range readings {
		if !p.Counts(r.Signal) {
			continue
		}
		seen = true
		switch {
		case !r.Known:
			unknown = append(unknown, r.Signal)
		case r.Active:
			active = append(active, r.Signal)
		default:
			last = max(last, min(r.Last, now))
		}
	}
	return last, active, unknown, seen
}

// works notes that it is at work.
func (c *Count) works(now int64) { c.Since, c.Idle, c.Told = now, 0, 0 }

// rests adds idle time. What a signal remembers of the time between two looks, or before
// the first, begins it anew.
func (c *Watch) rests(now, passed, last int64) {
	c.Idle += passed
	c.Since = max(c.Since, last)
	c.Idle = min(c.Idle, max(now-c.Since, 0))
	c.Quiet = true
}

// due says what follows from idleness. Nobody is stopped who hasn't been told in time.
func (p Policy) due(v *Verdict, c Watch) {
	left := max(p.After-c.Idle, p.Notice)
	if c.Told != 0 {
		left = max(p.After-c.Idle, c.Told+p.Notice-v.Now)
	}
	v.StopAt = v.Now + max(left, 0)
	if p.Mode == DryRun {
		v.Stop = c.Idle >= p.After
		return
	}
	v.Notice = c.Told == 0 && c.Idle >= p.After-p.Notice
	v.Stop = c.Told != 0 && left <= 0
}

// Text says in words what keeps a job from being idle, or that nothing does: "idle for 2h:
// device 0 % (< 5 %), CPU 0.01 of 8 cores (< 0.1), jupyter idle for 2h5m, no SSH, no terminal".
func (v Verdict) Text() string {
	switch v.Standing {
	case Kept:
		return "kept for another " + span(v.Count.Keep-v.Now)
	case Active:
		return "at work: " + words(of(v.Readings, v.By), v.Now)
	case Unknown:
		if len(v.By) == 0 {
			return "not known to be idle: no signal that counts can be seen of it"
		}
		return "not known to be idle: " + words(of(v.Readings, v.By), v.Now)
	case Idle:
		return "idle for " + span(v.Count.Idle) + ": " + words(of(v.Readings, v.Policy.Signals), v.Now)
	}
	return "not watched"
}

// Reasons are the signals of an idle job with what was seen and what would have been work.
func (v Verdict) Reasons() []fault.Reason {
	var out []fault.Reason
	for _, r := range of(v.Readings, v.Policy.Signals) {
		out = append(out, fault.Reason{Code: codes.Idle, Field: string(r.Signal), Observed: r.What, Bound: r.Bound, Message: r.text(v.Now)})
	}
	return out
}

// Warning is what the user of an idle job is told where he is.
func (v Verdict) Warning(job string) string {
	return "croft: job " + job + " has been idle for " + span(v.Count.Idle) + " and stops in " + span(v.StopAt-v.Now) + "; croft keep 6h " + job + " keeps it"
}
