package sim

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"croft.dev/croft/internal/engine"
)

// Program is what an attempt does.
type Program struct {
	Refusal string        // Start answers a StartError with this message
	Failure string        // the program can't be run: the attempt ends with 127 and this
	Delay   time.Duration // between Start and the program's begin
	Output  []Output      // by At
	Run     time.Duration // how long it runs; negative: until a signal ends it
	Exit    int
	// OutOfMemory makes the end one by the memory limit.
	OutOfMemory bool
	// Caught are signals that the program catches; it prints "caught SIG".
	Caught []string
	// IgnoreTerm makes SIGTERM do nothing. TrapTerm, if not negative, is how long
	// after SIGTERM the program ends, with Exit. Else SIGTERM ends it with 143.
	IgnoreTerm bool
	TrapTerm   time.Duration
	// Stdin makes the program copy its standard input to its output until that ends.
	// A step that was started without one doesn't wait for any.
	Stdin bool
	// Sizes makes the program print the size of its terminal, as "ROWS COLUMNS",
	// whenever that changes.
	Sizes bool
	// CPU in milli-cores and, by the order of its devices, how busy it keeps those, in
	// thousandths: for Busy from its begin on, or with 0 as long as it runs.
	CPU  int64
	GPU  []int64
	Busy time.Duration
	// Ports are those that the program listens on, from its begin to its end.
	Ports []uint16
}

// Output is a line that a program prints, At after its begin.
type Output struct {
	At     time.Duration
	Stream engine.Stream
	Text   string // without the newline
}

// untilSignalled is the Run of a program that doesn't end by itself.
const untilSignalled = -1

// Script reads what an attempt does from its command and arguments. If the
// variable CROFT_SIM is set, its words, separated by spaces, are used instead as if
// they came after "sim". Commands:
//
//	sim WORD…        run=90s  runs that long, else 0 s;  forever  until signalled
//	                 exit=3   ends with that code
//	                 out=TEXT, err=TEXT  prints a line;  env=NAME, pwd  likewise
//	                 pause=1s lets time pass before the next line
//	                 delay=5s begins that long after Start
//	                 oom      ends out of memory
//	                 ignore-term, trap-term=2s, trap=USR1  see Program
//	                 not-found  isn't there;  refuse=TEXT  can't be started
//	                 ranks=A|B|C  what each rank of a gang does, its words joined by commas
//	                 listen=8888  listens on that port, see Config.Serve
//	                 sizes    prints the size of its terminal whenever that changes
//	                 cpu=0.5  uses half a core;  gpu=80,0  keeps its devices busy so
//	                 many percent of the time;  busy=10m  both for so long, then not at all
//	true false sleep echo printenv env pwd exit cat, sh -c and bash -c with
//	                 these, joined by ; && and newlines, with quotes, $NAME and >&2
//
// An attempt that pauses waits for SIGTERM, and ends with 0 then. Any other command, and none, prints nothing and runs until a signal ends it.
func Script(a engine.Allocation) Program {
	if a.Pause {
		return Program{Run: untilSignalled, TrapTerm: 0}
	}
	env := environment(a)
	if words := env["CROFT_SIM"]; words != "" {
		return parseWords(strings.Fields(words), env, a.Workdir)
	}
	return parseCommand(slices.Concat(a.Command, a.Args), env, a.Workdir)
}

// environment returns the variables that the program of a sees.
func environment(a engine.Allocation) map[string]string {
	env := map[string]string{
		"HOME": a.User.Home, "USER": a.User.Name, "LOGNAME": a.User.Name, "SHELL": a.User.Shell,
		"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
	}
	maps.Copy(env, a.Env)
	return env
}

// parseCommand reads one command line.
func parseCommand(argv []string, env map[string]string, workdir string) Program {
	b := newBuilder(env, workdir)
	switch {
	case len(argv) > 0 && argv[0] == "sim":
		return parseWords(argv[1:], env, workdir)
	case len(argv) == 3 && (baseName(argv[0]) == "sh" || baseName(argv[0]) == "bash") && argv[1] == "-c":
		b.script(argv[2])
	default:
		b.command(argv, engine.Stdout)
	}
	return b.program()
}

