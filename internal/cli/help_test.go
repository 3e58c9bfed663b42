package cli

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// everyCommand calls do for every command of the tree.
func everyCommand(c *cobra.Command, do func(*cobra.Command)) {
	if c.Name() == "help" {
		return
	}
	do(c)
	for _, sub := range c.Commands() {
		everyCommand(sub, do)
	}
}

// everyTree calls do for every command of croft and of its links.
func everyTree(do func(*cobra.Command)) {
	everyCommand((&app{}).root(), do)
	a := &app{}
	for _, name := range a.linkNames(true) {
		everyCommand(a.personality(name), do)
	}
}

// TestHelp compares every command's help with its golden file, and holds it to
// the rules: one to three examples that are command lines of that command, and
// lines that fit a terminal.
func TestHelp(t *testing.T) {
	used := map[string]bool{}
	everyTree(func(c *cobra.Command) {
		path := strings.Fields(c.CommandPath())
		name := strings.Join(path, "-")
		used[name+".golden"] = true
		t.Run(name, func(t *testing.T) {
			b := newBench(t, &fake{})
			if code := b.runAs(path[0], append(path[1:], "--help")...); code != 0 {
				t.Errorf("exit %d: %s", code, b.stderr)
			}
			golden(t, "help/"+name, b.stdout.String())
			if n := len(strings.Split(c.Example, "\n")); c.Example == "" || n > 3 {
				t.Errorf("%d examples, want 1 to 3", n)
			}
			for _, line := range strings.Split(c.Example, "\n") {
				checkExample(t, c, line)
			}
			for _, line := range strings.Split(b.stdout.String(), "\n") {
				if displayWidth(line) > 110 {
					t.Errorf("too wide: %s", line)
				}
			}
		})
	})
	noOrphans(t, "testdata/help", used)
}

// checkExample finds the command and the flags that an example uses.
func checkExample(t *testing.T, c *cobra.Command, line string) {
	t.Helper()
	program := c.Root().Name()
	_, line, ok := strings.Cut(line+" ", program+" ")
	if !ok {
		t.Errorf("no command line of %s in an example", program)
		return
	}
	args, err := exec.Command("sh", "-c", `printf '%s\n' `+strings.NewReplacer("$(", "", "<(", "", ")", "", "<", " ", ">", " ").Replace(line)).Output()
	if err != nil {
		t.Errorf("%s: %v", line, err)
		return
	}
	root := (&app{}).personality(program)
	got, rest, err := root.Find(strings.Split(strings.TrimSpace(string(args)), "\n"))
	if err != nil || !strings.HasPrefix(got.CommandPath()+" ", c.CommandPath()+" ") {
		t.Errorf("%s: it is %q, %v", line, got.CommandPath(), err)
		return
	}
	if err := got.ParseFlags(rest); err != nil && !got.DisableFlagParsing {
		t.Errorf("%s: %v", line, err)
	}
}

// TestReferenceIsCurrent: docs/reference/cli.md is what the commands say.
func TestReferenceIsCurrent(t *testing.T) {
	var b bytes.Buffer
	Reference(&b)
	got, err := os.ReadFile("../../docs/reference/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(got) {
		t.Error("docs/reference/cli.md is out of date: go generate ./internal/cli")
	}
}

// TestOneSpelling: a flag means the same wherever it is, and has one short form.
func TestOneSpelling(t *testing.T) {
	short := map[string]string{}
	everyCommand((&app{}).root(), func(c *cobra.Command) {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if was, ok := short[f.Name]; ok && was != f.Shorthand && f.Shorthand != "" && was != "" {
				t.Errorf("%s: --%s is -%s here and -%s elsewhere", c.CommandPath(), f.Name, f.Shorthand, was)
			}
			if f.Shorthand != "" {
				short[f.Name] = f.Shorthand
			}
		})
	})
}

// TestWeight: the client links no database, no Kubernetes and nothing of the
// server, so that it starts at once.
func TestWeight(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", "croft.dev/croft/cmd/croft").CombinedOutput()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, out)
	}
	allowed := []string{
		"croft.dev/croft/api/v1", "croft.dev/croft/cmd/croft", "croft.dev/croft/internal/cli", "croft.dev/croft/internal/version",
		"github.com/coder/websocket", "github.com/spf13/cobra",
		"github.com/spf13/pflag", "go.yaml.in/yaml/v3",
		"golang.org/x/term", "golang.org/x/sys", "golang.org/x/text",
	}
	packages := strings.Fields(string(out))
	if len(packages) == 0 {
		t.Fatal("go list said nothing")
	}
	for _, p := range packages {
		ok := false
		for _, a := range allowed {
			ok = ok || p == a || strings.HasPrefix(p, a+"/")
		}
		if !ok {
			t.Errorf("links %s", p)
		}
	}
}
