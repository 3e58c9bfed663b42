// Package workload has jobs and their attempts: what may be asked for, the states
// and which step leads from one to the next.
package workload

import (
	"slices"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/idle"
	"croft.dev/croft/internal/money"
	"croft.dev/croft/internal/quantity"
	"croft.dev/croft/internal/tenancy"
)

// JobState is where a job stands.
type JobState string

// The states. A refused request is kept apart, see Refusal.
const (
	Held     JobState = "held"
	Queued   JobState = "queued"
	Starting JobState = "starting"
	Running  JobState = "running"
	Stopping JobState = "stopping"
	Stopped  JobState = "stopped" // a workspace, which holds nothing until it is started again
	Ended    JobState = "ended"
)

// Rules says what a state means for limits, money and time. One table, below,
// answers it for every state.
type Rules struct {
	Submitted bool // counts against the limit on submitted jobs
	Running   bool // counts against concurrent limits and holds its allocation
	Deposit   bool // keeps its deposit
	Charges   bool // the user's meter runs once the primary has started
	Clock     bool // the user's wall clock runs
}

// RulesOf returns the rules of a state.
func RulesOf(s JobState) Rules {
	switch s {
	case Held, Queued:
		return Rules{Submitted: true, Deposit: true}
	case Starting:
		return Rules{Submitted: true, Running: true, Deposit: true}
	case Running:
		return Rules{Submitted: true, Running: true, Deposit: true, Charges: true, Clock: true}
	case Stopping:
		return Rules{Submitted: true, Running: true, Deposit: true, Charges: true}
	}
	return Rules{}
}

// next lists the states that may follow each.
var next = map[JobState][]JobState{
	Held:     {Queued, Stopped, Ended},
	Queued:   {Held, Starting, Stopped, Ended},
	Starting: {Running, Stopping, Queued, Stopped, Ended},
	Running:  {Stopping, Queued, Stopped, Ended},
	Stopping: {Queued, Held, Stopped, Ended},
	Stopped:  {Queued, Held, Ended},
}

// May reports whether a job may go from one state to the other.
func May(from, to JobState) bool {
	for _, s := range next[from] {
		if s == to {
			return true
		}
	}
	return false
}

// Job is what was submitted and is billed.
type Job struct {
	ID        id.Job
	User      id.User
	Account   id.Account
	Path      []id.Account // the account and its ancestors at submission, itself first
	Spec      Spec
	State     JobState
	Submitted int64           // ns
	Token     tenancy.ByToken // by which it was submitted
	Pinned    bool            // an operator has fixed its priority:
	Pin       int64           // points
	Message   string
	Seq       int64 // log row of the last change

	In id.Reservation // in whose windows it runs; 0: none

	Shared []Shared // whom its owner lets into its applications

	Steps int32 // the number of the last step that was added; 0: none was

	Array *Array // of a job of many elements
	Of    id.Job // the array that it is an element of; 0: none
	Index int64  // in that

	Hold     Hold
	Met      []Met // where the dependencies of its spec stand, in their order
	Eligible int64 // ns; when it came into the queue, less Aged as of then
	Aged     int64 // ns; while held: the age that it has from having been in the queue

	Attempt  Attempt   // the current or last one; N is 0 before the first start
	Past     []Attempt // those before it
	Requeues int32
	Outcome  codes.Outcome // once ended, or how the last run of a stopped workspace did
	ExitCode int32
	Ended    int64 // ns
	Rested   int64 // ns; since when a workspace is stopped

	Promise int64 // ns; start promised by the planner, 0: none
	Claim   int64 // ns; when others were stopped to make room for it, 0: never

	Billing  string       // off, showback or enforce, as of submission
	Factor   int64        // of the QoS, thousandths, as of submission
	Sources  []Part       // deposit by source, in the order of spending
	Deposit  money.Micros // set aside in all
	Charged  money.Micros // posted in all
	Returned money.Micros
	Refunded money.Micros
	Key      string
	Quoted   Quoted
}

// AttemptOf is the job's attempt with a number.
func (j *Job) AttemptOf(n int32) (Attempt, bool) {
	if n == j.Attempt.N {
		return j.Attempt, true
	}
	i := slices.IndexFunc(j.Past, func(a Attempt) bool { return a.N == n })
	if i < 0 {
		return Attempt{}, false
	}
	return j.Past[i], true
}

// NotRunning is what whoever wants into a job is told that doesn't run.
func (j *Job) NotRunning() error {
	if j.State == Stopped {
		return fault.New(codes.Conflict, "workspace %[1]s is stopped: croft workspace start %[1]s", j.Spec.Name)
	}
	return fault.New(codes.Conflict, "job %s isn't running: it is %s", j.Name(), j.State)
}

