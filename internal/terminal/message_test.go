package terminal

import (
	"bytes"
	"errors"
	"io"
	"testing"
)

// FuzzRead: whatever comes, reading ends, and what was taken is what would be written.
func FuzzRead(f *testing.F) {
	var b bytes.Buffer
	_ = WriteJSON(&b, HelloAs, Hello{Ask: ToJoin, Name: "main", Size: Size{80, 24}})
	_ = Write(&b, Input, []byte("ls\r"))
	f.Add(b.Bytes())
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0})
	f.Add([]byte{0, 0, 0, 2, 1, 'a'})
	f.Fuzz(func(t *testing.T, in []byte) {
		r := bytes.NewReader(in)
		var out bytes.Buffer
		for {
			err := Read(r, func(kind byte, data []byte) error { return Write(&out, kind, data) })
			if err != nil {
				break
			}
		}
		if !bytes.HasPrefix(in, out.Bytes()) {
			t.Errorf("%x became %x", in, out.Bytes())
		}
	})
}

func TestRead(t *testing.T) {
	for name, tt := range map[string]struct {
		in  string
		err error
	}{
		"nothing":       {"", io.EOF},
		"half a header": {"\x00\x00", io.ErrUnexpectedEOF},
		"half a body":   {"\x00\x00\x00\x02\x01a", io.ErrUnexpectedEOF},
		"no body":       {"\x00\x00\x00\x02\x01", io.ErrUnexpectedEOF},
	} {
		t.Run(name, func(t *testing.T) {
			if _, _, err := ReadOne(bytes.NewReader([]byte(tt.in))); !errors.Is(err, tt.err) {
				t.Errorf("error %v, want %v", err, tt.err)
			}
		})
	}
	if _, _, err := ReadOne(bytes.NewReader([]byte{0, 1, 0, 1, 0})); err == nil {
		t.Error("a message that is too long was taken")
	}
	if err := Write(io.Discard, Output, make([]byte, MaxMessage+1)); err == nil {
		t.Error("a message that is too long was written")
	}
}

func TestWords(t *testing.T) {
	for s, want := range map[string]bool{
		"main": true, "a.b-c_d": true, "1": true, "": false, ".": false, "..": false, "../x": false, "a/b": false, "-x": false,
		"a b": false, "a\x00": false, "a\n": false, "ä": false,
	} {
		if got := ValidName(s); got != want {
			t.Errorf("ValidName(%q) is %v", s, got)
		}
	}
	if long := string(bytes.Repeat([]byte("a"), 65)); ValidName(long) || !ValidName(long[1:]) {
		t.Error("a name of 64 bytes is the longest")
	}
	if !ValidTerm("xterm-256color") || ValidTerm("x;y") || !ValidID("0123456789abcdef") || ValidID("0123456789abcdeF") || ValidID("") {
		t.Error("other words")
	}
}
