package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	v1 "croft.dev/croft/api/v1"
)

func (a *app) scancelCmd() *cobra.Command {
	var s jobSelection
	var signal string
	var quiet bool
	cmd := a.batchCmd(&cobra.Command{
		Use:   "scancel [flags] [JOB…]",
		Short: "Stop jobs, as Slurm's scancel does",
		Long: `Stop jobs, as Slurm's scancel does: SIGTERM, and SIGKILL when the grace period is
over. Without a job's number at least one flag must choose; a job must fit all that
are given. 118.2 is that step alone. Signals other than TERM and KILL aren't passed on.`,
		Example: `  scancel 118
  scancel --me -t PENDING
  scancel -s KILL -n train`,
		ValidArgsFunction: a.jobIDs("live"),
		RunE: func(cmd *cobra.Command, args []string) error {
			req := v1.StopRequest{}
			switch name := strings.TrimPrefix(strings.ToUpper(signal), "SIG"); name {
			case "", "TERM", "15":
			case "KILL", "9":
				req.Now = true
			default:
				return usage("--signal %s: only TERM and KILL can be sent; a job that wants another before its time limit asks for it at submission", signal)
			}
			_, err := a.stopChosen(cmd, &s, args, req, nil)
			if quiet && err != nil {
				return exitStatus(1)
			}
			return err
		},
	})
	slurmFlags(cmd, "")
	fs := cmd.Flags()
	fs.StringSliceVarP(&s.names, "name", "n", nil, "jobs with these names")
	fs.StringSliceVar(&s.names, "jobname", nil, "")
	fs.StringSliceVarP(&s.users, "user", "u", nil, "jobs of these users")
	fs.StringSliceVarP(&s.accounts, "account", "A", nil, "jobs of these accounts")
	fs.StringSliceVarP(&s.partitions, "partition", "p", nil, "jobs in these partitions")
	fs.StringSliceVarP(&s.qos, "qos", "q", nil, "jobs of these QoS")
	fs.StringSliceVarP(&s.states, "state", "t", nil, "jobs in these states: PENDING, RUNNING, SUSPENDED")
	fs.StringSliceVarP(&s.nodes, "nodelist", "w", nil, "jobs on these nodes")
	fs.BoolVar(&s.me, "me", false, "your jobs")
	fs.StringVarP(&signal, "signal", "s", "", "KILL: at once, without grace")
	fs.BoolVarP(&quiet, "quiet", "Q", false, "say nothing of jobs that couldn't be stopped")
	fs.Lookup("jobname").Hidden = true
	ignored(fs, "batch", "b", "full", "f", "ctld", "", "hurry", "H")
	a.completeJobs(cmd, "", "user", "account", "partition")
	return cmd
}

func (a *app) ccancelCmd() *cobra.Command {
	var s jobSelection
	cmd := a.batchCmd(&cobra.Command{
		Use:   "ccancel [flags] [JOB[,JOB…]]",
		Short: "Stop jobs, as CraneSched's ccancel does",
		Long: `Stop jobs, as CraneSched's ccancel does: SIGTERM, and SIGKILL when the grace period
is over. Without a job's number at least one flag must choose; a job must fit all
that are given. 118.2 is that step alone.`,
		Example: `  ccancel 118,119
  ccancel -u ada -t pending`,
		ValidArgsFunction: a.jobIDs("live"),
		RunE: func(cmd *cobra.Command, args []string) error {
			stopped, err := a.stopChosen(cmd, &s, args, v1.StopRequest{}, func(step v1.Step) {
				if a.output != "json" {
					fmt.Fprintf(a.env.Stdout, "Step %s cancelled successfully.\n", clean(step.ID))
				}
			})
			if len(stopped) > 0 {
				page := v1.Page[v1.Job]{Items: stopped}
				if perr := a.print(page, func(w io.Writer) {
					for _, j := range stopped {
						fmt.Fprintf(w, "Job %s cancelled successfully.\n", clean(j.ID))
					}
				}); perr != nil {
					return perr
				}
			}
			return err
		},
	})
	craneFlags(cmd)
	s.craneFlags(cmd, "", "", "pending (p), running (r) or all")
	a.completeJobs(cmd, "", "user", "account", "partition")
	return cmd
}

// stopChosen stops the steps and jobs that arguments and flags choose; told, if there, is
// called for each step.
func (a *app) stopChosen(cmd *cobra.Command, s *jobSelection, args []string, req v1.StopRequest, told func(v1.Step)) ([]v1.Job, error) {
	steps, jobs := stepsAmong(strings.FieldsFunc(strings.Join(args, ","), func(r rune) bool { return r == ',' || r == ' ' }))
	stopped, err := a.stopSteps(cmd.Context(), steps, req.Now)
	for _, step := range stopped {
		if told != nil {
			told(step)
		}
	}
	if len(jobs) == 0 && len(steps) > 0 {
		return nil, err
	}
	ids, cerr := a.chosen(cmd, s, jobs)
	if cerr != nil {
		return nil, errors.Join(err, cerr)
	}
	ended, jerr := a.stopEach(cmd, ids, req)
	return ended, errors.Join(err, jerr)
}

// chosen returns the ids of the jobs that arguments and flags choose. Numbers alone
// aren't looked up first: to stop what isn't there is an error.
func (a *app) chosen(cmd *cobra.Command, s *jobSelection, args []string) ([]string, error) {
	s.ids = args
	flags := len(s.names)+len(s.users)+len(s.accounts)+len(s.partitions)+len(s.qos)+len(s.states)+len(s.nodes) > 0 || s.me
	switch {
	case !flags && len(args) == 0:
		return nil, usage("which jobs? give their numbers, or choose with a flag such as --name or --user")
	case !flags:
		return strings.Split(jobNumbers(args), ","), nil
	}
	s.me = s.me || len(s.users) == 0 && len(args) == 0
	q, _, err := s.query("live")
	if err != nil {
		return nil, err
	}
	if q.State == "all" {
		q.State = "live"
	}
	if strings.Contains(q.State, "ended") {
		return nil, usage("jobs that have ended can't be stopped: choose pending or running ones")
	}
	jobs, err := a.batchJobs(cmd.Context(), q, nil, 0)
	var ids []string
	for _, j := range jobs {
		ids = append(ids, j.ID)
	}
	return slices.Clip(ids), err
}

func (a *app) stopEach(cmd *cobra.Command, ids []string, req v1.StopRequest) ([]v1.Job, error) {
	c, err := a.client()
	if err != nil {
		return nil, err
	}
	var stopped []v1.Job
	err = a.eachJob(ids, func(id string) error {
		job, err := c.Stop(cmd.Context(), id, req)
		if err == nil {
			stopped = append(stopped, *job)
		}
		return err
	})
	return stopped, err
}
