package catalog

import (
	"slices"
	"strings"
)

// A set of accelerator models is written as their names with | between, sorted;
// "" is every model.

// Allows reports whether a set has model.
func Allows(models, model string) bool {
	if models == "" || models == model {
		return true
	}
	for rest, more := models, true; more; {
		var name string
		if name, rest, more = strings.Cut(rest, "|"); name == model {
			return true
		}
	}
	return false
}

// ModelNames lists the models of a set; nil for every model.
func ModelNames(models string) []string {
	if models == "" {
		return nil
	}
	return strings.Split(models, "|")
}

// ModelSet is the set of these models.
func ModelSet(names []string) string {
	names = slices.Clone(names)
	slices.Sort(names)
	return strings.Join(slices.Compact(names), "|")
}

// OneModel reports whether a set is a single model.
func OneModel(models string) bool { return models != "" && !strings.Contains(models, "|") }
