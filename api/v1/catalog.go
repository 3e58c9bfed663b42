package v1

// Partition is a named set of nodes.
type Partition struct {
	Name        string   `json:"name"`
	Nodes       []string `json:"nodes" doc:"those that are there now"`
	Default     bool     `json:"default,omitempty"`
	Configured  bool     `json:"configured,omitempty" doc:"defined in the server's configuration, which says its nodes and times"`
	MaxTime     Quantity `json:"max_time,omitempty" doc:"longest run; absent: any"`
	DefaultTime Quantity `json:"default_time,omitempty" doc:"of a job that names no time"`
	Priority    int64    `json:"priority,omitempty" doc:"added to that of its jobs"`
	Restricted  bool     `json:"restricted,omitempty" doc:"not every account may use it; the lists below name those that you may see"`
	Accounts    []string `json:"accounts,omitempty" doc:"these and those below them may use it"`
	Deny        []string `json:"deny,omitempty" doc:"these and those below them may not"`
	QoS         []string `json:"qos,omitempty" doc:"that its jobs may have; absent: any"`
	// ShareDevices says that jobs may have parts of devices.
	ShareDevices bool `json:"share_devices,omitempty" doc:"jobs may have parts of devices"`
}

// PartitionPatch changes a partition; what is absent stays, an empty list is
// everything.
type PartitionPatch struct {
	Nodes       *[]string `json:"nodes,omitempty"`
	MaxTime     *Quantity `json:"max_time,omitempty" doc:"0: any"`
	DefaultTime *Quantity `json:"default_time,omitempty" doc:"0: the site's"`
	Priority    *int64    `json:"priority,omitempty" doc:"added to that of its jobs"`
	Accounts    *[]string `json:"accounts,omitempty" doc:"these and those below them may use it"`
	Deny        *[]string `json:"deny,omitempty" doc:"these and those below them may not"`
	QoS         *[]string `json:"qos,omitempty" doc:"that its jobs may have"`
	// ShareDevices lets jobs have parts of devices.
	ShareDevices *bool `json:"share_devices,omitempty" doc:"jobs may have parts of devices"`
}

// NewPartition makes a partition.
type NewPartition struct {
	Name string `json:"name"`
	PartitionPatch
}

// QoS is a quality of service.
type QoS struct {
	Name        string   `json:"name"`
	Default     bool     `json:"default,omitempty"`
	Configured  bool     `json:"configured,omitempty" doc:"defined in the server's configuration, which says its priority, factor, max_time, grace and max_grace"`
	Priority    int64    `json:"priority" doc:"added to that of its jobs"`
	Factor      string   `json:"factor" doc:"prices are multiplied by it"`
	MaxTime     Quantity `json:"max_time,omitempty" doc:"longest run; absent: any"`
	DefaultTime Quantity `json:"default_time,omitempty" doc:"of a job that names no time; absent: the partition's"`
	Grace       Quantity `json:"grace,omitempty" doc:"between SIGTERM and SIGKILL, of a job that names none"`
	MaxGrace    Quantity `json:"max_grace,omitempty"`
	Restricted  bool     `json:"restricted,omitempty" doc:"not every account may use it; accounts names those that you may see"`
	Accounts    []string `json:"accounts,omitempty" doc:"these and those below them may use it"`
	Partitions  []string `json:"partitions,omitempty" doc:"where it may be used; absent: everywhere"`
	Busy        string   `json:"busy" doc:"queue: a job that can't start waits; refuse: it is refused at once"`
	Preempts    []string `json:"preempts,omitempty" doc:"QoS whose running jobs may be stopped to make room for one of this"`

	Exempt        bool     `json:"exempt,omitempty" doc:"its jobs are never preempted, but for what they have borrowed from a share"`
	MinRun        Quantity `json:"min_run,omitempty" doc:"its jobs run at least so long before they are"`
	PreemptSignal string   `json:"preempt_signal" doc:"what a job is told it with"`
	PreemptGrace  Quantity `json:"preempt_grace,omitempty" doc:"from that signal to SIGKILL; absent: the job's own grace"`
	PreemptMode   string   `json:"preempt_mode" doc:"requeue: the job is queued again; cancel: it ends"`
	PreemptMoney  string   `json:"preempt_money" doc:"refund: what the attempt cost is given back; keep: it isn't"`
}

// QoSPatch changes a QoS; what is absent stays, an empty list is everything.
type QoSPatch struct {
	Priority    *int64    `json:"priority,omitempty" doc:"added to that of its jobs"`
	Factor      *string   `json:"factor,omitempty" doc:"prices are multiplied by it, e.g. 1.5"`
	MaxTime     *Quantity `json:"max_time,omitempty" doc:"0: any"`
	DefaultTime *Quantity `json:"default_time,omitempty" doc:"0: the partition's"`
	Grace       *Quantity `json:"grace,omitempty" doc:"between SIGTERM and SIGKILL, of a job that names none"`
	MaxGrace    *Quantity `json:"max_grace,omitempty"`
	Accounts    *[]string `json:"accounts,omitempty" doc:"these and those below them may use it"`
	Partitions  *[]string `json:"partitions,omitempty" doc:"where it may be used"`
	Busy        *string   `json:"busy,omitempty" doc:"queue or refuse"`
	Preempts    *[]string `json:"preempts,omitempty" doc:"QoS of lower priority whose running jobs may be stopped to make room"`

	Exempt        *bool     `json:"exempt,omitempty" doc:"its jobs are never preempted, but for what they have borrowed from a share"`
	MinRun        *Quantity `json:"min_run,omitempty" doc:"its jobs run at least so long before they are"`
	PreemptSignal *string   `json:"preempt_signal,omitempty" doc:"what a job is told it with, e.g. TERM or USR1"`
	PreemptGrace  *Quantity `json:"preempt_grace,omitempty" doc:"from that signal to SIGKILL; 0: the job's own grace"`
	PreemptMode   *string   `json:"preempt_mode,omitempty" doc:"requeue or cancel"`
	PreemptMoney  *string   `json:"preempt_money,omitempty" doc:"refund or keep"`
}

// NewQoS makes a QoS.
type NewQoS struct {
	Name string `json:"name"`
	QoSPatch
}
