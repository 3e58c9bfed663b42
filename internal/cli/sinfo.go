package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	v1 "croft.dev/croft/api/v1"
)

// nodeGroup is nodes of a partition that are shown in one line.
type nodeGroup struct {
	partition v1.Partition
	state     string // as Slurm's short form; "" when all states are in one line
	nodes     []v1.Node
}

// nodeState is a node's state as Slurm's short form.
func nodeState(n v1.Node) string {
	used, full, most := 0, 0, len(n.Devices)
	for _, d := range n.Devices {
		if d.State == "used" || d.State == "foreign" {
			used++
			if d.Used == "" || d.Used == "1" {
				full++
			}
		}
	}
	busy := orZero(string(n.CPU.Used)) != "0" || used > 0
	switch {
	case n.State == "down":
		return "down"
	case n.State == "drained" && busy:
		return "drng"
	case n.State == "drained":
		return "drain"
	case n.CPU.Used == n.CPU.Total || most > 0 && full == most:
		return "alloc"
	case busy:
		return "mix"
	}
	return "idle"
}

// nodeStates are the long forms.
var nodeStates = map[string]string{
	"down": "down", "drng": "draining", "drain": "drained", "alloc": "allocated", "mix": "mixed", "idle": "idle",
}

// nodeQuery is what the flags of sinfo and cinfo choose.
type nodeQuery struct {
	partitions, nodes, states []string
	up, dead, summary, each   bool
	reasons                   bool
}

// groups are the lines: nodes by partition and state.
func (a *app) groups(ctx context.Context, o nodeQuery) ([]nodeGroup, error) {
	c, err := a.client()
	if err != nil {
		return nil, err
	}
	names, err := expandHosts(words(o.nodes))
	if err != nil {
		return nil, err
	}
	nodes := map[string]v1.Node{}
	for n, err := range c.Nodes(ctx) {
		if err != nil {
			return nil, err
		}
		if (len(names) == 0 || slices.Contains(names, n.Name)) && o.wants(nodeState(n)) && (!o.reasons || n.Reason != "") {
			nodes[n.Name] = n
		}
	}
	out := []nodeGroup{}
	for p, err := range c.Partitions(ctx) {
		if err != nil {
			return nil, err
		}
		if only := words(o.partitions); only != "" && !slices.Contains(strings.Split(only, ","), p.Name) {
			continue
		}
		out = append(out, o.split(p, nodes)...)
	}
	return out, nil
}

// split groups a partition's nodes.
func (o nodeQuery) split(p v1.Partition, all map[string]v1.Node) []nodeGroup {
	var out []nodeGroup
	members := slices.Clone(p.Nodes)
	slices.SortFunc(members, natural)
	for _, name := range members {
		n, ok := all[name]
		if !ok {
			continue
		}
		state := nodeState(n)
		if o.summary {
			state = ""
		}
		i := slices.IndexFunc(out, func(g nodeGroup) bool {
			return g.state == state && !o.each && (!o.reasons || g.nodes[0].Reason == n.Reason)
		})
		if i < 0 {
			i = len(out)
			out = append(out, nodeGroup{partition: p, state: state})
		}
		out[i].nodes = append(out[i].nodes, n)
	}
	if len(out) == 0 && len(p.Nodes) == 0 && len(o.nodes) == 0 && len(o.states) == 0 && !o.reasons {
		out = append(out, nodeGroup{partition: p, state: "n/a"})
	}
	return out
}

func (o nodeQuery) wants(state string) bool {
	if o.up && state == "down" || o.dead && state != "down" {
		return false
	}
	list := words(o.states)
	if list == "" || strings.EqualFold(list, "all") {
		return true
	}
	return slices.ContainsFunc(strings.Split(list, ","), func(s string) bool {
		s = strings.ToLower(s)
		return s == state || s == nodeStates[state] || s == "mixed" && state == "mix" || s == "draining" && state == "drain" || s == "drain" && state == "drng" ||
			s == "responding" && state != "down"
	})
}

