package logfile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"croft.dev/croft/internal/engine"
	"croft.dev/croft/internal/engine/cri/logfile/rotation"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// line returns a record written i seconds after the epoch.
func line(i int, stream, tag, text string) string {
	return epoch.Add(time.Duration(i)*time.Second).Format(time.RFC3339Nano) + " " + stream + " " + tag + " " + text + "\n"
}

type collector struct {
	strings.Builder
	got chan string
}

func (*collector) Flush() error { return nil }

func (c *collector) WriteLog(_ time.Time, stream engine.Stream, data []byte) error {
	if stream == engine.Stderr {
		c.WriteString("E:")
	}
	c.Write(data)
	if c.got != nil {
		c.got <- string(data)
	}
	return nil
}

type never struct{}

func (never) Done() <-chan struct{} { return nil }

type ended chan struct{}

func (e ended) Done() <-chan struct{} { return e }

func TestParse(t *testing.T) {
	for name, tc := range map[string]struct {
		line string
		want Record
		bad  bool
	}{
		"full":           {line: "2026-01-02T03:04:05.5Z stdout F hello world", want: Record{At: epoch.Add(500 * time.Millisecond), Stream: "stdout", Text: []byte("hello world")}},
		"partial":        {line: "2026-01-02T03:04:05Z stderr P x", want: Record{At: epoch, Stream: "stderr", Partial: true, Text: []byte("x")}},
		"empty":          {line: "2026-01-02T03:04:05Z stdout F ", want: Record{At: epoch, Stream: "stdout", Text: []byte{}}},
		"empty, trimmed": {line: "2026-01-02T03:04:05Z stdout F", want: Record{At: epoch, Stream: "stdout"}},
		"more tags":      {line: "2026-01-02T03:04:05Z stdout P:x y", want: Record{At: epoch, Stream: "stdout", Partial: true, Text: []byte("y")}},
		"no stream":      {line: "2026-01-02T03:04:05Z", bad: true},
		"bad stream":     {line: "2026-01-02T03:04:05Z stdlog F x", bad: true},
		"bad tag":        {line: "2026-01-02T03:04:05Z stdout Q x", bad: true},
		"bad time":       {line: "yesterday stdout F x", bad: true},
		"nothing":        {line: "", bad: true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Parse([]byte(tc.line))
			if (err != nil) != tc.bad {
				t.Fatalf("error %v, want one: %v", err, tc.bad)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("record (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRead(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "1.log")
	put(t, path+".20260101T000000.000000000", line(0, "stdout", "F", "zero")+line(1, "stdout", "F", "one"))
	put(t, path+".20260102T000000.000000000", line(2, "stderr", "F", "two")+"garbage\n"+line(3, "stdout", "P", "thr"))
	put(t, path, line(3, "stdout", "F", "ee")+line(4, "stdout", "F", "four"))
	put(t, path+"x", line(9, "stdout", "F", "of another log"))
	const all = "zero\none\nE:two\nthree\nfour\n"
	for name, tc := range map[string]struct {
		opts engine.LogOptions
		want string
	}{
		"all":                    {engine.LogOptions{Tail: -1}, all},
		"none":                   {engine.LogOptions{Tail: 0}, ""},
		"last":                   {engine.LogOptions{Tail: 1}, "four\n"},
		"a line over two files":  {engine.LogOptions{Tail: 2}, "ee\nfour\n"},
		"from the file before":   {engine.LogOptions{Tail: 3}, "E:two\nthree\nfour\n"},
		"from the oldest":        {engine.LogOptions{Tail: 4}, "one\nE:two\nthree\nfour\n"},
		"more than there is":     {engine.LogOptions{Tail: 99}, all},
		"since":                  {engine.LogOptions{Tail: -1, Since: epoch.Add(2 * time.Second)}, "E:two\nthree\nfour\n"},
		"since after everything": {engine.LogOptions{Tail: -1, Since: epoch.Add(time.Hour)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var c collector
			if err := Read(t.Context(), path, tc.opts, never{}, &c); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, c.String()); diff != "" {
				t.Errorf("log (-want +got):\n%s", diff)
			}
		})
	}
}

// TestTailProperty compares tail, which reads backward in blocks, with counting
// from the front.
func TestTailProperty(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		lines := rapid.SliceOfN(rapid.IntRange(0, 9000), 0, 60).Draw(t, "lengths")
		n := rapid.IntRange(0, 70).Draw(t, "n")
		path := filepath.Join(dir, "log")
		var text strings.Builder
		var all []string
		for i, length := range lines {
			body := fmt.Sprint(i, strings.Repeat("x", length))
			text.WriteString(line(i, "stdout", "F", body))
			all = append(all, body+"\n")
		}
		if err := os.WriteFile(path, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		var c collector
		if err := Read(context.Background(), path, engine.LogOptions{Tail: n}, never{}, &c); err != nil {
			t.Fatal(err)
		}
		if want := strings.Join(all[max(0, len(all)-n):], ""); c.String() != want {
			t.Fatalf("last %d of %d lines: got %d bytes, want %d", n, len(all), c.Len(), len(want))
		}
	})
}

// TestFollow writes while a reader follows: before the file is there, in torn
// pieces, over a rotation, and after the end was announced.
func TestFollow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "1.log")
	c := &collector{got: make(chan string)}
	end := make(ended)
	result := make(chan error, 1)
	go func() { result <- Read(t.Context(), path, engine.LogOptions{Follow: true, Tail: -1}, end, c) }()
	expect := func(want string) {
		t.Helper()
		select {
		case got := <-c.got:
			if got != want {
				t.Fatalf("got %q, want %q", got, want)
			}
		case err := <-result:
			t.Fatalf("ended early: %v", err)
		case <-time.After(10 * time.Second):
			t.Fatalf("no %q", want)
		}
	}
	put(t, path, line(0, "stdout", "F", "a"))
	expect("a\n")

	whole := line(1, "stdout", "F", "torn")
	add(t, path, whole[:20])
	add(t, path, whole[20:])
	expect("torn\n")

	if did, err := rotation.Rotate(path, 1, epoch); err != nil || !did {
		t.Fatalf("rotate: %v, %v", did, err)
	}
	old, err := rotation.Files(path)
	if err != nil || len(old) != 1 {
		t.Fatalf("files %v, %v", old, err)
	}
	add(t, old[0], line(2, "stdout", "F", "written late"))
	expect("written late\n")
	put(t, path, line(3, "stdout", "F", "new file"))
	expect("new file\n")

	add(t, path, line(4, "stdout", "F", "last"))
	close(end)
	expect("last\n")
	if err := <-result; err != nil {
		t.Fatal(err)
	}
}

