package cli

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	v1 "croft.dev/croft/api/v1"
)

func (a *app) reservationCmd() *cobra.Command {
	return group("reservation", "Resources set aside for accounts and users over a time", `  croft reservation add ml24 --account course --from 09:00 --for 2h --count 40 --gpu 1
  croft reservation ls
  croft reservation show ml24`,
		a.reservationAddCmd(), a.reservationLsCmd(), a.reservationShowCmd(), a.reservationRmCmd())
}

// reservationFlags is what a reservation is said by.
type reservationFlags struct {
	v1.NewReservation
	from, to, length, until string
}

func (a *app) reservationAddCmd() *cobra.Command {
	var r reservationFlags
	cmd := &cobra.Command{
		Use:   "add NAME",
		Short: "Make a reservation",
		Long: `Make a reservation: nobody else's jobs get what it has while a window of it lasts,
and the jobs of those whom it is for, submitted with --reservation NAME, do. It is
refused, with the jobs in the way, if not all of it is free. --count places of the
amounts are reserved, each on one node, or with --node whole nodes. Devices that
nobody uses meanwhile cost the payer what they would cost a job. --every has the
window come again at the same time of the day; windows are booked 14 days ahead.`,
		Example: `  croft reservation add ml24 --account course --from 09:00 --for 2h --count 40 --gpu 1
  croft reservation add weekly -A nlp --from 14:00 --for 4h --node gpu1 --every mon,wed
  croft reservation add demo --user ada --payer nlp --for 1h --gpu 2 --model H100 --dry-run`,
		Args: needArgs(1, 1, "NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			r.Name = args[0]
			if err := a.reservationTimes(&r); err != nil {
				return err
			}
			return a.reserve(cmd, r.NewReservation)
		},
	}
	a.reservationFlags(cmd, &r)
	cmd.Flags().BoolVar(&r.DryRun, "dry-run", false, "only say what it would be, or what is in the way")
	return cmd
}

// reservationFlags say what is set aside, for whom and when.
func (a *app) reservationFlags(cmd *cobra.Command, r *reservationFlags) {
	fs := cmd.Flags()
	quantity := func(p *v1.Quantity, name, short, usage string) { fs.StringVarP((*string)(p), name, short, "", usage) }
	fs.StringSliceVarP(&r.Accounts, "account", "A", nil, "for these accounts and those below them")
	fs.StringSliceVar(&r.Users, "user", nil, "for these users")
	fs.StringVar(&r.Payer, "payer", "", "account that pays for devices nobody uses; by default the only account")
	fs.StringVarP(&r.Partition, "partition", "p", "", "partition")
	fs.Int64Var(&r.Count, "count", 0, "so many places, each on one node; by default 1")
	quantity(&r.GPU, "gpu", "G", "accelerators of each place")
	fs.StringVar(&r.Model, "model", "", "their model, or any of several: 'a100|h100'")
	quantity(&r.CPU, "cpu", "c", "CPU cores of each place")
	quantity(&r.Mem, "mem", "", "memory of each place")
	fs.StringVarP(&r.Where, "constraint", "C", "", "labels that its nodes must have: 'nvlink&!old'")
	fs.StringSliceVar(&r.Nodes, "node", nil, "these nodes whole, instead of places")
	fs.StringVar(&r.from, "from", "", "when the first window begins; by default now")
	fs.StringVar(&r.to, "to", "", "when it ends")
	fs.StringVar(&r.length, "for", "", "how long it is, instead of --to")
	fs.StringVar(&r.Every, "every", "", "have it come again: day, weekdays or `DAYS` as mon,wed")
	fs.StringVar(&r.until, "until", "", "until this `TIME`; by default until it is removed")
	fs.BoolVar(&r.Join, "join", false, "take in what its people submit during a window and that fits")
	fs.Int64Var(&r.Each, "per-user", 0, "so many jobs of each user at once; by default any number")
	fs.StringSliceVar(&r.Images, "image", nil, "images to fetch before a window begins")
	fs.StringVar(&r.Reason, "reason", "", "what it is for")
	a.completeFlag(cmd, "account", a.accountNames)
	a.completeFlag(cmd, "user", a.userNames)
	a.completeFlag(cmd, "payer", a.accountNames)
	a.completeFlag(cmd, "partition", a.partitionNames)
	a.completeFlag(cmd, "node", a.nodeNames)
	a.completeFlag(cmd, "model", a.modelNames)
	a.completeFlag(cmd, "every", fixed("day", "weekdays"))
}

// reserve makes a reservation and shows it.
func (a *app) reserve(cmd *cobra.Command, r v1.NewReservation) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	got, err := c.AddReservation(cmd.Context(), r)
	if err != nil {
		return err
	}
	return a.print(got, func(w io.Writer) {
		a.writeReservation(w, got)
		if r.DryRun {
			fmt.Fprintln(w, "Nothing was reserved: leave out --dry-run.")
		}
	})
}

// reservationTimes reads the flags --from, --to, --for and --until.
func (a *app) reservationTimes(r *reservationFlags) error {
	var err error
	if r.From, err = a.whenFlag(r.from, startOfDay); err != nil {
		return err
	}
	if r.To, err = a.whenFlag(r.to, endOfDay); err != nil {
		return err
	}
	if r.Until, err = a.whenFlag(r.until, endOfDay); err != nil {
		return err
	}
	if (r.to == "") == (r.length == "") {
		return usage("until when? either --to or --for")
	}
	if r.length != "" {
		d, err := parseSpan(r.length)
		if err != nil {
			return err
		}
		r.Length = v1.Quantity(d.String())
	}
	return nil
}

