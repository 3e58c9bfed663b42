// Package product makes the catalogue's names of accelerator models from what their makers
// call them, the same on a machine and on a cluster.
package product

import (
	"regexp"
	"strings"
)

var (
	memory = regexp.MustCompile(`(?i)\b(\d+)\s*GB\b`)
	// What says how a card is built in, not what it is.
	noise = regexp.MustCompile(`(?i)\b(nvidia|tesla|geforce|quadro|generation|graphics|sxm\d*|pcie?|pg\d+|hbm\d\w*|\d+\s*GB)\b`)
	split = regexp.MustCompile(`[^a-z0-9]+`)
)

// Model makes the catalogue's name of a model from a product name: "NVIDIA
// A100-SXM4-80GB" is "a100-80g", "NVIDIA GeForce RTX 3090" is "rtx-3090".
func Model(name string) string {
	base := split.ReplaceAllString(strings.ToLower(noise.ReplaceAllString(name, " ")), "-")
	if base = strings.Trim(base, "-"); base == "" {
		base = "gpu"
	}
	if m := memory.FindStringSubmatch(name); m != nil {
		base += "-" + m[1] + "g"
	}
	return base
}

// Part is the name of an instance of a model that is cut in parts: "a100-80g.1g.10gb". Both
// are models of their own.
func Part(model, profile string) string { return model + "." + profile }
