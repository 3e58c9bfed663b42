package keep

import (
	"bytes"
	"strings"
)

// Brief is the beginning of what a keeper, or who starts it, says: for the text of an error.
type Brief struct{ text bytes.Buffer }

const maxBrief = 512

// Write never fails.
func (b *Brief) Write(p []byte) (int, error) {
	b.text.Write(p[:min(len(p), max(0, maxBrief-b.text.Len()))])
	return len(p), nil
}

// String is one line of printable text.
func (b *Brief) String() string {
	text := strings.TrimPrefix(strings.TrimSpace(b.text.String()), "croft: ")
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
}
