package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// slurmSpan reads a time limit as Slurm writes it: minutes, M:S, H:M:S, D-H, D-H:M or
// D-H:M:S.
func slurmSpan(s string) (time.Duration, error) {
	bad := usage("%q: want a time as 90 (minutes), 1:30:00 or 1-12:00:00", s)
	days, rest, withDays := strings.Cut(s, "-")
	if !withDays {
		days, rest = "0", s
	}
	fields := strings.Split(rest, ":")
	units := map[int][]time.Duration{
		1: {time.Minute}, 2: {time.Minute, time.Second}, 3: {time.Hour, time.Minute, time.Second},
	}[len(fields)]
	if withDays {
		units = []time.Duration{time.Hour, time.Minute, time.Second}
	}
	if len(fields) > 3 || units == nil {
		return 0, bad
	}
	var sum time.Duration
	for i, f := range append([]string{days}, fields...) {
		n, err := strconv.ParseUint(f, 10, 20)
		if err != nil {
			return 0, bad
		}
		unit := 24 * time.Hour
		if i > 0 {
			unit = units[i-1]
		}
		sum += time.Duration(n) * unit
		if sum > 10*365*24*time.Hour {
			return 0, bad
		}
	}
	if sum == 0 {
		return 0, bad
	}
	return sum, nil
}

// slurmInstant is slurmTime for the API; a time of day is its next.
func (a *app) slurmInstant(s string) (string, error) {
	if s == "" {
		return "", nil
	}
	t, err := a.slurmTime(s)
	if err != nil {
		return "", err
	}
	if now := a.env.Now(); t.Before(now) && strings.Contains(s, ":") && !strings.ContainsAny(s, "-/T") {
		t = t.AddDate(0, 0, 1)
	}
	return t.UTC().Format(time.RFC3339), nil
}

// slurmBytes reads an amount of memory as Slurm writes it: a number of MB, or with K,
// M, G or T, in MB.
func slurmMegabytes(s string) (int64, error) {
	number := strings.TrimRight(s, "KMGTBkmgtb")
	n, err := strconv.ParseInt(number, 10, 40)
	if err != nil || n < 0 {
		return 0, usage("%q: want an amount of memory such as 4000 (MB), 4000M or 4G", s)
	}
	switch unit := strings.TrimSuffix(strings.ToUpper(s[len(number):]), "B"); unit {
	case "", "M":
	case "K":
		n = (n + 1023) / 1024
	case "G":
		n <<= 10
	case "T":
		n <<= 20
	default:
		return 0, usage("%q: %q isn't a unit: want K, M, G or T", s, unit)
	}
	if n == 0 {
		return 0, usage("memory 0 is all of a node to Slurm; nodes are shared here: say how much")
	}
	return n, nil
}

// gpuAmount reads a number of devices: "2", "a100:2" or "a100" (one), and with gres
// "gpu", "gpu:2" or "gpu:a100:2".
func gpuAmount(s string, gres bool) (model string, n int64, err error) {
	fields := strings.Split(s, ":")
	if gres {
		if fields[0] != "gpu" {
			return "", 0, usage("--gres %s: only gpu is known, as gpu:2 or gpu:MODEL:2", s)
		}
		fields = fields[1:]
	}
	switch len(fields) {
	case 0:
		return "", 1, nil
	case 1:
		if n, err := strconv.ParseInt(fields[0], 10, 20); err == nil && n >= 0 {
			return "", n, nil
		}
		return fields[0], 1, nil
	case 2:
		if n, err := strconv.ParseInt(fields[1], 10, 20); err == nil && n >= 0 && fields[0] != "" {
			return fields[0], n, nil
		}
	}
	return "", 0, usage("%q: want a number of devices such as 2 or MODEL:2", s)
}

// pattern fills in the name of an output file (sbatch(1), "filename pattern"). values
// are by letter; a number between % and the letter is the least width, filled with
// zeros.
func pattern(name string, values map[byte]string) string {
	if rest, plain := strings.CutPrefix(name, `\`); plain {
		return rest
	}
	var b strings.Builder
	for i := 0; i < len(name); i++ {
		if name[i] != '%' {
			b.WriteByte(name[i])
			continue
		}
		k := i + 1
		for k < len(name) && name[k] >= '0' && name[k] <= '9' && k-i <= 2 {
			k++
		}
		switch value, ok := "", false; {
		case k == len(name):
			b.WriteString(name[i:])
			i = k
		case name[k] == '%':
			b.WriteByte('%')
			i = k
		default:
			if value, ok = values[name[k]]; !ok {
				b.WriteByte('%')
				continue
			}
			width, _ := strconv.Atoi(name[i+1 : k]) // none is 0
			b.WriteString(fmt.Sprintf("%s%s", strings.Repeat("0", max(0, width-len(value))), value))
			i = k
		}
	}
	return b.String()
}

// scriptOptions collects the options in a script: on the lines of comments before the
// first command that begin with #SBATCH or #CROFT.
func scriptOptions(script string) ([]string, error) {
	var args []string
	for n, line := range strings.Split(script, "\n") {
		line = strings.TrimSpace(line)
		if line != "" && line[0] != '#' {
			break
		}
		var rest string
		for _, mark := range []string{"#SBATCH", "#CROFT"} {
			if after, ok := strings.CutPrefix(line, mark); ok && after != "" && (after[0] == ' ' || after[0] == '\t') {
				rest = after
			}
		}
		words, err := shellWords(rest)
		if err != nil {
			return nil, usage("line %d: %v", n+1, err)
		}
		args = append(args, words...)
	}
	return args, nil
}

// shellWords splits a line of options into words, with quotes and backslashes; a word
// that begins with # ends it.
func shellWords(s string) ([]string, error) {
	var words []string
	var word strings.Builder
	in, quote := false, rune(0)
	escaped := false
	for _, r := range s {
		switch {
		case escaped:
			word.WriteRune(r)
			escaped = false
		case r == '\\' && quote != '\'':
			escaped, in = true, true
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, in = r, true
		case r == ' ' || r == '\t' || r == '\r':
			if in {
				words = append(words, word.String())
				word.Reset()
				in = false
			}
		case r == '#' && !in:
			return words, nil
		default:
			word.WriteRune(r)
			in = true
		}
	}
	if quote != 0 || escaped {
		return nil, fmt.Errorf("a quote or backslash isn't closed")
	}
	if in {
		words = append(words, word.String())
	}
	return words, nil
}
