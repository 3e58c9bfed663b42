package cri

import (
	"io"
	"log"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/uuid"

	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/engine/conformance"
)

func TestConformance(t *testing.T) {
	conformance.Run(t, func(t *testing.T) conformance.Fixture {
		e := newEngine(t)
		return conformance.Fixture{
			Engine:       e,
			Instance:     e.instance,
			Reconnect:    func(t *testing.T) engine.Engine { return reopen(t, e.cfg) },
			Other:        func(t *testing.T) (engine.Engine, string) { return other(t, e.cfg) },
			ImageOK:      "tiny:1",
			ImageMissing: emptyRegistry(t) + "/none:1",
			Node:         "node1",
			User:         engine.User{Name: "alice", UID: 5001, GID: 6001, Home: "/tmp", Shell: "/bin/sh"},
			Memory:       32 << 20,
			Commands:     conformance.ShellCommands(),
		}
	})
}

// reopen connects as the same instance does after a restart; the caller closes.
func reopen(t *testing.T, cfg Config) engine.Engine {
	t.Helper()
	e, err := New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func other(t *testing.T, cfg Config) (engine.Engine, string) {
	t.Helper()
	cfg.Instance = uuid.NewString()
	return reopen(t, cfg), cfg.Instance
}

// emptyRegistry starts a registry without images and returns its host.
func emptyRegistry(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}
