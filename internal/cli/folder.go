package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	v1 "croft.dev/croft/api/v1"
)

// onOff is a flag that is left to the server if it isn't given.
type onOff string

// Set reads it.
func (o *onOff) Set(s string) error {
	value, ok := map[string]onOff{"on": "on", "off": "off", "true": "on", "false": "off"}[s]
	if !ok {
		return fmt.Errorf("%q isn't on or off", s)
	}
	*o = value
	return nil
}

// String is its value.
func (o *onOff) String() string { return string(*o) }

// Type is what help calls it.
func (o *onOff) Type() string { return "on|off" }

func (a *app) folderCmd() *cobra.Command {
	return group("folder", "Folders that accounts' jobs find: data, datasets, environments", `  croft folder ls
  croft folder add nlp corpora /srv/nlp/corpora --ro
  croft folder rm nlp corpora`,
		a.folderLsCmd(), a.folderAddCmd(), a.folderRmCmd())
}

func (a *app) folderLsCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "ls",
		Short:   "List the folders of your accounts",
		Example: "  croft folder ls",
		Args:    needArgs(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			list, err := v1.Collect(c.Folders(cmd.Context()))
			if err != nil {
				return err
			}
			t := newTable("ACCOUNT", "NAME", "~IN JOBS", "~ON THE MACHINE", "MODE", "~VARIABLES", "~MESSAGE")
			for _, f := range list {
				t.row(f.Account, f.Name, f.Target, f.Path, truth(f.ReadOnly, "ro", "rw"), strings.Join(environmentOf(f.Env), " "), f.Comment)
			}
			return printList(a, list, "no folders; an operator adds some: croft folder add ACCOUNT NAME PATH", t)
		},
	}
}

// environmentOf is K=V of each variable, by name.
func environmentOf(env map[string]string) []string {
	out := make([]string, 0, len(env))
	for k, v := range env {
		out = append(out, k+"="+v)
	}
	slices.Sort(out)
	return out
}

func (a *app) folderAddCmd() *cobra.Command {
	var in v1.Folder
	var env []string
	everybody := false
	cmd := &cobra.Command{
		Use:   "add [flags] ACCOUNT NAME PATH",
		Short: "Let jobs of an account find a folder of the machine",
		Long: `Let workspaces of an account, and of those below it, and jobs with --data find a folder of the
machine, at /shared/ACCOUNT/NAME unless --at says where. It is opened as the job's user: whoever
can't enter it on the machine doesn't in a job, and is told so. The same name again replaces what
it was, for jobs that start from then on.`,
		Example: `  croft folder add nlp hub /srv/nlp/huggingface -e HF_HOME=/shared/nlp/hub
  croft folder add nlp env /opt/nlp/env --at /opt/nlp/env --ro -m "conda: the lab's own"
  croft folder add --everybody imagenet /data/imagenet --ro`,
		Args: needArgs(2, 3, "ACCOUNT, NAME and PATH"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if everybody == (len(args) == 3) {
				return usage("give ACCOUNT NAME PATH, or --everybody NAME PATH")
			}
			if !everybody {
				in.Account, args = args[0], args[1:]
			}
			in.Name, in.Path = args[0], a.hostPath(args[1])
			for _, e := range env {
				k, v, ok := strings.Cut(e, "=")
				if !ok {
					return usage("-e %s: give NAME=VALUE", clean(e))
				}
				if in.Env == nil {
					in.Env = map[string]string{}
				}
				in.Env[k] = v
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			got, err := c.SetFolder(cmd.Context(), in)
			if err != nil {
				return err
			}
			return a.print(got, func(w io.Writer) {
				who := "everybody"
				if got.Account != "" {
					who = "account " + got.Account
				}
				fmt.Fprintf(w, "jobs of %s find %s at %s\n", clean(who), clean(got.Path), clean(got.Target))
			})
		},
	}
	fs := cmd.Flags()
	fs.BoolVar(&in.ReadOnly, "ro", false, "for reading only")
	fs.StringVar(&in.Target, "at", "", "where it is in jobs, a `PATH`; environments need that of the machine")
	fs.StringArrayVarP(&env, "env", "e", nil, "variable that jobs with it have, `K=V` (repeatable)")
	fs.StringVarP(&in.Comment, "message", "m", "", "what it is")
	fs.BoolVar(&everybody, "everybody", false, "for all accounts")
	return cmd
}

func (a *app) folderRmCmd() *cobra.Command {
	everybody := false
	cmd := &cobra.Command{
		Use:     "rm [flags] ACCOUNT NAME",
		Short:   "Let jobs not find a folder any more; what is in it stays",
		Example: "  croft folder rm nlp corpora\n  croft folder rm --everybody imagenet",
		Args:    needArgs(1, 2, "ACCOUNT and NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if everybody == (len(args) == 2) {
				return usage("give ACCOUNT NAME, or --everybody NAME")
			}
			account := ""
			if !everybody {
				account, args = args[0], args[1:]
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			if err := c.RemoveFolder(cmd.Context(), account, args[0]); err != nil {
				return err
			}
			return a.done("jobs that start from now on don't find %s", args[0])
		},
	}
	cmd.Flags().BoolVar(&everybody, "everybody", false, "one that is for all accounts")
	return cmd
}
