package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	v1 "croft.dev/croft/api/v1"
)

func (a *app) showCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "show JOB",
		Short: "Show a job, its times and its receipt",
		Example: `  croft show 118
  croft show R-7
  croft show 118 -o yaml`,
		Args:              needArgs(1, 1, "JOB"),
		ValidArgsFunction: a.jobIDs("all"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			job, err := c.Job(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return a.print(job, func(w io.Writer) { a.writeJob(w, job) })
		},
	}
}

func (a *app) writeJob(w io.Writer, j *v1.Job) {
	state := jobState(j)
	if j.State == "stopped" && j.Outcome != "" && j.Outcome != "stopped" {
		state += ", " + strings.ReplaceAll(j.Outcome, "_", " ")
	}
	if j.ExitCode != nil {
		state += ", exit " + strconv.Itoa(*j.ExitCode)
	}
	if j.Contact != "" && j.Contact != "ok" {
		state += ", contact " + j.Contact
	}
	if j.State == "running" && len(j.Spec.Apps) > 0 {
		state += truth(j.Ready != nil, ", ready", ", its apps don't answer yet")
	}
	if j.Progress != "" {
		state += ", " + j.Progress
	}
	waits := ""
	if w := j.Window; w != nil && j.Started == nil && j.Ended == nil && j.State != "refused" && (j.State != "held" || w.Start != nil) {
		waits = a.window(*j.Window)
	}
	block(w,
		"job", strings.TrimSpace(j.ID+" "+j.Name),
		"state", state,
		"waits", waits,
		"message", j.Message,
		"user", byText(j.User, j.Token),
		"account", j.Account,
		"kind", kindOf(j.Spec),
		"runs", place(j.Spec),
		"image", j.Spec.Image,
		"command", strings.Join(j.Spec.Command, " "),
		"args", strings.Join(j.Spec.Args, " "),
		"digest", j.Image,
		"asked", asked(j.Spec),
		"array", j.Spec.Array,
		"elements", elements(j),
		"failed", failedElements(j),
		"number", j.Number,
		"apps", apps(j.Spec),
		"after", j.Spec.After,
		"begin", a.timeOr(j.Spec.Begin),
		"deadline", a.timeOr(j.Spec.Deadline),
		"submitted", a.clockOr(&j.Submitted, ""),
		"quoted", a.quoted(j.Quoted),
		"started", a.clockOr(j.Started, ""),
		"ended", a.clockOr(j.Ended, ""),
		"stopped", a.clockOr(j.Stopped, ""),
		"ran", a.jobTime(j),
		"until", a.runsUntil(j),
		"node", nodesOf(j),
		"devices", devices(j),
		"given", strings.Join(j.Given, " "),
		"uses", uses(j),
		"idle", a.idleness(j),
		"attempt", attempt(j.Attempt),
		"shared", a.sharedWith(j.Shared),
	)
	a.writeReceipt(w, j.Receipt)
	if len(j.Reasons) > 0 {
		fmt.Fprintln(w)
		a.printReasons(w, "", 0, j.Reasons, "")
	}
	a.printRemedy(w, j.ID, j.Remedy)
}

// kindOf is left out for what nearly all jobs are, and where place says it.
func kindOf(s v1.JobSpec) string {
	if s.Kind == v1.KindWorkspace {
		return s.Kind
	}
	return ""
}

// apps is "web 8888, board 6006".
func apps(s v1.JobSpec) string {
	var out []string
	for _, a := range s.Apps {
		out = append(out, a.Name+" "+strconv.Itoa(a.Port))
	}
	return strings.Join(out, ", ")
}

// nodesOf is where a job runs, "gpu1" or "gpu1,gpu2".
func nodesOf(j *v1.Job) string {
	if len(j.Nodes) > 0 {
		return strings.Join(j.Nodes, ",")
	}
	return j.Node
}

// devices is "gpu0 gpu1" or, of a part, "0.5 of gpu0".
func devices(j *v1.Job) string {
	names := strings.Join(j.Devices, " ")
	if j.Part != "" && names != "" {
		return string(j.Part) + " of " + names
	}
	return names
}

