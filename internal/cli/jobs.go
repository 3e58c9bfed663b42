package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
)

// away is how long a command that waits lets the server be away: long enough
// for a restart.
const away = 2 * time.Minute

func (a *app) quoteCmd() *cobra.Command {
	var f specFlags
	cmd := &cobra.Command{
		Use:   "quote [flags] IMAGE [COMMAND…]",
		Short: "Say what a job would cost and when it would start",
		Long: `Say what a job would cost and when it would start. Nothing is submitted.

A job that would be refused ends with exit code 3.`,
		Example: `  croft quote --gpu 1 -c 8 --mem 64G -t 2h train:1
  croft quote -f job.yaml --gpu 2`,
		RunE: func(cmd *cobra.Command, args []string) error {
			spec, err := f.read(a, cmd, args)
			if err != nil {
				return err
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			q, err := c.Quote(cmd.Context(), spec)
			if err != nil {
				return err
			}
			return a.printQuote(q)
		},
	}
	f.register(a, cmd)
	cmd.AddCommand(a.accuracyCmd())
	return cmd
}

func (a *app) printQuote(q *v1.Quote) error {
	err := a.print(q, func(w io.Writer) {
		if !q.Admitted {
			return
		}
		fmt.Fprintln(w, a.quoteLine(q.Billing, q.Price.Total+rolling(q.Deposit, q.Hour), q.Price.Lines, &q.Window))
		switch {
		case q.Billing == "off":
		case q.Balance == "":
			fmt.Fprintf(w, "account %s pays\n", clean(q.Account))
		default:
			fmt.Fprintf(w, "account %s pays: has %s, after the deposit %s\n", clean(q.Account), clean(q.Balance), clean(q.After))
		}
		for _, l := range q.Caps {
			fmt.Fprintf(w, "of it %s may use %s %s: %s left\n", clean(l.From), clean(string(l.Max)), clean(ofLimit(l.Limit)), clean(string(l.Left)))
		}
		if q.Window.Kind != "now" {
			writePriority(w, q.Priority)
		}
	})
	if err != nil || q.Admitted {
		return err
	}
	if a.output == "table" {
		a.printRefusal(&v1.Problem{Code: string(codes.Refused), Detail: "it would be refused", Reasons: q.Reasons, Remedy: q.Remedy})
	}
	return exitStatus(codes.ExitRefused)
}

// rolling follows a price of which a first part is set aside: " at most, 1.144 an hour,
// deposit 1.153532 at first".
func rolling(first, hour string) string {
	if first == "" || hour == "" {
		return ""
	}
	return " at most, " + hour + " an hour, deposit " + first + " at first"
}

// quoteLine is "quote 2.288 (gpu 2.000  cpu 0.160  mem 0.128), starts now".
func (a *app) quoteLine(billing, total string, lines []v1.PriceLine, w *v1.Window) string {
	text := "quote " + clean(total)
	if billing == "off" || total == "" {
		text = "free of charge"
	} else if len(lines) > 0 {
		parts := make([]string, len(lines))
		for i, l := range lines {
			parts[i] = clean(l.Resource) + " " + clean(l.Credits)
		}
		text += " (" + strings.Join(parts, "  ") + ")"
	}
	if w == nil {
		return text
	}
	return text + ", " + a.window(*w)
}

// window is "starts now" or "3rd in queue, starts about 14:20".
func (a *app) window(w v1.Window) string {
	start := "start unknown"
	switch {
	case w.Stops > 0 && w.Start != nil:
		start = a.afterStops(w)
	case w.Kind == "now":
		return "starts now"
	case w.Start != nil && w.Kind != "unknown":
		start = a.starts(*w.Start, w.Kind == "promised")
	}
	if w.Position > 0 {
		return ordinal(w.Position) + " in queue, " + start
	}
	return start
}

// afterStops says how long the start of a job takes for which others are stopped.
func (a *app) afterStops(w v1.Window) string {
	others := plural(int(w.Stops), "running job") + truth(w.Stops == 1, " has", " have") + " been stopped for it"
	if in := w.Start.Sub(a.env.Now()); in >= time.Second {
		return "starts in about " + span(in.Round(time.Second)) + ", when " + others
	}
	return "starts as soon as " + others
}

func (a *app) submitCmd() *cobra.Command {
	var f specFlags
	var key string
	cmd := &cobra.Command{
		Use:   "submit [flags] IMAGE [COMMAND…]",
		Short: "Submit a job and print its id",
		Long: `Submit a job. Its id goes to standard output, the quote to standard error.

With --key, submitting again with the same key and job gives the same job again,
so that a script may repeat what it isn't sure of.`,
		Example: `  croft submit --gpu 1 -t 2h train:1 python train.py
  croft submit -f job.yaml --name second --key run-7
  id=$(croft submit -f - < job.yaml)`,
		RunE: func(cmd *cobra.Command, args []string) error {
			spec, err := f.read(a, cmd, args)
			if err != nil {
				return err
			}
			job, err := a.submit(cmd.Context(), spec, key)
			if err != nil {
				return err
			}
			return a.printSubmitted(job)
		},
	}
	f.register(a, cmd)
	keyFlag(cmd, &key)
	return cmd
}

func keyFlag(cmd *cobra.Command, key *string) {
	cmd.Flags().StringVar(key, "key", "", "idempotency `KEY`: the same key and job is one submission")
}

// printSubmitted prints a new job's id, and its quote on standard error.
func (a *app) printSubmitted(job *v1.Job) error {
	return a.print(job, func(w io.Writer) {
		fmt.Fprintln(a.env.Stderr, a.jobQuote(job))
		fmt.Fprintln(w, clean(job.ID))
	})
}

// jobQuote is the quote line of a job that was just submitted.
func (a *app) jobQuote(job *v1.Job) string {
	r := job.Receipt
	if r == nil {
		r = &v1.Receipt{Billing: "off"}
	}
	w, price := job.Window, otherwise(r.Left, r.Deposit)
	if r.Hour != "" {
		price = r.Whole + rolling(price, r.Hour)
	}
	if job.State == "held" {
		return a.quoteLine(r.Billing, price, r.Lines, nil) + ", " + a.heldInfo(job)
	}
	if w == nil && job.State != "queued" {
		w = &v1.Window{Kind: "now"}
	}
	return a.quoteLine(r.Billing, price, r.Lines, w)
}

// submit submits a job once, even when the server goes away in the middle.
func (a *app) submit(ctx context.Context, spec v1.JobSpec, key string) (*v1.Job, error) {
	c, err := a.client()
	if err != nil {
		return nil, err
	}
	return once(ctx, key, func(key v1.Option) (*v1.Job, error) { return c.Submit(ctx, spec, key) })
}

// once makes a call that has an idempotency key, and makes it again only when
// the connection was lost after the call was sent: then nobody else can tell
// what became of it.
func once[T any](ctx context.Context, key string, call func(v1.Option) (*T, error)) (*T, error) {
	if key == "" {
		key = rand.Text()
	}
	got, err := call(v1.Key(key))
	var lost *v1.NoAnswer
	if !errors.As(err, &lost) || !lost.Sent {
		return got, err
	}
	err = v1.Retry(ctx, away, func() error {
		got, err = call(v1.Key(key))
		return err
	})
	return got, err
}

func (a *app) lsCmd() *cobra.Command {
	var q v1.JobQuery
	var every bool
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"ps"},
		Short:   "List jobs",
		Long: `List your jobs that haven't ended.

States: refused, held, queued, starting, running, suspended, stopped, stopping,
ended; "live" is every job that hasn't ended, "all" is every job.`,
		Example: `  croft ls
  croft ls -a -n 20
  croft ls -u '*' -A nlp --state running,queued`,
		Args: needArgs(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if every && q.State == "" {
				q.State = "all"
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			if a.output == "table" {
				return a.printJobs(cmd.Context(), c, q)
			}
			jobs, err := v1.Collect(firstJobs(cmd.Context(), c, q))
			if err != nil {
				return err
			}
			return a.print(v1.Page[v1.Job]{Items: jobs}, nil)
		},
	}
	fs := cmd.Flags()
	fs.StringVarP(&q.Account, "account", "A", "", "only of this account")
	fs.StringVarP(&q.User, "user", "u", "", "only of this user; * is everybody whom you may see")
	fs.StringVarP(&q.State, "state", "s", "", "only in these states")
	fs.BoolVarP(&every, "all", "a", false, "jobs that ended too, as --state all")
	fs.BoolVar(&q.Elements, "elements", false, "elements of arrays that have started, too")
	fs.IntVarP(&q.Limit, "limit", "n", 0, "at most this many jobs")
	a.completeFlag(cmd, "account", a.accountNames)
	a.completeFlag(cmd, "user", a.userNames)
	a.completeFlag(cmd, "state", fixed("live", "all", "refused", "held", "queued", "starting", "running", "stopping", "stopped", "ended"))
	return cmd
}

