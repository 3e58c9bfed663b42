package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
)

// batchJob is a job as the commands of batch systems show it.
type batchJob struct {
	v1.Job
	now  time.Time
	zone *time.Location
}

// batchState is a state of Croft's in the words of Slurm and of CraneSched.
type batchState struct{ long, short, crane string }

// batchStates are the words for the states and outcomes that batch systems have a
// word for.
var batchStates = map[string]batchState{
	"held": {"PENDING", "PD", "Pending"}, "queued": {"PENDING", "PD", "Pending"}, "starting": {"CONFIGURING", "CF", "Configuring"},
	"running": {"RUNNING", "R", "Running"}, "stopping": {"COMPLETING", "CG", "Completing"}, "suspended": {"SUSPENDED", "S", "Suspended"},
	"stopped":                 {"STOPPED", "ST", "Stopped"},
	"refused":                 {"BOOT_FAIL", "BF", "Invalid"},
	string(codes.Completed):   {"COMPLETED", "CD", "Completed"},
	string(codes.Failed):      {"FAILED", "F", "Failed"},
	string(codes.Cancelled):   {"CANCELLED", "CA", "Cancelled"},
	string(codes.TimedOut):    {"TIMEOUT", "TO", "ExceedTimeLimit"},
	string(codes.OutOfMemory): {"OUT_OF_MEMORY", "OOM", "OutOfMemory"},
	// Batch systems know no money; somebody else than the job ended it.
	string(codes.OutOfCredit): {"CANCELLED", "CA", "Cancelled"},
	string(codes.Preempted):   {"PREEMPTED", "PR", "Preempted"},
	string(codes.NodeFailed):  {"NODE_FAIL", "NF", "Failed"},
	string(codes.Deadline):    {"DEADLINE", "DL", "Deadline"},
	string(codes.Requeued):    {"REQUEUED", "RQ", "Requeued"},
	string(codes.Withdrawn):   {"REQUEUED", "RQ", "Requeued"},
}

// state is the job's state; one that they have no word for stays as it is.
func (j batchJob) state() batchState {
	s := jobState(&j.Job)
	if b, ok := batchStates[s]; ok {
		return b
	}
	return batchState{strings.ToUpper(s), strings.ToUpper(s), s}
}

// accounted is the state in accounting, which knows nothing between waiting and
// running, nor between running and over: programs that wait for a job take every
// other state for its end.
func (j batchJob) accounted() batchState {
	switch j.State {
	case "starting":
		return batchStates["queued"]
	case "stopping":
		return batchStates["running"]
	}
	return j.state()
}

// statesOf reads a list of states in any of the three spellings and returns Croft's
// states, for a query, and its outcomes, to choose among what the query finds.
func statesOf(list string) (states, outcomes []string, err error) {
	for word := range strings.SplitSeq(list, ",") {
		word = strings.TrimSpace(word)
		found := false
		for name, b := range batchStates {
			if name == "refused" || !slices.ContainsFunc([]string{b.long, b.short, b.crane, name}, func(s string) bool { return strings.EqualFold(s, word) }) {
				continue
			}
			found = true
			if slices.Contains([]string{"held", "queued", "starting", "running", "stopping"}, name) {
				states = append(states, name)
			} else if name != "suspended" {
				states, outcomes = append(states, "ended"), append(outcomes, name)
			}
		}
		if !found {
			return nil, nil, usage("there is no state %q: want PENDING, RUNNING, COMPLETED, FAILED, CANCELLED, TIMEOUT or another of the batch system's", word)
		}
	}
	slices.Sort(states)
	return slices.Compact(states), outcomes, nil
}

// reason is why a pending job waits, as squeue says it.
func (j batchJob) reason() string {
	switch j.State {
	case "queued", "held":
		return slurmReason(j.Waits)
	case "starting":
		return "Prolog"
	}
	return "None"
}

// slurmReasons are the names that scripts know. What has none is shown by its own
// code.
var slurmReasons = map[codes.Reason]string{
	codes.Priority: "Priority", codes.JobHeld: "JobHeldUser", codes.JobHeldByStaff: "JobHeldAdmin", codes.JobHeldToAsk: "JobHeldUser",
	codes.Dependency: "Dependency", codes.DependencyNever: "DependencyNeverSatisfied", codes.BeginTime: "BeginTime", codes.DeadlineTooSoon: "DeadLine",
	codes.DevicesBusy: "Resources", codes.CPUBusy: "Resources", codes.MemoryBusy: "Resources", codes.PortBusy: "Resources",
	codes.DevicesForeign: "Resources", codes.DevicesUnhealthy: "Resources",
	codes.NodeDown: "ReqNodeNotAvail", codes.NodeDrained: "ReqNodeNotAvail", codes.Maintenance: "ReqNodeNotAvail", codes.Reserved: "ReqNodeNotAvail", codes.ReservationWait: "Reservation", codes.ReservationEach: "Reservation",
	codes.LimitRunning: "AssocMaxJobsLimit", codes.LimitCPU: "AssocGrpCpuLimit", codes.LimitMemory: "AssocGrpMemLimit",
	codes.LimitDevices: "AssocGrpGRES", codes.LimitWall: "AssocMaxWallDurationPerJobLimit", codes.Funds: "AssocGrpBillingMinutes",
	codes.LimitSubmitted: "AssocMaxSubmitJobLimit", codes.ArrayFull: "JobArrayTaskLimit",
	codes.WallOverPartition: "PartitionTimeLimit", codes.WallOverQoS: "QOSMaxWallDurationPerJobLimit",
}