// uses is "0.02 of 8 cpu  1.2G of 64G mem  gpu0 97 %".
func uses(j *v1.Job) string {
	u := j.Usage
	if u == nil {
		return ""
	}
	parts := []string{cmp.Or(string(u.CPU), "?") + " of " + string(j.Spec.CPU) + " cpu", string(u.Mem) + " of " + string(j.Spec.Mem) + " mem"}
	for _, d := range u.Devices {
		busy := "?"
		if d.Percent != nil {
			busy = strconv.FormatInt(*d.Percent, 10)
		}
		parts = append(parts, d.Name+" "+busy+" %")
	}
	return strings.Join(parts, "  ")
}

// devicesOf is how many devices a job has or asks for, or else of a part its memory.
func devicesOf(j *v1.Job) string { return string(cmp.Or(j.Part, j.Spec.GPU, j.Spec.GPUMem)) }

func elements(j *v1.Job) string {
	if j.Array == nil {
		return ""
	}
	return arrayInfo(j)
}

// failedElements names those of an array that didn't complete.
func failedElements(j *v1.Job) string {
	if j.Array == nil || j.Array.Failed == "" {
		return ""
	}
	if j.Array.More > 0 {
		return j.Array.Failed + " and " + grouped(j.Array.More) + " more"
	}
	return j.Array.Failed
}

// timeOr shows a time that is kept as text.
func (a *app) timeOr(text string) string {
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return a.clock(t)
	}
	return text
}

// attempt is left out for the first.
func attempt(n int) string {
	if n <= 1 {
		return ""
	}
	return strconv.Itoa(n)
}

func (a *app) runsUntil(j *v1.Job) string {
	if j.Ended != nil || j.Limit == nil {
		return ""
	}
	return a.clock(*j.Limit) + " at the latest"
}

// asked is what a spec asks for, such as "1 gpu  8 cpu  64G mem  2h".
func asked(s v1.JobSpec) string {
	var parts []string
	add := func(q v1.Quantity, unit string) {
		if q != "" && q != "0" {
			parts = append(parts, strings.TrimSpace(string(q)+" "+unit))
		}
	}
	gpu := "gpu"
	if s.Model != "" {
		gpu = s.Model
	}
	if s.Nodes > 1 {
		parts = append(parts, strconv.Itoa(s.Nodes)+" nodes, each")
	}
	add(s.GPU, gpu)
	add(s.GPUMem, "gpu-mem")
	add(s.CPU, "cpu")
	add(s.Mem, "mem")
	add(s.Time, "")
	add(v1.Quantity(s.Constraint), "")
	if s.Reservation != "" {
		parts = append(parts, "in reservation "+s.Reservation)
	}
	return strings.Join(parts, "  ")
}

func (a *app) writeReceipt(w io.Writer, r *v1.Receipt) {
	if r == nil || r.Billing == "off" {
		return
	}
	fmt.Fprintf(w, "\n%s%s, account %s", receiptLine(r), a.paidUntil(r), clean(r.Account))
	if len(r.Grants) > 0 {
		fmt.Fprintf(w, " (%s)", clean(strings.Join(r.Grants, ", ")))
	}
	fmt.Fprintln(w)
	if len(r.Lines) == 0 {
		return
	}
	t := newTable("RESOURCE", "~MODEL", ">AMOUNT", ">RATE", ">CREDITS")
	for _, l := range r.Lines {
		t.row(l.Resource, l.Model, l.Amount, l.Rate, l.Credits)
	}
	t.write(w, a.width(), a.paintState)
}

// paidUntil says how long a rolling deposit lasts.
func (a *app) paidUntil(r *v1.Receipt) string {
	switch {
	case r.Paid == nil:
		return ""
	case r.Short != nil:
		return ", ends " + a.clock(*r.Paid) + " unless money comes"
	}
	return ", paid until " + a.clock(*r.Paid) + " and renewed before that"
}

