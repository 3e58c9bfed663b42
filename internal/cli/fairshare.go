package cli

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	v1 "croft.dev/croft/api/v1"
)

func (a *app) fairshareCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "fairshare [ACCOUNT|USER]",
		Short: "Who has had how much of his share",
		Long: `Who has had how much of his share of the machine, and who is next by that. Each line is
an account, or a user in one: its weight and use beside its siblings', how many times
its share that use is, and its rank among all users. What you may not see is left out,
and is counted.`,
		Example: `  croft fairshare
  croft fairshare nlp
  croft fairshare ada`,
		Args: needArgs(0, 1, "ACCOUNT or USER"),
		ValidArgsFunction: firstArg(func(cmd *cobra.Command, args []string, part string) ([]cobra.Completion, cobra.ShellCompDirective) {
			accounts, directive := a.accountNames(cmd, args, part)
			users, _ := a.userNames(cmd, args, part)
			return append(accounts, users...), directive
		}),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			got, err := c.FairShare(cmd.Context(), strings.Join(args, ""))
			if err != nil {
				return err
			}
			return a.print(got, func(w io.Writer) { a.writeFairShare(w, got) })
		},
	}
}

func (a *app) writeFairShare(w io.Writer, s *v1.FairShare) {
	fading := "use counts for ever"
	if s.HalfLife != "" {
		fading = "use counts half after " + clean(string(s.HalfLife))
	}
	fmt.Fprintf(w, "%s, the first gets %s points, %s\n", plural(int(s.Places), "place"), grouped(s.Points), fading)
	if len(s.Nodes) == 0 {
		return
	}
	fmt.Fprintln(w)
	t := newTable("~NAME", ">WEIGHT", ">SHARE", ">USE", ">USED", ">TIMES", ">RANK", ">POINTS")
	for _, n := range s.Nodes {
		name, points := n.Account, ""
		if n.User != "" {
			name, points = n.User, strconv.FormatInt(n.Points, 10)
		}
		t.row(strings.Repeat("  ", n.Depth)+name, strconv.FormatInt(n.Weight, 10), n.Share+"%", n.Use, n.Used+"%", n.Times+"×", strconv.FormatInt(n.Rank, 10), points)
	}
	t.write(w, a.width(), a.paintState)
}

func (a *app) prioritizeCmd() *cobra.Command {
	var reset bool
	cmd := &cobra.Command{
		Use:   "prioritize JOB [POINTS]",
		Short: "Fix a job's priority",
		Long: `Fix a job's priority: it has these points from now on, however long it waits and
whatever its user uses. --clear lets it follow from the job again. It is for
operators; users give --priority when they submit.`,
		Example: `  croft prioritize 131 5000
  croft prioritize 131 -- -100
  croft prioritize 131 --clear`,
		Args:              needArgs(1, 2, "JOB and POINTS"),
		ValidArgsFunction: firstArg(a.jobIDs("live")),
		RunE: func(cmd *cobra.Command, args []string) error {
			req := v1.PriorityRequest{Clear: reset}
			if reset == (len(args) == 2) {
				return usage("give either POINTS or --clear")
			}
			if len(args) == 2 {
				n, err := strconv.ParseInt(args[1], 10, 64)
				if err != nil {
					return usage("POINTS must be a whole number, not %q", args[1])
				}
				req.Points = &n
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			job, err := c.Prioritize(cmd.Context(), args[0], req)
			if err != nil {
				return err
			}
			return a.print(job, func(w io.Writer) {
				if reset {
					fmt.Fprintf(w, "%s: its priority follows from the job again\n", clean(job.ID))
					return
				}
				fmt.Fprintf(w, "%s: priority fixed at %s\n", clean(job.ID), grouped(*req.Points))
			})
		},
	}
	cmd.Flags().BoolVar(&reset, "clear", false, "let the priority follow from the job again")
	return cmd
}
