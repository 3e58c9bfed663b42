// Package engine declares what Croft asks of whatever runs containers: one
// machine's container runtime (engine/cri), a cluster (engine/kube, later) or a
// virtual fleet (engine/sim). An engine never writes Croft's state: it is told
// what to do by idempotent calls and reports what it sees.
//
// Every implementation passes the suite in engine/conformance.
package engine

import (
	"context"
	"io"
	"time"
)

// Engine runs attempts. All methods may be called concurrently. A method that
// cannot reach the runtime returns an error for which IsUnavailable is true;
// that is never to be read as "the attempt has ended".
type Engine interface {
	// Inventory returns the nodes and devices offered now.
	Inventory(ctx context.Context) (Inventory, error)

	// Image returns the image named by ref if the runtime already has it, or
	// ok=false. It never pulls.
	Image(ctx context.Context, ref string) (img Image, ok bool, err error)
	// Pull fetches ref and returns it. progress (may be nil) is called from one
	// goroutine at a time. An error is a *PullError when the pull was refused or
	// failed for good (no such image, denied), else unavailable or ctx's error.
	Pull(ctx context.Context, req PullRequest, progress func(Progress)) (Image, error)

	// Start makes sure that the attempt's sandbox and primary container exist and
	// run. It is idempotent by AttemptID: calling it again after a crash, a
	// time-out or a success changes nothing. It never restarts an exited
	// container. A *StartError says that this attempt can never start.
	Start(ctx context.Context, a Allocation) error
	// Signal delivers sig (for example "TERM", "USR1") to the primary's process.
	// An attempt that is unknown or has ended is no error.
	Signal(ctx context.Context, attempt AttemptID, sig string) error
	// Stop kills whatever is left of the attempt at once (SIGKILL). The status
	// remains listed until Remove. Idempotent.
	Stop(ctx context.Context, attempt AttemptID) error
	// Remove deletes what is left of an ended attempt: containers, sandbox,
	// scratch. Its log stays until its retention ends. Idempotent; it refuses an
	// attempt that still runs.
	Remove(ctx context.Context, attempt AttemptID) error

	// List returns every attempt of this instance that the engine knows, running
	// or exited, also those nobody asked for in this life of the server.
	List(ctx context.Context) ([]Status, error)
	// Watch sends a Status whenever one changes, until ctx ends; then it closes
	// the channel. Events may be lost; List repairs.
	Watch(ctx context.Context) (<-chan Status, error)

	// Logs writes the attempt's log to w. With Follow it goes on until the
	// attempt has ended and its log is complete, or ctx ends.
	Logs(ctx context.Context, attempt AttemptID, opts LogOptions, w LogWriter) error
	// Exec runs a command inside the primary container as the job's user and
	// returns its exit code.
	Exec(ctx context.Context, attempt AttemptID, req ExecRequest) (exitCode int, err error)

	// Close releases the connection. It stops nothing.
	Close() error
}

// AttemptID names one attempt of one job in one Croft instance, for example
// "3f2a9c1e-118-1". It is safe in file names, labels and host names.
type AttemptID string

// Inventory is what an engine offers.
type Inventory struct {
	Nodes   []Node
	Devices []Device
}

// Node is a machine. CPU is in milli-cores, Memory in bytes: what may be handed
// to jobs, the machine's own reserve already taken off.
type Node struct {
	Name   string
	CPU    int64
	Memory int64
	Ready  bool
	Reason string            // why it isn't ready
	Labels map[string]string // free facts: kernel, cgroup version, runtime
}

// Device is one accelerator, keyed by UUID.
type Device struct {
	UUID  string
	Node  string
	Index int    // position on the node, for display: gpu0
	Name  string // display name, "gpu0"
	Model string // catalogue model, "a100-80g"; a MIG profile is a model of its own
	CDI   string // fully qualified CDI name; empty where the engine needs none
	// Healthy is false when the device must not be given to a job; Reason says why.
	Healthy bool
	Reason  string
	// Foreign lists processes on the device that Croft didn't start.
	Foreign []Process
}

// Process is a process seen on a device.
type Process struct {
	PID     int
	User    string
	Command string // base name only
}

// Image is an image that the runtime has. Size in bytes.
type Image struct {
	Ref    string // as asked
	ID     string // content digest, "sha256:…"
	Size   int64
	User   string // the image's own user, informational
	Labels map[string]string
}

// PullRequest asks for an image.
type PullRequest struct {
	Ref string
	// Username and Password authenticate at the registry; never logged.
	Username, Password string
}

// Progress of a pull, in bytes. Total is 0 while unknown.
type Progress struct {
	Done, Total int64
}

// Allocation is everything an engine needs in order to run one attempt.
type Allocation struct {
	Attempt AttemptID
	Job     int64
	N       int // attempt number, 1…
	Node    string

	// Identity labels, put on every object so that it can be adopted later.
	Instance, Account, SpecDigest string

	Name    string // job name, for host name and labels
	Image   string // reference; ImageID, when set, is what is really run
	ImageID string
	Command []string // empty: the image's own entry point and command
	Args    []string
	Env     map[string]string
	Workdir string
	Mounts  []Mount

	User User

	CPU     int64 // milli-cores, enforced
	Memory  int64 // bytes, enforced; /dev/shm is half of it and counted in it
	Devices []Device
}

// User is whom the containers run as.
type User struct {
	Name   string
	UID    int64
	GID    int64
	Groups []Group // supplementary groups
	Home   string  // inside the container; HOME
	Shell  string
}

// Group is a Unix group of the user.
type Group struct {
	Name string
	GID  int64
}

// Mount is a bind mount, already checked against the site's allowed roots.
type Mount struct {
	Source, Target string
	ReadOnly       bool
}

// Phase of an attempt as an engine sees it.
type Phase string

// The phases.
const (
	PhaseCreated Phase = "created" // exists, its process has not begun
	PhaseRunning Phase = "running"
	PhaseExited  Phase = "exited"
	PhaseUnknown Phase = "unknown" // the runtime cannot say: never read as ended
)

// Status is what an engine knows of one attempt.
type Status struct {
	Attempt    AttemptID
	Instance   string
	Job        int64
	N          int
	Account    string
	SpecDigest string
	Node       string
	Phase      Phase
	Started    time.Time // primary's start, zero if it never began
	Finished   time.Time // primary's end
	ExitCode   int       // 128+n for a signal
	// OutOfMemory is true only with the step's own oom_kill evidence.
	OutOfMemory bool
	// Lost is set when the program ended while nobody was there to see it: the
	// machine went down, and its runtime came back without it. Then ExitCode means
	// nothing, and Finished is when that was found out.
	Lost bool
	// Failure is set when the attempt ended without its program having run: the
	// command doesn't exist, the mount failed… Safe to show to the user.
	Failure string
}

// Stream of a log line.
type Stream string

// The streams.
const (
	Stdout Stream = "stdout"
	Stderr Stream = "stderr"
)

// LogWriter receives log data. Data may be part of a line; it is valid only
// during the call.
type LogWriter interface {
	WriteLog(at time.Time, stream Stream, data []byte) error
}

// LogOptions select a part of a log.
type LogOptions struct {
	Follow bool
	Tail   int       // last n lines; negative: all
	Since  time.Time // zero: from the start
}

// ExecRequest is a command to run beside the primary.
type ExecRequest struct {
	Command []string
	TTY     bool
	Stdin   io.Reader // nil: none
	Stdout  io.Writer
	Stderr  io.Writer // not used with TTY
	Resize  <-chan Size
}

// Size of a terminal in character cells.
type Size struct{ Cols, Rows uint16 }