// receiptLine is "deposit 2.288, charged 1.373, returned 0.915".
func receiptLine(r *v1.Receipt) string {
	s := "deposit " + clean(r.Deposit) + ", charged " + clean(r.Charged)
	if r.Final {
		s += ", returned " + clean(r.Returned)
	} else {
		s += " so far"
	}
	return s
}

func (a *app) writeWhy(w io.Writer, y *v1.Why) {
	fmt.Fprintln(w, a.headline(y))
	if len(y.Reasons) > 0 {
		a.printReasons(w, "  ", 2, y.Reasons, "")
	} else if y.Job.State == "queued" && y.Summary != "" {
		fmt.Fprintln(w, "  "+clean(y.Summary))
	}
	for _, h := range y.Holders {
		fmt.Fprintln(w, "  "+a.holder(h))
	}
	writePriority(w, y.Priority)
	if y.Remedy == nil {
		return
	}
	flags := clean(y.Remedy.Flags)
	if flags == "" {
		flags = settings(y.Remedy.Set)
	}
	would := "would be admitted"
	if y.Remedy.Start != nil {
		would = strings.Replace(a.starts(*y.Remedy.Start, y.Remedy.Exact), "starts", "would start", 1)
	}
	fmt.Fprintf(w, "  %s: %s\n", would, flags)
	if strings.HasPrefix(y.Job.ID, "R-") {
		fmt.Fprintf(w, "try:  croft clone %s %s\n", clean(y.Job.ID), flags)
	}
}

// headline says what a job does: "131 waits, 2nd in queue gpu, starts about 14:20".
func (a *app) headline(y *v1.Why) string {
	id := clean(y.Job.ID)
	if y.Job.State == "refused" && len(y.Reasons) > 0 {
		return id + " was refused"
	}
	if y.Job.State == "held" {
		line := id + " is held back"
		if y.Window.Start != nil {
			line += ", " + a.window(y.Window)
		}
		return line
	}
	if y.Job.State != "queued" {
		summary := clean(y.Summary)
		if summary == "" {
			summary = jobState(&y.Job)
		}
		return id + " " + strings.TrimPrefix(summary, id+" ")
	}
	line := a.window(y.Window)
	if p := y.Job.Spec.Partition; p != "" {
		line = strings.Replace(line, " in queue", " in queue "+clean(p), 1)
	}
	return id + " waits, " + line
}

// holder is "2 gpu with job 120 of u017 (vision) until 14:20 at the latest".
func (a *app) holder(h v1.Holder) string {
	s := clean(h.What)
	if h.Job != "" {
		s += " with job " + clean(h.Job)
	}
	switch {
	case h.User != "" && h.Account != "":
		s += " of " + clean(h.User) + " (" + clean(h.Account) + ")"
	case h.User != "":
		s += " of " + clean(h.User)
	case h.Account != "":
		s += " of account " + clean(h.Account)
	}
	if h.Until != nil {
		s += " until " + a.clock(*h.Until) + " at the latest"
	}
	return s
}

// writePriority says what a priority is made of, and where its parts come from.
func writePriority(w io.Writer, factors []v1.Factor) {
	line := priority(factors)
	if line == "" {
		return
	}
	fmt.Fprintln(w, "  "+line)
	for _, f := range factors {
		if f.Meaning != "" {
			fmt.Fprintln(w, "    "+clean(f.Name)+": "+clean(f.Meaning))
		}
	}
}

