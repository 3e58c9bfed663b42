package cli

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	v1 "croft.dev/croft/api/v1"
)

// The fields of sacct when none are asked for (sacct(1)).
const (
	sacctUsual = "jobid,jobname,partition,account,alloccpus,state,exitcode"
	sacctBrief = "jobid,state,exitcode"
	sacctWide  = "jobid,jobidraw,jobname,user,account,partition,qos,nodelist,reqcpus,alloccpus,reqmem,reqtres,submit,start,end,elapsed,timelimit,state,exitcode"
)

func (a *app) sacctCmd() *cobra.Command {
	var s jobSelection
	var o struct {
		fields, delimiter, from, to   string
		noheader, brief, wide, list   bool
		parsable, parsable2, everyone bool
		allocations                   bool
	}
	cmd := a.batchCmd(&cobra.Command{
		Use:   "sacct [flags]",
		Short: "List jobs with their outcomes, as Slurm's sacct does",
		Long: `List jobs, ended or not, with their outcomes, as Slurm's sacct does: yours of
today, or those that --jobs, --starttime and the other flags choose. Further programs
that ran in a job follow it, as 118.2; its own is the job's line.`,
		Example: `  sacct -j 118
  sacct -S 2026-11-01 -E 2026-12-01 -X -o jobid,elapsed,state
  sacct --parsable2 -n -o JobID,State,NodeList -j 118 -j 119`,
		Args: needArgs(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.list {
				return a.listSacctFields()
			}
			f, err := sacctFormat(otherwise(o.fields, otherwise(truth(o.brief, sacctBrief, ""), truth(o.wide, sacctWide, sacctUsual))))
			if err != nil {
				return err
			}
			s.me = len(s.ids) == 0 && len(s.users) == 0 && !o.everyone && !a.isRoot()
			q, outcomes, err := s.query("all")
			if err != nil {
				return err
			}
			if err := a.sacctPeriod(&q, o.from, o.to); err != nil {
				return err
			}
			jobs, err := a.batchJobs(cmd.Context(), q, outcomes, 0)
			if err != nil {
				return err
			}
			rows := jobs
			if !o.allocations && a.output != "json" {
				if rows, err = a.withSteps(cmd.Context(), jobs, false); err != nil {
					return err
				}
				rows = chosenSteps(rows, s.ids)
			}
			return a.print(wireJobs(jobs), func(w io.Writer) {
				if o.parsable || o.parsable2 {
					f.delimited(w, rows, !o.noheader, o.delimiter, !o.parsable2)
					return
				}
				writeSacct(w, f, rows, !o.noheader)
			})
		},
	})
	slurmFlags(cmd, "h")
	fs := cmd.Flags()
	fs.StringSliceVarP(&s.ids, "jobs", "j", nil, "only these jobs")
	fs.StringSliceVar(&s.names, "name", nil, "only jobs with these names")
	fs.StringSliceVarP(&s.users, "user", "u", nil, "only of these users")
	fs.StringSliceVarP(&s.accounts, "accounts", "A", nil, "only of these accounts")
	fs.StringSliceVarP(&s.partitions, "partition", "r", nil, "only in these partitions")
	fs.StringSliceVarP(&s.qos, "qos", "q", nil, "only of these QoS")
	fs.StringSliceVarP(&s.states, "state", "s", nil, "only in these states, such as CD,F")
	fs.StringSliceVarP(&s.nodes, "nodelist", "N", nil, "only on these nodes")
	fs.BoolVarP(&o.everyone, "allusers", "a", false, "everybody's that you may see")
	fs.StringVarP(&o.from, "starttime", "S", "", "only jobs that hadn't ended by then, as 2026-12-01 or now-2days")
	fs.StringVarP(&o.to, "endtime", "E", "", "only jobs submitted before then")
	fs.StringVarP(&o.fields, "format", "o", "", "fields, as jobid,jobname%30,state; --helpformat lists them")
	fs.BoolVarP(&o.list, "helpformat", "e", false, "list the fields")
	fs.BoolVarP(&o.noheader, "noheader", "n", false, "no line of headings")
	fs.BoolVarP(&o.parsable, "parsable", "p", false, "fields end with |")
	fs.BoolVarP(&o.parsable2, "parsable2", "P", false, "fields are separated by |")
	fs.StringVar(&o.delimiter, "delimiter", "|", "what -p and -P put instead of |")
	fs.BoolVarP(&o.brief, "brief", "b", false, "few fields")
	fs.BoolVarP(&o.wide, "long", "l", false, "many fields")
	fs.BoolVarP(&o.allocations, "allocations", "X", false, "no steps")
	ignored(fs, "truncate", "T", "duplicates", "D", "allclusters", "L", "noconvert", "", "completion", "c")
	a.completeJobs(cmd, "jobs", "user", "accounts", "partition")
	return cmd
}

