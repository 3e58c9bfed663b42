package cli

import (
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
)

func (a *app) statusCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show the server's state, what is in use and who you are",
		Example: `  croft status
  croft status -o json`,
		Args: needArgs(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			st, err := c.Status(cmd.Context())
			if err != nil {
				return err
			}
			var me *v1.Me
			if a.output == "table" {
				if me, err = c.Me(cmd.Context()); err != nil {
					return err
				}
			}
			return a.print(st, func(w io.Writer) { a.writeStatus(w, c.Server(), st, me) })
		},
	}
}

func (a *app) writeStatus(w io.Writer, server string, st *v1.Status, me *v1.Me) {
	clock := st.Clock
	if clock == "ok" {
		clock = ""
	}
	block(w,
		"server", server+", croft "+st.Version+before(", up since ", a.clockOr(st.Started, "")),
		"engine", st.Engine+", runtime "+st.Runtime,
		"clock", clock,
		"in use", used(st.GPU, "gpu")+", "+used(st.CPU, "cpu")+", "+used(st.Mem, "mem")+" on "+plural(st.Nodes, "node"),
		"jobs", strconv.FormatInt(st.Running, 10)+" running, "+strconv.FormatInt(st.Queued, 10)+" queued",
		"you", me.User+" ("+me.Role+")"+before(" in ", memberships(me.Accounts)),
	)
	if me.Token != nil {
		fmt.Fprintln(w)
		a.writeToken(w, me.Token)
	}
}

func (a *app) serverCmd() *cobra.Command {
	return a.daemonCmd("server", "Run the server", `Run the server. It is a program of its own, croftd, which is looked for beside
croft and then on PATH; all flags are its own: croftd server --help.`,
		`  croft server
  croft server --config /etc/croft/croft.yaml
  croft server --data .croft`)
}

func (a *app) setupCmd() *cobra.Command {
	cmd := a.daemonCmd("setup", "Report what this machine offers, and set it up", `Report what this machine offers: devices and who uses them, runtime, cgroups, file
systems, users. It is done by croftd: croftd setup --help. Only the links for users
of batch systems are made by croft itself.`,
		"  croft setup")
	cmd.AddCommand(a.linksCmd())
	return cmd
}

func (a *app) dbCmd() *cobra.Command {
	return a.daemonCmd("db", "Back up, restore and copy the database", `Back up the database while the server runs, restore it, and copy it from SQLite to
PostgreSQL. It is done by croftd on the server's own machine, by whoever may read the
database: croftd db --help, croftd db restore --help.`,
		`  croft db backup /backup/croft-2026-11-30
  croft db restore /backup/croft-2026-11-30    # while the server is stopped
  croft db copy --to postgres://croft@db.example.org/croft`)
}

// daemonCmd passes a command on to croftd, so that what a server is made of
// isn't linked into every call of the client.
func (a *app) daemonCmd(name, short, long, example string) *cobra.Command {
	return &cobra.Command{
		Use:                name + " [flags]",
		Short:              short,
		Long:               long,
		Example:            example,
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && (args[0] == "-h" || args[0] == "--help") {
				return cmd.Help()
			}
			path, err := a.env.Program("croftd")
			if err != nil {
				return &v1.Problem{Code: string(codes.Unavailable), Detail: "croftd, the server's program, is neither beside croft nor on PATH"}
			}
			err = a.env.Exec(path, append([]string{path, name}, args...))
			return fmt.Errorf("%s: %w", path, err)
		},
	}
}
