package terminal

import (
	"bytes"
	"strings"
	"testing"
)

const reset = "\x1b[!p\x1b[0m"

func TestRestore(t *testing.T) {
	tests := map[string]struct{ before, kept, want string }{
		"nothing":                   {"", "", ""},
		"text and colours":          {"", "a\x1b[31mb\x1b[0m\r\n", "a\x1b[31mb\x1b[0m\r\n"},
		"where is the cursor":       {"", "a\x1b[6nb", "ab"},
		"what are you":              {"", "\x1b[c\x1b[>c\x1b[=c\x1bZ\x05x", "x"},
		"modes and settings":        {"", "\x1b[?2004$p\x1b[>q\x1b[?u\x1bP$qm\x1b\\\x1bP+q544e\x1b\\x", "x"},
		"what is your colour":       {"", "\x1b]11;?\x07\x1b]4;1;?\x1b\\x", "x"},
		"a title is kept":           {"", "\x1b]0;what?\x07x", "\x1b]0;what?\x07x"},
		"the clipboard is not":      {"", "\x1b]52;c;aGk=\x07x", "x"},
		"no bell rings again":       {"", "a\ab", "ab"},
		"window operations":         {"", "\x1b[14t\x1b[8;50;50tx", "x"},
		"modes from before":         {"\x1b[?1049h\x1b[?25l\x1b=\x1b[2;5r\x1b(0", "x", "\x1b[?1049h\x1b[?25l\x1b=\x1b(0\x1b[2;5rx"},
		"modes that ended before":   {"\x1b[?1049h\x1b[?1049l\x1b[?25l\x1b[?25h", "x", "x"},
		"several modes at once":     {"\x1b[?1000;1006;2004h", "x", "\x1b[?1000h\x1b[?1006h\x1b[?2004hx"},
		"all is reset":              {"\x1b[?1049h\x1b=\x1bc", "x", "x"},
		"cut within a sequence":     {"a\x1b[3", "1mx", "\x1b[31mx"},
		"cut within a question":     {"a\x1b[", "6nx", "x"},
		"cut within a title":        {"a\x1b]0;ti", "tle\ax", "\x1b]0;title\ax"},
		"cut within a character":    {"\xe2\x82", "\xacx", "x"},
		"ends within a sequence":    {"", "x\x1b[3", "x\x1b[3"},
		"ends within a title":       {"", "x\x1b]0;t", "x\x1b]0;t"},
		"a title without an end":    {"", "\x1b]0;" + strings.Repeat("t", 2*maxSequence) + "\ax", "x"},
		"void":                      {"", "\x1b[3\x18x", "x"},
		"broken off by another":     {"", "\x1b]0;t\x1b[31mx", "\x1b[31mx"},
		"character sets":            {"", "\x1b(0q\x1b(B", "\x1b(0q\x1b(B"},
		"a picture isn't shown":     {"", "\x1bPq#0;2;0;0;0\x1b\\x", "x"},
		"an escape with 3 bytes":    {"", "\x1b#8x", "\x1b#8x"},
		"a line feed within one":    {"", "\x1b[3\n1\x05mx", "\n\x1b[31mx"},
		"a question within a title": {"", "\x1b]0;t\x05\ax", "\x1b]0;t\ax"},
		"a soft reset":              {"\x1b[?1h\x1b[?1000h\x1b[2;3r\x1b[!p", "x", "\x1b[?1000hx"},
		"a bell within a DCS is it": {"", "\x1bPa\ab\x1b\\x", "x"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var before scanner
			before.scan([]byte(tt.before), nil)
			got := restore(before, func(use func([]byte)) { use([]byte(tt.kept)) })
			if string(got) != reset+tt.want {
				t.Errorf("got %q, want %q after the reset", got, tt.want)
			}
		})
	}
}

// FuzzRestore: whatever an output is, and wherever it is cut, nothing in what is shown asks
// the terminal a question, and how it comes in pieces makes no difference.
func FuzzRestore(f *testing.F) {
	f.Add([]byte("a\x1b[31mb\x1b]0;t\x07\x1b[6n\x1bPq\x1b\\"), 3)
	f.Add([]byte("\x1b[?1049h\x1b[?25l\x1b[c\xe2\x82\xac"), 9)
	f.Fuzz(func(t *testing.T, out []byte, cut int) {
		cut = max(0, min(cut, len(out)))
		var whole, pieces scanner
		whole.scan(out[:cut], nil)
		for i := range cut {
			pieces.scan(out[i:i+1], nil)
		}
		a := restore(whole, func(use func([]byte)) { use(out[cut:]) })
		b := restore(pieces, func(use func([]byte)) {
			for i := cut; i < len(out); i++ {
				use(out[i : i+1])
			}
		})
		if !bytes.Equal(a, b) {
			t.Fatalf("whole %q, in pieces %q", a, b)
		}
		for _, question := range []string{"\x1b[6n", "\x1b[c", "\x1b[0c", "\x1b[>c", "\x1bZ", "\x05"} {
			// within a title that isn't complete it isn't one
			if bytes.Contains(a, []byte(question)) && !bytes.ContainsAny(a, "\x9d") && !unfinished(a) {
				t.Errorf("%q asks %q", a, question)
			}
		}
	})
}

// unfinished reports whether a string that could hold anything is still open.
func unfinished(b []byte) bool {
	var s scanner
	s.scan(b, nil)
	return s.state == str || s.state == strEnd
}