// TestLastLines ends while whoever writes the log still has it open: what he writes before
// he closes it belongs to it.
func TestLastLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "1.log")
	put(t, path, line(0, "stdout", "F", "first"))
	w, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	end := make(ended)
	close(end)
	c := &collector{got: make(chan string, 10)}
	result := make(chan error, 1)
	go func() { result <- Read(t.Context(), path, engine.LogOptions{Follow: true, Tail: -1}, end, c) }()
	<-c.got
	time.AfterFunc(4*poll, func() {
		_, werr := w.WriteString(line(1, "stdout", "F", "last"))
		if err := errors.Join(werr, w.Close()); err != nil {
			t.Error(err)
		}
	})
	if err := <-result; err != nil || c.String() != "first\nlast\n" {
		t.Errorf("read %q, %v", c.String(), err)
	}
}

func TestFollowCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := Read(ctx, filepath.Join(t.TempDir(), "none"), engine.LogOptions{Follow: true}, never{}, &collector{})
	if err != context.Canceled {
		t.Errorf("error %v, want the context's", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("2026-01-02T03:04:05.5Z stdout F hello"))
	f.Add([]byte("2026-01-02T03:04:05Z stderr P:x "))
	f.Add([]byte("   "))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := Parse(text)
		if err == nil && !strings.HasSuffix(string(text), string(r.Text)) {
			t.Errorf("text %q is not the end of %q", r.Text, text)
		}
	})
}

// FuzzRead hands arbitrary bytes to the reader and to tail.
func FuzzRead(f *testing.F) {
	f.Add([]byte(line(0, "stdout", "F", "a")+line(1, "stdout", "P", "b")), 1)
	f.Add([]byte("\n\n\n"), 2)
	f.Fuzz(func(t *testing.T, text []byte, n int) {
		path := filepath.Join(t.TempDir(), "log")
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
		var c collector
		if err := Read(t.Context(), path, engine.LogOptions{Tail: n}, never{}, &c); err != nil {
			t.Error(err)
		}
		if n >= 0 && strings.Count(c.String(), "\n") > n && !strings.Contains(string(text), "\r") {
			t.Errorf("tail %d gave %q", n, c.String())
		}
	})
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func add(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
}
