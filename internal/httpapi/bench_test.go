package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	v1 "croft.dev/croft/api/v1"
	"croft.dev/croft/internal/command"
	"croft.dev/croft/internal/sequencer"
	"croft.dev/croft/internal/world"
)

// decider decides at once and keeps nothing: what is left is the transport.
type decider struct {
	Sequencer
	world atomic.Pointer[world.World]
}

func (d *decider) World() *world.World { return d.world.Load() }

func (d *decider) Do(_ context.Context, a sequencer.Actor, cmd world.Command, _ sequencer.Key) (sequencer.Answer, error) {
	w := d.world.Load()
	out, err := cmd.Decide(w, world.Context{Seq: w.Seq + 1, Now: w.Now, Principal: w.Principal(a.User, a.Token, w.Now)})
	return sequencer.Answer{Result: out.Result, Seq: w.Seq + 1, At: w.Now}, err
}

// waiting is a world in which n jobs wait.
func waiting(b *testing.B, h *harness, n int) *world.World {
	b.Helper()
	enough := h.seq.World().Copy()
	ada, _ := enough.Tenancy.User("ada")
	spec, err := h.parse(example())
	if err != nil {
		b.Fatal(err)
	}
	showback := "showback"
	put := func(p func(*world.World) (world.Outcome, error)) {
		out, err := p(enough)
		if err != nil {
			b.Fatal(err)
		}
		enough.Fold(out.Changes)
		enough.Seq++
	}
	root, _ := enough.Tenancy.User("root")
	put(func(w *world.World) (world.Outcome, error) {
		return command.AccountPut{Name: "nlp", Billing: &showback}.Decide(w, world.Context{Seq: w.Seq + 1, Now: w.Now, Principal: w.Principal(root.ID, 0, w.Now)})
	})
	for range n {
		put(func(w *world.World) (world.Outcome, error) {
			return command.Submit{Spec: spec}.Decide(w, world.Context{Seq: w.Seq + 1, Now: w.Now, Principal: w.Principal(ada.ID, 0, w.Now)})
		})
	}
	return enough
}

// crowded is a server on a world in which n jobs wait.
func crowded(b *testing.B, h *harness, n int) (*Server, *decider) {
	b.Helper()
	d := &decider{}
	d.world.Store(waiting(b, h, n))
	deps := h.server.Deps
	deps.Sequencer = d
	deps.Reader = h.readerOn(d)
	s, err := New(deps)
	if err != nil {
		b.Fatal(err)
	}
	return s, d
}

// BenchmarkSubmit is one submission without the network and without the database:
// who calls, the body, the decision, the window and the answer. "decide" is the
// decision alone, to take off.
func BenchmarkSubmit(b *testing.B) {
	for _, n := range []int{0, 100_000} {
		h := newHarness(b)
		s, d := crowded(b, h, n)
		body, err := json.Marshal(example())
		if err != nil {
			b.Fatal(err)
		}
		for _, path := range []string{"/v1/jobs", "/v1/quotes"} {
			b.Run(fmt.Sprintf("%s/%d waiting", path, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					r := httptest.NewRequest("POST", path, bytes.NewReader(body))
					r.Host = "localhost"
					r.Header.Set("Authorization", "Bearer "+h.tokens["ada"])
					w := &discard{header: http.Header{}}
					s.Handler().ServeHTTP(w, r)
					if w.status >= 300 {
						b.Fatalf("status %d", w.status)
					}
				}
			})
		}
		spec, err := h.parse(example())
		if err != nil {
			b.Fatal(err)
		}
		ada, _ := d.World().Tenancy.User("ada")
		b.Run(fmt.Sprintf("decide/%d waiting", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := d.Do(b.Context(), sequencer.Actor{User: ada.ID}, command.Submit{Spec: spec}, sequencer.Key{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// discard is a ResponseWriter that keeps the status.
type discard struct {
	header http.Header
	status int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(b []byte) (int, error) { return io.Discard.Write(b) }
func (d *discard) WriteHeader(status int)      { d.status = status }

// BenchmarkDurable is whole submissions: the Go client over a unix socket, the
// sequencer, and SQLite with full sync, by 1, 8 and 64 clients at once.
func BenchmarkDurable(b *testing.B) {
	for _, clients := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("%d clients", clients), func(b *testing.B) {
			h := newHarness(b)
			uid := int64(os.Getuid())
			showback := "showback"
			h.as("root", command.UserPut{Name: "ada", UID: &uid})
			h.as("root", command.AccountPut{Name: "nlp", Billing: &showback})
			h.people.names[uid] = "ada"
			path := filepath.Join(b.TempDir(), "croft.sock")
			l, err := net.Listen("unix", path)
			if err != nil {
				b.Fatal(err)
			}
			web := h.server.HTTP(nil)
			go func() { _ = web.Serve(l) }() // ends with Close
			defer web.Close()
			c, err := v1.New(v1.Config{Server: "unix://" + path})
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close()
			var left atomic.Int64
			left.Store(int64(b.N))
			var all sync.WaitGroup
			b.ResetTimer()
			for range clients {
				all.Go(func() {
					for left.Add(-1) >= 0 {
						if _, err := c.Submit(b.Context(), example()); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			all.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "admissions/s")
		})
	}
}

// BenchmarkList is a list of all that waits, by the Go client over a unix socket.
func BenchmarkList(b *testing.B) {
	const n = 20_000
	h := newHarness(b)
	uid := int64(os.Getuid())
	h.as("root", command.UserPut{Name: "ada", UID: &uid})
	h.people.names[uid] = "ada"
	s, _ := crowded(b, h, n)
	path := filepath.Join(b.TempDir(), "croft.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		b.Fatal(err)
	}
	web := s.HTTP(nil)
	go func() { _ = web.Serve(l) }() // ends with Close
	defer web.Close()
	c, err := v1.New(v1.Config{Server: "unix://" + path})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	for _, view := range []string{"", "brief"} {
		b.Run("view="+view, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				jobs, err := v1.Collect(c.Jobs(b.Context(), v1.JobQuery{View: view, Limit: v1.MaxPage}))
				if err != nil || len(jobs) != n {
					b.Fatalf("%d jobs: %v", len(jobs), err)
				}
			}
		})
	}
}
