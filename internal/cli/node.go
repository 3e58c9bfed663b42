package cli

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	v1 "croft.dev/croft/api/v1"
)

func (a *app) nodeCmd() *cobra.Command {
	return group("node", "Nodes, their devices and maintenance", `  croft node ls
  croft node drain gpu1 --reason "new driver"
  croft node maintenance add gpu1 --from 2027-01-04 --to 2027-01-04`,
		a.nodeLsCmd(), a.nodeLabelCmd(), a.nodeDrainCmd(), a.nodeResumeCmd(),
		group("maintenance", "Maintenance windows: nothing runs in them", `  croft node maintenance ls
  croft node maintenance add '*' --from "2027-01-04 08:00" --for 4h`,
			a.maintenanceAddCmd(), a.maintenanceLsCmd(), a.maintenanceRmCmd()))
}

func (a *app) nodeLsCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "ls",
		Short: "List nodes with their devices and who uses them",
		Example: `  croft node ls
  croft node ls -o json`,
		Args: needArgs(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			list, err := v1.Collect(c.Nodes(cmd.Context()))
			if err != nil {
				return err
			}
			t := newTable("~NODE", "~DEVICE", "~MODEL", ">MEMORY", "STATE", "JOB", "~USER", "~NOTE")
			for _, n := range list {
				a.nodeRows(t, n)
			}
			return printList(a, list, "no nodes", t)
		},
	}
}

// nodeRows is a row for a node and one for each of its devices.
func (a *app) nodeRows(t *table, n v1.Node) {
	notes := []string{used(n.CPU, "cpu"), used(n.Mem, "mem")}
	if n.Reason != "" {
		notes = append([]string{n.Reason}, notes...)
	}
	for _, m := range n.Maintenance {
		notes = append(notes, "maintenance "+a.clock(m.From)+"–"+a.clock(m.To))
	}
	for _, k := range slices.Sorted(maps.Keys(n.Labels)) {
		if n.Labels[k] == "" {
			notes = append(notes, k)
		}
	}
	t.row(n.Name, "", "", "", n.State, "", "", strings.Join(notes, ", "))
	for _, d := range n.Devices {
		t.row("", d.Name, d.Model, string(d.Memory), d.State, d.Job, d.User, d.Reason)
		for _, s := range d.Shares {
			t.row("", "", "", "", string(s.GPU), s.Job, s.User, "")
		}
	}
}

// used is "8 of 64 cpu".
func used(u v1.Use, unit string) string {
	return string(u.Used) + " of " + string(u.Total) + " " + unit
}

func (a *app) nodeDrainCmd() *cobra.Command {
	var req v1.DrainRequest
	cmd := &cobra.Command{
		Use:               "drain NODE",
		Short:             "Start nothing new on a node; what runs goes on",
		Example:           `  croft node drain gpu1 --reason "new driver"`,
		Args:              needArgs(1, 1, "NODE"),
		ValidArgsFunction: firstArg(a.nodeNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			n, err := c.Drain(cmd.Context(), args[0], req)
			if err != nil {
				return err
			}
			return a.printNode(n)
		},
	}
	cmd.Flags().StringVar(&req.Reason, "reason", "", "why, for those who wait")
	return cmd
}

func (a *app) nodeResumeCmd() *cobra.Command {
	return &cobra.Command{
		Use:               "resume NODE",
		Short:             "Use a drained node again",
		Example:           "  croft node resume gpu1",
		Args:              needArgs(1, 1, "NODE"),
		ValidArgsFunction: firstArg(a.nodeNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			n, err := c.Resume(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return a.printNode(n)
		},
	}
}

func (a *app) nodeLabelCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "label NODE LABEL…",
		Short: "Give a node labels, which jobs choose nodes by",
		Long: `Give a node labels, as NAME or NAME=VALUE; NAME- takes one away. Jobs choose nodes by
them with --constraint. What runs on the node goes on. Without labels, those that it
has are shown.`,
		Example: `  croft node label gpu1 nvlink zone=a
  croft node label gpu1 zone-
  croft node label gpu1`,
		Args:              needArgs(1, -1, "NODE LABEL…"),
		ValidArgsFunction: firstArg(a.nodeNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			if len(args) == 1 {
				return a.showLabels(cmd.Context(), c, args[0])
			}
			n, err := c.LabelNode(cmd.Context(), args[0], parseLabels(args[1:]))
			if err != nil {
				return err
			}
			return a.printLabels(n)
		},
	}
}

