package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
)

func (a *app) auditCmd() *cobra.Command {
	return group("audit", "Who did what, what it changed, and that nobody changed the record", `  croft audit ls --user ada --changes
  croft audit export > audit.ndjson
  croft audit verify audit.ndjson`, a.auditLsCmd(), a.auditShowCmd(), a.auditExportCmd(), a.auditVerifyCmd())
}

func (a *app) auditLsCmd() *cobra.Command {
	var q v1.AuditQuery
	var from, to string
	var last int
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List rows of the audit log, the oldest first",
		Long: `List rows of the audit log: the latest, or all that the flags choose. Operators and auditors
may. WHAT says what was changed, before and after, or what came of it.`,
		Example: `  croft audit ls
  croft audit ls --changes --from 2026-11-01 --to 2026-11-30
  croft audit ls --account nlp --kind limit. -o json`,
		Args: needArgs(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.auditTimes(&q, from, to); err != nil {
				return err
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			if q == (v1.AuditQuery{}) {
				st, err := c.Status(cmd.Context())
				if err != nil {
					return err
				}
				q.After = max(0, st.Seq-int64(last))
			}
			all, err := v1.Collect(c.Audit(cmd.Context(), q))
			if err != nil {
				return err
			}
			t := newTable(">SEQ", "AT", "BY", "KIND", "JOB", "~WHAT")
			for _, r := range all {
				t.row(strconv.FormatInt(r.Seq, 10), a.moment(r.At), r.Principal, r.Kind, jobOf(r), auditText(r))
			}
			return printList(a, all, "no such rows in the audit log", t)
		},
	}
	a.auditFlags(cmd, &q, &from, &to)
	fs := cmd.Flags()
	fs.StringVarP(&q.Account, "account", "A", "", "only what concerns this account")
	fs.StringVarP(&q.User, "user", "u", "", "only what this user did, by whichever token; system: the server itself")
	fs.StringVarP(&q.Job, "job", "j", "", "only of this job")
	fs.StringVar(&q.Kind, "kind", "", "only this command, such as account.set, or with a dot at its end what begins so")
	fs.StringVar(&q.Row, "row", "", "only what put this row, such as account:3")
	fs.BoolVar(&q.Changes, "changes", false, "only rows that say what was changed")
	fs.IntVarP(&last, "last", "n", 50, "how many of the latest, if nothing else is chosen")
	a.completeFlag(cmd, "account", a.accountNames)
	a.completeFlag(cmd, "job", a.jobIDs("all"))
	return cmd
}

func (a *app) auditFlags(cmd *cobra.Command, q *v1.AuditQuery, from, to *string) {
	fs := cmd.Flags()
	fs.Int64Var(&q.After, "after", 0, "only rows after this one")
	fs.StringVar(from, "from", "", "only those from this time on")
	fs.StringVar(to, "to", "", "only those up to this time")
}

func (a *app) auditTimes(q *v1.AuditQuery, from, to string) (err error) {
	if from != "" {
		if q.From, err = a.parseWhen(from, startOfDay); err != nil {
			return err
		}
	}
	if to != "" {
		q.To, err = a.parseWhen(to, endOfDay)
	}
	return err
}

func jobOf(r v1.AuditRow) string {
	if r.Job != 0 {
		return strconv.FormatInt(r.Job, 10)
	}
	return ""
}

// auditText is "account:3 weight 1 → 2", or what came of a command that changed no rules.
func auditText(r v1.AuditRow) string {
	changes, err := r.Changes()
	if err != nil || len(changes) == 0 {
		return strings.TrimSpace(r.State + " " + r.Message)
	}
	var parts []string
	for _, c := range changes {
		var fields []string
		for _, f := range c.Fields {
			fields = append(fields, f.Name+" "+string(f.Before)+" → "+string(f.After))
		}
		parts = append(parts, c.Row+" "+strings.Join(fields, ", "))
	}
	return strings.Join(parts, "; ")
}

