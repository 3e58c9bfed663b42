package cli

import (
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	v1 "croft.dev/croft/api/v1"
)

func (a *app) storageCmd() *cobra.Command {
	return group("storage", "What homes and accounts' folders hold, and may hold", `  croft storage ls
  croft storage set --user ada 50G`,
		a.storageLsCmd(), a.storageSetCmd())
}

func (a *app) storageLsCmd() *cobra.Command {
	user := ""
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List your home and your accounts' folders: used, limit, files",
		Long: `List your home and the folders of your accounts that jobs may write in: what is used,
the limit, and how many files there are, as the file system counts them. FREE is what is left
on the file system, for all together.`,
		Example: `  croft storage ls
  croft storage ls -u ada`,
		Args: needArgs(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			name, err := a.owner(cmd, c, user)
			if err != nil {
				return err
			}
			list, err := v1.Collect(c.Storage(cmd.Context(), name))
			if err != nil {
				return err
			}
			if err := printList(a, list, "neither a home on the machine nor folders of accounts", storageTable(list)); err != nil || a.output != "table" {
				return err
			}
			for _, s := range list {
				if s.Note != "" {
					a.tell("%s: %s", clean(storageName(s)), clean(s.Note))
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVarP(&user, "user", "u", "", "of another `USER`")
	return cmd
}

func storageTable(list []v1.Storage) *table {
	t := newTable("WHAT", ">USED", ">LIMIT", ">FILES", ">MOST", ">FREE", "~WHERE")
	for _, s := range list {
		files, most := "", ""
		if s.By != "" {
			files = strconv.FormatInt(s.Files, 10)
		}
		if s.MaxFiles > 0 {
			most = strconv.FormatInt(s.MaxFiles, 10)
		}
		t.row(storageName(s), string(s.Used), string(s.Limit), files, most, string(s.Free), s.Path)
	}
	return t
}

// storageName is what a line of storage is of.
func storageName(s v1.Storage) string {
	switch {
	case s.User != "":
		return "home"
	case s.Account == "":
		return s.Folder
	}
	return s.Account + "/" + s.Folder
}

func (a *app) storageSetCmd() *cobra.Command {
	var in v1.StorageLimit
	cmd := &cobra.Command{
		Use:   "set [flags] LIMIT",
		Short: "Bound what may be in a user's home, or in a folder of an account",
		Long: `Bound what may be in a user's home, or in a folder of an account, by the file system's own
quotas: a write beyond that fails, in jobs and outside of them. A home is bounded by its user's
quota where the file system has such; else, as a folder of an account, by a project that all in
it is given, which takes a while for many files and can be done again if it was cut off. none
takes a limit off.`,
		Example: `  croft storage set --user ada 50G
  croft storage set --account nlp --folder corpora 2T --files 5000000
  croft storage set --user ada none`,
		Args: needArgs(1, 1, "LIMIT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if (in.User == "") == (in.Account == "") || in.User != "" && in.Folder != "" {
				return usage("of what? give --user USER, or --account ACCOUNT and --folder NAME")
			}
			in.Limit = v1.Quantity(args[0])
			c, err := a.client()
			if err != nil {
				return err
			}
			s, err := c.SetStorage(cmd.Context(), in)
			if err != nil {
				return err
			}
			return a.print(s, func(w io.Writer) {
				fmt.Fprintf(w, "%s, %s: %s of %s, %d of %s files\n", clean(storageName(*s)), clean(s.Path), clean(otherwise(string(s.Used), "0")),
					clean(otherwise(string(s.Limit), "any amount")), s.Files, most(s.MaxFiles))
			})
		},
	}
	fs := cmd.Flags()
	fs.StringVarP(&in.User, "user", "u", "", "the home of this `USER`")
	fs.StringVarP(&in.Account, "account", "A", "", "a folder of this account")
	fs.StringVar(&in.Folder, "folder", "", "which, by its `NAME`, if there are several")
	fs.Int64Var(&in.MaxFiles, "files", 0, "and so many files and folders at most; 0 is any number")
	a.completeFlag(cmd, "account", a.accountNames)
	return cmd
}

// most is a bound for people.
func most(n int64) string {
	if n == 0 {
		return "any number of"
	}
	return strconv.FormatInt(n, 10)
}
