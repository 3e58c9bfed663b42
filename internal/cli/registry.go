package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	v1 "croft.dev/croft/api/v1"
)

func (a *app) registryCmd() *cobra.Command {
	return group("registry", "Logins to registries of images", `  croft registry login ghcr.io -u ada-l
  croft registry ls
  croft registry logout ghcr.io`,
		a.registryLoginCmd("croft registry"), a.registryLogoutCmd("croft registry"), a.registryLsCmd())
}

// registryLoginCmd is croft registry login and ccon login, which by names.
func (a *app) registryLoginCmd(by string) *cobra.Command {
	var in v1.RegistryLogin
	var stdin bool
	cmd := &cobra.Command{
		Use:   "login [flags] REGISTRY",
		Short: "Log in to a registry, to pull private images from it",
		Long: `Log in to a registry of images, such as ghcr.io or hub.lab:5000. The server asks it
whether it takes the name with the password, which may be a token, and then keeps them,
sealed, for pulling images for your jobs and nobody else's. The password is asked for
on the terminal.`,
		Example: fmt.Sprintf(`  %[1]s login ghcr.io -u ada-l
  %[1]s login --password-stdin -u ada-l hub.lab:5000 < token`, by),
		Args: needArgs(1, 1, "REGISTRY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.readRegistryLogin(cmd, &in, args[0], stdin); err != nil {
				return err
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			me, err := c.Me(cmd.Context())
			if err != nil {
				return err
			}
			got, err := c.LoginRegistry(cmd.Context(), me.User, args[0], in)
			if err != nil {
				return err
			}
			return a.print(got, func(w io.Writer) {
				fmt.Fprintf(w, "logged in to %s as %s\n", clean(got.Registry), clean(got.Username))
			})
		},
	}
	fs := cmd.Flags()
	fs.StringVarP(&in.Username, "username", "u", "", "your name there")
	fs.StringVarP(&in.Password, "password", "p", "", "your password there; others on this machine can see it while the command runs")
	fs.BoolVar(&stdin, "password-stdin", false, "read the password from standard input")
	return cmd
}

func (a *app) readRegistryLogin(cmd *cobra.Command, in *v1.RegistryLogin, registry string, stdin bool) error {
	given := cmd.Flags().Changed("password")
	switch {
	case in.Username == "":
		return usage("as whom? -u NAME")
	case given && stdin:
		return usage("-p and --password-stdin: give one of them")
	case given:
		fmt.Fprintf(a.env.Stderr, "%s: a password on the command line shows in the list of processes and in your shell's history: --password-stdin\n", called(cmd))
		return nil
	case !stdin:
		var err error
		in.Password, err = secrets{a: a, flag: "--password-stdin"}.ask("password of " + clean(in.Username) + " at " + clean(registry))
		return err
	}
	// All of it: a key file has several lines.
	text, err := io.ReadAll(io.LimitReader(a.env.Stdin, maxSecret))
	if err != nil {
		return usage("nothing was read: %v", err)
	}
	if in.Password = strings.TrimRight(string(text), "\r\n"); in.Password == "" {
		return usage("standard input has no password")
	}
	return nil
}

func (a *app) registryLogoutCmd(by string) *cobra.Command {
	return &cobra.Command{
		Use:               "logout REGISTRY",
		Short:             "Forget a login to a registry",
		Example:           "  " + by + " logout ghcr.io",
		Args:              needArgs(1, 1, "REGISTRY"),
		ValidArgsFunction: firstArg(a.registryNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			me, err := c.Me(cmd.Context())
			if err != nil {
				return err
			}
			if err := c.LogoutRegistry(cmd.Context(), me.User, args[0]); err != nil {
				return err
			}
			return a.done("logged out of %s", args[0])
		},
	}
}

func (a *app) registryLsCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "ls",
		Short:   "List the registries that you are logged in to",
		Example: "  croft registry ls",
		Args:    needArgs(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			me, err := c.Me(cmd.Context())
			if err != nil {
				return err
			}
			list, err := v1.Collect(c.Registries(cmd.Context(), me.User))
			if err != nil {
				return err
			}
			t := newTable("REGISTRY", "~USERNAME", "SINCE")
			for _, r := range list {
				t.row(r.Registry, r.Username, a.clock(r.Changed))
			}
			return printList(a, list, "you aren't logged in to any registry", t)
		},
	}
}
