package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	v1 "croft.dev/croft/api/v1"
)

// A report's name is two words.
const (
	reportTop      = "user topusage"
	reportByUser   = "cluster accountutilizationbyuser"
	reportByAcct   = "cluster userutilizationbyaccount"
	reportByQoS    = "cluster accountutilizationbyqos"
	reportSizes    = "job sizesbyaccount"
	reportTopCount = 10
)

func reports() []string {
	return []string{reportTop, reportByUser, reportByAcct, reportByQoS, reportSizes}
}

// reportOptions are the flags of creport.
type reportOptions struct {
	from, to             string
	accounts, users, qos []string
	top                  int
	group, counts        bool
	grouping             string
}

func (a *app) creportCmd() *cobra.Command {
	var o reportOptions
	cmd := a.batchCmd(&cobra.Command{
		Use:   "creport WHAT REPORT [flags]",
		Short: "Report who used how much, as CraneSched's creport does",
		Long: `Report who used how much, as CraneSched's creport does:

  user topusage                      who used most
  cluster accountutilizationbyuser   each account, and its users
  cluster userutilizationbyaccount   each user, and his accounts
  cluster accountutilizationbyqos    each account, by QoS
  job sizesbyaccount                 each account's credits, by the devices of its jobs

The numbers are those of croft statement: device-hours and credits that were posted, of
whole days in UTC; by default those of the current month. What you may not look at is in
them as (others).`,
		Example: `  creport user topusage -S 2026-11-01 -E 2026-12-01
  creport cluster accountutilizationbyuser -A nlp
  creport job sizesbyaccount --grouping 1,2,4,8`,
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return reportWords(args), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			name := strings.ToLower(strings.Join(args, " "))
			if !slices.Contains(reports(), name) {
				return usage("there is no report %q: one of %s", cut(name, 40), strings.Join(reports(), "; "))
			}
			if o.top < 1 {
				return usage("--topcount must be at least 1")
			}
			return a.creport(cmd.Context(), name, o)
		},
	})
	craneFlags(cmd)
	fs := cmd.Flags()
	fs.StringVarP(&o.from, "start-time", "S", "", "first day, as 2026-11-01 or now-7days; by default the first of the month")
	fs.StringVarP(&o.to, "end-time", "E", "", "time before which it ends, as 2026-12-01; by default now")
	fs.StringSliceVarP(&o.accounts, "account", "A", nil, "only these accounts, with those below them")
	fs.StringSliceVarP(&o.users, "user", "u", nil, "only these users")
	fs.StringSliceVarP(&o.qos, "qos", "q", nil, "only these QoS, by QoS and by size")
	fs.IntVar(&o.top, "topcount", reportTopCount, "how many users at most, of topusage")
	fs.BoolVar(&o.group, "group", false, "one line for a user, whatever accounts he used, of topusage")
	fs.StringVar(&o.grouping, "grouping", "1,2,4,8", "devices at which groups of sizesbyaccount begin")
	fs.BoolVar(&o.counts, "print-job-count", false, "numbers of jobs in place of credits, of sizesbyaccount")
	a.completeFlag(cmd, "account", a.accountNames)
	a.completeFlag(cmd, "user", a.userNames)
	return cmd
}

func reportWords(args []string) []cobra.Completion {
	var out []cobra.Completion
	for _, r := range reports() {
		first, second, _ := strings.Cut(r, " ")
		word := first
		if len(args) == 1 && args[0] == first {
			word = second
		} else if len(args) > 0 {
			continue
		}
		if !slices.Contains(out, word) {
			out = append(out, word)
		}
	}
	return out
}

// reportRow is a line of a report: what one user, or all of them, used in an account.
type reportRow struct {
	User     string `json:"user,omitempty"`
	Account  string `json:"account,omitempty"`
	QoS      string `json:"qos,omitempty"`
	Size     string `json:"size,omitempty"` // devices of the jobs
	Jobs     int64  `json:"jobs"`
	GPUHours string `json:"gpu_hours"`
	Credits  string `json:"credits"`
}

func (r reportRow) key() string { return r.User + "\n" + r.Account + "\n" + r.QoS + "\n" + r.Size }

// usedMore orders rows by what they used, the most first.
func usedMore(x, y reportRow) int {
	return cmp.Or(decimalOf(y.Credits).Cmp(decimalOf(x.Credits)), decimalOf(y.GPUHours).Cmp(decimalOf(x.GPUHours)), cmp.Compare(x.Account, y.Account), cmp.Compare(x.User, y.User), cmp.Compare(x.QoS, y.QoS))
}

// merged adds up rows that are the same but for the numbers, in the order in which they came.
func merged(rows []reportRow) []reportRow {
	at := map[string]int{}
	out := []reportRow{}
	for _, r := range rows {
		i, ok := at[r.key()]
		if !ok {
			at[r.key()] = len(out)
			out = append(out, r)
			continue
		}
		out[i].Jobs += r.Jobs
		out[i].GPUHours = exactSum(out[i].GPUHours, r.GPUHours, 1)
		out[i].Credits = exactSum(out[i].Credits, r.Credits, 3)
	}
	return out
}

