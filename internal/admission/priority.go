package admission

import (
	"croft.dev/croft/internal/workload"
)

// Weights say what counts for a job's priority, in points, as the site sets them.
// What a QoS and a job's own priority add is added as it is.
type Weights struct {
	Age    int64 // for having waited for AgeCap or longer
	AgeCap int64 // ns
}

// Factor is a part of a priority.
type Factor struct {
	Name   string
	Points int64
}

// Order is what puts the queues in order now.
func (v View) Order() workload.Order {
	return workload.Order{
		Now: v.Now, Age: workload.Aging{Points: v.Weights.Age, Cap: v.Weights.AgeCap},
		Base: func(l workload.Lane) int64 {
			var sum int64
			for _, f := range v.standingOf(l) {
				sum += f.Points
			}
			return sum
		},
	}
}

// Factors says what a waiting job's priority is made of: the points come to what
// Order gives it.
func (v View) Factors(j *workload.Job) []Factor {
	l := j.LaneOf()
	if l.Pinned {
		return []Factor{{"pinned", l.Pin}}
	}
	o := v.Order()
	return append(v.standingOf(l), Factor{"age", o.Age.Of(o.Now - j.Since())})
}

// standingOf is what jobs of a lane have from the first moment on.
func (v View) standingOf(l workload.Lane) []Factor {
	qos, _ := v.Catalog.QoSNamed(l.QoS)
	partition, _ := v.Catalog.Partition(l.Partition)
	return []Factor{{"qos " + l.QoS, qos.Priority}, {"partition " + l.Partition, partition.Priority}, {"own", l.Own}}
}