func (a *app) reservationLsCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "ls",
		Short:   "List reservations that are for you, or that you may see",
		Example: "  croft reservation ls",
		Args:    needArgs(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			list, err := v1.Collect(c.Reservations(cmd.Context()))
			if err != nil {
				return err
			}
			t := newTable("~NAME", "STATE", "FROM", "TO", "~FOR", "~EACH", "EVERY", ">JOBS")
			for i := range list {
				r := &list[i]
				from, to := a.nextWindow(r)
				t.row(r.Name, r.State, from, to, strings.Join(append(slices.Clone(r.Accounts), r.Users...), ","), places(r), otherwise(r.Every, "-"), strconv.FormatInt(r.Running+r.Waiting, 10))
			}
			return printList(a, list, "nothing is reserved", t)
		},
	}
}

// nextWindow is the window that lasts, or the next one.
func (a *app) nextWindow(r *v1.Reservation) (from, to string) {
	for _, w := range r.Windows {
		if w.State != "failed" {
			return a.dated(w.From), a.dated(w.To)
		}
	}
	return a.dated(r.From), "-"
}

// places is what a reservation has, in words.
func places(r *v1.Reservation) string {
	if len(r.Nodes) > 0 {
		return "node " + strings.Join(r.Nodes, ",")
	}
	return strconv.FormatInt(r.Count, 10) + " × " + asked(v1.JobSpec{GPU: r.GPU, Model: r.Model, CPU: r.CPU, Mem: r.Mem, Constraint: r.Where})
}

func (a *app) reservationShowCmd() *cobra.Command {
	return &cobra.Command{
		Use:               "show NAME",
		Short:             "Show a reservation with its windows",
		Example:           "  croft reservation show ml24",
		Args:              needArgs(1, 1, "NAME"),
		ValidArgsFunction: firstArg(a.reservationNames),
		RunE:              a.showReservation,
	}
}

func (a *app) showReservation(cmd *cobra.Command, args []string) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	r, err := c.Reservation(cmd.Context(), args[0])
	if err != nil {
		return err
	}
	return a.print(r, func(w io.Writer) { a.writeReservation(w, r) })
}

func (a *app) writeReservation(w io.Writer, r *v1.Reservation) {
	fmt.Fprintf(w, "%s %s: %s, partition %s%s\n", clean(r.Name), clean(r.State), clean(places(r)), clean(r.Partition), before(", ", clean(r.Reason)))
	if who := append(slices.Clone(r.Accounts), r.Users...); len(who) > 0 {
		fmt.Fprintf(w, "for %s%s\n", clean(strings.Join(who, ", ")), before("; what nobody uses is paid by ", clean(r.Payer)))
	}
	if r.Join {
		fmt.Fprintf(w, "takes in what its people submit meanwhile%s\n", apiece(r.Each))
	} else if r.Each > 0 {
		fmt.Fprintf(w, "at most %d jobs of each user at once\n", r.Each)
	}
	if len(r.Images) > 0 {
		fmt.Fprintf(w, "images: %s\n", clean(imagesText(r.Images)))
	}
	if r.Every != "" {
		end := "until it is removed"
		if r.Until != nil {
			end = "until " + a.until(r.Until)
		}
		fmt.Fprintf(w, "every %s at %s, %s\n", clean(r.Every), clean(a.siteClock(r)), end)
	}
	if r.Cost != "" && r.Cost != "0.000" {
		fmt.Fprintf(w, "costs %s if nobody uses it\n", clean(r.Cost))
	}
	if r.Running+r.Waiting > 0 {
		fmt.Fprintf(w, "%s running, %d waiting\n", plural(int(r.Running), "job"), r.Waiting)
	}
	for _, win := range r.Windows {
		fmt.Fprintf(w, "  %s  %s  %s%s\n", clean(otherwise(win.ID, "-")), a.period(win.From, win.To), clean(win.State), before(": ", clean(win.Reason)))
		if win.State == "failed" || len(r.Windows) > 1 && win.State != "active" {
			continue
		}
		for _, p := range win.Parts {
			fmt.Fprintf(w, "     %s: %s\n", clean(p.Node), clean(partText(p)))
		}
	}
}

// siteClock is when the windows of a reservation begin that come again: days and times
// are those of the site's clocks, which may not be the viewer's.
func (a *app) siteClock(r *v1.Reservation) string {
	here := r.From.In(a.env.Zone).Format("15:04")
	if r.At == "" || r.At == here {
		return here
	}
	return r.At + " by the site's clocks"
}

func apiece(each int64) string {
	switch each {
	case 0:
		return ""
	case 1:
		return ", one job of each user at once"
	}
	return fmt.Sprintf(", %d jobs of each user at once", each)
}

func partText(p v1.ReservationPart) string {
	var out []string
	for _, m := range slices.Sorted(maps.Keys(p.Models)) {
		out = append(out, strconv.FormatInt(p.Models[m], 10)+" "+m)
	}
	return strings.Join(append(out, string(p.CPU)+" cpu", string(p.Mem)), "  ")
}

func (a *app) reservationRmCmd() *cobra.Command {
	var window string
	cmd := &cobra.Command{
		Use:   "rm NAME",
		Short: "Remove a reservation, or one window of it",
		Long: `Remove a reservation, or one window of it. Jobs that wait in it end; those that run
go on to their limits.`,
		Example:           "  croft reservation rm ml24\n  croft reservation rm weekly --window 12",
		Args:              needArgs(1, 1, "NAME"),
		ValidArgsFunction: firstArg(a.reservationNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			if err := c.RemoveReservation(cmd.Context(), args[0], window); err != nil {
				return err
			}
			if window != "" {
				return a.done("window %s of reservation %s is removed", window, args[0])
			}
			return a.done("reservation %s is removed", args[0])
		},
	}
	cmd.Flags().StringVar(&window, "window", "", "only this window, by its `ID`")
	return cmd
}
