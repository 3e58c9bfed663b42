package sim_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"croft.dev/croft/internal/clock"
	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/engine/conformance"
	"croft.dev/croft/internal/engine/sim"
)

const (
	instance = "3f2a9c1e-0000-4000-8000-000000000001"
	imageOK  = "train:1"
)

var noon = time.Date(2026, 10, 8, 12, 0, 0, 0, time.UTC)

// config is a fleet of two nodes with four devices each.
func config(c clock.Clock) sim.Config {
	cfg := sim.Config{
		Clock:    c,
		Instance: instance,
		Images: []sim.Image{
			{Ref: imageOK, Size: 1 << 30, Present: true},
			{Ref: "big:1", Size: 20<<30 + 7, PullTime: time.Minute},
			{Ref: "secret:1", Size: 1 << 20, PullTime: time.Second, Password: "open sesame"},
		},
	}
	for n := range 2 {
		name := fmt.Sprintf("node%d", n)
		cfg.Nodes = append(cfg.Nodes, engine.Node{Name: name, CPU: 64_000, Memory: 512 << 30, Ready: true})
		for i := range 4 {
			cfg.Devices = append(cfg.Devices, engine.Device{
				UUID: fmt.Sprintf("SIM-%d-%d", n, i), Node: name, Index: i,
				Name: fmt.Sprintf("gpu%d", i), Model: "a100-80g", Healthy: true,
			})
		}
	}
	return cfg
}

func newFleet(t interface{ Fatal(...any) }, c clock.Clock) *sim.Fleet {
	f, err := sim.NewFleet(config(c))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestConformance(t *testing.T) {
	conformance.Run(t, func(t *testing.T) conformance.Fixture {
		v := clock.NewVirtual(noon)
		f := fixture(t, v)
		f.Step = func() {
			v.Advance(50 * time.Millisecond)
			<-time.After(time.Millisecond) // for those who woke up
		}
		return f
	})
}

// The suite's own waiting in real time is what a container runtime gets.
func TestConformanceInRealTime(t *testing.T) {
	conformance.Run(t, func(t *testing.T) conformance.Fixture { return fixture(t, clock.System{}) })
}

func fixture(t *testing.T, c clock.Clock) conformance.Fixture {
	cfg := config(c)
	cfg.Serve = greet
	f, err := sim.NewFleet(cfg)
	if err != nil {
		t.Fatal(err)
	}
	e := f.Connect()
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return conformance.Fixture{
		Engine:    e,
		Instance:  instance,
		Reconnect: func(*testing.T) engine.Engine { return f.Connect() },
		Other: func(*testing.T) (engine.Engine, string) {
			const other = "77777777-0000-4000-8000-000000000002"
			return f.ConnectAs(other), other
		},
		ImageOK:      imageOK,
		ImageMissing: "nowhere:1",
		Node:         "node0",
		User:         user(),
		Commands:     simCommands(),
		LoseEvents:   f.SetLoseEvents,
	}
}

// greet answers the first request on a connection, whatever it is.
func greet(c net.Conn, _ engine.Allocation, _ uint16) {
	if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
		_, _ = io.WriteString(c, "HTTP/1.0 200 OK\r\n\r\nhello\n") // the suite sees what arrives
	}
}

func user() engine.User {
	return engine.User{Name: "ada", UID: 5001, GID: 5001, Home: "/home/ada", Shell: "/bin/bash"}
}

func simCommands() conformance.Commands {
	return conformance.Commands{
		Exit:         func(code int) []string { return []string{"sh", "-c", fmt.Sprintf("exit %d", code)} },
		Print:        conformance.ShellCommands().Print,
		UntilTerm:    []string{"sim", "forever", "out=ready", "trap-term=0"},
		IgnoreTerm:   []string{"sim", "forever", "out=ready", "ignore-term"},
		Sleep:        []string{"python", "train.py"},
		PrintEnv:     conformance.ShellCommands().PrintEnv,
		PrintWorkdir: []string{"pwd"},
		Copy:         []string{"cat"},
		Sizes:        []string{"sim", "forever", "sizes"},
		Busy:         []string{"sim", "forever", "out=ready", "cpu=1"},
		Listen:       func(port uint16) []string { return []string{"sim", "forever", fmt.Sprint("listen=", port)} },
		NotFound:     []string{"sim", "not-found"},
		MemoryHog:    []string{"sim", "run=1s", "oom"},
	}
}
