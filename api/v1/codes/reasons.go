package codes

// Reason says why an admission was refused or why a job waits.
type Reason string

// The reason codes. Those ending in NEVER_FIT can't be cured by waiting.
const (
	// Structure: the request can never run as it stands.
	DevicesNeverFit   Reason = "DEVICES_NEVER_FIT"
	CPUNeverFit       Reason = "CPU_NEVER_FIT"
	MemoryNeverFit    Reason = "MEM_NEVER_FIT"
	ModelUnknown      Reason = "MODEL_UNKNOWN"
	ConstraintNever   Reason = "CONSTRAINT_NEVER_MET"
	AccountUnknown    Reason = "ACCOUNT_UNKNOWN"
	AccountClosed     Reason = "ACCOUNT_CLOSED"
	AccountExpired    Reason = "ACCOUNT_EXPIRED"
	UserBlocked       Reason = "USER_BLOCKED"
	UserExpired       Reason = "USER_EXPIRED"
	UserUnbound       Reason = "USER_UNBOUND"
	MountNotAllowed   Reason = "MOUNT_NOT_ALLOWED"
	WallOverPartition Reason = "TIME_OVER_PARTITION"
	WallOverQoS       Reason = "TIME_OVER_QOS"
	PartitionDenied   Reason = "PARTITION_NOT_ALLOWED"
	QoSDenied         Reason = "QOS_NOT_ALLOWED"
	QoSBusy           Reason = "QOS_BUSY" // the QoS doesn't let its jobs wait

	// Limits and money.
	LimitWall      Reason = "LIMIT_TIME"
	LimitSubmitted Reason = "LIMIT_SUBMITTED"
	LimitRunning   Reason = "LIMIT_RUNNING"
	LimitCPU       Reason = "LIMIT_CPU"
	LimitMemory    Reason = "LIMIT_MEM"
	LimitDevices   Reason = "LIMIT_GPU"
	Funds          Reason = "FUNDS"
	PriceMissing   Reason = "PRICE_MISSING"

	// Waiting: time cures it.
	DevicesBusy      Reason = "DEVICES_BUSY"
	DevicesForeign   Reason = "DEVICES_FOREIGN"
	DevicesUnhealthy Reason = "DEVICES_UNHEALTHY"
	CPUBusy          Reason = "CPU_BUSY"
	MemoryBusy       Reason = "MEM_BUSY"
	NodeDown         Reason = "NODE_DOWN"
	NodeDrained      Reason = "NODE_DRAINED"
	Maintenance      Reason = "MAINTENANCE"
	Priority         Reason = "PRIORITY"
	JobHeld          Reason = "JOB_HELD"
)

// Outcome of an attempt.
type Outcome string

// The outcomes.
const (
	Completed   Outcome = "completed"
	Failed      Outcome = "failed"
	Cancelled   Outcome = "cancelled"
	TimedOut    Outcome = "timed_out"
	OutOfMemory Outcome = "out_of_memory"
	OutOfCredit Outcome = "out_of_credit"
	Preempted   Outcome = "preempted"
	NodeFailed  Outcome = "node_failed"
	Deadline    Outcome = "deadline"
)
