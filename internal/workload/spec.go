package workload

import (
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/notice"
	"croft.dev/croft/internal/quantity"
)

// Kind of a job.
type Kind string

// The kinds. Service follows.
const (
	KindContainer Kind = "container" // its primary is a container
	KindBatch     Kind = "batch"     // its primary is a program on the machine itself
	KindWorkspace Kind = "workspace" // a container too, that is stopped and started until it is deleted
)

// Host reports whether the primary is a program on the machine itself. The image is then
// what those of its steps run in that are containers and name none.
func (s Spec) Host() bool { return s.Kind == KindBatch }

// Spec is a validated job specification in integers. Build it with Parse.
type Spec struct {
	Name      string   `json:"name,omitempty"`
	Kind      Kind     `json:"kind,omitempty"`
	Account   string   `json:"account,omitempty"`
	Partition string   `json:"partition,omitempty"`
	QoS       string   `json:"qos,omitempty"`
	Image     string   `json:"image"`             // a batch job may have none
	Command   []string `json:"command,omitempty"` // in place of the image's entry point and command
	Args      []string `json:"args,omitempty"`    // of the entry point, whichever it is
	Pause     bool     `json:"pause,omitempty"`   // its primary is no program, but waits to be stopped
	Streams
	Env         map[string]string `json:"env,omitempty"`
	Workdir     string            `json:"workdir,omitempty"`
	Mounts      []Mount           `json:"mounts,omitempty"`
	Data        string            `json:"data,omitempty"` // whether it has its account's folders: DataOn, DataOff; "": as its kind has
	Pod         Pod               `json:"pod,omitzero"`
	Apps        []App             `json:"apps,omitempty"`
	GPU         int64             `json:"gpu,omitempty"`     // milli-devices
	Model       string            `json:"model,omitempty"`   // a set as catalog.Allows reads it
	GPUMem      int64             `json:"gpu_mem,omitempty"` // bytes that it needs of each device's memory
	Mixed       bool              `json:"mixed,omitempty"`   // its devices may be of several models
	Where       string            `json:"where,omitempty"`   // a constraint as feature.Parse reads it
	Reservation string            `json:"reservation,omitempty"`
	CPU         int64             `json:"cpu"`                // milli-cores
	Mem         int64             `json:"mem"`                // bytes
	Nodes       int64             `json:"nodes,omitempty"`    // machines that it is on at once, with all its amounts on each; 0: one
	Success     string            `json:"success,omitempty"`  // which of its ranks' ends count: see Success…; "": SuccessAll
	Time        int64             `json:"time"`               // ns
	Own         int64             `json:"own_time,omitempty"` // ns; what time was before its run was given more; 0: it wasn't
	Grace       int64             `json:"grace,omitempty"`
	Signal      Signal            `json:"signal,omitzero"`
	Requeue     []string          `json:"requeue,omitempty"`
	Requeues    int32             `json:"max_requeues,omitempty"` // 0: MaxRequeues
	Priority    int64             `json:"priority,omitempty"`
	Pull        string            `json:"pull,omitempty"`
	Hold        bool              `json:"hold,omitempty"`
	Begin       int64             `json:"begin,omitempty"`    // ns; not before
	Deadline    int64             `json:"deadline,omitempty"` // ns; to end by
	After       Dependencies      `json:"after,omitzero"`
	Array       ArraySpec         `json:"array,omitzero"`
	Deposit     string            `json:"deposit,omitempty"`   // "": DepositFull
	Mail        notice.Wants      `json:"mail_type,omitempty"` // what mail is sent of; "": as its user has it
	MailTo      string            `json:"mail_user,omitempty"` // address; "": its user's
}

// What a job says of the folders of its account.
const (
	DataOn  = "on"
	DataOff = "off"
)

// HasData reports whether the job has its account's folders: a workspace, unless it says
// no, and else whoever says so.
func (s Spec) HasData() bool {
	return s.Data == DataOn || s.Data == "" && s.Kind == KindWorkspace
}

// MaxNodes bounds on how many machines one job may be.
const MaxNodes = 512

// Ranks is on how many machines the job is: one rank, the same program, runs on each.
func (s Spec) Ranks() int64 { return max(1, s.Nodes) }

// Gang reports whether the job is on several machines, all of which it gets at once.
func (s Spec) Gang() bool { return s.Nodes > 1 }

// Which of the ranks' ends are the job's. Whatever it is, a rank that fails while it counts
// ends all.
const (
	SuccessAll     = "all"     // all ranks', of which none may fail
	SuccessPrimary = "primary" // that of rank 0, with which the others are ended
	SuccessAny     = "any"     // the first that succeeds
)

// Streams says what a program's standard streams are.
type Streams struct {
	Stdin bool `json:"stdin,omitempty"`
	TTY   bool `json:"tty,omitempty"`
	// AwaitAttach keeps the program back for a while until somebody is attached.
	AwaitAttach bool `json:"await_attach,omitempty"`
}

// Signal is sent to the primary Before ns ahead of the time limit.
type Signal struct {
	Name   string `json:"name"` // without SIG
	Before int64  `json:"before"`
}

// LeastPart is the smallest part of a device, in milli-devices. A job that names nothing
// but how much of a device's memory it needs asks for it: it gets as much as that takes.
const LeastPart = 1

// Part is what the job asks of one device at least, in milli-devices; 0: whole ones or none.
func (s Spec) Part() int64 {
	if s.GPU < quantity.Device {
		return s.GPU
	}
	return 0
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
	CPU       int64  // milli-cores
	Mem       int64  // bytes
	GPU       int64  // milli-devices
	Model     string // a set; empty: any
	GPUMem    int64  // bytes of each device's memory
	Mixed     bool   // devices of several models will do
	Where     string // constraint on the node's labels
	Ports     []Port
	Wall      int64 // ns
	Grace     int64 // ns
	Nodes     int64 // 0: one
	In        id.Reservation
}

// Demand returns what the job needs.
func (j *Job) Demand() Demand {
	return Demand{
		Job: j.ID, User: j.User, Account: j.Account, Path: j.Path, Partition: j.Spec.Partition, QoS: j.Spec.QoS,
		CPU: j.Spec.CPU, Mem: j.Spec.Mem, GPU: j.Spec.GPU, Model: j.Spec.Model, GPUMem: j.Spec.GPUMem, Mixed: j.Spec.Mixed, Where: j.Spec.Where, Ports: j.Spec.Pod.Ports,
		Wall: j.Spec.Time, Grace: j.Spec.Grace, Nodes: j.Spec.Nodes, In: j.In,
	}
}
