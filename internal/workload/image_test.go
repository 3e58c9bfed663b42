package workload_test

import (
	"strings"
	"testing"

	"croft.dev/croft/internal/workload"
)

func TestRepository(t *testing.T) {
	for ref, want := range map[string]string{
		"tiny":                             "docker.io docker.io/library/tiny",
		"tiny:1":                           "docker.io docker.io/library/tiny",
		"team/train:1":                     "docker.io docker.io/team/train",
		"docker.io/tiny@sha256:1":          "docker.io docker.io/library/tiny",
		"index.docker.io/library/tiny:1":   "docker.io docker.io/library/tiny",
		"ghcr.io/lab/train:1@sha256:1":     "ghcr.io ghcr.io/lab/train",
		"GHCR.io/lab/train":                "ghcr.io ghcr.io/lab/train",
		"Hub/lab/train":                    "hub hub/lab/train",
		"localhost/pause:1":                "localhost localhost/pause",
		"127.0.0.1:5000/a/b:1":             "127.0.0.1:5000 127.0.0.1:5000/a/b",
		"hub.lab:5000/train":               "hub.lab:5000 hub.lab:5000/train",
		"sha256:0123456789abcdef":          "docker.io docker.io/library/sha256",
		"registry-1.docker.io/team/x:1":    "docker.io docker.io/team/x",
		"registry.hub.docker.com/team/x:1": "docker.io docker.io/team/x",
	} {
		registry, repository := workload.Repository(ref)
		if got := registry + " " + repository; got != want {
			t.Errorf("%s is of %s, want %s", ref, got, want)
		}
	}
}

func TestParseRegistry(t *testing.T) {
	for in, want := range map[string]string{
		"ghcr.io": "ghcr.io", "https://GHCR.io/v2/": "ghcr.io", "https://index.docker.io/v1/": "docker.io", "hub.lab:5000": "hub.lab:5000",
		"[::1]:5000": "[::1]:5000", "localhost": "localhost",
		"": "", "http://hub.lab": "", "-x": "", "a b": "", "user@hub": "", "hub:port": "", "hub..lab": "", "hub\n": "", "a%2fb": "",
	} {
		got, ok := workload.ParseRegistry(in)
		if ok != (want != "") || ok && got != want {
			t.Errorf("%q is %q, %v; want %q", in, got, ok, want)
		}
	}
}

// FuzzParseRegistry: what is a registry's name is one again, and can stand in a path.
func FuzzParseRegistry(f *testing.F) {
	for _, s := range []string{"ghcr.io", "https://HUB.lab:5000/v2/", "[::1]:5000", "a@b", "hub..lab", "index.docker.io"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		name, ok := workload.ParseRegistry(s)
		if again, still := workload.ParseRegistry(name); ok && (again != name || !still || strings.ContainsAny(name, "/@%? \x00")) {
			t.Errorf("%q is %q, which is %q", s, name, again)
		}
	})
}

// FuzzRepository: the registry begins the repository, and is in its own spelling.
func FuzzRepository(f *testing.F) {
	for _, s := range []string{"tiny:1", "hub.lab:5000/a/b@sha256:1", "a:b/c:d@e", "/", "@", ":"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		registry, repository := workload.Repository(s)
		if !strings.HasPrefix(repository, registry+"/") || workload.RegistryHost(registry) != registry {
			t.Errorf("%q is of %q, %q", s, registry, repository)
		}
	})
}