// isRoot reports whether root asks: for root Slurm's accounting shows everybody's.
func (a *app) isRoot() bool { return a.env.UID == 0 }

func (a *app) listSacctFields() error {
	for i, f := range sacctFields {
		fmt.Fprintf(a.env.Stdout, "%-20s", f.name)
		if i%4 == 3 || i == len(sacctFields)-1 {
			fmt.Fprintln(a.env.Stdout)
		}
	}
	return nil
}

// sacctFormat reads "jobid,jobname%30,state%-12": after % is a width, flush left
// when negative.
func sacctFormat(s string) (format[batchJob], error) {
	f := format[batchJob]{exact: true, mark: "+"}
	for word := range strings.SplitSeq(s, ",") {
		name, width, sized := strings.Cut(strings.TrimSpace(word), "%")
		if name == "" {
			continue
		}
		i := slices.IndexFunc(sacctFields, func(f sacctField) bool { return strings.EqualFold(f.name, name) })
		if i < 0 {
			return f, usage("--format: there is no field %q; sacct --helpformat lists them", cut(name, 20))
		}
		n := sacctFields[i].width
		if sized {
			var err error
			if n, err = strconv.Atoi(width); err != nil || n == 0 || n > maxWidth || n < -maxWidth {
				return f, usage("--format: %q isn't a width", cut(width, 20))
			}
		}
		p := piece[batchJob]{column: &column[batchJob]{head: sacctFields[i].name, get: jobColumns[sacctFields[i].column]}, width: n, right: true}
		if n < 0 {
			p.width, p.right = -n, false
		}
		f.parts = append(f.parts, p, piece[batchJob]{text: " "})
	}
	if len(f.parts) == 0 {
		return f, usage("--format: no fields; sacct --helpformat lists them")
	}
	return f, nil
}

// writeSacct writes a table with a line under its headings.
func writeSacct(w io.Writer, f format[batchJob], jobs []batchJob, header bool) {
	if header {
		f.write(w, nil, true)
		rule := format[batchJob]{}
		for _, p := range f.parts {
			if p.column != nil {
				p.text, p.column = strings.Repeat("-", p.width), nil
			}
			rule.parts = append(rule.parts, p)
		}
		rule.write(w, []batchJob{{}}, false)
	}
	f.write(w, jobs, false)
}

// sacctPeriod sets the period: with neither bound nor jobs, today so far.
func (a *app) sacctPeriod(q *v1.JobQuery, from, to string) error {
	if from == "" && q.ID == "" {
		from = "00:00"
	}
	var err error
	if from != "" {
		if q.From, err = a.slurmTime(from); err != nil {
			return err
		}
	}
	if to != "" {
		if q.To, err = a.slurmTime(to); err != nil {
			return err
		}
	}
	return nil
}

// slurmTime reads a time as Slurm's commands take it: 00:00 (today), 2026-12-01,
// 2026-12-01T16:40, 12/01/26, now, now-2days, today, midnight, noon and so on.
func (a *app) slurmTime(s string) (time.Time, error) {
	now := a.env.Now().In(a.env.Zone)
	today := time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, a.env.Zone)
	word := strings.ToLower(s)
	for name, t := range map[string]time.Time{
		"now": now, "today": today, "midnight": today, "noon": today.Add(12 * time.Hour), "teatime": today.Add(16 * time.Hour),
		"tomorrow": today.AddDate(0, 0, 1), "yesterday": today.AddDate(0, 0, -1),
	} {
		rest, ok := strings.CutPrefix(word, name)
		if !ok {
			continue
		}
		if rest == "" {
			return t, nil
		}
		if d, ok := slurmOffset(rest); ok {
			return t.Add(d), nil
		}
	}
	for _, layout := range []string{
		"2006-01-02", "2006-01-02T15:04", "2006-01-02T15:04:05", "2006-01-02 15:04", "2006-01-02 15:04:05",
		"01/02/06", "01/02/06-15:04", "01/02/06-15:04:05", "010206",
	} {
		if t, err := time.ParseInLocation(layout, s, a.env.Zone); err == nil {
			return t, nil
		}
	}
	for _, layout := range []string{"15:04", "15:04:05", "3:04PM", "3PM"} {
		if t, err := time.Parse(layout, strings.ToUpper(s)); err == nil {
			return today.Add(time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute + time.Duration(t.Second())*time.Second), nil
		}
	}
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return t, nil
	}
	return time.Time{}, usage("%q: want a time as 16:40, 2026-12-01, 2026-12-01T16:40, now or now-2days", s)
}

