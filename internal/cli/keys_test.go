package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

func TestParseKeys(t *testing.T) {
	for text, want := range map[string]string{
		"ctrl-p,ctrl-q": "\x10\x11", "ctrl-P,CTRL-Q": "\x10\x11", "a": "a", "ctrl-@": "\x00", "ctrl-[,x,~": "\x1bx~", `ctrl-\,ctrl-],ctrl-^,ctrl-_`: "\x1c\x1d\x1e\x1f",
		"": "", "ctrl-": "", "ctrl-1": "", "ab": "", "a,": "", " ": "", "é": "", "ctrl-p ctrl-q": "",
	} {
		got, err := parseKeys(text)
		if string(got) != want || (err == nil) != (want != "") {
			t.Errorf("parseKeys(%q) = %q, %v; want %q", text, got, err, want)
		}
	}
}

func TestDetector(t *testing.T) {
	for name, tt := range map[string]struct {
		keys  string
		typed string // the parts, with | between them
		want  string
		kept  string
		found bool
	}{
		"nothing":               {"\x10\x11", "ls\n", "ls\n", "", false},
		"the sequence":          {"\x10\x11", "ls\n\x10\x11", "ls\n", "", true},
		"and what follows":      {"\x10\x11", "\x10\x11rm\n", "", "", true},
		"over two reads":        {"\x10\x11", "a\x10|\x11b", "a", "", true},
		"only its beginning":    {"\x10\x11", "a\x10", "a", "\x10", false},
		"another key after it":  {"\x10\x11", "\x10x", "\x10x", "", false},
		"twice its beginning":   {"\x10\x11", "\x10\x10\x11", "\x10", "", true},
		"its end alone":         {"\x10\x11", "\x11", "\x11", "", false},
		"a beginning within it": {"aab", "aaab", "a", "", true},
		"none is asked for":     {"", "\x10\x11", "\x10\x11", "", false},
		"one key":               {"q", "aq", "a", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			d := detector{keys: []byte(tt.keys)}
			var got []byte
			found := false
			for part := range strings.SplitSeq(tt.typed, "|") {
				pass, end := d.next([]byte(part))
				got = append(got, pass...)
				if found = found || end; found {
					break
				}
			}
			if kept := d.flush(); string(got) != tt.want || found != tt.found || string(kept) != tt.kept {
				t.Errorf("got %q, kept %q, found %v", got, kept, found)
			}
		})
	}
}

// However what is typed is cut into reads, the first sequence in it is found, and all
// before it is passed on.
func FuzzDetector(f *testing.F) {
	f.Add([]byte("\x10\x11"), []byte("ab\x10\x10\x11c"), uint8(2))
	f.Add([]byte("aab"), []byte("aaaaab"), uint8(1))
	f.Add([]byte("abab"), []byte("abaabab"), uint8(3))
	f.Fuzz(func(t *testing.T, keys, typed []byte, size uint8) {
		if len(keys) == 0 {
			return
		}
		want, _, sequence := bytes.Cut(typed, keys)
		d := detector{keys: keys}
		var got []byte
		found := false
		for rest := typed; len(rest) > 0 && !found; {
			n := min(int(size)+1, len(rest))
			var pass []byte
			pass, found = d.next(rest[:n])
			got, rest = append(got, pass...), rest[n:]
		}
		got = append(got, d.flush()...)
		if found != sequence || !bytes.Equal(got, want) {
			t.Errorf("keys %q, typed %q by %d: got %q, %v; want %q, %v", keys, typed, size, got, found, want, sequence)
		}
	})
}

func FuzzParseKeys(f *testing.F) {
	f.Add(defaultKeys)
	f.Add("ctrl-\x00,")
	f.Fuzz(func(t *testing.T, text string) {
		if keys, err := parseKeys(text); err == nil && len(keys) != strings.Count(text, ",")+1 {
			t.Errorf("%q are %d keys", text, len(keys))
		}
	})
}

// steady gives one part of an input at each Read, then its end.
type steady struct{ parts []string }

func (s *steady) Read(p []byte) (int, error) {
	if len(s.parts) == 0 {
		return 0, io.EOF
	}
	n := copy(p, s.parts[0])
	s.parts = s.parts[1:]
	return n, nil
}

func TestTypist(t *testing.T) {
	for name, tt := range map[string]struct {
		parts []string
		want  string
		err   error
	}{
		"an input to its end": {[]string{"a", "b"}, "ab", nil},
		"the sequence":        {[]string{"a\x10", "\x11", "b"}, "a", errLeft},
		"a key at the end":    {[]string{"a\x10"}, "a\x10", nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := newTypist(t.Context(), newInput(t.Context(), &steady{tt.parts}), []byte("\x10\x11"), false)
			r.late = func(time.Duration) <-chan time.Time { return nil }
			got, err := io.ReadAll(r)
			if string(got) != tt.want || !errors.Is(err, tt.err) {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

// A key that may begin the sequence isn't kept back for ever.
func TestTypistLetsKeysGo(t *testing.T) {
	in, feed := io.Pipe()
	late := make(chan time.Time)
	r := newTypist(t.Context(), newInput(t.Context(), in), []byte("\x10\x11"), false)
	r.late = func(time.Duration) <-chan time.Time { return late }
	go func() {
		_, _ = feed.Write([]byte("\x10"))
		late <- time.Time{}
		_, _ = feed.Write([]byte("\x11"))
		_ = feed.Close()
	}()
	if got, err := io.ReadAll(r); string(got) != "\x10\x11" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

// On a terminal the end of an input isn't passed on; the end of being attached is, and
// the next who comes gets what is typed then.
func TestTypistStays(t *testing.T) {
	in := newInput(t.Context(), &steady{[]string{"one"}})
	ctx, cancel := context.WithCancel(t.Context())
	r := newTypist(ctx, in, nil, true)
	b := make([]byte, 10)
	if n, err := r.Read(b); string(b[:n]) != "one" || err != nil {
		t.Fatalf("read %q, %v", b[:n], err)
	}
	ended := make(chan error)
	go func() { _, err := r.Read(b); ended <- err }()
	select {
	case err := <-ended:
		t.Fatalf("the end came: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	cancel()
	if err := <-ended; err != io.EOF {
		t.Errorf("got %v", err)
	}
}
