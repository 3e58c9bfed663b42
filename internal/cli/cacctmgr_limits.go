package cli

import (
	"slices"
	"strconv"
	"strings"
)

// limitKey is a key of a QoS that sets limits (sacctmgr(1), and CraneSched's names).
type limitKey struct {
	names    []string
	resource string // that it bounds; with TRES, the prefix of those that its value names
	tres     bool
	each     bool // user
}

func qosLimitKeys() []limitKey {
	return []limitKey{
		{names: []string{"MaxTRESPU", "MaxTRESPerUser", "MaxTresPerUser"}, tres: true, each: true},
		{names: []string{"MaxTRESPJ", "MaxTRESPerJob", "MaxTRES"}, resource: "job.", tres: true},
		{names: []string{"GrpTRES"}, tres: true},
		{names: []string{"MaxCpusPerUser"}, resource: "cpu", each: true},
		{names: []string{"MaxJobsPU", "MaxJobsPerUser"}, resource: "running", each: true},
		{names: []string{"MaxSubmitJobsPU", "MaxSubmitJobsPerUser"}, resource: "submitted", each: true},
		{names: []string{"GrpJobs"}, resource: "running"},
		{names: []string{"GrpSubmitJobs"}, resource: "submitted"},
	}
}

func limitKeys() []string {
	var out []string
	for _, k := range qosLimitKeys() {
		for _, name := range k.names {
			if !slices.ContainsFunc(out, func(o string) bool { return strings.EqualFold(o, name) }) {
				out = append(out, name)
			}
		}
	}
	return out
}

// qosLimits are the limits of a QoS that keys set.
func qosLimits(qos string, got map[string]string) ([][]string, error) {
	var lines [][]string
	for _, k := range qosLimitKeys() {
		for _, name := range k.names {
			value, given := got[name]
			if !given {
				continue
			}
			amounts := []amount{{k.resource, value}}
			if k.tres {
				var err error
				if amounts, err = tresAmounts(name, k.resource, value); err != nil {
					return nil, err
				}
			}
			for _, a := range amounts {
				line, err := limitLine(name, qos, a, k.each)
				if err != nil {
					return nil, err
				}
				lines = append(lines, line)
			}
		}
	}
	return lines, nil
}

type amount struct{ resource, max string }

func limitLine(key, qos string, a amount, each bool) ([]string, error) {
	line := []string{"limit", "set", a.resource, a.max, "--qos", qos}
	if a.max == "-1" { // as in sacctmgr(1)
		line = []string{"limit", "rm", a.resource, "--qos", qos}
	} else if !strings.HasSuffix(a.resource, "mem") {
		if _, err := strconv.ParseUint(a.max, 10, 32); err != nil {
			return nil, usage("%s=%s: want a whole number, or -1 to take the limit away", key, a.max)
		}
	}
	if each {
		line = append(line, "--user", "*")
	}
	return line, nil
}

// tresAmounts reads "cpu=8,mem=64G,gres/gpu=2,gres/gpu:a100=1".
func tresAmounts(key, prefix, value string) ([]amount, error) {
	var out []amount
	for word := range strings.SplitSeq(value, ",") {
		name, most, ok := strings.Cut(word, "=")
		resource := strings.TrimPrefix(strings.ToLower(name), "gres/")
		switch {
		case !ok:
			return nil, usage("%s: %q: want amounts such as cpu=8,mem=64G,gres/gpu=2", key, word)
		case resource == "mem" && !strings.HasPrefix(most, "-"):
			n, err := slurmMegabytes(most)
			if err != nil {
				return nil, err
			}
			most = strconv.FormatInt(n, 10) + "M"
		case strings.HasPrefix(resource, "gpu:"):
			resource = "gpu:" + name[strings.Index(name, ":")+1:]
		case resource != "cpu" && resource != "gpu" && resource != "mem":
			return nil, usage("%s: %s isn't bounded here; what is: cpu, mem, gres/gpu and gres/gpu:MODEL", key, name)
		}
		out = append(out, amount{prefix + resource, most})
	}
	return out, nil
}
