package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
)

// record is one thing as scontrol and ccontrol show it: lines of words "Key=value".
type record [][]string

// line adds a line of pairs of a key and a value.
func (r *record) line(pairs ...string) {
	var words []string
	for i := 0; i+1 < len(pairs); i += 2 {
		words = append(words, pairs[i]+"="+clean(pairs[i+1]))
	}
	*r = append(*r, words)
}

// writeRecords writes records with an empty line after each, or each in one line.
func writeRecords(w io.Writer, records []record, oneLine bool) {
	for _, r := range records {
		lines := make([]string, len(r))
		for i, words := range r {
			lines[i] = strings.Join(words, " ")
		}
		if oneLine {
			fmt.Fprintln(w, strings.Join(lines, " "))
		} else {
			fmt.Fprintf(w, "%s\n\n", strings.Join(lines, "\n   "))
		}
	}
}

// showThing prints what "show WHAT [NAME]" asks for.
func (a *app) showThing(ctx context.Context, args []string, oneLine bool) error {
	if len(args) == 0 {
		return usage("show what? job, node, partition or reservation")
	}
	what, name, extra := strings.ToLower(args[0]), "", args[1:]
	if len(extra) > 0 {
		name, extra = extra[0], extra[1:]
	}
	if len(extra) > 0 {
		return usage("show %s takes one name", what)
	}
	c, err := a.client()
	if err != nil {
		return err
	}
	switch strings.TrimSuffix(what, "s") {
	case "job":
		jobs, err := a.jobsToShow(ctx, c, name)
		if err != nil {
			return err
		}
		return a.print(wireJobs(jobs), func(w io.Writer) { writeRecords(w, recordsOf(jobs, jobRecord), oneLine) })
	case "node":
		nodes, err := nodesToShow(ctx, c, name)
		if err != nil {
			return err
		}
		return a.print(v1.Page[v1.Node]{Items: nodes}, func(w io.Writer) { writeRecords(w, recordsOf(nodes, nodeRecord), oneLine) })
	case "partition":
		list, err := partitionsToShow(ctx, c, name)
		if err != nil {
			return err
		}
		nodes, err := nodesToShow(ctx, c, "")
		if err != nil {
			return err
		}
		show := func(p v1.Partition) record { return partitionRecord(p, nodes) }
		return a.print(v1.Page[v1.Partition]{Items: list}, func(w io.Writer) { writeRecords(w, recordsOf(list, show), oneLine) })
	case "reservation", "re":
		list, err := reservationsToShow(ctx, c, name)
		if err != nil {
			return err
		}
		return a.print(v1.Page[v1.Reservation]{Items: list}, func(w io.Writer) { writeRecords(w, recordsOf(list, a.reservationRecord), oneLine) })
	}
	return usage("show %s: only job, node, partition and reservation can be shown here", args[0])
}

func recordsOf[T any](list []T, one func(T) record) []record {
	var out []record
	for _, x := range list {
		out = append(out, one(x))
	}
	return out
}

// jobsToShow is one job, ended or not, or all that haven't ended.
func (a *app) jobsToShow(ctx context.Context, c *v1.Client, id string) ([]batchJob, error) {
	if id == "" {
		return a.batchJobs(ctx, v1.JobQuery{User: "*", State: "live", Limit: v1.MaxPage}, nil, 0)
	}
	job, err := c.Job(ctx, jobNumbers([]string{id}))
	if err != nil {
		return nil, err
	}
	return []batchJob{{*job, a.env.Now(), a.env.Zone}}, nil
}

// nodesToShow are the nodes of a list such as gpu[1-3], or all.
func nodesToShow(ctx context.Context, c *v1.Client, list string) ([]v1.Node, error) {
	names, err := expandHosts(list)
	if err != nil {
		return nil, err
	}
	nodes, err := v1.Collect(c.Nodes(ctx))
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if !slices.ContainsFunc(nodes, func(n v1.Node) bool { return n.Name == name }) {
			return nil, notHere("node", name)
		}
	}
	return slices.DeleteFunc(nodes, func(n v1.Node) bool { return len(names) > 0 && !slices.Contains(names, n.Name) }), nil
}

func notHere(what, name string) error {
	return &v1.Problem{Code: string(codes.NotFound), Detail: "no such " + what + ": " + name}
}

func partitionsToShow(ctx context.Context, c *v1.Client, name string) ([]v1.Partition, error) {
	if name == "" {
		return v1.Collect(c.Partitions(ctx))
	}
	p, err := c.Partition(ctx, name)
	if err != nil {
		return nil, err
	}
	return []v1.Partition{*p}, nil
}

// jobRecord is what scontrol shows of a job (scontrol(1)).
func jobRecord(j batchJob) record {
	get := func(name string) string { return jobColumns[name](j) }
	var r record
	r.line("JobId", j.ID, "JobName", j.Name)
	r.line("UserId", j.User, "Account", j.Account, "QOS", j.Spec.QoS)
	r.line("JobState", get("state"), "Reason", get("reason"), "Dependency", get("after"))
	r.line("Requeue", truth(strings.Join(j.Spec.Requeue, "") == "never", "0", "1"), "Restarts", get("restarts"), "BatchFlag", "1", "ExitCode", get("exit"))
	r.line("RunTime", get("elapsed"), "TimeLimit", get("limitlong"))
	r.line("SubmitTime", get("submit"), "EligibleTime", get("eligible"))
	r.line("StartTime", get("start"), "EndTime", get("end"), "Deadline", otherwise(j.Spec.Deadline, "N/A"))
	r.line("Partition", j.Spec.Partition, "NodeList", otherwise(nodesOf(&j.Job), "(null)"))
	r.line("NumNodes", get("nodes"), "NumCPUs", get("cpus"), "NumTasks", "1", "CPUs/Task", get("cpus"), "ReqTRES", get("tres"))
	r.line("Features", otherwise(j.Spec.Constraint, "(null)"))
	r.line("Command", get("command"), "WorkDir", otherwise(j.Spec.Workdir, "(null)"))
	return r
}

