package cli

import (
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	v1 "croft.dev/croft/api/v1"
)

func (a *app) partitionCmd() *cobra.Command {
	return group("partition", "Partitions: named sets of nodes, and who may use them", `  croft partition ls
  croft partition add teaching --nodes gpu1,gpu2 --accounts courses
  croft partition set teaching --max-time 4h`,
		a.partitionAddCmd(), a.partitionSetCmd(), a.partitionLsCmd(), a.partitionShowCmd(), a.partitionRmCmd())
}

// partitionFlags are the flags of add and set. A flag that isn't given changes
// nothing.
type partitionFlags struct {
	fs                         *pflag.FlagSet
	priority                   int64
	maxTime, defTime           string
	nodes, accounts, deny, qos []string
	share                      bool
}

func (a *app) partitionFlags(cmd *cobra.Command) *partitionFlags {
	f := &partitionFlags{fs: cmd.Flags()}
	f.fs.StringSliceVar(&f.nodes, "nodes", nil, `its nodes; "" is every node`)
	f.fs.StringVar(&f.maxTime, "max-time", "", "longest run; 0 is any")
	f.fs.StringVar(&f.defTime, "default-time", "", "of a job that names no time; 0 is the site's")
	f.fs.Int64Var(&f.priority, "priority", 0, "added to the priority of its jobs")
	f.fs.StringSliceVar(&f.accounts, "accounts", nil, `only these and those below them may use it; "" is all`)
	f.fs.StringSliceVar(&f.deny, "deny", nil, `these and those below them may not use it; "" is none`)
	f.fs.StringSliceVar(&f.qos, "qos", nil, `what its jobs may have; "" is any`)
	f.fs.BoolVar(&f.share, "share-devices", false, "its jobs may have parts of devices (--gpu 0.5)")
	a.completeFlag(cmd, "nodes", a.nodeNames)
	a.completeFlag(cmd, "accounts", a.accountNames)
	a.completeFlag(cmd, "deny", a.accountNames)
	a.completeFlag(cmd, "qos", a.qosNames)
	return f
}

func (f *partitionFlags) patch() v1.PartitionPatch {
	return v1.PartitionPatch{
		Nodes: listed(f.fs, "nodes", f.nodes), MaxTime: spanFlag(f.fs, "max-time", f.maxTime), DefaultTime: spanFlag(f.fs, "default-time", f.defTime),
		Priority: given(f.fs, "priority", f.priority), Accounts: listed(f.fs, "accounts", f.accounts),
		Deny: listed(f.fs, "deny", f.deny), QoS: listed(f.fs, "qos", f.qos), ShareDevices: given(f.fs, "share-devices", f.share),
	}
}

func (a *app) partitionAddCmd() *cobra.Command {
	var f *partitionFlags
	cmd := &cobra.Command{
		Use:   "add NAME",
		Short: "Make a partition",
		Long: `Make a partition. It has every node and is for everybody, unless the flags say
otherwise. Partitions may have nodes in common.`,
		Example: `  croft partition add teaching --nodes gpu1,gpu2 --accounts courses --max-time 4h
  croft partition add spare --priority -100 --qos idle`,
		Args: needArgs(1, 1, "NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			p, err := c.AddPartition(cmd.Context(), v1.NewPartition{Name: args[0], PartitionPatch: f.patch()})
			if err != nil {
				return err
			}
			return a.print(p, func(w io.Writer) { writePartition(w, p) })
		},
	}
	f = a.partitionFlags(cmd)
	return cmd
}

func (a *app) partitionSetCmd() *cobra.Command {
	var f *partitionFlags
	cmd := &cobra.Command{
		Use:   "set NAME",
		Short: "Change a partition",
		Long: `Change a partition; what isn't named stays. What runs goes on where it is. Of a
partition in the server's configuration, that says the nodes and times; the rest is
changed here.`,
		Example: `  croft partition set main --deny guests
  croft partition set teaching --nodes gpu1`,
		Args:              needArgs(1, 1, "NAME"),
		ValidArgsFunction: firstArg(a.partitionNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			patch := f.patch()
			if patch == (v1.PartitionPatch{}) {
				return usage("change what? e.g. --nodes gpu1, --accounts nlp or --max-time 4h")
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			p, err := c.SetPartition(cmd.Context(), args[0], patch)
			if err != nil {
				return err
			}
			return a.print(p, func(w io.Writer) { writePartition(w, p) })
		},
	}
	f = a.partitionFlags(cmd)
	return cmd
}

func (a *app) partitionLsCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "ls",
		Short:   "List partitions",
		Example: "  croft partition ls",
		Args:    needArgs(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			list, err := v1.Collect(c.Partitions(cmd.Context()))
			if err != nil {
				return err
			}
			t := newTable("~NAME", "~NODES", ">MAX", ">DEFAULT", ">PRIORITY", "~FOR", "~NOTE")
			for _, p := range list {
				t.row(p.Name, strings.Join(p.Nodes, " "), string(p.MaxTime), string(p.DefaultTime), strconv.FormatInt(p.Priority, 10),
					usable(p.Restricted, p.Accounts), origin(p.Default, p.Configured))
			}
			return printList(a, list, "no partitions", t)
		},
	}
}

func (a *app) partitionShowCmd() *cobra.Command {
	return &cobra.Command{
		Use:               "show NAME",
		Short:             "Show a partition",
		Example:           "  croft partition show main",
		Args:              needArgs(1, 1, "NAME"),
		ValidArgsFunction: firstArg(a.partitionNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			p, err := c.Partition(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return a.print(p, func(w io.Writer) { writePartition(w, p) })
		},
	}
}

func writePartition(w io.Writer, p *v1.Partition) {
	block(w,
		"partition", p.Name,
		"note", origin(p.Default, p.Configured),
		"nodes", strings.Join(p.Nodes, " "),
		"longest", string(p.MaxTime),
		"default", string(p.DefaultTime),
		"priority", strconv.FormatInt(p.Priority, 10),
		"for", usable(p.Restricted, p.Accounts),
		"not for", strings.Join(p.Deny, " "),
		"qos", strings.Join(p.QoS, " "),
		"devices", map[bool]string{true: "shared: jobs may have parts"}[p.ShareDevices],
	)
}

func (a *app) partitionRmCmd() *cobra.Command {
	return &cobra.Command{
		Use:               "rm NAME",
		Short:             "Remove a partition that nothing uses; its nodes stay",
		Example:           "  croft partition rm teaching",
		Args:              needArgs(1, 1, "NAME"),
		ValidArgsFunction: firstArg(a.partitionNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			if err := c.RemovePartition(cmd.Context(), args[0]); err != nil {
				return err
			}
			return a.done("partition %s is removed", args[0])
		},
	}
}
