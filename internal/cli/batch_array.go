package cli

import (
	"slices"
	"strconv"
	"strings"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
)

// slurmID is the job as Slurm calls it: of an array, what waits as 118_[3-9%2].
func (j batchJob) slurmID() string {
	if j.Array == nil {
		return j.ID
	}
	return j.ID + "_[" + j.tasks() + "]"
}

// tasks are the indices of an array's row, with how many may run at once.
func (j batchJob) tasks() string {
	_, most, bounded := strings.Cut(j.Spec.Array, "%")
	return otherwise(j.Array.Waiting, "N/A") + truth(bounded, "%"+most, "")
}

// listedElements is which elements of arrays have rows of their own in a list of jobs, by
// array. The newest job is listed first, and an array after what has started of it.
type listedElements map[string]map[int64]bool

func (e *listedElements) note(job v1.Job) {
	array, text, ok := strings.Cut(job.ID, "_")
	index, err := strconv.ParseInt(text, 10, 64)
	if !ok || err != nil {
		return
	}
	if *e == nil {
		*e = listedElements{}
	}
	if (*e)[array] == nil {
		(*e)[array] = map[int64]bool{}
	}
	(*e)[array][index] = true
}

// row is a job as it is listed by those who know arrays by their elements: of one, what
// waits, or when it has ended, what was cancelled without having started. Not ok, if
// there is none. Where not all elements are listed, those that have ended otherwise can't
// be told from the cancelled ones.
func (e listedElements) row(job v1.Job, all bool) (v1.Job, bool) {
	switch {
	case job.Array == nil:
		return job, true
	case job.Array.Pending > 0:
		if job.State != "held" {
			job.State = "queued" // and so for what has started of it
		}
		return job, true
	case job.State != "ended":
		return job, false
	}
	for outcome := range job.Array.Ended {
		if !all && outcome != string(codes.Completed) && outcome != string(codes.Cancelled) {
			return job, false
		}
	}
	failed, ok := indices(job.Array.Failed)
	if !ok {
		return job, false
	}
	failed = slices.DeleteFunc(failed, func(i int64) bool { return e[job.ID][i] })
	array := *job.Array
	job.Array, array.Waiting, job.Outcome = &array, ranges(failed), string(codes.Cancelled)
	return job, len(failed) > 0
}

// isAmong reports whether a job is one of those of a list: itself, as an element of an
// array that is, or as the array in which an element that is still waits. Whoever asks
// for elements is answered with all of their array.
func isAmong(list string, job v1.Job) bool {
	array, _, _ := strings.Cut(job.ID, "_")
	for id := range strings.SplitSeq(list, ",") {
		of, _, element := strings.Cut(id, "_")
		if id == "" || id == job.ID || id == job.Number || id == array || element && job.Array != nil && of == array {
			return true
		}
	}
	return false
}

// indices reads "4-8:2,11".
func indices(list string) (out []int64, ok bool) {
	for word := range strings.SplitSeq(list, ",") {
		word, step, _ := strings.Cut(word, ":")
		from, to, _ := strings.Cut(word, "-")
		first, err1 := strconv.ParseInt(from, 10, 64)
		last, err2 := strconv.ParseInt(otherwise(to, from), 10, 64)
		by, err3 := strconv.ParseInt(otherwise(step, "1"), 10, 64)
		if err1 != nil || err2 != nil || err3 != nil || by < 1 || (last-first)/by > maxIndices {
			return nil, false
		}
		for i := first; i <= last; i += by {
			out = append(out, i)
		}
	}
	return out, true
}

// maxIndices is as many elements as an array may have.
const maxIndices = 1_000_000

// ranges is a list of indices in order, as "4-8,11".
func ranges(list []int64) string {
	var out []string
	for at := 0; at < len(list); {
		end := at + 1
		for end < len(list) && list[end] == list[end-1]+1 {
			end++
		}
		word := strconv.FormatInt(list[at], 10)
		if end > at+1 {
			word += "-" + strconv.FormatInt(list[end-1], 10)
		}
		out, at = append(out, word), end
	}
	return strings.Join(out, ",")
}
