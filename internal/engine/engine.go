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
	"net"
	"strconv"
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

	// SaveImage makes an image of what a step's container has written over its own, and
	// names it req.Ref, in place of what had the name. It is idempotent by the request.
	// Nothing of what is mounted there is in it. The step may run meanwhile. An error is a
	// *SaveError when that can't be done, else unavailable or ctx's error.
	SaveImage(ctx context.Context, step StepID, req SaveRequest, progress func(Progress)) (Saved, error)
	// RemoveImage removes an image by its name. One that isn't there is no error.
	RemoveImage(ctx context.Context, ref string) error
	// SavedImages returns the names of all images that begin with prefix.
	SavedImages(ctx context.Context, prefix string) ([]string, error)

	// Start makes sure that the attempt's sandbox and primary container exist and
	// run. It is idempotent by AttemptID: calling it again after a crash, a
	// time-out or a success changes nothing. It never restarts an exited
	// container. A *StartError says that this attempt can never start; an engine that finds
	// that out later lists it as ended with a Failure.
	Start(ctx context.Context, a Allocation) error
	// StartStep makes sure that a further step of a started attempt runs, beside its
	// primary and in the same sandbox. Like Start it is idempotent, by the step's id,
	// and never restarts one that has exited. A *StartError says that the step can
	// never start, also since the primary has ended; a *NotFoundError that the
	// attempt isn't there. Before the primary runs it may be unavailable. A step outlives the
	// primary until Stop, or ends with it, as the engine has it.
	StartStep(ctx context.Context, a Allocation, s Step) error
	// Signal delivers sig (for example "TERM", "USR1") to the step's process. A step
	// that is unknown or has ended is no error.
	Signal(ctx context.Context, step StepID, sig string) error
	// StopStep kills what is left of one step at once (SIGKILL). Its status remains
	// listed until Remove. Idempotent.
	StopStep(ctx context.Context, step StepID) error
	// Stop kills whatever is left of the attempt at once (SIGKILL, a SIGTERM may come just
	// before), all its steps.
	// Their status remains listed until Remove. Idempotent.
	Stop(ctx context.Context, attempt AttemptID) error
	// Remove deletes what is left of an ended attempt: containers, sandbox,
	// scratch. Its logs stay until their retention ends. Idempotent; it refuses an
	// attempt of which a step still runs.
	Remove(ctx context.Context, attempt AttemptID) error

	// List returns every step of every attempt of this instance that the engine
	// knows, running or exited, also those nobody asked for in this life of the
	// server. An attempt whose primary isn't there yet is listed by it all the same.
	List(ctx context.Context) ([]Status, error)
	// Watch sends a Status whenever one changes, until ctx ends; then it closes
	// the channel. Events may be lost; List repairs.
	Watch(ctx context.Context) (<-chan Status, error)
	// Usage returns what this instance's attempts that run use, and how busy devices are.
	// It starts no process in any of them. An attempt that has ended may be in it until
	// it is removed.
	Usage(ctx context.Context) (Usage, error)

	// Logs writes the step's log to w. With Follow it goes on until the step has
	// ended and its log is complete, or ctx ends.
	Logs(ctx context.Context, step StepID, opts LogOptions, w LogWriter) error
	// Exec runs a command inside the step's container, or beside its program on the
	// node, as the job's user and returns its exit code.
	Exec(ctx context.Context, step StepID, req ExecRequest) (exitCode int, err error)
	// Attach joins the streams of a step that runs: the writers get what it writes
	// from now on, and the reader is its input. It returns nil once the program has
	// ended and all of its output was written; with a terminal also when the reader
	// has ended, all of it having been handed over. Leaving, by ctx or by a writer's
	// error, leaves the program alone; but a writer that blocks holds it up.
	//
	// With a terminal any number may give input. Without one it belongs to the first
	// that comes with a reader, and ends for the program with that reader or with
	// its Attach. A *NotFoundError says that the step isn't there or has ended, an
	// *AttachError that it can't be attached to like that.
	Attach(ctx context.Context, step StepID, req AttachRequest) error
	// Dial connects to a TCP port of the step, at its own loopback address: what listens
	// there alone is reached, and never what another listens on, the node itself included.
	// A *NotFoundError says that the step isn't there or has ended, a *DialError that
	// nothing of its answers on that port; an engine that learns that only later says it by
	// the error of the connection's first Read.
	Dial(ctx context.Context, step StepID, port uint16) (net.Conn, error)
	// Listen listens on a TCP port of the step, at its own loopback address; on any free
	// one for 0. It goes on until it is closed, whatever becomes of the step. The error is a
	// *NotFoundError as that of Dial, or a *ListenError.
	Listen(ctx context.Context, step StepID, port uint16) (net.Listener, error)

	// Terminals connects with what keeps the terminals of a step that runs; what is said
	// there is package terminal's. It runs as the step does and beside its program, and
	// outlives whoever is connected, the server too, but not the step. With start it is
	// started where there is none; else there is a *NoTerminalsError then. A *NotFoundError
	// says that the step isn't there or has ended, an *AttachError that it can't have any.
	// The keeper is the user's: what it says is to be bounded and not trusted.
	Terminals(ctx context.Context, step StepID, start bool) (io.ReadWriteCloser, error)

	// Volumes returns the named volumes of the user with a uid, by name.
	Volumes(ctx context.Context, uid int64) ([]Volume, error)
	// RemoveVolume deletes a volume with all that is in it. The error is a
	// *NoVolumeError, or a *VolumeInUseError while an attempt has it.
	RemoveVolume(ctx context.Context, uid int64, name string) error

	// Close releases the connection. It stops nothing.
	Close() error
}