func (a *app) auditShowCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "show SEQ",
		Short:   "Show a row of the audit log: what was asked for, and each field before and after",
		Example: "  croft audit show 118",
		Args:    needArgs(1, 1, "SEQ, the number of a row; croft audit ls lists them"),
		RunE: func(cmd *cobra.Command, args []string) error {
			seq, err := strconv.ParseInt(args[0], 10, 64)
			if err != nil || seq < 1 {
				return usage("%q: want the number of a row, from 1 on; croft audit ls lists them", args[0])
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			r, err := auditRow(cmd, c, seq)
			if err != nil {
				return err
			}
			return a.print(r, func(w io.Writer) { a.writeAudit(w, r) })
		},
	}
}

func auditRow(cmd *cobra.Command, c *v1.Client, seq int64) (*v1.AuditRow, error) {
	for r, err := range c.Audit(cmd.Context(), v1.AuditQuery{After: seq - 1, Limit: 1}) {
		if err == nil && r.Seq != seq {
			break
		}
		return &r, err
	}
	return nil, fmt.Errorf("the server's log has no row %d", seq)
}

func (a *app) writeAudit(w io.Writer, r *v1.AuditRow) {
	fmt.Fprintf(w, "%d  %s  %s by %s\n", r.Seq, a.moment(r.At), clean(r.Kind), clean(r.Principal))
	if what := strings.TrimSpace(r.State + " " + r.Message); what != "" {
		fmt.Fprintf(w, "  %s\n", clean(what))
	}
	fmt.Fprintf(w, "  asked for  %s\n", clean(string(r.Command)))
	if len(r.Reasons) > 0 {
		fmt.Fprintf(w, "  reasons    %s\n", clean(string(r.Reasons)))
	}
	if r.Touched != "" {
		fmt.Fprintf(w, "  put        %s\n", clean(r.Touched))
	}
	fmt.Fprintf(w, "  hash       %s\n", clean(r.Hash))
	changes, err := r.Changes()
	if err != nil || len(changes) == 0 {
		return
	}
	t := newTable("ROW", "FIELD", "~BEFORE", "~AFTER")
	for _, c := range changes {
		for _, f := range c.Fields {
			t.row(c.Row, f.Name, string(f.Before), string(f.After))
		}
	}
	t.write(w, a.width(), a.paintState)
}

func (a *app) auditExportCmd() *cobra.Command {
	var q v1.AuditQuery
	var from, to string
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Write the audit log, one row of JSON a line",
		Long: `Write the audit log to standard output, one row of JSON a line, to keep where the server's
administrators don't reach. At the end the last row's number and hash are said: noted elsewhere,
they alone show later whether anything up to there was changed. The lines are checked by
croft audit verify as they are: a program that writes them anew changes what was hashed.`,
		Example: `  croft audit export > audit.ndjson
  croft audit export --after 5120 >> audit.ndjson`,
		Args: needArgs(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.auditTimes(&q, from, to); err != nil {
				return err
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			return a.exportAudit(cmd, c, q)
		},
	}
	a.auditFlags(cmd, &q, &from, &to)
	return cmd
}

func (a *app) exportAudit(cmd *cobra.Command, c *v1.Client, q v1.AuditQuery) error {
	q.Limit = v1.MaxPage
	out := json.NewEncoder(a.env.Stdout)
	var last v1.AuditRow
	n := 0
	for r, err := range c.Audit(cmd.Context(), q) {
		if err == nil {
			err = out.Encode(r)
		}
		if err != nil {
			return fmt.Errorf("after row %d: %w", last.Seq, err)
		}
		if last = r; n%10_000 == 0 && n > 0 && a.env.Term.Err {
			fmt.Fprintf(a.env.Stderr, "%d rows\n", n)
		}
		n++
	}
	if n == 0 {
		fmt.Fprintln(a.env.Stderr, "no such rows in the audit log")
		return nil
	}
	fmt.Fprintf(a.env.Stderr, "%d rows; the last: %d:%s\n", n, last.Seq, last.Hash)
	return nil
}

