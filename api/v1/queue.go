package v1

import (
	"context"
	"net/http"
)

// QueuePlan is what differs between the queues of a cluster's batch scheduler and those that
// partitions and shares are.
type QueuePlan struct {
	Scheduler string        `json:"scheduler" enum:"none,kueue,volcano,native"`
	Applies   bool          `json:"applies" doc:"the server makes these changes by itself; else it only shows them"`
	Changes   []QueueChange `json:"changes" doc:"in the order in which they are made"`
	Notes     []string      `json:"notes,omitempty" doc:"bounds that can't be said there, and are kept by Croft alone"`
}

// QueueChange is an object of the cluster that differs.
type QueueChange struct {
	Action    string       `json:"action" enum:"create,update,delete,conflict" doc:"conflict: it isn't Croft's, and is left alone"`
	Kind      string       `json:"kind"`
	Namespace string       `json:"namespace,omitempty"`
	Name      string       `json:"name"`
	Fields    []QueueField `json:"fields,omitempty" doc:"of an update"`
	Error     string       `json:"error,omitempty" doc:"why it can't be done"`
}

// QueueField is a field that differs.
type QueueField struct {
	Path string `json:"path"`
	From string `json:"from,omitempty" doc:"as JSON; empty: it isn't set"`
	To   string `json:"to,omitempty" doc:"likewise"`
}

// QueuePlan says what differs now. The error has the code conflict where the engine has no
// batch scheduler.
func (c *Client) QueuePlan(ctx context.Context) (*QueuePlan, error) {
	out := new(QueuePlan)
	return out, c.call(ctx, http.MethodGet, "/v1/queues/plan", nil, nil, out)
}
