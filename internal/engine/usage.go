package engine

import "time"

// Usage is what attempts use of their nodes. What can't be known isn't in it: whoever
// finds nothing of an attempt or of a device has learned nothing, not that it is idle.
type Usage struct {
	Attempts []AttemptUsage
	Devices  []DeviceUsage
}

// AttemptUsage is what all processes of an attempt use together.
type AttemptUsage struct {
	Attempt AttemptID
	At      time.Time
	CPU     time.Duration // that they have used since the attempt began
	Memory  int64         // bytes in use, but for what the kernel would give back at once
}

// DeviceUsage is how busy a device is, whoever uses it.
type DeviceUsage struct {
	UUID   string
	At     time.Time
	Busy   int64 // thousandths of the time just passed in which it computed
	Memory int64 // bytes in use
}