// exactSum adds decimals of at most six places, of which it keeps those that aren't 0, and
// least of them at least.
func exactSum(x, y string, least int) string {
	text := new(big.Rat).Add(decimalOf(x), decimalOf(y)).FloatString(6)
	for range 6 - least {
		text = strings.TrimSuffix(text, "0")
	}
	return text
}

// report is what is printed as JSON.
type report struct {
	Report string      `json:"report"`
	Period string      `json:"period"`
	Rows   []reportRow `json:"rows"`
}

func (a *app) creport(ctx context.Context, name string, o reportOptions) error {
	period, err := a.reportPeriod(o.from, o.to)
	if err != nil {
		return err
	}
	edges, err := groupEdges(o.grouping)
	if err != nil {
		return err
	}
	c, err := a.client()
	if err != nil {
		return err
	}
	accounts, err := reportAccounts(ctx, c, o.accounts)
	if err != nil {
		return err
	}
	var rows []reportRow
	if byJob := name == reportByQoS || name == reportSizes; byJob {
		rows, err = jobRows(ctx, c, accounts, period, edges)
	} else {
		rows, err = userRows(ctx, c, accounts, period)
	}
	if err != nil {
		return err
	}
	rows = arranged(name, chosen(rows, o), o)
	return a.print(report{name, period, rows}, func(w io.Writer) {
		if len(rows) == 0 {
			fmt.Fprintf(w, "nothing was used in %s\n", period)
			return
		}
		fmt.Fprintf(w, "%s, %s\n", name, period)
		if name == reportSizes {
			a.writeSizes(w, rows, edges, o.counts)
			return
		}
		a.writeReport(w, name, rows)
	})
}

// reportPeriod is the period as statements name it. Times are of whole days: an end at
// midnight is the end of the day before.
func (a *app) reportPeriod(from, to string) (string, error) {
	now := a.env.Now().In(a.env.Zone)
	start := time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, a.env.Zone)
	end := now
	var err error
	if from != "" {
		if start, err = a.slurmTime(from); err != nil {
			return "", err
		}
	}
	if to != "" {
		if end, err = a.slurmTime(to); err != nil {
			return "", err
		}
	}
	if !start.Before(end) {
		return "", usage("--end-time must be after --start-time")
	}
	return start.Format(time.DateOnly) + ".." + end.Add(-1).Format(time.DateOnly), nil
}

// reportAccounts are those named, or those at the top of what the caller sees.
func reportAccounts(ctx context.Context, c *v1.Client, named []string) ([]string, error) {
	if len(named) > 0 {
		return strings.Split(words(named), ","), nil
	}
	all, err := v1.Collect(c.Accounts(ctx))
	if err != nil {
		return nil, err
	}
	var out []string
	for _, x := range all {
		if !slices.ContainsFunc(all, func(y v1.Account) bool { return y.Name == x.Parent }) {
			out = append(out, x.Name)
		}
	}
	return out, nil
}

// userRows are what each user used in each account.
func userRows(ctx context.Context, c *v1.Client, accounts []string, period string) ([]reportRow, error) {
	var rows []reportRow
	for _, name := range accounts {
		s, err := c.Statement(ctx, name, period, "")
		if err != nil {
			return nil, err
		}
		for _, u := range s.Users {
			rows = append(rows, reportRow{User: u.User, Account: u.Account, Jobs: u.Jobs, GPUHours: u.GPUHours, Credits: u.Charged})
		}
	}
	return rows, nil
}

// jobRows are what each job used, with its QoS and its size.
func jobRows(ctx context.Context, c *v1.Client, accounts []string, period string, edges []int64) ([]reportRow, error) {
	from, to, _ := strings.Cut(period, "..")
	q := v1.JobQuery{User: "*", State: "all", Elements: true, Limit: v1.MaxPage}
	q.From, _ = time.Parse(time.DateOnly, from)
	q.To, _ = time.Parse(time.DateOnly, to)
	q.To = q.To.AddDate(0, 0, 1)
	known := map[string]v1.Job{}
	for j, err := range c.Jobs(ctx, q) {
		if err != nil {
			return nil, err
		}
		known[j.ID] = j
		if j.Number != "" {
			known[j.Number] = j
		}
	}
	var rows []reportRow
	for _, name := range accounts {
		s, err := c.Statement(ctx, name, period, "job")
		if err != nil {
			return nil, err
		}
		seen := map[string]bool{}
		for _, l := range s.Lines {
			r := reportRow{User: l.User, Account: l.Account, QoS: "(others)", Size: "(others)", GPUHours: l.GPUHours, Credits: l.Credits}
			if j, ok := known[l.Job]; ok {
				r.QoS, r.Size = cmp.Or(j.Spec.QoS, "-"), sizeGroup(deviceCount(j), edges)
			}
			if !seen[l.Job] && l.Job != "" {
				seen[l.Job], r.Jobs = true, 1 // one job may have several lines, of several grants
			}
			rows = append(rows, r)
		}
	}
	return rows, nil
}