// AttemptID names one attempt of one job in one Croft instance, for example
// "3f2a9c1e-118-1". It is safe in file names, labels and host names.
type AttemptID string

// Primary names the attempt's first step.
func (a AttemptID) Primary() StepID { return StepID{a, PrimaryStep} }

// PrimaryStep is the number of the step whose end is the attempt's.
const PrimaryStep = 1

// StepID names a step of an attempt: PrimaryStep, or one above it that was added.
type StepID struct {
	Attempt AttemptID
	N       int
}

// String is the attempt, a dot and the number.
func (s StepID) String() string { return string(s.Attempt) + "." + strconv.Itoa(s.N) }

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
	// Memory is the device's own, in bytes; 0 if the engine doesn't know it.
	Memory int64
	CDI    string // fully qualified CDI name; empty where the engine needs none
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

// SaveRequest asks for an image of what a step has written.
type SaveRequest struct {
	Ref     string // how it is to be called
	Max     int64  // how many bytes of the disk it may add; 0: any number
	Author  string
	Comment string
	At      time.Time // when it was asked for
}

// Saved is an image that was made so.
type Saved struct {
	Image
	Base     string    // the id of the image that it adds to
	Added    int64     // bytes of the disk
	Packages []Package // that it adds, changes or removes, MaxPackages at most
}

// MaxPackages is how many packages are told of an image.
const MaxPackages = 1000

// Package is a change of what is installed.
type Package struct {
	Manager string // "apt", "apk", "pip" or "conda"
	Name    string
	Version string // empty: it is gone
	Was     string // empty: it wasn't there, or isn't known
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

	// Queue is whose part of the cluster it is, where there is a batch scheduler with queues.
	Queue QueueName

	Name      string // job name, for host name and labels
	Container        // the primary's

	User User
	Pod  Pod
	// Gang is set for one of several attempts that run together, each on a node of its own.
	Gang *Gang
	// Userns is the user namespace that all containers of the attempt are in; nil:
	// they run as exactly the user.
	Userns *Userns

	CPU     int64 // milli-cores, enforced on all steps together
	Memory  int64 // bytes, likewise; /dev/shm is half of it and counted in it
	Devices []Device
	// Part is what the job has of its one device, in milli-devices; 0: its devices are
	// whole. Other attempts are then given the same device. An engine keeps them apart
	// only as far as the device itself does.
	Part int64
}

