package cli

import (
	"strconv"
	"strings"
	"time"

	"croft.dev/croft/api/v1/codes"
)

// jobColumns is what the batch systems' formats may show of a job, by names of
// their own; the tables below say by which letters and words users know them.
var jobColumns = map[string]func(batchJob) string{
	"id":         func(j batchJob) string { return j.ID },
	"slurmid":    batchJob.slurmID,
	"number":     func(j batchJob) string { return otherwise(j.Number, j.ID) },
	"name":       func(j batchJob) string { return j.Name },
	"user":       func(j batchJob) string { return j.User },
	"account":    func(j batchJob) string { return j.Account },
	"partition":  func(j batchJob) string { return j.Spec.Partition },
	"qos":        func(j batchJob) string { return j.Spec.QoS },
	"state":      func(j batchJob) string { return j.state().long },
	"compact":    func(j batchJob) string { return j.state().short },
	"accounted":  func(j batchJob) string { return j.accounted().long },
	"status":     func(j batchJob) string { return j.state().crane },
	"type":       func(j batchJob) string { return j.kind() },
	"reason":     batchJob.reason,
	"where":      batchJob.where,
	"whereplain": func(j batchJob) string { return strings.Trim(j.where(), "()") },
	"node":       func(j batchJob) string { return nodesOf(&j.Job) },
	"accnode":    func(j batchJob) string { return otherwise(nodesOf(&j.Job), "None assigned") },
	"nodes":      func(j batchJob) string { return strconv.Itoa(j.nodes()) },
	"allocnodes": func(j batchJob) string { return truth(j.Node != "", strconv.Itoa(j.nodes()), "0") },
	"cpus":       batchJob.cpus,
	"alloccpus":  batchJob.allocCPUs,
	"craneCPUs":  func(j batchJob) string { return craneCPUs(string(j.Spec.CPU)) },
	"craneAlloc": func(j batchJob) string { return craneCPUs(truth(j.Node != "", string(j.Spec.CPU), "0")) },
	"mem":        func(j batchJob) string { return string(j.Spec.Mem) },
	"allocmem":   func(j batchJob) string { return truth(j.Node != "", string(j.Spec.Mem), "0") },
	"gres":       func(j batchJob) string { return j.gres("N/A") },
	"tres":       batchJob.tres,
	"alloctres":  func(j batchJob) string { return truth(j.Node != "", j.tres(), "") },
	"used":       func(j batchJob) string { return spanShort(j.elapsed()) },
	"elapsed":    func(j batchJob) string { return spanLong(j.elapsed()) },
	"craneUsed":  func(j batchJob) string { return truth(j.Started != nil, spanLong(j.elapsed()), "-") },
	"seconds":    func(j batchJob) string { return strconv.FormatInt(int64(j.elapsed()/time.Second), 10) },
	"cputime":    func(j batchJob) string { return spanLong(j.cpuTime()) },
	"cpuseconds": func(j batchJob) string { return strconv.FormatInt(int64(j.cpuTime()/time.Second), 10) },
	"limit": func(j batchJob) string {
		d, ok := j.limit()
		return limitText(d, ok, spanShort)
	},
	"limitlong": func(j batchJob) string {
		d, ok := j.limit()
		return limitText(d, ok, spanLong)
	},
	"limitminutes": func(j batchJob) string {
		d, ok := j.limit()
		return limitText(d, ok, func(d time.Duration) string { return strconv.FormatInt(int64(d/time.Minute), 10) })
	},
	"left":     func(j batchJob) string { return j.left() },
	"eligible": func(j batchJob) string { return j.stamp(j.Eligible, "Unknown") },
	"after":    func(j batchJob) string { return otherwise(j.Spec.After, "(null)") },
	"submit":   func(j batchJob) string { return j.stamp(&j.Submitted, "Unknown") },
	"start":    func(j batchJob) string { return j.stamp(j.start(), "N/A") },
	"end":      func(j batchJob) string { return j.stamp(j.end(), "N/A") },
	"started":  func(j batchJob) string { return j.stamp(j.Started, "Unknown") },
	"ended":    func(j batchJob) string { return j.stamp(j.Ended, "Unknown") },
	"exit":     batchJob.exitCode,
	"command":  func(j batchJob) string { return otherwise(commandOf(j.Job), "(null)") },
	"workdir":  func(j batchJob) string { return j.Spec.Workdir },
	"priority": func(j batchJob) string { return strconv.FormatInt(j.Spec.Priority, 10) },
	"held": func(j batchJob) string {
		return truth(strings.HasPrefix(j.Waits, string(codes.JobHeld)), "true", "false")
	},
	"restarts":  func(j batchJob) string { return strconv.Itoa(max(j.Attempt-1, 0)) },
	"none":      func(batchJob) string { return "" },
	"na":        func(batchJob) string { return "N/A" },
	"null":      func(batchJob) string { return "(null)" },
	"no":        func(batchJob) string { return "false" },
	"oversub":   func(batchJob) string { return "OK" },
	"cluster":   func(batchJob) string { return "croft" },
	"arrayTask": batchJob.arrayTask,
	"arrayJob":  func(j batchJob) string { job, _, _ := strings.Cut(j.ID, "_"); return job },
}

