package cli

import (
	"io"
	"os"
	"strings"
	"time"
	"unicode"
)

// action is what to do about a signal.
type action int

const (
	actAsk    action = iota // say what the next one does
	actCancel               // cancel the job
	actLeave                // leave it alone and go
)

// interrupts is what became of the signals so far.
type interrupts struct {
	ask      bool // somebody is there to answer
	asked    bool
	stopping bool // the job is being cancelled
}

// next decides about a signal.
func (i *interrupts) next(sig os.Signal) action {
	switch {
	case i.stopping:
		return actLeave
	case sig == os.Interrupt && i.ask && !i.asked:
		i.asked = true
		return actAsk
	}
	i.stopping = true
	return actCancel
}

// progressEvery is the least time between two lines of one phase where lines
// can't be replaced.
const progressEvery = 30 * time.Second

// progress shows what is going on: on a terminal in one line that is replaced,
// elsewhere in few lines.
type progress struct {
	w       io.Writer
	inPlace bool
	now     func() time.Time
	text    string // what is shown in place
	phase   string
	last    time.Time
}

// show shows text. Where lines can't be replaced, only what is worth a line of
// its own is shown.
func (p *progress) show(text string, line bool) {
	if p.inPlace {
		if text != p.text {
			p.write("\r\x1b[K" + cut(text, 79))
			p.text = text
		}
		return
	}
	phase := strings.Join(strings.FieldsFunc(text, func(r rune) bool { return unicode.IsDigit(r) || unicode.IsSpace(r) || r == '%' }), " ")
	if !line || text == p.text || (phase == p.phase && p.now().Sub(p.last) < progressEvery) {
		return
	}
	p.text, p.phase, p.last = text, phase, p.now()
	p.write(text + "\n")
}

// clear takes the line in place away.
func (p *progress) clear() {
	if p.inPlace && p.text != "" {
		p.write("\r\x1b[K")
		p.text = ""
	}
}

func (p *progress) write(s string) { _, _ = io.WriteString(p.w, s) }
