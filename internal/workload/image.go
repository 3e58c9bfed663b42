package workload

import (
	"regexp"
	"strings"
)

// hub is the registry of images whose names have none.
const hub = "docker.io"

// registryName is a host with or without a port.
var registryName = regexp.MustCompile(`^(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*|\[[0-9a-f:]+\])(?::[0-9]{1,5})?$`)

// Repository says where an image comes from: the registry, and the repository there with
// the registry's name before it, both as every spelling of them reads. The rules are those
// of container runtimes: what comes before the first slash is a registry if it has a dot or
// a port, or is localhost.
func Repository(ref string) (registry, repository string) {
	ref, _, _ = strings.Cut(ref, "@")
	if colon := strings.LastIndexByte(ref, ':'); colon > strings.LastIndexByte(ref, '/') {
		ref = ref[:colon]
	}
	first, rest, found := strings.Cut(ref, "/")
	if !found || !strings.ContainsAny(first, ".:") && first != "localhost" && first == strings.ToLower(first) {
		first, rest = hub, ref
	}
	if first = RegistryHost(first); first == hub && !strings.Contains(rest, "/") {
		rest = "library/" + rest
	}
	return first, first + "/" + rest
}

// RegistryHost is a registry's name as Croft keeps it.
func RegistryHost(name string) string {
	name = strings.ToLower(name)
	switch name {
	case "index.docker.io", "registry-1.docker.io", "registry.hub.docker.com":
		return hub
	}
	return name
}

// ParseRegistry reads the name of a registry as people write it: also with https:// before
// it and a path after.
func ParseRegistry(s string) (string, bool) {
	s = strings.TrimPrefix(s, "https://")
	s, _, _ = strings.Cut(s, "/")
	s = RegistryHost(s)
	return s, len(s) <= 255 && registryName.MatchString(s)
}