func (g nodeGroup) names() string {
	var list []string
	for _, n := range g.nodes {
		list = append(list, n.Name)
	}
	return foldHosts(list)
}

// count is "allocated/idle/other/total" nodes, as sinfo's %F.
func (g nodeGroup) count(only bool) string {
	var alloc, idle, other int
	for _, n := range g.nodes {
		switch nodeState(n) {
		case "alloc", "mix", "drng":
			alloc++
		case "idle":
			idle++
		default:
			other++
		}
	}
	if only {
		return fmt.Sprintf("%d/%d", alloc, idle)
	}
	return fmt.Sprintf("%d/%d/%d/%d", alloc, idle, other, len(g.nodes))
}

// cpuStates is "allocated/idle/other/total" CPUs, as sinfo's %C.
func (g nodeGroup) cpuStates() string {
	var alloc, idle, other, total int64
	for _, n := range g.nodes {
		used, _ := strconv.ParseInt(wholeCPUs(string(n.CPU.Used)), 10, 64)  // what isn't a number counts nothing
		most, _ := strconv.ParseInt(wholeCPUs(string(n.CPU.Total)), 10, 64) // likewise
		alloc, total = alloc+used, total+most
		if s := nodeState(n); s == "down" || s == "drain" {
			other += most - used
		} else {
			idle += most - used
		}
	}
	return fmt.Sprintf("%d/%d/%d/%d", alloc, idle, other, total)
}

// same is the one value of all nodes, or the first with a plus when they differ.
func (g nodeGroup) same(get func(v1.Node) string) string {
	if len(g.nodes) == 0 {
		return ""
	}
	first := get(g.nodes[0])
	for _, n := range g.nodes[1:] {
		if get(n) != first {
			return first + "+"
		}
	}
	return first
}

// gres is the devices, as "gpu:a100:8".
func nodeGres(n v1.Node) string {
	var models []string
	for _, d := range n.Devices {
		models = append(models, d.Model)
	}
	slices.Sort(models)
	var parts []string
	for len(models) > 0 {
		k := 1
		for k < len(models) && models[k] == models[0] {
			k++
		}
		parts = append(parts, fmt.Sprintf("gpu:%s:%d", models[0], k))
		models = models[k:]
	}
	return otherwise(strings.Join(parts, ","), "(null)")
}

func (g nodeGroup) timeLimit() string {
	d, ok := quantitySpan(string(g.partition.MaxTime))
	return strings.ToLower(strings.Replace(limitText(d, ok, spanShort), "UNLIMITED", "infinite", 1))
}

func (g nodeGroup) starred() string { return g.partition.Name + truth(g.partition.Default, "*", "") }

