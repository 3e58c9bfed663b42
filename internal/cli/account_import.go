package cli

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
)

func (a *app) accountImportCmd() *cobra.Command {
	var req v1.ImportRequest
	var ends string
	cmd := &cobra.Command{
		Use:   "import ACCOUNT FILE",
		Short: "Make the members of an account those of a CSV file",
		Long: `Make the members of an account those of a CSV file, or - for standard input: all of
them, or none and an error for each wrong line. The same file again changes nothing.

The first line names the columns: name, or email with the name before the @; and, where
they are there, uid, role and ends. Others are ignored. A day in ends is in it, in UTC.
Users that don't exist are made, if you are an admin.`,
		Example: `  croft account import ml24 students.csv --dry-run
  croft account import ml24 students.csv --prune
  croft account import ml24 tutors.csv --role manager`,
		Args:              needArgs(2, 2, "ACCOUNT and FILE"),
		ValidArgsFunction: a.accountThenFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if req.CSV, err = a.readTable(args[1]); err != nil {
				return err
			}
			if req.Ends, err = a.endFlag(ends); err != nil {
				return err
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			got, err := c.ImportMembers(cmd.Context(), args[0], req)
			if err != nil {
				return err
			}
			return a.print(got, func(w io.Writer) { a.writeImport(w, got) })
		},
	}
	cmd.Flags().BoolVar(&req.DryRun, "dry-run", false, "only say what would change")
	cmd.Flags().BoolVar(&req.Prune, "prune", false, "remove members and viewers that aren't in the file")
	cmd.Flags().StringVar(&req.Role, "role", "", "role of who is new and whose line says none; by default member")
	cmd.Flags().StringVar(&ends, "ends", "", "when memberships end whose line doesn't say: +120d or a date, which is in it, or never")
	a.completeFlag(cmd, "role", fixed("viewer", "member", "manager", "owner"))
	return cmd
}

// accountThenFile completes an account, then leaves it to the shell to name a file.
func (a *app) accountThenFile(cmd *cobra.Command, args []string, part string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return firstArg(a.accountNames)(cmd, args, part)
	}
	return nil, cobra.ShellCompDirectiveDefault
}

// maxTable bounds a file of members, in bytes; the server has the same bound.
const maxTable = 512 << 10

func (a *app) readTable(name string) (string, error) {
	in := a.env.Stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return "", usage("%v", err)
		}
		defer f.Close()
		in = f
	}
	b, err := io.ReadAll(io.LimitReader(in, maxTable+1))
	switch {
	case err != nil:
		return "", usage("%v", err)
	case len(b) > maxTable:
		return "", usage("%s is larger than %d KiB: split it", name, maxTable>>10)
	case strings.ToValidUTF8(string(b), "") != string(b):
		return "", &v1.Problem{Code: string(codes.Invalid), Detail: name + " isn't UTF-8: save it as CSV UTF-8"}
	}
	return string(b), nil
}

func (a *app) writeImport(w io.Writer, got *v1.Import) {
	if len(got.Changes) > 0 {
		t := newTable(">LINE", "~USER", "CHANGE")
		for _, c := range got.Changes {
			line := ""
			if c.Line > 0 {
				line = strconv.Itoa(c.Line)
			}
			t.row(line, c.User, stepText(c))
		}
		t.write(w, a.width(), a.paintState)
	}
	for _, s := range got.Warnings {
		fmt.Fprintln(a.env.Stderr, "note: "+clean(s))
	}
	if len(got.Ignored) > 0 {
		fmt.Fprintln(a.env.Stderr, "note: ignored the columns "+clean(strings.Join(got.Ignored, ", ")))
	}
	head := clean(got.Account)
	if got.DryRun {
		head += ", if this were done"
	}
	fmt.Fprintf(w, "%s: %d added, %d changed, %d removed, %d as before; %s made\n",
		head, got.Added, got.Changed, got.Removed, got.Kept, plural(got.Created, "user"))
}

// stepText is "member", "member, was viewer" or "removed, was member".
func stepText(c v1.ImportChange) string {
	text := c.Role
	if text == "" {
		text = "removed"
	}
	switch {
	case c.Created:
		text += ", a new user"
	case c.Was == c.Role:
		text += ", with another end"
	case c.Was != "":
		text += ", was " + c.Was
	}
	return text
}
