package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// maxHosts bounds what a list of hosts may stand for.
const maxHosts = 65536

// expandHosts reads a list of hosts as batch systems write it, such as
// "gpu[01-03,7],login1".
func expandHosts(list string) ([]string, error) {
	var out []string
	for _, item := range splitHosts(list) {
		names, err := expandHost(item)
		if err != nil {
			return nil, err
		}
		if out = append(out, names...); len(out) > maxHosts {
			return nil, usage("%q is more than %d hosts", list, maxHosts)
		}
	}
	return out, nil
}

// splitHosts splits at the commas that aren't in brackets.
func splitHosts(list string) []string {
	var out []string
	depth, from := 0, 0
	for i, r := range list {
		switch {
		case r == '[':
			depth++
		case r == ']':
			depth--
		case r == ',' && depth <= 0:
			out = append(out, list[from:i])
			from = i + 1
		}
	}
	out = append(out, list[from:])
	return slices.DeleteFunc(out, func(s string) bool { return s == "" })
}

func expandHost(item string) ([]string, error) {
	prefix, rest, ok := strings.Cut(item, "[")
	if !ok {
		return []string{item}, nil
	}
	ranges, suffix, ok := strings.Cut(rest, "]")
	if !ok || strings.ContainsAny(suffix, "[]") {
		return nil, usage("%q isn't a list of hosts such as gpu[1-4,7]", item)
	}
	var out []string
	for r := range strings.SplitSeq(ranges, ",") {
		low, high, span := strings.Cut(r, "-")
		if !span {
			high = low
		}
		from, err1 := strconv.ParseUint(low, 10, 31)
		to, err2 := strconv.ParseUint(high, 10, 31)
		if err1 != nil || err2 != nil || to < from || to-from >= maxHosts || len(low) > 9 {
			return nil, usage("%q isn't a list of hosts such as gpu[1-4,7]", item)
		}
		for n := from; n <= to; n++ {
			out = append(out, fmt.Sprintf("%s%0*d%s", prefix, len(low), n, suffix))
		}
	}
	return out, nil
}

// foldHosts writes host names as a list: "gpu[1-3,7],login".
func foldHosts(names []string) string {
	type run struct {
		prefix   string
		width    int
		from, to uint64
	}
	var plain []string
	var runs []run
	names = slices.Clone(names)
	slices.SortFunc(names, natural)
	for _, name := range slices.Compact(names) {
		digits := name[len(strings.TrimRight(name, "0123456789")):]
		n, err := strconv.ParseUint(digits, 10, 31)
		prefix := strings.TrimSuffix(name, digits)
		if err != nil || len(digits) > 9 {
			plain = append(plain, name)
			continue
		}
		width := 0 // of numbers with leading zeros
		if digits[0] == '0' && len(digits) > 1 {
			width = len(digits)
		}
		if i := len(runs) - 1; i >= 0 && runs[i].prefix == prefix && runs[i].to+1 == n && follows(runs[i].width, width, len(digits)) {
			runs[i].to = n
			continue
		}
		runs = append(runs, run{prefix, width, n, n})
	}
	out := []string{}
	for i := 0; i < len(runs); {
		k := i
		var parts []string
		for ; k < len(runs) && runs[k].prefix == runs[i].prefix; k++ {
			from := fmt.Sprintf("%0*d", runs[k].width, runs[k].from)
			if runs[k].to > runs[k].from {
				from += fmt.Sprintf("-%0*d", runs[k].width, runs[k].to)
			}
			parts = append(parts, from)
		}
		if text := strings.Join(parts, ","); len(parts) == 1 && !strings.Contains(text, "-") {
			out = append(out, runs[i].prefix+text)
		} else {
			out = append(out, runs[i].prefix+"["+text+"]")
		}
		i = k
	}
	return strings.Join(append(out, plain...), ",")
}

// follows reports whether a number of so many digits may go on a range: all of one
// length where there are leading zeros.
func follows(width, next, digits int) bool {
	if width == 0 {
		return next == 0
	}
	return digits == width
}

// natural orders names that end in numbers by those.
func natural(a, b string) int {
	pa, pb := strings.TrimRight(a, "0123456789"), strings.TrimRight(b, "0123456789")
	if c := strings.Compare(pa, pb); c != 0 {
		return c
	}
	na, nb := a[len(pa):], b[len(pb):]
	ta, tb := strings.TrimLeft(na, "0"), strings.TrimLeft(nb, "0")
	if len(ta) != len(tb) {
		return len(ta) - len(tb)
	}
	if c := strings.Compare(ta, tb); c != 0 {
		return c
	}
	return len(na) - len(nb)
}