// slurmOffset reads "-2days", "+1hour", "+30" (seconds).
func slurmOffset(s string) (time.Duration, bool) {
	number := strings.TrimLeft(s, "+-")
	digits := len(number) - len(strings.TrimLeft(number, "0123456789"))
	n, err := strconv.ParseInt(number[:digits], 10, 32)
	if err != nil || len(s)-len(number) != 1 {
		return 0, false
	}
	unit := time.Second
	switch strings.TrimSuffix(number[digits:], "s") {
	case "", "second":
	case "minute":
		unit = time.Minute
	case "hour":
		unit = time.Hour
	case "day":
		unit = 24 * time.Hour
	case "week":
		unit = 7 * 24 * time.Hour
	default:
		return 0, false
	}
	if s[0] == '-' {
		unit = -unit
	}
	return time.Duration(n) * unit, true
}

func (a *app) cacctCmd() *cobra.Command {
	var s jobSelection
	var o craneTable
	var submitted, started, ended string
	var kinds []string
	cmd := a.batchCmd(&cobra.Command{
		Use:   "cacct [flags]",
		Short: "List jobs with their outcomes, as CraneSched's cacct does",
		Long: `List the jobs that you may see, ended or not, the newest first, as CraneSched's
cacct does, with the further programs that ran in them. Ranges of time are FROM~TO;
either end may be left out.`,
		Example: `  cacct -j 118,119
  cacct -u ada -t failed,cancelled -m 20
  cacct -E 2026-11-01T00:00:00~2026-12-01T00:00:00 -o "%j %U %D %t"`,
		Args: needArgs(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			f, err := o.formatOf("%j %n %P %a %c %t %e", cacctColumns(), cacctWords)
			if err != nil {
				return err
			}
			q, outcomes, err := s.query("all")
			if err != nil {
				return err
			}
			keep, err := a.craneRanges(&q, submitted, started, ended)
			if err != nil {
				return err
			}
			jobs, most := []batchJob{}, o.most
			if submitted+started+ended != "" {
				most = 0 // the server doesn't choose by all that the ranges do
			}
			if len(kinds) == 0 || slices.ContainsFunc(kinds, func(k string) bool { return strings.EqualFold(k, "container") }) {
				if jobs, err = a.batchJobs(cmd.Context(), q, outcomes, most); err != nil {
					return err
				}
			}
			jobs = slices.DeleteFunc(jobs, func(j batchJob) bool { return !keep(j) })
			slices.Reverse(jobs)
			if o.most > 0 && len(jobs) > o.most {
				jobs = jobs[:o.most]
			}
			rows := jobs
			if a.output != "json" {
				if rows, err = a.withSteps(cmd.Context(), jobs, false); err != nil {
					return err
				}
				rows = chosenSteps(rows, s.ids)
			}
			return a.print(wireJobs(jobs), func(w io.Writer) { f.write(w, rows, !o.noheader) })
		},
	})
	craneFlags(cmd)
	s.craneFlags(cmd, "job", "only these jobs", "p, r, c, f, x (cancelled), t (time limit); or all")
	o.flags(cmd)
	fs := cmd.Flags()
	fs.StringVarP(&submitted, "submit-time", "s", "", "only jobs submitted in `FROM~TO`")
	fs.StringVarP(&started, "start-time", "S", "", "only jobs started in `FROM~TO`")
	fs.StringVarP(&ended, "end-time", "E", "", "only jobs ended in `FROM~TO`")
	fs.StringSliceVar(&kinds, "type", nil, "only jobs of these types; every job here is a Container")
	a.completeJobs(cmd, "job", "user", "account", "partition")
	return cmd
}

// craneRanges reads the ranges of time, narrows the query as far as it goes and
// returns what a job must fulfil besides.
func (a *app) craneRanges(q *v1.JobQuery, submitted, started, ended string) (keep func(batchJob) bool, err error) {
	var spans [3]struct{ from, to time.Time }
	for i, text := range []string{submitted, started, ended} {
		if text == "" {
			continue
		}
		from, to, ok := strings.Cut(text, "~")
		if !ok {
			return nil, usage("%q: want a range of time, as 2026-12-01T10:00:00~2026-12-02T10:00:00, or one end of it with ~", text)
		}
		if from != "" {
			if spans[i].from, err = a.slurmTime(from); err != nil {
				return nil, err
			}
		}
		if to != "" {
			if spans[i].to, err = a.slurmTime(to); err != nil {
				return nil, err
			}
		}
	}
	for _, s := range spans {
		// Whoever was submitted, started or ended by a time hadn't ended before it, and
		// was submitted by then.
		if s.from.After(q.From) {
			q.From = s.from
		}
		if !s.to.IsZero() && (q.To.IsZero() || s.to.Before(q.To)) {
			q.To = s.to.Add(time.Nanosecond)
		}
	}
	return func(j batchJob) bool {
		for i, t := range []*time.Time{&j.Submitted, j.Started, j.Ended} {
			s := spans[i]
			if s.from.IsZero() && s.to.IsZero() {
				continue
			}
			if t == nil || t.Before(s.from) || !s.to.IsZero() && t.After(s.to) {
				return false
			}
		}
		return true
	}, nil
}