// Gang is what an attempt is one of: all of them are to start, or none. A cluster that has
// ways of its own to see to that uses them. Each finds each by Host.
type Gang struct {
	Name string // of all together; a DNS label
	Rank int    // 0…Size-1
	Size int
}

// Host is the name that a rank of the gang has for the others, where the engine has a network
// between its nodes.
func (g Gang) Host(rank int) string { return "rank-" + strconv.Itoa(rank) + "." + g.Name }

// Primary is the attempt's first step, which has all that the attempt has.
func (a Allocation) Primary() Step {
	return Step{N: PrimaryStep, Container: a.Container, CPU: a.CPU, Memory: a.Memory, Devices: a.Devices}
}

// Container says what a step runs, and in what.
type Container struct {
	// Host is set for a program that runs on the node itself, outside of any container,
	// with the rights that its user has there: Image, ImageID, Args and Mounts mean
	// nothing then. It can't leave the step's control group, and opens none of the node's
	// accelerators but the step's.
	Host    bool
	Image   string // reference; ImageID, when set, is what is really run
	ImageID string
	Command []string // empty: the image's own entry point and command
	// Pause is set for a container that runs no program but waits, and ends with 0 when it
	// is told to terminate. Command and Args mean nothing then.
	Pause   bool
	Args    []string
	Env     map[string]string
	Workdir string // with Host empty: the user's home
	Mounts  []Mount
	Stdin   bool // it has an input: what is attached to it gives
	TTY     bool // its streams are a terminal
	// AwaitAttach keeps the program from beginning until somebody is attached who gives
	// its input or, with a TTY, its size; AttachWithin at most. Whoever starts it in
	// order to work with it sees what it writes first.
	AwaitAttach bool
}

// AttachWithin bounds how long a program waits for whoever wants to attach.
const AttachWithin = 15 * time.Second

// Step is a program that an attempt runs.
type Step struct {
	N int
	Container
	CPU     int64    // milli-cores, enforced
	Memory  int64    // bytes, enforced
	Devices []Device // of the attempt's
}

// Pod is what all containers of an attempt share.
type Pod struct {
	Hostname    string // a DNS label; empty: made of the job's name
	HostNetwork bool   // the machine's network; then there is no host name of its own
	Ports       []Port
	DNS         []string // name servers, asked before the site's
	SharePID    bool     // each container sees the processes of all
	// Closed keeps out whoever comes from outside, but for Ports: then Dial is the one way
	// to what its programs listen on. Not with HostNetwork.
	Closed bool
}

// Port is a TCP port of the machine that leads to one of the attempt.
type Port struct{ Host, Container uint16 }

// User is whom the containers run as.
type User struct {
	Name   string
	UID    int64
	GID    int64
	Groups []Group // supplementary groups
	Home   string  // inside the container; HOME
	Shell  string
}

// Userns is a user namespace. In it containers run as somebody, by default root, who is
// the user in what he mounts and has rights over nothing but the namespace itself; of
// others' files there, and of his supplementary groups, it knows nothing.
type Userns struct {
	// First and Size are the ids on the machine that those inside, from 0 on, are.
	First, Size int64
	UID, GID    int64 // whom containers run as inside
	// Required: without it nothing starts. Else, where it can't be had, containers
	// run as exactly the user, who is told so by the first line of their output.
	Required bool
	Lack     string // why the user has none; else empty
}

// GroupName is what one of the user's groups is called: its number where it has no name.
func (u User) GroupName(gid int64) string {
	for _, g := range u.Groups {
		if g.GID == gid && g.Name != "" {
			return g.Name
		}
	}
	return strconv.FormatInt(gid, 10)
}

// Group is a Unix group of the user.
type Group struct {
	Name string
	GID  int64
}

