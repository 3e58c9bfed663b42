package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	v1 "croft.dev/croft/api/v1"
)

// The formats of squeue when none is asked for (squeue(1)).
const (
	squeueShort = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R"
	squeueLong  = "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R"
	squeueStart = "%.18i %.9P %.8j %.8u %.2t %.19S %.6D %.20b %R"
)

// recently is how long squeue lists jobs after their end, when asked for such.
const recently = 5 * time.Minute

func (a *app) squeueCmd() *cobra.Command {
	var s jobSelection
	var o struct {
		short, long, sort string
		noheader, wide    bool
		start             bool
		every             uint
	}
	cmd := a.batchCmd(&cobra.Command{
		Use:   "squeue [flags]",
		Short: "List jobs, as Slurm's squeue does",
		Long: `List the jobs that you may see and that haven't ended, as Slurm's squeue does, so
that scripts made for it work. With --states all, also those that ended in the last
five minutes. Why a job waits, in full: croft why JOB.`,
		Example: `  squeue --me
  squeue -h -j 118 -o %T
  squeue -u ada -t PD,R -O jobid,name:30,state`,
		Args: needArgs(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			f, err := squeueFormat(o.short, o.long, o.wide, o.start)
			if err != nil {
				return err
			}
			q, outcomes, err := s.query("live")
			if err != nil {
				return err
			}
			if q.State == "all" || len(outcomes) > 0 {
				q.From = a.env.Now().Add(-recently)
			}
			return a.repeat(cmd.Context(), o.every, func() error {
				jobs, err := a.batchJobs(cmd.Context(), q, outcomes, 0)
				if err != nil {
					return err
				}
				jobs = inQueue(jobs, q)
				if o.start {
					jobs = slices.DeleteFunc(jobs, func(j batchJob) bool { return j.Node != "" || j.Ended != nil })
					a.expect(cmd, jobs)
				}
				if err := sortJobs(jobs, otherwise(o.sort, "P,t")); err != nil {
					return err
				}
				return a.print(wireJobs(jobs), func(w io.Writer) { f.write(w, jobs, !o.noheader) })
			})
		},
	})
	slurmFlags(cmd, "")
	fs := cmd.Flags()
	fs.StringSliceVarP(&s.ids, "jobs", "j", nil, "only these jobs")
	fs.StringSliceVarP(&s.names, "name", "n", nil, "only jobs with these names")
	fs.StringSliceVarP(&s.users, "user", "u", nil, "only of these users")
	fs.StringSliceVarP(&s.accounts, "account", "A", nil, "only of these accounts")
	fs.StringSliceVarP(&s.partitions, "partition", "p", nil, "only in these partitions")
	fs.StringSliceVarP(&s.qos, "qos", "q", nil, "only of these QoS")
	fs.StringSliceVarP(&s.states, "states", "t", nil, "only in these states, such as PD,R; or all")
	fs.StringSliceVarP(&s.nodes, "nodelist", "w", nil, "only on these nodes")
	fs.BoolVar(&s.me, "me", false, "only yours")
	fs.StringVarP(&o.short, "format", "o", "", "columns, as \"%i %j %T\"")
	fs.StringVarP(&o.long, "Format", "O", "", "columns, as jobid,name:30,state")
	fs.StringVarP(&o.sort, "sort", "S", "", "order by columns, as \"-p,i\"")
	fs.BoolVarP(&o.noheader, "noheader", "h", false, "no line of headings")
	fs.BoolVarP(&o.wide, "long", "l", false, "more columns")
	fs.BoolVar(&o.start, "start", false, "pending jobs with the times they are expected to start")
	fs.UintVarP(&o.every, "iterate", "i", 0, "again every so many seconds")
	ignored(fs, "all", "a", "array", "r", "noconvert", "", "priority", "P")
	a.completeJobs(cmd, "jobs", "user", "account", "partition")
	return cmd
}

func squeueFormat(short, long string, wide, start bool) (format[batchJob], error) {
	f := format[batchJob]{exact: true}
	var err error
	switch {
	case long != "":
		f.parts, err = parseNames(long)
		return f, err
	case short != "":
	case start:
		short = squeueStart
	case wide:
		short = squeueLong
	default:
		short = squeueShort
	}
	f.parts, err = parsePercent(short, byLetter(squeueColumns()))
	return f, err
}