// nodeRecord is what scontrol shows of a node.
func nodeRecord(n v1.Node) record {
	group := nodeGroup{nodes: []v1.Node{n}}
	var r record
	r.line("NodeName", n.Name, "NodeHostName", n.Name)
	r.line("CPUAlloc", wholeCPUs(string(n.CPU.Used)), "CPUTot", wholeCPUs(string(n.CPU.Total)))
	r.line("AvailableFeatures", nodeFeatures(n), "ActiveFeatures", nodeFeatures(n))
	r.line("Gres", nodeGres(n), "GresUsed", "gpu:"+usedDevices(n))
	r.line("RealMemory", megabytes(string(n.Mem.Total)), "AllocMem", megabytes(string(n.Mem.Used)))
	r.line("State", strings.ToUpper(otherwise(nodeStates[nodeState(n)], nodeState(n))), "Partitions", strings.Join(n.Partitions, ","))
	r.line("CfgTRES", "cpu="+wholeCPUs(string(n.CPU.Total))+",mem="+string(n.Mem.Total)+",gres/gpu="+strconv.Itoa(len(n.Devices)))
	r.line("Reason", otherwise(group.same(func(n v1.Node) string { return n.Reason }), "(null)"))
	return r
}

// usedDevices is how many devices are used, and parts of devices.
func usedDevices(n v1.Node) string {
	milli := int64(0)
	for _, d := range n.Devices {
		if d.State != "used" && d.State != "foreign" {
			continue
		}
		whole, part, _ := strings.Cut(otherwise(string(d.Used), "1"), ".")
		k, err := strconv.ParseInt(whole+(part + "000")[:3], 10, 64)
		if err != nil {
			k = 1000
		}
		milli += k
	}
	text := strconv.FormatInt(milli/1000, 10)
	if part := milli % 1000; part > 0 {
		text += "." + strings.TrimRight(fmt.Sprintf("%03d", part), "0")
	}
	return text
}

// partitionRecord is what scontrol shows of a partition.
func partitionRecord(p v1.Partition, all []v1.Node) record {
	var cpus int64
	for _, n := range all {
		if slices.Contains(p.Nodes, n.Name) {
			k, _ := strconv.ParseInt(wholeCPUs(string(n.CPU.Total)), 10, 64) // what isn't a number counts nothing
			cpus += k
		}
	}
	span := func(q v1.Quantity, none string) string {
		if d, ok := quantitySpan(string(q)); ok && d > 0 {
			return spanLong(d)
		}
		return none
	}
	list := func(names []string, none string) string { return otherwise(strings.Join(names, ","), none) }
	var r record
	r.line("PartitionName", p.Name)
	r.line("AllowAccounts", list(p.Accounts, truth(p.Restricted, "(null)", "ALL")), "DenyAccounts", list(p.Deny, "(null)"), "AllowQos", list(p.QoS, "ALL"))
	r.line("Default", truth(p.Default, "YES", "NO"), "DefaultTime", span(p.DefaultTime, "NONE"), "MaxTime", span(p.MaxTime, "UNLIMITED"))
	r.line("Nodes", otherwise(foldHosts(p.Nodes), "(null)"), "PriorityJobFactor", strconv.FormatInt(p.Priority, 10))
	r.line("State", "UP", "TotalCPUs", strconv.FormatInt(cpus, 10), "TotalNodes", strconv.Itoa(len(p.Nodes)))
	return r
}

// megabytes is memory in whole MiB, as scontrol writes it; what isn't a size stays.
func megabytes(s string) string {
	n, err := slurmMegabytes(s)
	if err != nil {
		return orZero(s)
	}
	return strconv.FormatInt(n, 10)
}

// setting is "Key=value" of an update.
type setting struct{ key, value string }

// pairs reads pairs, written as "key=value" or as two words: of the keys only
// those that are known, whatever their case.
func pairs(words []string, known ...string) ([]setting, error) {
	var out []setting
	for i := 0; i < len(words); i++ {
		if words[i] == "set" || words[i] == "where" {
			continue
		}
		key, value, ok := strings.Cut(words[i], "=")
		if !ok {
			if i++; i == len(words) {
				return nil, usage("%s: want %s=VALUE", key, key)
			}
			value = words[i]
		}
		if strings.HasSuffix(key, "+") || strings.HasSuffix(key, "-") {
			return nil, usage("%s=: values are set as a whole here, by %s=VALUE", key, strings.TrimRight(key, "+-"))
		}
		at := slices.IndexFunc(known, func(k string) bool { return strings.EqualFold(k, key) })
		if at < 0 {
			return nil, usage("%s can't be given here; what can: %s", key, strings.Join(known, ", "))
		}
		out = append(out, setting{known[at], value})
	}
	return out, nil
}
