package workload

import (
	"cmp"
	"iter"
	"slices"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/id"
	"croft.dev/croft/internal/quantity"
	"croft.dev/croft/internal/table"
)

// Step is a program that a job runs beside its primary, in the same allocation. It goes
// through the states of a job, but is never held: Queued until its image is there and
// what it asked for is free, and Ended at the latest with the attempt that it belongs to.
type Step struct {
	Job       id.Job
	N         int32 // from FirstStep on
	Attempt   int32 // of its job
	Spec      StepSpec
	State     JobState
	Submitted int64 // ns
	Added     int64 // log row that it came by
	Seq       int64 // log row of the last change
	Message   string

	Image   string   // content digest that was resolved
	Devices []string // UUIDs: what it may use of the job's

	Started  int64         // ns, as the engine saw it; 0: not yet
	Until    int64         // ns: when its own time is up; 0: with the job's
	StopAt   int64         // ns: when it was told to end; 0: not
	Grace    int64         // ns from then to SIGKILL
	Kill     bool          // SIGKILL was decided
	Cause    codes.Outcome // why it is being stopped
	Outcome  codes.Outcome // once ended
	ExitCode int32
	Ended    int64 // ns
}

// The numbers of steps. The pod is 0 and isn't shown.
const (
	PrimaryStep = 1
	FirstStep   = 2
)

// MaxSteps bounds the steps of a job that haven't ended.
const MaxSteps = 1000

// StepSpec is what a step runs, and what part of its job's allocation it has for itself:
// what it names no amount of, it shares with the primary and with the others.
type StepSpec struct {
	Name    string   `json:"name,omitempty"`
	Host    bool     `json:"host,omitempty"` // on the machine itself, in no container
	Image   string   `json:"image"`
	Command []string `json:"command,omitempty"`
	Args    []string `json:"args,omitempty"`
	Streams
	Env     map[string]string `json:"env,omitempty"`
	Workdir string            `json:"workdir,omitempty"`
	Mounts  []Mount           `json:"mounts,omitempty"`
	Pull    string            `json:"pull,omitempty"`
	CPU     int64             `json:"cpu,omitempty"`    // milli-cores; 0: the job's
	Mem     int64             `json:"mem,omitempty"`    // bytes; 0: the job's
	GPU     int64             `json:"gpu,omitempty"`    // milli-devices, whole ones; 0: the job's
	NoGPU   bool              `json:"no_gpu,omitempty"` // none of them
	Time    int64             `json:"time,omitempty"`   // ns; 0: as long as the job
	Grace   int64             `json:"grace,omitempty"`  // ns; 0: the job's
}

// mayStep lists the states of a step that may follow each.
var mayStep = map[JobState][]JobState{
	Queued:   {Starting, Ended},
	Starting: {Running, Stopping, Ended},
	Running:  {Stopping, Ended},
	Stopping: {Ended},
}

// MayStep reports whether a step may go from one state to the other.
func MayStep(from, to JobState) bool { return slices.Contains(mayStep[from], to) }

// Due is when something is due for the step by its own clock, in ns; 0: nothing.
func (s *Step) Due() int64 {
	switch {
	case s.State == Stopping && !s.Kill:
		return s.StopAt + s.Grace
	case s.State == Running:
		return s.Until
	}
	return 0
}

// Stop tells a step to end that has begun, at now: by SIGKILL after grace ns, or with
// kill at once. It reports whether that changes anything.
func (s *Step) Stop(now, grace int64, kill bool, cause codes.Outcome, message string) bool {
	if s.State == Stopping {
		sooner := now+grace < s.StopAt+s.Grace
		if s.Kill || !kill && !sooner {
			return false
		}
		s.Kill = kill
		if sooner {
			s.Grace = max(now+grace-s.StopAt, 0)
		}
		return true
	}
	s.State, s.StopAt, s.Grace, s.Kill, s.Cause, s.Message = Stopping, now, grace, kill, cause, message
	return true
}

// End ends the step.
func (s *Step) End(at int64, outcome codes.Outcome, exit int32, message string) {
	s.State, s.Ended, s.Outcome, s.ExitCode = Ended, at, outcome, exit
	if message != "" {
		s.Message = message
	}
}

// Within is the spec with what it leaves to its job: the image, and a name after that.
func (s StepSpec) Within(j Spec) StepSpec {
	if s.Host {
		return s
	}
	s.Image = cmp.Or(s.Image, j.Image)
	s.Name = cmp.Or(s.Name, nameOf(Spec{Image: s.Image}))
	return s
}

// Over says in what a step asks for more than its job has at all: the field, what was
// asked and what there is. Nothing else can keep it from ever starting.
func (s StepSpec) Over(j Spec) (field, asked, has string, over bool) {
	switch {
	case s.CPU > j.CPU:
		return "cpu", quantity.FormatCPU(s.CPU), quantity.FormatCPU(j.CPU), true
	case s.Mem > j.Mem:
		return "mem", quantity.FormatBytes(s.Mem), quantity.FormatBytes(j.Mem), true
	case s.GPU > j.GPU:
		return "gpu", quantity.FormatDevices(s.GPU), quantity.FormatDevices(j.GPU), true
	}
	return "", "", "", false
}

// Room is which of its job's devices a waiting step may use if it starts now. It isn't ok
// while other steps have too much of what it asked for: what a step names an amount of, no
// other that names one has at the same time.
func (s *State) Room(j *Job, step *Step) (devices []string, ok bool) {
	cpu, mem := j.Spec.CPU, j.Spec.Mem
	free := slices.Clone(j.Attempt.Devices)
	for other := range s.StepsOf(j.ID) {
		if other.State == Queued {
			continue
		}
		cpu -= other.Spec.CPU
		mem -= other.Spec.Mem
		if other.Spec.GPU > 0 {
			free = slices.DeleteFunc(free, func(d string) bool { return slices.Contains(other.Devices, d) })
		}
	}
	n := int(step.Spec.GPU / quantity.Device)
	switch {
	case step.Spec.CPU > cpu, step.Spec.Mem > mem, n > len(free):
		return nil, false
	case step.Spec.NoGPU:
		return nil, true
	case n == 0:
		return j.Attempt.Devices, true
	}
	return free[:n], true
}

// StepsOf yields a job's live steps by number.
func (s *State) StepsOf(job id.Job) iter.Seq[*Step] {
	return func(yield func(*Step) bool) {
		for _, step := range s.Steps.From(table.Pair(int64(job), 0)) {
			if step.Job != job || !yield(step) {
				return
			}
		}
	}
}

// Step returns a live step.
func (s *State) Step(job id.Job, n int32) (*Step, bool) {
	return s.Steps.Get(table.Pair(int64(job), int64(n)))
}

func (s *State) putStep(step *Step) {
	key := table.Pair(int64(step.Job), int64(step.N))
	if step.State == Ended {
		s.Steps.Delete(key)
		return
	}
	s.Steps.Set(key, step)
}
