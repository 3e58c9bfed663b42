package terminal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// played is a program that a test plays.
type played struct {
	mu      sync.Mutex
	changed sync.Cond
	out     bytes.Buffer
	typed   string
	sizes   []Size
	redrawn int
	ended   bool
	code    int
}

func newPlayed() *played {
	p := &played{}
	p.changed.L = &p.mu
	return p
}

func (p *played) print(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.out.WriteString(text)
	p.changed.Broadcast()
}

func (p *played) end(code int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended, p.code = true, code
	p.changed.Broadcast()
}

func (p *played) Read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.out.Len() == 0 && !p.ended {
		p.changed.Wait()
	}
	if p.out.Len() == 0 {
		return 0, io.EOF
	}
	return p.out.Read(b)
}

func (p *played) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.typed += string(b)
	return len(b), nil
}

func (p *played) Resize(s Size) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sizes = append(p.sizes, s)
}

func (p *played) Redraw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.redrawn++
}

func (p *played) HangUp() { p.end(129) }

func (p *played) Wait() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.code
}

// left is what the program has written that nobody has taken.
func (p *played) left() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.Len()
}

// bench is a keeper in a bubble of time, whose programs are played.
type bench struct {
	*testing.T
	*Keeper
	programs []*played
}

func play(t *testing.T, do func(b *bench)) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{T: t}
		b.Keeper = NewKeeper(func(string, string, Size) (Program, error) {
			b.programs = append(b.programs, newPlayed())
			return b.programs[len(b.programs)-1], nil
		})
		do(b)
		b.HangUp()
	})
}

// seen is one who has joined, and what he got.
type seen struct {
	net.Conn
	mu      sync.Mutex
	joined  []Joined
	screen  string
	output  string
	sizes   []Size
	list    []Info
	ended   *Ended
	refused *Refused
	over    bool // there is nothing to come
}

// connect says what is wanted; reads says whether what comes is read.
func (b *bench) connect(ask Hello, reads bool) *seen {
	b.Helper()
	ours, theirs := net.Pipe()
	s := &seen{Conn: ours}
	go b.Serve(theirs)
	if _, err := io.ReadFull(ours, make([]byte, len(Greeting))); err != nil {
		b.Fatal(err)
	}
	// A keeper that refuses before it has heard doesn't hear it.
	_ = ours.SetWriteDeadline(time.Now().Add(time.Second))
	go func() {
		_ = WriteJSON(ours, HelloAs, ask)
		_ = ours.SetWriteDeadline(time.Time{})
	}()
	if reads {
		go s.read()
	}
	synctest.Wait()
	b.Cleanup(func() { ours.Close() })
	return s
}

func (s *seen) read() {
	for {
		kind, data, err := ReadOne(s)
		s.mu.Lock()
		switch {
		case err != nil:
			s.over = true
		case kind == Output:
			s.output += string(data)
		case kind == Screen:
			s.screen += string(data)
		case kind == JoinedAs:
			var j Joined
			err = json.Unmarshal(data, &j)
			s.joined = append(s.joined, j)
		case kind == Resize:
			var size Size
			err = json.Unmarshal(data, &size)
			s.sizes = append(s.sizes, size)
		case kind == Exit:
			s.ended = new(Ended)
			err = json.Unmarshal(data, s.ended)
		case kind == Listing:
			err = json.Unmarshal(data, &s.list)
		case kind == RefusedFor:
			s.refused = new(Refused)
			err = json.Unmarshal(data, s.refused)
		}
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (s *seen) type_(text string) {
	_ = Write(s, Input, []byte(text))
	synctest.Wait()
}

func (s *seen) resize(cols, rows uint16) {
	_ = WriteJSON(s, Resize, Size{cols, rows})
	synctest.Wait()
}

func joining(name string) Hello { return Hello{Ask: ToJoin, Name: name, Size: Size{80, 24}} }

func TestAllSeeTheSame(t *testing.T) {
	play(t, func(b *bench) {
		first := b.connect(joining("main"), true)
		p := b.programs[0]
		p.print("$ ")
		synctest.Wait()
		second := b.connect(joining("main"), true)
		view := b.connect(Hello{Ask: ToJoin, Name: "main", View: true}, true)
		first.type_("one")
		second.type_("two")
		view.type_("not this")
		view.resize(10, 10)
		p.print("ok\r\n")
		synctest.Wait()
		if first.output != "$ ok\r\n" || second.output != "ok\r\n" || view.output != "ok\r\n" {
			t.Errorf("output %q, %q and %q", first.output, second.output, view.output)
		}
		if second.screen != reset+"$ " || view.screen != reset+"$ " || first.screen != "" {
			t.Errorf("screen %q, %q and %q", first.screen, second.screen, view.screen)
		}
		if p.typed != "onetwo" {
			t.Errorf("typed %q", p.typed)
		}
		id := first.joined[0].ID
		if diff := cmp.Diff([]Joined{{ID: id, Fresh: true}}, first.joined); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]Joined{{ID: id, Seq: 2}}, second.joined); diff != "" {
			t.Error(diff)
		}
		if p.redrawn != 1 {
			t.Errorf("redrawn %d times: for the second, not for the one who only looks", p.redrawn)
		}
		if len(b.programs) != 1 {
			t.Errorf("%d shells", len(b.programs))
		}
	})
}

