package workload

import "croft.dev/croft/internal/id"

// Kind of a job.
type Kind string

// KindContainer runs an image. Batch, workspace and service follow.
const KindContainer Kind = "container"

// Spec is a validated job specification in integers. Build it with Parse.
type Spec struct {
	Name      string            `json:"name,omitempty"`
	Kind      Kind              `json:"kind,omitempty"`
	Account   string            `json:"account,omitempty"`
	Partition string            `json:"partition,omitempty"`
	QoS       string            `json:"qos,omitempty"`
	Image     string            `json:"image"`
	Command   []string          `json:"command,omitempty"`
	Env       map[string]string `json:"env,omitempty"`
	Workdir   string            `json:"workdir,omitempty"`
	Mounts    []Mount           `json:"mounts,omitempty"`
	GPU       int64             `json:"gpu,omitempty"`
	Model     string            `json:"model,omitempty"` // a set as catalog.Allows reads it
	Mixed     bool              `json:"mixed,omitempty"` // its devices may be of several models
	Where     string            `json:"where,omitempty"` // a constraint as feature.Parse reads it
	CPU       int64             `json:"cpu"`             // milli-cores
	Mem       int64             `json:"mem"`             // bytes
	Time      int64             `json:"time"`            // ns
	Grace     int64             `json:"grace,omitempty"`
	Signal    Signal            `json:"signal,omitzero"`
	Requeue   []string          `json:"requeue,omitempty"`
	Priority  int64             `json:"priority,omitempty"`
	Pull      string            `json:"pull,omitempty"`
}

// Mount is a bind mount.
type Mount struct {
	Source   string `json:"source"`
	Target   string `json:"target"`
	ReadOnly bool   `json:"read_only,omitempty"`
}

// Signal is sent to the primary Before ns ahead of the time limit.
type Signal struct {
	Name   string `json:"name"` // without SIG
	Before int64  `json:"before"`
}

// Demand is what a job needs in order to run: the part of a spec that admission
// and placement look at.
type Demand struct {
	Job       id.Job // 0 before submission
	User      id.User
	Account   id.Account
	Path      []id.Account
	Partition string
	QoS       string
	CPU       int64 // milli-cores
	Mem       int64 // bytes
	GPU       int64
	Model     string // a set; empty: any
	Mixed     bool   // devices of several models will do
	Where     string // constraint on the node's labels
	Wall      int64  // ns
	Grace     int64  // ns
}

// Demand returns what the job needs.
func (j *Job) Demand() Demand {
	return Demand{
		Job: j.ID, User: j.User, Account: j.Account, Path: j.Path, Partition: j.Spec.Partition, QoS: j.Spec.QoS,
		CPU: j.Spec.CPU, Mem: j.Spec.Mem, GPU: j.Spec.GPU, Model: j.Spec.Model, Mixed: j.Spec.Mixed, Where: j.Spec.Where,
		Wall: j.Spec.Time, Grace: j.Spec.Grace,
	}
}