// firstJobs goes through what q selects, at most q.Limit of them.
func firstJobs(ctx context.Context, c *v1.Client, q v1.JobQuery) iter.Seq2[v1.Job, error] {
	most := q.Limit
	if most == 0 || most > v1.MaxPage {
		q.Limit = v1.MaxPage
	}
	return func(yield func(v1.Job, error) bool) {
		n := 0
		for job, err := range c.Jobs(ctx, q) {
			if n++; !yield(job, err) || n == most {
				return
			}
		}
	}
}

// printJobs prints what q selects as a table. Of tens of thousands of jobs it keeps no
// more than what it prints.
func (a *app) printJobs(ctx context.Context, c *v1.Client, q v1.JobQuery) error {
	q.View = "brief"
	t := newTable("ID", "~NAME", "USER", "ACCOUNT", "STATE", ">GPU", ">CPU", ">MEM", ">TIME", "~INFO")
	for j, err := range firstJobs(ctx, c, q) {
		if err != nil {
			return err
		}
		s := &j.Spec
		t.row(j.ID, j.Name, j.User, j.Account, jobState(&j), orDash(devicesOf(&j)), string(s.CPU), string(s.Mem), a.jobTime(&j), a.jobInfo(&j))
	}
	a.printTable(t, "no jobs; croft ls -a has those that ended")
	return nil
}

