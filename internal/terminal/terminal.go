package terminal

import (
	"io"
	"slices"
	"sync"
	"time"
)

// Program is a shell on a pseudo terminal. Read returns io.EOF once the shell has ended and
// its output was read; Write gives up after some time when nothing reads what is typed.
type Program interface {
	io.ReadWriter
	Resize(Size)
	Redraw()   // has what runs in the foreground draw its screen again
	HangUp()   // ends what runs, as a terminal that is closed does, and then what ignores that
	Wait() int // the shell's exit code, after Read has ended
}

// held is a terminal of a keeper's. Its output lies in a ring in which each who joined has
// a place of his own: nothing waits for him, and nothing is kept for him.
type held struct {
	name    string
	id      string
	started int64 // ns since the epoch
	program Program

	mu      sync.Mutex
	changed sync.Cond // there is output, a place has moved, a size is another, or it has ended
	out     ring
	before  scanner // has followed what the ring has lost
	size    Size
	joins   map[*join]bool
	uses    int64 // counts what is typed and resized
	ended   *Ended
	endedAt time.Time
}

// join is one who has joined.
type join struct {
	conn  io.ReadWriteCloser
	fresh bool // the terminal was made for him
	view  bool
	size  Size      // of the terminal there
	used  int64     // when it was last typed or resized there, by uses
	at    int64     // the next byte for him
	lost  int64     // bytes that he asked for and that aren't kept
	moved time.Time // when he got something
	told  Size      // what he was told of the terminal's
	stage stage
}

// stage is how far one who has joined has come.
type stage byte

const (
	arriving stage = iota // he is to be told where the output goes on for him
	behind                // likewise, after the screen
	along                 // he gets what comes
	gone
)

// patience is how long a program waits for the fastest of those who have joined.
const patience = 10 * time.Second

func newHeld(name, id string, now time.Time, size Size, p Program) *held {
	h := &held{name: name, id: id, started: now.UnixNano(), program: p, size: size, out: ring{limit: Kept}, joins: map[*join]bool{}}
	h.changed.L = &h.mu
	return h
}

// pump takes what the program writes until it has ended.
func (h *held) pump() {
	buf := make([]byte, 16<<10)
	for {
		h.awaitRoom()
		n, err := h.program.Read(buf)
		h.mu.Lock()
		h.out.write(buf[:n], func(lost []byte) { h.before.scan(lost, nil) })
		h.changed.Broadcast()
		h.mu.Unlock()
		if err != nil {
			break
		}
	}
	code := h.program.Wait()
	h.mu.Lock()
	h.ended, h.endedAt = &Ended{ExitCode: code}, time.Now()
	h.changed.Broadcast()
	h.mu.Unlock()
}

// awaitRoom holds the program up while the fastest of those who have joined has much of its
// output still before him, so that one who keeps up loses nothing. Who doesn't move at all
// holds up nobody, nor does who is slower than another.
func (h *held) awaitRoom() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		var first *join
		for j := range h.joins {
			if first == nil || j.at > first.at {
				first = j
			}
		}
		if first == nil || h.out.end-first.at <= Kept/2 {
			return
		}
		left := patience - time.Since(first.moved)
		if left <= 0 {
			return
		}
		wake := time.AfterFunc(left, func() {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.changed.Broadcast()
		})
		h.changed.Wait()
		wake.Stop()
	}
}

// enter adds one who joins, from a place in the output if he has one.
func (h *held) enter(j *join, ask Hello) {
	h.mu.Lock()
	defer h.mu.Unlock()
	j.view, j.size, j.moved, j.stage = ask.View, ask.Size, time.Now(), behind
	switch {
	case ask.ID == "" || ask.After > h.out.end:
		j.at = h.out.end
	case ask.After < h.out.start:
		j.lost = h.out.start - ask.After
	default:
		j.at, j.stage = ask.After, arriving
	}
	h.joins[j] = true
	if j.view || h.ended != nil {
		return
	}
	if h.use(j); j.stage == behind && !j.fresh {
		h.program.Redraw()
	}
}

// leave takes one away who has joined, and has those who stay decide the size.
func (h *held) leave(j *join) {
	h.mu.Lock()
	defer h.mu.Unlock()
	j.stage = gone
	delete(h.joins, j)
	h.fit()
	h.changed.Broadcast()
}

// use notes that somebody types or resizes: the terminal has his size then.
func (h *held) use(j *join) {
	h.uses++
	j.used = h.uses
	h.fit()
}

// fit gives the terminal the size of the latest who used it, of those that have one.
func (h *held) fit() {
	var last *join
	for j := range h.joins {
		if !j.view && j.size.Cols > 0 && j.size.Rows > 0 && (last == nil || j.used > last.used) {
			last = j
		}
	}
	if last == nil || last.size == h.size || h.ended != nil {
		return
	}
	h.size = last.size
	h.program.Resize(h.size)
	h.changed.Broadcast()
}

// send hands on what there is until the terminal has ended, or who joined has gone.
func (h *held) send(j *join) error {
	for {
		h.mu.Lock()
		for !h.due(j) {
			h.changed.Wait()
		}
		do, last := h.next(j)
		h.mu.Unlock()
		if err := do(); err != nil || last {
			return err
		}
	}
}

// due reports whether there is something for one who has joined. h.mu is held.
func (h *held) due(j *join) bool {
	return j.stage != along || j.at != h.out.end || j.told != h.size || h.ended != nil
}

// next is what one who has joined gets now, and whether that is all. h.mu is held, and must
// not be when it is done.
func (h *held) next(j *join) (do func() error, last bool) {
	if j.stage == along && j.at < h.out.start { // too slow
		j.stage, j.lost = behind, h.out.start-j.at
	}
	switch j.stage {
	case gone:
		return func() error { return nil }, true
	case arriving, behind:
		return h.welcome(j), false
	}
	switch {
	case j.told != h.size:
		size := h.size
		j.told = size
		return func() error { return WriteJSON(j.conn, Resize, size) }, false
	case j.at < h.out.end:
		buf := take()
		n := h.out.read(j.at, (*buf)[:MaxMessage])
		return func() error {
			defer give(buf)
			err := Write(j.conn, Output, (*buf)[:n])
			h.moved(j, n)
			return err
		}, false
	}
	end := *h.ended
	return func() error { return WriteJSON(j.conn, Exit, end) }, true
}

// moved notes that one who has joined has got bytes.
func (h *held) moved(j *join, n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	j.at += int64(n)
	j.moved = time.Now()
	h.changed.Broadcast()
}

// welcome tells one who joins where the output goes on for him, and shows him the screen
// if it isn't where he left it. h.mu is held.
func (h *held) welcome(j *join) func() error {
	var screen []byte
	if j.stage == behind {
		if h.out.end > 0 {
			screen = restore(h.before, func(use func([]byte)) { h.out.each(h.out.start, h.out.end, use) })
		}
		j.at = h.out.end
	}
	as := Joined{ID: h.id, Seq: j.at, Lost: j.lost, Fresh: j.fresh}
	j.stage, j.lost = along, 0
	return func() error {
		if err := WriteJSON(j.conn, JoinedAs, as); err != nil {
			return err
		}
		for part := range slices.Chunk(screen, MaxMessage) {
			if err := Write(j.conn, Screen, part); err != nil {
				return err
			}
		}
		return nil
	}
}
