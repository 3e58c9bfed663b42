package cli

import (
	"context"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	v1 "croft.dev/croft/api/v1"
)

func (a *app) templateCmd() *cobra.Command {
	return group("template", "Templates of workspaces: the site's, and your own", `  croft template ls
  croft template add board.yaml --account nlp
  croft template show jupyter`,
		a.templateLsCmd(), a.templateShowCmd(), a.templateAddCmd(), a.templateRmCmd())
}

// template finds a template by its name: the site's, one's own, or the one that somebody
// shares; or somebody's by USER/NAME.
func (a *app) template(ctx context.Context, c *v1.Client, name string) (v1.Template, error) {
	owner, short, whole := strings.Cut(name, "/")
	if !whole {
		owner, short = "", name
	}
	all, err := v1.Collect(c.Templates(ctx, v1.TemplateQuery{User: owner}))
	if err != nil {
		return v1.Template{}, err
	}
	found := slices.DeleteFunc(slices.Clone(all), func(t v1.Template) bool { return t.Name != short || whole && t.User != owner })
	switch {
	case len(found) == 0:
		return v1.Template{}, usage("no such template: %s%s", clean(name), thereAre(all))
	case len(found) == 1 || found[0].User == "":
		return found[0], nil
	}
	me, err := c.Me(ctx)
	if err != nil {
		return v1.Template{}, err
	}
	if i := slices.IndexFunc(found, func(t v1.Template) bool { return t.User == me.User }); i >= 0 {
		return found[i], nil
	}
	return v1.Template{}, usage("several users share a template %s%s: give one by its whole name", clean(name), thereAre(found))
}

// thereAre lists templates by the names by which they are found.
func thereAre(list []v1.Template) string {
	if len(list) == 0 {
		return ""
	}
	names := make([]string, len(list))
	for i, t := range list {
		names[i] = clean(templateName(t))
	}
	return " (there are: " + strings.Join(names, ", ") + ")"
}

// templateName is the whole name of a template.
func templateName(t v1.Template) string {
	if t.User == "" {
		return t.Name
	}
	return t.User + "/" + t.Name
}

func (a *app) templateLsCmd() *cobra.Command {
	var q v1.TemplateQuery
	cmd := &cobra.Command{
		Use: "ls", Short: "List templates: the site's, yours, and those shared with you", Example: "  croft template ls", Args: needArgs(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			all, err := v1.Collect(c.Templates(cmd.Context(), q))
			if err != nil {
				return err
			}
			t := newTable("TEMPLATE", "USER", "~SHARED WITH", "~ABOUT", "~IMAGE", "ASKS FOR")
			for _, tpl := range all {
				t.row(tpl.Name, tpl.User, tpl.Account, tpl.About, tpl.Spec.Image, asked(tpl.Spec))
			}
			return printList(a, all, "no templates", t)
		},
	}
	cmd.Flags().StringVarP(&q.User, "user", "u", "", "of this `USER`; * is everybody whom you may see")
	return cmd
}

func (a *app) templateShowCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "show TEMPLATE",
		Short: "Show a template as a job file, which add reads again",
		Example: `  croft template show jupyter >mine.yaml
  croft template show ben/board`,
		Args: needArgs(1, 1, "TEMPLATE"), ValidArgsFunction: firstArg(a.templateNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			t, err := a.template(cmd.Context(), c, args[0])
			if err != nil {
				return err
			}
			if a.output != "table" {
				return a.print(t, nil)
			}
			a.templateHead(a.env.Stdout, t)
			return writeYAML(a.env.Stdout, t.Spec)
		},
	}
}

// templateHead says in comments what a job file doesn't.
func (a *app) templateHead(w io.Writer, t v1.Template) {
	fmt.Fprintf(w, "# %s", clean(templateName(t)))
	if t.About != "" {
		fmt.Fprintf(w, ": %s", clean(t.About))
	}
	fmt.Fprintln(w)
	if t.Account != "" {
		fmt.Fprintf(w, "# shared with account %s\n", clean(t.Account))
	}
}

// templateOptions are the flags of croft template add.
type templateOptions struct {
	v1.TemplateRequest
	from, account string
	forMe, noHome bool
}

