// Package notice has what people are told unasked: what each wants to be told of and
// where, and the notices themselves, which are rows until somebody has taken them.
package notice

import (
	"fmt"
	"slices"
	"strings"

	"croft.dev/croft/internal/id"
)

// What notices are about, in the words that people choose them by.
const (
	Begin     = "begin"      // a job has begun
	End       = "end"        // it has ended, however
	Fail      = "fail"       // it has failed
	Requeue   = "requeue"    // it waits again, as after a preemption
	TimeLimit = "time_limit" // its time is up
	Stop      = "stop"       // it is to be stopped by somebody else than its user: idle, without money, preempted
	Budget    = "budget"     // most credits of an account that one manages are used up
	Request   = "request"    // somebody's request is one's to decide, or one's own was decided
	Test      = "test"       // asked for, to see whether notices arrive

	// ArrayTasks asks for notices of an array's elements, not of the array as a whole.
	ArrayTasks = "array_tasks"
)

// The words that stand for others.
const (
	All  = "all"
	None = "none"
)

// JobWords are what a job may ask for, in the order in which they are written.
func JobWords() []string { return []string{Begin, End, Fail, Requeue, TimeLimit, Stop, ArrayTasks} }

// Words are what a user may ask for, of all that is his.
func Words() []string { return append(JobWords(), Budget, Request) }

// Wants is a set of words: none is None alone, and "" is that nobody has said anything.
type Wants string

// Usually is what a user is told of who hasn't said: nothing of jobs.
const Usually Wants = Budget + "," + Request

// ParseWants reads words, with commas between them, in capitals or not, out of those that
// are known. All is all of them but ArrayTasks. The error is for people.
func ParseWants(in string, known []string) (Wants, error) {
	if in == "" {
		return "", nil
	}
	given := strings.Split(strings.ToLower(in), ",")
	for i, w := range given {
		given[i] = strings.TrimSpace(w)
		if !slices.Contains(known, given[i]) && given[i] != All && given[i] != None {
			return "", fmt.Errorf("%q isn't one of %s, %s, %s", clip(given[i]), strings.Join(known, ", "), All, None)
		}
	}
	if slices.Contains(given, None) {
		if len(given) > 1 {
			return "", fmt.Errorf("%s stands alone", None)
		}
		return None, nil
	}
	var out []string
	for _, w := range known {
		if slices.Contains(given, w) || w != ArrayTasks && slices.Contains(given, All) {
			out = append(out, w)
		}
	}
	return Wants(strings.Join(out, ",")), nil
}

// Has reports whether a word is in the set.
func (w Wants) Has(word string) bool { return slices.Contains(w.List(), word) }

// List is the words.
func (w Wants) List() []string {
	if w == "" || w == None {
		return nil
	}
	return strings.Split(string(w), ",")
}

// Contact is where a user is told things, and which.
type Contact struct {
	User    id.User
	Address string // of mail; "": none
	Wants   Wants  // "": Usually
	Changed int64  // ns
}

// Told is what the user is told of.
func (c Contact) Told() Wants {
	if c.Wants == "" {
		return Usually
	}
	return c.Wants
}

// Level is how much of an account's credits its managers have been told is used up.
type Level struct {
	Account id.Account
	Percent int64 // 0, or one of Levels
	Over    bool  // the overdraft is used
	Changed int64 // ns
}

// Levels are the parts of an account's credits, in percent, at which its managers are told.
func Levels() []int64 { return []int64{80, 95} }

// levelSlack is by how much what is used has to fall below a level, in percent, before
// that is told of again: deposits come and go.
const levelSlack = 10

// Next is the level that an account is at with so many percent used up; up says that it is
// a higher one than before.
func (l Level) Next(percent int64) (level int64, up bool) {
	for _, at := range Levels() {
		if percent >= at || at <= l.Percent && percent > at-levelSlack {
			level = at
		}
	}
	return level, level > l.Percent
}

// State is where a notice is.
type State string

// The states.
const (
	Waiting   State = "waiting"
	Delivered State = "delivered" // a server has taken it
	GivenUp   State = "given up"
)

// Notice is one thing that is told to one recipient. Its name says what it is about, so
// that it is made once, however often that is looked at, and a recipient can tell one that
// comes twice.
type Notice struct {
	Name    string // "job.118.end.u3"
	Seq     int64  // log row at which it was made
	At      int64  // ns; of that row
	Kind    string // one of the words
	User    id.User
	Account id.Account
	Job     id.Job
	Address string // of mail, where it isn't the user's own
	Hook    string // name of the user's hook that it is posted to; "": it is mailed
	Subject string
	Body    string // text, or the JSON that is posted; "" once it is through

	State State
	Tries int64
	Due   int64  // ns; when it is tried next
	Done  int64  // ns; when it was delivered or given up
	Why   string // it wasn't taken so far, in words that its recipient may read
}

// The times between tries, in ns: a minute after the first, then twice as long each time,
// an hour at most.
const (
	firstRetry = int64(60 * 1e9)
	lastRetry  = int64(3600 * 1e9)
)

// Again is the time to the next try after so many, in ns.
func Again(tries int64) int64 {
	wait := firstRetry
	for range min(tries, 10) - 1 {
		wait *= 2
	}
	return min(wait, lastRetry)
}

// Failed is the notice after a try at time now that came to nothing. One that never can be
// taken is given up, as is one that is older than keep, in ns.
func (n Notice) Failed(now, keep int64, never bool, why string) Notice {
	n.Tries, n.Why = n.Tries+1, why
	n.Due = now + Again(n.Tries)
	if never || now-n.At >= keep {
		return n.giveUp(now)
	}
	return n
}

// Dropped is the notice given up without a try.
func (n Notice) Dropped(now int64, why string) Notice {
	n.Why = why
	return n.giveUp(now)
}

func (n Notice) giveUp(now int64) Notice {
	n.State, n.Done, n.Body = GivenUp, now, ""
	return n
}

// Taken is the notice once a server has accepted it.
func (n Notice) Taken(now int64) Notice {
	n.Tries++
	n.State, n.Done, n.Body, n.Why = Delivered, now, "", ""
	return n
}
