package cli

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/version"
)

func (a *app) loginCmd() *cobra.Command {
	var user string
	var stdin bool
	cmd := &cobra.Command{
		Use:   "login [URL]",
		Short: "Log in to a server by password",
		Long: `Log in to a server that is reached over HTTP. The session is kept in
~/.config/croft, where other commands find it and the server's address. It ends by
itself after a while, by croft logout, and when the password is changed. On the
server's own machine no login is needed: the socket knows who you are.`,
		Example: `  croft login https://croft.example.org
  croft login --user ada < password --stdin`,
		Args: needArgs(0, 1, "URL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			server, err := a.loginServer(strings.Join(args, ""))
			if err != nil {
				return err
			}
			user = cmp.Or(user, a.env.Getenv("USER"), a.env.Getenv("LOGNAME"))
			if user == "" {
				return usage("as whom? --user NAME")
			}
			secrets := a.secrets(stdin)
			text, err := secrets.ask("password of " + clean(user) + " at " + clean(server))
			if err != nil {
				return err
			}
			return a.login(cmd, server, user, text)
		},
	}
	cmd.Flags().StringVarP(&user, "user", "u", "", "your name there, by default the one that you have here")
	cmd.Flags().BoolVar(&stdin, "stdin", false, "read the password from standard input")
	return cmd
}

func (a *app) login(cmd *cobra.Command, server, user, text string) error {
	c, err := a.clientOf(server, "")
	if err != nil {
		return err
	}
	s, err := c.Login(cmd.Context(), v1.LoginRequest{User: user, Password: text, Name: a.env.Host})
	if v1.CodeOf(err) == codes.Unauthenticated && a.output == "table" {
		fmt.Fprintf(a.env.Stderr, "%s: %s\n", called(cmd), clean(err.Error())) // without the advice to log in
		return exitStatus(codes.Of(codes.Unauthenticated).Exit)
	}
	if err != nil {
		return err
	}
	if err := (v1.LoginFiles{Dir: v1.ConfigDir(a.env.Getenv)}).Write(server, s.Secret); err != nil {
		return &v1.Problem{Code: string(codes.Unavailable), Detail: "the login can't be kept: " + err.Error()}
	}
	s.Secret = ""
	return a.print(s, func(w io.Writer) {
		fmt.Fprintf(w, "logged in to %s as %s until %s\n", clean(server), clean(s.User), a.clock(s.Expires))
	})
}

// clientOf is a client of a server; tests have theirs already.
func (a *app) clientOf(server, token string) (*v1.Client, error) {
	if a.api != nil {
		return a.api, nil
	}
	c, err := v1.New(v1.Config{Server: server, Token: token, UserAgent: "croft/" + version.Version})
	a.api = c
	return c, err
}

// loginServer is the address to log in to. A password goes to another machine only
// through TLS.
func (a *app) loginServer(arg string) (string, error) {
	server := strings.TrimSuffix(cmp.Or(arg, a.server), "/")
	if server == "" {
		server = v1.Discover(a.env.Getenv, a.env.Dir)
	}
	u, err := url.Parse(server)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		if arg == "" {
			return "", usage("log in where? croft login https://HOST; on the server's own machine no login is needed")
		}
		return "", usage("%s isn't a server that one logs in to: want https://HOST", arg)
	case u.User != nil:
		return "", usage("a URL with a name or a password in it ends up in files and logs: use --user, and type the password")
	case u.Scheme == "http" && !loopback(u.Hostname()):
		return "", usage("%s would send the password in clear: use https", server)
	}
	return server, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func (a *app) logoutCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "logout",
		Short:   "End the session of the last login",
		Example: "  croft logout",
		Args:    needArgs(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			files := v1.LoginFiles{Dir: v1.ConfigDir(a.env.Getenv)}
			server, token := files.Server(), files.Token()
			if server == "" || token == "" {
				return &v1.Problem{Code: string(codes.NotFound), Detail: "you aren't logged in anywhere"}
			}
			c, err := a.clientOf(server, token)
			if err != nil {
				return err
			}
			err = c.Logout(cmd.Context())
			if code := v1.CodeOf(err); err != nil && code != codes.Unauthenticated && code != codes.Denied {
				return err // it may live on: the files are kept, so that it can be tried again
			}
			if err := files.Remove(); err != nil {
				return &v1.Problem{Code: string(codes.Unavailable), Detail: "the session has ended, but " + err.Error()}
			}
			return a.done("logged out of %s", server)
		},
	}
}