func (a *app) showLabels(ctx context.Context, c *v1.Client, name string) error {
	for n, err := range c.Nodes(ctx) {
		if err != nil {
			return err
		}
		if n.Name == name {
			return a.printLabels(&n)
		}
	}
	return usage("no such node: %s", name)
}

func (a *app) printLabels(n *v1.Node) error {
	return a.print(n, func(w io.Writer) {
		for _, k := range slices.Sorted(maps.Keys(n.Labels)) {
			fmt.Fprintf(w, "%s%s\n", clean(k), before("=", clean(n.Labels[k])))
		}
	})
}

// parseLabels reads NAME, NAME=VALUE and NAME-.
func parseLabels(words []string) v1.NodeLabels {
	var req v1.NodeLabels
	for _, word := range words {
		k, v, valued := strings.Cut(word, "=")
		if name, gone := strings.CutSuffix(word, "-"); gone && !valued {
			req.Remove = append(req.Remove, name)
			continue
		}
		if req.Set == nil {
			req.Set = map[string]string{}
		}
		req.Set[k] = v
	}
	return req
}

func (a *app) printNode(n *v1.Node) error {
	return a.print(n, func(w io.Writer) {
		fmt.Fprintf(w, "%s %s%s\n", clean(n.Name), clean(n.State), before(": ", clean(n.Reason)))
	})
}

func (a *app) maintenanceAddCmd() *cobra.Command {
	var m v1.Maintenance
	var from, to, length string
	cmd := &cobra.Command{
		Use:   "add NODE",
		Short: "Plan a maintenance window; * is every node",
		Long: `Plan a maintenance window: no job starts that could still run in it. A date alone
is from its first to its last moment.`,
		Example: `  croft node maintenance add gpu1 --from "2027-01-04 08:00" --for 4h --reason "new driver"
  croft node maintenance add '*' --from 2027-01-04 --to 2027-01-05`,
		Args:              needArgs(1, 1, "NODE"),
		ValidArgsFunction: firstArg(a.nodeNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			m.Node = args[0]
			if err := a.between(&m, from, to, length); err != nil {
				return err
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			got, err := c.AddMaintenance(cmd.Context(), m)
			if err != nil {
				return err
			}
			return a.print(got, func(w io.Writer) {
				fmt.Fprintf(w, "maintenance %s of %s: %s to %s\n", clean(got.ID), clean(got.Node), a.clock(got.From), a.clock(got.To))
			})
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&from, "from", "now", "when it begins")
	fs.StringVar(&to, "to", "", "when it ends")
	fs.StringVar(&length, "for", "", "how long it is, instead of --to")
	fs.StringVar(&m.Reason, "reason", "", "why, for those who wait")
	return cmd
}

// between sets a window from the flags --from, --to and --for.
func (a *app) between(m *v1.Maintenance, from, to, length string) error {
	var err error
	if m.From, err = a.parseWhen(from, startOfDay); err != nil {
		return err
	}
	switch {
	case (to == "") == (length == ""):
		return usage("until when? either --to or --for")
	case to != "":
		m.To, err = a.parseWhen(to, endOfDay)
	default:
		d, bad := parseSpan(length)
		m.To, err = m.From.Add(d), bad
	}
	if err == nil && !m.To.After(m.From) {
		err = usage("the window ends before it begins")
	}
	return err
}

func (a *app) maintenanceLsCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "ls",
		Short:   "List maintenance windows",
		Example: "  croft node maintenance ls",
		Args:    needArgs(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			list, err := v1.Collect(c.Maintenances(cmd.Context()))
			if err != nil {
				return err
			}
			t := newTable("ID", "~NODE", "FROM", "TO", "~REASON")
			for _, m := range list {
				t.row(m.ID, m.Node, a.clock(m.From), a.clock(m.To), m.Reason)
			}
			return printList(a, list, "no maintenance is planned", t)
		},
	}
}

func (a *app) maintenanceRmCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "rm ID",
		Short:   "Remove a maintenance window",
		Example: "  croft node maintenance rm 2",
		Args:    needArgs(1, 1, "ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			if err := c.RemoveMaintenance(cmd.Context(), args[0]); err != nil {
				return err
			}
			return a.done("maintenance %s is removed", args[0])
		},
	}
}
