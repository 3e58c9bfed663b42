package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	v1 "croft.dev/croft/api/v1"
)

// mainTerminal is the one that is meant where none is named.
const mainTerminal = "main"

func (a *app) terminalCmd() *cobra.Command {
	var view, open bool
	var keys string
	cmd := &cobra.Command{
		Use:   "terminal JOB[.STEP] [NAME]",
		Short: "Work in a shell in a running job, which stays when you leave",
		Long: `Work in a shell in a running job, beside what runs there, or in a further step. It
goes on when you leave, when the connection is lost and when the server restarts: join it
again, from anywhere, and it is where it was. A lost connection is made again by itself.
A job has several by name; "main" is meant where none is given.

Any number may be in one terminal, and all see the same; its size is that of whoever typed
last. ctrl-p and then ctrl-q leave it; exit ends it, with the shell's exit code.

With --open an address is printed at which a browser has it on a page. The browser that
opens it first, in the next minutes, is known to the server as you, until it is logged
out, and for 12 hours at most: keep it to yourself.`,
		Example: `  croft terminal 118
  croft terminal 118 logs
  croft terminal --open 118`,
		Args:              needArgs(1, 2, "JOB[.STEP] [NAME]"),
		ValidArgsFunction: a.jobIDs("running"),
		RunE: func(cmd *cobra.Command, args []string) error {
			sequence, err := parseKeys(keys)
			if err != nil {
				return err
			}
			job, n, err := jobOrStep(args[0])
			if err != nil {
				return err
			}
			s := seat{job: job, step: n, of: clean(args[0]), name: mainTerminal, view: view, keys: sequence}
			if len(args) > 1 {
				s.name = args[1]
			}
			if open {
				return a.openSeat(cmd.Context(), s)
			}
			return a.sit(cmd.Context(), s)
		},
	}
	cmd.Flags().BoolVar(&view, "view", false, "only look")
	cmd.Flags().BoolVar(&open, "open", false, "print an address for a browser")
	keysFlag(cmd, &keys)
	cmd.AddCommand(a.terminalLsCmd(), a.terminalEndCmd())
	return cmd
}

// seat is a terminal that is joined.
type seat struct {
	job  string
	step int    // 0: the primary
	of   string // the job or step as the user says it
	name string // of the terminal
	view bool
	keys []byte // that leave it
	back string // the command that comes back to it; "": croft terminal
}

// openSeat prints where a browser has it.
func (a *app) openSeat(ctx context.Context, s seat) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	got, err := c.OpenTerminal(ctx, s.job, s.name, v1.TerminalOpenRequest{Step: s.step, View: s.view})
	if err != nil {
		return err
	}
	return a.print(got, func(w io.Writer) { fmt.Fprintln(w, clean(got.URL)) })
}

// again is the command that comes back to it.
func (s seat) again() string {
	if s.back != "" {
		return s.back
	}
	text := "croft terminal " + s.of
	if s.name != mainTerminal {
		text += " " + clean(s.name)
	}
	return text
}

// settled brings a terminal back from the modes that programs set in it: the other screen,
// reports of the mouse, of the focus and of what is pasted, and whatever a soft reset does.
const settled = "\x1b[?1047l\x1b[?9l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1004l\x1b[?1006l\x1b[?2004l\x1b[!p"

// sit is in a terminal until its shell has ended, whose exit code it returns as an error,
// or until the user leaves.
func (a *app) sit(ctx context.Context, s seat) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	ctx, stop := a.interruptible(ctx, errInterrupted)
	defer stop()
	opt := v1.TerminalOptions{
		Step: s.step, Name: s.name, View: s.view, Term: a.env.Getenv("TERM"), Stdout: a.env.Stdout, Window: away,
	}
	raw := a.env.Term.In && a.env.Term.Out
	newline := "\n"
	if raw {
		newline = "\r\n"
		restore, err := a.rawTerminal(ctx, &opt.Size, &opt.Resize)
		if err != nil {
			return err
		}
		defer restore()
	} else {
		s.keys, opt.Term = nil, ""
	}
	opt.Stdin = newTypist(ctx, newInput(ctx, a.env.Stdin), s.keys, s.view && !raw)
	joined := a.tellOfSeat(&opt, newline)
	code, err := c.Terminal(ctx, s.job, opt)
	if raw && *joined {
		fmt.Fprint(a.env.Stdout, settled)
	}
	return a.leaveSeat(s, code, err, newline)
}