func slurmReason(code string) string {
	if code == "" {
		return "None"
	}
	if name, ok := slurmReasons[codes.Reason(code)]; ok {
		return name
	}
	return code
}

// where is the node, or in brackets why there is none yet.
func (j batchJob) where() string {
	if j.Node != "" || j.Ended != nil {
		return j.Node
	}
	return "(" + j.reason() + ")"
}

// elapsed is how long the job has run, or ran.
func (j batchJob) elapsed() time.Duration {
	switch {
	case j.Started == nil:
		return 0
	case j.Ended != nil:
		return max(j.Ended.Sub(*j.Started), 0)
	}
	return max(j.now.Sub(*j.Started), 0)
}

// limit is the time limit.
func (j batchJob) limit() (time.Duration, bool) { return quantitySpan(string(j.Spec.Time)) }

// end is when the job ended, or at the latest will.
func (j batchJob) end() *time.Time {
	if j.Ended != nil {
		return j.Ended
	}
	return j.Limit
}

// start is when the job started, or is expected to.
func (j batchJob) start() *time.Time {
	if j.Started == nil && j.Window != nil {
		return j.Window.Start
	}
	return j.Started
}

// stamp is a point in time as batch systems write it.
func (j batchJob) stamp(t *time.Time, none string) string {
	if t == nil || t.IsZero() {
		return none
	}
	return t.In(j.zone).Format("2006-01-02T15:04:05")
}

// exitCode is "code:signal". A shell reports a signal as a code over 128.
func (j batchJob) exitCode() string {
	if j.ExitCode == nil {
		return "0:0"
	}
	if n := *j.ExitCode; n > 128 && n <= 128+64 {
		return "0:" + strconv.Itoa(n-128)
	}
	return strconv.Itoa(*j.ExitCode) + ":0"
}

// cpus is the number of CPUs in whole ones, as batch systems count.
func (j batchJob) cpus() string {
	each := wholeCPUs(string(j.Spec.CPU))
	if n, err := strconv.Atoi(each); err == nil {
		return strconv.Itoa(n * j.nodes())
	}
	return each
}

// kind is CraneSched's type of a job.
func (j batchJob) kind() string {
	if j.Spec.Kind == v1.KindBatch {
		return "Batch"
	}
	return "Container"
}

// nodes is on how many nodes the job is, or is to be.
func (j batchJob) nodes() int { return max(1, j.Spec.Nodes) }

// allocCPUs is the same once there is an allocation.
func (j batchJob) allocCPUs() string {
	if j.Node == "" {
		return "0"
	}
	return j.cpus()
}

func wholeCPUs(cpu string) string {
	whole, part, _ := strings.Cut(cpu, ".")
	n, err := strconv.ParseInt(whole, 10, 64)
	if err != nil {
		return orZero(cpu)
	}
	if strings.Trim(part, "0") != "" {
		n++
	}
	return strconv.FormatInt(n, 10)
}

// gres is the devices asked for, as "gpu:a100:2"; otherwise for none.
func (j batchJob) gres(otherwise string) string {
	n := string(cmp.Or(j.Part, j.Spec.GPU))
	if n == "" || n == "0" {
		return otherwise
	}
	if j.Spec.Model != "" {
		return "gpu:" + j.Spec.Model + ":" + n
	}
	return "gpu:" + n
}

// tres is the resources in Slurm's notation.
func (j batchJob) tres() string {
	s := "billing=" + j.cpus() + ",cpu=" + j.cpus()
	if g := j.gres(""); g != "" {
		s += ",gres/" + strings.Replace(strings.Replace(g, ":", "=", strings.Count(g, ":")), "gpu="+j.Spec.Model+"=", "gpu:"+j.Spec.Model+"=", 1)
	}
	return s + ",mem=" + string(j.Spec.Mem) + ",node=" + strconv.Itoa(j.nodes())
}

// spanShort is squeue's way: "0:05", "12:00", "1:02:03", "1-02:03:04".
func spanShort(d time.Duration) string {
	days, h, m, s := split(d)
	switch {
	case days > 0:
		return fmt.Sprintf("%d-%02d:%02d:%02d", days, h, m, s)
	case h > 0:
		return fmt.Sprintf("%d:%02d:%02d", h, m, s)
	}
	return fmt.Sprintf("%d:%02d", m, s)
}

// spanLong is sacct's and CraneSched's way: "00:00:05", "1-02:03:04".
func spanLong(d time.Duration) string {
	days, h, m, s := split(d)
	if days > 0 {
		return fmt.Sprintf("%d-%02d:%02d:%02d", days, h, m, s)
	}
	return fmt.Sprintf("%02d:%02d:%02d", h, m, s)
}

func split(d time.Duration) (days, h, m, s int64) {
	n := int64(max(d, 0) / time.Second)
	return n / 86400, n % 86400 / 3600, n % 3600 / 60, n % 60
}

// quantitySpan reads a time as the API writes it.
func quantitySpan(s string) (time.Duration, bool) {
	if s == "" {
		return 0, false
	}
	d, err := parseSpan(s)
	return d, err == nil
}

// limitText is a time limit in a format; what has none is UNLIMITED.
func limitText(d time.Duration, ok bool, format func(time.Duration) string) string {
	if !ok {
		return "UNLIMITED"
	}
	return format(d)
}

func orZero(s string) string {
	if s == "" {
		return "0"
	}
	return s
}

// truth is a truth as batch systems write it.
func truth(b bool, yes, no string) string {
	if b {
		return yes
	}
	return no
}

// commandOf is what a job runs, in short.
func commandOf(j v1.Job) string { return strings.Join(slices.Concat(j.Spec.Command, j.Spec.Args), " ") }
