package archtest

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// doc is a page of the documentation.
type doc struct {
	path string // relative to the root
	text string
}

// readDocs reads every page that people write or that is generated for them.
func readDocs(t *testing.T) []doc {
	t.Helper()
	paths := []string{"README.md", "CONTRIBUTING.md"}
	err := filepath.WalkDir(filepath.Join(root, "docs"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".md") {
			rel, _ := filepath.Rel(root, path) // both are relative to here
			paths = append(paths, rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var docs []doc
	for _, p := range paths {
		docs = append(docs, doc{p, readFile(t, p)})
	}
	return docs
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
)

// TestLinks checks that what pages of the documentation link to is there.
func TestLinks(t *testing.T) {
	for _, d := range readDocs(t) {
		for _, m := range link.FindAllStringSubmatch(d.text, -1) {
			target, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(m[1], "://") {
				continue
			}
			path := d.path
			if target != "" {
				path = filepath.Join(filepath.Dir(d.path), target)
			}
			if _, err := os.Stat(filepath.Join(root, path)); err != nil {
				t.Errorf("%s links to %s, which isn't there", d.path, m[1])
				continue
			}
			if anchor != "" && !slices.Contains(anchors(readFile(t, path)), anchor) {
				t.Errorf("%s links to %s, but %s has no such heading", d.path, m[1], path)
			}
		}
	}
}

// anchors are the names that a page's headings can be linked by.
func anchors(text string) []string {
	var all []string
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		name := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-', r == '_':
				return r
			}
			return -1
		}, strings.ToLower(m[1]))
		all = append(all, name)
	}
	return all
}

// TestCommandsInDocs checks every croft command of a page against the reference,
// which is made from the commands themselves: its name and its flags.
func TestCommandsInDocs(t *testing.T) {
	reference := readFile(t, "docs/reference/cli.md")
	commands := commandFlags(reference)
	checked := 0
	for _, d := range readDocs(t) {
		if d.path == "docs/reference/cli.md" {
			continue
		}
		for _, line := range commandLines(d.text) {
			checked++
			if fault := commandFault(commands, line); fault != "" {
				t.Errorf("%s: %q: %s", d.path, strings.Join(line, " "), fault)
			}
		}
	}
	if checked < 50 {
		t.Errorf("only %d commands found in the documentation: are they still recognized?", checked)
	}
}

var (
	commandHeading = regexp.MustCompile(`(?m)^### croft (.*)$`)
	alsoLine       = regexp.MustCompile(`(?m)^Also: (.*)\.$`)
	flagRow        = regexp.MustCompile(`(?m)^\| \x60((?:-[a-zA-Z], )?--[a-z-]+)`)
	codeSpan       = regexp.MustCompile("`(croft [a-z][^`]*)`")
	commandText    = regexp.MustCompile(`^(?:.*\$ |.*# |[a-z]+=\$\()?(croft [a-z].*)$`)
)

// commandFlags reads the reference: flags by command, aliases included. The entry
// "" has the flags of every command.
func commandFlags(reference string) map[string][]string {
	commands := map[string][]string{}
	starts := commandHeading.FindAllStringSubmatchIndex(reference, -1)
	for i, s := range starts {
		end := len(reference)
		if i+1 < len(starts) {
			end = starts[i+1][0]
		}
		body := reference[s[0]:end]
		names := []string{reference[s[2]:s[3]]}
		if m := alsoLine.FindStringSubmatch(body); m != nil {
			names = append(names, strings.Split(strings.ReplaceAll(m[1], "`", ""), ", ")...)
		}
		for _, name := range names {
			commands[name] = flagsOf(body)
		}
	}
	if len(starts) > 0 {
		commands[""] = flagsOf(reference[:starts[0][0]])
	}
	return commands
}

func flagsOf(text string) []string {
	flags := []string{"--help", "-h"}
	for _, m := range flagRow.FindAllStringSubmatch(text, -1) {
		flags = append(flags, strings.Split(m[1], ", ")...)
	}
	return flags
}

// commandLines finds commands in code blocks and code spans, split into words.
func commandLines(text string) [][]string {
	var lines [][]string
	for _, m := range codeSpan.FindAllStringSubmatch(text, -1) {
		lines = append(lines, strings.Fields(m[1]))
	}
	for line := range strings.Lines(text) {
		code, ok := strings.CutPrefix(line, "    ")
		if !ok {
			continue
		}
		if m := commandText.FindStringSubmatch(strings.TrimSpace(code)); m != nil {
			lines = append(lines, strings.Fields(m[1]))
		}
	}
	return lines
}

// commandFault says what is wrong with a command line, "" if nothing is. What
// follows an image is the job's own.
func commandFault(commands map[string][]string, words []string) string {
	name, n := "", 1
	for i := 2; i <= len(words); i++ {
		if _, ok := commands[strings.Join(words[1:i], " ")]; ok {
			name, n = strings.Join(words[1:i], " "), i
		}
	}
	if name == "" {
		return "no such command"
	}
	if name == "server" || name == "setup" || name == "db" {
		return "" // croftd's own flags
	}
	known := append(slices.Clone(commands[name]), commands[""]...)
	for _, w := range words[n:] {
		flag, _, _ := strings.Cut(strings.TrimRight(w, ")`"), "=")
		switch {
		case w == "--" || strings.HasPrefix(w, "#"):
			return ""
		case strings.Contains(w, ":") && !strings.HasPrefix(w, "-") && slices.Contains(known, "--pull"):
			return "" // the image
		case strings.HasPrefix(flag, "--") && !slices.Contains(known, flag):
			return "no flag " + flag
		case len(flag) == 2 && flag[0] == '-' && !slices.Contains(known, flag):
			return "no flag " + flag
		}
	}
	return ""
}

