package cli

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	v1 "croft.dev/croft/api/v1"
)

func (a *app) qosCmd() *cobra.Command {
	return group("qos", "Qualities of service: priority, price, who may use them, who is preempted", `  croft qos ls
  croft qos add urgent --priority 1000 --factor 2 --preempts normal
  croft qos set normal --min-run 10m --preempt-signal USR1 --preempt-grace 60s`,
		a.qosAddCmd(), a.qosSetCmd(), a.qosLsCmd(), a.qosShowCmd(), a.qosRmCmd())
}

// qosFlags are the flags of add and set. A flag that isn't given changes nothing.
type qosFlags struct {
	fs                                              *pflag.FlagSet
	priority                                        int64
	factor, maxTime, defTime, grace, maxGrace       string
	accounts, partitions, preempts                  []string
	busy, minRun, signal, preemptGrace, mode, money string
	exempt                                          bool
}

func (a *app) qosFlags(cmd *cobra.Command) *qosFlags {
	f := &qosFlags{fs: cmd.Flags()}
	f.fs.Int64Var(&f.priority, "priority", 0, "added to the priority of its jobs")
	f.fs.StringVar(&f.factor, "factor", "", "prices are multiplied by it, e.g. 1.5 (admins only)")
	f.fs.StringVar(&f.maxTime, "max-time", "", "longest run; 0 is any")
	f.fs.StringVar(&f.defTime, "default-time", "", "of a job that names no time; 0 is the partition's")
	f.fs.StringVar(&f.grace, "grace", "", "between SIGTERM and SIGKILL, of a job that names none")
	f.fs.StringVar(&f.maxGrace, "max-grace", "", "longest grace that a job may ask for")
	f.fs.StringSliceVar(&f.accounts, "accounts", nil, `only these and those below them may use it; "" is all`)
	f.fs.StringSliceVar(&f.partitions, "partitions", nil, `only in these; "" is everywhere`)
	f.fs.StringVar(&f.busy, "busy", "", "a job that can't start at once: queue or refuse")
	f.fs.StringSliceVar(&f.preempts, "preempts", nil, `lower QoS whose running jobs it may stop; "" is none`)
	f.fs.BoolVar(&f.exempt, "exempt", false, "its jobs are never preempted, but for what they have borrowed")
	f.fs.StringVar(&f.minRun, "min-run", "", "its jobs run at least so long before they are preempted")
	f.fs.StringVar(&f.signal, "preempt-signal", "", "what a job is told it with, e.g. USR1")
	f.fs.StringVar(&f.preemptGrace, "preempt-grace", "", "from that signal to SIGKILL; 0 is the job's own grace")
	f.fs.StringVar(&f.mode, "preempt-mode", "", "a preempted job: requeue or cancel")
	f.fs.StringVar(&f.money, "preempt-money", "", "what its attempt cost: refund or keep")
	a.completeFlag(cmd, "accounts", a.accountNames)
	a.completeFlag(cmd, "partitions", a.partitionNames)
	a.completeFlag(cmd, "preempts", a.qosNames)
	a.completeFlag(cmd, "busy", fixed("queue", "refuse"))
	a.completeFlag(cmd, "preempt-mode", fixed("requeue", "cancel"))
	a.completeFlag(cmd, "preempt-money", fixed("refund", "keep"))
	return f
}

// patch is the change that the given flags ask for.
func (f *qosFlags) patch() v1.QoSPatch {
	return v1.QoSPatch{
		Priority: given(f.fs, "priority", f.priority), Factor: given(f.fs, "factor", f.factor),
		MaxTime: spanFlag(f.fs, "max-time", f.maxTime), DefaultTime: spanFlag(f.fs, "default-time", f.defTime),
		Grace: spanFlag(f.fs, "grace", f.grace), MaxGrace: spanFlag(f.fs, "max-grace", f.maxGrace),
		Accounts: listed(f.fs, "accounts", f.accounts), Partitions: listed(f.fs, "partitions", f.partitions),
		Busy: given(f.fs, "busy", f.busy), Preempts: listed(f.fs, "preempts", f.preempts), Exempt: given(f.fs, "exempt", f.exempt),
		MinRun: spanFlag(f.fs, "min-run", f.minRun), PreemptSignal: given(f.fs, "preempt-signal", f.signal),
		PreemptGrace: spanFlag(f.fs, "preempt-grace", f.preemptGrace),
		PreemptMode:  given(f.fs, "preempt-mode", f.mode), PreemptMoney: given(f.fs, "preempt-money", f.money),
	}
}

// given is a flag's value, nil if it wasn't given.
func given[T any](fs *pflag.FlagSet, name string, v T) *T {
	if !fs.Changed(name) {
		return nil
	}
	return &v
}

func spanFlag(fs *pflag.FlagSet, name, v string) *v1.Quantity { return given(fs, name, v1.Quantity(v)) }

// listed is a list's value: nil if it wasn't given, empty for "".
func listed(fs *pflag.FlagSet, name string, v []string) *[]string {
	out := []string{}
	for _, s := range v {
		if s != "" {
			out = append(out, s)
		}
	}
	return given(fs, name, out)
}