// MaxPin bounds the points that an operator can fix a priority at, either way.
const MaxPin = 1_000_000_000

// MaxRequeues bounds how often a job is queued again by its own wish.
const MaxRequeues = 5

// MaxWithdrawals is how often in a row an attempt of a job may fail to begin before the job
// is held.

const MaxWithdrawals = 3

// Withdrawn is how many attempts of the job, the last ones in a row, couldn't begin.
func (j *Job) Withdrawn() int {
	n := 0
	for _, a := range slices.Backward(append(j.Past[:len(j.Past):len(j.Past)], j.Attempt)) {
		if a.Cause != codes.Withdrawn {
			break
		}
		n++
	}
	return n
}

// Part is what one ledger source contributed to a job's deposit.
type Part struct {
	Source string       // ledger account
	Left   money.Micros // still set aside
	Paid   money.Micros // charged out of it by the current attempt
}

// Attempt is one allocation of a job.
type Attempt struct {
	N        int32
	Node     string
	Devices  []string             // UUIDs
	Others   []Rank               `json:",omitempty"` // what it has on further machines, by rank from 1 on
	Models   []catalog.ModelCount // all of its devices, counted by model
	Given    []string             `json:",omitempty"` // the devices by their nodes' own names, where it is those that choose
	Image    string               // content digest that was resolved
	Book     int64                // ns: price versions published by then apply
	Rate     money.Rate           // what it counts for fair share, per hour, as of its assignment
	Assigned int64                // ns: allocation committed
	Started  int64                // ns: primary's start, as the engine saw it; 0: not yet
	Ready    int64                `json:",omitempty"` // ns: when all apps were first seen to answer; 0: not yet
	Until    int64                // ns: Started + wall; before the start, Assigned + wall
	Paid     int64                `json:",omitempty"` // ns: up to then a rolling deposit pays, and the grace after it; 0: it isn't one
	Short    int64                `json:",omitempty"` // ns: since when that can't be renewed as a whole; 0: it can
	Reserved int64                // s: counted against limits per period until it ends
	Ended    int64                // ns: primary's end, or when the end was learned
	Signaled bool                 // the user's signal was sent
	StopAt   int64                // ns: when SIGTERM was decided; 0: not
	Grace    int64                `json:",omitempty"` // ns from then to SIGKILL, as whoever stopped it said; 0: the job's
	Kill     bool                 // SIGKILL was decided
	Cause    codes.Outcome        // why it is being stopped
	Why      string               `json:",omitempty"` // in words, of one that was withdrawn
	Preempt  Preemption           // set when it is made to give way to another job
	Outcome  codes.Outcome        // once ended
	ExitCode int32
	Lost     int64        // ns: contact lost since; 0: in contact
	Seen     int64        // ns: last seen alive
	Posted   money.Micros // charged so far for this attempt
	Terms    Terms        `json:",omitzero"` // that it ran on, if its job has others now
	Idle     idle.Count   `json:",omitzero"`
}

// Rank is what an attempt has on one of several machines, besides cores and memory.
type Rank struct {
	Node    string
	Devices []string // UUIDs
}

// Ranks lists what the attempt has on each of its machines, by rank.
func (a Attempt) Ranks() []Rank { return append([]Rank{{a.Node, a.Devices}}, a.Others...) }

// Nodes lists the attempt's machines, by rank.
func (a Attempt) Nodes() []string {
	var out []string
	for _, r := range a.Ranks() {
		out = append(out, r.Node)
	}
	return out
}

// AllDevices lists the attempt's devices on all machines.
func (a Attempt) AllDevices() []string {
	if len(a.Others) == 0 {
		return a.Devices
	}
	var out []string
	for _, r := range a.Ranks() {
		out = append(out, r.Devices...)
	}
	return out
}

// Part is what the attempt has of its one device, in milli-devices; 0: its devices are
// whole.
func (a Attempt) Part() int64 {
	if n := catalog.Counted(a.Models); n < quantity.Device {
		return n
	}
	return 0
}

// Preemption is the terms on which an attempt gives way to another job, as its QoS
// had them when that was decided.
type Preemption struct {
	By      id.Job // the job that takes its place
	QoS     string // which that has
	Loan    bool   `json:",omitempty"` // it gives back what that one's account is guaranteed
	Signal  string // without SIG: what it is told it with
	Grace   int64  // ns from then to SIGKILL
	Requeue bool   // its job is queued again
	Refund  bool   // what it cost is given back
}

// Refusal is a request that admission refused, kept so that it can be explained
// and cloned.
type Refusal struct {
	ID      id.Refusal
	User    id.User
	Account id.Account // 0 when the account itself was unknown
	Spec    Spec
	At      int64
	Seq     int64
	Verdict []byte // JSON of the reasons and the remedy
}
