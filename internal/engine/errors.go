package engine

import (
	"errors"
	"strconv"
)

// UnavailableError means that the runtime could not be asked: down, restarting
// or too slow. Nothing may be concluded about any attempt.
type UnavailableError struct{ Cause error }

func (e *UnavailableError) Error() string { return "container runtime unavailable: " + e.Cause.Error() }
func (e *UnavailableError) Unwrap() error { return e.Cause }

// IsUnavailable reports whether err says that the runtime could not be asked.
func IsUnavailable(err error) bool {
	var u *UnavailableError
	return errors.As(err, &u)
}

// PullError means that an image can't be had; trying again won't help soon.
// Message is safe to show to the user: no credentials, no internal addresses.
type PullError struct {
	Ref      string
	NotFound bool
	Denied   bool
	Message  string
}

func (e *PullError) Error() string { return "pull " + e.Ref + ": " + e.Message }

// SaveError means that no image can be made of a step. Message is safe to show to the user.
type SaveError struct {
	TooLarge bool // there is more than SaveRequest.Max
	Message  string
}

func (e *SaveError) Error() string { return e.Message }

// StartError means that this attempt can never start: the command isn't in the
// image, a mount source is missing, a device is gone. Message is safe to show.
type StartError struct{ Message string }

func (e *StartError) Error() string { return e.Message }

// WaitError means that an attempt isn't taken now, by what others decide: starting it again
// later may help.
type WaitError struct{ Wait Wait }

func (e *WaitError) Error() string { return e.Wait.Message }

// NotFoundError means that the engine has nothing of that attempt.
type NotFoundError struct{ Attempt AttemptID }

func (e *NotFoundError) Error() string { return "no such attempt: " + string(e.Attempt) }

// AttachError means that the step runs but can't be attached to as was asked: it has
// no input, or that is another's. Message is safe to show to the user.
type AttachError struct{ Message string }

func (e *AttachError) Error() string { return e.Message }

// What an AttachError says.
const (
	NoInput    = "it was started without an input"
	InputGiven = "its input has been given by another who attached"
)

// DialError means that nothing of the step answers on a port. Message is safe to show to
// the user.
type DialError struct {
	Port    uint16
	Message string
}

func (e *DialError) Error() string { return "port " + strconv.Itoa(int(e.Port)) + ": " + e.Message }

// ListenError means that a port of the step can't be listened on. Message is safe to show
// to the user.
type ListenError struct {
	Port    uint16
	Message string
}

func (e *ListenError) Error() string { return "port " + strconv.Itoa(int(e.Port)) + ": " + e.Message }

// What a ListenError says: of a port that somebody listens on, and of one below those that
// are anybody's.
const (
	PortTaken      = "something listens there already"
	PortPrivileged = "ports below 1024 aren't listened on"
)

// FirstPort is the first that may be listened on.
const FirstPort = 1024

// NothingListens is what a DialError says of a program that isn't up yet, or not there.
const NothingListens = "nothing listens there"

// NoTerminalsError means that nothing keeps terminals of the step.
type NoTerminalsError struct{ Step StepID }

func (e *NoTerminalsError) Error() string { return "no terminals: " + e.Step.String() }

// ErrNoQueues says that the engine hands nothing to a batch scheduler.
var ErrNoQueues = errors.New("the engine has no queues")

// NoVolumeError means that the user has no volume of that name.
type NoVolumeError struct{ Name string }

func (e *NoVolumeError) Error() string { return "no such volume: " + e.Name }

// VolumeInUseError means that an attempt has the volume.
type VolumeInUseError struct{ Name string }

func (e *VolumeInUseError) Error() string { return "volume " + e.Name + " is in use" }
