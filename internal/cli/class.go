package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	v1 "croft.dev/croft/api/v1"
)

func (a *app) classCmd() *cobra.Command {
	return group("class", "Classes: places set aside for a course, for as long as it meets", `  croft class open ml24 --at 09:00 --for 2h --seats 40
  croft class ls
  croft class close ml24`,
		a.classOpenCmd(), a.classLsCmd(), a.classShowCmd(), a.classCloseCmd())
}

func (a *app) classOpenCmd() *cobra.Command {
	r := reservationFlags{NewReservation: v1.NewReservation{Join: true}}
	cmd := &cobra.Command{
		Use:   "open ACCOUNT",
		Short: "Set places aside for a course",
		Long: `Set a place aside for each of a course's people, for as long as it meets. A class is a
reservation: nobody else's jobs get what it has, it is refused, with the jobs in the way,
if not all of it is free, and what nobody uses is paid by the account.

Its people need no flag: what they submit for the account while the class meets runs in
it if it fits a place, one job each and, with no time given, until shortly before the
end. Whatever doesn't fit, and what says --reservation none, waits with everybody else's.
Images are fetched half an hour before, so that all can start at once.`,
		Example: `  croft class open ml24 --at 09:00 --for 2h --seats 40 --image train:1
  croft class open ml24 --at 14:00 --for 90m --seats 25 --every mon,wed --until 2027-03-31
  croft class open ml24 --for 1h --seats 12 --gpu 0 -c 2 --mem 4G --dry-run`,
		Args:              needArgs(1, 1, "ACCOUNT"),
		ValidArgsFunction: firstArg(a.accountNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			r.Accounts = args
			if r.Name == "" {
				r.Name = args[0]
			}
			if r.Count < 1 {
				return usage("how many seats? --seats 40")
			}
			if err := a.reservationTimes(&r); err != nil {
				return err
			}
			return a.reserve(cmd, r.NewReservation)
		},
	}
	fs := cmd.Flags()
	fs.Int64Var(&r.Count, "seats", 0, "places, each for one job")
	fs.StringVar((*string)(&r.GPU), "gpu", "1", "accelerators of each place")
	fs.StringVar(&r.Model, "model", "", "their model, or any of several: 'a100|h100'")
	fs.StringVarP((*string)(&r.CPU), "cpu", "c", "", "CPU cores of each place")
	fs.StringVar((*string)(&r.Mem), "mem", "", "memory of each place")
	fs.StringVarP(&r.Where, "constraint", "C", "", "labels that its nodes must have: 'nvlink&!old'")
	fs.StringVarP(&r.Partition, "partition", "p", "", "partition")
	fs.Int64Var(&r.Each, "per-user", 1, "so many jobs of each user at once; 0: any number")
	fs.StringSliceVar(&r.Images, "image", nil, "images to fetch before it begins")
	fs.StringVar(&r.from, "at", "", "when it begins; by default now")
	fs.StringVar(&r.to, "to", "", "when it ends")
	fs.StringVar(&r.length, "for", "", "how long it is, instead of --to")
	fs.StringVar(&r.Every, "every", "", "have it come again: day, weekdays or `DAYS` as mon,wed")
	fs.StringVar(&r.until, "until", "", "until this `TIME`; by default until it is closed")
	fs.StringVar(&r.Name, "name", "", "its name among the reservations; by default the account's")
	fs.StringVar(&r.Payer, "payer", "", "account that pays for devices nobody uses; by default the course's")
	fs.BoolVar(&r.DryRun, "dry-run", false, "only say what it would be, or what is in the way")
	a.completeFlag(cmd, "payer", a.accountNames)
	a.completeFlag(cmd, "partition", a.partitionNames)
	a.completeFlag(cmd, "model", a.modelNames)
	a.completeFlag(cmd, "every", fixed("day", "weekdays"))
	return cmd
}

func (a *app) classLsCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "ls",
		Short:   "List classes that are for you, or that you may see",
		Example: "  croft class ls",
		Args:    needArgs(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			list, err := classes(c.Reservations(cmd.Context()))
			if err != nil {
				return err
			}
			t := newTable("~NAME", "STATE", "FROM", "TO", "~FOR", "~SEATS", ">TAKEN", "EVERY", "~IMAGES")
			for i := range list {
				r := &list[i]
				from, to := a.nextWindow(r)
				t.row(r.Name, r.State, from, to, strings.Join(r.Accounts, ","), places(r), fmt.Sprint(r.Running), otherwise(r.Every, "-"), otherwise(imagesText(r.Images), "-"))
			}
			return printList(a, list, "there is no class", t)
		},
	}
}

// classes is the reservations that are classes.
func classes(all func(func(v1.Reservation, error) bool)) ([]v1.Reservation, error) {
	out := []v1.Reservation{}
	for r, err := range all {
		if err != nil {
			return nil, err
		}
		if r.Join {
			out = append(out, r)
		}
	}
	return out, nil
}

// imagesText says how far each image is.
func imagesText(images []v1.ReservationImage) string {
	var out []string
	for _, i := range images {
		out = append(out, i.Image+before(": ", i.State))
	}
	return strings.Join(out, ", ")
}

func (a *app) classShowCmd() *cobra.Command {
	return &cobra.Command{
		Use:               "show NAME",
		Short:             "Show a class: its windows, who is in it, how far its images are",
		Example:           "  croft class show ml24",
		Args:              needArgs(1, 1, "NAME"),
		ValidArgsFunction: firstArg(a.reservationNames),
		RunE:              a.showReservation,
	}
}

func (a *app) classCloseCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "close NAME",
		Short: "Close a class, with all its windows",
		Long: `Close a class, with all windows that are to come. Jobs that wait in it end; those that
run go on to their limits.`,
		Example:           "  croft class close ml24",
		Args:              needArgs(1, 1, "NAME"),
		ValidArgsFunction: firstArg(a.reservationNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			if err := c.RemoveReservation(cmd.Context(), args[0], ""); err != nil {
				return err
			}
			return a.done("class %s is closed", args[0])
		},
	}
}