// parseWords reads the words after "sim".
func parseWords(words []string, env map[string]string, workdir string) Program {
	b := newBuilder(env, workdir)
	for _, word := range words {
		if !b.word(word) {
			return Program{
				Output:   []Output{{Stream: engine.Stderr, Text: "sim: cannot read " + strconv.Quote(word)}},
				Exit:     2,
				TrapTerm: -1,
			}
		}
	}
	return b.program()
}

// rank reads what the rank of a gang does that it is, or the last that is said.
func (b *builder) rank(all []string) bool {
	n, _ := strconv.Atoi(b.env["RANK"]) // 0 of one that is none
	for word := range strings.SplitSeq(all[min(n, len(all)-1)], ",") {
		if !b.word(word) {
			return false
		}
	}
	return true
}

// word reads one word of sim and reports whether it could.
func (b *builder) word(word string) bool {
	name, value, _ := strings.Cut(word, "=")
	ok := true
	switch name {
	case "run":
		b.p.Run, ok = parseDuration(value)
	case "forever":
		b.p.Run = untilSignalled
	case "exit":
		b.p.Exit, ok = parseExit(value)
	case "out":
		b.print(engine.Stdout, value)
	case "err":
		b.print(engine.Stderr, value)
	case "env":
		b.print(engine.Stdout, b.env[value])
	case "pwd":
		b.print(engine.Stdout, b.workdir)
	case "pause":
		ok = b.sleep(value)
	case "delay":
		b.p.Delay, ok = parseDuration(value)
	case "oom":
		b.p.OutOfMemory = true
	case "listen":
		port, err := strconv.ParseUint(value, 10, 16)
		ok = err == nil && port > 0
		b.p.Ports = append(b.p.Ports, uint16(port))
	case "sizes":
		b.p.Sizes = true
	case "cpu":
		b.p.CPU, ok = parseMilli(value)
	case "gpu":
		for part := range strings.SplitSeq(value, ",") {
			n, err := strconv.ParseUint(part, 10, 7)
			ok = ok && err == nil && n <= 100
			b.p.GPU = append(b.p.GPU, int64(n)*10)
		}
	case "busy":
		b.p.Busy, ok = parseDuration(value)
	case "ignore-term":
		b.p.IgnoreTerm = true
	case "trap-term":
		b.p.TrapTerm, ok = parseDuration(value)
	case "trap":
		var name string
		name, _, ok = lookSignal(value)
		b.p.Caught = append(b.p.Caught, name)
	case "not-found":
		b.p.Failure = "exec: \"sim\": executable file not found in $PATH"
	case "refuse":
		b.p.Refusal = value
	case "ranks":
		ok = b.rank(strings.Split(value, "|"))
	default:
		return false
	}
	return ok
}

// parseDuration reads a duration as Go writes it, or as sleep(1) does for one
// unit: a number without a unit is seconds, d is a day. It isn't negative and at
// most longest, so that sums stay in range.
func parseDuration(s string) (time.Duration, bool) {
	if days, ok := strings.CutSuffix(s, "d"); ok {
		n, err := strconv.ParseInt(days, 10, 64)
		return time.Duration(n) * day, err == nil && n >= 0 && n <= int64(longest/day)
	}
	if s != "" && s[len(s)-1] >= '0' && s[len(s)-1] <= '9' {
		s += "s"
	}
	d, err := time.ParseDuration(s)
	return d, err == nil && d >= 0 && d <= longest
}

const (
	day     = 24 * time.Hour
	longest = 100 * 365 * day
)

// parseMilli reads a number of cores with up to three digits after the point.
func parseMilli(s string) (int64, bool) {
	whole, part, _ := strings.Cut(s, ".")
	n, err := strconv.ParseUint(whole+(part + "000")[:3], 10, 24)
	return int64(n), err == nil && len(part) <= 3
}

func parseExit(s string) (int, bool) {
	n, err := strconv.ParseUint(s, 10, 8)
	return int(n), err == nil
}

func baseName(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }
