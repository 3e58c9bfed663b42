package sequencer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"croft.dev/croft/api/v1/codes"
	"croft.dev/croft/internal/fault"
	"croft.dev/croft/internal/store"
	"croft.dev/croft/internal/store/storetest"
	"croft.dev/croft/internal/world"
)

var postgres storetest.Server

func TestMain(m *testing.M) {
	code := m.Run()
	postgres.Stop()
	os.Exit(code)
}

// flaky is a store that fails at will.
type flaky struct {
	*store.Store
	commit     string // what becomes of the next commit
	unreadable int    // so many calls of Head fail
}

// The fates of a commit.
var fates = []string{"", "", "", "away", "lost after", "lost before", "deadlock"}

func (f *flaky) Commit(ctx context.Context, all []store.Batch) error {
	fate := f.commit
	f.commit = ""
	switch fate {
	case "away", "lost before":
		return errAway
	case "deadlock":
		return errors.New("not one of the errors that are known")
	}
	if err := f.Store.Commit(ctx, all); err != nil || fate == "" {
		return err
	}
	return errAway // after it was committed
}

func (f *flaky) Head(ctx context.Context) (store.Head, error) {
	if f.unreadable > 0 {
		f.unreadable--
		return store.Head{}, errAway
	}
	return f.Store.Head(ctx)
}

// promise is what a caller was told about a named effect.
type promise struct {
	key  string
	code codes.Code // of the answer; empty: done
	seq  int64
}

// model drives a sequencer on a real database, with crashes, and remembers what it
// promised.
type model struct {
	seq      *Sequencer
	flaky    *flaky
	now      int64
	names    int
	promises map[string][]promise // by the effect's name
}

func (m *model) reload(t *rapid.T) {
	w := world.New()
	head, err := m.flaky.Load(context.Background(), func(c world.Change) { w.Fold([]world.Change{c}) })
	if err != nil {
		t.Fatal(err)
	}
	m.seq = New(Config{World: w, Head: head, Store: m.flaky, Clock: func() int64 { return m.now }})
}

// step processes one batch of random commands under a random fate.
func (m *model) step(t *rapid.T) {
	m.now += rapid.Int64Range(-5, 1000).Draw(t, "time")
	kinds := rapid.SliceOfN(rapid.SampledFrom([]string{
		"submit", "submit", "submit", "end", "account", "limit", "refuse", "reject", "skip", "panic", "poison",
	}), 1, 8).Draw(t, "commands")
	fate := rapid.SampledFrom(fates).Draw(t, "fate")
	m.flaky.commit = fate
	if fate == "lost after" || fate == "lost before" {
		m.flaky.unreadable = rapid.IntRange(0, 3).Draw(t, "unreadable")
	}
	var reqs []*request
	for _, kind := range kinds {
		reqs = append(reqs, m.request(t, kind))
	}
	if err := m.seq.process(reqs); err != nil {
		t.Fatalf("the sequencer ended: %v", err)
	}
	m.flaky.commit = ""
	for _, r := range reqs {
		m.note(t, r, fate == "deadlock" && len(reqs) == 1)
	}
}

// request makes a command with a name of its own, or with a key repeats a former.
func (m *model) request(t *rapid.T, kind string) *request {
	m.names++
	name, key := fmt.Sprintf("n%d", m.names), Key{}
	if rapid.Bool().Draw(t, "with key") {
		if m.names > 1 && rapid.Bool().Draw(t, "again") {
			name = fmt.Sprintf("n%d", max(1, m.names-rapid.IntRange(0, 20).Draw(t, "back")))
		}
		key = Key{Name: name}
	}
	r := &request{actor: ada, cmd: test{Do: kind, Name: name}, done: make(chan reply, 1)}
	if key.Name != "" {
		r.key, r.digest = joinKey(ada, r.cmd.Kind(), key)
	}
	return r
}

// note remembers an answer. A command may fail inside if it alone met an error of
// the store that isn't known.
func (m *model) note(t *rapid.T, r *request, mayFail bool) {
	got := <-r.done
	p := promise{key: r.key, seq: got.answer.Seq}
	if got.err != nil {
		p.code = fault.Of(got.err)
	}
	cmd := r.cmd.(test)
	want := map[string][]codes.Code{
		"reject": {codes.Denied}, "panic": {codes.Internal}, "poison": {codes.Internal}, "refuse": {codes.Refused, ""},
	}[cmd.Do]
	if want == nil {
		want = []codes.Code{""}
	}
	failed := mayFail && p.code == codes.Internal
	if !failed && p.code != codes.Unavailable && p.code != want[0] && p.code != want[len(want)-1] {
		t.Fatalf("%+v answers %q: %v", cmd, p.code, got.err)
	}
	if cmd.Do == "submit" || cmd.Do == "refuse" {
		name := cmd.Do + " " + cmd.Name
		m.promises[name] = append(m.promises[name], p)
	}
}

