package shim

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"croft.dev/croft/internal/engine/cri/logfile"
)

// TestFiles goes through what the files of a step say, from its order to its end.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	f := Files(filepath.Join(dir, "3f2a9c1e-1-1.2"))
	look := func(want State) {
		t.Helper()
		got, err := f.Look()
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("error %v, state (-want +got):\n%s", err, diff)
		}
	}
	look(State{})
	spec := Spec{Labels: map[string]string{"a": "b"}, Program: Program{Argv: []string{"true"}, Env: []string{"KEY=\x01\n"}}}
	if err := f.Order(spec); err != nil {
		t.Fatal(err)
	}
	if got, err := f.ReadSpec(); err != nil || !cmp.Equal(got, spec) {
		t.Errorf("the order is %+v, %v", got, err)
	}
	if st, err := os.Stat(f.spec()); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("the order's mode is %v, %v", st.Mode(), err)
	}
	if names, err := Steps(dir); err != nil || !cmp.Equal(names, []string{"3f2a9c1e-1-1.2"}) {
		t.Errorf("steps %v, %v", names, err)
	}
	look(State{})
	lock, err := f.lock()
	if err != nil {
		t.Fatal(err)
	}
	look(State{Alive: true})
	if _, err := f.lock(); err != errTaken {
		t.Errorf("a second shim: %v", err)
	}
	at := time.Date(2026, 12, 1, 8, 0, 0, 5, time.UTC)
	if err := f.write(f.begun(), at); err != nil {
		t.Fatal(err)
	}
	look(State{Alive: true, Begun: at})
	lock.Close()
	look(State{Begun: at})
	for _, code := range []int{3, 4} { // the first counts
		if x, err := f.Settle(Exit{Code: code, Finished: at}); err != nil || x.Code != 3 {
			t.Errorf("noted %+v, %v", x, err)
		}
	}
	look(State{Begun: at, Exit: &Exit{Code: 3, Finished: at}})
	for range 2 {
		if err := f.Remove(); err != nil {
			t.Error(err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
	if names, err := Steps(filepath.Join(dir, "none")); err != nil || names != nil {
		t.Errorf("steps %v, %v", names, err)
	}
}

// TestSignalOfAnother writes the number of a process that isn't the shim.
func TestSignalOfAnother(t *testing.T) {
	f := Files(filepath.Join(t.TempDir(), "a.1"))
	lock, err := f.lock()
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	self, err := identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*note){
		"a later process":      func(n *note) { n.Start++ },
		"of an earlier life":   func(n *note) { n.Boot = "another" },
		"one that isn't there": func(n *note) { n.PID = 1 << 30 },
	} {
		n := self
		change(&n)
		if err := f.write(f.shim(), n); err != nil {
			t.Fatal(err)
		}
		// The lock is on the file that was replaced: taken anew.
		held, err := f.lock()
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Signal(15); err != nil { // it would end this test
			t.Errorf("%s: %v", name, err)
		}
		held.Close()
	}
}

func TestLines(t *testing.T) {
	at := time.Date(2026, 12, 1, 8, 0, 0, 0, time.UTC)
	long := strings.Repeat("x", maxLine)
	for name, tc := range map[string]struct {
		in   []string
		want string
	}{
		"lines":         {[]string{"a\nb\n"}, "F a|F b|"},
		"in pieces":     {[]string{"a", "b", "\nc"}, "F ab|P c|"},
		"empty":         {[]string{"\n\n"}, "F |F |"},
		"nothing":       {[]string{""}, ""},
		"just a record": {[]string{long + "\n"}, "F " + long + "|"},
		"too long":      {[]string{long + "y\n"}, "P " + long + "|F y|"},
		"no end":        {[]string{long, long}, "P " + long + "|P " + long + "|"},
	} {
		t.Run(name, func(t *testing.T) {
			l := lines{stream: "stdout"}
			var got []byte
			for _, s := range tc.in {
				got = append(got, l.add(at, []byte(s))...)
			}
			got = append(got, l.last(at)...)
			text := strings.ReplaceAll(strings.ReplaceAll(string(got), "2026-12-01T08:00:00Z stdout ", ""), "\n", "|")
			if text != tc.want {
				t.Errorf("got %.80q, want %.80q", text, tc.want)
			}
		})
	}
}

// FuzzLines puts a stream cut anywhere together again from its records.
func FuzzLines(f *testing.F) {
	f.Add([]byte("a\nb"), 1)
	f.Fuzz(func(t *testing.T, data []byte, cut int) {
		cut = max(0, min(cut, len(data)))
		l := lines{stream: "stderr"}
		records := append(l.add(time.Now(), data[:cut]), l.add(time.Now(), data[cut:])...)
		records = append(records, l.last(time.Now())...)
		var out []byte
		for line := range bytes.Lines(records) {
			r, err := logfile.Parse(bytes.TrimSuffix(line, []byte{'\n'}))
			if err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			if out = append(out, r.Text...); !r.Partial {
				out = append(out, '\n')
			}
		}
		if !bytes.Equal(out, data) {
			t.Errorf("%q became %q", data, out)
		}
	})
}

func FuzzStartTime(f *testing.F) {
	f.Add("1 (a) b) S 0 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 77 9")
	f.Fuzz(func(t *testing.T, stat string) { _, _ = startTime(stat) })
}

func TestStartTime(t *testing.T) {
	if n, err := startTime("1 (a) S) S 0 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 77 9"); n != 77 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if _, err := startTime("1 (a"); err == nil {
		t.Error("a short one is taken")
	}
}
