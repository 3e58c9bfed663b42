package sim

import (
	"maps"
	"slices"
	"strings"
	"time"

	"croft.dev/croft/internal/engine"
)

// builder puts a program together, command after command.
type builder struct {
	env     map[string]string
	workdir string

	p     Program
	at    time.Duration // when the next command begins
	ended bool          // nothing comes after: exit, or a command that never ends
}

func newBuilder(env map[string]string, workdir string) *builder {
	return &builder{env: env, workdir: workdir, p: Program{TrapTerm: -1}}
}

// program returns the result: it runs for as long as its commands do at least.
func (b *builder) program() Program {
	if b.p.Run >= 0 {
		b.p.Run = max(b.p.Run, b.at)
	}
	return b.p
}

func (b *builder) print(stream engine.Stream, text string) {
	for line := range strings.SplitSeq(text, "\n") {
		b.p.Output = append(b.p.Output, Output{At: b.at, Stream: stream, Text: line})
	}
}

func (b *builder) sleep(s string) bool {
	d, ok := parseDuration(s)
	if !ok || b.at+d > longest {
		return false
	}
	b.at += d
	return true
}

// command adds a simple command, whose output goes to stream. The one exit code
// of a program so far is that of its last command.
func (b *builder) command(argv []string, stream engine.Stream) {
	if len(argv) == 0 {
		b.forever()
		return
	}
	b.p.Exit = 0
	switch args := argv[1:]; baseName(argv[0]) {
	case "true", ":":
	case "false":
		b.p.Exit = 1
	case "sleep":
		b.sleepCommand(args)
	case "echo":
		b.print(stream, strings.Join(args, " "))
	case "pwd":
		b.print(stream, b.workdir)
	case "env":
		for _, name := range slices.Sorted(maps.Keys(b.env)) {
			b.print(stream, name+"="+b.env[name])
		}
	case "printenv":
		b.printenv(args, stream)
	case "exit":
		b.exit(args)
	case "cat":
		b.p.Stdin = true
	default:
		b.forever()
	}
}

// forever ends the script with a command that runs until it is signalled.
func (b *builder) forever() {
	b.p.Run = untilSignalled
	b.ended = true
}

func (b *builder) sleepCommand(args []string) {
	if len(args) == 1 && args[0] == "infinity" {
		b.forever()
		return
	}
	if len(args) != 1 || !b.sleep(args[0]) {
		b.print(engine.Stderr, "sleep: invalid time interval")
		b.p.Exit = 1
	}
}

func (b *builder) printenv(args []string, stream engine.Stream) {
	for _, name := range args {
		if value, ok := b.env[name]; ok {
			b.print(stream, value)
		} else {
			b.p.Exit = 1
		}
	}
}

func (b *builder) exit(args []string) {
	b.ended = true
	if len(args) == 0 {
		return
	}
	code, ok := parseExit(args[0])
	if !ok {
		b.print(engine.Stderr, "exit: numeric argument required")
		code = 2
	}
	b.p.Exit = code
}

// script adds the commands of a shell script. What isn't understood counts as a
// command that runs until it is signalled.
func (b *builder) script(text string) {
	lex := lexer{text: text, env: b.env}
	skip := false // the part after a failed one and &&
	for !b.ended {
		argv, end := lex.command()
		if end == unreadable {
			b.forever()
			return
		}
		stream := engine.Stdout
		if i := slices.IndexFunc(argv, func(w word) bool { return !w.quoted && (w.text == ">&2" || w.text == "1>&2") }); i >= 0 {
			stream = engine.Stderr
			argv = slices.Delete(argv, i, i+1)
		}
		if len(argv) > 0 && !skip {
			b.command(plain(argv), stream)
		}
		skip = end == and && (skip || b.p.Exit != 0)
		if end == finished {
			return
		}
	}
}

func plain(words []word) []string {
	argv := make([]string, len(words))
	for i, w := range words {
		argv[i] = w.text
	}
	return argv
}

// word is a word of a script. One with quotes is never an operator.
type word struct {
	text   string
	quoted bool
}

// ending is what comes after a command.
type ending int

const (
	finished ending = iota
	next            // ; or newline
	and             // &&
	unreadable
)

// lexer cuts a script into commands.
type lexer struct {
	text string
	env  map[string]string
}

// command returns the words up to the next separator.
func (l *lexer) command() ([]word, ending) {
	var words []word
	for {
		l.text = strings.TrimLeft(l.text, " \t")
		switch {
		case l.text == "":
			return words, finished
		case l.text[0] == ';' || l.text[0] == '\n':
			l.text = l.text[1:]
			return words, next
		case strings.HasPrefix(l.text, "&&"):
			l.text = l.text[2:]
			return words, and
		}
		w, ok := l.word()
		if !ok {
			return nil, unreadable
		}
		words = append(words, w)
	}
}

// word returns the next word; ok is false if it has what isn't understood.
func (l *lexer) word() (w word, ok bool) {
	var b strings.Builder
	for l.text != "" && !strings.ContainsRune(" \t\n;", rune(l.text[0])) {
		switch c := l.text[0]; {
		case c == '\'' || c == '"':
			part, rest, closed := strings.Cut(l.text[1:], string(c))
			if !closed {
				return word{}, false
			}
			if c == '"' {
				if strings.ContainsAny(part, "`\\") {
					return word{}, false
				}
				part, ok = l.expand(part)
				if !ok {
					return word{}, false
				}
			}
			b.WriteString(part)
			l.text, w.quoted = rest, true
		case strings.HasPrefix(l.text, ">&2"):
			b.WriteString(">&2")
			l.text = l.text[3:]
		case strings.HasPrefix(l.text, "&&"):
			w.text = b.String()
			return w, true
		case strings.ContainsRune("|&<>(){}`\\*?[#~!", rune(c)):
			return word{}, false
		default:
			n := strings.IndexAny(l.text, " \t\n;'\"|&<>(){}`\\*?[#~!")
			if n < 0 {
				n = len(l.text)
			}
			part, ok := l.expand(l.text[:n])
			if !ok {
				return word{}, false
			}
			b.WriteString(part)
			l.text = l.text[n:]
		}
	}
	w.text = b.String()
	return w, true
}

// expand puts in the values of $NAME; ok is false for any other use of $.
func (l *lexer) expand(s string) (string, bool) {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(s, "$")
		b.WriteString(before)
		if !found {
			return b.String(), true
		}
		n := 0
		for n < len(after) && isNameByte(after[n]) {
			n++
		}
		if n == 0 {
			return "", false
		}
		b.WriteString(l.env[after[:n]])
		s = after[n:]
	}
}

func isNameByte(c byte) bool {
	return c == '_' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c >= '0' && c <= '9'
}