// sinfoColumns are the letters of sinfo's -o (sinfo(1)).
func sinfoColumns() map[string]column[nodeGroup] {
	name := func(g nodeGroup) string { return g.partition.Name }
	long := func(g nodeGroup) string { return otherwise(nodeStates[g.state], g.state) }
	return map[string]column[nodeGroup]{
		"a": {"AVAIL", func(nodeGroup) string { return "up" }},
		"A": {"NODES(A/I)", func(g nodeGroup) string { return g.count(true) }},
		"c": {"CPUS", func(g nodeGroup) string {
			return g.same(func(n v1.Node) string { return wholeCPUs(string(n.CPU.Total)) })
		}},
		"C": {"CPUS(A/I/O/T)", nodeGroup.cpuStates},
		"D": {"NODES", func(g nodeGroup) string { return strconv.Itoa(len(g.nodes)) }},
		"E": {"REASON", func(g nodeGroup) string {
			return otherwise(g.same(func(n v1.Node) string { return n.Reason }), "none")
		}},
		"f": {"AVAIL_FEATURES", func(g nodeGroup) string { return g.same(nodeFeatures) }},
		"b": {"ACTIVE_FEATURES", func(g nodeGroup) string { return g.same(nodeFeatures) }},
		"F": {"NODES(A/I/O/T)", func(g nodeGroup) string { return g.count(false) }},
		"G": {"GRES", func(g nodeGroup) string { return g.same(nodeGres) }},
		"h": {"OVERSUBSCRIBE", func(nodeGroup) string { return "NO" }},
		"H": {"TIMESTAMP", func(nodeGroup) string { return "Unknown" }},
		"l": {"TIMELIMIT", nodeGroup.timeLimit},
		"m": {"MEMORY", func(g nodeGroup) string { return g.same(func(n v1.Node) string { return string(n.Mem.Total) }) }},
		"n": {"HOSTNAMES", nodeGroup.names},
		"N": {"NODELIST", nodeGroup.names},
		"P": {"PARTITION", nodeGroup.starred},
		"R": {"PARTITION", name},
		"s": {"JOB_SIZE", func(nodeGroup) string { return "1" }},
		"t": {"STATE", func(g nodeGroup) string { return g.state }},
		"T": {"STATE", long},
		"u": {"USER", func(nodeGroup) string { return "Unknown" }},
	}
}

func nodeFeatures(n v1.Node) string {
	var list []string
	for k, v := range n.Labels {
		list = append(list, otherwise(strings.TrimSuffix(k+"="+v, "="), k))
	}
	slices.Sort(list)
	return otherwise(strings.Join(list, ","), "(null)")
}

func (a *app) sinfoCmd() *cobra.Command {
	var q nodeQuery
	var text string
	var noheader, wide bool
	var every uint
	cmd := a.batchCmd(&cobra.Command{
		Use:   "sinfo [flags]",
		Short: "List partitions and nodes, as Slurm's sinfo does",
		Long: `List partitions with their nodes by state, as Slurm's sinfo does. The devices one
by one, with who has them: croft node ls.`,
		Example: `  sinfo
  sinfo -N -l
  sinfo -h -p gpu -t idle -o "%n %G"`,
		Args: needArgs(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			usual := "%9P %.5a %.10l %.6D %.6t %N"
			switch {
			case q.reasons:
				usual = "%20E %.9u %.19H %N"
			case q.summary:
				usual = "%9P %.5a %.10l %.16F %N"
			case q.each && wide:
				usual = "%N %.6D %.9P %.11T %.4c %.8m %15f %20E"
			case q.each:
				usual = "%N %.6D %.9P %6t"
			case wide:
				usual = "%9P %.5a %.10l %.8s %.13h %.6D %.11T %N"
			}
			parts, err := parsePercent(otherwise(text, usual), byLetter(sinfoColumns()))
			if err != nil {
				return err
			}
			f := format[nodeGroup]{parts: parts, exact: true, aligned: q.each && text == ""}
			return a.repeat(cmd.Context(), every, func() error { return a.printGroups(cmd, q, f, noheader) })
		},
	})
	slurmFlags(cmd, "")
	fs := cmd.Flags()
	fs.StringSliceVarP(&q.partitions, "partition", "p", nil, "only these partitions")
	fs.StringSliceVarP(&q.nodes, "nodes", "n", nil, "only these nodes, such as gpu[1-3]")
	fs.StringSliceVarP(&q.states, "states", "t", nil, "only nodes in these states: idle, mix, alloc, drain, down")
	fs.BoolVarP(&q.up, "responding", "r", false, "only nodes that answer")
	fs.BoolVarP(&q.dead, "dead", "d", false, "only nodes that don't answer")
	fs.BoolVarP(&q.summary, "summarize", "s", false, "one line a partition")
	fs.BoolVarP(&q.each, "Node", "N", false, "one line a node")
	fs.BoolVarP(&q.reasons, "list-reasons", "R", false, "why nodes are out of use")
	fs.StringVarP(&text, "format", "o", "", "columns, as \"%P %D %t\"")
	fs.BoolVarP(&noheader, "noheader", "h", false, "no line of headings")
	fs.BoolVarP(&wide, "long", "l", false, "more columns")
	fs.UintVarP(&every, "iterate", "i", 0, "again every so many seconds")
	ignored(fs, "all", "a", "exact", "e", "noconvert", "")
	a.completeFlag(cmd, "partition", a.partitionNames)
	a.completeFlag(cmd, "nodes", a.nodeNames)
	return cmd
}

