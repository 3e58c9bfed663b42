package v1

import "time"

// Usage is what a job uses of the machine, as its server has seen it since it started.
type Usage struct {
	Now     *UseSample  `json:"now,omitempty" doc:"the newest sample; none while the job doesn't run, or nothing is known"`
	Minutes []UseSample `json:"minutes" doc:"the last hour by minutes, the oldest first; one in which nothing was seen is left out"`
}

// UseSample is what a job uses at a time. What isn't known is left out, and isn't nothing.
type UseSample struct {
	At      time.Time   `json:"at"`
	CPU     Quantity    `json:"cpu,omitempty" doc:"cores, on average over the minute before; of a minute, over it"`
	Mem     Quantity    `json:"mem" doc:"in use, without files that the kernel would drop at once; of a minute, the most"`
	Devices []DeviceUse `json:"devices,omitempty"`
}

// DeviceUse is how busy a device of a job is, whoever else has a part of it.
type DeviceUse struct {
	Name    string   `json:"name"`
	Percent *int64   `json:"percent,omitempty" doc:"of the time in which it computed; of a minute, the most that was seen; none if it can't be known"`
	Mem     Quantity `json:"mem,omitempty" doc:"of the device's memory, in use"`
}