// Mount is a bind mount. Its source is looked up as the user, who must be able to read
// it, and has to lie in one of the folders Within, links resolved; what was found then
// is what is mounted, whatever becomes of the path.
//
// With Tmpfs it is an empty folder instead, of so many bytes at most, which count in the
// memory of whoever fills it; its owner is whom the container runs as. With Volume it is the
// user's own volume of that name, which is made at its first use and stays.
type Mount struct {
	Source, Target string
	ReadOnly       bool
	Within         []string
	Site           bool // the site's own, which isn't looked up as the user
	Tmpfs          int64
	Volume         string
	// Optional is what it is called by those who may do without: where it can't be mounted
	// the container runs all the same, and says so by the first lines of its output.
	Optional string
	Env      map[string]string // what the container is told if it has it; its own Env wins
}

// Volume is a folder of a user's that outlives jobs. Size in bytes.
type Volume struct {
	Name  string
	Size  int64
	InUse bool // an attempt has it
}

// Phase of a step as an engine sees it.
type Phase string

// The phases.
const (
	PhaseCreated Phase = "created" // exists, its process has not begun
	PhaseRunning Phase = "running"
	PhaseExited  Phase = "exited"
	PhaseUnknown Phase = "unknown" // the runtime cannot say: never read as ended
)

// Status is what an engine knows of one step of an attempt.
type Status struct {
	Attempt    AttemptID
	Step       int
	Instance   string
	Job        int64
	N          int
	Account    string
	SpecDigest string
	Node       string
	Phase      Phase
	Started    time.Time // the step's start, zero if it never began
	Finished   time.Time // its end
	ExitCode   int       // 128+n for a signal
	// OutOfMemory is true only with the step's own oom_kill evidence.
	OutOfMemory bool
	// Lost is set when the program ended while nobody was there to see it: the
	// machine went down, and its runtime came back without it. Then ExitCode means
	// nothing, and Finished is when that was found out.
	Lost bool
	// Failure is set when the step ended without its program having run: the
	// command doesn't exist, the mount failed… Safe to show to the user.
	Failure string
	// Taken is why the step ended by somebody else's doing than Croft's or its program's
	// own: its node was drained, its place given to another. Safe to show.
	Taken string
	// Waits is what keeps a created step from beginning, as long as that is so.
	Waits Wait
	// Given are the devices that the runtime has chosen for the attempt, by its own names
	// and with commas between; empty where it gives exactly what it is told to.
	Given string
}

// Wait is why a step that was created doesn't begin. Message is safe to show.
type Wait struct {
	For     WaitFor // empty: it only takes its time
	Message string
}

// WaitFor is what a step waits for.
type WaitFor string

// What a step may wait for.
const (
	WaitForPlace   WaitFor = "place"   // its node doesn't take it
	WaitForImage   WaitFor = "image"   // its node can't get its image
	WaitForQueue   WaitFor = "queue"   // a queue beneath hasn't let it in
	WaitForCluster WaitFor = "cluster" // what runs it takes nothing like it for now
)

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
	// Flush is called when there is no more to be written for now: what a writer has
	// kept back is due. With Follow no reader waits for long before it.
	Flush() error
}

// LogOptions select a part of a log.
type LogOptions struct {
	Follow bool
	Tail   int       // last n lines; negative: all
	Since  time.Time // zero: from the start
}

// ID names the step.
func (s Status) ID() StepID { return StepID{s.Attempt, s.Step} }

// ExecRequest is a command to run inside a step's container.
type ExecRequest struct {
	Command []string
	// SFTP serves the container's files to an SFTP client on Stdin and Stdout, in place of a
	// Command. It needs nothing in the image.
	SFTP bool
	// Shell says that Command is a shell at a terminal, whose user is told what is to be known there,
	// as that the home is full.
	Shell  bool
	TTY    bool
	Stdin  io.Reader // nil: none
	Stdout io.Writer
	Stderr io.Writer // not used with TTY
	Resize <-chan Size
}

// AttachRequest is what is joined of a step's streams.
type AttachRequest struct {
	Stdin  io.Reader // nil: no input is given
	Stdout io.Writer // nil: not wanted, as is Stderr
	Stderr io.Writer // not used with TTY
	Resize <-chan Size
}

// Size of a terminal in character cells.
type Size struct{ Cols, Rows uint16 }