// checkWorld compares what is loaded with the world, or with the one that may have
// been committed.
func (m *model) checkWorld(t *rapid.T) {
	loaded := world.New()
	head, err := m.flaky.Load(context.Background(), func(c world.Change) { loaded.Fold([]world.Change{c}) })
	if err != nil {
		t.Fatal(err)
	}
	loaded.Seq, loaded.Now = head.Seq, head.At
	want := m.seq.current
	if u := m.seq.unsettled; u != nil && head == u.head {
		want = u.world
	}
	if diff := cmp.Diff(storetest.Dump(want), storetest.Dump(loaded)); diff != "" {
		t.Fatalf("(-world +loaded):\n%s", diff)
	}
	if m.seq.World().Seq != m.seq.current.Seq {
		t.Fatalf("published %d, current %d", m.seq.World().Seq, m.seq.current.Seq)
	}
}

// checkHistory compares the log and the rows with what was promised.
func (m *model) checkHistory(t *testing.T) {
	ctx := context.Background()
	head, err := m.flaky.Store.Head(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if rows, err := m.flaky.VerifyChain(ctx); err != nil || rows != head.Seq {
		t.Fatalf("the log up to %d is right up to %d: %v", head.Seq, rows, err)
	}
	effects := map[string][]int64{} // seqs by name
	jobs, err := m.flaky.Jobs(ctx, store.JobFilter{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range jobs {
		effects["submit "+j.Spec.Name] = append(effects["submit "+j.Spec.Name], j.Seq)
	}
	entries, err := m.flaky.Log(ctx, store.LogFilter{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Event.Refusal != 0 {
			r, err := m.flaky.Refusal(ctx, e.Event.Refusal)
			if err != nil {
				t.Fatal(err)
			}
			effects["refuse "+r.Spec.Name] = append(effects["refuse "+r.Spec.Name], e.Seq)
		}
	}
	for name, all := range m.promises {
		m.checkPromises(t, name, all, effects[name])
	}
}

// checkPromises: what was answered is there under its row's number; what has a key
// is there once however often it was asked for; nothing else is there, but for
// what was answered with "try again".
func (m *model) checkPromises(t *testing.T, name string, all []promise, seqs []int64) {
	perhaps, keyed := 0, false
	done := map[int64]bool{}
	for _, p := range all {
		switch p.code {
		case codes.Unavailable:
			perhaps++
		case codes.Internal:
		default:
			done[p.seq] = true
		}
		keyed = keyed || p.key != ""
	}
	for seq := range done {
		n := 0
		for _, have := range seqs {
			if have == seq {
				n++
			}
		}
		if n != 1 {
			t.Fatalf("%s: promised in row %d, is in rows %v", name, seq, seqs)
		}
	}
	if len(seqs) > len(done)+perhaps || keyed && len(all) > 1 && len(seqs) > 1+unkeyed(all) {
		t.Fatalf("%s: %+v, but rows %v", name, all, seqs)
	}
}

func unkeyed(all []promise) int {
	n := 0
	for _, p := range all {
		if p.key == "" {
			n++
		}
	}
	return n
}

func TestNothingIsLostOrDoneTwice(t *testing.T) {
	configs := map[string]func() store.Config{
		"sqlite":   func() store.Config { return store.Config{Path: filepath.Join(t.TempDir(), "croft.db")} },
		"postgres": func() store.Config { return store.Config{DSN: postgres.DSN(t)} },
	}
	for name, config := range configs {
		t.Run(name, func(t *testing.T) {
			db, err := store.Open(t.Context(), config())
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			// One database for all runs: each begins where the one before crashed.
			m := &model{flaky: &flaky{Store: db}, promises: map[string][]promise{}}
			rapid.Check(t, func(t *rapid.T) {
				m.flaky.commit, m.flaky.unreadable = "", 0
				m.reload(t)
				for range rapid.IntRange(1, 8).Draw(t, "steps") {
					m.step(t)
					m.checkWorld(t)
					if rapid.IntRange(0, 5).Draw(t, "crash") == 0 {
						m.reload(t)
						m.checkWorld(t)
					}
				}
			})
			m.checkHistory(t)
		})
	}
}