// parseNames reads the columns of squeue -O: "jobid,name:30,state:.10".
func parseNames(s string) ([]piece[batchJob], error) {
	letters := squeueColumns()
	var parts []piece[batchJob]
	for word := range strings.SplitSeq(s, ",") {
		name, width, sized := strings.Cut(strings.TrimSpace(word), ":")
		l, ok := squeueWords[strings.ToLower(name)]
		if !ok {
			return nil, usage("format: there is no column %q", cut(name, 20))
		}
		c := letters[l]
		p := piece[batchJob]{column: &c, width: 20}
		if sized {
			width, p.right = strings.TrimPrefix(width, "."), strings.HasPrefix(width, ".")
			n, err := strconv.Atoi(width)
			if err != nil || n < 0 || n > maxWidth {
				return nil, usage("format: %q isn't a width", cut(width, 20))
			}
			p.width = n
		}
		parts = append(parts, p)
	}
	return parts, nil
}

// sortJobs orders jobs by columns: letters separated by commas, "-" before one turns
// its order round. Jobs that are equal stay in the order of submission.
func sortJobs(jobs []batchJob, by string) error {
	type key struct {
		get  func(batchJob) string
		down bool
	}
	var keys []key
	letters := squeueColumns()
	for word := range strings.SplitSeq(by, ",") {
		l, down := strings.CutPrefix(strings.TrimSpace(word), "-")
		c, ok := letters[strings.TrimPrefix(l, "+")]
		if !ok {
			return usage("--sort %s: there is no column %q", by, word)
		}
		keys = append(keys, key{c.get, down})
		if l == "t" || l == "T" {
			keys[len(keys)-1].get = func(j batchJob) string { return truth(j.Node == "" && j.Ended == nil, "0", "1") }
		}
	}
	slices.SortStableFunc(jobs, func(x, y batchJob) int {
		for _, k := range keys {
			c := natural(k.get(x), k.get(y))
			if k.down {
				c = -c
			}
			if c != 0 {
				return cmp.Compare(c, 0)
			}
		}
		return 0
	})
	return nil
}

// maxExpected bounds the jobs that are asked about one by one.
const maxExpected = 100

// expect fills in when pending jobs are expected to start, of the first ones.
func (a *app) expect(cmd *cobra.Command, jobs []batchJob) {
	asked := 0
	for i := range jobs {
		if jobs[i].State != "queued" || asked == maxExpected {
			continue
		}
		asked++
		if job, err := a.api.Job(cmd.Context(), jobs[i].ID); err == nil { // it may have ended meanwhile
			jobs[i].Job = *job
		}
	}
}

func (a *app) cqueueCmd() *cobra.Command {
	var s jobSelection
	var o craneTable
	var start, steps bool
	var every uint
	cmd := a.batchCmd(&cobra.Command{
		Use:   "cqueue [flags]",
		Short: "List jobs, as CraneSched's cqueue does",
		Long: `List the jobs that you may see and that haven't ended, as CraneSched's cqueue
does. Why a job waits, in full: croft why JOB.`,
		Example: `  cqueue --self
  cqueue -u ada -t pending
  cqueue -j 118 -N -o "%j %t"`,
		Args: needArgs(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			f, err := o.formatOf(otherwise(truth(start, "%j %P %n %u %a %t %T %S %l %N %L", ""), "%j %P %n %u %a %t %T %e %l %N %L"), cqueueColumns(), cqueueWords)
			if err != nil {
				return err
			}
			q, _, err := s.query("live")
			if err != nil {
				return err
			}
			if q.State == "all" {
				q.State = "live"
			}
			return a.repeat(cmd.Context(), every, func() error {
				jobs, err := a.batchJobs(cmd.Context(), q, nil, o.most)
				if err != nil {
					return err
				}
				jobs = inQueue(jobs, q)
				if start {
					a.expect(cmd, jobs)
				}
				slices.Reverse(jobs)
				rows := jobs
				if steps && a.output != "json" {
					if rows, err = a.withSteps(cmd.Context(), jobs, true); err != nil {
						return err
					}
					rows = slices.DeleteFunc(chosenSteps(rows, s.ids), func(j batchJob) bool { return !strings.Contains(j.ID, ".") })
				}
				return a.print(wireJobs(jobs), func(w io.Writer) { f.write(w, rows, !o.noheader) })
			})
		},
	})
	craneFlags(cmd)
	s.craneFlags(cmd, "job", "only these jobs", "pending (p), running (r) or all")
	o.flags(cmd)
	fs := cmd.Flags()
	fs.BoolVar(&s.me, "self", false, "only yours")
	fs.BoolVarP(&steps, "step", "s", false, "the further programs of the jobs, instead of the jobs")
	fs.BoolVarP(&start, "start", "S", false, "the times at which jobs started or are expected to")
	fs.UintVarP(&every, "iterate", "i", 0, "again every so many seconds")
	a.completeJobs(cmd, "job", "user", "account", "partition")
	return cmd
}