// TestCommandFault checks the check.
func TestCommandFault(t *testing.T) {
	commands := commandFlags("| `-o, --output string` | x |\n### croft ls\n\nAlso: `ps`.\n\n| `-a, --all` | x |\n### croft run\n\n| `--gpu string` | x |\n| `--pull string` | x |\n")
	tests := map[string]string{
		"croft ls -a -o json":                 "",
		"croft ps --all":                      "",
		"croft ls --every":                    "no flag --every",
		"croft list":                          "no such command",
		"croft run --gpu 1 train:1 sh --loud": "",
		"croft run --tpu 1 train:1":           "no flag --tpu",
	}
	for line, want := range tests {
		if got := commandFault(commands, strings.Fields(line)); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

// TestFoldersInDocs checks that docs/architecture.md, in its list of folders, names every one
// that a newcomer finds at the first levels.
func TestFoldersInDocs(t *testing.T) {
	_, list, _ := strings.Cut(readFile(t, "docs/architecture.md"), "\n## Folders\n")
	list, _, _ = strings.Cut(list, "\n## ")
	named := map[string]bool{}
	for _, w := range regexp.MustCompile(`[\w/-]+`).FindAllString(list, -1) {
		for _, part := range strings.Split(w, "/") {
			named[part] = true
		}
	}
	for _, pattern := range []string{"cmd/*", "deploy/*", "internal/*", "internal/engine/*", "internal/loop/*", "internal/store/*", "test/*"} {
		dirs, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(dirs) == 0 {
			t.Errorf("%s: %d folders, %v", pattern, len(dirs), err)
		}
		for _, dir := range dirs {
			name := filepath.Base(dir)
			if st, err := os.Stat(dir); err == nil && st.IsDir() && !named[name] && name != "testdata" && name != "migrations" {
				t.Errorf("docs/architecture.md doesn't say what %s is", strings.TrimPrefix(dir, root+"/"))
			}
		}
	}
}

var (
	codeName   = regexp.MustCompile("`([A-Z]+(?:_[A-Z]+)+|FUNDS|PRIORITY|MAINTENANCE)`")
	testName   = regexp.MustCompile(`\b(Test[A-Z][A-Za-z]+)\b`)
	configKey  = regexp.MustCompile("`((?:listen|database|engine|devices|plan|log|defaults)\\.[a-z_.]+)`")
	reasonLine = regexp.MustCompile("(?m)^- `([A-Z_]+)`$")
)

// TestNamesInDocs checks that reason codes, configuration keys and tests that the
// documentation names exist.
func TestNamesInDocs(t *testing.T) {
	var reasons []string
	for _, m := range reasonLine.FindAllStringSubmatch(readFile(t, "docs/reference/codes.md"), -1) {
		reasons = append(reasons, m[1])
	}
	config := readFile(t, "docs/reference/config.md")
	tests := testNames(t)
	for _, d := range readDocs(t) {
		if strings.HasPrefix(d.path, "docs/reference/") {
			continue
		}
		for _, m := range codeName.FindAllStringSubmatch(d.text, -1) {
			if !slices.Contains(reasons, m[1]) && !isVariable(m[1]) {
				t.Errorf("%s: there is no reason %s", d.path, m[1])
			}
		}
		for _, m := range configKey.FindAllStringSubmatch(d.text, -1) {
			section, key, _ := strings.Cut(m[1], ".")
			if _, after, ok := strings.Cut(config, "## `"+section+"`"); !ok || !strings.Contains(strings.Split(after, "\n## ")[0], "| `"+key) {
				t.Errorf("%s: there is no configuration key %s", d.path, m[1])
			}
		}
		for _, m := range testName.FindAllStringSubmatch(d.text, -1) {
			if !slices.Contains(tests, m[1]) {
				t.Errorf("%s: there is no %s", d.path, m[1])
			}
		}
	}
}

// isVariable tells variables of the environment from codes.
func isVariable(name string) bool {
	return strings.HasPrefix(name, "CROFT_") || strings.HasPrefix(name, "CRANE_") || strings.HasPrefix(name, "NO_") || strings.HasPrefix(name, "HF_") || strings.HasPrefix(name, "CAP_") ||
		slices.Contains([]string{"CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "HTTP_PROXY", "HTTPS_PROXY", "NODE_EXTRA_CA_CERTS", "MASTER_ADDR", "VOLCANO_BIN", "MASTER_PORT", "LOCAL_RANK", "WORLD_SIZE", "NODE_RANK", "CAP_SYS_RESOURCE"}, name)
}

// testNames are the names of all test functions.
func testNames(t *testing.T) []string {
	t.Helper()
	var names []string
	fn := regexp.MustCompile(`(?m)^func (Test[A-Za-z]+)\(`)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != root {
			return fs.SkipDir
		}
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		b, err := os.ReadFile(path)
		for _, m := range fn.FindAllSubmatch(b, -1) {
			names = append(names, string(m[1]))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