// arrayTask is an element's index, or those of an array that wait.
func (j batchJob) arrayTask() string {
	if _, index, ok := strings.Cut(j.ID, "_"); ok {
		return index
	}
	if j.Array != nil {
		return j.tasks()
	}
	return "N/A"
}

func (j batchJob) cpuTime() time.Duration {
	n, err := strconv.ParseInt(j.allocCPUs(), 10, 32)
	if err != nil {
		return 0
	}
	return j.elapsed() * time.Duration(n)
}

// left is the time until the limit.
func (j batchJob) left() string {
	d, ok := j.limit()
	return limitText(d-j.elapsed(), ok, spanShort)
}

// craneCPUs is CPUs with two decimals, as CraneSched writes them.
func craneCPUs(cpu string) string {
	whole, part, _ := strings.Cut(orZero(cpu), ".")
	return whole + "." + (part + "00")[:2]
}

func otherwise(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// columnsOf makes columns by letter out of "letter=name=HEAD" words.
func columnsOf(words string) map[string]column[batchJob] {
	out := map[string]column[batchJob]{}
	for word := range strings.FieldsSeq(words) {
		f := strings.SplitN(word, "=", 3)
		out[f[0]] = column[batchJob]{head: f[2], get: jobColumns[f[1]]}
	}
	return out
}

// squeueColumns are the letters of squeue's -o (squeue(1)).
func squeueColumns() map[string]column[batchJob] {
	return columnsOf(`A=number=JOBID i=slurmid=JOBID F=arrayJob=ARRAY_JOB_ID K=arrayTask=ARRAY_TASK_ID a=account=ACCOUNT B=accnode=EXEC_HOST
		b=gres=TRES_PER_NODE C=cpus=CPUS c=cpus=MIN_CPUS D=nodes=NODES d=none=MIN_TMP_DISK E=after=DEPENDENCY e=end=END_TIME
		f=null=FEATURES h=oversub=OVER_SUBSCRIBE j=name=NAME k=null=COMMENT l=limit=TIME_LIMIT L=left=TIME_LEFT m=mem=MIN_MEMORY
		M=used=TIME n=none=REQ_NODES N=node=NODELIST o=command=COMMAND p=priority=PRIORITY P=partition=PARTITION q=qos=QOS
		Q=priority=PRIORITY r=reason=REASON R=where=NODELIST(REASON) S=start=START_TIME t=compact=ST T=state=STATE u=user=USER
		v=null=RESERVATION V=submit=SUBMIT_TIME w=null=WCKEY x=none=EXC_NODES y=priority=NICE Z=workdir=WORK_DIR`)
}

// squeueWords are the names of squeue's -O, with the letter that means the same.
var squeueWords = map[string]string{
	"jobid": "A", "jobarrayid": "i", "arrayjobid": "F", "arraytaskid": "K", "account": "a", "batchhost": "B", "gres": "b",
	"tres-per-node": "b", "numcpus": "C", "mincpus": "c", "numnodes": "D", "dependency": "E", "endtime": "e", "feature": "f",
	"name": "j", "comment": "k", "timelimit": "l", "timeleft": "L", "minmemory": "m", "timeused": "M", "reqnodes": "n",
	"nodelist": "N", "command": "o", "priority": "p", "prioritylong": "Q", "partition": "P", "qos": "q", "reason": "r",
	"reasonlist": "R", "starttime": "S", "statecompact": "t", "state": "T", "username": "u", "reservation": "v",
	"submittime": "V", "workdir": "Z", "wckey": "w",
}

// cqueueColumns are the letters of cqueue's -o.
func cqueueColumns() map[string]column[batchJob] {
	return columnsOf(`a=account=ACCOUNT c=craneAlloc=ALLOCCPUS C=craneCPUs=REQCPUS e=craneUsed=TIME h=held=HELD j=id=JOBID k=none=COMMENT
		K=none=WCKEY l=limitlong=TIMELIMIT L=whereplain=NODELIST/REASON m=allocmem=ALLOCMEMPERNODE M=mem=REQMEMPERNODE n=name=NAME N=nodes=NODES
		o=command=COMMAND p=priority=PRIORITY P=partition=PARTITION q=qos=QOS Q=craneCPUs=REQCPUPERNODE r=none=REQNODES R=reason=REASON
		s=submit=SUBMITTIME S=start=STARTTIME t=status=STATUS T=type=TYPE u=user=USER x=none=EXCLUDENODES X=no=EXCLUSIVE`)
}

// craneWords are the long names of CraneSched's letters in cqueue.
var cqueueWords = map[string]string{
	"account": "a", "alloccpus": "c", "reqcpus": "C", "elapsedtime": "e", "held": "h", "jobid": "j", "comment": "k", "wckey": "K",
	"timelimit": "l", "nodelist": "L", "allocmempernode": "m", "reqmempernode": "M", "name": "n", "nodenum": "N", "command": "o",
	"priority": "p", "partition": "P", "qos": "q", "reqcpupernode": "Q", "reqnodes": "r", "reason": "R", "submittime": "s",
	"starttime": "S", "state": "t", "jobtype": "T", "user": "u", "excludenodes": "x", "exclusive": "X",
}

// cacctColumns are the letters of cacct's -o; some differ from cqueue's.
func cacctColumns() map[string]column[batchJob] {
	return columnsOf(`a=account=ACCOUNT c=craneAlloc=ALLOCCPUS C=craneCPUs=REQCPUS D=craneUsed=ELAPSEDTIME E=ended=ENDTIME e=exit=EXITCODE
		h=held=HELD j=id=JOBID k=none=COMMENT K=none=WCKEY l=limitlong=TIMELIMIT L=node=NODELIST m=allocmem=ALLOCMEMPERNODE
		M=mem=REQMEMPERNODE n=name=JOBNAME N=nodes=NODENUM P=partition=PARTITION p=priority=PRIORITY q=qos=QOS R=reason=REASON
		r=none=REQNODES S=started=STARTTIME s=submit=SUBMITTIME t=status=STATE T=type=JOBTYPE U=user=USERNAME x=none=EXCLUDENODES X=no=EXCLUSIVE`)
}

var cacctWords = map[string]string{
	"account": "a", "alloccpus": "c", "reqcpus": "C", "elapsedtime": "D", "endtime": "E", "exitcode": "e", "held": "h", "jobid": "j",
	"comment": "k", "wckey": "K", "timelimit": "l", "nodelist": "L", "allocmempernode": "m", "reqmempernode": "M", "jobname": "n",
	"nodenum": "N", "partition": "P", "priority": "p", "qos": "q", "reason": "R", "reqnodes": "r", "starttime": "S", "submittime": "s",
	"state": "t", "jobtype": "T", "username": "U", "excludenodes": "x", "exclusive": "X",
}

// sacctField is a field of sacct with its usual width; a negative one is flush left.
type sacctField struct {
	name, column string
	width        int
}

// sacctFields are those that Croft knows, in the order of sacct --helpformat.
var sacctFields = []sacctField{
	{"Account", "account", 10}, {"AllocCPUS", "alloccpus", 10}, {"AllocNodes", "allocnodes", 10}, {"AllocTRES", "alloctres", 10},
	{"AveRSS", "none", 10}, {"Cluster", "cluster", 10}, {"Comment", "none", 14}, {"CPUTime", "cputime", 10}, {"CPUTimeRAW", "cpuseconds", 10},
	{"DerivedExitCode", "exit", 15}, {"Elapsed", "elapsed", 10}, {"ElapsedRaw", "seconds", 10}, {"Eligible", "eligible", 19},
	{"End", "ended", 19}, {"ExitCode", "exit", 8}, {"JobID", "slurmid", -12}, {"JobIDRaw", "number", -12}, {"JobName", "name", 10},
	{"MaxRSS", "none", 10}, {"MaxVMSize", "none", 10}, {"NCPUS", "cpus", 10}, {"NNodes", "nodes", 8}, {"NodeList", "accnode", 15},
	{"NTasks", "none", 8}, {"Partition", "partition", 10}, {"Priority", "priority", 10}, {"QOS", "qos", 10}, {"Reason", "reason", 22},
	{"ReqCPUS", "cpus", 8}, {"ReqMem", "mem", 10}, {"ReqNodes", "nodes", 8}, {"ReqTRES", "tres", 10}, {"Restarts", "restarts", 8},
	{"Start", "started", 19}, {"State", "accounted", 10}, {"Submit", "submit", 19}, {"Timelimit", "limitlong", 10},
	{"TimelimitRaw", "limitminutes", 12}, {"TotalCPU", "none", 10}, {"User", "user", 9}, {"WorkDir", "workdir", 22},
}