func (a *app) templateAddCmd() *cobra.Command {
	var o templateOptions
	cmd := &cobra.Command{
		Use:   "add [flags] [FILE]",
		Short: "Keep a template of your own, for any web program",
		Long: `Keep a template of your own, in place of the one that you have of that name. It is
a job file, in YAML or JSON, with an image, a command and the program's apps: port,
path, health check. Or it is made --from a workspace, as that is now.

Your home is mounted in workspaces of it, or whoever's who starts one, unless you say
--no-home. With --account the account's members may use it too, as USER/NAME or by its
name alone; its environment is theirs to see.`,
		Example: `  croft template add board.yaml -m "TensorBoard on ~/runs"
  croft template add board.yaml --account nlp
  croft template add --from nb --name my-jupyter`,
		Args: needArgs(0, 1, "FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case (len(args) == 1) == (o.from != ""):
				return usage("of what? croft template add FILE, or --from WORKSPACE")
			case o.forMe && o.account != "":
				return usage("give --account or --for-me, not both")
			case o.forMe || o.account != "":
				o.Account = &o.account
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			if err := o.read(cmd.Context(), a, c, args); err != nil {
				return err
			}
			t, err := c.SetTemplate(cmd.Context(), o.TemplateRequest)
			if err != nil {
				return err
			}
			return a.print(t, func(w io.Writer) {
				who := "yours alone"
				if t.Account != "" {
					who = "shared with " + t.Account
				}
				fmt.Fprintf(w, "template %s, %s: croft workspace new %s\n", clean(t.Name), clean(who), clean(t.Name))
			})
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&o.from, "from", "", "make it of this `WORKSPACE` of yours")
	fs.StringVarP(&o.Name, "name", "n", "", "its name; by default the file's or the workspace's")
	fs.StringVarP(&o.account, "account", "A", "", "let the members of this account use it too")
	fs.BoolVar(&o.forMe, "for-me", false, "let nobody else use it, or no longer")
	fs.StringVarP(&o.About, "message", "m", "", "what it is")
	fs.BoolVar(&o.noHome, "no-home", false, "don't mount the home of whoever starts one")
	a.completeFlag(cmd, "account", a.accountNames)
	a.completeFlag(cmd, "from", a.jobIDs("live"))
	return cmd
}

// read sets what the template is made of.
func (o *templateOptions) read(ctx context.Context, a *app, c *v1.Client, args []string) error {
	var err error
	if o.from != "" {
		err = o.readWorkspace(ctx, a, c)
	} else {
		err = o.readFile(a, args[0])
	}
	o.Name = otherwise(o.Name, o.Spec.Name)
	if err == nil && o.Name == "" {
		err = usage("what is it called? give --name, or name in the file")
	}
	return err
}

func (o *templateOptions) readFile(a *app, file string) error {
	spec, err := a.readSpecFile(file)
	if err != nil {
		return err
	}
	home := false
	for i, m := range spec.Mounts {
		if m.Type != "" && m.Type != "bind" {
			continue
		}
		if below, tilde := strings.CutPrefix(m.Source, "~"); tilde && (below == "" || below[0] == '/') {
			home = home || below == "" // whose it is turns out when a workspace starts
			continue
		}
		spec.Mounts[i].Source = a.hostPath(m.Source)
	}
	if !home && !o.noHome {
		spec.Mounts = append([]v1.Mount{{Source: "~"}}, spec.Mounts...)
	}
	o.Spec = spec
	return nil
}

func (o *templateOptions) readWorkspace(ctx context.Context, a *app, c *v1.Client) error {
	job, err := a.workspaceOf(ctx, c, o.from)
	if err != nil {
		return err
	}
	if job == nil {
		return usage("no such workspace: %s (croft workspace ls)", clean(o.from))
	}
	o.Spec = job.Spec
	// What is of that one and no other's to follow.
	o.Spec.Account, o.Spec.Reservation, o.Spec.Begin, o.Spec.Hold, o.Spec.Priority = "", "", "", false, 0
	return nil
}

func (a *app) templateRmCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "rm TEMPLATE…",
		Short:   "Remove templates of yours; workspaces that were made of them stay",
		Example: "  croft template rm board",
		Args:    needArgs(1, -1, "TEMPLATE"), ValidArgsFunction: a.templateNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			for _, arg := range args {
				user, name, whole := strings.Cut(arg, "/")
				if !whole {
					me, err := c.Me(cmd.Context())
					if err != nil {
						return err
					}
					user, name = me.User, arg
				}
				if err := c.RemoveTemplate(cmd.Context(), user, name); err != nil {
					return err
				}
				if err := a.done("removed %s", user+"/"+name); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func (a *app) templateNames(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return complete(a, func(ctx context.Context, c *v1.Client) iter.Seq2[v1.Template, error] {
		return c.Templates(ctx, v1.TemplateQuery{})
	},
		func(t v1.Template) string {
			name := t.Name
			if t.Account != "" {
				name = templateName(t)
			}
			return cobra.CompletionWithDesc(clean(name), clean(t.About))
		})
}