func (a *app) printGroups(cmd *cobra.Command, q nodeQuery, f format[nodeGroup], noheader bool) error {
	groups, err := a.groups(cmd.Context(), q)
	if err != nil {
		return err
	}
	page := v1.Page[v1.Node]{Items: []v1.Node{}}
	for _, g := range groups {
		for _, n := range g.nodes {
			if !slices.ContainsFunc(page.Items, func(m v1.Node) bool { return m.Name == n.Name }) {
				page.Items = append(page.Items, n)
			}
		}
	}
	return a.print(page, func(w io.Writer) { f.write(w, groups, !noheader) })
}

// cinfoColumns are the letters of cinfo's -o.
func cinfoColumns() map[string]column[nodeGroup] {
	s := sinfoColumns()
	return map[string]column[nodeGroup]{
		"p": {"PARTITION", nodeGroup.starred}, "a": s["a"], "n": s["D"], "s": s["t"], "l": s["N"], "t": s["l"], "r": s["E"],
	}
}

var cinfoWords = map[string]string{"partition": "p", "avail": "a", "nodes": "n", "state": "s", "nodelist": "l", "timelimit": "t", "reason": "r"}

func (a *app) cinfoCmd() *cobra.Command {
	var q nodeQuery
	var text string
	var noheader bool
	var every uint
	cmd := a.batchCmd(&cobra.Command{
		Use:   "cinfo [flags]",
		Short: "List partitions and nodes, as CraneSched's cinfo does",
		Long: `List partitions with their nodes by state, as CraneSched's cinfo does. The devices
one by one, with who has them: croft node ls.`,
		Example: `  cinfo
  cinfo -p gpu -t idle,mix
  cinfo -N -o "%partition %.6nodes %s"`,
		Args: needArgs(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			parts, err := parsePercent(otherwise(text, truth(q.reasons, "%r %l", "%p %a %t %n %s %l")), byWord(cinfoColumns(), cinfoWords))
			if err != nil {
				return err
			}
			f := format[nodeGroup]{parts: parts, aligned: true}
			return a.repeat(cmd.Context(), every, func() error { return a.printGroups(cmd, q, f, noheader) })
		},
	})
	craneFlags(cmd)
	fs := cmd.Flags()
	fs.StringSliceVarP(&q.partitions, "partition", "p", nil, "only these partitions")
	fs.StringSliceVarP(&q.nodes, "nodes", "n", nil, "only these nodes, such as gpu[1-3]")
	fs.StringSliceVarP(&q.states, "states", "t", nil, "only nodes in these states: idle, mix, alloc, down")
	fs.BoolVarP(&q.up, "responding", "r", false, "only nodes that answer")
	fs.BoolVarP(&q.dead, "dead", "d", false, "only nodes that don't answer")
	fs.BoolVarP(&q.reasons, "list-reasons", "R", false, "why nodes are out of use")
	fs.StringVarP(&text, "format", "o", "", "columns, as \"%p %.6n %State\"")
	fs.BoolVarP(&noheader, "noheader", "N", false, "no line of headings")
	fs.UintVarP(&every, "iterate", "i", 0, "again every so many seconds")
	a.completeFlag(cmd, "partition", a.partitionNames)
	a.completeFlag(cmd, "nodes", a.nodeNames)
	return cmd
}
