package codes

// Reason says why an admission was refused or why a job waits.
type Reason string

// The reason codes. Those ending in NEVER_FIT can't be cured by waiting.
const (
	// Structure: the request can never run as it stands.
	DevicesNeverFit   Reason = "DEVICES_NEVER_FIT"
	NodesNeverFit     Reason = "NODES_NEVER_FIT"
	CPUNeverFit       Reason = "CPU_NEVER_FIT"
	MemoryNeverFit    Reason = "MEM_NEVER_FIT"
	DevicesNotShared  Reason = "DEVICES_NOT_SHARED" // the partition gives whole devices only
	DeviceMemory      Reason = "DEVICE_MEMORY_NEVER_FIT"
	DeviceMemoryNone  Reason = "DEVICE_MEMORY_UNKNOWN" // of no device that would do
	ModelUnknown      Reason = "MODEL_UNKNOWN"
	ConstraintNever   Reason = "CONSTRAINT_NEVER_MET"
	AccountUnknown    Reason = "ACCOUNT_UNKNOWN"
	AccountClosed     Reason = "ACCOUNT_CLOSED"
	AccountExpired    Reason = "ACCOUNT_EXPIRED"
	UserBlocked       Reason = "USER_BLOCKED"
	UserExpired       Reason = "USER_EXPIRED"
	UserUnbound       Reason = "USER_UNBOUND"
	MountNotAllowed   Reason = "MOUNT_NOT_ALLOWED"
	HostDenied        Reason = "HOST_NOT_ALLOWED"    // programs on the machine itself
	NetworkNotAllowed Reason = "NETWORK_NOT_ALLOWED" // the site keeps jobs out of the machine's network
	PortNotAllowed    Reason = "PORT_NOT_ALLOWED"
	WallOverPartition Reason = "TIME_OVER_PARTITION"
	WallOverQoS       Reason = "TIME_OVER_QOS"
	PartitionDenied   Reason = "PARTITION_NOT_ALLOWED"
	QoSDenied         Reason = "QOS_NOT_ALLOWED"
	QoSBusy           Reason = "QOS_BUSY" // the QoS doesn't let its jobs wait
	DeadlineTooSoon   Reason = "DEADLINE_TOO_SOON"
	DependencyNever   Reason = "DEPENDENCY_NEVER_MET"
	ReservationShort  Reason = "RESERVATION_TOO_SHORT" // none of its windows lasts as long
	ReservationOver   Reason = "RESERVATION_OVER"
	StepBeyond        Reason = "STEP_RES_BEYOND"  // a step asks for more than its job has
	WorkspaceExists   Reason = "WORKSPACE_EXISTS" // the user has one of that name
	WorkspaceLimit    Reason = "WORKSPACE_LIMIT"  // the user has as many as one may, stopped ones too

	// ReservationConflict is what is in the way of a reservation.
	ReservationConflict Reason = "RESERVATION_CONFLICT"

	// Limits and money.
	LimitWall      Reason = "LIMIT_TIME"
	LimitSubmitted Reason = "LIMIT_SUBMITTED"
	LimitRunning   Reason = "LIMIT_RUNNING"
	LimitCPU       Reason = "LIMIT_CPU"
	LimitMemory    Reason = "LIMIT_MEM"
	LimitDevices   Reason = "LIMIT_GPU"
	LimitHours     Reason = "LIMIT_HOURS"   // of use per period
	LimitCredits   Reason = "LIMIT_CREDITS" // of what a user may spend in an account
	ShareLimit     Reason = "SHARE_LIMIT"   // what an account may have of a partition, borrowed or not
	ShareBorrow    Reason = "SHARE_BORROW"
	ShareKept      Reason = "SHARE_KEPT" // by others, who don't lend it
	Funds          Reason = "FUNDS"
	PriceMissing   Reason = "PRICE_MISSING"

	// Waiting: time cures it.
	NodesBusy        Reason = "NODES_BUSY" // of those that a job needs at once
	DevicesBusy      Reason = "DEVICES_BUSY"
	DevicesForeign   Reason = "DEVICES_FOREIGN"
	DevicesUnhealthy Reason = "DEVICES_UNHEALTHY"
	CPUBusy          Reason = "CPU_BUSY"
	MemoryBusy       Reason = "MEM_BUSY"
	PortBusy         Reason = "PORT_BUSY"
	NodeDown         Reason = "NODE_DOWN"
	NodeDrained      Reason = "NODE_DRAINED"
	Maintenance      Reason = "MAINTENANCE"
	Reserved         Reason = "RESERVED"           // set aside for the jobs of a reservation
	ReservationWait  Reason = "RESERVATION_WINDOW" // waits for a window of its reservation
	ReservationEach  Reason = "RESERVATION_EACH"   // as many of the user's jobs run in it as may
	Priority         Reason = "PRIORITY"
	JobHeld          Reason = "JOB_HELD"
	JobHeldByStaff   Reason = "JOB_HELD_BY_OPERATOR"
	JobHeldToAsk     Reason = "JOB_NEEDS_APPROVAL"
	Dependency       Reason = "DEPENDENCY"
	BeginTime        Reason = "BEGIN_TIME"
	ArrayFull        Reason = "ARRAY_FULL"    // as many elements run as may at once
	ArrayStarted     Reason = "ARRAY_STARTED" // no element waits

	// Starting: what keeps a job from beginning where it was placed.
	ClusterPlace   Reason = "CLUSTER_PLACE"   // the cluster's scheduler, or the node, doesn't take it
	ClusterImage   Reason = "CLUSTER_IMAGE"   // the node can't get its image
	ClusterQueue   Reason = "CLUSTER_QUEUE"   // a queue of the cluster hasn't let it in
	ClusterRefuses Reason = "CLUSTER_REFUSES" // the cluster takes no Pod of Croft's now

	// Running: what a job that is stopped for being idle was seen to do.
	Idle Reason = "IDLE"
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
	Requeued    Outcome = "requeued"  // an attempt only: stopped to be queued again
	Withdrawn   Outcome = "withdrawn" // an attempt only: it couldn't begin where it was placed
	Stopped     Outcome = "stopped"   // an attempt of a workspace, which somebody stopped
	NodeFailed  Outcome = "node_failed"
	Deadline    Outcome = "deadline"
)
