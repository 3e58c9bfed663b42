package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/internal/version"
)

// Main runs the command line in env and returns its exit code.
func Main(env Env) int {
	a := &app{env: env}
	return a.main()
}

func (a *app) main() int {
	var name string
	var args []string
	if len(a.env.Args) > 0 {
		name, args = filepath.Base(a.env.Args[0]), a.env.Args[1:]
	}
	root := a.personality(name)
	if args == nil {
		args = []string{} // cobra would take the process's own for nil
	}
	root.SetArgs(args)
	root.SetIn(a.env.Stdin)
	root.SetOut(a.env.Stdout)
	root.SetErr(a.env.Stderr)
	cmd, err := root.ExecuteContextC(context.Background())
	if werr := a.kept.rest(a.env); err == nil {
		err = werr
	}
	if a.api != nil {
		a.api.Close()
	}
	return a.exit(cmd, err)
}

// personality returns the command tree for the name that the program was called
// by: that of a link, or for any other name croft's.
func (a *app) personality(name string) *cobra.Command {
	crane, slurm := a.links()
	if tree := crane[name]; tree != nil {
		return tree()
	}
	if tree := slurm[name]; tree != nil {
		return tree()
	}
	return a.root()
}

// app is one run of the command line.
type app struct {
	env    Env
	server string
	output string
	api    *v1.Client
	kept   keptOutput
	// running is set when a command's own code starts: errors before it are
	// mistakes in the use of the command line.
	running bool
}

// client returns the client of the server that the user means.
func (a *app) client() (*v1.Client, error) {
	if a.api != nil {
		return a.api, nil
	}
	server := a.server
	if server == "" {
		server = v1.Discover(a.env.Getenv, a.env.Dir)
	}
	c, err := v1.New(v1.Config{
		Server:    server,
		Token:     v1.DiscoverToken(a.env.Getenv, server),
		UserAgent: "croft/" + version.Version,
	})
	a.api = c
	return c, err
}

// Groups of commands in the help.
const (
	groupJobs  = "jobs"
	groupMoney = "money"
	groupSite  = "site"
)

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "croft",
		Short: "Share GPU machines: submit jobs, see why they wait, see what they cost",
		Long: `Croft shares GPU machines among people and projects.

Exit codes: 0 success, 2 wrong usage or no such thing, 3 refused, 125 Croft's own
failure; croft run and croft exec end with the exit code of what they ran.

Environment: CROFT_SERVER and CROFT_SOCKET say where the server is, CROFT_TOKEN
is the token for a server that is reached over HTTP, in place of a login; NO_COLOR
turns colour off.`,
		Example: `  croft run --gpu 1 -t 2h train:1 python train.py
  croft ls
  croft why 131`,
		Version:       version.Version,
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := errors.Join(checkOutput(a.output, cmd.Annotations[moreOutputs]), cmd.ValidateFlagGroups()); err != nil {
				return err
			}
			a.running = true
			return nil
		},
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.PersistentFlags().StringVar(&a.server, "server", "", "server: unix:///path or http://host:port")
	root.PersistentFlags().StringVarP(&a.output, "output", "o", "table", "output: table, json or yaml")
	root.AddGroup(
		&cobra.Group{ID: groupJobs, Title: "Jobs:"},
		&cobra.Group{ID: groupMoney, Title: "People, accounts and money:"},
		&cobra.Group{ID: groupSite, Title: "The machine:"},
	)
	add(root, groupJobs, a.runCmd(), a.notebookCmd(), a.codeCmd(), a.shellCmd(), a.workspaceCmd(), a.templateCmd(), a.submitCmd(), a.quoteCmd(), a.lsCmd(), a.showCmd(), a.whyCmd(),
		a.logsCmd(), a.execCmd(), a.attachCmd(), a.terminalCmd(), a.sshCmd(), a.sshConfigCmd(), a.stepCmd(), a.appCmd(), a.stopCmd(), a.holdCmd(), a.releaseCmd(), a.requeueCmd(), a.cloneCmd(), a.keepCmd(), a.topCmd(), a.idleCmd(), a.extendCmd(), a.prioritizeCmd(), a.eventsCmd())
	add(root, groupMoney, a.accountCmd(), a.userCmd(), a.grantCmd(), a.allowanceCmd(), a.requestCmd(), a.priceCmd(), a.limitCmd(), a.shareCmd(), a.fairshareCmd(),
		a.ledgerCmd(), a.auditCmd(), a.periodCmd(), a.statementCmd(), a.loginCmd(), a.logoutCmd(), a.passwdCmd(), a.sessionCmd(), a.registryCmd(), a.sshKeyCmd(), a.noticeCmd(), a.volumeCmd(), a.folderCmd(), a.storageCmd(), a.imageCmd())
	add(root, groupSite, a.statusCmd(), a.nodeCmd(), a.kubeCmd(), a.reservationCmd(), a.classCmd(), a.partitionCmd(), a.qosCmd(), a.serverCmd(), a.setupCmd(), a.dbCmd(), a.completionCmd())
	root.AddCommand(a.scriptCmd())
	root.SetHelpCommandGroupID(groupSite)
	a.completeFlag(root, "output", fixed("table", "json", "yaml"))
	return root
}

func add(root *cobra.Command, group string, cmds ...*cobra.Command) {
	for _, c := range cmds {
		c.GroupID = group
		root.AddCommand(c)
	}
}

// group returns a command that only has subcommands.
func group(use, short, example string, cmds ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{
		Use:     use,
		Short:   short,
		Example: example,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("unknown command %q for %q", args[0], cmd.CommandPath())
			}
			return fmt.Errorf("which %s command? %s", cmd.Name(), strings.Join(names(cmd), ", "))
		},
		RunE: func(*cobra.Command, []string) error { return nil },
	}
	c.AddCommand(cmds...)
	return c
}

func names(cmd *cobra.Command) []string {
	var list []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			list = append(list, c.Name())
		}
	}
	return list
}

// siblingPath is the path of a program in the directory of another.
func siblingPath(program, name string) string {
	if real, err := filepath.EvalSymlinks(program); err == nil {
		program = real
	}
	return filepath.Join(filepath.Dir(program), name)
}
