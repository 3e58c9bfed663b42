package run

import (
	"maps"
	"math"
	"math/bits"
	"strconv"
	"strings"

	"croft.dev/croft/internal/catalog"
	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/quantity"
	"croft.dev/croft/internal/workload"
)

// environment is what Croft tells the program.
func environment(j *workload.Job, a engine.Allocation, s engine.Step) map[string]string {
	var names, uuids []string
	for _, d := range s.Devices {
		names, uuids = append(names, d.Name), append(uuids, d.UUID)
	}
	env := map[string]string{
		"CROFT_JOB_ID":       strconv.FormatInt(int64(j.ID), 10),
		"CROFT_JOB_NAME":     j.Spec.Name,
		"CROFT_ATTEMPT":      strconv.Itoa(a.N),
		"CROFT_STEP_ID":      strconv.Itoa(s.N),
		"CROFT_ACCOUNT":      a.Account,
		"CROFT_PARTITION":    j.Spec.Partition,
		"CROFT_QOS":          j.Spec.QoS,
		"CROFT_NODE":         a.Node,
		"CROFT_CPUS":         quantity.FormatCPU(s.CPU),
		"CROFT_MEM":          strconv.FormatInt(s.Memory, 10),
		"CROFT_TIME_LIMIT":   strconv.FormatInt(j.Spec.Time/1e9, 10),
		"CROFT_DEVICES":      strings.Join(names, ","),
		"CROFT_DEVICE_UUIDS": strings.Join(uuids, ","),
		"OMP_NUM_THREADS":    strconv.FormatInt(max(s.CPU/1000, 1), 10),
	}
	if len(uuids) > 0 {
		if n := memoryOfEach(s.Devices, a.Part); n > 0 {
			env["CROFT_GPU_MEMORY"] = strconv.FormatInt(n, 10)
		}
		n := catalog.Counted(j.Attempt.Models) / int64(1+len(j.Attempt.Others))
		if len(s.Devices) < len(a.Devices) {
			n = int64(len(s.Devices)) * quantity.Device
		}
		env["CROFT_GPU"] = quantity.FormatDevices(n)
		env["CUDA_VISIBLE_DEVICES"] = strings.Join(uuids, ",")
	}
	if s.Host && len(uuids) == 0 {
		env["CUDA_VISIBLE_DEVICES"] = "" // it could see them, and open none
	}
	maps.Copy(env, ofCrane(j, a, s))
	maps.Copy(env, rendezvous(j, len(s.Devices), s.Host || j.Spec.Pod.HostNetwork))
	if a.Gang != nil {
		maps.Copy(env, ofGang(j, *a.Gang))
	}
	return env
}

// ofGang is which of several machines it is on, and where the first is: by the names that
// PyTorch's launchers take from their environment, and by CraneSched's.
func ofGang(j *workload.Job, g engine.Gang) map[string]string {
	rank, size := strconv.Itoa(g.Rank), strconv.Itoa(g.Size)
	nodes := strings.Join(j.Attempt.Nodes(), ",")
	return map[string]string{
		"CROFT_RANK": rank, "CROFT_RANKS": size, "CROFT_NODES": nodes,
		"RANK": rank, "WORLD_SIZE": size, "NODE_RANK": rank, "NNODES": size, "PET_NODE_RANK": rank, "PET_NNODES": size,
		"MASTER_ADDR": g.Host(0), "PET_MASTER_ADDR": g.Host(0), "PET_MASTER_PORT": strconv.Itoa(meetingPort),
		"CRANE_JOB_NODELIST": nodes, "CRANE_JOB_NUM_NODES": size, "CRANE_NODEID": rank, "CRANE_NTASKS": size,
	}
}

// rendezvous is where the processes of a distributed program meet, by the names that
// PyTorch's launchers gave these variables. Which process it is, is told where that is
// certain: with several devices it's for a launcher in the job, and a library that finds
// half of what a launcher sets waits for processes that nobody starts.
func rendezvous(j *workload.Job, devices int, onMachine bool) map[string]string {
	port := int64(meetingPort)
	if onMachine {
		port += int64(j.ID) % meetingPorts // others are in the same network
	}
	env := map[string]string{"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": strconv.FormatInt(port, 10)}
	if devices <= 1 {
		env["RANK"], env["LOCAL_RANK"], env["WORLD_SIZE"] = "0", "0", "1"
	}
	return env
}

