// Package id has the identifiers of Croft's rows. Ids are dense counters of the
// world, never random; names are labels that may change.
package id

import (
	"fmt"
	"strconv"
	"strings"
)

// Account, User, Job and the others are row ids; zero is none.
type (
	Account     int64
	User        int64
	Job         int64
	Refusal     int64
	Grant       int64
	Limit       int64
	Share       int64
	Price       int64
	Token       int64
	Transfer    int64
	Maintenance int64
	Reservation int64
	Booking     int64
	Allowance   int64
	Request     int64
)

// Attempt names the n-th attempt of a job.
type Attempt struct {
	Job Job
	N   int32
}

// String is "118.1".
func (a Attempt) String() string { return fmt.Sprintf("%d.%d", a.Job, a.N) }

func (r Refusal) String() string { return fmt.Sprintf("R-%d", int64(r)) }

// ParseJob reads a job id, "118".
func ParseJob(s string) (Job, bool) {
	n, err := strconv.ParseInt(s, 10, 64)
	return Job(n), err == nil && n > 0
}

// elementBits is how many bits an index within an array has.
const elementBits = 24

// Element is a number for an element of an array that isn't a job yet: below zero,
// where no job's is.
func Element(array Job, index int64) Job { return -(array<<elementBits | Job(index)) }

// Array is the array that such a number is of, and the index in it; ok is false for a
// job's number.
func (j Job) Array() (array Job, index int64, ok bool) {
	if j >= 0 {
		return j, 0, false
	}
	return -j >> elementBits, int64(-j & (1<<elementBits - 1)), true
}

// Name is how people call the job: 118, or 118_7 by an element's number.
func (j Job) Name() string {
	array, index, element := j.Array()
	if element {
		return fmt.Sprintf("%d_%d", array, index)
	}
	return strconv.FormatInt(int64(j), 10)
}

// Elements are the numbers that elements of an array have, from first to last.
func Elements(array Job) (first, last Job) {
	return Element(array, 1<<elementBits-1), Element(array, 0)
}

// ParseElement reads the name of an element, "118_7".
func ParseElement(s string) (array Job, index int64, ok bool) {
	whole, part, ok := strings.Cut(s, "_")
	if !ok {
		return 0, 0, false
	}
	array, ok = ParseJob(whole)
	index, err := strconv.ParseInt(part, 10, 64)
	return array, index, ok && err == nil && index >= 0 && index < 1<<elementBits
}

// ParseRefusal reads a refusal's id, "R-7".
func ParseRefusal(s string) (Refusal, bool) {
	rest, ok := strings.CutPrefix(strings.ToUpper(s), "R-")
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(rest, 10, 64)
	return Refusal(n), err == nil && n > 0
}

// Ranks are the names at engines of what an attempt with so many further ranks is on each of
// its machines; the first is Engine.
func (a Attempt) Ranks(instance string, others int) []string {
	out := []string{a.Engine(instance)}
	for i := range others {
		out = append(out, out[0]+rankMark+strconv.Itoa(i+1))
	}
	return out
}

const rankMark = "-r"

// Names reports whether a name at an engine is the attempt's, or that of one of its ranks.
func (a Attempt) Names(instance, name string) bool {
	first := a.Engine(instance)
	rank, of := strings.CutPrefix(name, first+rankMark)
	n, err := strconv.Atoi(rank)
	return name == first || of && err == nil && n > 0 && strconv.Itoa(n) == rank
}

// Engine is the attempt's name at an engine: instance prefix, job and number. It
// is unique among all instances on a machine.
func (a Attempt) Engine(instance string) string {
	short := instance
	if len(short) > 8 {
		short = short[:8]
	}
	return short + "-" + strconv.FormatInt(int64(a.Job), 10) + "-" + strconv.FormatInt(int64(a.N), 10)
}