func TestGoingOn(t *testing.T) {
	play(t, func(b *bench) {
		first := b.connect(joining("main"), true)
		id := first.joined[0].ID
		p := b.programs[0]
		p.print("before ")
		synctest.Wait()
		first.Close()
		p.print("and after")
		synctest.Wait()
		again := joining("main")
		again.ID, again.After = id, int64(len("before "))
		second := b.connect(again, true)
		if second.output != "and after" || second.screen != "" || second.joined[0] != (Joined{ID: id, Seq: 7}) {
			t.Errorf("output %q, screen %q, joined %+v", second.output, second.screen, second.joined)
		}
		again.After = 1000 // more than there is: somebody who doesn't know
		if third := b.connect(again, true); third.joined[0] != (Joined{ID: id, Seq: 16}) || third.screen != reset+"before and after" {
			t.Errorf("joined %+v, screen %q", third.joined, third.screen)
		}
		p.print("\r\n" + strings.Repeat("x", Kept))
		synctest.Wait()
		again.After = 7
		fourth := b.connect(again, true)
		if want := (Joined{ID: id, Seq: 16 + 2 + Kept, Lost: 11}); fourth.joined[0] != want || len(fourth.screen) != len(reset)+Kept {
			t.Errorf("joined %+v, want %+v; screen of %d bytes", fourth.joined, want, len(fourth.screen))
		}
	})
}

func TestEndIsTold(t *testing.T) {
	play(t, func(b *bench) {
		first := b.connect(joining("main"), true)
		id := first.joined[0].ID
		b.programs[0].print("bye")
		b.programs[0].end(7)
		synctest.Wait()
		if first.output != "bye" || first.ended == nil || first.ended.ExitCode != 7 || !first.over {
			t.Errorf("output %q, ended %+v", first.output, first.ended)
		}
		again := joining("main")
		again.ID, again.After = id, 1
		if late := b.connect(again, true); late.output != "ye" || late.ended == nil || late.ended.ExitCode != 7 {
			t.Errorf("who comes back sees %q, ended %+v", late.output, late.ended)
		}
		if view := b.connect(Hello{Ask: ToJoin, Name: "main", View: true}, true); view.refused == nil || view.refused.Reason != Missing {
			t.Errorf("looking at what has ended: %+v", view.refused)
		}
		fresh := b.connect(joining("main"), true)
		if !fresh.joined[0].Fresh || fresh.joined[0].ID == id || len(b.programs) != 2 {
			t.Errorf("joined %+v, %d shells", fresh.joined, len(b.programs))
		}
		if gone := b.connect(again, true); gone.refused == nil || gone.refused.Reason != Missing {
			t.Errorf("going on in what was replaced: %+v", gone.refused)
		}
	})
}

