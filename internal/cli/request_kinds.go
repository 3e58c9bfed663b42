package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
)

func (a *app) extendCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "extend JOB TIME",
		Short: "Give a running job a longer time limit",
		Long: `Give a running job a longer time limit: TIME is what it has from its start on. What the longer time
costs is set aside at once. It may be more than the partition and the QoS allow, and is for operators;
others ask for it: croft request wall. The job must be able to stay where it is: what is reserved or
to be maintained meanwhile is in the way.`,
		Example: `  croft extend 118 36h
  croft extend 40_3 2d`,
		Args:              needArgs(2, 2, "JOB and TIME"),
		ValidArgsFunction: firstArg(a.jobIDs("live")),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			job, err := c.Extend(cmd.Context(), args[0], v1.ExtendRequest{Time: v1.Quantity(args[1])})
			if v1.CodeOf(err) == codes.Denied {
				a.tell("others than operators ask for it: croft request wall %s %s", clean(args[0]), clean(args[1]))
			}
			if err != nil {
				return err
			}
			return a.print(job, func(w io.Writer) {
				fmt.Fprintf(w, "%s: time limit of %s\n", clean(job.ID), clean(string(job.Spec.Time)))
			})
		},
	}
}

func (a *app) requestWallCmd() *cobra.Command {
	var x asking
	cmd := &cobra.Command{
		Use:   "wall JOB TIME",
		Short: "Ask for a longer time limit of a running job",
		Long: `Ask for a longer time limit of a running job: TIME is what it has from its start on, and may be more
than the partition and the QoS allow. An operator decides; what the longer time costs is set aside then.`,
		Example: `  croft request wall 118 36h -m "it converges more slowly than the last one"
  croft request wall 40_3 2d`,
		Args:              needArgs(2, 2, "JOB and TIME"),
		ValidArgsFunction: firstArg(a.jobIDs("live")),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.ask(cmd.Context(), v1.RequestWish{Wall: &v1.WallWish{Job: args[0], Time: v1.Quantity(args[1])}}, x)
		},
	}
	x.flags(cmd)
	return cmd
}

func (a *app) requestReservationCmd() *cobra.Command {
	var r reservationFlags
	var x asking
	cmd := &cobra.Command{
		Use:   "reservation NAME",
		Short: "Ask for a reservation",
		Long: `Ask for a reservation, as croft reservation add makes it: for accounts that you are a member of, for
yourself, or for others of the account that pays. An operator decides. What isn't free now is refused
at once.`,
		Example: `  croft request reservation ml24 -A course --from 09:00 --for 2h --count 40 --gpu 1
  croft request reservation demo --user ada --payer nlp --for 1h --gpu 2 -m "for the visitors"`,
		Args: needArgs(1, 1, "NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			r.Name = args[0]
			if err := a.reservationTimes(&r); err != nil {
				return err
			}
			return a.ask(cmd.Context(), v1.RequestWish{Reservation: &r.NewReservation}, x)
		},
	}
	a.reservationFlags(cmd, &r)
	x.flags(cmd)
	return cmd
}

func (a *app) requestAssetCmd() *cobra.Command {
	var in v1.AssetWish
	var x asking
	cmd := &cobra.Command{
		Use:   "asset ACCOUNT",
		Short: "Ask for the use of an image or a folder, for an account",
		Long: `Ask for the use of somebody's saved image, or of another account's folder, for the members of an
account of yours. Who has the image decides; of a folder, which jobs of the account can then read, an
operator. What you can't see you ask for by its name; whether there is such shows when somebody answers.`,
		Example: `  croft request asset nlp --image croft.local/ben/env:v2
  croft request asset nlp --folder imagenet --of vision -m "for the comparison"`,
		Args:              needArgs(1, 1, "ACCOUNT"),
		ValidArgsFunction: firstArg(a.accountNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			if (in.Image == "") == (in.Folder == "") {
				return usage("the use of what? either --image or --folder")
			}
			in.Account = args[0]
			return a.ask(cmd.Context(), v1.RequestWish{Asset: &in}, x)
		},
	}
	cmd.Flags().StringVar(&in.Image, "image", "", "a saved image, as croft.local/USER/`NAME`:TAG")
	cmd.Flags().StringVar(&in.Folder, "folder", "", "a folder of another account, by its `NAME`")
	cmd.Flags().StringVar(&in.Owner, "of", "", "the `ACCOUNT` that has the folder")
	x.flags(cmd)
	return cmd
}
