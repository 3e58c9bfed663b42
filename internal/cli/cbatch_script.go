package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"
)

// batchScript is a script as it was submitted.
type batchScript struct {
	name, text string
	job        string // the job's name by default
	bare       bool   // its first line names no interpreter
}

// shellOfScripts runs scripts that don't say what runs them.
const shellOfScripts = "#!/bin/bash\n"

// batchScript reads a script, or makes one of a command line.
func (a *app) batchScript(program string, args []string, wrap string) (batchScript, error) {
	switch {
	case wrap != "" && len(args) > 0:
		return batchScript{}, usage("--wrap and a script: give one of them")
	case wrap != "":
		return batchScript{name: "--wrap", job: "wrap", text: "#!/bin/sh\n" + wrap + "\n"}, nil
	case len(args) == 0:
		return batchScript{}, usage("which script? %s SCRIPT, - for standard input, or --wrap COMMAND", program)
	}
	s := batchScript{name: filepath.Base(args[0]), job: filepath.Base(args[0])}
	var text []byte
	var err error
	if args[0] == "-" {
		s.name, s.job = "standard input", program
		text, err = io.ReadAll(io.LimitReader(a.env.Stdin, maxScript+1))
	} else {
		text, err = readBounded(a.hostPath(args[0]))
	}
	if err != nil {
		return s, usage("%v", err)
	}
	s.text = string(text)
	return s.checked()
}

func readBounded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxScript+1))
}

// checked refuses what can't be run as it is.
func (s batchScript) checked() (batchScript, error) {
	switch {
	case len(s.text) >= maxScript:
		return s, usage("%s has %d KiB or more: have a small script run it", s.name, maxScript>>10)
	case strings.TrimSpace(s.text) == "":
		return s, usage("%s is empty", s.name)
	case strings.ContainsRune(s.text, 0):
		return s, usage("%s isn't a script: it has bytes that no text has", s.name)
	}
	for i, line := range strings.Split(s.text, "\n") {
		if strings.HasSuffix(line, "\r") {
			return s, usage(`%s: line %d ends as lines of Windows do, with which nothing would be found: sed -i 's/\r$//' FILE`, s.name, i+1)
		}
	}
	if !strings.HasPrefix(s.text, "#!") {
		s.bare, s.text = true, shellOfScripts+s.text
	}
	return s, nil
}

// directives are the options in a script, as the words of a command line.
type directives struct {
	options []string
	late    int      // the first line with some after the first command; 0: none
	unknown []string // of Slurm's, which mean nothing here
	bare    bool
}

// directives finds the options in a script whose flags are fs: one on each line #CBATCH,
// any number on one of #SBATCH.
func (s batchScript) directives(fs *pflag.FlagSet) (directives, error) {
	d := directives{bare: s.bare}
	begun := false
	for i, line := range strings.Split(s.text, "\n") {
		n := i + 1
		if s.bare {
			n-- // the first isn't in the file
		}
		line = strings.TrimSpace(line)
		begun = begun || line != "" && line[0] != '#'
		mark, rest := directive(line)
		if mark == "" {
			continue
		}
		if begun {
			if d.late == 0 {
				d.late = n
			}
			continue
		}
		words, err := shellWords(rest)
		if err == nil && mark == "#CBATCH" {
			err = one(fs, words)
		}
		if err != nil {
			return d, usage("%s: line %d: %v", s.name, n, err)
		}
		if mark == "#SBATCH" {
			words = d.slurm(fs, words)
		}
		d.options = append(d.options, words...)
	}
	return d, nil
}

// directive splits a line of options, "" for another.
func directive(line string) (mark, rest string) {
	for _, mark := range []string{"#CBATCH", "#SBATCH"} {
		if rest, ok := strings.CutPrefix(line, mark); ok && rest != "" && (rest[0] == ' ' || rest[0] == '\t') {
			return mark, rest
		}
	}
	return "", ""
}

// one checks that words are one option with its value, if it has one.
func one(fs *pflag.FlagSet, words []string) error {
	if len(words) == 0 {
		return nil
	}
	f, given := flagOf(fs, words[0])
	most := 2
	if given || f != nil && f.NoOptDefVal != "" {
		most = 1
	}
	switch {
	case !strings.HasPrefix(words[0], "-"):
		return fmt.Errorf("%q isn't an option", words[0])
	case f == nil:
		return fmt.Errorf("there is no option %s", words[0])
	case len(words) > most:
		return fmt.Errorf("%q after %s: give one option on a line, and quote a value with blanks", words[most], words[0])
	}
	return nil
}

// flagOf is the flag that a word names, and whether the word has its value too.
func flagOf(fs *pflag.FlagSet, word string) (f *pflag.Flag, given bool) {
	if name, long := strings.CutPrefix(word, "--"); long {
		name, _, given = strings.Cut(name, "=")
		return fs.Lookup(name), given
	}
	if len(word) < 2 || word[0] != '-' {
		return nil, false
	}
	return fs.ShorthandLookup(word[1:2]), len(word) > 2
}

// slurm keeps those of Slurm's options that there are here.
func (d *directives) slurm(fs *pflag.FlagSet, words []string) (known []string) {
	for i := 0; i < len(words); i++ {
		f, given := flagOf(fs, words[i])
		value := !given && i+1 < len(words) && !strings.HasPrefix(words[i+1], "-")
		switch {
		case f == nil:
			name, _, _ := strings.Cut(words[i], "=")
			d.unknown = append(d.unknown, name)
			if value {
				i++
			}
		case value && f.NoOptDefVal == "":
			known = append(known, words[i], words[i+1])
			i++
		case value && f.Value.Type() != "bool": // one that is passed over, with what it says
			known = append(known, words[i])
			i++
		default:
			known = append(known, words[i])
		}
	}
	return known
}

// warnings say what is done with a script that may not be meant.
func (d directives) warnings(script string) []string {
	var out []string
	if d.bare {
		out = append(out, script+" doesn't say what runs it, as a first line #!/bin/bash does: "+strings.TrimSpace(shellOfScripts[2:])+" does")
	}
	if d.late > 0 {
		out = append(out, fmt.Sprintf("%s: options from line %d on come after the first command and aren't read", script, d.late))
	}
	if len(d.unknown) > 0 {
		out = append(out, script+": of #SBATCH not used here: "+strings.Join(d.unknown, " "))
	}
	return out
}