func TestSizeIsTheLatests(t *testing.T) {
	play(t, func(b *bench) {
		first := b.connect(joining("main"), true)
		p := b.programs[0]
		second := b.connect(Hello{Ask: ToJoin, Name: "main", Size: Size{100, 50}}, true)
		first.type_("x")
		second.resize(101, 51)
		for range 1000 {
			second.resize(101, 51) // no change
		}
		second.resize(0, 9)
		_ = Write(second, Resize, []byte("{"))
		_ = Write(second, 77, nil)
		second.Close()
		synctest.Wait()
		want := []Size{{100, 50}, {80, 24}, {101, 51}, {80, 24}}
		if diff := cmp.Diff(want, p.sizes); diff != "" {
			t.Errorf("sizes of the terminal (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(append([]Size{{80, 24}}, want...), first.sizes); diff != "" {
			t.Errorf("sizes that were told (-want +got):\n%s", diff)
		}
	})
}

// TestSlowOnes: who keeps up loses nothing, also of what comes at once; who doesn't read
// holds nobody up for ever, and goes on with what there is when he reads.
func TestSlowOnes(t *testing.T) {
	play(t, func(b *bench) {
		quick := b.connect(joining("main"), true)
		slow := b.connect(joining("main"), false)
		p := b.programs[0]
		var all strings.Builder
		for i := range 200_000 {
			fmt.Fprintf(&all, "%d\r\n", i)
		}
		p.print(all.String())
		synctest.Wait()
		if quick.output != all.String() || len(quick.joined) != 1 {
			t.Fatalf("the quick one has %d bytes of %d", len(quick.output), all.Len())
		}
		go slow.read()
		synctest.Wait()
		slow.mu.Lock()
		defer slow.mu.Unlock()
		last := slow.joined[len(slow.joined)-1]
		if last.Seq+int64(len(slow.output)) < int64(all.Len()) || !strings.HasSuffix(slow.screen+slow.output, "199999\r\n") {
			t.Errorf("the slow one is at %+v with %d bytes after", slow.joined, len(slow.output))
		}
	})
}

func TestNobodyReads(t *testing.T) {
	play(t, func(b *bench) {
		b.connect(joining("main"), false)
		p := b.programs[0]
		p.print(strings.Repeat("x", 4*Kept))
		synctest.Wait()
		if n := p.left(); n == 0 || n > 4*Kept {
			t.Errorf("the program wasn't held up: %d bytes left", n)
		}
		<-time.After(patience + time.Second)
		synctest.Wait()
		if n := p.left(); n != 0 {
			t.Errorf("it is held up for ever: %d bytes left", n)
		}
	})
	play(t, func(b *bench) {
		b.connect(joining("main"), true).Close()
		p := b.programs[0]
		p.print(strings.Repeat("x", 4*Kept))
		synctest.Wait()
		if n := p.left(); n != 0 {
			t.Errorf("it is held up by nobody: %d bytes left", n)
		}
	})
}

func TestBounds(t *testing.T) {
	play(t, func(b *bench) {
		for i := range MaxTerminals {
			b.connect(joining(fmt.Sprint("t", i)), true)
		}
		if s := b.connect(joining("more"), true); s.refused == nil || s.refused.Reason != TooMany {
			t.Errorf("one terminal more: %+v", s.refused)
		}
		b.programs[3].end(0)
		synctest.Wait()
		if s := b.connect(joining("more"), true); s.refused != nil || len(s.joined) != 1 {
			t.Errorf("one in the place of one that has ended: %+v", s.refused)
		}
		in := 0
		for range 10_000 {
			if s := b.connect(joining("t0"), true); s.refused == nil {
				in++
			} else if s.refused.Reason != TooMany {
				t.Fatal(s.refused)
			}
		}
		if want := MaxJoins - MaxTerminals; in != want {
			t.Errorf("%d joins, want %d", in, want)
		}
	})
}

func TestUnclear(t *testing.T) {
	play(t, func(b *bench) {
		for name, ask := range map[string]Hello{
			"nothing":   {},
			"no name":   {Ask: ToJoin},
			"a path":    {Ask: ToJoin, Name: "../main"},
			"no TERM":   {Ask: ToJoin, Name: "main", Term: "x y"},
			"no id":     {Ask: ToJoin, Name: "main", ID: "1"},
			"before it": {Ask: ToJoin, Name: "main", After: -1},
			"end what":  {Ask: ToEnd, Name: "/"},
		} {
			if s := b.connect(ask, true); s.refused == nil || s.refused.Reason != Unclear || !s.over {
				t.Errorf("%s: %+v", name, s.refused)
			}
		}
		if len(b.programs) != 0 {
			t.Errorf("%d shells were started", len(b.programs))
		}
	})
}

func TestListAndEnd(t *testing.T) {
	play(t, func(b *bench) {
		b.connect(joining("b"), true)
		a := b.connect(joining("a"), true)
		if s := b.connect(Hello{Ask: ToEnd, Name: "c"}, true); s.refused == nil || s.refused.Reason != Missing {
			t.Errorf("ending what isn't: %+v", s.refused)
		}
		if s := b.connect(Hello{Ask: ToEnd, Name: "a"}, true); s.ended == nil || s.ended.ExitCode != 129 {
			t.Errorf("ending: %+v, %+v", s.ended, s.refused)
		}
		if a.ended == nil || a.ended.ExitCode != 129 {
			t.Errorf("who is in it: %+v", a.ended)
		}
		got := b.connect(Hello{Ask: ToList}, true).list
		for i := range got {
			got[i].ID, got[i].Started = "", 0
		}
		want := []Info{{Name: "a", Size: Size{80, 24}, Ended: &Ended{129}}, {Name: "b", Size: Size{80, 24}, Joins: 1}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("list (-want +got):\n%s", diff)
		}
	})
}

func TestIdle(t *testing.T) {
	play(t, func(b *bench) {
		<-time.After(time.Minute)
		if got := b.Idle(); got != time.Minute {
			t.Errorf("idle for %v from the beginning", got)
		}
		s := b.connect(joining("main"), true)
		<-time.After(time.Minute)
		if got := b.Idle(); got != 0 {
			t.Errorf("idle for %v with somebody there", got)
		}
		s.Close()
		synctest.Wait()
		<-time.After(time.Minute)
		if got := b.Idle(); got != 0 {
			t.Errorf("idle for %v with a shell", got)
		}
		b.programs[0].end(0)
		synctest.Wait()
		b.Idle()
		<-time.After(time.Minute)
		if got := b.Idle(); got != time.Minute {
			t.Errorf("idle for %v", got)
		}
	})
}

func TestNoShell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, tt := range map[string]struct {
			err  error
			want Refused
		}{
			"refused": {&Refused{Unusable, "there is no shell"}, Refused{Unusable, "there is no shell"}},
			"failed":  {errors.New("disk full"), Refused{Unusable, "no terminal could be opened: disk full"}},
		} {
			b := &bench{T: t, Keeper: NewKeeper(func(string, string, Size) (Program, error) { return nil, tt.err })}
			if s := b.connect(joining("main"), true); s.refused == nil || *s.refused != tt.want {
				t.Errorf("%s: %+v", name, s.refused)
			}
		}
	})
}
