package httpapi

import (
	"context"
	"errors"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/access"
	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/fault"
)

// Queues says what differs in the batch scheduler of a cluster, and whether the server puts
// that right by itself.
type Queues interface {
	Plan(ctx context.Context) (engine.QueuePlan, error)
	Applies() bool
}

func queueOperations() []operation {
	return []operation{
		ask("planQueues", "GET /v1/queues/plan", "What differs between a cluster's queues and those that partitions and shares are", access.NodeRun, (*call).queuePlan),
	}
}

func (c *call) queuePlan() (v1.QueuePlan, error) {
	out := v1.QueuePlan{Changes: []v1.QueueChange{}}
	if !c.Sequencer.World().Can(c.p, access.NodeRun, 0, 0) {
		return out, fault.New(codes.Denied, "only operators look at the cluster's queues")
	}
	if c.Queues == nil {
		return out, errNoQueues
	}
	plan, err := c.Queues.Plan(c.r.Context())
	switch {
	case errors.Is(err, engine.ErrNoQueues):
		return out, errNoQueues
	case engine.IsUnavailable(err):
		c.Logger.Warn("the cluster doesn't say what queues it has", "error", err)
		return out, fault.New(codes.Unavailable, "the cluster can't be asked right now; try again")
	case err != nil:
		return out, err
	}
	out.Scheduler, out.Notes, out.Applies = plan.Scheduler, plan.Notes, c.Queues.Applies()
	for _, d := range plan.Changes {
		one := v1.QueueChange{Action: string(d.Action), Kind: d.Kind, Namespace: d.Namespace, Name: d.Name, Error: d.Error}
		for _, f := range d.Fields {
			one.Fields = append(one.Fields, v1.QueueField(f))
		}
		out.Changes = append(out.Changes, one)
	}
	return out, nil
}

var errNoQueues = fault.New(codes.Conflict, "jobs aren't handed to a batch scheduler here: engine.kind must be kube, and engine.kube.scheduler kueue or volcano")