// craneFlags are CraneSched's flags for choosing jobs.
func (s *jobSelection) craneFlags(cmd *cobra.Command, ids, idsText, states string) {
	fs := cmd.Flags()
	if ids != "" {
		fs.StringSliceVarP(&s.ids, ids, "j", nil, idsText)
	}
	fs.StringSliceVarP(&s.names, "name", "n", nil, "only jobs with these names")
	fs.StringSliceVarP(&s.users, "user", "u", nil, "only of these users")
	fs.StringSliceVarP(&s.accounts, "account", "A", nil, "only of these accounts")
	fs.StringSliceVarP(&s.partitions, "partition", "p", nil, "only in these partitions")
	fs.StringSliceVarP(&s.qos, "qos", "q", nil, "only of these QoS")
	fs.StringSliceVarP(&s.nodes, "nodelist", "w", nil, "only on these nodes, such as gpu[1-3]")
	fs.VarP((*craneStates)(&s.states), "state", "t", "only in these states: "+states)
}

// craneTable is how CraneSched's listings look.
type craneTable struct {
	format         string
	full, noheader bool
	most           int
}

func (o *craneTable) flags(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVarP(&o.format, "format", "o", "", "columns, as \"%j %.10n %State\": a dot is flush right, a number the least width")
	fs.BoolVarP(&o.full, "full", "F", false, "don't cut cells at 30 characters")
	fs.BoolVarP(&o.noheader, "noheader", "N", false, "no line of headings")
	fs.IntVarP(&o.most, "max-lines", "m", 1000, "at most this many jobs; 0 is no bound")
}

// craneCell is how much of a cell CraneSched shows.
const craneCell = 30

func (o *craneTable) formatOf(usual string, letters map[string]column[batchJob], words map[string]string) (format[batchJob], error) {
	f := format[batchJob]{aligned: true}
	var err error
	f.parts, err = parsePercent(otherwise(o.format, usual), byWord(letters, words))
	if o.format != "" || o.full {
		return f, err
	}
	for i := range f.parts {
		if c := f.parts[i].column; c != nil {
			get := c.get
			c.get = func(j batchJob) string { return prefix(clean(get(j)), craneCell) }
		}
	}
	return f, err
}

// craneStates is a flag's list of states; the letters are CraneSched's.
type craneStates []string

var craneLetters = map[string]string{
	"p": "pending", "r": "running", "c": "completed", "f": "failed", "x": "cancelled", "t": "timeout", "time-limit-exceeded": "timeout",
	"deadline": "deadline", "out-of-memory": "out_of_memory", "o": "out_of_memory",
}

func (s *craneStates) String() string { return strings.Join(*s, ",") }
func (s *craneStates) Type() string   { return "strings" }

func (s *craneStates) Set(list string) error {
	for word := range strings.SplitSeq(list, ",") {
		word = strings.ToLower(strings.TrimSpace(word))
		if long, ok := craneLetters[word]; ok {
			word = long
		}
		if word == "" {
			return fmt.Errorf("an empty state")
		}
		*s = append(*s, word)
	}
	return nil
}

// inQueue leaves stopped workspaces out unless they were asked for: batch systems have
// nothing in their queues that waits for no turn.
func inQueue(jobs []batchJob, q v1.JobQuery) []batchJob {
	if q.State != "live" {
		return jobs
	}
	return slices.DeleteFunc(jobs, func(j batchJob) bool { return j.State == "stopped" })
}