// priority is "priority 1,240 = fair share 900 + age 240 + QoS 100", of the
// factors that count; "" when none does.
func priority(factors []v1.Factor) string {
	var sum int64
	var parts []string
	for _, f := range factors {
		if f.Value != 0 {
			sum += f.Value
			parts = append(parts, clean(f.Name)+" "+grouped(f.Value))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "priority " + grouped(sum) + " = " + strings.Join(parts, " + ")
}

func (a *app) eventsCmd() *cobra.Command {
	var q v1.EventQuery
	var follow bool
	var last int
	cmd := &cobra.Command{
		Use:   "events",
		Short: "Show what happened, and what happens",
		Long: `Show the latest events that you may see, and with -f those that follow.
With -o json -f each event is one line.`,
		Example: `  croft events
  croft events --job 118
  croft events -f -o json`,
		Args: needArgs(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			if q.After == 0 && q.Job == "" {
				st, err := c.Status(cmd.Context())
				if err != nil {
					return err
				}
				q.After = max(0, st.Seq-int64(last))
			}
			if follow {
				return a.followEvents(cmd, c, q)
			}
			events, err := latestEvents(cmd.Context(), c, q, last)
			if err != nil {
				return err
			}
			return printList(a, events, "no events", a.eventTable(events))
		},
	}
	fs := cmd.Flags()
	fs.Int64Var(&q.After, "after", 0, "events after this sequence number")
	fs.StringVarP(&q.Job, "job", "j", "", "only of this job")
	fs.BoolVarP(&follow, "follow", "f", false, "go on with the events that follow")
	fs.IntVarP(&last, "last", "n", 50, "how many")
	a.completeFlag(cmd, "job", a.jobIDs("all"))
	return cmd
}

// latestEvents are the last n of what q selects; behind a sequence number that somebody has
// named, the first n.
func latestEvents(ctx context.Context, c *v1.Client, q v1.EventQuery, n int) ([]v1.Event, error) {
	if q.Job == "" || q.After != 0 || n <= 0 {
		q.Limit = n
		page, err := c.EventPage(ctx, q)
		if err != nil {
			return nil, err
		}
		return page.Items, nil
	}
	var out []v1.Event
	for {
		page, err := c.EventPage(ctx, q)
		if err != nil {
			return nil, err
		}
		out = append(out, page.Items...)
		out = out[max(0, len(out)-n):]
		if q.After, err = strconv.ParseInt(page.Next, 10, 64); err != nil {
			return out, nil // that was the last page
		}
	}
}

func (a *app) eventTable(events []v1.Event) *table {
	t := newTable(">SEQ", "AT", "KIND", "BY", "JOB", "STATE", "~MESSAGE")
	for _, e := range events {
		t.row(strconv.FormatInt(e.Seq, 10), a.moment(e.At), e.Kind, e.By, e.Job, e.State, eventText(e))
	}
	return t
}

// moment is clock with seconds, for things that follow each other.
func (a *app) moment(t time.Time) string {
	now, t := a.env.Now().In(a.env.Zone), t.In(a.env.Zone)
	if dayOf(now) == dayOf(t) {
		return t.Format(time.TimeOnly)
	}
	return t.Format("01-02 15:04:05")
}

func eventText(e v1.Event) string {
	parts := slices.DeleteFunc([]string{e.Account, e.Message}, func(s string) bool { return s == "" })
	for _, r := range e.Reasons {
		parts = append(parts, r.Code)
	}
	return strings.Join(parts, " ")
}

func (a *app) followEvents(cmd *cobra.Command, c *v1.Client, q v1.EventQuery) error {
	for e, err := range c.FollowEvents(cmd.Context(), q, away) {
		if err != nil {
			return err
		}
		switch a.output {
		case "json":
			err = writeJSON(a.env.Stdout, e, "")
		case "yaml":
			if _, err = io.WriteString(a.env.Stdout, "---\n"); err == nil {
				err = writeYAML(a.env.Stdout, e)
			}
		default:
			_, err = fmt.Fprintf(a.env.Stdout, "%6d  %s  %s\n", e.Seq, a.moment(e.At), cut(eventLine(e), tableWidth-18))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func eventLine(e v1.Event) string {
	parts := slices.DeleteFunc([]string{e.Kind, e.By, e.Job, e.State, eventText(e)}, func(s string) bool { return s == "" })
	return clean(strings.Join(parts, "  "))
}

// place says where a job's own program runs, if not in a container.
func place(spec v1.JobSpec) string {
	if spec.Kind == v1.KindBatch {
		return "on the machine itself"
	}
	return ""
}

// ranIn is a step's image, or where it runs without one.
func ranIn(s v1.StepSpec) string {
	if s.Host {
		return "host"
	}
	return s.Image
}
