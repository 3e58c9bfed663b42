package terminal

import (
	"bytes"
	"slices"
	"strconv"
	"unicode/utf8"
)

// scanner follows the control sequences of an output (ECMA-48, and xterm's), as far as it
// takes to begin in its midst: it knows where one ends, and which modes are set.
type scanner struct {
	state state
	seq   []byte // the sequence so far, from its ESC on; empty in plain text
	long  bool   // it has become too long, and isn't kept to its end

	modes   [len(modes)]bool // that differ from what a terminal begins with
	keypad  bool             // application keypad (DECKPAM)
	drawing bool             // G0 is line drawing
	margins string           // DECSTBM's parameters
}

type state byte

const (
	text    state = iota
	escape        // after ESC
	between       // ESC with intermediate bytes
	control       // CSI …
	str           // OSC, DCS, APC, PM or SOS …
	strEnd        // ESC within that
)

// modes are the private modes that are set again when a screen is restored. In this order:
// that of the alternate screen, which also saves the cursor, comes first.
var modes = [...]struct {
	n  int
	on bool // from the beginning
}{
	{1049, false}, {1047, false}, {47, false}, {1, false}, {6, false}, {7, true}, {25, true},
	{9, false}, {1000, false}, {1002, false}, {1003, false}, {1004, false}, {1005, false}, {1006, false}, {1015, false}, {2004, false},
}

// maxSequence bounds a sequence that is kept, in bytes: titles and links are shorter.
const maxSequence = 4 << 10

// scan follows b. With show, it gets b but for what must not be shown a second time; a
// sequence that isn't complete at the end is kept back.
func (s *scanner) scan(b []byte, show func([]byte)) {
	if show == nil {
		show = func([]byte) {}
	}
	for len(b) > 0 {
		if s.state == text {
			n := bytes.IndexAny(b, "\x05\x07\x1b")
			if n < 0 {
				n = len(b)
			}
			if n > 0 {
				show(b[:n])
				b = b[n:]
				continue
			}
			if b[0] == esc {
				s.begin()
			}
			b = b[1:] // ENQ is answered, and a bell has rung
			continue
		}
		s.step(b[0], show)
		b = b[1:]
	}
}

const (
	enq = 0x05
	bel = 0x07
	esc = 0x1b
	can = 0x18
	sub = 0x1a
)

func (s *scanner) begin() {
	s.state, s.seq, s.long = escape, append(s.seq[:0], esc), false
}

func (s *scanner) step(c byte, show func([]byte)) {
	switch {
	case c == can || c == sub: // what has begun is void
		s.state, s.seq = text, s.seq[:0]
		return
	case c == esc && s.state != str:
		s.begin()
		return
	case c < 0x20 && c != esc && c != bel: // takes effect at once, or none in a string
		if c != enq && s.state != str && s.state != strEnd {
			show([]byte{c})
		}
		return
	case c == bel && s.state != str:
		return
	case len(s.seq) < maxSequence:
		s.seq = append(s.seq, c)
	default:
		s.long = true
	}
	switch s.state {
	case escape, between:
		s.afterEscape(c, show)
	case control:
		if c >= 0x40 && c <= 0x7e {
			s.end(show)
		}
	case str:
		switch {
		case c == bel && s.seq[1] == ']':
			s.end(show)
		case c == esc:
			s.state = strEnd
		}
	case strEnd: // ESC \ ends it; with anything else a new sequence has begun
		if c == '\\' {
			s.end(show)
			return
		}
		s.begin()
		s.step(c, show)
	}
}

func (s *scanner) afterEscape(c byte, show func([]byte)) {
	switch {
	case s.state == escape && c == '[':
		s.state = control
	case s.state == escape && bytes.IndexByte([]byte("]PX^_"), c) >= 0:
		s.state = str
	case c >= 0x20 && c <= 0x2f:
		s.state = between
	default:
		s.end(show)
	}
}

