package engine

import "context"

// Queues is what an engine can besides that hands attempts on to a batch scheduler with
// queues of its own. They bound there what Croft has decided, and decide nothing: a queue
// never holds back what Croft lets start.
type Queues interface {
	// PlanQueues says what differs from how the queues ought to be, and changes nothing.
	PlanQueues(ctx context.Context, want []Queue) (QueuePlan, error)
	// ApplyQueues makes it so, and returns what it has changed. What one object is refused
	// for keeps no other back: it is in Change.Error. Idempotent.
	ApplyQueues(ctx context.Context, want []Queue) (QueuePlan, error)
}

// Queue is a partition, or an account's share of it. One of an account lies in that of the
// nearest account above it that has one, or in the partition's.
type Queue struct {
	QueueName
	Parent QueueName // of a partition: the zero name
	// Bounds are by resource: "cpu", "mem", "gpu", "gpu:MODEL". What has none there is
	// bounded by the queue above alone.
	Bounds []QueueBound
}

// QueueName names a queue. Without an account it is the partition's.
type QueueName struct{ Partition, Account string }

// QueueBound is what a queue and all below it may have of a resource: milli-cores, bytes,
// devices.
type QueueBound struct {
	Resource   string
	Guaranteed int64 // that of queues below is part of it
	Limit      int64 // at most, what is borrowed included; AnyAmount: no limit
	Borrow     int64 // at most beyond Guaranteed; likewise
	Lend       int64 // at most of Guaranteed to others while it is unused; likewise
	Weight     int64 // among those that borrow; at least 1
}

// AnyAmount is a bound that isn't set.
const AnyAmount int64 = -1

// QueuePlan is what differs in a batch scheduler, in the order in which it is changed.
type QueuePlan struct {
	Scheduler string // "none", "kueue", "volcano" or "native"
	Changes   []QueueChange
	// Notes are bounds that can't be said there; Croft keeps them all the same.
	Notes []string
}

// QueueChange is an object that differs.
type QueueChange struct {
	Action    Action
	Kind      string // "ClusterQueue"
	Namespace string // empty: of the whole cluster
	Name      string
	Fields    []FieldChange // of an update
	// Error is why it can't be done or wasn't, empty if it can or was. It is an operator's
	// to read.
	Error string
}

// FieldChange is a field of an object with its values as JSON; empty: none.
type FieldChange struct{ Path, From, To string }

// Action is what is to be done with an object.
type Action string

// The actions. A conflict is an object of a needed name that isn't this Croft's: it is left
// alone.
const (
	ActionCreate   Action = "create"
	ActionUpdate   Action = "update"
	ActionDelete   Action = "delete"
	ActionConflict Action = "conflict"
)
