package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Reference writes the reference of all commands as Markdown.
func Reference(w io.Writer) {
	root := (&app{}).root()
	root.InitDefaultHelpFlag()
	fmt.Fprintf(w, "# Command line\n\nGenerated from the commands' own help by `go generate ./internal/cli`.\n\n%s\n", root.Long)
	fmt.Fprintf(w, "\n## Flags of every command\n\n")
	writeFlags(w, root.PersistentFlags())
	for _, g := range root.Groups() {
		fmt.Fprintf(w, "\n## %s\n", strings.TrimSuffix(g.Title, ":"))
		for _, c := range root.Commands() {
			if c.GroupID == g.ID && c.Name() != "help" {
				referenceOf(w, c)
			}
		}
	}
	fmt.Fprintf(w, "\n## Under the names of batch systems\n\nLinks to croft that `croft setup links` makes; see [batch commands](../guide/batch-commands.md) and [containers](../guide/containers.md).\n")
	a := &app{}
	for _, name := range a.linkNames(true) {
		c := a.personality(name)
		c.InitDefaultHelpFlag()
		referenceOf(w, c)
	}
}

// referenceOf writes a command's section, and those of the commands under it.
func referenceOf(w io.Writer, c *cobra.Command) {
	fmt.Fprintf(w, "\n### %s\n\n", c.CommandPath())
	text := c.Long
	if text == "" {
		text = c.Short + "."
	}
	fmt.Fprintln(w, text)
	if c.Runnable() && !c.HasSubCommands() {
		fmt.Fprintf(w, "\n    %s\n", c.UseLine())
	}
	if len(c.Aliases) > 0 {
		fmt.Fprintf(w, "\nAlso: `%s`.\n", strings.Join(c.Aliases, "`, `"))
	}
	if c.Example != "" && !c.HasSubCommands() {
		fmt.Fprintf(w, "\nExamples:\n\n%s\n", indentLines(c.Example))
	}
	if c.LocalNonPersistentFlags().HasAvailableFlags() {
		fmt.Fprintln(w)
		writeFlags(w, c.LocalNonPersistentFlags())
	}
	for _, sub := range c.Commands() {
		referenceOf(w, sub)
	}
}

func indentLines(s string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i] = "    " + strings.TrimPrefix(l, "  ")
	}
	return strings.Join(lines, "\n")
}

func writeFlags(w io.Writer, fs *pflag.FlagSet) {
	fmt.Fprint(w, "| flag | |\n|---|---|\n")
	fs.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		kind, text := pflag.UnquoteUsage(f)
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		if kind != "" {
			name += " " + kind
		}
		fmt.Fprintf(w, "| `%s` | %s |\n", strings.ReplaceAll(name, "|", `\|`), strings.ReplaceAll(text, "|", `\|`))
	})
}