var errInterrupted = errors.New("interrupted")

// tellOfSeat has it said what becomes of the connection, and noted whether there ever was one.
func (a *app) tellOfSeat(opt *v1.TerminalOptions, newline string) (joined *bool) {
	lost := false
	joined = new(bool)
	opt.Away = func(error) {
		lost = true
		fmt.Fprintf(a.env.Stderr, "%[1]sconnection lost, reconnecting…%[1]s", newline)
	}
	opt.Joined = func(j v1.TerminalJoined) {
		switch {
		case j.Lost > 0:
			fmt.Fprintf(a.env.Stderr, "%[1]s%d bytes of output aren't kept any more; what is:%[1]s", newline, j.Lost)
		case lost:
			fmt.Fprintf(a.env.Stderr, "connected again%s", newline)
		}
		lost, *joined = false, true
	}
	return joined
}

// leaveSeat says how it was left.
func (a *app) leaveSeat(s seat, code int, err error, newline string) error {
	switch {
	case errors.Is(err, errLeft):
		fmt.Fprintf(a.env.Stderr, "%sleft the terminal, it goes on: %s%s", newline, s.again(), newline)
		return nil
	case errors.Is(err, errInterrupted):
		fmt.Fprintf(a.env.Stderr, "%sleft the terminal, it goes on: %s%s", newline, s.again(), newline)
		return exitStatus(exitInterrupted)
	case errors.Is(err, io.EOF): // the input was a file
		return nil
	case err != nil:
		return err
	}
	if code == 0 {
		return nil
	}
	fmt.Fprintf(a.env.Stderr, "the shell of terminal %s has ended (exit %d)%s", clean(s.name), code, newline)
	return exitStatus(code)
}

func (a *app) terminalLsCmd() *cobra.Command {
	return &cobra.Command{
		Use:               "ls JOB[.STEP]",
		Short:             "List the terminals of a running job",
		Example:           "  croft terminal ls 118",
		Args:              needArgs(1, 1, "JOB[.STEP]"),
		ValidArgsFunction: a.jobIDs("running"),
		RunE: func(cmd *cobra.Command, args []string) error {
			job, n, err := jobOrStep(args[0])
			if err != nil {
				return err
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			list, err := v1.Collect(c.Terminals(cmd.Context(), job, n))
			if err != nil {
				return err
			}
			t := newTable("TERMINAL", "STARTED", ">JOINED", ">SIZE", "STATE")
			for _, v := range list {
				state := "running"
				if v.Ended {
					state = fmt.Sprintf("ended (exit %d)", v.ExitCode)
				}
				t.row(clean(v.Name), a.dated(v.Started), fmt.Sprint(v.Joined), fmt.Sprintf("%dx%d", v.Cols, v.Rows), state)
			}
			return printList(a, list, "no terminals; croft terminal JOB opens one", t)
		},
	}
}

func (a *app) terminalEndCmd() *cobra.Command {
	return &cobra.Command{
		Use:               "end JOB[.STEP] NAME…",
		Short:             "End what runs in terminals of a job",
		Example:           "  croft terminal end 118 main",
		Args:              needArgs(2, -1, "JOB[.STEP] NAME"),
		ValidArgsFunction: a.jobIDs("running"),
		RunE: func(cmd *cobra.Command, args []string) error {
			job, n, err := jobOrStep(args[0])
			if err != nil {
				return err
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			for _, name := range args[1:] {
				if err := c.EndTerminal(cmd.Context(), job, n, name); err != nil {
					return err
				}
				if err := a.done("ended terminal %s of %s", clean(name), clean(args[0])); err != nil {
					return err
				}
			}
			return nil
		},
	}
}