// The port at which launchers meet by default, and how many from it on are used in the
// machine's network.
const (
	meetingPort  = 29500
	meetingPorts = 1000
)

// ofCrane says the same by the names that CraneSched has for it, in its units: memory in
// MiB, time as H:M:S and in seconds since 1970.
func ofCrane(j *workload.Job, a engine.Allocation, s engine.Step) map[string]string {
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	cores := max((a.CPU+999)/1000, 1)
	sec := j.Spec.Time / 1e9
	return map[string]string{
		"CRANE_JOB_ID": number(int64(j.ID)), "CRANE_JOB_NAME": j.Spec.Name, "CRANE_JOB_ACCOUNT": a.Account,
		"CRANE_JOB_PARTITION": j.Spec.Partition, "CRANE_JOB_QOS": j.Spec.QoS,
		"CRANE_JOB_NODELIST": a.Node, "CRANE_JOB_NUM_NODES": "1", "CRANE_JOB_END_TIME": number(j.Attempt.Until / 1e9),
		"CRANE_STEP_ID": strconv.Itoa(s.N), "CRANE_NODEID": "0", "CRANE_NTASKS": "1", "CRANE_NTASKS_PER_NODE": "1",
		"CRANE_CPUS_PER_TASK": number(max((s.CPU+999)/1000, 1)), "CRANE_CPUS_ON_NODE": number(cores),
		"CRANE_MEM_PER_NODE": number(a.Memory >> 20), "CRANE_MEM_PER_CPU": number(a.Memory >> 20 / cores),
		"CRANE_GPUS": strconv.Itoa(len(s.Devices)), "CRANE_CLUSTER_NAME": clusterName,
		"CRANE_TIMELIMIT": number(sec/3600) + ":" + twoDigits(sec/60%60) + ":" + twoDigits(sec%60),
	}
}

// clusterName is what batch systems' names for it say.
const clusterName = "croft"

func twoDigits(n int64) string {
	if n < 10 {
		return "0" + strconv.FormatInt(n, 10)
	}
	return strconv.FormatInt(n, 10)
}

// memoryOfEach is how much of each device's memory is the job's, in bytes: its part's
// worth, of the device that has least; 0 if that isn't known.
func memoryOfEach(devices []engine.Device, part int64) int64 {
	least := int64(math.MaxInt64)
	for _, d := range devices {
		least = min(least, d.Memory)
	}
	if part == 0 {
		return least
	}
	hi, lo := bits.Mul64(uint64(least), uint64(part))
	n, _ := bits.Div64(hi, lo, uint64(quantity.Device))
	return int64(n)
}

// ofArray is what an element is told of its array, in Slurm's words too.
func ofArray(all workload.Elements, e *workload.Job) map[string]string {
	least, most := all[0].First, all[0].Last
	for _, r := range all {
		least, most = min(least, r.First), max(most, r.Last)
	}
	step := int64(1)
	if len(all) == 1 {
		step = all[0].Step
	}
	env := map[string]string{}
	for name, n := range map[string]int64{
		"ARRAY_ID": int64(e.Of), "ARRAY_INDEX": e.Index, "ARRAY_COUNT": all.Len(), "ARRAY_MIN": least, "ARRAY_MAX": most, "ARRAY_STEP": step,
	} {
		env["CROFT_"+name] = strconv.FormatInt(n, 10)
	}
	for name, croft := range map[string]string{"JOB_ID": "ID", "TASK_ID": "INDEX", "TASK_COUNT": "COUNT", "TASK_MIN": "MIN", "TASK_MAX": "MAX", "TASK_STEP": "STEP"} {
		env["SLURM_ARRAY_"+name] = env["CROFT_ARRAY_"+croft]
	}
	env["CRANE_ARRAY_JOB_ID"], env["CRANE_ARRAY_TASK_ID"] = env["CROFT_ARRAY_ID"], env["CROFT_ARRAY_INDEX"]
	return env
}