// jobState is the outcome of a job that ended, else its state.
func jobState(j *v1.Job) string {
	if j.State == "ended" && j.Outcome != "" {
		return j.Outcome
	}
	return j.State
}

// rested is why a workspace is stopped, unless somebody just had it stopped.
func rested(j *v1.Job) string {
	if j.Outcome == string(codes.Stopped) {
		return j.Message
	}
	text := strings.ReplaceAll(j.Outcome, "_", " ")
	if j.ExitCode != nil && *j.ExitCode != 0 {
		text += ", exit " + strconv.Itoa(*j.ExitCode)
	}
	return text + because(j.Message)
}

// jobTime is how long a job has run, or ran.
func (a *app) jobTime(j *v1.Job) string {
	switch {
	case j.Started == nil:
		return ""
	case j.Ended != nil:
		return span(j.Ended.Sub(*j.Started))
	}
	return span(a.env.Now().Sub(*j.Started))
}

// turn is window in a few words: "2nd, about 16:20".
func (a *app) turn(w v1.Window) string {
	text := "start unknown"
	switch {
	case w.Kind == "now":
		text = "now"
	case w.Start != nil && w.Kind != "unknown":
		text = "about " + a.clock(*w.Start)
	}
	if w.Position > 0 {
		text = ordinal(w.Position) + ", " + text
	}
	return text
}

// jobInfo is where a job runs, when it starts, or how it ended.
func (a *app) jobInfo(j *v1.Job) string {
	if j.Array != nil {
		return arrayInfo(j)
	}
	if j.Contact != "" && j.Contact != "ok" {
		return j.Contact
	}
	switch j.State {
	case "running":
		if i := j.Idle; i != nil && i.Told != nil && i.StopsAt != nil && i.Mode == "stop" {
			return "idle, stops " + a.clock(*i.StopsAt)
		}
	case "held":
		return a.heldInfo(j)
	case "queued":
		if j.Window != nil {
			return a.turn(*j.Window)
		}
	case "starting":
		if j.Progress != "" {
			return j.Progress
		}
	case "stopped":
		return rested(j)
	case "ended":
		if j.ExitCode != nil && *j.ExitCode != 0 {
			return "exit " + strconv.Itoa(*j.ExitCode)
		}
		if j.Outcome != string(codes.Completed) {
			return j.Message
		}
	case "refused":
		if len(j.Reasons) > 0 {
			return j.Reasons[0].Message
		}
	}
	return nodesOf(j)
}