func (a *app) auditVerifyCmd() *cobra.Command {
	var after string
	var offline bool
	cmd := &cobra.Command{
		Use:   "verify FILE",
		Short: "Check an export of the audit log, and that the server's log still has what is in it",
		Long: `Check an export of the audit log: that each row is what was written and follows the row
before, and that the server's log has the same row where the file ends: then nothing up to there
was changed since. Ends with exit code 125 at the first difference.

The running log by itself is checked by croft ledger verify.`,
		Example: `  croft audit verify audit.ndjson
  croft audit verify --offline --after 5120:9f2c…e1 later.ndjson`,
		Args: needArgs(1, 1, "FILE, what croft audit export wrote; - is standard input"),
		RunE: func(cmd *cobra.Command, args []string) error {
			v, err := a.verifyFile(args[0], after)
			if err == nil && !offline {
				err = a.verifyBeside(cmd, v)
			}
			var broken *v1.AuditBreak
			if errors.As(err, &broken) {
				fmt.Fprintf(a.env.Stderr, "croft: %s\n", clean(broken.Error()))
				return exitStatus(codes.ExitInternal)
			}
			if err != nil {
				return err
			}
			result := auditVerified{v.first, v.Seq(), v.Hash(), !offline}
			return a.print(result, func(w io.Writer) { result.write(w) })
		},
	}
	cmd.Flags().StringVar(&after, "after", "", "the file continues after this row: its number and hash as 5120:9f2c…")
	cmd.Flags().BoolVar(&offline, "offline", false, "don't compare with the server's log")
	return cmd
}

// auditVerified is what was found right.
type auditVerified struct {
	First  int64  `json:"first"`
	Last   int64  `json:"last"`
	Hash   string `json:"hash"`
	Server bool   `json:"server"` // its log has the last row, too
}

func (v auditVerified) write(w io.Writer) {
	fmt.Fprintf(w, "rows %d to %d are as they were written\n", v.First, v.Last)
	if v.First > 1 {
		fmt.Fprintf(w, "what was before row %d isn't in the file\n", v.First)
	}
	if v.Server {
		fmt.Fprintf(w, "the server's log has row %d with the same hash\n", v.Last)
	}
}

// auditFile is an export that is being checked.
type auditFile struct {
	v1.AuditVerifier
	first int64
}

func (a *app) verifyFile(name, after string) (*auditFile, error) {
	in := a.env.Stdin
	if name == "-" {
		name = "standard input"
	} else {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	v := &auditFile{}
	if after != "" {
		seq, hash, ok := strings.Cut(after, ":")
		n, err := strconv.ParseInt(seq, 10, 64)
		if !ok || err != nil || n < 1 || len(hash) != 64 {
			return nil, usage("--after %q: want the number and the hash of a row, as croft audit export said", after)
		}
		v.AuditVerifier = v1.AuditAfter(n, hash)
	}
	rows := json.NewDecoder(in)
	rows.DisallowUnknownFields()
	for {
		var r v1.AuditRow
		switch err := rows.Decode(&r); {
		case err == io.EOF && v.first != 0:
			return v, nil
		case err == io.EOF:
			return nil, fmt.Errorf("%s has no rows: croft audit export writes them", name)
		case err != nil:
			return nil, fmt.Errorf("%s after row %d: %w", name, v.Seq(), err)
		}
		if v.first == 0 {
			if v.first = r.Seq; after == "" {
				v.AuditVerifier = v1.AuditAfter(r.Seq-1, r.Prev)
			}
		}
		if r.Seq == 1 && r.Prev != "" {
			return nil, &v1.AuditBreak{Seq: 1, What: "is said to follow another"}
		}
		if err := v.Next(r); err != nil {
			return nil, err
		}
	}
}

// verifyBeside asks for the last row of a file.
func (a *app) verifyBeside(cmd *cobra.Command, v *auditFile) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	r, err := auditRow(cmd, c, v.Seq())
	if err != nil {
		return err
	}
	if r.Hash != v.Hash() {
		return &v1.AuditBreak{Seq: v.Seq(), What: "is another in the server's log: what was before it was changed there, or the file is of another server"}
	}
	return nil
}