// deviceCount is how many devices a job has, a part of one counting as one.
func deviceCount(j v1.Job) int64 {
	n := decimalOf(string(j.Spec.GPU))
	n.Mul(n, big.NewRat(int64(max(j.Spec.Nodes, 1)), 1))
	whole := new(big.Int).Quo(n.Num(), n.Denom())
	if !n.IsInt() {
		whole.Add(whole, big.NewInt(1))
	}
	return whole.Int64()
}

// groupEdges reads "1,2,4,8".
func groupEdges(in string) ([]int64, error) {
	var out []int64
	for word := range strings.SplitSeq(in, ",") {
		n, err := strconv.ParseInt(strings.TrimSpace(word), 10, 32)
		if err != nil || n < 1 || len(out) > 0 && n <= out[len(out)-1] {
			return nil, usage("--grouping must be numbers of devices, each more than the one before, as 1,2,4,8")
		}
		out = append(out, n)
	}
	return out, nil
}

// sizeGroup is the group that a number of devices is in.
func sizeGroup(n int64, edges []int64) string {
	i := 0
	for i < len(edges) && n >= edges[i] {
		i++
	}
	return groupNames(edges)[i]
}

// groupNames are the groups in order, "0", "1", "2-3", "4-7" and "8+".
func groupNames(edges []int64) []string {
	var out []string
	low := int64(0)
	for _, e := range edges {
		name := strconv.FormatInt(low, 10)
		if e-1 > low {
			name += "-" + strconv.FormatInt(e-1, 10)
		}
		out, low = append(out, name), e
	}
	return append(out, strconv.FormatInt(low, 10)+"+")
}

// chosen are the rows of the users and QoS that are asked for.
func chosen(rows []reportRow, o reportOptions) []reportRow {
	among := func(lists []string, x string) bool {
		return len(lists) == 0 || slices.Contains(strings.Split(words(lists), ","), x)
	}
	return slices.DeleteFunc(rows, func(r reportRow) bool { return !among(o.users, r.User) || r.QoS != "" && !among(o.qos, r.QoS) })
}

// arranged is what a report shows of the rows, in its order.
func arranged(name string, rows []reportRow, o reportOptions) []reportRow {
	for i := range rows {
		switch r := &rows[i]; name {
		case reportTop:
			if o.group {
				r.Account = ""
			}
		case reportByQoS:
			r.User, r.Size = "", ""
		case reportSizes:
			r.User, r.QoS = "", ""
		}
	}
	rows = merged(rows)
	slices.SortStableFunc(rows, func(x, y reportRow) int {
		switch name {
		case reportByUser, reportByQoS, reportSizes:
			return cmp.Or(cmp.Compare(x.Account, y.Account), usedMore(x, y))
		case reportByAcct:
			return cmp.Or(cmp.Compare(x.User, y.User), usedMore(x, y))
		}
		return usedMore(x, y)
	})
	if name == reportTop {
		rows = rows[:min(len(rows), o.top)]
	}
	return rows
}

func (a *app) writeReport(w io.Writer, name string, rows []reportRow) {
	heads := map[string][]string{
		reportTop: {"USER", "ACCOUNT"}, reportByUser: {"ACCOUNT", "USER"}, reportByAcct: {"USER", "ACCOUNT"}, reportByQoS: {"ACCOUNT", "QOS"},
	}[name]
	t := newTable(append(heads, ">JOBS", ">GPU-HOURS", ">CREDITS")...)
	for _, r := range rows {
		of := map[string]string{"USER": r.User, "ACCOUNT": cmp.Or(r.Account, "-"), "QOS": r.QoS}
		t.row(of[heads[0]], of[heads[1]], strconv.FormatInt(r.Jobs, 10), r.GPUHours, r.Credits)
	}
	t.write(w, a.width(), a.paintState)
}

// writeSizes writes a line for each account, and a column for each size.
func (a *app) writeSizes(w io.Writer, rows []reportRow, edges []int64, counts bool) {
	sizes := groupNames(edges)
	if slices.ContainsFunc(rows, func(r reportRow) bool { return r.Size == "(others)" }) {
		sizes = append(sizes, "(others)")
	}
	heads := []string{"ACCOUNT"}
	for _, s := range sizes {
		heads = append(heads, ">"+s)
	}
	t := newTable(heads...)
	for i := 0; i < len(rows); {
		line := make([]string, len(sizes)+1)
		line[0] = rows[i].Account
		for j := range sizes {
			line[j+1] = truth(counts, "0", "0.000")
		}
		for ; i < len(rows) && rows[i].Account == line[0]; i++ {
			line[slices.Index(sizes, rows[i].Size)+1] = truth(counts, strconv.FormatInt(rows[i].Jobs, 10), rows[i].Credits)
		}
		t.row(line...)
	}
	t.write(w, a.width(), a.paintState)
}
