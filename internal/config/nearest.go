package config

import (
	"reflect"
	"strings"
)

// hint names the key that was probably meant by the unknown key in the section
// at path, as the end of a message.
func (d *decoder) hint(section reflect.Type, path, key string) string {
	var here []string
	for i := range section.NumField() {
		if k := keyOf(section.Field(i)); k != "" {
			here = append(here, k)
		}
	}
	if k := nearest(key, here); k != "" {
		return ": did you mean " + k + "?"
	}
	// The right key in the wrong section.
	for _, p := range keyPaths(reflect.TypeFor[Config](), "") {
		if p[strings.LastIndexByte(p, '.')+1:] == key {
			return ": did you mean " + p + "?"
		}
	}
	where := "here"
	if path != "" {
		where = "in " + path
	}
	return "; known " + where + ": " + strings.Join(here, ", ")
}

// keyPaths returns the paths of all keys of t outside of lists.
func keyPaths(t reflect.Type, prefix string) []string {
	var out []string
	for i := range t.NumField() {
		f := t.Field(i)
		p := join(prefix, keyOf(f))
		out = append(out, p)
		if f.Type.Kind() == reflect.Struct {
			out = append(out, keyPaths(f.Type, p)...)
		}
	}
	return out
}

// nearest returns the candidate with the fewest edits to word, or "" if none is
// near.
func nearest(word string, candidates []string) string {
	best, bound := "", 1+len(word)/4
	if len(word) > 64 {
		return ""
	}
	for _, c := range candidates {
		n := edits(strings.ToLower(word), c)
		if strings.HasPrefix(c, word) && len(word) >= 3 {
			n = min(n, bound)
		}
		if n < bound || n == bound && best == "" {
			best, bound = c, n
		}
	}
	return best
}

// edits is the optimal string alignment distance of a and b: insertions,
// deletions, substitutions and swaps of neighbours (Damerau 1964).
func edits(a, b string) int {
	before, last := []int(nil), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
