package v1

import "time"

// Accuracy compares what users were told as they submitted with what became of it: of the
// jobs that ended in a period, and of those that live now if it isn't over.
type Accuracy struct {
	Period string          `json:"period" doc:"as it was asked for"`
	From   time.Time       `json:"from"`
	To     time.Time       `json:"to"`
	Starts []StartAccuracy `json:"starts"`
	Costs  []CostAccuracy  `json:"costs"`
}

// StartAccuracy is how well the starts of a partition's jobs were foretold. One that hasn't
// started by the time that was said, or ended before, is late by at least as long as it waited.
type StartAccuracy struct {
	Partition string   `json:"partition"`
	Said      string   `json:"said" doc:"now, promised, estimated or unknown: how sure it was said to be"`
	Jobs      int64    `json:"jobs"`
	Started   int64    `json:"started"`
	Early     int64    `json:"early" doc:"more than 30 s before"`
	OnTime    int64    `json:"on_time"`
	Late      int64    `json:"late" doc:"more than 30 s after"`
	P50       Quantity `json:"p50,omitempty" doc:"half of them began no further from what was said"`
	P90       Quantity `json:"p90,omitempty" doc:"nine of ten"`
	Latest    Quantity `json:"latest,omitempty" doc:"the most that one was late"`
}

// CostAccuracy is how far a partition's jobs that ran and ended came to less, or more, than
// they were quoted, in percent of the quote. A quote is for all of the time that is asked for.
type CostAccuracy struct {
	Partition string `json:"partition"`
	Jobs      int64  `json:"jobs"`
	P50       string `json:"p50" doc:"half of them were off by no more, 41.7"`
	P90       string `json:"p90" doc:"nine of ten"`
	Above     int64  `json:"above" doc:"so many came to more"`
}

// Quoted is what was said of a job as it was submitted.
type Quoted struct {
	Kind  string     `json:"kind" doc:"now, promised, estimated or unknown"`
	Start *time.Time `json:"start,omitempty"`
	Cost  string     `json:"cost,omitempty" doc:"credits, for all of its time"`
}