// arrayInfo is how far the elements of an array are: "40 wait, 8 run, 50 completed".
func arrayInfo(j *v1.Job) string {
	var parts []string
	count := func(n int64, word string) {
		if n > 0 {
			parts = append(parts, grouped(n)+" "+word)
		}
	}
	word := "wait"
	if j.State == "held" {
		word = "held"
	}
	count(j.Array.Pending, word)
	count(j.Array.Active, "run")
	for _, o := range slices.Sorted(maps.Keys(j.Array.Ended)) {
		count(j.Array.Ended[o], strings.ReplaceAll(o, "_", " "))
	}
	return strings.Join(parts, ", ")
}

// heldInfo is what keeps a job out of the queue.
func (a *app) heldInfo(j *v1.Job) string {
	switch {
	case j.Waits == string(codes.BeginTime) && j.Eligible != nil:
		return "from " + a.clock(*j.Eligible)
	case len(j.Reasons) > 0:
		return j.Reasons[0].Message
	}
	return j.Message
}

func (a *app) stopCmd() *cobra.Command {
	var req v1.StopRequest
	cmd := &cobra.Command{
		Use:   "stop JOB…",
		Short: "Stop jobs",
		Long: `Stop jobs: SIGTERM, and SIGKILL when their grace period is over, or the --grace given
here. It doesn't wait for the end. One that can't be stopped doesn't keep the others
from it. A workspace stays, and can be started again (croft workspace).`,
		Example: `  croft stop 118
  croft stop --grace 5m 118 119
  croft stop 120_7 '120_[10-19]'`,
		Args:              needArgs(1, -1, "JOB"),
		ValidArgsFunction: a.jobIDs("live"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.controlled(args, func(c *v1.Client, id string) (*v1.Job, error) { return c.Stop(cmd.Context(), id, req) }, a.printStates)
		},
	}
	cmd.Flags().BoolVar(&req.Now, "now", false, "SIGKILL at once, without grace")
	cmd.Flags().StringVar((*string)(&req.Grace), "grace", "", "time between SIGTERM and SIGKILL; by default the job's")
	return cmd
}

// printStates prints what became of jobs.
func (a *app) printStates(jobs []v1.Job) error {
	if len(jobs) == 0 {
		return nil
	}
	return a.print(v1.Page[v1.Job]{Items: jobs}, func(w io.Writer) {
		for _, j := range jobs {
			fmt.Fprintf(w, "%s %s\n", clean(j.ID), clean(jobState(&j)))
		}
	})
}

func (a *app) cloneCmd() *cobra.Command {
	var f specFlags
	var sets []string
	var key string
	var follow bool
	cmd := &cobra.Command{
		Use:     "clone JOB [--set FIELD=VALUE…]",
		Aliases: []string{"rerun"},
		Short:   "Submit a job or a refused request again, with changes",
		Long: `Submit a job again, or a refused request, with changes. The fields of --set are
those of a job file; the flags are short for the usual ones.`,
		Example: `  croft clone R-7 --gpu 4
  croft clone 118 --set time=4h --set env.SEED=2
  croft rerun -f 118`,
		Args:              needArgs(1, 1, "JOB"),
		ValidArgsFunction: a.jobIDs("all"),
		RunE: func(cmd *cobra.Command, args []string) error {
			set, err := parseSets(sets)
			if err != nil {
				return err
			}
			changes, err := f.changes(a, cmd)
			if err != nil {
				return err
			}
			maps.Copy(set, changes)
			c, err := a.client()
			if err != nil {
				return err
			}
			job, err := once(cmd.Context(), key, func(key v1.Option) (*v1.Job, error) {
				return c.Clone(cmd.Context(), args[0], v1.CloneRequest{Set: set}, key)
			})
			if err != nil {
				return err
			}
			if follow {
				return a.follow(cmd.Context(), job, tellAll)
			}
			return a.printSubmitted(job)
		},
	}
	f.amounts(a, cmd)
	f.machines(a, cmd)
	cmd.Flags().StringArrayVar(&sets, "set", nil, "`FIELD=VALUE` to change (repeatable)")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "stay with the job as croft run does")
	keyFlag(cmd, &key)
	return cmd
}

// needArgs wants from least to most arguments (-1: any number) of a kind.
func needArgs(least, most int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return fmt.Errorf("which %s? %s", what, cmd.UseLine())
		case most >= 0 && len(args) > most:
			return fmt.Errorf("too much: %s", strings.Join(args[most:], " "))
		}
		return nil
	}
}