func (a *app) qosAddCmd() *cobra.Command {
	var f *qosFlags
	cmd := &cobra.Command{
		Use:   "add NAME",
		Short: "Make a QoS",
		Long: `Make a QoS. It is for everybody and everywhere, and its jobs wait when the machine
is busy and preempt nobody, unless the flags say otherwise.`,
		Example: `  croft qos add urgent --priority 1000 --factor 2 --accounts nlp --preempts normal
  croft qos add interactive --priority 500 --max-time 4h --busy refuse`,
		Args: needArgs(1, 1, "NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			q, err := c.AddQoS(cmd.Context(), v1.NewQoS{Name: args[0], QoSPatch: f.patch()})
			if err != nil {
				return err
			}
			return a.print(q, func(w io.Writer) { writeQoS(w, q) })
		},
	}
	f = a.qosFlags(cmd)
	return cmd
}

func (a *app) qosSetCmd() *cobra.Command {
	var f *qosFlags
	cmd := &cobra.Command{
		Use:   "set NAME",
		Short: "Change a QoS",
		Long: `Change a QoS; what isn't named stays. Jobs that were submitted keep their price
factor and priority. Of a QoS in the server's configuration, that says the priority,
the factor, the longest time and the graces; the rest is changed here.`,
		Example: `  croft qos set normal --min-run 10m --preempt-signal USR1 --preempt-grace 60s
  croft qos set urgent --accounts nlp,vision
  croft qos set urgent --preempts=`,
		Args:              needArgs(1, 1, "NAME"),
		ValidArgsFunction: firstArg(a.qosNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			p := f.patch()
			if p == (v1.QoSPatch{}) {
				return usage("change what? e.g. --preempts normal, --busy refuse or --accounts nlp")
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			q, err := c.SetQoS(cmd.Context(), args[0], p)
			if err != nil {
				return err
			}
			return a.print(q, func(w io.Writer) { writeQoS(w, q) })
		},
	}
	f = a.qosFlags(cmd)
	return cmd
}

func (a *app) qosLsCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "ls",
		Short:   "List the QoS",
		Example: "  croft qos ls",
		Args:    needArgs(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			list, err := v1.Collect(c.QoSList(cmd.Context()))
			if err != nil {
				return err
			}
			t := newTable("~NAME", ">PRIORITY", ">FACTOR", ">MAX", "BUSY", "~PREEMPTS", "~FOR", "~NOTE")
			for _, q := range list {
				t.row(q.Name, strconv.FormatInt(q.Priority, 10), q.Factor, string(q.MaxTime), q.Busy, strings.Join(q.Preempts, " "),
					usable(q.Restricted, q.Accounts), origin(q.Default, q.Configured))
			}
			return printList(a, list, "no QoS", t)
		},
	}
}

// usable says whose a thing is: "all", the accounts that the caller may see, or
// "some accounts".
func usable(restricted bool, accounts []string) string {
	switch {
	case !restricted:
		return "all"
	case len(accounts) == 0:
		return "some accounts"
	}
	return strings.Join(accounts, " ")
}

func origin(preset, configured bool) string {
	var notes []string
	if preset {
		notes = append(notes, "default")
	}
	if configured {
		notes = append(notes, "configured")
	}
	return strings.Join(notes, ", ")
}

func (a *app) qosShowCmd() *cobra.Command {
	return &cobra.Command{
		Use:               "show NAME",
		Short:             "Show a QoS",
		Example:           "  croft qos show urgent",
		Args:              needArgs(1, 1, "NAME"),
		ValidArgsFunction: firstArg(a.qosNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			q, err := c.QoS(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return a.print(q, func(w io.Writer) { writeQoS(w, q) })
		},
	}
}

func writeQoS(w io.Writer, q *v1.QoS) {
	block(w,
		"qos", q.Name,
		"note", origin(q.Default, q.Configured),
		"priority", strconv.FormatInt(q.Priority, 10),
		"factor", q.Factor,
		"longest", string(q.MaxTime),
		"default", string(q.DefaultTime),
		"grace", string(q.Grace)+before(", at most ", string(q.MaxGrace)),
		"for", usable(q.Restricted, q.Accounts),
		"only in", strings.Join(q.Partitions, " "),
		"if busy", q.Busy,
		"preempts", strings.Join(q.Preempts, " "),
		"preempted", yields(q),
	)
}

// yields says on what terms the QoS' jobs give way.
func yields(q *v1.QoS) string {
	if q.Exempt {
		return "never"
	}
	terms := fmt.Sprintf("SIG%s, SIGKILL after %s, then %s and %s", q.PreemptSignal, cmp.Or(string(q.PreemptGrace), "its grace"), q.PreemptMode, q.PreemptMoney)
	if q.MinRun != "" {
		terms = "after " + string(q.MinRun) + " at the earliest: " + terms
	}
	return terms
}

func (a *app) qosRmCmd() *cobra.Command {
	return &cobra.Command{
		Use:               "rm NAME",
		Short:             "Remove a QoS that nothing uses",
		Example:           "  croft qos rm urgent",
		Args:              needArgs(1, 1, "NAME"),
		ValidArgsFunction: firstArg(a.qosNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			if err := c.RemoveQoS(cmd.Context(), args[0]); err != nil {
				return err
			}
			return a.done("QoS %s is removed", args[0])
		},
	}
}