// end is that of a sequence: what it changes is noted, and it is shown unless it asks
// something, which its terminal would answer as if it were typed, or does something once.
func (s *scanner) end(show func([]byte)) {
	seq, long := s.seq, s.long
	s.state, s.seq, s.long = text, s.seq[:0], false
	if long || len(seq) < 2 {
		return
	}
	switch seq[1] {
	case '[':
		s.noteControl(seq[2:len(seq)-1], seq[len(seq)-1])
		if asksControl(seq[2:len(seq)-1], seq[len(seq)-1]) {
			return
		}
	case ']':
		if asksCommand(seq[2:]) {
			return
		}
	case 'P', 'X', '^', '_':
		return
	default:
		if s.noteEscape(seq[1:]); seq[1] == 'Z' {
			return
		}
	}
	show(seq)
}

func (s *scanner) noteEscape(seq []byte) {
	switch string(seq) {
	case "c":
		*s = scanner{}
	case "=":
		s.keypad = true
	case ">":
		s.keypad = false
	case "(0":
		s.drawing = true
	case "(B":
		s.drawing = false
	}
}

func (s *scanner) noteControl(params []byte, final byte) {
	switch {
	case final == 'p' && string(params) == "!": // soft reset
		s.keypad, s.drawing, s.margins = false, false, ""
		for i, m := range modes {
			if slices.Contains([]int{1, 6, 7, 25}, m.n) {
				s.modes[i] = false
			}
		}
	case final == 'r' && bytes.Trim(params, "0123456789;") == nil && len(params) <= 16:
		s.margins = string(params)
	case (final == 'h' || final == 'l') && len(params) > 0 && params[0] == '?':
		for p := range bytes.SplitSeq(params[1:], []byte(";")) {
			n, err := strconv.Atoi(string(p))
			if err != nil {
				continue
			}
			for i, m := range modes {
				if m.n == n {
					s.modes[i] = (final == 'h') != m.on
				}
			}
		}
	}
}

// asksControl reports whether CSI … is a question: of the cursor, the device, a mode, a
// window.
func asksControl(params []byte, final byte) bool {
	private := byte(0)
	if len(params) > 0 {
		private = params[0]
	}
	switch final {
	case 'c', 'n', 't', 'x', 'y':
		return true
	case 'p', 'w':
		return bytes.IndexByte(params, '$') >= 0
	case 'q':
		return private == '>'
	case 'u', 'm', 'S':
		return private == '?'
	}
	return false
}

// asksCommand reports whether OSC … is a question, or sets the clipboard.
func asksCommand(rest []byte) bool {
	for field := range bytes.SplitSeq(bytes.TrimRight(rest, "\x07\x1b\\"), []byte(";")) {
		if string(field) == "?" {
			return true
		}
	}
	return bytes.HasPrefix(rest, []byte("52;"))
}

// prelude brings a terminal that has just been reset into the modes that are set.
func (s *scanner) prelude() []byte {
	b := []byte("\x1b[!p\x1b[0m")
	for i, m := range modes {
		if s.modes[i] {
			b = append(strconv.AppendInt(append(b, "\x1b[?"...), int64(m.n), 10), "lh"[btoi(!m.on)])
		}
	}
	if s.keypad {
		b = append(b, "\x1b="...)
	}
	if s.drawing {
		b = append(b, "\x1b(0"...)
	}
	if s.margins != "" {
		b = append(append(append(b, "\x1b["...), s.margins...), 'r')
	}
	return b
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// restore is what shows what an output has left on the screen: kept is its end, and before
// has followed all that came earlier. A sequence that was cut there is shown whole.
func restore(before scanner, kept func(use func([]byte))) []byte {
	s := before
	s.seq = slices.Clone(before.seq) // before goes on to be written to
	out := s.prelude()
	begun := len(out)
	kept(func(b []byte) {
		s.scan(b, func(part []byte) { out = append(out, part...) })
	})
	for range utf8.UTFMax - 1 { // not with the middle of a character
		if len(out) > begun && !utf8.RuneStart(out[begun]) {
			out = slices.Delete(out, begun, begun+1)
		}
	}
	if s.state != text {
		out = append(out, s.seq...) // its rest is still to come
	}
	return out
}
