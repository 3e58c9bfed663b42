package v1

import "time"

// Idle is whether a running job shows signs of work, and what follows if it doesn't.
type Idle struct {
	Standing string     `json:"standing" doc:"active, idle, kept (declared to be at work), unknown (as good as active, but nothing begins anew), or off: no policy is for it"`
	Mode     string     `json:"mode" doc:"what follows from idleness: stop, dry-run or off"`
	Text     string     `json:"text,omitempty" doc:"in words, with what was seen; not in brief lists"`
	Since    *time.Time `json:"since,omitempty" doc:"when it was at work last, as far as is known"`
	For      Quantity   `json:"for,omitempty" doc:"how long it was seen to be idle since then"`
	After    Quantity   `json:"after,omitempty" doc:"how long that may be"`
	Told     *time.Time `json:"told,omitempty" doc:"when its user was told that it will be stopped"`
	StopsAt  *time.Time `json:"stops_at,omitempty" doc:"when it is stopped if it stays idle; with dry-run, would be"`
	Kept     *time.Time `json:"kept_until,omitempty"`
	// Signals are what was looked at.
	Signals []IdleSignal `json:"signals,omitempty" doc:"not in brief lists"`
}

// IdleSignal is one look at one signal.
type IdleSignal struct {
	Signal string `json:"signal" doc:"device, cpu, app, ssh, terminal or browser"`
	Counts bool   `json:"counts" doc:"whether it keeps the job from being idle"`
	State  string `json:"state" doc:"active, idle or unknown"`
	Seen   string `json:"seen" doc:"in words"`
	Bound  string `json:"bound,omitempty" doc:"what would be work"`
}

// KeepRequest declares a job to be at work.
type KeepRequest struct {
	For Quantity `json:"for" doc:"for so long from now, e.g. 6h; 0 takes it back"`
}
