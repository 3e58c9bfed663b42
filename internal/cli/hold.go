package cli

import (
	"github.com/spf13/cobra"

	v1 "croft.dev/croft/api/v1"
)

func (a *app) holdCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "hold JOB…",
		Short: "Keep waiting jobs from starting",
		Long: `Keep waiting jobs from starting until they are released. A held job keeps its
deposit and the age that it has, and gets no older. What an operator holds of
somebody else's, only operators release.`,
		Example: `  croft hold 118
  croft hold 118 119`,
		Args:              needArgs(1, -1, "JOB"),
		ValidArgsFunction: a.jobIDs("live"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.controlled(args, func(c *v1.Client, id string) (*v1.Job, error) { return c.Hold(cmd.Context(), id) }, a.printStates)
		},
	}
}

func (a *app) releaseCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "release JOB…",
		Short: "Let held jobs start",
		Example: `  croft release 118
  croft release 118 119`,
		Args:              needArgs(1, -1, "JOB"),
		ValidArgsFunction: a.jobIDs("live"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.controlled(args, func(c *v1.Client, id string) (*v1.Job, error) { return c.Release(cmd.Context(), id) }, a.printStates)
		},
	}
}

func (a *app) requeueCmd() *cobra.Command {
	var req v1.RequeueRequest
	cmd := &cobra.Command{
		Use:   "requeue JOB…",
		Short: "Stop running jobs and queue them again",
		Long: `Stop running jobs, by SIGTERM and after their grace by SIGKILL, and queue them
again under their numbers. What the attempt cost is yours, unless an operator does
it to somebody else's job: then it is given back. A job goes through it five times
at most, or as often as its max_requeues says.`,
		Example: `  croft requeue 118
  croft requeue --hold 118`,
		Args:              needArgs(1, -1, "JOB"),
		ValidArgsFunction: a.jobIDs("live"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.controlled(args, func(c *v1.Client, id string) (*v1.Job, error) { return c.Requeue(cmd.Context(), id, req) }, a.printStates)
		},
	}
	cmd.Flags().BoolVar(&req.Hold, "hold", false, "hold them then")
	return cmd
}

// controlled does something to jobs, one after the other, and shows what they are
// then.
func (a *app) controlled(ids []string, do func(c *v1.Client, id string) (*v1.Job, error), show func([]v1.Job) error) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	jobs := []v1.Job{}
	failed := a.eachJob(ids, func(id string) error {
		job, err := do(c, id)
		if err == nil {
			jobs = append(jobs, *job)
		}
		return err
	})
	if err := show(jobs); err != nil {
		return err
	}
	return failed
}