func (a *app) passwdCmd() *cobra.Command {
	var stdin, remove bool
	cmd := &cobra.Command{
		Use:   "passwd [USER]",
		Short: "Set or remove a password",
		Long: `Set your password, or as an admin somebody else's. It is asked for on the terminal;
--stdin reads it from standard input instead: your old one first if you have one, each
on a line of its own. All other sessions of the user end; personal tokens go on, see
croft user token ls.`,
		Example: `  croft passwd
  croft passwd ada
  croft passwd ada --remove`,
		Args:              needArgs(0, 1, "USER"),
		ValidArgsFunction: firstArg(a.userNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			me, err := c.Me(cmd.Context())
			if err != nil {
				return err
			}
			user := cmp.Or(strings.Join(args, ""), me.User)
			change, err := a.passwordChange(user, user == me.User && me.Password, stdin, remove)
			if err != nil {
				return err
			}
			got, err := c.SetPassword(cmd.Context(), user, change)
			if err != nil {
				return err
			}
			what := "set"
			if remove {
				what = "removed"
			}
			return a.print(got, func(w io.Writer) {
				fmt.Fprintf(w, "password of %s %s, %s ended\n", clean(user), what, plural(got.Sessions, "session"))
			})
		},
	}
	cmd.Flags().BoolVar(&stdin, "stdin", false, "read from standard input")
	cmd.Flags().BoolVar(&remove, "remove", false, "take the password away")
	return cmd
}

func (a *app) passwordChange(user string, old, stdin, remove bool) (v1.PasswordChange, error) {
	out := v1.PasswordChange{Remove: remove}
	secrets := a.secrets(stdin)
	var err error
	if old {
		if out.Old, err = secrets.ask("old password of " + clean(user)); err != nil {
			return out, err
		}
	}
	if remove {
		return out, nil
	}
	if out.New, err = secrets.ask("new password of " + clean(user)); err != nil || stdin {
		return out, err
	}
	again, err := secrets.ask("the new password again")
	if err == nil && again != out.New {
		err = usage("these two differ: nothing was changed")
	}
	return out, err
}

// secrets asks for passwords: on the terminal, or line by line on standard input.
type secrets struct {
	a     *app
	lines *bufio.Reader // nil: the terminal
	flag  string        // that has them read from standard input; by default --stdin
}

// maxSecret bounds a line of secrets, in bytes.
const maxSecret = 64 << 10

func (a *app) secrets(stdin bool) secrets {
	if stdin {
		return secrets{a: a, lines: bufio.NewReaderSize(io.LimitReader(a.env.Stdin, 2*maxSecret), maxSecret)}
	}
	return secrets{a: a}
}

func (s secrets) ask(what string) (string, error) {
	if s.lines != nil {
		line, err := s.lines.ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) || line == "" {
			return "", usage("standard input has no %s", what)
		}
		return strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r"), nil
	}
	if !s.a.env.Term.In || s.a.env.Term.Secret == nil {
		return "", usage("there is no terminal to ask on for the %s: %s reads it", what, cmp.Or(s.flag, "--stdin"))
	}
	fmt.Fprint(s.a.env.Stderr, what+": ")
	text, err := s.a.env.Term.Secret()
	fmt.Fprintln(s.a.env.Stderr)
	if err != nil {
		return "", usage("nothing was read: %v", err)
	}
	return text, nil
}

func (a *app) sessionCmd() *cobra.Command {
	return group("session", "Sessions that logins opened", `  croft session ls
  croft session revoke --all`, a.sessionLsCmd(), a.sessionRevokeCmd())
}

func (a *app) sessionLsCmd() *cobra.Command {
	var user string
	cmd := &cobra.Command{
		Use:     "ls",
		Short:   "List open sessions",
		Example: "  croft session ls",
		Args:    needArgs(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, name, err := a.clientFor(cmd.Context(), user)
			if err != nil {
				return err
			}
			list, err := v1.Collect(c.Sessions(cmd.Context(), name))
			if err != nil {
				return err
			}
			t := newTable("ID", "~FROM", "OPENED", "USED", "ENDS", "NOTE")
			for _, s := range list {
				note := ""
				if s.Current {
					note = "this one"
				}
				t.row(s.ID, s.Name, a.clock(s.Created), a.clock(s.Used), a.clock(s.Ends), note)
			}
			return printList(a, list, "no open sessions", t)
		},
	}
	cmd.Flags().StringVarP(&user, "user", "u", "", "whose, by default yours")
	a.completeFlag(cmd, "user", a.userNames)
	return cmd
}

func (a *app) sessionRevokeCmd() *cobra.Command {
	var user string
	var every bool
	cmd := &cobra.Command{
		Use:   "revoke [ID]",
		Short: "End a session at once, or all but this one",
		Example: `  croft session revoke 12
  croft session revoke --all --user ada`,
		Args: needArgs(0, 1, "ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if every == (len(args) == 1) {
				return usage("end which session? Give its ID, see croft session ls, or --all")
			}
			c, name, err := a.clientFor(cmd.Context(), user)
			if err != nil {
				return err
			}
			if every {
				if err := c.RevokeSessions(cmd.Context(), name); err != nil {
					return err
				}
				return a.done("all other sessions of %s have ended", name)
			}
			if err := c.RevokeSession(cmd.Context(), name, args[0]); err != nil {
				return err
			}
			return a.done("session %s of %s has ended", args[0], name)
		},
	}
	cmd.Flags().StringVarP(&user, "user", "u", "", "whose, by default yours")
	cmd.Flags().BoolVar(&every, "all", false, "all but the one that asks")
	a.completeFlag(cmd, "user", a.userNames)
	return cmd
}
